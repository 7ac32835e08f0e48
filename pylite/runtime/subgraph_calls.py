"""Calls between subgraphs: the part of an Executor for operators that call, and for subgraphs that are called."""
from typing import TYPE_CHECKING

from pylite import errors
from pylite._core.run.program import Callee
from pylite.compiler import pipeline
from pylite.ir.values import raw

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite.runtime.bound_program import BoundProgram

    Executor = Any      # it imports this module

CACHED_CALLS = 512      # sets of input shapes that a called subgraph keeps


def callee(executor: "Executor", index: int) -> "Executor":
    """The Executor of another subgraph, which an operator of `executor` calls."""
    others = executor.shared.executors
    others.setdefault(executor.subgraph.index, executor)
    executor_called = others.get(index)
    if executor_called is None:
        executor_called = others[index] = executor.sibling(index)
    if executor_called not in executor.callees:
        _check_outputs(executor_called)
        executor.callees.add(executor_called)
        _expect_calls(executor_called)
    return executor_called


def _expect_calls(executor: "Executor") -> None:
    """Prepare `executor` for inputs whose shapes change from call to call."""
    executor.cache.capacity = CACHED_CALLS
    if not (executor.preserve or executor.plugins or executor.delegation):
        rewritten = pipeline.rewrite_callee(executor.subgraph)
        if all(executor.find(operator) for operator in rewritten.operators):
            executor.substitute(rewritten)


def prepared(executor: "Executor", shapes: "Sequence[tuple[int, ...]]",
             known_inputs: "Mapping[int, NDArray[Any]]") -> "BoundProgram":
    """The BoundProgram for these input shapes; variables keep their contents.

    known_inputs: {position of an input: its contents, which the caller does not copy there}.
    """
    if executor.shared.recording is not None:
        from pylite.runtime import recorded_program
        executor.recorded_callee = recorded_program.called(executor, shapes, known_inputs)
        return executor.recorded_callee
    executor.recorded_callee = None
    if executor.stale:
        executor.forget()
    for position, shape in enumerate(shapes):
        executor.resize(position, shape)
    if not executor.ready and executor.shapes != list(shapes):
        raise _repeated_input(executor, shapes)
    current = executor.known_inputs
    if known_inputs.keys() != current.keys() or any(data is not current[i] for i, data in known_inputs.items()):
        executor.known_inputs = known_inputs
        executor.invalidate()
    if not executor.ready:
        executor.reallocate()
        executor.note_callees()
    return executor.current


def _repeated_input(executor: "Executor", shapes: "Sequence[tuple[int, ...]]") -> "errors.OpError":
    """The OpError for a tensor that is several inputs, and would get several shapes."""
    subgraph = executor.subgraph
    first = next(i for i, shape in enumerate(shapes) if executor.shapes[i] != shape)
    index = subgraph.inputs[first]
    positions = [i for i, other in enumerate(subgraph.inputs) if other == index]
    return errors.OpError(
        f"subgraph {subgraph.index} ({subgraph.name!r}) is called with the shapes "
        f"{', '.join(str(list(shapes[i])) for i in positions)} for its inputs {', '.join(map(str, positions))}, which "
        f"are one tensor: {index} ({subgraph.tensors[index].name!r}). It cannot have several shapes; convert the model "
        "with a tensor for each input")


def _check_outputs(executor: "Executor") -> None:
    """Raise OpError if nothing computes an output, which the caller would copy."""
    subgraph = executor.subgraph
    known = {*subgraph.inputs, *[i for operator in subgraph.operators for i in operator.outputs]}
    for index in subgraph.outputs:
        tensor = subgraph.tensors[index]
        if not (index in known or tensor.is_variable or 0 in tensor.shape or tensor.data is not None
                or tensor.external is not None):
            raise errors.OpError(f"subgraph {subgraph.index} ({subgraph.name!r}), which an operator calls, has the "
                                 f"output {index} ({tensor.name!r}), and no operator computes it; convert the model "
                                 "again")


def entry(executor: "Executor", whole: bool = False) -> "Callee":
    """The Callee of `current`, without the inputs that are absent(); a CalledProgram while a caller is recorded."""
    recorded = executor.recorded_callee
    omitted = absent(executor, whole, (executor if recorded is None else recorded).known_inputs)
    if recorded is not None:
        return recorded.entering(whole, omitted)
    bound, subgraph = executor.current, executor.subgraph
    if bound.io_bytes is not None:
        return bound.io_bytes.callee(bound, len(subgraph.inputs), omitted)
    ins = [None if position in omitted else raw(bound.array(i)) for position, i in enumerate(subgraph.inputs)]
    return Callee(bound.program, bound.failure, ins, [raw(bound.array(i)) for i in subgraph.outputs], bound)


def absent(executor: "Executor", whole: bool, known_inputs: "Container[int]") -> "list[int]":
    """The positions of the inputs that callers do not copy: known ones, and those without a reader, unless `whole`."""
    if executor.tensors_read is None:
        executor.tensors_read = frozenset([i for operator in executor.subgraph.operators for i in operator.inputs]
                                  + [*executor.subgraph.outputs])
    return [position for position, i in enumerate(executor.subgraph.inputs)
            if position in known_inputs or not (whole or i in executor.tensors_read)]


def call(executor: "Executor", arrays: "Sequence[NDArray[Any]]") -> "list[NDArray[Any]]":
    """Run once on `arrays`; returns copies of the outputs."""
    bound = prepared(executor, [a.shape for a in arrays], {})
    for index, array in zip(executor.subgraph.inputs, arrays, strict=True):
        bound.array(index)[...] = array
    executor.invoke()
    return [executor.array(i).copy() for i in executor.subgraph.outputs]


def called(executor: "Executor") -> "set[Executor]":
    """The Executors of the subgraphs that this one calls, directly or indirectly."""
    reached: set[Executor] = set()
    fresh = executor.callees
    while fresh:
        reached |= fresh
        fresh = set().union(*[other.callees for other in fresh]) - reached
    return reached


def plugins_called(executor: "Executor") -> bool:
    """Does any subgraph that this one calls, directly or indirectly, have a plug-in?"""
    return any(other.plugins for other in called(executor))


def relink(executor: "Executor") -> None:
    """Bind again if delegates have changed the programs of subgraphs that this one calls."""
    if executor.ready and executor.callees and plugins_called(executor):
        executor.invalidate()
        executor.activate()
