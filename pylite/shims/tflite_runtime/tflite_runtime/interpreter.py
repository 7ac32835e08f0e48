"""Stands in for tflite_runtime.interpreter: the module pylite.interpreter itself."""
import sys

from pylite import interpreter

sys.modules[__name__] = interpreter
