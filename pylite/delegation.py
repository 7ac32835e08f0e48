"""Delegates in Python."""
from pylite.plugins.delegation import DelegateFlags, DelegateGraph, DelegatePart, PythonDelegate

__all__ = ["DelegateFlags", "DelegateGraph", "DelegatePart", "PythonDelegate"]
