"""Stands in for ai_edge_litert.environment: the module pylite.environment itself."""
import sys

from pylite import environment

sys.modules[__name__] = environment
