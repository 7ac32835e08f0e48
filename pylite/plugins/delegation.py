"""Delegates at work: nodes of a subgraph replaced by others that a delegate runs, undone, and replaced again."""
import enum

from pylite.compiler import lowering
from pylite.compiler.check import check
from pylite.errors import DataDependentError, DelegationError, OpError
from pylite.ir.graph import Operator, replace
from pylite.ir.values import Node, Value
from pylite.plugins.partition import partition, replaced, side_effects
from pylite.plugins.python_ops import Hosted, runnable

DELEGATE = "DELEGATE"
BUILTIN_CODE = 51


class DelegateFlags(enum.IntFlag):
    """What a delegate can do, and needs."""
    NONE = 0
    ALLOW_DYNAMIC_TENSORS = 1           # its kernels stay when an input is resized, and are prepared again
    REQUIRE_PROPAGATED_SHAPES = 2       # then the shapes inside its partitions are inferred before
    PER_OPERATOR_PROFILING = 4
    HINT_FULLY_DELEGATED = 8            # it means to take whole graphs


class PythonDelegate:
    """The base of a delegate in Python, for `Interpreter(experimental_delegates=[...])`.

    Without the flag ALLOW_DYNAMIC_TENSORS all shapes are known while it looks at the graph, memory is planned at once,
    and resizing an input undoes it: it is asked again when tensors are next allocated.
    """
    flags = DelegateFlags.NONE

    @property
    def name(self):
        """What errors and `pylite inspect` call it."""
        return type(self).__name__

    def prepare(self, graph):
        """Look at `graph`, a DelegateGraph, and take nodes of it.  By default those that supports() wants."""
        graph.replace([node.index for node in graph.nodes if node.name != DELEGATE and self.supports(node)])

    def supports(self, node):
        """Can it run this Node?"""
        raise NotImplementedError(f"{self.name} has neither supports() nor prepare()")

    def compile(self, part):
        """The kernel for `part`, a DelegatePart: an object with invoke(*inputs, *outputs, *temporaries).

        It may have `kernel` instead, as a CustomOp may; prepare(node), which returns the outputs' shapes, or None where
        they are known or stay; and free().
        """
        raise NotImplementedError(f"{self.name} has no compile()")

    def modify(self, delegation):
        """Called by the runtime: prepare(), with what it takes to replace nodes."""
        self.prepare(DelegateGraph(delegation, self))


class DelegateGraph:
    """A subgraph as a delegate sees it.

    nodes: list of Node in execution order, with their options, inputs and outputs (Values; `data` where constant);
    nodes of earlier delegates are called "DELEGATE".  inputs, outputs: the Values of the graph's ends.
    """

    def __init__(self, delegation, delegate):
        self._delegation = delegation
        self._delegate = delegate
        self._values = delegation.seen()

    @property
    def nodes(self):
        operators = self._delegation.operators
        return [Node(i, operators[i], self._values) for i in self._delegation.plan]

    @property
    def inputs(self):
        return [self._values[i] for i in self._delegation.original.inputs]

    @property
    def outputs(self):
        return [self._values[i] for i in self._delegation.original.outputs]

    def preview(self, claimed):
        """The partitions that replace() would make of these node indices."""
        return [part for part in self._delegation.partitioned(claimed) if part.claimed]

    def replace(self, claimed):
        """Take the nodes with these indices: each partition becomes one node, which compile() makes a kernel for."""
        delegation, delegate = self._delegation, self._delegate

        def make(operator, part):
            kernel = delegate.compile(DelegatePart(operator.index, delegation, part, self._values))
            if not runnable(kernel):
                raise TypeError(f"compile() returned {kernel!r}, which has no method invoke() or kernel()")
            return _PartOp(delegation, operator, part, delegate.name, kernel)
        delegation.replace(claimed, delegate, make)


class DelegatePart:
    """The nodes that one kernel of a delegate stands for.

    index: of the new node; nodes: the Nodes that it replaces, in an order in which they can run; inputs, outputs:
    Values, sorted by tensor index: the arrays that the kernel's invoke() gets, constants among them.
    """

    def __init__(self, index, delegation, part, values):
        self.index = index
        self.nodes = [Node(i, delegation.operators[i], values) for i in part.nodes]
        self.inputs = [values[i] for i in part.inputs]
        self.outputs = [values[i] for i in part.outputs]


class Delegation:
    """The delegates of one Executor, and what they made of its subgraph.

    A delegate has `name`, `flags`, and `modify(delegation)`, which calls replace().
    original: the file's Subgraph; operators: every Operator by index, the new ones last; plan: indices in execution
    order; parts: {index of a new node: (delegate, Partition)}.  greedy, fuse: see `partition`.
    """

    def __init__(self, executor, delegates, greedy=True, fuse=True):
        self.executor = executor
        self.delegates = list(delegates)
        self.original = executor.subgraph
        self.values = None      # of the original nodes as last prepared, where delegates need that
        self._greedy = greedy
        self._fuse = fuse
        self._ordered = side_effects(self.original, self.original.operators)
        self._forget()

    def _forget(self):
        self.operators = list(self.original.operators)
        self.plan = [operator.index for operator in self.operators]
        self.parts = {}
        self.applied = False

    @property
    def static(self):
        """Does any delegate insist on shapes that stay?"""
        return any(not d.flags & DelegateFlags.ALLOW_DYNAMIC_TENSORS for d in self.delegates)

    def apply(self):
        """Let every delegate take its nodes.  DelegationError, and the graph as it was before, if one fails."""
        self.applied = True
        at = None
        try:
            for at in self.delegates:
                if not at.flags & DelegateFlags.ALLOW_DYNAMIC_TENSORS:
                    self._propagate()
                at.modify(self)
            if self.static:
                self.executor.activate()
        except BaseException as error:
            self.undo()
            self.delegates = []
            if isinstance(error, Exception):
                raise DelegationError(f"delegate {at.name} failed: {type(error).__name__}: {error}. Restored original "
                                      "execution plan after delegate application failure.") from error
            raise

    def reallocate(self):
        """Before an allocation: apply what a new shape undid; infer the shapes that delegates want to know."""
        if self.delegates and not self.applied:
            self.apply()
        elif any(d.flags & DelegateFlags.REQUIRE_PROPAGATED_SHAPES for d in self.delegates):
            self._propagate()

    def resized(self):
        """An input has another shape: delegates for static shapes let go."""
        if self.applied and self.static:
            self.undo()

    def undo(self):
        """Free the kernels of the delegates, and restore the file's nodes."""
        plugins = self.executor.plugins
        added = sorted(self.parts)
        self._forget()
        self.executor.substitute(self.original)
        failed = None
        for index in added:
            op = plugins.pop(index, None)
            try:
                if op is not None:
                    op.close()
            except Exception as error:
                failed = failed or error
        if failed is not None:
            raise failed

    def seen(self):
        """The Values that a delegate sees: as inferred, or as the file and resize_tensor_input() declare them."""
        if self.values is not None:
            return self.values
        model, executor = self.executor.model, self.executor
        values = [Value(tensor, model.constant(tensor)) for tensor in self.original.tensors]
        for index, shape in zip(self.original.inputs, executor.shapes, strict=True):
            values[index].shape = shape
        return values

    def partitioned(self, claimed):
        """The plan in partitions, were the nodes `claimed` taken."""
        nodes = {i: (self.operators[i].inputs, self.operators[i].outputs) for i in self.plan}
        for index in claimed:
            if index not in nodes:
                raise ValueError(f"node {index} cannot be taken: it is not in the execution plan {self.plan}")
            if index in self.parts:
                raise ValueError(f"node {index} cannot be taken: it belongs to {self.parts[index][0].name}")
        return partition(nodes, self.plan, claimed, self.original.outputs, self._ordered, self._greedy, self._fuse)

    def replace(self, claimed, delegate, make):
        """Put one new node in place of each partition of `claimed`; make(operator, partition) -> its Op."""
        if not len(claimed):
            return
        plan, added = replaced(self.partitioned(claimed), len(self.operators))
        for index, part in added.items():
            operator = Operator(index, DELEGATE, BUILTIN_CODE, False, 1, part.inputs, part.outputs, None)
            self.operators.append(operator)
            self.parts[index] = delegate, part
            self.executor.plugins[index] = make(operator, part)
        self.plan = plan
        self.executor.substitute(replace(self.original, operators=tuple(self.operators[i] for i in plan)))

    def inside(self, index, values):
        """Tell `values` the shapes of the tensors inside the partition of node `index`, where these are known."""
        nodes = [Node(i, self.operators[i], values, self.executor) for i in self.parts[index][1].nodes]
        known = self.values
        if all(known[i].shape == values[i].shape for i in self.parts[index][1].inputs):
            for node in nodes:
                for i in node.operator.outputs:
                    if i >= 0:
                        values[i].shape, values[i].dtype = known[i].shape, known[i].dtype
            return
        for node in nodes:      # what comes in was sized while the graph ran
            try:
                shapes = self.executor.find(node.operator).infer(node)
            except DataDependentError:
                return
            for value, shape in zip(node.outputs, shapes or (), strict=False):
                if value is not None:
                    value.shape = shape

    def _propagate(self):
        executor = self.executor
        check(executor.model, [self.original], find=executor.find)
        try:
            # Every tensor's shape is wanted here, even of those that lowering would fold away.
            self.values = lowering.lower(executor.model, self.original, executor.shapes, preserve=True,
                                         find=executor.find, dynamic=not self.static, host=executor).values
        except DataDependentError as error:
            raise OpError(f"{error}; delegates without the flag ALLOW_DYNAMIC_TENSORS must know every shape") from error


class _PartOp(Hosted):
    """The Op of a node that stands for a partition."""

    def __init__(self, delegation, operator, part, name, kernel):
        super().__init__(f"node {operator.index} {DELEGATE} ({name})", kernel)
        self.delegation = delegation

    def default_prepare(self, node):
        return None

    def infer(self, node):
        """Prepare the kernel; it sees the shapes of the partition's own tensors where those are known."""
        if self.delegation.values is not None:
            self.delegation.inside(node.index, node.values)
        return super().infer(node)
