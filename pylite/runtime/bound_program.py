"""A subgraph bound to memory, ready to run, and an Executor's cache of such programs."""
from typing import TYPE_CHECKING

from pylite import errors
from pylite._core import simd
from pylite._core.run.program import Segment, ShapeCache
from pylite.runtime.blueprint import Share

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite._core.run.program import IOBytes, Program
    from pylite.compiler.binding import Storage
    from pylite.ir.values import Value
    from pylite.runtime.blueprint import Blueprint

GUARD_BYTE = 0xA5
CACHED_SHAPES = 8       # sets of input shapes whose programs are kept
KEPT_HISTORIES = 16     # most combinations of input ranks and known inputs whose shapes are tracked
CACHED_SEGMENTS = 512   # segments to keep whose shapes depend on data
ATTEMPTS = 4            # successive recordings that may be of no use for a second set of shapes


class BoundProgram(Segment):
    """A subgraph, or a segment of one between two boundaries, bound to memory for one set of input shapes."""
    __slots__ = ("share", "lowered", "placement", "storage", "operands")
    operands: "Sequence[Sequence[Any]]"     # the arguments of the kernels; set only if plans are written
    io_bytes: "IOBytes | None" = None   # the bytes of inputs and outputs, if other subgraphs call a ShapedProgram
    lost_pages = 0      # of the plan cache's file, which PlannedProgram maps

    def __init__(self, blueprint: "Blueprint", storage: "Storage", program: "Program", arena: "NDArray[Any]") -> None:
        self.share = Share(blueprint)
        self.lowered = lowered = blueprint.lowered
        self.placement = blueprint.placement
        self.storage = storage
        self.start(program, arena, lowered.boundary)

    def value(self, index: int) -> "Value":
        """Tensor `index`."""
        return self.lowered.values[index]

    def array(self, index: int) -> "Any":
        """The array of tensor `index`; None if this segment has no memory for it."""
        value, storage = self.value(index), self.storage
        if value.data is None and index not in storage.arrays:
            root = value.root.index
            if root not in storage.arrays and root not in storage.offsets:
                return None
        return storage.array(value)

    def shape(self, index: int) -> "tuple[int, ...]":
        """The shape of tensor `index`."""
        return self.value(index).shape

    def dtype(self, index: int) -> str:
        """The data type of tensor `index`."""
        return self.value(index).dtype

    def overwritten(self, index: int) -> bool:
        """Is the memory of tensor `index` overwritten after its last use?"""
        return self.placement.overwritten(self.value(index))

    def failure(self, step: int, status: int) -> "errors.ExecutionError":
        """The ExecutionError for the kernel of `step`, which returned `status`."""
        kernel = self.program.kernels[step]
        error = self.lowered.calls[step].node.failure(kernel.explain(status))
        error.__cause__ = kernel.cause()
        return error

    def run_guarded(self) -> "tuple[int, int] | None":
        """program.run(), step by step, with a guard band of known bytes after every live block."""
        from pylite.ir.values import BAND  # a debugging mode
        arena, blocks = self.arena, self.placement.blocks
        for step in range(self.program.size):
            for _, offset, nbytes, first, _ in blocks:
                if first == step:
                    arena[offset + nbytes:offset + nbytes + BAND] = GUARD_BYTE
            failed = self.program.run(step, step + 1)
            if failed is not None:
                return failed
            for owner, offset, nbytes, first, last in blocks:
                if first <= step <= last:
                    band = arena[offset + nbytes:offset + nbytes + BAND]
                    if (band != GUARD_BYTE).any():
                        raise errors.ExecutionError(
                            f"{self.lowered.calls[step].node} wrote out of bounds, past the end of {owner!r}")
        return None


class ShapeHistory:
    """What is known of an Executor's input shapes with the same ranks.

    first: the first shapes; varying: {(input, axis)} of the dimensions that have changed since; programs: the
    RecordedPrograms for them, the latest first; attempts: number of recordings still worth trying.
    """
    __slots__ = ("first", "varying", "programs", "attempts")

    def __init__(self, shapes: "Sequence[tuple[int, ...]]") -> None:
        self.first = list(shapes)
        self.varying: set[tuple[int, int]] = set()
        self.programs: list[Any] = []
        self.attempts = ATTEMPTS

    def note_reuse(self) -> None:
        """Note that a recording gave the program for a second set of shapes, so that recording pays."""
        self.attempts = ATTEMPTS


class ProgramCache(ShapeCache):
    """The BoundPrograms of an Executor by input shapes, and the segments after them, which depend on run-time data."""
    __slots__ = ("histories", "_predecessors")

    def __init__(self) -> None:
        super().__init__(CACHED_SHAPES)
        # by the ranks of inputs, known inputs and the ISA level: see history_key()
        self.histories: dict[Any, ShapeHistory] = {}
        # {segment: (the segment before it, its key in that one's `next`)}, the oldest first
        self._predecessors: dict[BoundProgram, tuple[BoundProgram, Any]] = {}

    def clear(self) -> None:
        """Drop everything, and break the reference cycles of loops."""
        for program in self._predecessors:
            program.iterations.clear()
        self.histories, self._predecessors = {}, {}
        super().clear()

    @staticmethod
    def history_key(shapes: "Sequence[tuple[int, ...]]", known_inputs: "Mapping[int, Any]") -> "Any":
        """The key in `histories` for inputs with these ranks and known inputs."""
        return (tuple([len(shape) for shape in shapes]),
                tuple([(i, id(data)) for i, data in known_inputs.items()]) if known_inputs else (), simd.current)

    def note(self, shapes: "Sequence[tuple[int, ...]]", known_inputs: "Mapping[int, Any]") -> "Any":
        """Note these input shapes; returns their history_key(), or None for the first shapes with that key."""
        key = self.history_key(shapes, known_inputs)
        if key in self.histories:
            return key
        if len(self.histories) >= KEPT_HISTORIES:
            self.histories.clear()
        self.histories[key] = ShapeHistory(shapes)
        return None

    def has_recorded(self, key: "Any") -> bool:
        """Has a lowering been recorded for the shapes with this history_key()?"""
        return bool(self.histories[key].programs)

    def add_segment(self, before: BoundProgram, key: "Any", segment: BoundProgram) -> None:
        """Keep `segment`, which follows `before` for the data `key`; drops segments that were not used lately."""
        predecessors = self._predecessors
        while len(predecessors) >= CACHED_SEGMENTS:
            oldest = next(iter(predecessors))
            if oldest.used:
                oldest.used = False
                predecessors[oldest] = predecessors.pop(oldest)
            else:
                self.drop([oldest])
        predecessors[segment] = before, key
        before.next[key] = segment

    def drop_segments(self) -> None:
        """Drop all segments but the first ones."""
        self.drop(list(self._predecessors))

    def drop_arena(self, arena: "NDArray[Any] | None") -> None:
        """Drop the segments in an arena that is being replaced."""
        self.drop([segment for segment in self._predecessors if segment.arena is arena])

    def drop(self, segments: "Iterable[BoundProgram]") -> None:
        """Drop `segments` and all segments after them."""
        dropped, predecessors = set(segments), self._predecessors
        while affected := [s for s, (before, _) in predecessors.items() if s in dropped or before in dropped]:
            for segment in affected:
                before, key = predecessors.pop(segment)
                before.next.pop(key, None)
            dropped.update(affected)
