"""The modules in Cython: all in one shared library, those for plug-ins in C in another.  `import` finds them there."""
import sys
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec
from os.path import exists, join


def _library(*folders):
    """The path of the library in one of this package's folders, or None."""
    return next((path for start in __path__ for suffix in EXTENSION_SUFFIXES
                 if exists(path := join(start, *folders, "_library" + suffix))), None)


class _Finder:
    """Finds a module of this package that has no file of its own, by its PyInit function in a library."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if not name.startswith(__name__ + "."):
            return None
        found = _library("capi") if name.startswith(__name__ + ".capi.") else _path
        if found is None or any(exists(join(start, name.rpartition(".")[2] + end)) for start in path
                                for end in (".py", "")):
            return None
        spec = ModuleSpec(name, ExtensionFileLoader(name, found), origin=found)
        spec.has_location = True
        return spec


_path = _library()
sys.meta_path.insert(0, _Finder)    # before the search of folders, which costs more than loading such a module
