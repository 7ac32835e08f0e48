"""The modules in Cython: all in one shared library, those for plug-ins in C in another; and how pylite's are found."""
import sys
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec, SourceFileLoader
from os import R_OK, access, listdir

# How the names of files with bytecode end, unless they are elsewhere: saying so saves modules to look for them twice.
_TAG = sys.implementation.cache_tag
BYTECODE = None if sys.flags.optimize or sys.pycache_prefix or not _TAG else f"{_TAG}.pyc"


class _Finder:
    """Finds pylite's modules where they are, before Python searches: that takes longer than loading them.

    It knows ordinary folders, which have an `__init__.py`.  What else there is, in archives for example, is left to
    others; but a module of this package that nobody finds is in the library, if anywhere.
    """
    names = {}      # of the files in a folder

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if not name.startswith("pylite.") or path is None:
            return None
        stem = name[name.rindex(".") + 1:]
        for folder in path:
            if access(f"{folder}/{stem}.py", R_OK):
                return cls.spec(name, SourceFileLoader, f"{folder}/{stem}.py")
            if access(f"{folder}/{stem}/__init__.py", R_OK):
                spec = cls.spec(name, SourceFileLoader, f"{folder}/{stem}/__init__.py", is_package=True)
                spec.submodule_search_locations.append(f"{folder}/{stem}")
                return spec
            names = cls.names_in(folder)
            if "__init__.py" not in names or stem in names:
                return None
        return _Library.located(name, path)

    @staticmethod
    def spec(name, loader, file, **kind):
        spec = ModuleSpec(name, loader(name, file), origin=file, **kind)
        spec.has_location = True
        if loader is SourceFileLoader and BYTECODE:
            folder, _, source = file.rpartition("/")
            spec.cached = f"{folder}/__pycache__/{source[:-2]}{BYTECODE}"
        return spec

    @classmethod
    def names_in(cls, folder):
        names = cls.names.get(folder)
        if names is None:
            try:
                names = frozenset(listdir(folder))
            except OSError:     # of an archive
                names = frozenset()
            cls.names[folder] = names
        return names


class _Library:
    """Finds a module of this package by its PyInit function in the library of its folder, or the folder above."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        found = cls.located(name, path)
        if found is None and name.startswith(__name__ + "."):
            raise ModuleNotFoundError(
                f"No module named {name!r}: {__path__[0]} has pylite's sources, not what is built of them. Install "
                "pylite with `pip install .`, and run Python in another folder or with -P", name=name)
        return found

    @staticmethod
    def located(name, path):
        if name.startswith(__name__ + "."):
            for folder in (*(path or ()), *__path__):
                for suffix in EXTENSION_SUFFIXES:
                    if "_library" + suffix in _Finder.names_in(folder):
                        return _Finder.spec(name, ExtensionFileLoader, f"{folder}/_library{suffix}")
        return None


sys.meta_path.insert(0, _Finder)
sys.meta_path.append(_Library)
