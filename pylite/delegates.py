"""Delegates in shared libraries."""
from pylite.plugins.delegates import Delegate, load_delegate

__all__ = ["Delegate", "load_delegate"]
