"""Stands in for ai_edge_litert.options: the module pylite.options itself."""
import sys

from pylite import options

sys.modules[__name__] = options
