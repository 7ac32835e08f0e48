"""Stands in for the package tensorflow, of which it has `lite` alone: pylite under that name."""
from pylite import __version__ as __version__


def __getattr__(name):
    if name == "lite":
        import tensorflow.lite
        return tensorflow.lite
    raise AttributeError(f"this is pylite's stand-in for tensorflow, which has tensorflow.lite alone and no {name!r}")
