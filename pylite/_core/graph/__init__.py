"""What loading and lowering make of a model: records of its file, calls of kernels."""
from pylite import _core

__path__.insert(0, _core.LIBRARY)    # first: all modules are in Cython
