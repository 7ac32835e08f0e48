"""The modules in Cython, and how Python finds them.

Two shared libraries hold the modules in Cython: one for this package and its folders, one for `capi`.  A library is an
entry of the `__path__` of its packages, and `sys.path_importer_cache` has the finder of its modules.  If a program
empties that cache, a hook of `sys.path_hooks` makes the finder again.  Python asks such a hook once for each new entry
of a path, not at each import of the host program.

Sources that are not built, for example a checkout in the working folder, give way to an installed pylite.
"""
import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec

# A file of the distribution `pylite`, which is another project, may have replaced the package's first file.
if getattr(sys.modules["pylite"], "__distribution__", None) != "pylite-runtime":
    raise ImportError(
        f"{getattr(sys.modules['pylite'], '__file__', None) or 'a folder without __init__.py'} is not part of "
        "pylite-runtime: the distribution 'pylite' is another project that installs into the same folder. Remove both, "
        "then install the right one: pip uninstall pylite pylite-runtime && pip install pylite-runtime", name="pylite")


class _Library:
    """Finds modules in Cython by their PyInit functions in one shared library."""

    def __init__(self, file):
        if file not in _libraries:
            raise ImportError("not a library of pylite's")
        self.file = file

    def find_spec(self, name, target=None):
        sys.modules["pylite"]._promote()    # the modules that were imported since the last one from the library
        spec = ModuleSpec(name, ExtensionFileLoader(name, self.file), origin=self.file)
        spec.has_location = True
        return spec


def enter_library(package: str, path: "list[str]") -> str:
    """Let Python find a package's modules in its library `_library`, whose file becomes an entry of `path`."""
    name = package + "._library"
    for suffix in EXTENSION_SUFFIXES:
        file = f"{path[0]}/_library{suffix}"
        if os.path.exists(file):
            break
    else:       # in an editable install, meson-python's finder knows where the libraries are; all take 0.4 ms
        spec = next((spec for finder in sys.meta_path if (spec := finder.find_spec(name, path))), None)
        if spec is None or spec.origin is None:
            return enter_library(package, _installed(name, path))
        file = spec.origin
    _libraries.add(file)
    sys.path_importer_cache[file] = _Library(file)      # zipimport's hook would read the end of the file first
    path.append(file)
    return file


def _installed(name, path):
    """Take all modules from an installed pylite instead of unbuilt sources, which Python finds first in a checkout.

    path: the `__path__` of this package; it is changed, and returned.
    """
    for entry in sys.path:
        folder = os.path.abspath(f"{entry or '.'}/pylite")
        if any(os.path.exists(f"{folder}/_core/_library{suffix}") for suffix in EXTENSION_SUFFIXES):
            outer = sys.modules["pylite"]
            outer.__path__[:], outer.__file__, path[:] = [folder], f"{folder}/__init__.py", [f"{folder}/_core"]
            return path
    checkout = os.path.dirname(os.path.dirname(path[0]))
    raise ModuleNotFoundError(
        f"No module named {name!r}: {path[0]} has pylite's sources, not what is built of them. Build and install them: "
        f"{sys.executable} -m pip install {checkout}", name=name)


_libraries: "set[str]" = set()
sys.path_hooks.append(_Library)
LIBRARY = enter_library(__name__, __path__)
