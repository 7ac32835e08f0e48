"""The C host of plug-ins; host.h lists its files."""
import sys

from pylite import _core

if sys.platform == "win32":
    raise ImportError("custom ops and delegates in C and C++ run on Linux and macOS only: write them in Python "
                      "(CustomOp, PythonDelegate)", name=__name__)

_core.enter_library(__name__, __path__)
