"""Stands in for ai_edge_litert.interpreter: the module pylite.interpreter itself."""
import sys

from pylite import interpreter

sys.modules[__name__] = interpreter
