"""Delegates in Python."""
from pylite.plugins.delegation import DelegateFlags
from pylite.plugins.python_delegates import DelegateGraph, DelegatePart, PythonDelegate

__all__ = ["DelegateFlags", "DelegateGraph", "DelegatePart", "PythonDelegate"]
