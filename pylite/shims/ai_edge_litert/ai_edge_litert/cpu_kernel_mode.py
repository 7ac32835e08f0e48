"""Stands in for ai_edge_litert.cpu_kernel_mode: the module pylite.cpu_kernel_mode itself."""
import sys

from pylite import cpu_kernel_mode

sys.modules[__name__] = cpu_kernel_mode
