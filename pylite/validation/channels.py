"""Which nodes share the channels of activations, so that a channel may be scaled in all of them at once.

A node that writes a channel divided by a number, and nodes that read it times this number, compute the same as before
if all nodes in between keep channels apart and follow their scale: RELU, pooling, additions of tensors scaled alike.
"""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from pylite.validation.weights import WEIGHT_OPS

if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

    from numpy.typing import NDArray

    from pylite.ir.graph import Operator, Subgraph
    from pylite.runtime.model import Model

    Labels = NDArray[np.intp]

INPUT_AXES = {"CONV_2D": 3, "DEPTHWISE_CONV_2D": 3, "FULLY_CONNECTED": 1, "TRANSPOSE_CONV": 3, "CONV_3D": 3}
RESHAPING = "RESHAPE", "SQUEEZE", "EXPAND_DIMS"
# They keep the last axis, and follow the scale of each of its elements.
FOLLOWING = ("MAX_POOL_2D", "AVERAGE_POOL_2D", "PAD", "RELU", "RELU6", "LEAKY_RELU", "PRELU", "MEAN",
             "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
SUMS = "ADD", "SUB"
LINEAR, CAPPED = ("NONE", "RELU"), "RELU6"


class _BlockedError(Exception):
    """A channel reaches an operand that does not follow its scale."""


@dataclass
class ChannelGroup:
    """Nodes that share channels, numbered from 0.

    channels: their number; tensors: {activation: the channel number of each element}; writers, readers: {node with
    weights: the channel number of each of its outputs, or inputs}; capped: does a RELU6 limit the channels to 6?
    """
    channels: int
    tensors: dict[int, Labels] = field(default_factory=dict)
    writers: dict[int, Labels] = field(default_factory=dict)
    readers: dict[int, Labels] = field(default_factory=dict)
    capped: bool = False


def shared(model: Model, nodes: Collection[int]) -> list[ChannelGroup]:
    """The ChannelGroups of a model's main subgraph; nodes: those whose weights and biases may change."""
    graph = model.graph.subgraphs[0]
    groups: list[ChannelGroup] = []
    for operator in graph.operators:
        if operator.index in nodes and all(operator.index not in group.writers for group in groups):
            try:
                groups.append(_Tracer(model, nodes, operator).group)
            except _BlockedError:
                continue
    return groups


class _Tracer:
    """Follows the channels that a node writes.  group: the ChannelGroup; _BlockedError if there is none."""

    def __init__(self, model: Model, nodes: Collection[int], first: Operator) -> None:
        self._model, self._nodes = model, nodes
        self._graph: Subgraph = model.graph.subgraphs[0]
        self._producer = {i: o for o in self._graph.operators for i in o.outputs}
        output = self._graph.tensors[first.outputs[0]]
        channels = output.shape[-1] if output.shape else 0
        self.group = ChannelGroup(channels)
        self._others: set[int] = set()      # operands that must not be scaled
        self._waiting: list[int] = []
        self._label(output.index, np.broadcast_to(np.arange(channels), output.shape))
        while self._waiting:
            index = self._waiting.pop()
            self._before(self._producer[index], index)
            for operator in self._graph.operators:
                for position, operand in enumerate(operator.inputs):
                    if operand == index:
                        self._after(operator, position, index)
        self._require(bool(self.group.readers) and not self._others & set(self.group.tensors))

    def _require(self, holds: bool) -> None:
        if not holds:
            raise _BlockedError

    def _label(self, index: int, labels: Labels) -> None:
        """Set the channel number of each element of a tensor; they must agree with those known before."""
        known = self.group.tensors.get(index)
        if known is not None:
            self._require(np.array_equal(known, labels))
            return
        self._require(labels.shape == self._graph.tensors[index].shape and index in self._producer
                      and index not in (*self._graph.inputs, *self._graph.outputs))
        self.group.tensors[index] = labels
        self._waiting.append(index)

    def _shape(self, index: int) -> tuple[int, ...]:
        return self._graph.tensors[index].shape

    def _constant(self, index: int) -> NDArray[Any]:
        values = self._model.weights.constant(self._graph.tensors[index])
        if values is None:
            raise _BlockedError
        return values

    def _rows(self, labels: Labels, size: int) -> Labels:
        """The channel numbers of a row of `size` elements; all rows must have the same."""
        self._require(size > 0 and labels.size % size == 0 and labels.size > 0)
        rows = labels.reshape(-1, size)
        self._require(bool((rows == rows[0]).all()))
        return rows[0]

    def _activation(self, operator: Operator) -> None:
        name = getattr(operator.options, "fused_activation_function", "NONE")
        self.group.capped |= name == CAPPED
        self._require(name == CAPPED or name in LINEAR)

    def _axes(self, operator: Operator) -> None:
        """Require that a MEAN does not reduce the axis of the channels; note a RELU6."""
        if operator.name == "MEAN":
            rank = len(self._shape(operator.inputs[0]))
            self._require(rank - 1 not in self._constant(operator.inputs[1]) % rank)
        self.group.capped |= operator.name == CAPPED

    def _after(self, operator: Operator, position: int, index: int) -> None:
        """Follow the channels to the results of a node that reads them."""
        labels, name = self.group.tensors[index], operator.name
        output = operator.outputs[0]
        if name in WEIGHT_OPS:
            self._require(operator.index in self._nodes and position == WEIGHT_OPS[name].data)
            self._read(operator, labels)
        elif name in RESHAPING and position == 0:
            self._label(output, labels.reshape(self._shape(output)))
        elif name == "TRANSPOSE" and position == 0:
            self._label(output, labels.transpose(self._constant(operator.inputs[1])))
        elif name in FOLLOWING and position == 0:
            self._axes(operator)
            row = self._rows(labels, labels.shape[-1])
            self._require(self._shape(output)[-1:] == row.shape)
            self._label(output, np.broadcast_to(row, self._shape(output)))
        elif name in SUMS or name == "MUL":
            self._activation(operator)
            if name == "MUL":
                self._others.add(operator.inputs[1 - position])
            self._label(output, labels)
        elif name == "BATCH_MATMUL" and position == 1:
            self._others.add(operator.inputs[0])
            columns = labels.swapaxes(-1, -2) if operator.options.adj_y else labels     # type: ignore[attr-defined]
            self._require(bool((columns == columns[..., :1, :]).all()))
            self._label(output, np.broadcast_to(columns[..., :1, :], self._shape(output)))
        else:
            raise _BlockedError

    def _read(self, operator: Operator, labels: Labels) -> None:
        shape, axis = self._shape(operator.inputs[WEIGHT_OPS[operator.name].weights]), INPUT_AXES[operator.name]
        if operator.name == "FULLY_CONNECTED":
            row = self._rows(labels, shape[axis])
        else:
            row = self._rows(labels, labels.shape[-1])
            if operator.name == "DEPTHWISE_CONV_2D":
                row = np.repeat(row, shape[axis] // row.size)
        self._require(row.size == shape[axis])
        self.group.readers[operator.index] = row

    def _before(self, operator: Operator, index: int) -> None:
        """Follow the channels to the operands of the node that writes them."""
        labels, name = self.group.tensors[index], operator.name
        self._require(len(operator.outputs) == 1)
        if name in WEIGHT_OPS:
            self._require(operator.index in self._nodes)
            self._activation(operator)
            self.group.writers[operator.index] = self._rows(labels, labels.shape[-1])
        elif name in RESHAPING:
            self._label(operator.inputs[0], labels.reshape(self._shape(operator.inputs[0])))
        elif name == "TRANSPOSE":
            order = np.argsort(self._constant(operator.inputs[1]))
            self._label(operator.inputs[0], labels.transpose(order))
        elif name in FOLLOWING:
            self._axes(operator)
            row, shape = self._rows(labels, labels.shape[-1]), self._shape(operator.inputs[0])
            self._require(shape[-1:] == row.shape)
            self._label(operator.inputs[0], np.broadcast_to(row, shape))
        elif name in SUMS:
            self._activation(operator)
            for operand in operator.inputs:
                self._label(operand, labels)
        else:       # reached from its operand, or else it is not known which operand has the channels
            self._require(name in ("MUL", "BATCH_MATMUL") and any(i in self.group.tensors for i in operator.inputs))
