"""A subgraph bound to memory, ready to run."""
from typing import TYPE_CHECKING

from pylite._core.program import Segment
from pylite.compiler.placement import GUARD
from pylite.errors import ExecutionError

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from pylite._core.program import Memory, Program
    from pylite.compiler.binding import Storage
    from pylite.compiler.placement import Plan
    from pylite.ir.lowered import Lowered

GUARD_BYTE = 0xA5


class BoundProgram(Segment):
    """A subgraph, or a segment of one between shapes that depend on data, bound to memory for one set of input shapes.

    At a boundary: `watched` is the array that decides, or the arrays that `evaluate` gets; `next` maps the bytes of the
    one, or the shapes that the other gives, to the BoundProgram that follows; `evaluated`: where the results go in it.
    """
    __slots__ = ("lowered", "plan", "storage", "arena", "iterations")

    def __init__(self, lowered: "Lowered", plan: "Plan", storage: "Storage", program: "Program",
                 arena: "NDArray[Any]") -> None:
        self.lowered = lowered
        self.plan = plan
        self.storage = storage
        self.program = program
        self.arena = arena
        self.readable: dict[int, Memory] = {}       # the Memory of tensors asked for before, by index
        self.writable = {}
        self.boundary = lowered.boundary
        self.watched = self.evaluate = None
        self.next = {}
        self.evaluated = ()
        self.used = True        # since the Executor last looked for what it can forget
        # (Executor, operator index) of a loop with it as body -> its LoopIteration.
        self.iterations: dict[Any, Any] = {}

    def array(self, index: int) -> "Any":
        """The array of tensor `index`, or None where this segment has no memory for it."""
        value, storage = self.lowered.values[index], self.storage
        if value.data is None and index not in storage.arrays:
            root = value.root.index
            if root not in storage.arrays and root not in storage.offsets:
                return None
        return storage.array(value)

    def failure(self, step: int, status: int) -> ExecutionError:
        """The ExecutionError for a kernel that did not return 0."""
        kernel = self.program.kernels[step]
        error = self.lowered.calls[step].node.failure(kernel.explain(status))
        error.__cause__ = kernel.cause()
        return error

    def run_guarded(self) -> "tuple[int, int] | None":
        """program.run(), step by step, with a band of known bytes behind every live block."""
        arena, blocks = self.arena, self.plan.blocks
        for step in range(self.program.size):
            for _, offset, nbytes, first, _ in blocks:
                if first == step:
                    arena[offset + nbytes:offset + nbytes + GUARD] = GUARD_BYTE
            failed = self.program.run(step, step + 1)
            if failed is not None:
                return failed
            for owner, offset, nbytes, first, last in blocks:
                if first <= step <= last:
                    band = arena[offset + nbytes:offset + nbytes + GUARD]
                    if (band != GUARD_BYTE).any():
                        raise ExecutionError(f"{self.lowered.calls[step].node} wrote out of bounds, behind "
                                                    f"{owner!r}")
        return None
