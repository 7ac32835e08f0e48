"""Stands in for ai_edge_litert.tensor_buffer: the module pylite.tensor_buffer itself."""
import sys

from pylite import tensor_buffer

sys.modules[__name__] = tensor_buffer
