"""Runs the part of a model that computes certain tensors, to see their values."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pylite._core.simd import Pool
from pylite.ir.graph import replace
from pylite.runtime.executor import Executor
from pylite.validation.feeding import feed
from pylite.validation.isolation import closure
from pylite.validation.statistics import Grid

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite.runtime.model import Model


class Activations:
    """Tensors of a model's main subgraph, computed from its inputs by the nodes that they depend on."""

    def __init__(self, model: Model, tensors: Sequence[int], threads: int = 1) -> None:
        graph = model.graph.subgraphs[0]
        computed = {i for o in graph.operators for i in o.outputs}
        operators, _ = closure(graph, tuple(i for i in tensors if i in computed), set())
        numbered = tuple(replace(o, index=k) for k, o in enumerate(operators))
        self._executor = Executor(model, replace(graph, operators=numbered, outputs=tuple(dict.fromkeys(tensors))),
                                  Pool(threads))

    def run(self, inputs: Sequence[NDArray[Any]]) -> None:
        """Compute the tensors for one sample."""
        feed(self._executor, inputs)
        self._executor.invoke()

    def array(self, index: int) -> NDArray[Any]:
        """A tensor as it is stored, until the next run."""
        return self._executor.array(index)


def channel_means(model: Model, tensors: Sequence[int], samples: Sequence[Sequence[NDArray[Any]]],
                  threads: int) -> dict[int, NDArray[Any]]:
    """{tensor: the mean of each channel over the samples, in real numbers}; channels are the last axis."""
    activations = Activations(model, tensors, threads)
    grids = {i: Grid.of(model.graph.subgraphs[0].tensors[i]) for i in tensors}
    means: dict[int, NDArray[Any]] = {}
    for inputs in samples:
        activations.run(inputs)
        for index, grid in grids.items():
            assert grid is not None
            values = grid.real(activations.array(index))
            mean = values.reshape(-1, values.shape[-1]).mean(0, dtype=np.float64)
            means[index] = means.get(index, np.zeros(())) + mean / len(samples)
    return means
