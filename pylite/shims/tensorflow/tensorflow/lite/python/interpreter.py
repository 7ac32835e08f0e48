"""Stands in for tensorflow.lite.python.interpreter: the module pylite.interpreter itself."""
import sys

from pylite import interpreter

sys.modules[__name__] = interpreter
