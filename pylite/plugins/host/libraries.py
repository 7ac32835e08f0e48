"""Loading shared libraries with plug-ins, and pylite's own libraries with the functions that they import."""
import ctypes
import os
import sys
from contextlib import suppress
from pathlib import Path

from pylite._core.capi import hosting
from pylite._core.capi.kernels import install_guards
from pylite.errors import PluginError

HERE = Path(hosting.__file__).parent       # the build puts all libraries there
_loaded = {}        # pylite's libraries by name; neither these nor plug-ins are ever closed
_files = {}         # path of a plug-in -> (device, inode, time) of the file that was loaded


def support(name):
    """Load one of pylite's libraries, whose functions plug-ins can then import; None if it is not built."""
    if name not in _loaded:
        path = HERE / f"libpylite_{name}.so"
        mode = ctypes.RTLD_LOCAL if name == "guard" else ctypes.RTLD_GLOBAL
        _loaded[name] = ctypes.CDLL(str(path), mode) if path.exists() else None
    return _loaded[name]


def support_is_loaded(name):
    return name in _loaded


def is_loaded(path):
    """True if this process has loaded the library at `path`."""
    for name in os.fspath(path), os.path.abspath(path):
        with suppress(OSError):
            ctypes.CDLL(name, os.RTLD_NOLOAD)
            return True
    return False


def activate_guards():
    """Let the host catch C++ exceptions, if pylite was built with a C++ compiler, and faults unless PYLITE_TRAP=0."""
    library = support("guard")
    address = 0 if library is None else ctypes.addressof(ctypes.c_char.in_dll(library, "pl_cxx_guards"))
    install_guards(address, os.environ.get("PYLITE_TRAP") != "0")


def load(path):
    """Load the plug-in at `path`, and first the functions of the C API if it imports them.  OSError if that fails.

    A bare file name is searched for in the system's library folders, and then in the current folder.
    """
    path = os.fspath(path)
    if not path:        # dlopen() would give the program itself
        raise OSError("the path is empty; give the path of a shared library")
    try:
        return _open(path)
    except OSError as error:
        if os.path.basename(path) != path or not os.path.exists(path):
            raise _explained(path, error) from None
    return load(os.path.abspath(path))


def _open(path):
    file = None
    with suppress(OSError):
        status = os.stat(path)
        file = status.st_dev, status.st_ino, status.st_mtime_ns
    if _files.get(path, file) != file:
        raise OSError(f"{path} is another file than the one that this process has loaded under that name and cannot "
                      "unload: load it under another name, or in a new process")
    try:
        library = ctypes.PyDLL(path)
    except OSError as error:
        if "undefined symbol: TfLite" not in str(error) or support("opaque") is None:
            raise
        library = ctypes.PyDLL(path)
    _files[path] = file
    return library


def _explained(path, error):
    """The error of a library that cannot be loaded, with the remedy."""
    from pylite.plugins.host.symbols import machine  # for this message
    text, theirs, ours = str(error), machine(path), machine(sys.executable or "")
    if theirs and ours and theirs != ours:      # glibc says that there is no such file
        return OSError(f"{path} is a library for {theirs}, and this Python is for {ours}: install or compile the "
                       f"library for {ours}")
    if os.path.isdir(path):
        return OSError(f"{path} is a folder; give the path of a library in it")
    _, undefined, symbol = text.partition("undefined symbol: ")
    if undefined and (symbol.startswith("TfLite") or "tflite" in symbol):
        return OSError(f"{text}. pylite hosts plug-ins that keep to TensorFlow Lite's C interface for ops and "
                       "delegates; this one needs more of its runtime: link it in, or use another plug-in")
    if undefined:
        return OSError(f"{text}; link {os.path.basename(path)} with the library that defines it, as in "
                       "cc -shared -fPIC ... -lNAME")
    if "invalid ELF header" in text or "file too short" in text or "only ET_DYN" in text:       # an object file
        return OSError(f"{path} is not a shared library ({text.rpartition(': ')[2]}); compile its source with "
                       "cc -shared -fPIC")
    if "cannot open shared object file: No such file" in text:
        return OSError(f"{text}; install the library, or give its full path")
    return error


def call(function, *arguments):
    """Call a function of a plug-in: the address that it returns, or None; PluginError for a C++ exception."""
    guard = support("guard")
    arguments = [*arguments, *[None] * (4 - len(arguments))]
    address = ctypes.cast(function, ctypes.c_void_p)
    types = [ctypes.c_void_p] * 4
    if guard is None:
        return ctypes.PYFUNCTYPE(ctypes.c_void_p, *types)(address.value)(*arguments)
    text = ctypes.create_string_buffer(1024)
    guarded = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, *types, ctypes.c_char_p, ctypes.c_size_t)
    result = guarded(("pl_cxx_call", guard))(address, *arguments, text, len(text))
    if text.value:
        raise PluginError(text.value.decode("utf-8", "replace"))
    return result


def function(library, name, path):
    """The function `name` of a library; PluginError if it has none."""
    try:
        return getattr(library, name)
    except AttributeError:
        from pylite.plugins.host.symbols import hint  # for this message
        raise PluginError(f"{os.fspath(path)} does not export {name}; {hint(path)}") from None
