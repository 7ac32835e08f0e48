"""What runs a model: kernels on memory, the loop over them."""
from pylite import _core

__path__.append(_core.LIBRARY)
