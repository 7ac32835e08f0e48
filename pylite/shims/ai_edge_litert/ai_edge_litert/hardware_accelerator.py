"""Stands in for ai_edge_litert.hardware_accelerator: the module pylite.hardware_accelerator itself."""
import sys

from pylite import hardware_accelerator

sys.modules[__name__] = hardware_accelerator
