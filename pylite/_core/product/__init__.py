"""The product engine: rows of windows or matrices times panels, finished to the type of the output.

A product combines a source of rows (in place, lines, taps, sections), packed weights and a finish: product.pxd
describes it.  division.pxd divides it among threads; window.pxd, lines.pxd and quantized.pxd find its rows; bytes.pyx,
floats.pyx and words.pyx have the loop for 8-bit, float32 and int16 rows.  images.pyx is the base of convolutions.
"""
from pylite import _core

__path__.append(_core.LIBRARY)
