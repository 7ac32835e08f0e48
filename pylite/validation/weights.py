"""The constants of a node compared with those of the reference: weights channel by channel, and biases."""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pylite.ir.graph import replace
from pylite.validation.widening import dequantized, folded, steps

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite.ir.graph import Operator, Subgraph, Tensor
    from pylite.runtime.model import Model


class WeightOp(NamedTuple):
    """The operands of an op with weights.

    data, weights, bias: their positions among the inputs; axis: that of the output channels in the weights
    """
    data: int
    weights: int
    bias: int
    axis: int


WEIGHT_OPS = {"CONV_2D": WeightOp(0, 1, 2, axis=0), "DEPTHWISE_CONV_2D": WeightOp(0, 1, 2, axis=3),
              "FULLY_CONNECTED": WeightOp(0, 1, 2, axis=0), "TRANSPOSE_CONV": WeightOp(2, 1, 3, axis=0),
              "CONV_3D": WeightOp(0, 1, 2, axis=4)}
GAIN = 1.15             # weights larger or smaller than the reference's by this factor are wrong, not rounded


@dataclass(frozen=True)
class ComparedWeights:
    """A node's constants and the reference's; every array has one element for each output channel.

    gain: least-squares ratio of the weights to the reference's; 1 if they agree
    scaled: do the weights equal the reference's times the gain, and are they large enough to be sure?
    sqnr_db: power of the reference's weights over power of the difference
    magnitude: the largest absolute weight of the reference
    noise: expected squared error of a well rounded weight, with as many scales as the model has
    fan_in: products for each result
    bias, reference_bias: real numbers, as kernels read them, or None
    bias_ends: is the bias the least or the largest number of its type?
    scales: number of the weights' scales, 0 in float16; scale_spread: the largest scale over the smallest
    """
    gain: NDArray[Any]
    scaled: NDArray[Any]
    sqnr_db: NDArray[Any]
    magnitude: NDArray[Any]
    noise: NDArray[Any]
    fan_in: int
    bias: NDArray[Any] | None
    reference_bias: NDArray[Any] | None
    bias_ends: NDArray[Any]
    scales: int
    scale_spread: float

    @property
    def spread(self) -> float:
        """The largest magnitude of a channel over the smallest, without channels of zeros."""
        used = self.magnitude[self.magnitude > 0]
        return float(used.max() / used.min()) if used.size else 1.0


def compare(model: Model, operator: Operator, reference: Model,
            candidates: Sequence[Operator]) -> ComparedWeights | None:
    """The ComparedWeights of a node, or None.  candidates: the reference's nodes that compute the same."""
    op = WEIGHT_OPS.get(operator.name)
    if op is None:
        return None
    ours, theirs = model.graph.subgraphs[0], reference.graph.subgraphs[0]
    tensor = _operand(ours, operator, op.weights)
    if tensor is None or tensor.data is None or tensor.dtype not in ("int8", "uint8", "int4", "int16", "float16"):
        return None
    for other in candidates:
        expected = _operand(theirs, other, op.weights)
        if other.name != operator.name or expected is None or expected.shape != tensor.shape:
            continue
        values, wanted = dequantized(model, tensor), dequantized(reference, expected)
        if values is not None and wanted is not None:
            biases = _bias(model, ours, operator), _bias(reference, theirs, other)
            raw = _operand(ours, operator, op.bias)
            ends = _at_ends(model, raw, expected.shape[op.axis])
            return _compared(values, wanted, op.axis, tensor, biases, ends)
    return None


def _compared(values: NDArray[Any], wanted: NDArray[Any], axis: int, tensor: Tensor, biases: Any,
              ends: NDArray[Any]) -> ComparedWeights:
    channels, q = wanted.shape[axis], tensor.quantization
    a = np.moveaxis(values, axis, 0).reshape(channels, -1).astype(np.float64)
    b = np.moveaxis(wanted, axis, 0).reshape(channels, -1).astype(np.float64)
    power, product = (b * b).sum(1), (a * b).sum(1)
    magnitude = np.abs(b).max(1, initial=0)
    scale = np.zeros(0) if q is None else q.scale
    levels = {"int4": 7, "int16": 32767, "float16": 1 << 10}.get(tensor.dtype, 127)
    step = (np.full(channels, magnitude.max(initial=0)) if scale.size == 1 else magnitude) / levels
    if q is not None and q.block_size and axis == 0:
        blocks = np.abs(b).reshape(channels, -1, q.block_size).max(2) / levels
        step = np.sqrt(np.square(blocks).mean(1))
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.where(power > 0, product / power, 1.0)
        sqnr = 10 * np.log10(power / ((a - b) ** 2).sum(1))
    sizes = np.moveaxis(steps(tensor, values), axis, 0).reshape(channels, -1)
    # Rounding alone changes the gain of weights of a few steps.
    significant = np.maximum(np.abs(gain - 1), GAIN - 1) * magnitude > sizes.max(1, initial=0)
    scaled = significant & (np.abs(a - gain[:, None] * b) <= sizes).all(1)
    bias, expected = biases
    if bias is not None and expected is None:
        expected = np.zeros_like(bias)
    used = scale[scale > 0]
    spread = float(used.max()) / float(used.min()) if used.size else 1.0
    return ComparedWeights(gain, scaled, sqnr, magnitude, noise=step * step / 12, fan_in=b.shape[1], bias=bias,
                           reference_bias=expected, bias_ends=ends, scales=scale.size, scale_spread=spread)


def _operand(subgraph: Subgraph, operator: Operator, position: int) -> Tensor | None:
    """An operand, or the constant from which a DEQUANTIZE computes it; None if there is no such operand."""
    if len(operator.inputs) <= position or operator.inputs[position] < 0:
        return None
    index = operator.inputs[position]
    return subgraph.tensors[folded(subgraph).get(index, index)]


def bias_as_read(subgraph: Subgraph, operator: Operator) -> tuple[Tensor | None, float]:
    """(a node's bias with the scale that kernels use: the data's times the weights', the file's scale over that one)"""
    op = WEIGHT_OPS[operator.name]
    operands = [_operand(subgraph, operator, p) for p in (op.data, op.weights, op.bias)]
    bias, grids = operands[2], [t.quantization for t in operands if t is not None and t.quantization is not None]
    if bias is None or bias.dtype not in ("int32", "int64") or len(grids) < 3:
        return bias, 1.0
    data, weights, own = grids
    scale = data.scale * weights.scale if data.scale.size == 1 else np.zeros(0, np.float32)
    if scale.size not in (1, math.prod(bias.shape)) or own.scale.size not in (1, scale.size) or not (
            scale.all() and own.scale.all()):
        return bias, 1.0
    ratios = own.scale / scale
    return (replace(bias, quantization=replace(own, scale=scale, axis=0)),
            float(ratios[np.argmax(np.abs(np.log(ratios)))]))


def _bias(model: Model, subgraph: Subgraph, operator: Operator) -> NDArray[Any] | None:
    tensor, _ = bias_as_read(subgraph, operator)
    return None if tensor is None else dequantized(model, tensor)


def _at_ends(model: Model, tensor: Tensor | None, channels: int) -> NDArray[Any]:
    """For each channel: is the value of an integer bias the least or the largest of its type?"""
    values = None if tensor is None else model.weights.constant(tensor)
    if values is None or values.size != channels or values.dtype.kind != "i":
        return np.zeros(channels, bool)
    limits = np.iinfo(values.dtype)
    return ((values == limits.max) | (values == limits.min)).reshape(channels)
