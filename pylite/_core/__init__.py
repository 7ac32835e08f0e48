"""The modules in Cython.  All live in one shared library; this makes `import` find them there."""
import sys
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec
from os.path import exists, join


class _Library:
    """Finds a module of this package that has no file of its own, by its PyInit function in the library."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if not name.startswith(__name__ + ".") or _path is None:
            return None
        spec = ModuleSpec(name, ExtensionFileLoader(name, _path), origin=_path)
        spec.has_location = True
        return spec


_path = next((path for folder in __path__ for suffix in EXTENSION_SUFFIXES
              if exists(path := join(folder, "_library" + suffix))), None)
sys.meta_path.append(_Library)
