"""ARG_MAX and ARG_MIN: the index of the first largest or smallest element along an axis."""
from math import prod

import numpy as np

from pylite.ir.registry import register
from pylite.ir.values import Call, Constant, Temporary
from pylite.ops.moves import axis_of

TYPES = [f"{t} int32|int64 -> int32|int64" for t in ("float32", "int8", "uint8", "int16", "int32", "bool")]
# XORed with an element's bits, these reverse the order (a float's sign, all bits of an integer)
# and make a byte without sign one with a sign.
TURN = {"float32": 0x80000000, "int32": 0xFFFFFFFF, "int16": 0xFFFFFFFF, "int8": 0xFF, "uint8": 0xFF, "bool": 0xFF}
UNSIGNED = {"uint8": 0x80, "bool": 0x80}


def arg_axis(node):
    x, axis = node.inputs[0], node.constant(1, "axis")
    if axis.size != 1:
        raise node.error(f"needs one axis, not {axis.size}")
    axis = axis_of(node, int(axis.reshape(-1)[0]), len(x.shape), x)
    if x.shape[axis] == 0 and 0 not in x.shape[:axis] + x.shape[axis + 1:]:
        raise node.error(f"of shape {list(x.shape)} has no elements along axis {axis}", x)
    return axis


def infer_arg(node):
    x, axis = node.inputs[0], arg_axis(node)
    return [x.shape[:axis] + x.shape[axis + 1:]]


def lower_arg(node):
    x, y = node.inputs[0], node.outputs[0]
    axis = arg_axis(node)
    if x.shape[axis] == 1:
        return Constant(y, np.zeros(y.shape, y.dtype))
    flip = UNSIGNED.get(x.dtype, 0) ^ (TURN[x.dtype] if node.name == "ARG_MIN" else 0)
    outer, size, inner = prod(x.shape[:axis]), x.shape[axis], prod(x.shape[axis + 1:])
    kind, calls = {"float32": "f", "int32": "i"}.get(x.dtype, "b"), []
    if x.dtype == "int16":
        kind, wide = "i", Temporary(node, x.shape, "int32")
        calls.append(Call("elementwise.Unary", "wide_unary", x.size, x.bytes, wide.bytes, b"cast int16 int32"))
        x = wide
    return [*calls, Call("argmax.ArgMax", x.view((x.nbytes,), dtype="uint8"), y.view((y.nbytes,), dtype="uint8"), kind,
                         flip, outer=outer, size=size, inner=inner)]


register("ARG_MAX", versions=(1, 3), types=TYPES, infer=infer_arg, lower=lower_arg,
         reference=lambda x, axis, options: np.argmax(x, axis.item()))
register("ARG_MIN", versions=(1, 3), types=TYPES, infer=infer_arg, lower=lower_arg,
         reference=lambda x, axis, options: np.argmin(x, axis.item()))
