"""Conditions that an op places on its operands' quantization: stated at its registration, checked before lowering.

A condition is a line "types: operands requirement", such as "int16: x y zero_point = 0".  It applies to each named
operand that has one of the types; "quantized" stands for all integer types of up to 16 bits, and with "all" it applies
only if every named operand has one of the types.  Operands are named by position: x or a is the first input, b or w the
second, y the first output, * any.

| requirement          | the operand has                                                                         |
| scale > 0            | a scale                                                                                 |
| one scale            | no more than one scale and zero point, or equal ones along its axis                     |
| zero_point = N       | this zero point                                                                         |
| scale = S            | exactly this scale, a power of two such as 2^-15                                        |
| scale ~ 2^N          | a scale whose logarithm is within 0.001 of N                                            |
"""
import math
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pylite.ir.values import Node, Value

    Requirement = Callable[[Node, Value, str], None]

TYPES = ("int8", "uint8", "int16", "int4", "uint4", "int2")
_INPUTS = {"x": 0, "a": 0, "b": 1, "w": 1}


def check(node: "Node", conditions: "Sequence[str]") -> None:
    """Raise the node's error for the first of its operands that does not meet one of its op's `conditions`."""
    for condition in conditions:
        types, together, operands, require, argument = _parse(condition)
        values = [value for letter in operands for value in _operands(node, letter) if value is not None]
        affected = [value for value in values if value.dtype in types]
        if not together or len(affected) == len(values):
            for value in affected:
                require(node, value, argument)


def _operands(node: "Node", letter: str) -> "Sequence[Value | None]":
    if letter == "*":
        return [*node.inputs, *node.outputs]
    if letter == "y":
        return node.outputs[:1]
    position = _INPUTS[letter]
    return node.inputs[position:position + 1]


@cache
def _parse(condition: str) -> "tuple[frozenset[str], bool, list[str], Requirement, str]":
    """(types, whether all must have them, letters of the operands, the function that checks one, its argument)"""
    types, _, rest = condition.partition(": ")
    words = rest.split()
    at = next(i for i, word in enumerate(words) if len(word) > 1)
    kind, argument = " ".join(words[at:at + 2]), " ".join(words[at + 2:])
    first, *others = types.split()
    names = TYPES if first == "quantized" else others if first == "all" else [first, *others]
    return frozenset(names), first == "all", words[:at], _REQUIREMENTS[kind], argument


def _scaled(node: "Node", value: "Value", _: str) -> None:
    if not value.scale > 0:
        known = f"the scale {value.scale}" if value.quantized else "no scale"
        raise node.error(f"has {known}; this op needs one above 0 for its type", value)


def _one_scale(node: "Node", value: "Value", _: str) -> None:
    scales, zero_points = value.scales, value.zero_points
    if len(scales) > 1 and not ((scales == scales[0]).all() and (zero_points == zero_points[0]).all()):
        raise node.error(f"has {len(scales)} scales along axis {value.axis}; this op takes one for the tensor: "
                         "quantize it per tensor", value)


def _zero_point(node: "Node", value: "Value", zero_point: str) -> None:
    if value.zero_point != int(zero_point):
        raise node.error(f"has the zero point {value.zero_point}; it must be {zero_point} for {value.dtype}", value)


def _scale(node: "Node", value: "Value", power: str) -> None:
    if value.scale != 2.0 ** int(power.removeprefix("2^")):
        raise node.error(f"has the scale {value.scale}; it must be {power} for {value.dtype}", value)


def _near_scale(node: "Node", value: "Value", power: str) -> None:
    if not (value.scale > 0 and abs(math.log2(value.scale) - int(power.removeprefix("2^"))) < 1e-3):
        raise node.error(f"has the scale {value.scale}; it must be {power} for {value.dtype}", value)


_REQUIREMENTS = {"scale >": _scaled, "one scale": _one_scale, "zero_point =": _zero_point, "scale =": _scale,
                 "scale ~": _near_scale}
