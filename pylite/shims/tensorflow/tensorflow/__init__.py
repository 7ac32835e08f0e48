"""Stands in for the package tensorflow, of which it has only `lite`: pylite under that name."""
import sys

__version__ = "2.21.0"      # whose interface it has; programs compare it
__git_version__ = "v2.21.0"


def __getattr__(name):
    if name == "lite":
        import tensorflow.lite
        return tensorflow.lite
    raise AttributeError(f"{_ONLY}, and no {name!r}")


class _Missing:
    """The last finder of modules: says which modules only tensorflow has, before users reinstall it."""

    @staticmethod
    def find_spec(name, *_):
        if name.startswith("tensorflow.") and sys.modules.get("tensorflow") is _self:
            raise ModuleNotFoundError(f"No module named {name!r}: {_ONLY}", name=name)


_self = sys.modules[__name__]
_ONLY = "pylite's stand-in for tensorflow has only tensorflow.lite"
sys.meta_path.append(_Missing)
