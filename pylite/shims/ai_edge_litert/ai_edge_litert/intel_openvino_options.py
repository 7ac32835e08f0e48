"""Stands in for ai_edge_litert.intel_openvino_options: the module pylite.accelerator_options itself."""
import sys

from pylite import accelerator_options

sys.modules[__name__] = accelerator_options
