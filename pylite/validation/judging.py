"""Measures the SQNR of a model's results against its reference's, on a set of samples."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from pylite.errors import ComparisonError, PyliteError
from pylite.validation.activations import Activations
from pylite.validation.measures import decibels
from pylite.validation.statistics import Grid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite.ir.graph import Tensor
    from pylite.runtime.model import Model
    from pylite.validation.ties import Tied

EXACT_DB = 150.0        # the SQNR of a tensor without any error


def judged(model: Model, reference: Model, matches: Mapping[int, int], ties: Sequence[Tied]) -> list[tuple[int, int]]:
    """Pairs of tensors, of the model and of the reference, that tell how good the model is.

    They are the outputs; if the last node has a fixed output scale, such as softmax, its input as well, because 8 bits
    of probabilities hide most errors.  matches: {tensor: the reference's}.
    """
    graph, other_graph = model.graph.subgraphs[0], reference.graph.subgraphs[0]
    producer = {i: o for o in graph.operators for i in o.outputs}
    fixed = {i for group in ties if group.fixed for i in group.tensors}
    counterparts = {}
    for index, other in zip(graph.outputs, other_graph.outputs, strict=False):
        counterparts[index] = other
        while index in producer and index in fixed:
            index = producer[index].inputs[0]
        if index in producer and index in matches:
            counterparts.setdefault(index, matches[index])
    pairs = [(index, other) for index, other in counterparts.items()
             if _comparable(graph.tensors[index], other_graph.tensors[other])]
    if not pairs:
        raise ComparisonError("no output can be compared with the reference's: they are not real numbers, or have "
                              "other shapes")
    return pairs


def _comparable(tensor: Tensor, other: Tensor) -> bool:
    return (Grid.of(tensor) is not None and other.dtype == "float32"
            and math.prod(tensor.shape) == math.prod(other.shape))


class Judge:
    """Measures models against the reference on samples.  pairs: [(tensor of the model, its counterpart)]."""

    def __init__(self, reference: Model, pairs: Sequence[tuple[int, int]], samples: Sequence[Sequence[NDArray[Any]]],
                 threads: int) -> None:
        self.samples, self._threads = samples, threads
        self._tensors = [index for index, _ in pairs]
        activations = Activations(reference, [index for _, index in pairs], threads)
        self._expected: list[list[NDArray[Any]]] = []
        for inputs in samples:
            activations.run(inputs)
            self._expected.append([activations.array(index).reshape(-1).copy() for _, index in pairs])

    def measure(self, model: Model, places: Mapping[int, int] | None = None) -> float:
        """The mean of each(), in dB; minus infinity if the model cannot run."""
        values = [value for value in self.each(model, places) if not math.isnan(value)]
        if not values:
            raise ComparisonError("the reference's outputs are 0 on all samples, so no error can be related to them")
        return float(np.mean(values)) if min(values) > -math.inf else -math.inf

    def each(self, model: Model, places: Mapping[int, int] | None = None) -> list[float]:
        """The SQNR of each tensor in decibels, up to EXACT_DB; NaN if the reference is 0, minus infinity if the
        model cannot run.

        places: {tensor: where the model has it instead}.
        """
        tensors = [(places or {}).get(i, i) for i in self._tensors]
        grids = [Grid.of(model.graph.subgraphs[0].tensors[i]) for i in tensors]
        power, noise = np.zeros((2, len(grids)))
        try:
            activations = Activations(model, tensors, self._threads)
            for inputs, wanted in zip(self.samples, self._expected, strict=True):
                activations.run(inputs)
                for k, (index, grid, y) in enumerate(zip(tensors, grids, wanted, strict=True)):
                    assert grid is not None
                    difference = grid.real(activations.array(index)).reshape(-1).astype(np.float64) - y
                    power[k] += np.square(y, dtype=np.float64).sum()
                    noise[k] += np.square(difference).sum()
        except (PyliteError, ValueError, RuntimeError):
            return [-math.inf] * len(grids)
        return [float(np.clip(decibels(p, n), -EXACT_DB, EXACT_DB)) if p else math.nan
                for p, n in zip(power.tolist(), noise.tolist(), strict=True)]
