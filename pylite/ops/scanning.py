"""CUMSUM, TOPK_V2 and LOCAL_RESPONSE_NORMALIZATION: functions along an axis.  docs/numerics.md section 8."""
from math import prod

from pylite.ir.registry import register
from pylite.ir.values import Scratch
from pylite.ops.elementwise import infer_same, row_function
from pylite.ops.moves import axis_of, scalar


# ---- CUMSUM --------------------------------------------------------------------------------------------------
def lower_cumsum(node):
    x, y = node.inputs[0], node.outputs[0]
    axis = axis_of(node, scalar(node, 1, "axis"), len(x.shape), x)
    numbers = (x.dtype, x.shape[axis], prod(x.shape[axis + 1:]), node.options.exclusive, node.options.reverse,
               x.itemsize)
    return row_function("cumsum", prod(x.shape[:axis]), 1 + 32768 // max(numbers[1] * numbers[2], 1), numbers, x, y)


register("CUMSUM", types=[f"{t} int32 -> {t}" for t in ("float32", "int32", "int64")], infer=infer_same,
         lower=lower_cumsum)


# ---- TOPK_V2 -------------------------------------------------------------------------------------------------
_FEW = 16               # results that are ranked on the stack: PL_FEW in _core/simd/scanning.h


def infer_top_k(node):
    x, k = node.inputs[0], scalar(node, 1, "k")
    if not x.shape or not 0 <= k <= x.shape[-1]:
        raise node.error(f"of shape {list(x.shape)} does not have the {k} largest elements in a row", x)
    return [x.shape[:-1] + (k,)] * 2


def lower_top_k(node):
    x, (values, indices) = node.inputs[0], node.outputs
    k = values.shape[-1]
    numbers = x.dtype, x.shape[-1], k, x.itemsize, indices.itemsize
    heap = Scratch((16 * k,), "uint8") if k > _FEW else None
    return row_function("top_k", prod(x.shape[:-1]), 0, numbers, x, values, indices, heap)


register("TOPK_V2", versions=(1, 3), infer=infer_top_k, lower=lower_top_k,
         types=[f"{t} int16|int32 -> {t} int16|int32" for t in ("float32", "int8", "uint8", "int16", "int32", "int64")])


# ---- LOCAL_RESPONSE_NORMALIZATION ----------------------------------------------------------------------------
def infer_local_response(node):
    if not node.inputs[0].shape:
        raise node.error("is a scalar, which has no channels", node.inputs[0])
    return [node.inputs[0].shape]


def lower_local_response(node):
    x, y, o = node.inputs[0], node.outputs[0], node.options
    n = x.shape[-1]
    return row_function("local_response", x.size // n, 1 + 2048 // n, (n, o.radius), x, y,
                        reals=(o.bias, o.alpha, o.beta))


register("LOCAL_RESPONSE_NORMALIZATION", types=["float32 -> float32"], infer=infer_local_response,
         lower=lower_local_response)
