"""Delegates in Python: the base class, the graph that a delegate sees, and the node that runs a partition for it."""
from __future__ import annotations

from typing import TYPE_CHECKING

from pylite.ir.values import Node
from pylite.plugins.delegation import DELEGATE, DelegateFlags, FailedStep
from pylite.plugins.python_ops import PythonNodeOp, runnable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from pylite.ir.graph import Operator
    from pylite.ir.values import Value
    from pylite.plugins.delegation import Delegation
    from pylite.plugins.partition import Partition
    from pylite.plugins.protocols import DelegateKernel, NodeInfo, TensorInfo
    from pylite.plugins.python_ops import CustomNode


class PythonDelegate:
    """The base of a delegate in Python, for `Interpreter(experimental_delegates=[...])`.

    Without the flag ALLOW_DYNAMIC_TENSORS the delegate sees all shapes, and memory is planned as soon as it has taken
    its nodes.  Resizing an input then restores the file's nodes, and the next allocation applies the delegate again.
    """
    flags: int = DelegateFlags.NONE

    def __repr__(self) -> str:
        return f"<PythonDelegate {self.name}>"

    @property
    def name(self) -> str:
        """The delegate's name in errors and in `pylite inspect`."""
        return type(self).__name__

    def prepare(self, graph: DelegateGraph) -> None:
        """Take nodes of `graph`, a DelegateGraph: by default all nodes for which supports() is true."""
        graph.replace([node.index for node in graph.nodes if node.name != DELEGATE and _supports(self, node)])

    def supports(self, node: NodeInfo) -> bool:
        """True if the delegate can run this Node; pylite.typing.NodeInfo lists what it offers."""
        raise NotImplementedError(f"{self.name} has neither supports() nor prepare()")

    def compile(self, part: DelegatePart) -> DelegateKernel:
        """The kernel for `part`, a DelegatePart: an object with invoke(*inputs, *outputs, *temporaries).

        It may have `kernel` instead, as a CustomOp may.  It may also have prepare(node), which returns the outputs'
        shapes, or None to keep them, and free().
        """
        raise NotImplementedError(f"{self.name} has no compile()")

    def modify(self, delegation: Delegation) -> None:
        """Called by the runtime to apply the delegate: calls prepare()."""
        graph = DelegateGraph(delegation, self)
        try:
            self.prepare(graph)
        finally:
            graph.in_prepare = False


class DelegateGraph:
    """A subgraph as a delegate sees it.

    nodes: list of Node in execution order, with their options, inputs and outputs (Values; `data` where constant);
    nodes of earlier delegates are called "DELEGATE".  inputs, outputs: the Values of the graph's inputs and outputs.
    """

    def __init__(self, delegation: Delegation, delegate: PythonDelegate) -> None:
        self._delegation = delegation
        self._delegate = delegate
        self._values = delegation.current_values()
        self.in_prepare = True

    @property
    def nodes(self) -> Sequence[NodeInfo]:
        """The nodes in execution order."""
        operators = self._delegation.operators
        return [Node(i, operators[i], self._values) for i in self._delegation.plan]

    @property
    def inputs(self) -> Sequence[TensorInfo]:
        """The graph's inputs."""
        return [self._values[i] for i in self._delegation.original.inputs]

    @property
    def outputs(self) -> Sequence[TensorInfo]:
        """The graph's outputs."""
        return [self._values[i] for i in self._delegation.original.outputs]

    def preview(self, claimed: Sequence[int]) -> list[Partition]:
        """The partitions that replace() would make of these node indices."""
        return [part for part in self._delegation.partitioned(claimed) if part.claimed]

    def replace(self, claimed: Sequence[int]) -> None:
        """Take the nodes with these indices: one new node, with a kernel from compile(), replaces each partition."""
        if not self.in_prepare:
            raise RuntimeError("graph.replace() takes nodes only while prepare(graph) runs; to claim others, make "
                               "another Interpreter, or call its modify_graph_with_delegate()")
        delegation, delegate = self._delegation, self._delegate

        def make(operator: Operator, part: Partition) -> _PartitionOp:
            try:
                kernel = delegate.compile(DelegatePart(operator.index, delegation, part, self._values))
            except NotImplementedError:     # PythonDelegate's own says what is missing
                raise
            except Exception as error:
                nodes = f"node{'s' * (len(part.nodes) != 1)} {delegation.named(part)}"
                raise FailedStep("compile", nodes, error) from error
            if isinstance(kernel, type):
                raise TypeError(f"compile() returned the class {kernel.__name__}; it must return an object of it, such "
                                f"as {kernel.__name__}(part)")
            if not runnable(kernel):
                raise TypeError(f"compile() returned {kernel!r}; it must return an object with invoke(), evaluate() or "
                                "the attribute kernel")
            return _PartitionOp(delegation, operator, delegate.name, kernel)
        delegation.replace(claimed, delegate, make)


class DelegatePart:
    """The partition that one kernel of a delegate runs.

    index: of the new node; nodes: the Nodes that it replaces, in an order in which they can run; inputs, outputs:
    Values sorted by tensor index, constants included: the kernel's invoke() gets their arrays in this order.
    """

    def __init__(self, index: int, delegation: Delegation, part: Partition, values: Sequence[Value]) -> None:
        self.index = index
        self.nodes: Sequence[NodeInfo] = [Node(i, delegation.operators[i], values) for i in part.nodes]
        self.inputs: Sequence[TensorInfo] = [values[i] for i in part.inputs]
        self.outputs: Sequence[TensorInfo] = [values[i] for i in part.outputs]


def _supports(delegate: PythonDelegate, node: NodeInfo) -> bool:
    try:
        return delegate.supports(node)
    except NotImplementedError:     # PythonDelegate's own says what is missing
        raise
    except Exception as error:
        raise FailedStep("supports", node, error) from error


class _PartitionOp(PythonNodeOp):
    """The Op of a node that runs a partition."""

    def __init__(self, delegation: Delegation, operator: Operator, name: str, kernel: Any) -> None:
        super().__init__(f"node {operator.index} {DELEGATE} ({name})", kernel)
        self.delegation = delegation

    def default_prepare(self, node: CustomNode) -> None:
        delegation = self.delegation
        if delegation.values is None and not self._evaluates():
            given = delegation.original.tensors
            changed = next((v for v in node.inputs if v is not None and v.shape != given[v.index].shape), None)
            if changed is not None:
                raise node.error(f"its shape was {list(given[changed.index].shape)}, and nothing gives the outputs' "
                                 "shapes now: the kernels of a delegate with ALLOW_DYNAMIC_TENSORS define "
                                 "prepare(node), which returns them, or the delegate adds the flag "
                                 "REQUIRE_PROPAGATED_SHAPES", changed)

    def infer(self, node: Node) -> list[tuple[int, ...]] | None:
        self.delegation.infer_inner(node.index, node.values)
        return super().infer(node)
