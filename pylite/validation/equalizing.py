"""Scales channels of activations to similar magnitudes, and the weights of neighbouring nodes by the inverse.

The float model computes the same with the scaled weights, but one quantization scale for all channels loses less.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pylite.ir.graph import replace
from pylite.runtime.model import Model
from pylite.validation.activations import Activations
from pylite.validation.channels import INPUT_AXES, ChannelGroup, shared
from pylite.validation.weights import WEIGHT_OPS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite.validation.counterparts import Counterpart
    from pylite.validation.ties import Tied

    Array = NDArray[Any]
    Scales = Mapping[int, Array]        # {number of a group: what its channels are divided by}

# ACTIVATIONS makes the activations' magnitudes more alike, at the cost of the weights that read them; WEIGHTS balances
# the weights that write and read a channel.  Activations go only half of the way: fully scaled, all channels would
# saturate where now only the largest do.
METHODS = ACTIVATIONS, WEIGHTS = "activations", "weights"
CAP = 6.0                   # RELU6's limit
LIMIT = 1e4                 # largest ratio between the scales of a group
SAME = 1e-4                 # relative difference between float models that count as the same


class Equalizer:
    """Scales channels of a quantized model and of its reference.

    groups: the ChannelGroups that can be scaled; counterparts: {node: its Counterpart}; ties: the Tied tensors
    """

    def __init__(self, model: Model, reference: Model, matches: Mapping[int, int],
                 counterparts: Mapping[int, Counterpart], ties: Sequence[Tied]) -> None:
        self._reference, self._matches, self._counterparts = reference, matches, counterparts
        self._graph = model.graph.subgraphs[0]
        free = [set(group.tensors) for group in ties if not group.fixed]
        self.groups = [group for group in shared(model, self._able()) if self._fits(group, free)]

    def _able(self) -> set[int]:
        """The nodes whose weights and biases can change: in the reference, nothing else reads them."""
        graph = self._reference.graph.subgraphs[0]
        reads = [i for o in graph.operators for i in o.inputs] + list(graph.outputs)
        able = set()
        for node, other in self._counterparts.items():
            op, inputs = WEIGHT_OPS[other.operator.name], other.operator.inputs
            constants = [inputs[k] for k in (op.weights, op.bias) if k < len(inputs) and inputs[k] >= 0]
            operands = self._graph.operators[node].inputs
            has_bias = len(operands) > op.bias and operands[op.bias] >= 0
            if (other.bias is not None) == (has_bias or len(constants) > 1) and all(
                    reads.count(i) == 1 and graph.tensors[i].dtype == "float32" for i in constants):
                able.add(node)
        return able

    def _fits(self, group: ChannelGroup, free: Sequence[set[int]]) -> bool:
        """Can the grids of all the group's tensors change, and do all have a counterpart?  free: sets of tied tensors.
        """
        tensors = set(group.tensors)
        whole = set().union(*(tied for tied in free if tied <= tensors))
        return whole == tensors and all(i in self._matches for i in tensors)

    def scales(self, samples: Sequence[Sequence[Array]], threads: int) -> dict[str, dict[int, Array]]:
        """{method: {number of a group: its scales}} from the reference's activations over the samples."""
        magnitudes = self._magnitudes(samples, threads)
        return {method: {k: self._scale(group, magnitudes[k], method) for k, group in enumerate(self.groups)}
                for method in METHODS}

    def _magnitudes(self, samples: Sequence[Sequence[Array]], threads: int) -> list[Array]:
        """The largest magnitude of each channel of each group."""
        magnitudes = [np.zeros(group.channels) for group in self.groups]
        wanted = [self._matches[i] for group in self.groups for i in group.tensors]
        activations = Activations(self._reference, wanted, threads)
        tops: dict[int, Array] = {}
        for inputs in samples:
            activations.run(inputs)
            for index in wanted:
                values = np.nan_to_num(np.abs(activations.array(index)), posinf=0.0)
                tops[index] = np.maximum(tops[index], values) if index in tops else values
        for group, largest in zip(self.groups, magnitudes, strict=True):
            for index, labels in group.tensors.items():
                if samples:
                    np.maximum.at(largest, labels.reshape(-1), tops[self._matches[index]].reshape(-1))
        return magnitudes

    def _scale(self, group: ChannelGroup, magnitudes: Array, method: str) -> Array:
        read = self._largest(group, group.readers, True)
        written = magnitudes if method == ACTIVATIONS else self._largest(group, group.writers, False)
        scale = np.sqrt(_ratio(written, read))
        scale = np.where((scale > 0) & (magnitudes > 0), scale, 0)
        top = scale.max(initial=0)
        scale = np.where(scale > 0, np.clip(scale / top if top else scale, 1 / LIMIT, 1.0), 1.0)
        # Scaled values stay below the cap, so RELU6 still limits values that the samples do not contain.
        return np.minimum(np.maximum(scale, magnitudes / CAP), 1.0) if group.capped else scale

    def _largest(self, group: ChannelGroup, nodes: Mapping[int, Array], inputs: bool) -> Array:
        """The largest absolute weight of each channel; inputs: relative to the largest weight of the same output."""
        largest = np.zeros(group.channels)
        for node, labels in nodes.items():
            name, weights = self._graph.operators[node].name, np.abs(self._counterparts[node].weights)
            if inputs and name != "DEPTHWISE_CONV_2D":
                output = WEIGHT_OPS[name].axis
                top = weights.max(tuple(a for a in range(weights.ndim) if a != output), keepdims=True, initial=0)
                weights = weights / np.where(top > 0, top, 1)
            axis = INPUT_AXES[name] if inputs else WEIGHT_OPS[name].axis
            np.maximum.at(largest, labels, np.moveaxis(weights, axis, 0).reshape(weights.shape[axis], -1).max(1))
        return largest

    def factors(self, chosen: Scales) -> dict[int, tuple[Array, Array]]:
        """{node: (factor of its weights, factor of its bias)}, arrays that broadcast with them."""
        by_node: dict[int, tuple[Array, Array]] = {}
        for number, scale in chosen.items():
            group = self.groups[number]
            for node, labels in group.writers.items():
                weights, bias = by_node.get(node, (np.ones(1), np.ones(1)))
                axis = WEIGHT_OPS[self._graph.operators[node].name].axis
                by_node[node] = weights * self._along(node, axis, 1 / scale[labels]), bias / scale[labels]
            for node, labels in group.readers.items():
                weights, bias = by_node.get(node, (np.ones(1), np.ones(1)))
                axis = INPUT_AXES[self._graph.operators[node].name]
                by_node[node] = weights * self._along(node, axis, scale[labels]), bias
        return by_node

    def _along(self, node: int, axis: int, factor: Array) -> Array:
        return factor.reshape([-1 if a == axis else 1 for a in range(self._counterparts[node].weights.ndim)])

    def scaled(self, chosen: Scales) -> Model:
        """The reference with scaled channels, which computes the same."""
        graph = self._reference.graph.subgraphs[0]
        tensors = list(graph.tensors)
        for node, (weights, bias) in self.factors(chosen).items():
            other = self._counterparts[node]
            op, inputs = WEIGHT_OPS[other.operator.name], other.operator.inputs
            _store(tensors, inputs[op.weights], other.weights * weights)
            index = inputs[op.bias] if op.bias < len(inputs) else -1
            if index >= 0 and other.bias is not None:
                _store(tensors, index, other.bias * bias)
        others = self._reference.graph.subgraphs[1:]
        return Model(self._reference.graph.contents, replace(self._reference.graph, subgraphs=(
            replace(graph, tensors=tuple(tensors)), *others)))


def agree(model: Model, other: Model, tensors: Sequence[int], samples: Sequence[Sequence[Array]], threads: int) -> bool:
    """Do two float models compute the same values of `tensors` on the samples, within SAME?"""
    runs = [Activations(m, tensors, threads) for m in (model, other)]
    for inputs in samples:
        for run in runs:
            run.run(inputs)
        for index in tensors:
            one, two = (run.array(index).astype(np.float64) for run in runs)
            if not np.abs(one - two).max(initial=0) <= SAME * np.abs(one).max(initial=0):
                return False
    return True


def _ratio(one: Array, other: Array) -> Array:
    """one / other; 0 where `other` is 0."""
    return np.divide(one, other, out=np.zeros(one.shape), where=other > 0)


def _store(tensors: list[Any], index: int, values: Array) -> None:
    data = np.ascontiguousarray(values, np.float32).reshape(-1).view(np.uint8)
    data.flags.writeable = False
    tensors[index] = replace(tensors[index], data=data, buffer=0, external=None, sparsity=None)
