"""Each node by itself: a graph whose nodes read given activations instead of each other's results.

Both models are cut at the tensors that match.  The quantized nodes then read the reference's activations, quantized,
and the reference's nodes read the very numbers that these represent.  What remains between their results is a node's
own error: its weights, its rounding and the range of its result.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pylite.ir.graph import replace
from pylite.validation.matching import CASTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pylite.ir.graph import Operator, Subgraph, Tensor


@dataclass(frozen=True)
class NodeGroup:
    """A node whose results are measured.

    results: its results; cuts: {tensor of this graph: the key of the activation that is read in its place}.
    """
    results: tuple[int, ...]
    cuts: Mapping[int, int]


@dataclass(frozen=True)
class Isolated:
    """A graph of nodes by themselves.

    cuts: {key of an activation: the input that takes it}; inputs: {input of the original graph: the same in this one};
    results: {tensor of the original graph: the same in this one}.
    """
    subgraph: Subgraph
    cuts: dict[int, int]
    inputs: dict[int, int]
    results: dict[int, int]


def closure(subgraph: Subgraph, results: tuple[int, ...], cuts: set[int]) -> tuple[list[Operator], set[int]]:
    """(the nodes between the results and the cuts, in order; the cuts that they read)"""
    producer = {i: o for o in subgraph.operators for i in o.outputs}
    operators: dict[int, Operator] = {}
    read: set[int] = set()
    waiting = [producer[i] for i in results if i in producer]       # an input has none
    while waiting:
        operator = waiting.pop()
        if operator.index in operators:
            continue
        operators[operator.index] = operator
        for index in operator.inputs:
            if index in cuts:
                read.add(index)
            elif index in producer:
                waiting.append(producer[index])
    return [operators[i] for i in sorted(operators)], read


def grouped(subgraph: Subgraph,
            cuts: Mapping[int, int]) -> tuple[list[tuple[NodeGroup, NodeGroup | None]], dict[int, int]]:
    """([(NodeGroup of the model, that of the reference)], {result of a cast that only the model has: what it reads}).

    The reference's is None for such a cast.
    cuts: {tensor of the model: its counterpart}; in the NodeGroups of both, the keys of cuts are tensors of the model.
    """
    groups: list[tuple[NodeGroup, NodeGroup | None]] = []
    casts: dict[int, int] = {}
    first: dict[int, int] = {}      # tensor of the reference -> the first that stands for it
    for index, counterpart in cuts.items():
        first.setdefault(counterpart, index)
    for operator in subgraph.operators:
        results = tuple(i for i in operator.outputs if i in cuts)
        if not results:
            continue
        _, read = closure(subgraph, results, set(cuts))
        own = NodeGroup(results, {i: i for i in read})
        if operator.name in CASTS and len(read) == 1 and cuts[results[0]] == cuts[min(read)]:
            casts[results[0]] = min(read)
            groups.append((own, None))
            continue
        images = {**first, **{cuts[i]: i for i in sorted(read, reverse=True)}}
        groups.append((own, NodeGroup(tuple(cuts[i] for i in results), images)))
    return groups, casts


class Isolation:
    """Builds an Isolated from NodeGroups.  shapes: {tensor: its present shape}, by default the file's."""

    def __init__(self, subgraph: Subgraph, shapes: Mapping[int, tuple[int, ...]]) -> None:
        self._subgraph = subgraph
        self._shapes = shapes
        self._tensors: list[Tensor] = list(subgraph.tensors)
        self._operators: list[Operator] = []
        self._cuts: dict[int, int] = {}
        self._inputs: dict[int, int] = {}
        self._results: dict[int, int] = {}

    def add(self, group: NodeGroup, constants: Mapping[int, Tensor] | None = None) -> None:
        """Add copies of a group's nodes, with tensors of their own; constants: {constant: the tensor in its place}."""
        operators, _ = closure(self._subgraph, group.results, set(group.cuts))
        renamed: dict[int, int] = {}
        for index, tensor in (constants or {}).items():
            renamed[index] = len(self._tensors)
            self._tensors.append(replace(tensor, index=len(self._tensors)))
        for operator in operators:
            inputs = tuple(self._read(i, group, renamed) for i in operator.inputs)
            for index in operator.outputs:
                renamed[index] = self._copy(index)
            self._operators.append(replace(operator, index=len(self._operators), inputs=inputs,
                                           outputs=tuple(renamed[i] for i in operator.outputs)))
        for index in group.results:
            self._results[index] = renamed[index]

    def _read(self, index: int, group: NodeGroup, renamed: dict[int, int]) -> int:
        if index in group.cuts:
            key = group.cuts[index]
            if key not in self._cuts:
                self._cuts[key] = self._copy(index)
            return self._cuts[key]
        if index in renamed:
            return renamed[index]
        if index in self._subgraph.inputs:
            if index not in self._inputs:
                self._inputs[index] = self._copy(index)
            return self._inputs[index]
        return index        # a constant, a variable, or no operand

    def _copy(self, index: int) -> int:
        shape = self._shapes.get(index, self._subgraph.tensors[index].shape)
        tensor = replace(self._subgraph.tensors[index], index=len(self._tensors), shape=shape, shape_signature=shape)
        self._tensors.append(tensor)
        return tensor.index

    def finished(self) -> Isolated:
        """The graph of all groups."""
        subgraph = replace(self._subgraph, tensors=tuple(self._tensors), operators=tuple(self._operators),
                           inputs=(*self._cuts.values(), *self._inputs.values()),
                           outputs=tuple(self._results.values()))
        return Isolated(subgraph, self._cuts, self._inputs, self._results)
