"""What loading and lowering produce from a model: records of the file's contents, and calls of kernels."""
from pylite import _core

__path__.insert(0, _core.LIBRARY)    # first: all modules are in Cython
