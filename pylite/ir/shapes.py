"""Shapes as tuples of ints: broadcasting, collapsing, windows, axes, strides.  No tensor is touched here."""
from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    Shape = tuple[int, ...]


# ---- strides -------------------------------------------------------------------------------------------------
def contiguous_strides(shape: "Sequence[int]") -> "Shape":
    """Strides, in elements, of a C-contiguous array."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def is_contiguous(shape: "Shape", strides: "Shape") -> bool:
    """Does an iteration in C order over these strides visit consecutive elements?"""
    step = 1
    for n, stride in zip(reversed(shape), reversed(strides), strict=True):
        if n != 1:
            if stride != step:
                return False
            step *= n
    return True


# ---- broadcasting --------------------------------------------------------------------------------------------
def broadcast(*shapes: "Shape") -> "Shape":
    """The broadcast shape by numpy's rules.  Raises ValueError when there is none."""
    result = shapes[0]
    for shape in shapes[1:]:
        if shape == result:
            continue
        if len(shape) > len(result):
            shape, result = result, shape
        skip = len(result) - len(shape)
        merged = list(result)
        for i, n in enumerate(shape, skip):
            m = merged[i]
            if n != m:
                if m == 1:
                    merged[i] = n
                elif n != 1:
                    names = " and ".join(str(list(s)) for s in shapes)
                    raise ValueError(f"shapes {names} cannot be broadcast together")
        result = tuple(merged)
    return tuple(result)


def broadcast_strides(shape: "Shape", target: "Shape") -> "Shape":
    """Strides, in elements, with which a contiguous array of `shape` is read as one of `target`: 0 where repeated."""
    skip = len(target) - len(shape)
    strides = contiguous_strides(shape)
    return (0,) * skip + tuple(0 if n == 1 else s for n, s in zip(shape, strides, strict=True))


def collapse(shape: "Sequence[int]", *strides: "Sequence[int]") -> "tuple[Shape, ...]":
    """An equivalent iteration over several operands with as few dimensions as possible.

    Dimensions of one element are dropped, and adjacent ones merge where they are contiguous in every operand.
    Returns (shape, strides of each operand); for a single element ((), (), ...).
    """
    dims: list[int] = []
    steps: list[list[int]] = []
    for n, *step in zip(shape, *strides, strict=True):
        if n == 1:
            continue
        if dims and all(outer == inner * n for outer, inner in zip(steps[-1], step, strict=True)):
            dims[-1] *= n
            steps[-1] = step
        else:
            dims.append(n)
            steps.append(step)
    return (tuple(dims), *(tuple(step[i] for step in steps) for i in range(len(strides))))


# ---- axes ----------------------------------------------------------------------------------------------------
def resolve_axis(axis: int, rank: int) -> int:
    """The axis counted from the front.  Raises ValueError when it is not an axis of `rank` dimensions."""
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} is outside a tensor of {rank} dimensions")
    return axis + rank if axis < 0 else axis


def resolve_axes(axes: "Iterable[int]", rank: int) -> "Shape":
    """The axes counted from the front, sorted, each once."""
    return tuple(sorted({resolve_axis(axis, rank) for axis in axes}))


def reduced(shape: "Shape", axes: "Collection[int]", keep_dims: bool) -> "Shape":
    """The shape after a reduction over `axes` (resolved)."""
    if keep_dims:
        return tuple(1 if i in axes else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in axes)


def reshape(shape: "Shape", requested: "Sequence[int]") -> "Shape":
    """`requested` with its -1, if any, replaced so that the sizes agree.  Raises ValueError when they cannot."""
    size = prod(shape)
    free = [i for i, n in enumerate(requested) if n == -1]
    known = prod(n for n in requested if n != -1)
    if len(free) > 1 or any(n < -1 for n in requested):
        raise ValueError(f"{list(requested)} is not a shape")
    if free:
        if known == 0 or size % known:
            raise ValueError(f"{size} elements cannot take the shape {list(requested)}")
        return tuple(size // known if n == -1 else n for n in requested)
    if known != size:
        raise ValueError(f"{size} elements cannot take the shape {list(requested)}")
    return tuple(requested)


# ---- windows: convolution and pooling (docs/numerics.md section 3) -------------------------------------------
def window_output(size: int, window: int, stride: int, dilation: int, padding: str) -> int:
    """Number of window positions along one axis, padding "SAME" or "VALID"; 0 or less when the window does not fit."""
    extent = (window - 1) * dilation + 1
    if padding == "SAME":
        return -(-size // stride)
    room = size + stride - extent
    return room // stride if room >= 0 else -(-room // stride)      # towards 0, as the reference's in C


def window_padding(size: int, window: int, stride: int, dilation: int, out: int) -> "tuple[int, int]":
    """(before, after): the padding with which `out` window positions fit; an odd element is put after.

    It is 0 for VALID, whose windows lie inside.
    """
    total = max((out - 1) * stride + (window - 1) * dilation + 1 - size, 0)
    return total // 2, total - total // 2
