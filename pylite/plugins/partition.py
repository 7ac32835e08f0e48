"""TensorFlow Lite's partitioning of a graph into nodes that a delegate may run together, on plain indices."""
from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from typing import Any

    from pylite.ir.graph import Operator, Subgraph

    Tensors = Sequence[int]
    Nodes = Mapping[int, tuple[Tensors, Tensors]]

_FROM_OUTSIDE = -2      # the epoch of graph inputs, constants and variables, which always exist
_MISSING = -1           # the epoch of a tensor that is not computed yet


class Partition(NamedTuple):
    """Nodes that may run one after the other, with no other node between them.

    claimed: whether the delegate takes them; nodes: their indices, in an order that fits their dependencies; inputs:
    tensors that come from elsewhere, constants included; outputs: tensors that other nodes or the caller read.  Both
    are sorted and without repeats.
    """
    claimed: bool
    nodes: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def partition(nodes: Nodes, plan: Sequence[int], claimed: Iterable[int], outputs: Tensors,
              ordered: Collection[int] = (), greedy: bool = True, fuse: bool = True) -> list[Partition]:
    """Split `plan` into Partitions, each claimed or not, in an order in which they can run.

    nodes: {node index: (input tensors, output tensors)}, -1 where absent; plan: node indices in execution order;
    claimed: the node indices that the delegate takes; outputs: the graph's output tensors; ordered: node indices with
    side effects, which keep their order.
    greedy: a partition collects every node that is ready, not only nodes that follow one another in `plan` (`ordered`
    only matters here); fuse: a claimed partition may have more than one node.
    """
    partitioner = _Partitioner(nodes, plan, set(claimed))
    if greedy:
        partitioner.keep_order([node for node in plan if node in ordered])
    while partitioner.next_epoch(greedy, fuse):
        pass
    return partitioner.partitions(outputs)


def replaced(partitions: Iterable[Partition], count: int) -> tuple[list[int], dict[int, Partition]]:
    """The plan with a new node for each claimed partition: (plan, {new node index: Partition}).

    count: the number of nodes so far, which is the index of the first new one.
    """
    plan: list[int] = []
    added: dict[int, Partition] = {}
    for part in partitions:
        if part.claimed:
            added[count] = part
            plan.append(count)
            count += 1
        else:
            plan.extend(part.nodes)
    return plan, added


def side_effects(subgraph: Subgraph, operators: Iterable[Operator]) -> set[int]:
    """Indices of the operators that use resources or run other subgraphs, for the parameter `ordered`."""
    tensors = subgraph.tensors
    return {o.index for o in operators
            if o.name in ("IF", "WHILE", "CALL_ONCE")
            or any(i >= 0 and tensors[i].dtype == "resource" for i in (*o.inputs, *o.outputs))}


class _Partitioner:
    """Collects the nodes of one partition per epoch: claimed nodes if the first one that is ready is, else others."""

    def __init__(self, nodes: Nodes, plan: Sequence[int], claimed: set[int]) -> None:
        self.nodes = nodes
        self.plan = plan
        self.claimed = claimed
        self.epochs: dict[int, int] = {}        # tensor -> epoch that computes it
        for node in plan:
            for tensor in nodes[node][1]:
                self.epochs[tensor] = _MISSING
        self.done: set[int] = set()
        self.predecessor: dict[int, int] = {}   # node with side effects -> the one that must run before it
        self.kinds: list[Any] = []      # of each epoch: are its nodes claimed?  None before the first one
        self.members: list[list[int]] = []
        self.inputs: list[set[int]] = []
        self.outputs: list[set[int]] = []

    def keep_order(self, nodes: Sequence[int]) -> None:
        self.predecessor = dict(zip(nodes[1:], nodes, strict=False))

    def next_epoch(self, greedy: bool, fuse: bool) -> bool:
        """Collect the nodes of one more epoch; False if no node is left that can run."""
        members: list[int] = []
        self.kinds.append(None)
        self.members.append(members)
        self.inputs.append(set())
        self.outputs.append(set())
        self._collect(members, greedy, fuse)
        if not members:
            for column in (self.kinds, self.members, self.inputs, self.outputs):
                column.pop()
        return bool(members)

    def _collect(self, members: list[int], greedy: bool, fuse: bool) -> None:
        advanced = True
        while advanced:
            advanced = False
            for node in self.plan:
                if self._take(node, members):
                    advanced = True
                    if not fuse and self.kinds[-1]:
                        return
                elif advanced and not greedy:
                    return

    def _take(self, node: int, members: list[int]) -> bool:
        """Add `node` to the current epoch if it is ready and of the epoch's kind; return whether it was added."""
        if node in self.done or not self._ready(node):
            return False
        kind = node in self.claimed
        if self.kinds[-1] is None:
            self.kinds[-1] = kind
        if self.kinds[-1] is not kind:
            return False
        epoch = len(self.kinds) - 1
        self.done.add(node)
        members.append(node)
        inputs, outputs = self.nodes[node]
        for tensor in outputs:
            if tensor >= 0:
                self.epochs[tensor] = epoch
        for tensor in inputs:
            origin = self.epochs.get(tensor, _FROM_OUTSIDE)
            if tensor >= 0 and origin != epoch:
                self.inputs[epoch].add(tensor)
                if origin >= 0:
                    self.outputs[origin].add(tensor)
        return True

    def _ready(self, node: int) -> bool:
        epochs = self.epochs
        if any(epochs.get(tensor) == _MISSING for tensor in self.nodes[node][0] if tensor >= 0):
            return False
        return self.predecessor.get(node) is None or self.predecessor[node] in self.done

    def partitions(self, outputs: Tensors) -> list[Partition]:
        for tensor in outputs:
            origin = self.epochs.get(tensor, _FROM_OUTSIDE)
            if origin >= 0:
                self.outputs[origin].add(tensor)
        return [Partition(kind, tuple(members), tuple(sorted(i)), tuple(sorted(o)))
                for kind, members, i, o in zip(self.kinds, self.members, self.inputs, self.outputs, strict=True)]
