"""Ops that reinterpret a tensor's elements or return its shape: RESHAPE, SQUEEZE, EXPAND_DIMS, BITCAST, SHAPE, RANK."""
from math import prod

import numpy as np

from pylite.ir.graph import DTYPE_BITS, NUMPY_DTYPES
from pylite.ir.registry import register
from pylite.ir.values import Alias, Constant, sizes
from pylite.ops.moves import INDICES, MOVABLE, axis_of, integers, movable, scalar


def lower_alias(node):
    return Alias(node.outputs[0], node.inputs[0])


# ---- RESHAPE -------------------------------------------------------------------------------------------------
def requested_shape(node):
    """The list of int in the second input, if that is a vector of int32, else in the option."""
    shape = node.input(1)
    if shape is not None and shape.dtype == "int32" and len(shape.shape) == 1:
        return integers(node.constant(1, "shape"))
    requested = list(node.options.new_shape or ())
    return [] if requested == [0] else requested        # old converters wrote [0] for a scalar


def infer_reshape(node):
    """The requested shape, where one -1 stands for the dimension that makes the sizes agree."""
    x, requested = node.inputs[0], requested_shape(node)
    shape, free = list(requested), requested.count(-1)
    if free == 1:
        known = prod(n for n in shape if n > 0)
        empty = x.size == 0 and 0 not in shape
        shape[shape.index(-1)] = 0 if empty else prod(n for n in x.shape if n > 0) // known
    if free > 1 or min(shape, default=0) < 0 or prod(shape) != x.size:
        raise node.error(f"has {x.size} elements, which cannot take the shape {requested}. If the input was resized, "
                         "the shape was fixed when the model was converted", x)
    return [tuple(shape)]


register("RESHAPE", types=movable("T any? -> T"), infer=infer_reshape, lower=lower_alias,
         reference=lambda x, *rest: x.reshape(rest[0] if len(rest) == 2 else rest[0].new_shape))


# ---- SQUEEZE and EXPAND_DIMS ---------------------------------------------------------------------------------
def infer_squeeze(node):
    """Drop dimensions of size 1: the dimensions that the option names, or all."""
    x = node.inputs[0]
    axes = {axis_of(node, axis, len(x.shape), x) for axis in node.options.squeeze_dims or ()}
    if any(x.shape[axis] != 1 for axis in axes):
        raise node.error(f"cannot lose the dimensions {sorted(axes)} of {list(x.shape)}: not all are of one element", x)
    return [tuple(n for i, n in enumerate(x.shape) if (i not in axes if axes else n != 1))]


register("SQUEEZE", versions=(1, 2), types=movable("T -> T"), infer=infer_squeeze, lower=lower_alias,
         reference=lambda x, options: np.squeeze(x, options.squeeze_dims or None))


def infer_expand_dims(node):
    """Inserts a dimension of one element before `axis`; -1 is after the last."""
    x = node.inputs[0]
    axis = axis_of(node, scalar(node, 1, "axis"), len(x.shape) + 1, x)
    return [x.shape[:axis] + (1,) + x.shape[axis:]]


register("EXPAND_DIMS", types=movable(f"T {INDICES} -> T"), infer=infer_expand_dims, lower=lower_alias,
         reference=lambda x, axis, options: np.expand_dims(x, axis.item()))


# ---- BITCAST -------------------------------------------------------------------------------------------------
def infer_bitcast(node):
    """A smaller type appends a dimension; a larger one takes the last dimension away."""
    x, y = node.inputs[0], node.outputs[0]
    old, new = (NUMPY_DTYPES[value.dtype].itemsize for value in (x, y))
    if old >= new:
        return [x.shape + ((old // new,) if old > new else ())]
    if not x.shape or x.shape[-1] != new // old:
        raise node.error(f"of shape {list(x.shape)} needs a last dimension of {new // old} to become {y.dtype}", x)
    return [x.shape[:-1]]


_WHOLE_BYTES = "|".join(t for t in MOVABLE if (DTYPE_BITS[t] or 0) >= 8)
_PACKED = [f"{t} -> {t}" for t in ("int4", "uint4", "int2")]
register("BITCAST", types=[f"{_WHOLE_BYTES} -> {_WHOLE_BYTES}", *_PACKED], infer=infer_bitcast, lower=lower_alias)


# ---- SHAPE and RANK ------------------------------------------------------------------------------------------
def infer_shape(node):
    return [(len(node.inputs[0].shape),)]


def lower_shape(node):
    y = node.outputs[0]
    return Constant(y, sizes(node.inputs[0].shape, y.dtype))


register("SHAPE", types=[f"any -> {INDICES}"], infer=infer_shape, lower=lower_shape,
         reference=lambda x, options: np.array(x.shape))


def lower_rank(node):
    return Constant(node.outputs[0], np.array(len(node.inputs[0].shape), np.int32))


register("RANK", types=["any -> int32"], infer=lambda node: [()], lower=lower_rank,
         reference=lambda x, options: np.array(x.ndim))
