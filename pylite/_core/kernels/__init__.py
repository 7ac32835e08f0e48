"""The kernels in Cython, one family a module."""
import importlib
from functools import cache
from typing import TYPE_CHECKING

from pylite import _core

if TYPE_CHECKING:
    from typing import Any

__path__.insert(0, _core.LIBRARY)    # first: all modules are in Cython


@cache
def kernel_class(name: str) -> "Any":
    """The class or function `family.Name` of this package."""
    module, attribute = name.split(".")
    return getattr(importlib.import_module(f"{__name__}.{module}"), attribute)


@cache
def is_owned(kernel: "Any") -> bool:
    """Does the kernel of a Call, a name or a function that makes one, keep objects of one interpreter?"""
    return type(kernel) is not str or getattr(kernel_class(kernel), "OWNED", False)


@cache
def runs_python(kernel: "Any") -> bool:
    """Does the kernel of a Call run a function in Python?  A function that makes a kernel counts as one that does."""
    return type(kernel) is not str or getattr(kernel_class(kernel), "PYTHON", False)
