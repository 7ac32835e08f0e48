"""Stands in for ai_edge_litert.compiled_model: the module pylite.compiled_model itself."""
import sys

from pylite import compiled_model

sys.modules[__name__] = compiled_model
