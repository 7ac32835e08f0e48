"""Custom ops behind function pointers."""
from pylite.plugins.pointers import address, from_pointers

__all__ = ["address", "from_pointers"]
