"""WHILE loops whose variables change shape: each set of shapes gets a LoopIteration, which is reused."""
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from pylite._core.kernels import kernel_class
from pylite._core.run.memory import ALIGNMENT
from pylite.errors import ExecutionError, OpError
from pylite.ir.graph import NUMPY_DTYPES
from pylite.ir.values import raw
from pylite.runtime.tensor_memory import allocated

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite._core.run.kernel import Kernel
    from pylite._core.simd import Pool
    from pylite.ir.values import Node

    Arrays = Sequence[NDArray[Any]]
    Shape = tuple[int, ...]
    Executor = Any      # it imports this module


class LoopIteration:
    """One iteration: the kernels that run the condition and the body for one set of variable shapes.

    state: the arrays of the variables, which the kernels read; goes_on: the condition's result; entry: the body's
    Callee; next: the LoopIteration for the shapes of the body's outputs, set by the first link().
    Without kernels (`condition` is None) Python runs the iteration.
    """
    __slots__ = ("state", "condition", "goes_on", "body", "entry", "next")

    def __init__(self, state: "Arrays") -> None:
        self.state = state
        self.condition: Kernel | None = None
        self.body: Any = None
        self.entry: Any = None
        self.next: LoopIteration = None  # type: ignore[assignment]

    def prepare(self, node: "Node", condition: "Executor", body: "Executor") -> None:
        """Create the kernel that runs the condition, unless shapes within the subgraphs depend on data."""
        shapes = [x.shape for x in self.state]
        inner = body.prepared(shapes, {})
        test = condition.prepared(shapes, {})
        if inner.boundary is not None or test.boundary is not None:
            return
        make, count = kernel_class("control.Invocation"), prod(test.shape(condition.subgraph.outputs[0]))
        if count != 1:
            raise node.error(f"the condition gives {count} values, not one")
        self.goes_on = np.zeros(1, np.uint8)
        self.entry = body.entry()
        self.condition = make(condition.entry(), *map(raw, self.state), self.goes_on)

    def link(self, host: "Executor", node: "Node", condition: "Executor", body: "Executor") -> None:
        """Set `next`, and create the kernel that runs the body and writes its outputs to the variables of `next`."""
        inner = body.prepared([x.shape for x in self.state], {})
        self.next = _iteration(host, node, condition, body,
                               [inner.shape(i) for i in body.subgraph.outputs])
        self.body = kernel_class("control.Invocation")(self.entry, *map(raw, self.state), *map(raw, self.next.state))


def _iteration(host: "Executor", node: "Node", condition: "Executor", body: "Executor",
               shapes: "Sequence[Shape]") -> LoopIteration:
    """The LoopIteration for variables of these shapes; the body's BoundProgram keeps it."""
    try:
        known = body.prepared(shapes, {}).iterations
    except OpError:     # the loop may end before the body would run on these shapes
        return LoopIteration(_variables(host, node, body, shapes))
    key = host, node.index
    if key not in known:
        known[key] = iteration = LoopIteration(_variables(host, node, body, shapes))
        iteration.prepare(node, condition, body)
    return known[key]


def _variables(host: "Executor", node: "Node", body: "Executor", shapes: "Sequence[Shape]") -> "Arrays":
    """Arrays for the loop's variables.  All sets of shapes share their memory, because only one is in use at a time."""
    dtypes = [NUMPY_DTYPES[body.subgraph.tensors[i].dtype] for i in body.subgraph.inputs]
    offsets = [0]
    for shape, dtype in zip(shapes, dtypes, strict=True):
        offsets.append(offsets[-1] + -(-prod(shape) * dtype.itemsize // ALIGNMENT) * ALIGNMENT)
    arena = host.memory.loop_arenas.get(node.index)
    if arena is None or arena.nbytes < offsets[-1]:
        host.memory.loop_arenas.pop(node.index, None)
        host.memory.check_loop(node, offsets[-1])
        arena = allocated(offsets[-1] * 5 // 4 if host.max_memory is None else offsets[-1])
        host.memory.loop_arenas[node.index] = arena
    return [np.ndarray(*each) for each in zip(shapes, dtypes, [arena] * len(shapes), offsets, strict=False)]


def _run(kernel: "Kernel", pool: "Pool") -> None:
    status = kernel.run(pool)
    if status:
        text = kernel.explain(status)
        raise ExecutionError(text) from kernel.cause()


def run(host: "Executor", node: "Node", condition: "Executor", body: "Executor", arrays: "Arrays",
        kernels: bool) -> "Arrays":
    """Run the Executor `body` while `condition` holds, starting from `arrays`; returns the variables' last contents.

    kernels: may kernels run the subgraphs?  If not, or if shapes depend on data, Python runs each iteration.
    """
    while True:
        if kernels:
            arrays, done = _run_kernels(host, node, condition, body, arrays)
            if done:
                return arrays
        result, = condition.call(arrays)
        if result.size != 1:
            raise node.error(f"the condition gives {result.size} values, not one")
        if not result.item():
            return arrays
        arrays = body.call(arrays)


def _run_kernels(host: "Executor", node: "Node", condition: "Executor", body: "Executor",
                 arrays: "Arrays") -> "tuple[Arrays, bool]":
    """Iterate as long as kernels can run the iterations.  Returns (the variables' contents, has the loop ended?)"""
    iteration = _iteration(host, node, condition, body, [a.shape for a in arrays])
    for variable, array in zip(iteration.state, arrays, strict=True):
        variable[...] = array
    while iteration.condition is not None:
        _run(iteration.condition, host.pool)
        if not iteration.goes_on[0]:
            return iteration.state, True
        if iteration.next is None:
            iteration.link(host, node, condition, body)
        _run(iteration.body, host.pool)
        iteration = iteration.next
    return [variable.copy() for variable in iteration.state], False
