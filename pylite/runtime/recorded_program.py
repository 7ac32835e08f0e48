"""Creates programs for further input shapes from one recorded lowering: see compiler/recorded.py."""
from typing import TYPE_CHECKING

from pylite._core.graph.dimensions import UnrecordableError
from pylite._core.kernels import kernel_class
from pylite._core.run.reshaping import CalledProgram, Reshaper
from pylite._core.run.storage import Storage
from pylite.compiler import lowering, recorded
from pylite.ir.registry import default
from pylite.runtime.blueprint import Blueprint, Share
from pylite.runtime.bound_program import BoundProgram

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite.ir.values import Value

    Executor = Any      # it imports this module
    Shape = tuple[int, ...]

KEPT = 4            # recordings kept per history
ATTEMPTS = 4        # successive recordings that may fail to serve a second set of shapes


class ShapeHistory:
    """The history of an Executor's input shapes, all with the same ranks.

    first: the first shapes; varying: {(input, axis)} of the dimensions that have changed since; programs: the
    RecordedPrograms, the latest first; attempts: number of recordings still worth trying.
    """
    __slots__ = ("first", "varying", "programs", "attempts")

    def __init__(self, shapes: "Sequence[Shape]") -> None:
        self.first = list(shapes)
        self.varying: set[tuple[int, int]] = set()
        self.programs: list[Any] = []
        self.attempts = ATTEMPTS

    def program(self, executor: "Executor", new: bool) -> "Any":
        """A RecordedProgram, evaluated for the current input shapes, or None.  new: record, if none serves them."""
        shapes = executor.shapes
        for program in self.programs:
            if program.evaluate(shapes):
                self.served()
                return program
        if not (new and self.attempts):
            return None
        self.attempts -= 1
        self.varying.update((i, axis) for i, (old, new) in enumerate(zip(self.first, shapes, strict=True))
                            for axis in range(len(new)) if old[axis] != new[axis])
        executor.shared.recording = {}
        try:
            program = recorded.record(executor.model, executor.subgraph, shapes, sorted(self.varying),
                                      executor.preserve, executor.find, executor, bool(executor.subgraph.index))
        except Exception:       # lowering anew works for every shape, or raises a proper error
            return None
        finally:
            executor.shared.recording = None
        if executor.stale or not program.evaluate(shapes):
            return None
        self.programs = [program, *self.programs[:KEPT - 1]]
        return program

    def served(self) -> None:
        """Note that a recording has served a further set of shapes, so that recording pays."""
        self.attempts = ATTEMPTS


def bind(executor: "Executor", key: "Any", new: bool) -> "ShapedProgram | None":
    """A program for the current input shapes of `executor` from a recording; None if it must lower anew.

    key: history_key() of the shapes; new: record, if no recording serves them.
    """
    if not _may_record(executor):
        return None
    histories = executor.cache.histories
    history = histories[key]
    if type(history) is list:       # the shapes that came first
        history = histories[key] = ShapeHistory(history)
    program = history.program(executor, new)
    if program is None:
        return None
    try:
        return _bound(executor, program, history)
    except Exception:       # a kernel refused its operands; lowering anew raises the error with its context
        history.programs.remove(program)
        return None


def _may_record(executor: "Executor") -> bool:
    """Does the executor's lowering depend only on its input shapes?

    A tensor that is several inputs needs the check of subgraph_calls.prepared().
    """
    main, inputs = executor.shared.executors.get(0, executor), executor.subgraph.inputs
    return not (executor.guard or executor.plugins or executor.delegation or executor.tables or executor.access
                or executor.max_memory is not None or executor.resolver is not default or not default.is_plain()
                or len(set(inputs)) < len(inputs) or (main.plans is not None and main.plans.writing)
                or not executor.shared.may_record())


def _bound(executor: "Executor", program: "Any", history: ShapeHistory) -> "Any":
    """A ShapedProgram: `program`, evaluated for the current shapes, bound to the executor's memory."""
    memory, cache = executor.memory, executor.cache
    reshaper = Reshaper(program, history, ShapedProgram, kernel_class, default.is_plain)
    total = reshaper.place()
    memory.check_machine(total, total)
    bound = reshaper.bind(executor, memory.arena(total, 0, cache.drop_arena))
    if not executor.known_inputs:
        cache.reshaper = reshaper
    return bound


class ShapedProgram(BoundProgram):
    """A BoundProgram that a Reshaper creates from a recording.  Blueprint and Storage are created on first use.

    origin: (the RecordedProgram, the Numbers of these shapes, offsets and total of the arena's layout, the arguments
    for the Storage).
    """
    __slots__ = ("origin", "instance", "ends")

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
        return self.instance.thing(self.origin[0].lowered.values[index])


# ---- subgraphs that a recorded one calls -------------------------------------------------------------------------
def called(executor: "Executor", shapes: "Sequence[Shape]",
           known_inputs: "Mapping[int, NDArray[Any]]") -> CalledProgram:
    """prepared() for shapes with Dims.

    Inference and lowering both call this; without `known`, a chain of n subgraphs would be lowered 2^n times.
    """
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
        lowered = lowering.lower(executor.model, executor.subgraph, shapes, executor.preserve, executor.find, True,
                                 executor)
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
