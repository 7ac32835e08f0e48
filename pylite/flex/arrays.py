"""Flex ops that move elements, count them, or multiply along an axis."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pylite.flex.op import flex_op

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    _Array = NDArray[Any]

_NUMBERS = ("float32", "float64", "int32", "int64")
_REAL = (*_NUMBERS, "float16", "int8", "int16", "uint8", "uint16", "uint32", "uint64")
_COMPLEX = ("complex64", "complex128")


@flex_op("Roll", *[f"{t} int32|int64 int32|int64 -> {t}" for t in (*_REAL, *_COMPLEX, "bool")])
def roll(x: _Array, shift: _Array, axis: _Array) -> _Array:
    return np.roll(x, np.atleast_1d(shift).tolist(), np.atleast_1d(axis).tolist())


@flex_op("Cross", *[f"{t} {t} -> {t}" for t in _REAL])
def cross(a: _Array, b: _Array) -> _Array:
    if a.shape != b.shape or a.shape[-1:] != (3,):
        raise ValueError(f"the shapes {list(a.shape)} and {list(b.shape)} should be equal, and end with 3")
    return np.cross(a, b)


@flex_op("Cumprod", *[f"{t} int32|int64 -> {t}" for t in (*_REAL, *_COMPLEX)])
def cumprod(x: _Array, axis: _Array, *, exclusive: bool = False, reverse: bool = False) -> _Array:
    lines = np.moveaxis(x, int(axis), -1)[..., ::-1 if reverse else 1]
    if exclusive:
        lines = np.concatenate([np.ones_like(lines[..., :1]), lines[..., :-1]], -1)
    return np.moveaxis(np.cumprod(lines, -1, x.dtype)[..., ::-1 if reverse else 1], -1, int(axis))


@flex_op("MatrixInverse", *[f"{t} -> {t}" for t in ("float32", "float64", *_COMPLEX)],
         shapes=lambda node, **_: [node.inputs[0].shape])
def matrix_inverse(x: _Array, *, adjoint: bool = False) -> _Array:
    wide = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    return np.linalg.inv(np.conj(np.swapaxes(wide, -1, -2)) if adjoint else wide)


def _counts(numbers: _Array, size: int, weights: _Array, binary: bool = False) -> _Array:
    if size < 0 or (numbers < 0).any():
        raise ValueError(f"numbers from {numbers.min(initial=0)} on cannot be counted to {size}; they begin with 0")
    addends = np.ones(numbers.size) if weights.size == 0 or binary else weights.reshape(-1)
    kept = numbers.reshape(-1) < size
    counts = np.zeros(size, weights.dtype)
    np.add.at(counts, numbers.reshape(-1)[kept], addends[kept].astype(weights.dtype))
    return (counts > 0).astype(weights.dtype) if binary else counts


@flex_op("Bincount", *[f"int32 int32 {t} -> {t}" for t in _NUMBERS], sized_by=(1,))
def bincount(numbers: _Array, size: _Array, weights: _Array) -> _Array:
    return _counts(numbers, int(size), weights)


@flex_op("DenseBincount", *[f"{i} {i} {t} -> {t}" for i in ("int32", "int64") for t in _NUMBERS], sized_by=(1,))
def dense_bincount(numbers: _Array, size: _Array, weights: _Array, *, binary_output: bool = False) -> _Array:
    """The counts of a vector, or of each row of a matrix."""
    if numbers.ndim < 2:
        return _counts(numbers, int(size), weights, binary_output)
    addends = weights if weights.size else np.broadcast_to(weights.dtype.type(1), numbers.shape)
    return np.stack([_counts(row, int(size), w, binary_output) for row, w in zip(numbers, addends, strict=True)])
