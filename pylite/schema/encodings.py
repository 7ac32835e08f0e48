"""Packs and unpacks constants that numpy cannot view: 4- and 2-bit integers, and strings."""
import math
from itertools import pairwise

import numpy as np

from pylite.ir.graph import DTYPE_BITS, NUMPY_DTYPES

_SIGNED = {"int4", "int2"}


def pack_bits(values, dtype):
    """Pack integers into bytes of a 4- or 2-bit type, the first element in the lowest bits."""
    bits = DTYPE_BITS[dtype]
    per_byte = 8 // bits
    flat = np.asarray(values).astype(np.uint8).ravel() & (2**bits - 1)
    flat = np.pad(flat, (0, -len(flat) % per_byte)).reshape(-1, per_byte)
    return np.bitwise_or.reduce(flat << np.arange(0, 8, bits, dtype=np.uint8), axis=1).astype(np.uint8)


def unpack_bits(data, dtype, shape):
    """Unpack bytes of a 4- or 2-bit type into an array of `shape` in NUMPY_DTYPES[dtype]."""
    bits = DTYPE_BITS[dtype]
    values = (data[:, None] >> np.arange(0, 8, bits, dtype=np.uint8)) & np.uint8(2**bits - 1)
    values = values.ravel()[:math.prod(shape)].reshape(shape)
    if dtype in _SIGNED:
        sign = np.uint8(2**(bits - 1))
        values = (values ^ sign).view(np.int8) - np.int8(sign)
    return np.asarray(values, NUMPY_DTYPES[dtype])     # values may be a scalar if shape is ()


def pack_strings(strings):
    """The bytes of a string tensor with these strings (bytes or str, in any nesting).

    These are the int32 count, then count + 1 int32 positions of the texts from the start of the bytes, then the texts.
    """
    texts = [s.encode() if isinstance(s, str) else bytes(s) for s in np.asarray(strings, object).ravel()]
    head = 4 * (len(texts) + 2)
    ends = head + np.cumsum([0, *map(len, texts)])
    return np.frombuffer(np.array([len(texts), *ends], "<i4").tobytes() + b"".join(texts), np.uint8)


def string_positions(data, count):
    """The checked positions of a string tensor's `count` texts, and the end of the last: int64 (count + 1,).

    Raises ValueError, which says what is wrong.
    """
    head = 4 * (count + 2)
    if head > len(data):
        raise ValueError(f"{count} strings do not fit in {len(data)} bytes")
    words = np.frombuffer(data[:head], "<i4")
    if words[0] != count:
        raise ValueError(f"{words[0]} strings stored for {count} elements")
    positions = words[1:].astype(np.int64)
    if positions[0] < head or positions[-1] > len(data) or (np.diff(positions) < 0).any():
        raise ValueError("the positions of the strings are out of order or out of bounds")
    return positions


def unpack_strings(data, shape):
    """Unpack the bytes of a string tensor into an array of bytes objects."""
    count = math.prod(shape)
    text, positions = data.tobytes(), string_positions(data, count)     # before there is an array of any size
    strings = np.empty(count, object)
    strings[:] = [text[a:b] for a, b in pairwise(positions)]
    return strings.reshape(shape)


def unpack(data, dtype, shape):
    """The array of `shape` in NUMPY_DTYPES[dtype] with the bytes of a constant; a view if numpy has the type."""
    if dtype == "string":
        return unpack_strings(data, shape)
    bits = DTYPE_BITS[dtype]
    if bits is None:
        raise ValueError(f"a {dtype} tensor has no contents that numpy could hold")
    return unpack_bits(data, dtype, shape) if bits < 8 else data.view(NUMPY_DTYPES[dtype]).reshape(shape)


def pack(array, dtype):
    """The bytes of a constant, as uint8 array."""
    if dtype == "string":
        return pack_strings(array)
    if DTYPE_BITS[dtype] < 8:
        return pack_bits(array, dtype)
    return np.frombuffer(np.ascontiguousarray(array, NUMPY_DTYPES[dtype]).tobytes(), np.uint8)
