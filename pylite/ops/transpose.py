"""TRANSPOSE: one strided copy, or an alias where only dimensions of one element change places."""
from pylite.ir.registry import register
from pylite.ir.shapes import contiguous_strides
from pylite.ir.values import Alias
from pylite.ops.moves import INDICES, copy, integers, movable


def permutation(node):
    x = node.inputs[0]
    order = integers(node.constant(1, "permutation"))
    axes = [axis + len(x.shape) if axis < 0 else axis for axis in order]
    if sorted(axes) != list(range(len(x.shape))):
        raise node.error(f"has {len(x.shape)} dimensions, which {order} does not permute", x)
    return axes


def infer_transpose(node):
    shape = node.inputs[0].shape
    return [tuple(shape[axis] for axis in permutation(node))]


def lower_transpose(node):
    x, y = node.inputs[0], node.outputs[0]
    axes = permutation(node)
    moved = [axis for axis in axes if x.shape[axis] != 1]
    if moved == sorted(moved):
        return Alias(y, x)
    strides = contiguous_strides(x.shape)
    return copy(x.view(y.shape, tuple(strides[axis] for axis in axes)), y)


register("TRANSPOSE", versions=(1, 9), types=movable(f"T {INDICES} -> T"), infer=infer_transpose,
         lower=lower_transpose, reference=lambda x, axes, options: x.transpose(axes))
