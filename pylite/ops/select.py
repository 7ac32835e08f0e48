"""SELECT and SELECT_V2: each element of one of two tensors, by a condition."""
import numpy as np

from pylite.ir import shapes
from pylite.ir.registry import register
from pylite.ir.values import Call
from pylite.ops.moves import movable


def keeps_shape(node):
    """Do all operands have one element?  Then the reference leaves the output the shape that the model declares."""
    return all(value.size == 1 for value in (*node.inputs, *node.outputs))


def infer_select(node):
    condition, x, y = node.inputs
    if keeps_shape(node):
        return [node.outputs[0].shape]
    if x.shape != y.shape or condition.shape not in (x.shape, (), (1,), x.shape[:1]):
        raise node.error(f"of shape {list(condition.shape)} cannot choose between {list(x.shape)} and {list(y.shape)}",
                         condition)
    return [x.shape]


def infer_select_v2(node):
    if keeps_shape(node):
        return [node.outputs[0].shape]
    try:
        return [shapes.broadcast(*(value.shape for value in node.inputs))]
    except ValueError as problem:
        raise node.error(str(problem), node.inputs[0]) from None


def lower_select(node):
    condition, x, y = node.inputs
    out = node.outputs[0]
    axes = []
    if out.size != 1:
        if node.name == "SELECT" and len(condition.shape) == 1 and condition.shape != out.shape:
            steps = (int(condition.size > 1),) + (0,) * (len(out.shape) - 1)    # one condition for each first index
        else:
            steps = shapes.broadcast_strides(condition.shape, out.shape)
        others = [shapes.broadcast_strides(value.shape, out.shape) for value in (x, y)]
        axes = list(zip(*shapes.collapse(out.shape, steps, *others), strict=True))
    return Call("indexing.Select", condition.bytes, x.bytes, y.bytes, out.bytes, axes=axes, item=out.itemsize)


register("SELECT", versions=(1, 4), types=movable("bool T T -> T"), infer=infer_select, lower=lower_select)
register("SELECT_V2", versions=(1, 2), types=movable("bool T T -> T"), infer=infer_select_v2, lower=lower_select,
         reference=lambda c, x, y, options: np.where(c, x, y))
