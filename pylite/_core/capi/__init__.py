"""The C host of plug-ins; host.h lists its files."""
import sys

if sys.platform == "win32":
    raise ImportError("custom ops and delegates in C and C++ run on Linux and macOS only: write them in Python "
                      "(CustomOp, PythonDelegate)", name=__name__)
