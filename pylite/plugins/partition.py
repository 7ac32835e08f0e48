"""Which nodes a delegate may run together: TensorFlow Lite's partitioning of a graph, on plain indices."""
from typing import NamedTuple

_FROM_OUTSIDE = -2      # the epoch of graph inputs, constants and variables: always there
_MISSING = -1           # the epoch of what nothing has computed yet


class Partition(NamedTuple):
    """Nodes that may run one after the other with nothing in between.

    claimed: are they the delegate's?  nodes: their indices, in an order that fits their dependencies; inputs: tensors
    that come from elsewhere, constants included; outputs: tensors that others or the caller read.  Both are sorted
    and without repeats.
    """
    claimed: bool
    nodes: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def partition(nodes, plan, claimed, outputs, ordered=(), greedy=True, fuse=True):
    """Split `plan` into partitions that are wholly claimed or wholly not, in an order in which they can run.

    nodes: {node index: (input tensors, output tensors)}, -1 where absent; plan: node indices in execution order;
    claimed: the node indices that the delegate takes; outputs: the graph's output tensors; ordered: node indices with
    side effects, which keep their order among each other.
    greedy: collect every node that is ready, not only runs of neighbours (and then only do `ordered` nodes matter);
    fuse: let a claimed partition have more than one node.
    """
    work = _Work(nodes, plan, set(claimed))
    if greedy:
        work.chain([node for node in plan if node in ordered])
    while work.next_epoch(greedy, fuse):
        pass
    return work.partitions(outputs)


def replaced(partitions, count):
    """The plan with a new node for each claimed partition: (plan, {new node index: Partition}).

    count: the number of nodes so far, and so the index of the first new one.
    """
    plan, added = [], {}
    for part in partitions:
        if part.claimed:
            added[count] = part
            plan.append(count)
            count += 1
        else:
            plan.extend(part.nodes)
    return plan, added


def side_effects(subgraph, operators):
    """Indices of the operators that touch resources or run other subgraphs: what `ordered` takes."""
    tensors = subgraph.tensors
    return {o.index for o in operators
            if o.name in ("IF", "WHILE", "CALL_ONCE")
            or any(i >= 0 and tensors[i].dtype == "resource" for i in (*o.inputs, *o.outputs))}


class _Work:
    """Epoch by epoch: in each, the first node that is ready fixes whether claimed nodes are collected or others."""

    def __init__(self, nodes, plan, claimed):
        self.nodes = nodes
        self.plan = plan
        self.claimed = claimed
        self.epochs = {}        # tensor -> epoch that computes it
        for node in plan:
            for tensor in nodes[node][1]:
                self.epochs[tensor] = _MISSING
        self.done = set()
        self.before = {}        # node -> the node with side effects that must run first
        self.kinds, self.members, self.inputs, self.outputs = [], [], [], []

    def chain(self, nodes):
        self.before = dict(zip(nodes[1:], nodes, strict=False))

    def next_epoch(self, greedy, fuse):
        """Collect one more epoch; False when no node is left that can run."""
        members = []
        self.kinds.append(None)
        self.members.append(members)
        self.inputs.append(set())
        self.outputs.append(set())
        self._collect(members, greedy, fuse)
        if not members:
            for column in (self.kinds, self.members, self.inputs, self.outputs):
                column.pop()
        return bool(members)

    def _collect(self, members, greedy, fuse):
        found = True
        while found:
            found = False
            for node in self.plan:
                if self._take(node, members):
                    found = True
                    if not fuse and self.kinds[-1]:
                        return
                elif found and not greedy:
                    return

    def _take(self, node, members):
        """Add `node` to the current epoch if it is ready and of the epoch's kind."""
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

    def _ready(self, node):
        epochs = self.epochs
        if any(epochs.get(tensor) == _MISSING for tensor in self.nodes[node][0] if tensor >= 0):
            return False
        return self.before.get(node) is None or self.before[node] in self.done

    def partitions(self, outputs):
        for tensor in outputs:
            origin = self.epochs.get(tensor, _FROM_OUTSIDE)
            if origin >= 0:
                self.outputs[origin].add(tensor)
        return [Partition(kind, tuple(members), tuple(sorted(i)), tuple(sorted(o)))
                for kind, members, i, o in zip(self.kinds, self.members, self.inputs, self.outputs, strict=True)]
