"""Ops that place or repeat elements without looking at them: FILL, TILE, BROADCAST_TO, REVERSE_V2, MATRIX_DIAG, DILATE.

All of them are copies between strided views; what is repeated has a stride of 0.
"""
from math import prod

import numpy as np

from pylite.ir import shapes
from pylite.ir.graph import DTYPE_BITS, NUMPY_DTYPES
from pylite.ir.registry import register
from pylite.ir.shapes import broadcast_strides, contiguous_strides
from pylite.ir.values import Alias, Constant
from pylite.ops.elementwise import task
from pylite.ops.moves import INDICES, MOVABLE, axis_of, copy, integers, movable
from pylite.ops.padding import region, repeated


def filled(y, value):
    """The Call that sets every element of y to `value`, a number or a Value of one element."""
    if isinstance(value, (int, float)):
        value = np.array(value, NUMPY_DTYPES[y.dtype])
    elif value.size != 1:
        raise ValueError(f"tensor {value!r}: is to fill, and should have one element")
    return copy(repeated(value, (y.size,)), y.flat)


def sizes(node, i, what):
    """The shape that input i holds."""
    shape = tuple(integers(node.constant(i, what)))
    if min(shape, default=0) < 0:
        raise node.error(f"has {what} {list(shape)}, where none may be negative", node.inputs[i])
    return shape


# ---- one value ---------------------------------------------------------------------------------------------------
def lower_fill(node):
    return filled(node.outputs[0], node.inputs[1])


register("FILL", versions=(1, 5), types=movable(f"{INDICES} T -> T"), infer=lambda node: [sizes(node, 0, "dimensions")],
         lower=lower_fill, reference=lambda shape, value, options: np.full(shape, value))
register("ZEROS_LIKE", types=movable("T -> T"), infer=lambda node: [node.inputs[0].shape],
         lower=lambda node: filled(node.outputs[0], 0), reference=lambda x, options: np.zeros_like(x))


def lower_rank(node):
    return Constant(node.outputs[0], np.array(len(node.inputs[0].shape), np.int32))


register("RANK", types=["any -> int32"], infer=lambda node: [()], lower=lower_rank,
         reference=lambda x, options: np.array(x.ndim))


# ---- repeated and reversed ---------------------------------------------------------------------------------------
def multiples(node):
    x, times = node.inputs[0], sizes(node, 1, "multiples")
    if len(times) != len(x.shape):
        raise node.error(f"has {len(x.shape)} dimensions, but {len(times)} multiples", x)
    return times


def lower_tile(node):
    """Each axis in two: which repetition, and where in it."""
    x, y = node.inputs[0], node.outputs[0]
    times = multiples(node)
    shape = tuple(n for pair in zip(times, x.shape, strict=True) for n in pair)
    strides = tuple(s for stride in contiguous_strides(x.shape) for s in (0, stride))
    if x.size == y.size:
        return Alias(y, x)
    shape, strides, y_strides = shapes.collapse(shape, strides, contiguous_strides(shape))
    return copy(x.view(shape, strides), y.view(shape, y_strides))


register("TILE", versions=(1, 3), types=movable(f"T {INDICES} -> T"), lower=lower_tile,
         infer=lambda node: [tuple(n * k for n, k in zip(node.inputs[0].shape, multiples(node), strict=True))],
         reference=lambda x, times, options: np.tile(x, times))


def infer_broadcast_to(node):
    x, shape = node.inputs[0], sizes(node, 1, "shape")
    skip = len(shape) - len(x.shape)
    if skip < 0 or any(a not in (1, b) for a, b in zip(x.shape, shape[skip:], strict=True)):
        raise node.error(f"of shape {list(x.shape)} cannot be broadcast to {list(shape)}", x)
    return [shape]


def lower_broadcast_to(node):
    x, y = node.inputs[0], node.outputs[0]
    if x.size == y.size:
        return Alias(y, x)
    return copy(x.view(y.shape, broadcast_strides(x.shape, y.shape)), y)


register("BROADCAST_TO", versions=(2, 4), types=movable(f"T {INDICES} -> T"), infer=infer_broadcast_to,
         lower=lower_broadcast_to, reference=lambda x, shape, options: np.broadcast_to(x, shape))


def infer_broadcast_args(node):
    return [(max(prod(value.shape) for value in node.inputs),)]


def lower_broadcast_args(node):
    """The dimensions that only the longer shape has, then those of both."""
    y = node.outputs[0]
    a, b = sorted(node.inputs, key=lambda value: value.size)
    if a.data is not None and b.data is not None:
        try:
            return Constant(y, np.array(shapes.broadcast(tuple(integers(a.data)), tuple(integers(b.data))), y.dtype))
        except ValueError as problem:
            raise node.error(str(problem), a) from None
    item = y.itemsize
    tail = y.view((a.nbytes,), offset=b.nbytes - a.nbytes, dtype="uint8")
    return [copy(b.flat, y.flat), task("broadcast_sizes", a.size, 0, (item,), a, tail)]


register("BROADCAST_ARGS", types=["int32 int32 -> int32", "int64 int64 -> int64"], infer=infer_broadcast_args,
         lower=lower_broadcast_args, reference=lambda a, b, options: np.array(np.broadcast_shapes(a, b)))


def lower_reverse(node):
    x, y = node.inputs[0], node.outputs[0]
    strides, offset = list(contiguous_strides(x.shape)), 0
    for axis in {axis_of(node, a, len(x.shape), x) for a in integers(node.constant(1, "list of axes"))}:
        offset += (x.shape[axis] - 1) * strides[axis]
        strides[axis] = -strides[axis]
    return copy(x.view(x.shape, tuple(strides), offset), y)


register("REVERSE_V2", versions=(1, 4), types=movable(f"T {INDICES} -> T"), lower=lower_reverse,
         infer=lambda node: [node.inputs[0].shape], reference=lambda x, axes, options: np.flip(x, tuple(axes.ravel())))


def lower_reverse_sequence(node):
    x, lengths, y = node.inputs[0], node.inputs[1], node.outputs[0]
    rank, o = len(x.shape), node.options
    seq, batch = axis_of(node, o.seq_dim, rank, x), axis_of(node, o.batch_dim, rank, x)
    if seq == batch or lengths.shape != (x.shape[batch],):
        raise node.error(f"of shape {list(lengths.shape)} should be one length for each of the {x.shape[batch]} "
                         f"indices along axis {batch}, reversed along axis {seq}", lengths)
    p, q = sorted((seq, batch))
    inner = prod(x.shape[q + 1:]) * x.itemsize
    numbers = x.shape[p], prod(x.shape[p + 1:q]), x.shape[q], inner, p == seq, lengths.itemsize
    return task("reverse_sequence", prod(x.shape[:p]), 0, numbers, x, lengths, y)


register("REVERSE_SEQUENCE", types=movable(f"T {INDICES} -> T"), infer=lambda node: [node.inputs[0].shape],
         lower=lower_reverse_sequence)


# ---- the bits as another type ------------------------------------------------------------------------------------
def infer_bitcast(node):
    """A smaller type adds a last dimension; a larger one takes it away."""
    x, y = node.inputs[0], node.outputs[0]
    old, new = (NUMPY_DTYPES[value.dtype].itemsize for value in (x, y))
    if old >= new:
        return [x.shape + ((old // new,) if old > new else ())]
    if not x.shape or x.shape[-1] != new // old:
        raise node.error(f"of shape {list(x.shape)} needs a last dimension of {new // old} to become {y.dtype}", x)
    return [x.shape[:-1]]


_WHOLE = "|".join(t for t in MOVABLE if (DTYPE_BITS[t] or 0) >= 8)
_PACKED = [f"{t} -> {t}" for t in ("int4", "uint4", "int2")]
register("BITCAST", types=[f"{_WHOLE} -> {_WHOLE}", *_PACKED], infer=infer_bitcast,
         lower=lambda node: Alias(node.outputs[0], node.inputs[0]))


# ---- into a larger tensor ----------------------------------------------------------------------------------------
def diagonal(value):
    """The diagonals of the matrices that `value` consists of, as one view."""
    *outer, rows, columns = value.shape
    strides = contiguous_strides(value.shape)
    return value.view((*outer, min(rows, columns)), (*strides[:-2], columns + 1))


def lower_matrix_diag(node):
    x, y = node.inputs[0], node.outputs[0]
    return [filled(y, 0), copy(x, diagonal(y))]


def infer_matrix_diag(node):
    x = node.inputs[0]
    if not x.shape:
        raise node.error("is a scalar, which cannot be a diagonal", x)
    return [x.shape + x.shape[-1:]]


def infer_matrix_set_diag(node):
    x, d = node.inputs
    if len(x.shape) < 2 or d.shape != (*x.shape[:-2], min(x.shape[-2:])):
        raise node.error(f"of shape {list(d.shape)} does not fit the diagonals of {list(x.shape)}", d)
    return [x.shape]


def lower_matrix_set_diag(node):
    x, d, y = node.inputs[0], node.inputs[1], node.outputs[0]
    return [copy(x, y), copy(d, diagonal(y))]


register("MATRIX_DIAG", types=movable("T -> T"), infer=infer_matrix_diag, lower=lower_matrix_diag)
register("MATRIX_SET_DIAG", types=movable("T T -> T"), infer=infer_matrix_set_diag, lower=lower_matrix_set_diag)


def infer_dilate(node):
    x, dilations = node.inputs[0], sizes(node, 1, "dilations")
    if len(dilations) != len(x.shape) or 0 in dilations:
        raise node.error(f"has {len(x.shape)} dimensions, but dilations are {list(dilations)}", x)
    return [tuple((n - 1) * d + 1 if n else 0 for n, d in zip(x.shape, dilations, strict=True))]


def spread(x, y, fill, low, inner):
    """Calls that fill y and put x into it from `low` on, every inner[i] + 1 elements, as far as it lies inside."""
    first, last = [], []
    for n, size, start, gap in zip(x.shape, y.shape, low, inner, strict=True):
        first.append(max(0, -(start // (gap + 1))))
        last.append(min(n, (size - 1 - start) // (gap + 1) + 1))
    shape = tuple(max(0, b - a) for a, b in zip(first, last, strict=True))
    calls = [filled(y, fill)] if prod(shape) < y.size else []
    if prod(shape):
        y_strides = contiguous_strides(y.shape)
        at = sum((start + a * (gap + 1)) * s for start, a, gap, s in zip(low, first, inner, y_strides, strict=True))
        strides = tuple(s * (gap + 1) for s, gap in zip(y_strides, inner, strict=True))
        source = region(x, first, shape)
        calls.append(copy(source, y.view(shape, strides, at)))
    return calls


def lower_dilate(node):
    x, y = node.inputs[0], node.outputs[0]
    gaps = [d - 1 for d in sizes(node, 1, "dilations")]
    return spread(x, y, node.inputs[2], [0] * len(gaps), gaps)


register("DILATE", types=movable("T int32 T -> T"), infer=infer_dilate, lower=lower_dilate)


def paddings(node):
    """STABLEHLO_PAD: (before, after, between) of each axis; before and after may be negative."""
    o, x = node.options, node.inputs[0]
    lists = [integers(np.asarray(v)) for v in (o.edge_padding_low, o.edge_padding_high, o.interior_padding)]
    if any(len(v) != len(x.shape) for v in lists) or min(lists[2], default=0) < 0:
        raise node.error(f"has {len(x.shape)} dimensions, but paddings of {lists}", x)
    return lists


def infer_stablehlo_pad(node):
    x = node.inputs[0]
    low, high, inner = paddings(node)
    return [tuple(max(0, n + max(n - 1, 0) * gap + a + b)
                  for n, a, b, gap in zip(x.shape, low, high, inner, strict=True))]


def lower_stablehlo_pad(node):
    low, _, inner = paddings(node)
    return spread(node.inputs[0], node.outputs[0], node.inputs[1], low, inner)


register("STABLEHLO_PAD", types=movable("T T -> T"), infer=infer_stablehlo_pad, lower=lower_stablehlo_pad)
