"""Shared libraries with plug-ins: loading them, and what their symbols need of the host."""
import ctypes
import os
from pathlib import Path

from pylite.errors import PluginError

HERE = Path(__file__).parent
_loaded = {}        # libraries of pylite by name; never closed, as no plug-in ever is


def support(name):
    """One of pylite's own libraries for plug-ins, its symbols made visible to those that import them; or None."""
    if name not in _loaded:
        path = HERE / f"libpylite_{name}.so"
        mode = ctypes.RTLD_LOCAL if name == "guard" else ctypes.RTLD_GLOBAL
        _loaded[name] = ctypes.CDLL(str(path), mode) if path.exists() else None
    return _loaded[name]


def load(path, loader=ctypes.PyDLL):
    """The plug-in at `path`.  When it imports the C API's functions, those are loaded first.  OSError if all fails."""
    path = os.fspath(path)
    try:
        return loader(path)
    except OSError as error:
        if "undefined symbol: TfLite" not in str(error) or support("opaque") is None:
            raise
    return loader(path)


def function(library, name, path):
    """The function `name` of a library; PluginError when it is not there."""
    try:
        return getattr(library, name)
    except AttributeError:
        raise PluginError(f"{os.fspath(path)} does not export {name}") from None
