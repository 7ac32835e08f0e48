"""The modules in Cython: all in one shared library, those for plug-ins in C in another; and how pylite's are found."""
import sys
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec, SourceFileLoader
from os import listdir


class _Finder:
    """Finds pylite's modules where they are, before Python searches: that takes longer than loading them.

    A module of this package that has no file of its own is in the library of its folder, or the folder above, by its
    PyInit function.  What else there is, is left to the search.
    """
    names = {}      # of the files in a folder

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if not name.startswith("pylite.") or path is None:
            return None
        stem = name[name.rindex(".") + 1:]
        for folder in path:
            names = cls.names.get(folder) or cls.names_in(folder)
            if stem + ".py" in names:
                return cls.spec(name, SourceFileLoader, f"{folder}/{stem}.py")
            if stem in names and "__init__.py" in cls.names_in(f"{folder}/{stem}"):
                spec = cls.spec(name, SourceFileLoader, f"{folder}/{stem}/__init__.py", is_package=True)
                spec.submodule_search_locations.append(f"{folder}/{stem}")
                return spec
        if name.startswith(__name__ + "."):
            for folder in (*path, *__path__):
                for suffix in EXTENSION_SUFFIXES:
                    if "_library" + suffix in cls.names_in(folder):
                        return cls.spec(name, ExtensionFileLoader, f"{folder}/_library{suffix}")
        return None

    @staticmethod
    def spec(name, loader, file, **kind):
        spec = ModuleSpec(name, loader(name, file), origin=file, **kind)
        spec.has_location = True
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


sys.meta_path.insert(0, _Finder)
