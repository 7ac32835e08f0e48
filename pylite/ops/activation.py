"""Activations: LOGISTIC, TANH, the RELU family, LEAKY_RELU, PRELU, HARD_SWISH, ELU, GELU.  docs/numerics.md section 6.

An 8-bit function of one tensor is a table of 256 entries, whatever the op.
"""
import numpy as np

from pylite.ir.registry import register, same
from pylite.numerics import lookup_tables
from pylite.numerics.fixed_point import hard_swish, mbqm32, sigmoid16_multiplier
from pylite.numerics.quantization import LIMITS, quantize_multiplier, quantized_range
from pylite.ops.elementwise import (
    binary,
    flip,
    infer_broadcast,
    infer_same,
    lut,
    parameters,
    require_quantized,
    unary,
)
from pylite.ops.wide import wide_unary

FLOAT = {"float32": "f32", "float16": "f16"}
BYTES = ("int8", "uint8")
ONE_SCALE = ("quantized: x y one scale", "quantized: x y scale > 0")
SYMMETRIC16 = (*ONE_SCALE, "int16: x y zero_point = 0")


def real_function(node, name, f):
    """y = f(x): the float micro-kernel, or a table of the real function f for integers."""
    x, y = node.inputs[0], node.outputs[0]
    if y.dtype in FLOAT:
        return unary(node, f"{name}_{FLOAT[y.dtype]}")
    require_quantized(node, x, y)
    if y.dtype == "int16":
        table = lookup_tables.lut16(f, x.scale, x.zero_point, y.scale, y.zero_point)
        return unary(node, "lut16", table.view(np.uint8))
    return unary(node, "lut8", lookup_tables.lut8(f, x.scale, x.zero_point, y.scale, y.zero_point, y.dtype))


def defined(node, f, rational=False):
    """y = f(x) of int16, for which the reference has no rule: on real numbers, rounded once.  f as for `defined16`."""
    x, y = node.inputs[0], node.outputs[0]
    table = lookup_tables.defined16(f, x.dtype, x.scale, x.zero_point, y.scale, y.zero_point, rational)
    return unary(node, "table16", table.view(np.uint8))


def lower_sigmoid(node):
    """LOGISTIC and TANH, whose int16 form has a table and an interpolation of its own (section 6)."""
    x = node.inputs[0]
    if x.dtype == "bfloat16":
        return wide_unary(node, node.name.lower())
    if node.name == "TANH":
        name, f, shifts = "tanh", lookup_tables.tanh, (0, 1)
    else:
        name, f, shifts = "logistic", lookup_tables.logistic, (0,)
    if x.dtype != "int16":
        return real_function(node, name, f)
    p = parameters(node, "2i", *sigmoid16_multiplier(x.scale, shifts)) + lookup_tables.sigmoid16_table().tobytes()
    return unary(node, f"{name}_i16", p)


def lower_gelu(node):
    if node.options.approximate:
        return real_function(node, "gelu_tanh", lookup_tables.gelu_approximate)
    return real_function(node, "gelu", lookup_tables.gelu)


def lower_elu(node):
    if node.outputs[0].dtype == "int16":
        return defined(node, _elu)
    return real_function(node, "elu", lookup_tables.elu)


def lower_relu(node):
    """RELU, RELU6, RELU_N1_TO_1, RELU_0_TO_1: a clamp, with a change of scale for integers."""
    x, y = node.inputs[0], node.outputs[0]
    low, high = _CLAMPS[node.name]
    if y.dtype == "float32":
        return unary(node, "clamp_f32", parameters(node, "2f", low, float("inf") if high is None else high))
    if y.dtype == "int16" and node.name in _NARROW:
        return defined(node, _NARROW[node.name], rational=True)
    m, e = quantize_multiplier(x.scale / y.scale)
    low, high = quantized_range(low, high, y.dtype, y.scale, y.zero_point)
    if y.dtype == "int16":
        return unary(node, "rescale_i16_i16", parameters(node, "6i", x.zero_point, m, e, y.zero_point, low, high))
    values = mbqm32(lookup_tables.bytes_of(y.dtype) - x.zero_point, m, e) + y.zero_point
    return lut(node, np.minimum(np.maximum(values, low), high))


def lower_leaky_relu(node):
    x, y, alpha = node.inputs[0], node.outputs[0], np.float32(node.options.alpha)
    if y.dtype == "float32":
        return unary(node, "leaky_relu_f32", parameters(node, "f", alpha))
    m, e = quantize_multiplier(x.scale / y.scale)
    negative_m, negative_e = quantize_multiplier(abs(float(x.scale * alpha / y.scale)))
    if y.dtype == "int16":
        return unary(node, "leaky_relu_i16", parameters(node, "7i", x.zero_point, m, e, negative_m, negative_e,
                                                        -1 if alpha < 0 else 0, y.zero_point))
    v = lookup_tables.bytes_of(y.dtype) - x.zero_point
    negative = mbqm32(v, negative_m, negative_e)
    return lut(node, np.where(v >= 0, mbqm32(v, m, e), -negative if alpha < 0 else negative) + y.zero_point)


def lower_prelu(node):
    x, alpha, y = node.inputs[0], node.inputs[1], node.outputs[0]
    if y.dtype == "float32":
        return binary(node, "prelu_f32")
    f = flip(y.dtype)
    low, high = LIMITS[y.dtype]
    p = parameters(node, "10i", x.zero_point - f, alpha.zero_point - flip(alpha.dtype), y.zero_point - f, low - f,
                   high - f, f, *quantize_multiplier(x.scale / y.scale),
                   *quantize_multiplier(x.scale * alpha.scale / y.scale))
    return binary(node, "prelu_q16" if y.dtype == "int16" else "prelu_q8", p)


def lower_hard_swish(node):
    x, y = node.inputs[0], node.outputs[0]
    if y.dtype == "float32":
        return unary(node, "hard_swish_f32")
    if y.dtype == "int16":
        return defined(node, _hard_swish, rational=True)
    return lut(node, hard_swish(lookup_tables.bytes_of(y.dtype) - x.zero_point, x.scale, y.scale) + y.zero_point)


# ---- definitions on real numbers ----------------------------------------------------------------------------
def _logistic(x):
    return 1 / (1 + np.exp(-x))


def _clamp(low, high):
    return lambda x: np.clip(x, low, high)


def _leaky_relu(x, alpha):
    return np.where(x > 0, x, x * alpha)


def _hard_swish(x):
    return x * np.clip(x + 3, 0, 6) / 6


def _elu(x):
    return np.where(x < 0, np.expm1(np.minimum(x, 0)), x)


_CLAMPS = {"RELU": (0.0, None), "RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0), "RELU_0_TO_1": (0.0, 1.0)}

_NARROW = {name: _clamp(*_CLAMPS[name]) for name in ("RELU_N1_TO_1", "RELU_0_TO_1")}

register("LOGISTIC", versions=(1, 3), types=same("float32 float16 bfloat16 int8 uint8 int16"), infer=infer_same,
         lower=lower_sigmoid, reference=_logistic, conditions=(*SYMMETRIC16, "int16: y scale = 2^-15",
                                                                       "int8 uint8: y scale = 2^-8"))
register("TANH", versions=(1, 3), types=same("float32 float16 bfloat16 int8 uint8 int16"), infer=infer_same,
         lower=lower_sigmoid, reference=np.tanh, conditions=(*SYMMETRIC16, "int16: y scale ~ 2^-15"))
for _name, _limits in _CLAMPS.items():
    register(_name, versions=(1, 1 if _name in _NARROW else 3), infer=infer_same, lower=lower_relu,
             reference=_NARROW.get(_name, _clamp(*_limits)), types=same("float32 int8 uint8 int16"),
             conditions=ONE_SCALE if _name in _NARROW else SYMMETRIC16)
register("LEAKY_RELU", versions=(1, 2), types=same("float32 int8 uint8 int16"), infer=infer_same,
         lower=lower_leaky_relu, reference=_leaky_relu, conditions=SYMMETRIC16)
register("PRELU", types=[*same("float32 int8 uint8", 2), "int16 int8 -> int16"], infer=infer_broadcast,
         lower=lower_prelu, reference=_leaky_relu,
         conditions=("quantized: a b y one scale", "quantized: a b y scale > 0"))
register("HARD_SWISH", types=same("float32 int8 uint8 int16"), infer=infer_same, lower=lower_hard_swish,
         reference=_hard_swish, conditions=ONE_SCALE)
register("ELU", types=same("float32 int8 int16"), infer=infer_same, lower=lower_elu, reference=lookup_tables.elu,
         conditions=ONE_SCALE)
register("GELU", versions=(1, 3), types=same("float32 float16 int8 uint8 int16"), infer=infer_same, lower=lower_gelu,
         reference=lookup_tables.gelu, conditions=ONE_SCALE)
