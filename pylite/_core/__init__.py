"""The modules in Cython, and how pylite's modules are found.

Shared libraries hold the modules in Cython: one those of this package and of `kernels`, another those of `capi`.
"""
import marshal
import os
import sys
from _thread import RLock
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec, PathFinder, SourceFileLoader

try:
    from importlib._bootstrap_external import MAGIC_NUMBER, cache_from_source
except ImportError:
    from importlib.util import MAGIC_NUMBER, cache_from_source  # the documented place: 0.1 ms

# A file of the distribution `pylite`, which is another project, may have replaced the package's first file.
if getattr(sys.modules["pylite"], "__distribution__", None) != "pylite-runtime":
    raise ImportError(
        f"{getattr(sys.modules['pylite'], '__file__', None) or 'a folder without __init__.py'} is not part of "
        "pylite-runtime: the distribution 'pylite' is another project that installs into the same folder. Remove both, "
        "then install the right one: pip uninstall pylite pylite-runtime && pip install pylite-runtime", name="pylite")

# Modules whose code runs when one of their names is first asked for, which in most programs is never.  Making the
# classes of exceptions takes as long as importing ten modules.
ON_DEMAND = {"pylite.errors", "pylite.ops.filter_layout"}
_HEADER = MAGIC_NUMBER + bytes(4)       # of bytecode that is valid for a source of a certain time and size
_PIECE = 1 << 16        # bytes; nearly all bytecode is shorter
_BINARY = os.O_RDONLY | getattr(os, "O_BINARY", 0)
_CAPI = __name__ + ".capi"      # the only other package with a library
_lock = RLock()


class _Loader(SourceFileLoader):
    """Reads bytecode that is valid for its source, which the finder has looked at.  Python's own loader looks again."""
    spec: ModuleSpec
    expected: bytes     # the first 16 bytes of bytecode that is valid

    def get_code(self, fullname):
        try:
            data = _contents(self.spec.cached)
        except (OSError, TypeError):        # no such file, or no name for it
            data = b""
        if data.startswith(self.expected):
            code = marshal.loads(memoryview(data)[len(self.expected):])
            if code.co_filename == self.path:
                return code
        return super().get_code(fullname)


def _contents(path):
    """The bytes of a file, without a file object, which takes longer to make than these to read."""
    file = os.open(path, _BINARY)
    try:
        data = piece = os.read(file, _PIECE)
        while len(piece) == _PIECE:
            piece = os.read(file, _PIECE)
            data += piece
        return data
    finally:
        os.close(file)


class _LoaderOnDemand(_Loader):
    """Lets a module's code run when one of its names is first asked for."""

    def exec_module(self, module):
        def run(name):
            with _lock:
                if vars(module).get("__getattr__") is run:
                    _Loader.exec_module(self, module)
                    vars(module).pop("__getattr__", None)
            return getattr(module, name)
        module.__getattr__ = run


class _SourceFinder:
    """Finds pylite's modules in Python in ordinary folders, before Python's own search: that takes twice as long."""
    cached = sys.implementation.cache_tag and os.path.basename(cache_from_source("m.py"))[1:]     # after the name

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if not path or not name.startswith("pylite."):
            return None
        folder, stem = path[0], name[name.rindex(".") + 1:]
        for inner, module, locations in ((folder, stem, None), (f"{folder}/{stem}", "__init__", [f"{folder}/{stem}"])):
            file = f"{inner}/{module}.py"
            try:
                found = os.stat(file)
            except OSError:
                continue
            spec = _spec(name, _LoaderOnDemand if name in ON_DEMAND else _Loader, file, locations)
            if sys.pycache_prefix is None and cls.cached:
                spec.cached = f"{inner}/__pycache__/{module}{cls.cached}"
            time, size = int(found.st_mtime) & 0xFFFFFFFF, found.st_size & 0xFFFFFFFF
            spec.loader.spec = spec
            spec.loader.expected = _HEADER + time.to_bytes(4, "little") + size.to_bytes(4, "little")
            return spec
        return None


class _LibraryFinder:
    """Finds a module in Cython, by its PyInit function, in the shared library of this package or of `capi`."""
    files = {}      # package that has a library -> its file

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        package, _, stem = name.rpartition(".")
        if stem == "_library" or not package.startswith(__name__):
            return None
        owner = package if package == _CAPI else __name__
        if owner not in cls.files:
            library = _library(owner, path if owner == package else __path__)
            if library is None:
                raise ModuleNotFoundError(
                    f"No module named {name!r}: {__path__[0]} has pylite's sources, not what is built of them. Install "
                    "pylite with `pip install .`, and run Python in another folder or with -P", name=name)
            cls.files[owner] = library
        return _spec(name, ExtensionFileLoader, cls.files[owner])


def _library(package, path):
    """The file of a package's library, or None.  A search by all finders takes 0.4 ms."""
    for suffix in EXTENSION_SUFFIXES:
        file = f"{path[0]}/_library{suffix}"
        if os.path.exists(file):
            return file
    # In an editable install meson-python's finder knows where it is.
    name = package + "._library"
    found = next((spec for finder in sys.meta_path if (spec := finder.find_spec(name, path))), None)
    return None if found is None else found.origin


def _spec(name, loader, file, locations=None):
    spec = ModuleSpec(name, loader(name, file), origin=file)
    spec.submodule_search_locations = locations
    spec.has_location = True
    return spec


sys.meta_path.insert(0, _SourceFinder)
# An editable install's finder goes first; Python's own would look through every folder.
sys.meta_path.insert(sys.meta_path.index(PathFinder) if PathFinder in sys.meta_path else len(sys.meta_path),
                     _LibraryFinder)
