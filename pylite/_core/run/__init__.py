"""The code that runs a model: kernels bound to memory, and the loop over them."""
from pylite import _core

__path__.insert(0, _core.LIBRARY)    # first: all modules are in Cython
