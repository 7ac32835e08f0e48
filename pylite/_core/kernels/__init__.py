"""The kernels: one Cython module for each family."""
import importlib
from functools import cache
from typing import TYPE_CHECKING

from pylite import _core

if TYPE_CHECKING:
    from typing import Any

__path__.insert(0, _core.LIBRARY)    # first, because all modules are in the library


@cache
def kernel_class(name: str) -> "Any":
    """The class or function `family.Name` in this package."""
    module, attribute = name.split(".")
    return getattr(importlib.import_module(f"{__name__}.{module}"), attribute)


@cache
def is_owned(kernel: "Any") -> bool:
    """Does the kernel of a Call keep objects of one interpreter?  kernel: a name, or a function that makes it."""
    return type(kernel) is not str or getattr(kernel_class(kernel), "OWNED", False)


@cache
def runs_python(kernel: "Any") -> bool:
    """Does the kernel of a Call run Python code?  A function that makes a kernel is assumed to make one that does."""
    return type(kernel) is not str or getattr(kernel_class(kernel), "PYTHON", False)
