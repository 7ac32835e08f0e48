"""The float model's constants for the nodes with weights of a quantized model."""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pylite.validation.widening import dequantized

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from numpy.typing import NDArray

    from pylite.ir.graph import Operator
    from pylite.runtime.model import Model
    from pylite.validation.requantizing import Requantizer

    Array = NDArray[Any]


@dataclass(frozen=True)
class Counterpart:
    """The float model's node: its operator, and its weights and bias as real numbers, float64.

    bias: zeros if only the quantized node has one, None if that has none.
    """
    operator: Operator
    weights: Array
    bias: Array | None


def counterparts(model: Model, requantizer: Requantizer, reference: Model,
                 matches: Mapping[int, int]) -> Iterator[tuple[int, Counterpart]]:
    """(node with weights, its Counterpart), where both have the same shapes.

    requantizer: of the quantized model; matches: {tensor: the reference's}.
    """
    graph, other_graph = model.graph.subgraphs[0], reference.graph.subgraphs[0]
    tensors, producer = other_graph.tensors, {i: o for o in other_graph.operators for i in o.outputs}

    def counterpart(operator: Operator) -> Operator | None:
        other = producer.get(matches.get(operator.outputs[0], -1))
        if other is not None and other.name != operator.name:       # an activation that is fused here
            other = producer.get(other.inputs[0])
        return other if other is not None and other.name == operator.name else None
    for node, (_, position, bias_position, _) in requantizer.nodes.items():
        other, own = counterpart(graph.operators[node]), requantizer.weights(node)
        if other is None or own is None or len(other.inputs) <= position:
            continue
        real, bias = dequantized(reference, tensors[other.inputs[position]]), requantizer.bias(node)
        if real is None or real.shape != own.shape:
            continue
        if bias is not None:
            index = other.inputs[bias_position] if len(other.inputs) > bias_position else -1
            values = dequantized(reference, tensors[index]) if index >= 0 else np.zeros(bias.size)
            bias = values.reshape(-1) if values is not None and values.size == bias.size else None
        yield node, Counterpart(other, real, bias)
