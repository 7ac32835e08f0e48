"""Normalization along the last dimension."""
import numpy as np

from pylite.ir.registry import register, same
from pylite.ir.values import Call
from pylite.ops.softmax import byte_rows, defined_rows, infer_rows, require, rows


def infer_l2(node):
    if node.options.fused_activation_function != "NONE":
        raise node.error(f"takes no fused activation, and has {node.options.fused_activation_function}")
    return infer_rows(node)


def lower_l2(node):
    x, y = node.inputs[0], node.outputs[0]
    if x.dtype == "float32":
        return Call("softmax.RowsF32", rows(x), rows(y), "l2_normalize", inplace=(y, x))
    if x.dtype == "int16":
        return defined_rows(node, "l2_normalize")
    signed = x.dtype == "int8"
    require(node, 1 / 128, 0 if signed else 128)
    return Call("softmax.L2Normalize8", byte_rows(x), byte_rows(y), x.zero_point + 128 * signed, 0x80 if signed else 0,
                inplace=(y, x))


def reference_l2(x, o):
    return x / np.maximum(np.sqrt((x * x).sum(-1, keepdims=True)), 1e-6)


register("L2_NORMALIZATION", versions=(1, 2), types=same("float32 int8 uint8 int16"), infer=infer_l2,
         lower=lower_l2, reference=reference_l2, conditions=("int16: x y one scale", "int16: x y scale > 0"))
