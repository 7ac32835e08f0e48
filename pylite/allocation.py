"""A subgraph bound to memory, ready to run."""
import numpy as np

import pylite
from pylite import planning
from pylite._core.program import Part

GUARD_BYTE = 0xA5


def raw(array):
    """The bytes of a contiguous array; empty for None."""
    return np.empty(0, np.uint8) if array is None else array.reshape(-1).view(np.uint8)


def failure(node, why):
    """The ExecutionError for a Node that could not run."""
    return pylite.ExecutionError(f"{node} failed: {why}; its tensors: "
                                 f"{', '.join(repr(v) for v in (*node.inputs, *node.outputs) if v is not None)}")


class Allocation(Part):
    """A subgraph, or a part of one between shapes that depend on data, bound to memory for one set of input shapes.

    Where it pauses: `watched` is the array that decides, or what `evaluate` gets; `next` tells what follows by the
    bytes of the one or the shapes that the other gives, and `evaluated` where the results go in what follows.
    """
    __slots__ = ("lowered", "plan", "storage", "arena", "turns")

    def __init__(self, lowered, plan, storage, program, arena):
        self.lowered = lowered
        self.plan = plan
        self.storage = storage
        self.program = program
        self.arena = arena
        self.readable = {}      # the Memory of tensors asked for before, by index
        self.writable = {}
        self.pause = lowered.pause
        self.watched = self.evaluate = None
        self.next = {}
        self.evaluated = ()
        self.used = True        # since the Executor last looked for what it can forget
        self.turns = {}         # by (Executor, operator index) of a loop with it as body: see ops/control.py

    def array(self, index):
        """The array of tensor `index`, or None where this part has no memory for it."""
        value, storage = self.lowered.values[index], self.storage
        if value.data is None and index not in storage.arrays:
            root = value.root.index
            if root not in storage.arrays and root not in storage.offsets:
                return None
        return storage.array(value)

    def failure(self, step, status):
        """The ExecutionError for a kernel that did not return 0."""
        kernel = self.program.kernels[step]
        error = failure(self.lowered.calls[step].node, kernel.explain(status))
        error.__cause__ = kernel.cause()
        return error

    def run_guarded(self):
        """program.run(), step by step, with a band of known bytes behind every live block."""
        arena, blocks = self.arena, self.plan.blocks
        for step in range(self.program.size):
            for _, offset, nbytes, first, _ in blocks:
                if first == step:
                    arena[offset + nbytes:offset + nbytes + planning.GUARD] = GUARD_BYTE
            failed = self.program.run(step, step + 1)
            if failed is not None:
                return failed
            for owner, offset, nbytes, first, last in blocks:
                if first <= step <= last:
                    band = arena[offset + nbytes:offset + nbytes + planning.GUARD]
                    if (band != GUARD_BYTE).any():
                        raise pylite.ExecutionError(f"{self.lowered.calls[step].node} wrote out of bounds, behind "
                                                    f"{owner!r}")
        return None
