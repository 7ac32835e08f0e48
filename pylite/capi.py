"""Plug-ins made for the C API of TensorFlow Lite."""
from pylite.plugins.capi import get_include, load_custom_ops

__all__ = ["get_include", "load_custom_ops"]
