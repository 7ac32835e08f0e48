"""Stands in for ai_edge_litert.cpu_options: the module pylite.cpu_options itself."""
import sys

from pylite import cpu_options

sys.modules[__name__] = cpu_options
