"""The product engine: rows of windows or matrices times panels, finished to the type of the output.

A product is rows (in place, lines, taps, pieces) x panels x a finish.  tasks.pxd divides it among threads; window.pxd
and lines.pxd find its rows; bytes.pyx, floats.pyx and words.pyx have one loop each, for the three types of sums.
"""
from pylite import _core

__path__.append(_core.LIBRARY)
