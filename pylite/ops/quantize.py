"""QUANTIZE, DEQUANTIZE, CAST: between types.  docs/numerics.md section 9."""
from math import prod
from struct import pack

import numpy as np

from pylite.ir.registry import register
from pylite.ir.values import Alias, Call
from pylite.numerics import lookup_tables
from pylite.numerics.fixed_point import mbqm32
from pylite.numerics.quantization import LIMITS, quantize_multiplier
from pylite.ops.elementwise import infer_same, lut, parameters, require_quantized, unary
from pylite.ops.wide import wide_unary

_STORED = {"int8": "i8", "uint8": "u8", "int16": "i16", "int32": "i32", "int4": "i8", "int2": "i8", "uint4": "u8"}


def _per_axis(node, slot, layout, parameters_of):
    """A micro-kernel with parameters for each index of the axis that the scales run along."""
    x, y = node.inputs[0], node.outputs[0]
    owner = y if x.dtype == "float32" else x
    shape, axis = owner.shape, owner.axis
    if not 0 <= axis < len(shape) or shape[axis] != len(owner.scales):
        raise node.error(f"has {len(owner.scales)} scales along axis {axis}, which does not fit its shape", owner)
    p = b"".join(parameters(node, layout, *parameters_of(float(s), int(z)))
                 for s, z in zip(owner.scales, owner.zero_points, strict=True))
    split = prod(shape[:axis]), shape[axis], prod(shape[axis + 1:])
    return Call("elementwise.UnaryPerAxis", slot, split, x.bytes, y.bytes, p)


def lower_quantize(node):
    x, y = node.inputs[0], node.outputs[0]
    require_quantized(node, y)
    limits = LIMITS[y.dtype]
    if x.dtype == "float32":
        slot = "quantize_f32_i16" if y.dtype == "int16" else "quantize_f32_i8"
        if len(y.scales) > 1:
            return _per_axis(node, slot, "f3i", lambda s, z: (s, z, *limits))
        return unary(node, slot, parameters(node, "f3i", y.scale, y.zero_point, *limits))
    require_quantized(node, x)
    m, e = quantize_multiplier(float(x.scale) / float(y.scale))
    if x.dtype in ("int8", "uint8"):
        values = mbqm32(lookup_tables.bytes_of(x.dtype) - x.zero_point, m, e) + y.zero_point
        if y.dtype != "int16":
            return lut(node, values)
        return unary(node, "lut8_i16", np.clip(values, *limits).astype(np.int16).view(np.uint8))
    slot = f"rescale_{_STORED[x.dtype]}_{_STORED[y.dtype].replace('u8', 'i8')}"
    return unary(node, slot, parameters(node, "6i", x.zero_point, m, e, y.zero_point, *limits))


def lower_dequantize(node):
    x = node.inputs[0]
    if x.dtype == "float16":
        return unary(node, "half_to_float")
    require_quantized(node, x)
    slot = f"dequantize_{_STORED[x.dtype]}"
    if len(x.scales) > 1:
        return _per_axis(node, slot, "fi", lambda s, z: (s, z))
    return unary(node, slot, parameters(node, "fi", x.scale, x.zero_point))


def lower_cast(node):
    x, y = node.inputs[0], node.outputs[0]
    slot = _FAST_CASTS.get((x.dtype, y.dtype))
    if slot:
        return unary(node, *slot)
    if x.dtype in _BITS and y.dtype in _BITS:
        if _BITS[x.dtype] == _BITS[y.dtype]:
            return Alias(y, x)
        slot = _integer_cast(x.dtype, _BITS[y.dtype])
        if slot:
            return unary(node, slot)
    return wide_unary(node, "cast")


def _integer_cast(dtype, bits):
    """The micro-kernel that gives an integer other bits, or None.  The sign of a type matters only if it gets more."""
    if bits < _BITS[dtype] or dtype.startswith("int"):
        return f"cast_i{_BITS[dtype]}_i{bits}"
    return f"cast_u8_i{bits}" if dtype == "uint8" else None


_BITS = {"int8": 8, "uint8": 8, "int16": 16, "uint16": 16, "int32": 32, "uint32": 32, "int64": 64}
_ONE = pack("fi", 1.0, 0)
_FAST_CASTS = {("float16", "float32"): ("half_to_float",), ("float32", "float16"): ("float_to_half",),
               ("uint8", "float32"): ("dequantize_u8", _ONE), ("int8", "float32"): ("dequantize_i8", _ONE),
               ("int16", "float32"): ("dequantize_i16", _ONE), ("float32", "uint8"): ("cast_f32_u8",),
               ("float32", "int8"): ("cast_f32_i8",), ("float32", "int16"): ("cast_f32_i16",),
               ("float32", "int32"): ("cast_f32_i32",), ("float32", "int64"): ("cast_f32_i64",),
               ("int32", "float32"): ("cast_i32_f32",),
               ("int64", "float32"): ("cast_i64_f32",), ("bool", "float32"): ("cast_bool_f32",),
               ("float32", "bool"): ("cast_f32_bool",),
               **{("bool", dtype): (f"cast_bool_i{bits}",) for dtype, bits in _BITS.items()},
               **{(dtype, "bool"): (f"cast_i{bits}_bool" if bits > 8 else "cast_bool_i8",)
                  for dtype, bits in _BITS.items()}}
_CASTS = "float32|float16|bfloat16|float64|int8|uint8|int16|uint16|int32|uint32|int64|bool|complex64"

register("QUANTIZE", versions=(1, 6), infer=infer_same, lower=lower_quantize, conditions=("quantized: x one scale",),
         types=["float32 -> int8|uint8|int16|int4|uint4", "int8|uint8|int16 -> int8|uint8|int16", "int16 -> int32",
                "int32 -> int8|int16"])
register("DEQUANTIZE", versions=(1, 9), infer=infer_same, lower=lower_dequantize,
         types=["int8|uint8|int16|int4|uint4|int2|float16 -> float32"])
register("CAST", versions=(1, 9), infer=infer_same, lower=lower_cast,
         types=[f"{_CASTS} -> {_CASTS}", "int4|uint4|int2 -> float32", "float32 -> int4|uint4|int2"])
