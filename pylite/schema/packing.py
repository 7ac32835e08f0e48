"""Constants: what they occupy in a file, and as arrays."""
import math

from pylite.graph import DTYPE_BITS, NUMPY_DTYPES


def packed_size(dtype, shape):
    """Bytes that a constant occupies in the file; None where it depends on the contents."""
    bits = DTYPE_BITS[dtype]
    return None if bits is None else (math.prod(shape) * bits + 7) // 8


def unpack(data, dtype, shape):
    """The bytes of a constant -> array of `shape` in NUMPY_DTYPES[dtype]; a view where numpy can."""
    bits = DTYPE_BITS[dtype]
    if dtype == "string":
        from pylite.schema.encodings import unpack_strings  # seldom wanted
        return unpack_strings(data, shape)
    if bits is None:
        raise ValueError(f"a {dtype} tensor has no contents that numpy could hold")
    if bits < 8:
        from pylite.schema.encodings import unpack_bits  # seldom wanted
        return unpack_bits(data, dtype, shape)
    return data.view(NUMPY_DTYPES[dtype]).reshape(shape)
