"""Where a node's error comes from: its constants, or the rounding of the activations that it reads and writes.

Both are measured with real numbers.  What the constants cost: the node with the model's weights and biases and no other
rounding, compared with the reference's node on the same operands.  What the activations cost: the reference's node on
quantized operands with its result quantized, compared with the reference's activation.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pylite.runtime.executor import Executor
from pylite.validation.interleaving import KernelStep, Track, quantizing_kernels
from pylite.validation.isolation import Isolation, closure
from pylite.validation.statistics import ErrorSums, Grid
from pylite.validation.weights import WEIGHT_OPS, bias_as_read
from pylite.validation.widening import dequantized, folded, real

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite._core.run.kernel import Kernel
    from pylite._core.simd import Pool
    from pylite.ir.graph import Operator, Subgraph, Tensor
    from pylite.runtime.model import Model
    from pylite.validation.interleaving import Usage
    from pylite.validation.isolation import NodeGroup

    Array = NDArray[Any]

SAMPLES = 8         # origins are measured on the first samples only, which show the shares well enough
REAL = Grid("float32")


class OriginSums:
    """Sums of the two kinds of errors.  constants, activations: {tensor of the model: ErrorSums}"""

    def __init__(self) -> None:
        self.constants: dict[int, ErrorSums] = {}
        self.activations: dict[int, ErrorSums] = {}


class Origins(OriginSums):
    """The reference's nodes, each by itself, with the model's constants; and the OriginSums that they are for.

    isolated: the graph of these nodes, with the keys of the reference's own Isolated; executor: runs it.
    """

    def __init__(self, model: Model, reference: Model, pairs: Sequence[tuple[NodeGroup, NodeGroup]],
                 shapes: Mapping[int, tuple[int, ...]], pool: Pool) -> None:
        """pairs: (NodeGroup of the model, that of the reference); shapes: {tensor of the reference: shape}."""
        super().__init__()
        isolation = Isolation(reference.graph.subgraphs[0], shapes)
        self._with_constants: set[int] = set()
        for group, counterpart in pairs:
            constants = constants_of(model, group, reference, counterpart)
            if constants:
                isolation.add(counterpart, constants)
                self._with_constants.update(group.results)
        self.isolated = isolation.finished()
        self.executor = Executor(reference, self.isolated.subgraph, pool)
        self._rounded: dict[int, Array] = {}

    def prepare(self, grids: Mapping[int, Grid], sums: Mapping[int, ErrorSums]) -> None:
        """Make empty sums for the tensors of `sums`, with as many channels."""
        self.constants = {i: ErrorSums(s.channels) for i, s in sums.items() if i in self._with_constants}
        self.activations = {i: ErrorSums(s.channels) for i, s in sums.items() if grids[i].step}

    def plan(self, what: str, index: int, result: int, usage: Usage) -> None:
        """Note step `what` of Uniform._order() in `usage`, the Usage of `executor`.

        index: the model's tensor; result: its counterpart.
        """
        if what == "give":
            usage.write(self.isolated.cuts.get(index))
        elif index in self.constants:
            usage.compute(self.isolated.results[result])

    def watch_constants(self, index: int, track: Track, result: int, expected: Array) -> list[KernelStep]:
        """Steps that run the reference's node with the model's constants, and observe its result.

        index: the model's tensor; result: its counterpart; expected: the counterpart, computed with the reference's
        constants from the same operands.
        """
        place = self.isolated.results[result]
        observer = self.constants[index].observer(REAL, self.executor.array(place), expected)
        return [*track.until(place), KernelStep(observer)]

    def watch_activations(self, index: int, grid: Grid, computed: Array, expected: Array) -> list[Kernel]:
        """Kernels that quantize a result, and observe it.

        computed: the result of the reference's node on quantized operands; expected: the reference's activation.
        """
        rounded = self._rounded.setdefault(index, np.empty(computed.shape, grid.dtype))
        return [*quantizing_kernels(grid, computed, rounded), self.activations[index].observer(grid, rounded, expected)]


def _nodes(subgraph: Subgraph, group: NodeGroup) -> list[Operator]:
    return closure(subgraph, group.results, set(group.cuts))[0]


def constants_of(model: Model, group: NodeGroup, reference: Model, counterpart: NodeGroup) -> dict[int, Tensor]:
    """{constant of the reference: a tensor with the real numbers of the model's}, for nodes of the same op and arity.
    """
    subgraph, other = model.graph.subgraphs[0], reference.graph.subgraphs[0]
    waiting = _nodes(subgraph, group)
    tensors, behind = subgraph.tensors, folded(subgraph)
    constants: dict[int, Tensor] = {}
    for theirs in _nodes(other, counterpart):
        alike = theirs.name, len(theirs.inputs)
        node = next((n for n in waiting if (n.name, len(n.inputs)) == alike), None)
        if node is None:
            continue
        waiting.remove(node)
        bias = WEIGHT_OPS[node.name].bias if node.name in WEIGHT_OPS else -1
        for position, (mine, index) in enumerate(zip(node.inputs, theirs.inputs, strict=True)):
            if min(mine, index) < 0:
                continue
            own, constant = tensors[behind.get(mine, mine)], other.tensors[index]
            if position == bias:
                own = bias_as_read(subgraph, node)[0] or own
            if (own.dtype != "float32" and constant.data is not None and constant.dtype == "float32"
                    and constant.shape == own.shape and dequantized(model, own) is not None):
                constants[index] = real(model, own)
    return constants
