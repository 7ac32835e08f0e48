"""The data types of tensors, by their names."""
import sys
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from typing import Any

# Data types in the order of their numbers in the file: name -> bits per element in the file.  The sizes of strings and
# variants depend on their contents.
DTYPE_BITS: "dict[str, Any]" = {
    "float32": 32, "float16": 16, "int32": 32, "uint8": 8, "int64": 64, "string": None, "bool": 8, "int16": 16,
    "complex64": 64, "int8": 8, "float64": 64, "complex128": 128, "uint64": 64, "resource": 32, "variant": None,
    "uint32": 32, "uint16": 16, "int4": 4, "bfloat16": 16, "int2": 2, "uint4": 4, "float8_e4m3fn": 8, "float8_e5m2": 8,
}
DTYPES = tuple(DTYPE_BITS)
NARROW = "int4", "uint4", "int2"    # of fewer bits than their numpy types, which hold numbers that they lack
HALF = "half"       # of a Value: a tensor of float32 that a program stores as float16

# The numpy type of an element, unpacked.  Types that numpy lacks are stored as the integers of their bits.
_STORAGE: "dict[str, Any]" = {"string": object, "variant": object, "resource": "int32", "int4": "int8", "int2": "int8",
                              "uint4": "uint8", "bfloat16": "uint16", "float8_e4m3fn": "int8", "float8_e5m2": "int8"}
NUMPY_DTYPES: "dict[str, np.dtype[Any]]" = {name: np.dtype(_STORAGE.get(name, name)) for name in DTYPES}

NUMPY_DTYPES[HALF] = np.dtype("float16")


def bfloat16() -> "np.dtype[Any]":
    """The dtype of bfloat16 for callers: ml_dtypes' if the program has imported it, else the integer type of its
    bits."""
    module = sys.modules.get("ml_dtypes")
    return NUMPY_DTYPES["bfloat16"] if module is None else np.dtype(module.bfloat16)
