"""Stands in for the package tensorflow, of which it has only `lite`: pylite under that name."""
from pylite import __version__ as __version__


def __getattr__(name):
    if name == "lite":
        import tensorflow.lite
        return tensorflow.lite
    raise AttributeError(f"pylite's stand-in for tensorflow has only tensorflow.lite, and no {name!r}")
