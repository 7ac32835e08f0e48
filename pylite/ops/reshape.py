"""Ops that give the same elements another shape, and the one that tells the shape: RESHAPE, SQUEEZE, ..."""
from math import prod

import numpy as np

from pylite.ir.registry import register
from pylite.ir.values import Alias, Constant
from pylite.ops.moves import INDICES, axis_of, integers, movable, scalar


def lower_alias(node):
    return Alias(node.outputs[0], node.inputs[0])


def infer_reshape(node):
    """The second input, if it is a vector of int32, else the option names the shape; one -1 takes what is left."""
    x, shape = node.inputs[0], node.input(1)
    if shape is not None and shape.dtype == "int32" and len(shape.shape) == 1:
        wanted = integers(node.constant(1, "shape"))
    else:
        wanted = list(node.options.new_shape or ())
        if wanted == [0]:           # how old converters wrote a scalar
            wanted = []
    unknown = wanted.count(-1)
    if unknown == 1:
        at = wanted.index(-1)
        known = prod(n for n in wanted if n > 0)
        empty = x.size == 0 and 0 not in wanted
        wanted[at] = 0 if empty else prod(n for n in x.shape if n > 0) // known
    if unknown > 1 or min(wanted, default=0) < 0 or prod(wanted) != x.size:
        raise node.error(f"has {x.size} elements, which cannot take the shape {wanted}. If the input was resized, "
                         "the shape was fixed when the model was converted", x)
    return [tuple(wanted)]


register("RESHAPE", types=movable("T any? -> T"), infer=infer_reshape, lower=lower_alias,
         reference=lambda x, *rest: x.reshape(rest[0] if len(rest) == 2 else rest[0].new_shape))


def infer_squeeze(node):
    """Drops the dimensions of one element: those that the option lists, or all."""
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


def infer_shape(node):
    return [(len(node.inputs[0].shape),)]


def lower_shape(node):
    y = node.outputs[0]
    return Constant(y, np.array(node.inputs[0].shape, y.dtype))


register("SHAPE", types=[f"any -> {INDICES}"], infer=infer_shape, lower=lower_shape,
         reference=lambda x, options: np.array(x.shape))
