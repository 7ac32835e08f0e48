"""The kernels by name, and the byte arrays that many of them take."""
import importlib
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray


@cache
def kernel_class(name: str) -> "Any":
    """The class or function `family.Name` of pylite._core.kernels."""
    module, attribute = name.split(".")
    return getattr(importlib.import_module("pylite._core.kernels." + module), attribute)


def raw(array: "NDArray[Any] | None") -> "NDArray[np.uint8]":
    """The bytes of a contiguous array, (n,) uint8; empty for None."""
    return np.empty(0, np.uint8) if array is None else array.reshape(-1).view(np.uint8)
