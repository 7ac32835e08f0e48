"""Gives a graph one sample: media.tensors.feed() for an Executor, whose inputs take real numbers."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pylite.ir.graph import replace
from pylite.media import tensors as media_tensors
from pylite.runtime.executor import Executor
from pylite.validation.interleaving import quantizing_kernels
from pylite.validation.statistics import Grid

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite._core.simd import Pool
    from pylite.ir.graph import Subgraph
    from pylite.runtime.model import Model


class Graph:
    """The inputs of an Executor, by the methods of an Interpreter; real numbers are quantized to an input's grid."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def get_input_details(self) -> list[dict[str, Any]]:
        executor = self._executor
        return [{"index": i, "shape": shape}
                for i, shape in zip(executor.subgraph.inputs, executor.shapes, strict=True)]

    def resize_tensor_input(self, index: int, shape: tuple[int, ...]) -> None:
        self._executor.resize(self._executor.subgraph.inputs.index(index), shape)

    def allocate_tensors(self) -> None:
        """Allocate, and reset the state."""
        self._executor.allocate()
        self._executor.reset_variables_and_ops()

    def set_tensor(self, index: int, values: NDArray[Any]) -> None:
        target, grid = self._executor.array(index), Grid.of(self._executor.subgraph.tensors[index])
        if grid is None or not grid.step or values.dtype != np.float32:
            target[...] = values.reshape(target.shape)
            return
        for kernel in quantizing_kernels(grid, np.ascontiguousarray(values), target):
            kernel.run()


def feed(executor: Executor, inputs: Sequence[NDArray[Any]]) -> None:
    """Give a graph one sample of any shapes, and reset its variables."""
    media_tensors.feed(Graph(executor), inputs, allocate=True)


def exposed(model: Model, subgraph: Subgraph, tensors: Sequence[int], pool: Pool) -> Executor:
    """An Executor of the graph with more outputs."""
    return Executor(model, replace(subgraph, outputs=tuple(dict.fromkeys((*subgraph.outputs, *tensors)))), pool)
