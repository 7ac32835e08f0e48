"""TILE, BROADCAST_TO and BROADCAST_ARGS: repeated elements, and the shape that two tensors broadcast to.

A repetition is one copy of a view whose repeated axes have the stride 0.
"""
from math import prod

import numpy as np

from pylite.ir import shapes
from pylite.ir.registry import register
from pylite.ir.values import Alias, Constant
from pylite.ops.elementwise import row_function
from pylite.ops.moves import INDICES, copy, integers, movable, shape_operand

_LONG_BLOCK = 128               # bytes; longer blocks are copied no faster per byte


# ---- TILE ----------------------------------------------------------------------------------------------------
def multiples(node):
    x, times = node.inputs[0], shape_operand(node, 1, "multiples")
    if len(times) != len(x.shape):
        raise node.error(f"has {len(x.shape)} dimensions, but {len(times)} multiples", x)
    return times


def lower_tile(node):
    """Short blocks are repeated as they are copied; longer ones are then copied within the output, from inside out.

    In the copies each axis is two: the number of the repetition, and the index in it.
    """
    x, y = node.inputs[0], node.outputs[0]
    if x.size == y.size:
        return Alias(y, x)
    times = multiples(node)
    steps = shapes.contiguous_strides([n for pair in zip(times, x.shape, strict=True) for n in pair])
    blocks = [n * step for n, step in zip(x.shape, steps[1::2], strict=True)]
    later = [i for i, n in enumerate(times) if n > 1 and blocks[i] * y.itemsize >= _LONG_BLOCK] if y.size else []
    calls = [_repeated(x, y, [1 if i in later else n for i, n in enumerate(times)], steps)]
    for i in reversed(later):
        shape, outer = (*x.shape[:i], times[i] - 1, blocks[i]), steps[1:2 * i:2]
        calls.append(copy(y.view(shape, (*outer, 0, 1)), y.view(shape, (*outer, blocks[i], 1), blocks[i])))
    return calls


def _repeated(x, y, times, steps):
    """The Call that copies x to y, each axis so many times; steps: in y, of the repetitions and of the axis."""
    shape = tuple(n for pair in zip(times, x.shape, strict=True) for n in pair)
    strides = tuple(s for stride in shapes.contiguous_strides(x.shape) for s in (0, stride))
    shape, x_strides, y_strides = shapes.collapse(shape, strides, tuple(steps))
    return copy(x.view(shape, x_strides), y.view(shape, y_strides))


register("TILE", versions=(1, 3), types=movable(f"T {INDICES} -> T"), lower=lower_tile,
         infer=lambda node: [tuple(n * k for n, k in zip(node.inputs[0].shape, multiples(node), strict=True))],
         reference=lambda x, times, options: np.tile(x, times))


# ---- BROADCAST_TO --------------------------------------------------------------------------------------------
def infer_broadcast_to(node):
    x, shape = node.inputs[0], shape_operand(node, 1, "shape")
    skip = len(shape) - len(x.shape)
    if skip < 0 or any(a not in (1, b) for a, b in zip(x.shape, shape[skip:], strict=True)):
        raise node.error(f"of shape {list(x.shape)} cannot be broadcast to {list(shape)}", x)
    return [shape]


def lower_broadcast_to(node):
    x, y = node.inputs[0], node.outputs[0]
    if x.size == y.size:
        return Alias(y, x)
    return copy(x.view(y.shape, shapes.broadcast_strides(x.shape, y.shape)), y)


register("BROADCAST_TO", versions=(2, 4), types=movable(f"T {INDICES} -> T"), infer=infer_broadcast_to,
         lower=lower_broadcast_to, reference=lambda x, shape, options: np.broadcast_to(x, shape))


# ---- BROADCAST_ARGS ------------------------------------------------------------------------------------------
def infer_broadcast_args(node):
    return [(max(prod(value.shape) for value in node.inputs),)]


def lower_broadcast_args(node):
    """A copy of the longer shape, whose last dimensions are then combined with those of the shorter one."""
    y = node.outputs[0]
    a, b = sorted(node.inputs, key=lambda value: value.size)
    if a.data is not None and b.data is not None:
        try:
            return Constant(y, np.array(shapes.broadcast(tuple(integers(a.data)), tuple(integers(b.data))), y.dtype))
        except ValueError as problem:
            raise node.error(str(problem), a) from None
    item = y.itemsize
    tail = y.view((a.nbytes,), offset=b.nbytes - a.nbytes, dtype="uint8")
    return [copy(b.flat, y.flat), row_function("broadcast_sizes", a.size, 0, (item,), a, tail)]


register("BROADCAST_ARGS", types=["int32 int32 -> int32", "int64 int64 -> int64"], infer=infer_broadcast_args,
         lower=lower_broadcast_args, reference=lambda a, b, options: np.array(np.broadcast_shapes(a, b)))
