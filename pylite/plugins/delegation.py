"""Delegation: the nodes of a subgraph that delegates replace by nodes of their own, and restoring the file's nodes."""
from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from pylite.compiler import lowering
from pylite.compiler.check import check
from pylite.errors import DataDependentError, DelegationError, OpError
from pylite.ir.graph import Operator, replace
from pylite.ir.values import Node, Value
from pylite.plugins.partition import partition, replaced, side_effects

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from pylite.plugins.partition import Partition
    from pylite.runtime.executor import Executor

DELEGATE = "DELEGATE"
BUILTIN_CODE = 51
FEW = 4         # replaced nodes that an error names


class DelegateFlags(enum.IntFlag):
    """Capabilities and requirements of a delegate."""
    NONE = 0
    ALLOW_DYNAMIC_TENSORS = 1           # its kernels stay when an input is resized, and are prepared again
    REQUIRE_PROPAGATED_SHAPES = 2       # then the shapes of tensors inside its partitions are inferred first
    PER_OPERATOR_PROFILING = 4
    HINT_FULLY_DELEGATED = 8            # it intends to take whole graphs


class FailedStep(OpError):
    """A method of a delegate failed; the message names it and the nodes, and __cause__ is the method's exception."""

    def __init__(self, method: str, nodes: object, error: Exception) -> None:
        super().__init__(f"{method}() failed for {nodes}: {type(error).__name__}: {error}")
        self.__cause__ = error


class Delegation:
    """The delegates of one Executor, and the nodes that they have replaced in its subgraph.

    A delegate has `name`, `flags`, and `modify(delegation)`, which calls replace().
    original: the file's Subgraph; operators: every Operator by index, those of delegates last; plan: operator indices
    in execution order; partitions: {index of a delegate's operator: (delegate, Partition)}.
    greedy, fuse: see `partition`.
    """

    def __init__(self, executor: Executor, delegates: Iterable[Any], greedy: bool = True,
                 fuse: bool = True) -> None:
        self.executor = executor
        self.delegates = list(delegates)
        self.original = executor.subgraph
        self.values: list[Value] | None = None      # of the file's tensors as last inferred, if a delegate needs them
        self._greedy = greedy
        self._fuse = fuse
        self._ordered = side_effects(self.original, self.original.operators)
        self._reset()

    def _reset(self) -> None:
        self.operators = list(self.original.operators)
        self.plan = [operator.index for operator in self.operators]
        self.partitions: dict[int, tuple[Any, Partition]] = {}
        self.applied = False

    @property
    def static(self) -> bool:
        """True if any delegate takes tensors of static shapes only."""
        return any(not d.flags & DelegateFlags.ALLOW_DYNAMIC_TENSORS for d in self.delegates)

    def apply(self) -> None:
        """Let every delegate take its nodes.  If one fails, restore the graph and raise DelegationError."""
        self.applied = True
        self._take(self.delegates)

    def add(self, delegates: Iterable[Any]) -> None:
        """Let more delegates take nodes: now, or with the others at the next allocation.  Fails as apply() does."""
        further = list(delegates)
        self.delegates += further
        if self.applied:
            self._take(further)

    def _take(self, delegates: Sequence[Any]) -> None:
        delegate: Any = None
        try:
            for delegate in delegates:
                if not delegate.flags & DelegateFlags.ALLOW_DYNAMIC_TENSORS:
                    self._infer_shapes()
                delegate.modify(self)
            if self.static:
                self.executor.activate()
        except BaseException as error:
            self.restore()
            self.delegates = []
            if isinstance(error, Exception):
                step = isinstance(error, FailedStep)
                why = error if step else f"{type(error).__name__}: {error}"
                raise DelegationError(f"delegate {delegate.name} failed: {why}. Restored original execution plan after "
                                      "delegate application failure.") from (error.__cause__ if step else error)
            raise

    def reallocate(self) -> None:
        """Before an allocation: apply delegates again after a resize, and infer the shapes that delegates require."""
        if self.delegates and not self.applied:
            self.apply()
        elif any(d.flags & DelegateFlags.REQUIRE_PROPAGATED_SHAPES for d in self.delegates):
            self._infer_shapes()

    def resized(self) -> None:
        """After an input was resized: restore the file's nodes if a delegate takes static shapes only."""
        if self.applied and self.static:
            self.restore()

    def restore(self) -> None:
        """Free the kernels of the delegates, and run the file's nodes again."""
        plugins = self.executor.plugins
        added = sorted(self.partitions)
        self._reset()
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

    def described(self, index: int) -> str:
        """The delegate of node `index` and the nodes it replaces, to follow its name; "" for a node of the file."""
        if index not in self.partitions:
            return ""
        delegate, part = self.partitions[index]
        return f" ({delegate.name}, for {self.named(part)})"

    def named(self, part: Partition) -> str:
        """The first nodes of a Partition, and how many more it has."""
        shown = ", ".join(f"{i} {self.operators[i].name}" for i in part.nodes[:FEW])
        return shown + (f" and {len(part.nodes) - FEW} more" if len(part.nodes) > FEW else "")

    def current_values(self) -> list[Value]:
        """Values of the file's tensors, with their inferred shapes or else those of the file and of resized inputs."""
        if self.values is not None:
            return self.values
        model, executor = self.executor.model, self.executor
        values = [Value(tensor, model.weights.constant(tensor)) for tensor in self.original.tensors]
        for index, shape in zip(self.original.inputs, executor.shapes, strict=True):
            values[index].shape = shape
        return values

    def partitioned(self, claimed: Sequence[int]) -> list[Partition]:
        """The Partitions of the plan for a delegate that takes the nodes `claimed`."""
        nodes = {i: (self.operators[i].inputs, self.operators[i].outputs) for i in self.plan}
        for index in claimed:
            if hasattr(index, "index"):
                raise TypeError(f"a claim consists of indices: pass node.index instead of {index}")
            if index not in nodes:
                raise ValueError(f"node {index} cannot be taken: it is not in the execution plan {self.plan}")
            if index in self.partitions:
                raise ValueError(f"node {index} cannot be taken: it belongs to {self.partitions[index][0].name}")
        return partition(nodes, self.plan, claimed, self.original.outputs, self._ordered, self._greedy, self._fuse)

    def replace(self, claimed: Sequence[int], delegate: Any,
                make: Callable[[Operator, Partition], Any]) -> None:
        """Replace each partition of `claimed` by one node; make(operator, partition) -> the Op of that node."""
        if not len(claimed):
            return
        plan, added = replaced(self.partitioned(claimed), len(self.operators))
        for index, part in added.items():
            operator = Operator(index, DELEGATE, BUILTIN_CODE, False, 1, part.inputs, part.outputs, None)
            self.operators.append(operator)
            self.partitions[index] = delegate, part
            self.executor.plugins[index] = make(operator, part)
        self.plan = plan
        self.executor.substitute(replace(self.original, operators=tuple(self.operators[i] for i in plan)))

    def infer_inner(self, index: int, values: Sequence[Value]) -> None:
        """Set the shapes and types of the tensors inside the partition of node `index`, a delegate's, in `values`.

        Does nothing if no delegate needs them.  Shapes that depend on data stay as they are.
        """
        known = self.values
        if known is None:
            return
        part = self.partitions[index][1]
        nodes = [Node(i, self.operators[i], values, self.executor) for i in part.nodes]
        if all(known[i].shape == values[i].shape for i in part.inputs):
            for node in nodes:
                for i in node.operator.outputs:
                    if i >= 0:
                        values[i].shape, values[i].dtype = known[i].shape, known[i].dtype
            return
        for node in nodes:      # an input of the partition got its shape at run time
            try:
                shapes = self.executor.find(node.operator).infer(node)
            except DataDependentError:
                return
            for value, shape in zip(node.outputs, shapes or (), strict=False):
                if value is not None:
                    value.shape = shape

    def _infer_shapes(self) -> None:
        """Infer the shapes of all the file's tensors: `values`."""
        executor = self.executor
        check(executor.model, [self.original], find=executor.find)
        try:
            # preserve: delegates also need the shapes of tensors that lowering would fold away.
            self.values = lowering.lower(executor.model, self.original, executor.shapes, preserve=True,
                                         find=executor.find, dynamic=not self.static, host=executor).values
        except DataDependentError as error:
            raise OpError(f"{error}; delegates without the flag ALLOW_DYNAMIC_TENSORS must know every shape") from error
