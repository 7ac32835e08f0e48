"""Shared libraries with plug-ins: loading them, and what their symbols need of the host."""
import ctypes
import os
from contextlib import suppress
from pathlib import Path

from pylite._core.capi import hosting
from pylite.errors import PluginError

HERE = Path(hosting.__file__).parent       # the build puts all libraries there
_loaded = {}        # libraries of pylite by name; never closed, as no plug-in ever is
_files = {}         # path of a plug-in -> which file that was


def support(name):
    """One of pylite's own libraries for plug-ins, its symbols made visible to those that import them; or None."""
    if name not in _loaded:
        path = HERE / f"libpylite_{name}.so"
        mode = ctypes.RTLD_LOCAL if name == "guard" else ctypes.RTLD_GLOBAL
        _loaded[name] = ctypes.CDLL(str(path), mode) if path.exists() else None
    return _loaded[name]


def support_is_loaded(name):
    return name in _loaded


def is_loaded(path):
    """Is the library at `path` in this process already?"""
    for name in os.fspath(path), os.path.abspath(path):
        with suppress(OSError):
            ctypes.CDLL(name, os.RTLD_NOLOAD)
            return True
    return False


def load(path):
    """The plug-in at `path`.  When it imports the C API's functions, those are loaded first.  OSError if all fails.

    A bare file name is looked for where the system has its libraries, and then in the current folder.
    """
    path = os.fspath(path)
    try:
        return _open(path)
    except OSError as error:
        if os.path.basename(path) != path or not os.path.exists(path):
            raise _explained(error) from None
    return load(os.path.abspath(path))


def _open(path):
    file = None
    with suppress(OSError):
        status = os.stat(path)
        file = status.st_dev, status.st_ino, status.st_mtime_ns
    if _files.get(path, file) != file:
        raise OSError(f"{path} is another file than the one that this process has loaded under that name and cannot "
                      "let go: load it under another name, or in a new process")
    try:
        library = ctypes.PyDLL(path)
    except OSError as error:
        if "undefined symbol: TfLite" not in str(error) or support("opaque") is None:
            raise
        library = ctypes.PyDLL(path)
    _files[path] = file
    return library


def _explained(error):
    """The error of a library that cannot be loaded, with a word on what is not hosted."""
    _, _, symbol = str(error).partition("undefined symbol: ")
    if symbol.startswith("TfLite") or "tflite" in symbol:
        return OSError(f"{error}. pylite hosts plug-ins that keep to TensorFlow Lite's C interface for ops and "
                       "delegates; this one needs more of its runtime: link it in, or use another plug-in")
    return error


def call(function, *arguments):
    """What a function of a plug-in returns, as an address or None; PluginError with the words of a C++ exception."""
    guard = support("guard")
    words = [*arguments, *[None] * (4 - len(arguments))]
    address = ctypes.cast(function, ctypes.c_void_p)
    types = [ctypes.c_void_p] * 4
    if guard is None:
        return ctypes.PYFUNCTYPE(ctypes.c_void_p, *types)(address.value)(*words)
    text = ctypes.create_string_buffer(1024)
    guarded = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, *types, ctypes.c_char_p, ctypes.c_size_t)
    made = guarded(("pl_cxx_call", guard))(address, *words, text, len(text))
    if text.value:
        raise PluginError(text.value.decode("utf-8", "replace"))
    return made


def function(library, name, path):
    """The function `name` of a library; PluginError when it is not there."""
    try:
        return getattr(library, name)
    except AttributeError:
        raise PluginError(f"{os.fspath(path)} does not export {name}") from None
