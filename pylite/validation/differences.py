"""How a node differs from the reference's node: faults that are visible in the two graphs, without running them."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pylite.validation.matching import QUANTIZED
from pylite.validation.ranking import SHARED_GRIDS
from pylite.validation.statistics import Grid
from pylite.validation.weights import WEIGHT_OPS, bias_as_read
from pylite.validation.widening import dequantized, folded, steps

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from pylite.ir.graph import Operator, Subgraph, Tensor
    from pylite.runtime.model import Model
    from pylite.validation.matching import Match

# Nodes that only move values
MOVING = ("RESHAPE", "TRANSPOSE", "MAX_POOL_2D", "PAD", "SPLIT", "SPLIT_V", "UNPACK", "PACK", "SQUEEZE", "EXPAND_DIMS",
          "STRIDED_SLICE", "SLICE", "RESIZE_NEAREST_NEIGHBOR", "GATHER", "SPACE_TO_DEPTH", "DEPTH_TO_SPACE", "TILE")
COMMUTATIVE = "ADD", "MUL", "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE", "ADD_N"
# Options that change no result, or that types, operands or, of activations, ranges decide
FORMAL = ("asymmetric_quantize_inputs", "keep_num_dims", "pot_scale_int16", "quant_spec", "quantized_bias_type",
          "weights_format", "new_shape", "in_data_type", "out_data_type", "fused_activation_function")
MOVED = 4.0         # steps: rounding that makes errors cancel may move a number by more than one, but not by as many
NOISE = 4.0         # times that of rounding to the nearest, which it does not reach in all numbers together


def find(model: Model, operator: Operator, reference: Model, other: Operator | None, matches: Mapping[int, Match],
         constants: bool) -> Iterator[tuple[str, str]]:
    """(name of a Cause, its detail), the surest first.

    other: the reference's node that computes the same; constants: may these explain the noise?
    """
    ours, theirs = model.graph.subgraphs[0], reference.graph.subgraphs[0]
    if other is not None and other.name == operator.name:
        for name, value, wanted in _options(operator, other):
            yield "wrong option", f"{name} is {value!r}, and the reference's {wanted!r}"
        if order(operator, other, matches):
            yield "wrong operand", (f"it reads {_names(ours, operator)} in this order, and the reference's node "
                                    f"{_names(theirs, other)}")
        if constants and len(operator.inputs) == len(other.inputs):
            yield from _constants(model, operator, reference, other)
    yield from _scales(ours, operator)


def _scales(subgraph: Subgraph, operator: Operator) -> Iterator[tuple[str, str]]:
    """Scales that kernels ignore, because they compute them from other scales."""
    if operator.name in WEIGHT_OPS:
        ratio = bias_as_read(subgraph, operator)[1]
        if abs(ratio - 1) > 0.02:
            yield "bias scale", f"the bias's scale is {ratio:.3g} times the input's times that of the weights"
    if operator.name in MOVING + SHARED_GRIDS:
        grids = [Grid.of(subgraph.tensors[i]) for i in (operator.inputs[operator.name == "SPLIT"], operator.outputs[0])]
        read, written = ((grid.scale, grid.zero_point) if grid else None for grid in grids)
        if read and written and read != written:
            yield "scales differ", (f"it copies integers of scale {read[0]:.4g} and zero point {read[1]} to a tensor "
                                    f"of {written[0]:.4g} and {written[1]}")


def _options(operator: Operator, other: Operator) -> Iterator[tuple[str, Any, Any]]:
    """(name, value, the reference's value) of the options that differ."""
    mine: Any = operator.options
    for name in getattr(getattr(mine, "TABLE", None), "defaults", ()):
        value, wanted = getattr(mine, name), getattr(other.options, name)
        if name not in FORMAL and not name.endswith("_index") and not np.array_equal(value, wanted):
            yield name, value, wanted


def order(operator: Operator, other: Operator, matches: Mapping[int, Match]) -> tuple[int, ...] | None:
    """The node's operands in the order of the reference's node, if the two read the same in different orders."""
    if operator.name in COMMUTATIVE:
        return None
    mine = {matches[i].reference: i for i in operator.inputs if i in matches}
    if len(mine) < len(operator.inputs) or set(mine) != set(other.inputs) or len(other.inputs) != len(mine):
        return None
    positions = tuple(mine[i] for i in other.inputs)
    return None if positions == tuple(operator.inputs) else positions


def _names(subgraph: Subgraph, operator: Operator) -> str:
    return ", ".join(repr(subgraph.tensors[i].name.partition(";")[0]) for i in operator.inputs)


def _constants(model: Model, operator: Operator, reference: Model, other: Operator) -> Iterator[tuple[str, str]]:
    ours, theirs = model.graph.subgraphs[0], reference.graph.subgraphs[0]
    bias = WEIGHT_OPS[operator.name].bias if operator.name in WEIGHT_OPS else -1     # causes.py looks at it
    for position, (i, j) in enumerate(zip(operator.inputs, other.inputs, strict=True)):
        if min(i, j) >= 0 and position != bias:
            one, two = (graph.tensors[folded(graph).get(k, k)] for graph, k in ((ours, i), (theirs, j)))
            detail = _difference(model, one, reference, two)
            if detail:
                yield "wrong constant", detail


def _difference(model: Model, tensor: Tensor, reference: Model, expected: Tensor) -> str:
    """How a constant of the same shape differs, as text."""
    values, wanted = dequantized(model, tensor), dequantized(reference, expected)
    if tensor.shape != expected.shape or values is None or wanted is None or not values.size:
        return ""
    step, name = steps(tensor, values), repr(tensor.name.partition(";")[0])
    difference = np.abs(values - wanted)
    moved = difference > step + 1e-5 * np.abs(wanted)
    if not moved.any() or (tensor.dtype in QUANTIZED and (difference <= MOVED * step).all()
                           and (difference ** 2).mean() < NOISE * (step ** 2).mean() / 12):
        return ""
    power = float((wanted * wanted).sum())
    gain = float((values * wanted).sum()) / power if power else 1.0
    if step.all() and (np.abs(values - gain * wanted) <= step).all():
        return f"{name} is {gain:.3g} times the reference's"
    if not step.all():
        return f"{name} has other numbers than the reference's"
    return (f"{int(moved.sum())} of the {values.size} numbers of {name} "
            f"{'is' if moved.sum() == 1 else 'are'} off the reference's by more than a step, up to "
            f"{(difference / step).max():.3g} steps")
