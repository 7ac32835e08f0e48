"""EXP, SQRT, RSQRT, ABS, NEG: functions of one operand, except activations.  docs/numerics.md section 5."""
from functools import cache

import numpy as np

from pylite.ir.registry import register, same
from pylite.ir.values import Call
from pylite.numerics import lookup_tables
from pylite.numerics.fixed_point import inv_sqrt, mbqm32, wrap32
from pylite.numerics.quantization import INT32_MIN, LIMITS, f32, quantize_multiplier
from pylite.ops.activation import SYMMETRIC16, real_function
from pylite.ops.elementwise import infer_same, lut, parameters, require_quantized, unary


def lower_exp(node):
    return real_function(node, "exp", lookup_tables.exp)


def _not_below_zero(node):
    """The check that no input is below the real 0."""
    x = node.inputs[0]
    return Call("conditions.Require", "at least", x.dtype, x.bytes, x.zero_point)


def lower_sqrt(node):
    x, y = node.inputs[0], node.outputs[0]
    if y.dtype == "float32":
        return unary(node, "sqrt_f32")
    if y.dtype == "int16":
        p = parameters(node, "2f2i", x.scale, y.scale, x.zero_point, y.zero_point)
        return [_not_below_zero(node), unary(node, "sqrt_i16", p)]
    v = np.maximum(lookup_tables.bytes_of(y.dtype) - x.zero_point, 0).astype(f32)
    root = np.trunc(np.sqrt(x.scale * v) / y.scale)
    integers = np.where(root < 2.0**31, np.minimum(root, 512), INT32_MIN).astype(np.int64)     # as x86-64 converts them
    return [_not_below_zero(node), lut(node, wrap32(integers + y.zero_point))]


@cache
def _inverse_roots():
    """1 / sqrt(v) with 20 fraction bits for v = 1 .. 255; entry 0 is not used."""
    roots = np.zeros(256, np.int64)
    for v in range(1, 256):
        m, e = inv_sqrt(v)
        roots[v] = mbqm32(1, m, e + 20)
    return roots


def lower_rsqrt(node):
    x, y = node.inputs[0], node.outputs[0]
    if y.dtype == "float32":
        return unary(node, "rsqrt_f32")
    if y.dtype == "int16":
        roots = real_function(node, "rsqrt", lookup_tables.rsqrt_below(f32(32767) * y.scale))
        return [_not_below_zero(node), roots]
    m, e = quantize_multiplier(1.0 / float(np.sqrt(x.scale) * y.scale))
    v = np.maximum(lookup_tables.bytes_of(y.dtype) - x.zero_point, 0)
    values = mbqm32(_inverse_roots()[v], m, e - 20) + y.zero_point
    return [_not_below_zero(node), lut(node, np.where(v == 0, LIMITS[y.dtype][1], values))]


def lower_abs(node):
    x, y = node.inputs[0], node.outputs[0]
    if y.dtype == "float32":
        return unary(node, "abs_f32")
    if y.dtype == "int32":
        return unary(node, "abs_i32")
    if y.dtype == "int16" and not x.quantized:
        return unary(node, "abs_i16")
    require_quantized(node, x, y)
    m, e = quantize_multiplier(x.scale / y.scale)
    if y.dtype == "int16":
        p = parameters(node, "6i", x.zero_point, m, e, y.zero_point, *LIMITS["int16"])
        return unary(node, "rescale_abs_i16", p)
    return lut(node, mbqm32(abs(lookup_tables.bytes_of(y.dtype) - x.zero_point), m, e) + y.zero_point)


def lower_neg(node):
    dtype = node.outputs[0].dtype
    if dtype == "int8":        # stored integers, whatever their scales; -128 stays
        return unary(node, "lut8", (-lookup_tables.bytes_of(dtype)).astype(np.int8).view(np.uint8))
    return unary(node, {"float32": "neg_f32", "float16": "neg_f16", "bfloat16": "neg_f16", "int16": "neg_i16",
                        "int32": "neg_i32", "int64": "neg_i64"}[dtype])


def _rsqrt(x):
    return 1 / np.sqrt(x)


register("EXP", versions=(1, 2), types=same("float32 int8 int16"), infer=infer_same, lower=lower_exp, reference=np.exp,
         conditions=SYMMETRIC16)
register("SQRT", versions=(1, 2), types=same("float32 int8 int16"), infer=infer_same, lower=lower_sqrt,
         reference=np.sqrt, conditions=SYMMETRIC16[1:])
register("RSQRT", versions=(1, 3), types=same("float32 int8 int16"), infer=infer_same, lower=lower_rsqrt,
         reference=_rsqrt, conditions=SYMMETRIC16[1:])
register("ABS", versions=(1, 5), types=same("float32 int8 int16 int32"), infer=infer_same, lower=lower_abs,
         reference=np.abs, conditions=SYMMETRIC16[2:])
register("NEG", types=same("float32 float16 bfloat16 int8 int16 int32 int64"), infer=infer_same, lower=lower_neg,
         reference=np.negative)
