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
# The micro-kernel that computes it for quantized numbers, and whether its result is inverted: a <= b is not b < a.
_QUANTIZED = {"less": ("less", 0), "less_equal": ("less", 1), "equal": ("equal", 0), "not_equal": ("equal", 1)}


def lower_comparison(node):
    op, exchanged = _OPS[node.name]
    a, b = node.inputs[:2]
    if a.dtype == "string":             # Python compares numbers in their place
        return Call("movement.Copy", a, b)
    if exchanged:
        a, b = b, a
    if a.dtype in ("int8", "uint8"):
        if op == "less_equal":
            a, b = b, a
        kernel, inverted = _QUANTIZED[op]
        values = [common_scale(bytes_of(v.dtype) - v.zero_point, 8, *quantize_multiplier(v.scale)) for v in (a, b)]
        return binary(node, f"{kernel}_q8", pack("i", inverted) + np.array(values, np.int32).tobytes(), (a, b))
    if a.dtype == "int16" and a.scale > 0 and op in ("equal", "not_equal"):
        require_quantized(node, b)
        p = parameters(node, "7i", _QUANTIZED[op][1], a.zero_point, *quantize_multiplier(a.scale), b.zero_point,
                       *quantize_multiplier(b.scale))
        return binary(node, "equal_q16", p, (a, b))
    return wide_binary(node, op, (a, b))


def lower_logical(node):
    return wide_binary(node, "and" if node.name == "LOGICAL_AND" else "or")


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
