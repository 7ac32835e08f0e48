"""Creates programs for new input shapes from one recorded lowering: see compiler/recorded.py."""
from typing import TYPE_CHECKING

from pylite._core.graph.dimensions import UnrecordableError
from pylite._core.kernels import kernel_class
from pylite._core.run.reshaping import CalledProgram, Reshaper
from pylite._core.run.storage import Storage
from pylite.compiler import lowering, recorded
from pylite.ir.registry import default
from pylite.runtime.blueprint import Blueprint, Share
from pylite.runtime.bound_program import BoundProgram, ShapeHistory

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite.ir.values import Value

    Executor = Any      # it imports this module
    Shape = tuple[int, ...]

KEPT = 4            # recordings kept per history


def bind(executor: "Executor", key: "Any", record_if_needed: bool) -> "ShapedProgram | None":
    """A program for the current input shapes of `executor` from a recording; None if it must lower for them.

    key: history_key() of the shapes; record_if_needed: record, if no recording covers them.
    """
    if not _may_record(executor):
        return None
    history = executor.cache.histories[key]
    program = _covering(executor, history) or (_recorded(executor, history) if record_if_needed else None)
    if program is None:
        return None
    try:
        return _bind(executor, program, history)
    except Exception:       # a kernel refused its arguments; lowering then raises the error with its context
        history.programs.remove(program)
        return None


def _covering(executor: "Executor", history: ShapeHistory) -> "Any":
    """A RecordedProgram of the history, evaluated for the current input shapes, or None."""
    for program in history.programs:
        if program.evaluate(executor.shapes):
            history.note_reuse()
            return program
    return None


def _recorded(executor: "Executor", history: ShapeHistory) -> "Any":
    """A new RecordedProgram, evaluated for the current input shapes; None if recording failed, now or too often."""
    if not history.attempts:
        return None
    history.attempts -= 1
    shapes = executor.shapes
    history.varying.update((i, axis) for i, (old_shape, shape) in enumerate(zip(history.first, shapes, strict=True))
                           for axis in range(len(shape)) if old_shape[axis] != shape[axis])
    executor.shared.recording = {}
    try:
        program = recorded.record(executor.model, executor.subgraph, shapes, sorted(history.varying),
                                  preserve=executor.preserve, find=executor.find, host=executor,
                                  is_called=bool(executor.subgraph.index))
    except Exception:       # lowering without Dims works for every shape, or raises a proper error
        return None
    finally:
        executor.shared.recording = None
    if executor.stale or not program.evaluate(shapes):
        return None
    history.programs = [program, *history.programs[:KEPT - 1]]
    return program


def _may_record(executor: "Executor") -> bool:
    """Does the executor's lowering depend only on its input shapes, and is nothing but the program needed?"""
    if executor.plugins or executor.delegation or executor.plugin_structs:   # they prepare for each set of shapes
        return False
    if executor.resolver is not default or not default.is_plain():      # nothing is known of these ops
        return False
    if executor.guard or executor.access or executor.max_memory is not None:    # they change or check each placement
        return False
    main, inputs = executor.shared.executors.get(0, executor), executor.subgraph.inputs
    if main.plans is not None and main.plans.writing:       # a plan needs the operands of kernels
        return False
    if len(set(inputs)) < len(inputs):      # a tensor that is several inputs: see subgraph_calls.prepared()
        return False
    return executor.shared.may_record()


def _bind(executor: "Executor", program: "Any", history: ShapeHistory) -> "Any":
    """A ShapedProgram: `program`, evaluated for the current shapes, bound to the executor's memory."""
    memory, cache = executor.memory, executor.cache
    reshaper = Reshaper(program, history, ShapedProgram, kernel_class, default.is_plain)
    total = reshaper.place()
    memory.check_machine(total, total)
    bound = reshaper.bind(executor, memory.arena(total, 0, cache.drop_arena))
    for value in program.unread:        # a node that refuses these shapes must do so here, not when a caller reads it
        bound.instance.copy(value)
    if not executor.known_inputs and not program.unread:
        cache.reshaper = reshaper
    return bound


class ShapedProgram(BoundProgram):
    """A BoundProgram that a Reshaper creates from a recording.  Blueprint and Storage are created on first use.

    origin: (the RecordedProgram, the Numbers of these shapes, offsets and total of the arena's layout, the arguments
    for the Storage).
    """
    __slots__ = ("origin", "instance", "io_bytes")

    def __getattr__(self, name: str) -> "Any":
        recorded_program, numbers, offsets, total, places = self.origin
        if name == "instance":
            self.instance = recorded_program.instance(numbers)
        elif name == "storage":
            self.storage = Storage(*places)
        elif name == "lowered":
            self.lowered = self.instance.lowered()
        elif name == "placement":
            self.placement = self.instance.placement(recorded_program.lifetimes, offsets, total)
        elif name == "share":
            self.share = Share(Blueprint(self.lowered, self.placement))
        else:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self, name)

    def overwritten(self, index: int) -> bool:      # nothing overwrites an output, and `placement` takes time to create
        return index not in self.origin[0].lowered.subgraph.outputs and super().overwritten(index)

    def value(self, index: int) -> "Value":
        return self.instance.copy(self.origin[0].lowered.values[index])


# ---- subgraphs that a recorded one calls -------------------------------------------------------------------------
def called(executor: "Executor", shapes: "Sequence[Shape]",
           known_inputs: "Mapping[int, NDArray[Any]]") -> CalledProgram:
    """subgraph_calls.prepared() for shapes with Dims."""
    # Inference and lowering both call this; without `known`, a chain of n subgraphs would be lowered 2^n times.
    known = executor.shared.recording.setdefault(executor, [])
    for program in known:
        if _are_same(program.shapes, shapes) and program.known_inputs.keys() == known_inputs.keys() \
                and all(data is program.known_inputs[i] for i, data in known_inputs.items()):
            return program
    if not _may_record(executor):
        raise UnrecordableError("the subgraph depends on more than its shapes")
    executor.use_graph()
    executor.check()
    before, executor.known_inputs = executor.known_inputs, known_inputs
    try:
        lowered = lowering.lower(executor.model, executor.subgraph, shapes, preserve=executor.preserve,
                                 find=executor.find, dynamic=True, host=executor)
    finally:
        executor.known_inputs = before
    if lowered.boundary is not None or executor.stale:
        raise UnrecordableError("shapes depend on data")
    executor.note_callees()
    known.append(CalledProgram(executor, shapes, known_inputs, lowered))
    return known[-1]


def _are_same(some: "Sequence[Shape]", others: "Sequence[Shape]") -> bool:
    """Are these the same shapes, with the same Dims?  Comparing the values of Dims would add guards."""
    return len(some) == len(others) and all(
        len(a) == len(b) and all(m is n or (type(m) is int and type(n) is int and m == n)
                                 for m, n in zip(a, b, strict=True))
        for a, b in zip(some, others, strict=True))
