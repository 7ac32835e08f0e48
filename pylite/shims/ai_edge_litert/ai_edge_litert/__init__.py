"""Stands in for the package ai_edge_litert: pylite under its name.

Tools in Python, such as ai_edge_litert.tools, come from that package if it is installed.  Its libraries, which run
models, are not loaded.
"""
import importlib
import pkgutil
import sys
from importlib.machinery import ExtensionFileLoader, ModuleSpec, PathFinder

__version__ = "2.3.0"       # whose interface it has; programs compare it
__path__ = pkgutil.extend_path(__path__, __name__)
_REMEDY = ("pylite stands in for ai_edge_litert here. Without pylite.install_as() or pylite.shim, and without pylite's "
           "folder `shims` on PYTHONPATH, ai_edge_litert is LiteRT itself")


# {a module: the module of pylite that takes its place}
_OWN = {name: name for name in ("compiled_model", "cpu_kernel_mode", "cpu_options", "environment",
                                "hardware_accelerator", "interpreter", "options", "tensor_buffer")}
_OWN |= dict.fromkeys(("gpu_options", "intel_openvino_options", "qualcomm_options"), "accelerator_options")


class _Own:
    """Puts a module of pylite itself, not a copy, in the place of a module of LiteRT."""

    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(module):
        sys.modules[module.__name__] = importlib.import_module(f"pylite.{_OWN[module.__name__.rpartition('.')[2]]}")


class _Library:
    """Stands for a library of LiteRT: importing it is no error, using it is one."""

    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(module):
        name = module.__name__

        def missing(attribute):
            if attribute.startswith("__"):
                raise AttributeError(attribute)
            raise ImportError(f"{name}.{attribute} would run LiteRT instead of pylite, which has nothing in its place. "
                              + _REMEDY, name=name)
        module.__getattr__ = missing


class _Finder:
    """Finds the modules of ai_edge_litert, or says that there is none."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if not name.startswith(__name__ + "."):
            return None
        if name.removeprefix(__name__ + ".") in _OWN:
            return ModuleSpec(name, _Own, origin=__file__)
        spec = PathFinder.find_spec(name, path)
        if spec is None:
            raise ModuleNotFoundError(f"No module named {name!r}: pylite has no such module, nor has an installed "
                                      f"ai_edge_litert a tool in Python of this name. {_REMEDY}", name=name)
        if isinstance(spec.loader, ExtensionFileLoader):
            return ModuleSpec(name, _Library, origin=spec.origin)
        return spec


sys.meta_path[:] = [_Finder, *(f for f in sys.meta_path if getattr(f, "__qualname__", "") != "_Finder")]
