"""Runs several models step by step in one Program, so that their tensors are compared while they are in the cache.

A comparison runs a model, its reference, and nodes of both by themselves, each as an Executor of its own.  Run one
after the other, they would keep every tensor until all are done.  Interleaved, one executor computes a tensor, another
one its counterpart, and then a kernel that only observes adds up their difference; the memory of both is then free.

The caller walks twice through the same order of such steps:

1. before memory is planned, with a Usage for each executor.  It notes between which operators the tensors are written
   and read.  An executor that is allocated with the resulting Access keeps each tensor just as long.
2. afterwards, with a Track for each executor, to append their kernels and the observing ones to an Interleaved.

If the orders differed, a tensor could be read after its memory was used again.
"""
from __future__ import annotations

from functools import cached_property
from struct import pack
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pylite._core.kernels.elementwise import Unary
from pylite._core.kernels.movement import Copy
from pylite._core.run.program import Program
from pylite.compiler.placement import Access
from pylite.numerics.quantization import LIMITS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite._core.run.kernel import Kernel
    from pylite._core.simd import Pool
    from pylite.ir.graph import Subgraph
    from pylite.runtime.bound_program import BoundProgram
    from pylite.runtime.executor import Executor
    from pylite.validation.statistics import Grid


class Usage:
    """Notes when a caller uses the tensors of one executor, in the order of the run.

    access: the Access noted so far: inputs that the caller writes, and tensors that operators compute and it reads.
    Reading any other tensor needs no note, because its memory is never used again.
    """

    def __init__(self, subgraph: Subgraph) -> None:
        self.access = Access({}, {})
        self._producer = _producers(subgraph)
        self._computed = -1     # the last operator that has run

    def compute(self, tensor: int) -> None:
        """The executor runs until it has computed `tensor`, which is then read."""
        self._computed = max(self._computed, self._producer.get(tensor, -1))
        self.read(tensor)

    def read(self, tensor: int) -> None:
        """`tensor` is read before the next operator runs."""
        if tensor in self._producer:
            self.access.read[tensor] = self._computed

    def read_after_writing(self, tensor: int) -> None:
        """`tensor` is read now, perhaps after inputs of the next operator were written, whose memory it must not share.

        Some operator has computed it.
        """
        self.access.read[tensor] = self._computed + 1

    def write(self, tensor: int | None) -> None:
        """The input `tensor`, or nothing if it is None, is written before the next operator runs."""
        if tensor is not None:
            self.access.written[tensor] = self._computed + 1


class KernelStep(NamedTuple):
    """A kernel to run.  program, number: the program and step that it belongs to, to explain a failure; or None, -1."""
    kernel: Kernel
    program: BoundProgram | None = None
    number: int = -1


class Track:
    """The steps of an allocated Executor, to be taken in order, each once."""

    def __init__(self, executor: Executor) -> None:
        self._bound = executor.current
        self._producer = _producers(executor.subgraph)
        self._nodes = [call.node.index for call in self._bound.lowered.calls]
        self._taken = 0         # number of steps

    def until(self, tensor: int | None = None) -> list[KernelStep]:
        """Take the steps up to the last one of the operator that computes `tensor`; None: all that are left.

        The list is empty if they were taken before, or if no operator computes the tensor.
        """
        operator = len(self._producer) if tensor is None else self._producer.get(tensor, -1)
        last = max((number for number, node in enumerate(self._nodes) if node <= operator), default=-1)
        numbers = range(self._taken, last + 1)
        self._taken = max(self._taken, last + 1)
        return [KernelStep(self._bound.program.kernels[number], self._bound, number) for number in numbers]


class Interleaved:
    """The steps of several executors, and kernels between them, as one Program."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._steps: list[KernelStep] = []

    def add(self, *kernels: Kernel) -> None:
        """Append kernels that belong to no executor."""
        self._steps += map(KernelStep, kernels)

    def extend(self, steps: Iterable[KernelStep]) -> None:
        """Append steps."""
        self._steps += steps

    def advance(self, track: Track, tensor: int | None = None) -> None:
        """Append the steps of `track` up to the one that computes `tensor`; None: all that are left."""
        self._steps += track.until(tensor)

    @cached_property
    def program(self) -> Program:
        """The Program of all steps; nothing can be appended afterwards."""
        return Program([step.kernel for step in self._steps], self._pool)

    def run(self) -> None:
        """Run all steps once.  ExecutionError names the node that failed."""
        failed = self.program.run()
        if failed is not None:
            position, status = failed
            step = self._steps[position]
            assert step.program is not None         # other kernels do not fail
            raise step.program.failure(step.number, status)


def _producers(subgraph: Subgraph) -> dict[int, int]:
    """{tensor: the operator that computes it}"""
    return {i: operator.index for operator in subgraph.operators for i in operator.outputs}


def quantizing_kernels(grid: Grid, real: NDArray[Any], quantized: NDArray[Any] | None,
                       represented: Sequence[NDArray[Any]] = ()) -> list[Kernel]:
    """Kernels that quantize real numbers to a grid, half away from zero, and write what these represent.

    real, represented: float32; quantized: of the grid's type, or None if nothing needs it.  All have as many elements.
    If the grid has no steps, the kernels copy the numbers.
    """
    if not grid.step:
        targets = [*represented, *([] if quantized is None else [quantized])]
        return [Copy(real.reshape(-1), target.reshape(-1)) for target in targets]
    if quantized is None:
        quantized = np.empty(real.shape, grid.dtype)
    bits = "16" if grid.dtype == "int16" else "8"
    sign = "u" if grid.dtype == "uint8" else "i"
    stored, count = _bytes(quantized), real.size
    to_grid = pack("f3i", grid.step, grid.zero_point, *LIMITS[grid.dtype])
    from_grid = pack("fi", grid.step, grid.zero_point)
    return [Unary(f"quantize_f32_i{bits}", count, _bytes(real), stored, to_grid),
            *(Unary(f"dequantize_{sign}{bits}", count, stored, _bytes(target), from_grid) for target in represented)]


def _bytes(array: NDArray[Any]) -> NDArray[Any]:
    return array.reshape(-1).view(np.uint8)
