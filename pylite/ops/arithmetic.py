"""ADD, SUB, MUL, DIV, MAXIMUM, MINIMUM: two operands, broadcast.  docs/numerics.md section 5."""
from itertools import chain

import numpy as np

from pylite.ir.registry import register, same
from pylite.ir.values import Call, Temporary
from pylite.numerics.quantization import (
    activation_bounds,
    activation_range,
    add_parameters,
    power_of_two,
    quantize_multiplier,
)
from pylite.ops.elementwise import binary, by_definition, flip, infer_broadcast, parameters, require_quantized

SUFFIX = {"float32": "f32", "float16": "f16", "int8": "i8", "uint8": "u8", "int16": "i16", "int32": "i32",
          "int64": "i64", "uint32": "u32"}
_LAYOUT = {"float32": "2f", "float16": "2f", "int16": "2i", "int32": "2i", "int64": "2q", "uint32": "2I"}


def output_range(node):
    """(low, high) of a quantized output with its fused activation."""
    y = node.outputs[0]
    return activation_range(node.options.fused_activation_function, y.dtype, y.scale, y.zero_point)


def plain(node, name):
    """The op on numbers without a scale, clamped to the fused activation."""
    dtype = node.outputs[0].dtype
    bounds = activation_bounds(node.options.fused_activation_function, dtype)
    return binary(node, f"{name}_{SUFFIX[dtype]}", parameters(node, _LAYOUT[dtype], *bounds))


def zeros_and_range(node):
    """(a_zero, b_zero, y_zero, low, high, flip) as the rows of quantized ops take them."""
    a, b, y = node.inputs[0], node.inputs[1], node.outputs[0]
    low, high = output_range(node)
    f = flip(y.dtype)
    return a.zero_point - flip(a.dtype), b.zero_point - flip(b.dtype), y.zero_point - f, low - f, high - f, f


def is_quantized(node):
    """Does the op compute with scales?  8-bit types always do, int16 if the output has one (DIV always)."""
    y = node.outputs[0]
    if y.dtype in ("int8", "uint8") or (y.dtype == "int16" and (y.quantized or node.name == "DIV")):
        require_quantized(node, *node.inputs[:2], y)
        return True
    return False


def lower_add(node):
    return _sum(node, "add", 0)


def lower_sub(node):
    return _sum(node, "sub", -1)


def _sum(node, name, sign):
    """Slots: add_i16 and others without scales; sum_q8, sum_q16 with them, add_pot16 if they are powers of two."""
    if not is_quantized(node):
        return plain(node, name)
    a, b, y = node.inputs[0], node.inputs[1], node.outputs[0]
    if y.dtype == "int16" and node.options.pot_scale_int16:
        exponents = [power_of_two(v.scale) for v in (a, b, y)]
        if None not in exponents:
            shifts = [exponents[2] - exponents[0], exponents[2] - exponents[1]]
            if min(shifts) != 0 and (min(shifts) < 0 or name == "add"):
                raise node.error("scales are powers of two, so the output's must equal the larger of the inputs'", y)
            return binary(node, f"{name}_pot16", parameters(node, "4i", *shifts, *output_range(node)))
    left, *scalings = add_parameters(a.scale, b.scale, y.scale, y.dtype)
    if scalings[2][1] > 0:
        call = by_definition(node, -1 if sign else 1, False, *output_range(node))
        call.note = f"the output's scale {y.scale} is so small that almost all results saturate"
        return call
    p = parameters(node, "14i", *zeros_and_range(node), left, sign, *chain(*scalings))      # sum_q_p in elementwise.h
    return binary(node, "sum_q16" if y.dtype == "int16" else "sum_q8", p)


def lower_mul(node):
    a, b, y = node.inputs[0], node.inputs[1], node.outputs[0]
    if y.dtype == "complex64":
        return binary(node, "mul_c64")
    if not is_quantized(node):
        return plain(node, "mul")
    m, e = quantize_multiplier(a.scale * b.scale / y.scale)
    slot = "mul_q8" if a.dtype != "int16" else "mul_q16" if y.dtype == "int16" else "mul_q16_q8"
    return binary(node, slot, parameters(node, "8i", *zeros_and_range(node), m, e))     # product_q_p


def lower_div(node):
    a, b, y = node.inputs[0], node.inputs[1], node.outputs[0]
    if y.dtype == "float32":
        return plain(node, "div")
    zero = 0
    if is_quantized(node):
        m, e = quantize_multiplier(a.scale / (b.scale * y.scale))
        slot = "div_q16" if y.dtype == "int16" else "div_q8"
        call = binary(node, slot, parameters(node, "8i", *zeros_and_range(node), m, e))
        zero = b.zero_point
    else:
        call = plain(node, "div")
    if b.data is None:
        return [Call("conditions.Require", "differs", b.dtype, b.bytes, zero), call]
    if (b.data == zero).any():
        raise node.error("is the divisor, but holds a zero", b)
    return call


def mixed(lower):
    """`lower`, but operands of which some are float32 and some are quantized meet in float32.

    Quantized operands are dequantized first; the result is quantized last if the output is.
    """
    def through_floats(node):
        operands = [*node.inputs[:2], node.outputs[0]]
        floats = [value.dtype == "float32" for value in operands]
        if all(floats) or not any(floats):
            return lower(node)
        from pylite.ops.quantize import lower_dequantize, lower_quantize  # imported for the models that need it
        a, b, y = [value if value.dtype == "float32" else Temporary(node, value.shape, "float32", i)
                   for i, value in enumerate(operands)]
        calls = [lower_dequantize(node.with_operands([value], [real]))
                 for value, real in zip(operands, (a, b), strict=False) if real is not value]
        calls.append(lower(node.with_operands([a, b], [y])))
        if y is not operands[2]:
            calls.append(lower_quantize(node.with_operands([y], [operands[2]])))
        return calls
    return through_floats


def lower_extreme(node):
    name = "maximum" if node.name == "MAXIMUM" else "minimum"
    if node.outputs[0].dtype not in SUFFIX:
        from pylite.ops.wide import wide_binary  # imported for the types that need it
        return wide_binary(node, name)
    return binary(node, f"{name}_{SUFFIX[node.outputs[0].dtype]}")


_Q = "int8|uint8|int16"
_CONDITIONS = ("quantized: a b y one scale", "all int16: a b y zero_point = 0")
_MIXED = [f"float32 {_Q} -> float32|{_Q}", f"{_Q} float32 -> float32|{_Q}", f"{_Q} {_Q} -> float32",
          f"float32 float32 -> {_Q}"]

register("ADD", versions=(1, 6), types=[*same("float32 float16 int8 uint8 int16 int32 int64", 2), *_MIXED],
         infer=infer_broadcast, lower=mixed(lower_add), reference=np.add, fuses_activation=True, opaque=(0, 1),
         conditions=_CONDITIONS)
register("SUB", versions=(1, 5), types=[*same("float32 int8 uint8 int16 int32 int64", 2), *_MIXED],
         infer=infer_broadcast, lower=mixed(lower_sub), reference=np.subtract, fuses_activation=True,
         opaque=(0, 1), conditions=_CONDITIONS)
register("MUL", versions=(1, 8),
         types=[*same("float32 float16 int8 uint8 int16 int32 uint32 int64 complex64", 2),
                "int16 int16 -> int8|uint8", *_MIXED],
         infer=infer_broadcast, lower=mixed(lower_mul), reference=np.multiply, fuses_activation=True,
         opaque=(0, 1), conditions=_CONDITIONS)
register("DIV", versions=(1, 2), types=[*same("float32 int8 uint8 int16 int32", 2), *_MIXED],
         infer=infer_broadcast, lower=mixed(lower_div), reference=np.divide, fuses_activation=True,
         conditions=_CONDITIONS[:1])
for _name, _reference in (("MAXIMUM", np.maximum), ("MINIMUM", np.minimum)):
    register(_name, versions=(1, 4), infer=infer_broadcast, lower=mixed(lower_extreme),
             types=[*same("float32 float16 bfloat16 int8 uint8 int16 int32 int64", 2), *_MIXED],
             reference=_reference)
