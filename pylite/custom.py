"""Custom ops in Python: classes and functions that run ops of a model."""
from pylite.plugins.custom import custom_op, unregister
from pylite.plugins.python_ops import CustomNode, CustomOp

__all__ = ["CustomNode", "CustomOp", "custom_op", "unregister"]
