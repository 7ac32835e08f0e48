"""Comparisons, EQUAL to GREATER_EQUAL, and LOGICAL_AND, _OR, _NOT.  docs/numerics.md section 5."""
from struct import pack

import numpy as np

from pylite.ir.registry import register
from pylite.ir.values import Call
from pylite.numerics.fixed_point import common_scale
from pylite.numerics.lookup_tables import bytes_of
from pylite.numerics.quantization import quantize_multiplier
from pylite.ops.elementwise import binary, infer_broadcast, infer_same, parameters, require_quantized
from pylite.ops.wide import wide_binary, wide_unary

NUMBERS = ("float32", "float16", "bfloat16", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64")
# The op that computes it, and whether with the operands exchanged.
_OPS = {"EQUAL": ("equal", False), "NOT_EQUAL": ("not_equal", False), "LESS": ("less", False),
        "LESS_EQUAL": ("less_equal", False), "GREATER": ("less", True), "GREATER_EQUAL": ("less_equal", True)}
# The micro-kernel that computes it, and whether its result is inverted: a <= b is not b < a.
_KERNELS = {"less": ("less", 0), "less_equal": ("less", 1), "equal": ("equal", 0), "not_equal": ("equal", 1)}
_SUFFIX = {"float32": "f32", "int16": "i16", "int32": "i32", "int64": "i64"}     # of its micro-kernels


def lower_comparison(node):
    op, exchanged = _OPS[node.name]
    a, b = node.inputs[:2]
    if a.dtype == "string":             # Python compares numbers in their place
        return Call("movement.Copy", a, b)
    if exchanged:
        a, b = b, a
    if op == "less_equal" and a.dtype in ("int8", "uint8", "int16", "int32", "int64"):  # not of floats, for NaN
        a, b = b, a
    kernel, inverted = _KERNELS[op]
    if a.dtype in ("int8", "uint8"):
        values = [common_scale(bytes_of(v.dtype) - v.zero_point, 8, *quantize_multiplier(v.scale)) for v in (a, b)]
        return binary(node, f"{kernel}_q8", pack("i", inverted) + np.array(values, np.int32).tobytes(), (a, b))
    if a.dtype == "int16" and a.scale > 0 and op in ("equal", "not_equal"):
        require_quantized(node, b)
        p = parameters(node, "7i", inverted, a.zero_point, *quantize_multiplier(a.scale), b.zero_point,
                       *quantize_multiplier(b.scale))
        return binary(node, "equal_q16", p, (a, b))
    if op == "less_equal" and a.dtype == "float32":
        return binary(node, "less_equal_f32", pack("i", 0), (a, b))
    if a.dtype in _SUFFIX:
        return binary(node, f"{kernel}_{_SUFFIX[a.dtype]}", pack("i", inverted), (a, b))
    return wide_binary(node, op, (a, b))


def lower_logical(node):
    return binary(node, "and_bool" if node.name == "LOGICAL_AND" else "or_bool")


_ORDERED = [f"{t} {t} -> bool" for t in NUMBERS]
_EQUAL = [*_ORDERED, "bool bool -> bool", "string string -> bool"]
for _name, _versions, _reference in (
        ("EQUAL", 5, lambda a, b, *_: a == b), ("NOT_EQUAL", 4, lambda a, b, *_: a != b), ("LESS", 3, np.less),
        ("LESS_EQUAL", 2, np.less_equal), ("GREATER", 2, np.greater), ("GREATER_EQUAL", 3, np.greater_equal)):
    register(_name, versions=(1, _versions), infer=infer_broadcast, lower=lower_comparison, reference=_reference,
             types=_EQUAL if _name in ("EQUAL", "NOT_EQUAL") else _ORDERED,
             conditions=("int8 uint8: a b one scale", "int8 uint8: a b scale > 0"))
for _name, _reference in (("LOGICAL_AND", np.logical_and), ("LOGICAL_OR", np.logical_or)):
    register(_name, types=["bool bool -> bool"], infer=infer_broadcast, lower=lower_logical, reference=_reference)
register("LOGICAL_NOT", types=["bool -> bool"], infer=infer_same, lower=lambda node: wide_unary(node, "not"),
         reference=np.logical_not)
