"""One program of the steps of several executors and of kernels that watch them, so that tensors are read while hot."""
from __future__ import annotations

from functools import cached_property
from struct import pack
from typing import TYPE_CHECKING

import numpy as np

from pylite._core.kernels.elementwise import Unary
from pylite._core.kernels.movement import Copy
from pylite._core.run.program import Program
from pylite.compiler.placement import Access
from pylite.numerics.quantization import LIMITS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite._core.run.kernel import Kernel
    from pylite._core.simd import Pool
    from pylite.ir.graph import Subgraph
    from pylite.runtime.executor import Executor
    from pylite.validation.statistics import Grid


class Track:
    """The steps of an allocated Executor, to be taken in their order."""

    def __init__(self, executor: Executor) -> None:
        self.bound = executor.current
        self._producer = {i: o.index for o in executor.subgraph.operators for i in o.outputs}
        self._nodes = [call.node.index for call in self.bound.lowered.calls]
        self._taken = 0

    def until(self, tensor: int | None = None) -> list[tuple[Kernel, tuple[Track, int] | None]]:
        """[(kernel, (this, step))] of the next steps, up to those that compute `tensor`, or of all."""
        operator = len(self._producer) if tensor is None else self._producer.get(tensor, -1)
        last = max((step for step, node in enumerate(self._nodes) if node <= operator), default=-1)
        steps = range(self._taken, last + 1)
        self._taken = max(self._taken, last + 1)
        return [(self.bound.program.kernels[step], (self, step)) for step in steps]


class Usage:
    """Collects when an executor's tensors are used between its steps.  access: the Access that says so."""

    def __init__(self, subgraph: Subgraph) -> None:
        self.access = Access({}, {})
        self._producer = {i: o.index for o in subgraph.operators for i in o.outputs}
        self._computed = -1     # the last operator that has run

    def compute(self, tensor: int) -> None:
        """The executor runs until it has computed `tensor`, which is then read."""
        self._computed = max(self._computed, self._producer.get(tensor, -1))
        self.use(tensor)

    def use(self, tensor: int) -> None:
        """`tensor` is read now."""
        if tensor in self._producer:
            self.access.read[tensor] = self._computed

    def keep(self, tensor: int) -> None:
        """`tensor` is read now, perhaps after inputs were written that the next operator is the first to read."""
        self.access.read[tensor] = self._computed + 1

    def fill(self, tensor: int | None) -> None:
        """The input `tensor`, if it is one, is written now."""
        if tensor is not None:
            self.access.written[tensor] = self._computed + 1


class Interleaved:
    """Kernels in the order in which they run; those of a Track come with their step."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._steps: list[tuple[Kernel, tuple[Track, int] | None]] = []

    def add(self, *kernels: Kernel) -> None:
        self._steps += [(kernel, None) for kernel in kernels]

    def extend(self, steps: Sequence[tuple[Kernel, tuple[Track, int] | None]]) -> None:
        """Add kernels with their steps, None for those of no Track."""
        self._steps += steps

    def advance(self, track: Track, tensor: int | None = None) -> None:
        """Let the executor of `track` compute a tensor, or run to its end."""
        self._steps += track.until(tensor)

    @cached_property
    def program(self) -> Program:
        """All of them; nothing can be added afterwards."""
        return Program([kernel for kernel, _ in self._steps], self._pool)

    def run(self) -> None:
        """Run all once.  ExecutionError names the node that failed."""
        failed = self.program.run()
        if failed is not None:
            owner = self._steps[failed[0]][1]
            assert owner is not None        # other kernels do not fail
            raise owner[0].bound.failure(owner[1], failed[1])


def rounding(grid: Grid, real: NDArray[Any], quantized: NDArray[Any] | None,
             represented: Sequence[NDArray[Any]] = ()) -> list[Kernel]:
    """Kernels that quantize real numbers to a grid, half away from zero, and write what these represent.

    quantized: of the grid's type, or None; represented: float32.  Numbers for a grid without steps are copied.
    """
    if not grid.step:
        targets = [*represented, *([] if quantized is None else [quantized])]
        return [Copy(real.reshape(-1), target.reshape(-1)) for target in targets]
    if quantized is None:
        quantized = np.empty(real.shape, grid.dtype)
    width = "16" if grid.dtype == "int16" else "8"
    sign = "u" if grid.dtype == "uint8" else "i"
    between, count = _bytes(quantized), real.size
    there = pack("f3i", grid.step, grid.zero_point, *LIMITS[grid.dtype])
    back = pack("fi", grid.step, grid.zero_point)
    return [Unary(f"quantize_f32_i{width}", count, _bytes(real), between, there),
            *(Unary(f"dequantize_{sign}{width}", count, between, _bytes(target), back) for target in represented)]


def _bytes(array: NDArray[Any]) -> NDArray[Any]:
    return array.reshape(-1).view(np.uint8)
