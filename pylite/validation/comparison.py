"""Runs a model and its reference on samples, and sums the differences of all tensors that match."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pylite._core.simd import Pool
from pylite._core.statistics import round_trip
from pylite.errors import ComparisonError
from pylite.ir.graph import replace
from pylite.runtime.executor import Executor
from pylite.validation.histograms import Histograms
from pylite.validation.isolation import Isolated, Isolation, grouped
from pylite.validation.matching import Matching, match
from pylite.validation.statistics import ErrorSums, Grid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite.ir.graph import Subgraph
    from pylite.runtime.model import Model


class Comparison:
    """A model beside its reference, ready to take samples.

    matching: the Matching; measured: the tensors that are compared, in order; grids: {tensor: Grid}; cumulative, local:
    {tensor: ErrorSums}, of both models run from their inputs, and of each node by itself; input_sums: {input:
    ErrorSums} of what quantizing the samples does; histograms: {tensor: Histograms} of each node by itself, empty
    unless they are asked for; unmeasured: {tensor: why a matched one is not compared}.
    """

    def __init__(self, model: Model, reference: Model, threads: int = 1, histograms: bool = False) -> None:
        self.model, self.reference = model, reference
        self.subgraph, self.other = model.graph.subgraphs[0], reference.graph.subgraphs[0]
        self.matching: Matching = match(self.subgraph, self.other)
        inputs = set(self.subgraph.inputs)
        self.measured = [i for o in self.subgraph.operators for i in o.outputs
                         if i in self.matching.matches and i not in inputs]
        wanted = [self.matching.matches[i].reference for i in self.measured]
        pool = Pool(threads)
        self._full = _exposed(model, self.subgraph, self.measured, pool)
        self._full_reference = _exposed(reference, self.other, wanted, pool)
        self._pool = pool
        self._isolated: tuple[Executor, Executor, Isolated, Isolated] | None = None
        self._casts: dict[int, int] = {}                # result of a cast -> the matched tensor that it reads
        self._given: dict[int, NDArray[Any]] = {}       # tensor -> the reference's activation, as it can represent it
        self.grids: dict[int, Grid] = {}
        self.cumulative: dict[int, ErrorSums] = {}
        self.local: dict[int, ErrorSums] = {}
        self.input_sums: dict[int, ErrorSums] = {}
        self.histograms: dict[int, Histograms] = {}
        self._with_histograms = histograms
        self.unmeasured: dict[int, str] = {}
        self.samples = 0

    def prepare(self, inputs: Sequence[NDArray[Any]]) -> None:
        """Allocate for samples of these shapes; `inputs`: one array for each input, as `add` takes them."""
        for executor in (self._full, self._full_reference):
            for position, array in enumerate(inputs):
                executor.resize(position, array.shape)
            executor.allocate()
            if executor.current.boundary is not None:
                raise ComparisonError(f"{executor.current.boundary!r} has a shape that depends on data, which "
                                      "validation cannot follow")
        kept = []
        for index in self.measured:
            values, expected = self._full.array(index), self._expected(index)
            grid = Grid.of(self.subgraph.tensors[index])
            if grid is None or expected.dtype != np.float32:
                self.unmeasured[index] = f"{values.dtype} cannot be compared with {expected.dtype}"
            elif values.size != expected.size:
                self.unmeasured[index] = f"its shape is {list(values.shape)}, its counterpart's {list(expected.shape)}"
            else:
                kept.append(index)
                self.grids[index] = grid
                self.cumulative[index], self.local[index] = ErrorSums(_channels(values)), ErrorSums(_channels(values))
        if not kept:
            raise ComparisonError("no tensor of the model has a counterpart of type float32 in the reference")
        self.measured = kept
        if self._with_histograms:
            self.histograms = {index: Histograms(self.grids[index]) for index in kept}
        for index in self.subgraph.inputs:
            grid = Grid.of(self.subgraph.tensors[index])
            if grid is not None:
                self.grids[index] = grid
                self.input_sums[index] = ErrorSums(_channels(self._full.array(index)))
        self._isolate()

    def sums(self) -> dict[str, ErrorSums | Histograms]:
        """All sums by name, for `take` of another Comparison of the same models."""
        return {f"{name} {index}": sums for name, group in self._groups() for index, sums in group.items()}

    def _groups(self) -> list[tuple[str, dict[int, Any]]]:
        return [("cumulative", self.cumulative), ("local", self.local), ("input", self.input_sums),
                ("histograms", self.histograms)]

    def clear(self) -> None:
        """Begin anew with sums of no samples; those handed out stay as they are."""
        for _, group in self._groups():
            for index, sums in group.items():
                group[index] = (ErrorSums(sums.channels) if isinstance(sums, ErrorSums)
                                else Histograms(self.grids[index]))
        self.samples = 0

    def take(self, sums: Mapping[str, ErrorSums | Histograms], samples: int) -> None:
        """Put sums of `samples` samples in place of these."""
        for name, group in self._groups():
            group.clear()
            group |= {int(index): found for what, found in sums.items()
                      for kind, index in (what.split(),) if kind == name}
        self.samples = samples

    def _expected(self, index: int) -> NDArray[Any]:
        return self._full_reference.array(self.matching.matches[index].reference)

    def _isolate(self) -> None:
        """Make the graphs of single nodes."""
        matches, inputs = self.matching.matches, self.subgraph.inputs
        cuts = {i: matches[i].reference for i in self.measured}
        cuts |= {i: matches[i].reference for i in inputs if i in matches and Grid.of(self.subgraph.tensors[i])
                 and self.other.tensors[matches[i].reference].dtype == "float32"}
        mine, others, self._casts = grouped(self.subgraph, cuts)
        ours = Isolation(self.subgraph, _shapes(self._full, self.subgraph, cuts))
        theirs = Isolation(self.other, _shapes(self._full_reference, self.other, cuts.values()))
        for isolation, groups in ((ours, mine), (theirs, others)):
            for group in groups:
                isolation.add(group)
        one, other = ours.finished(), theirs.finished()
        executors = [Executor(model, isolated.subgraph, self._pool) for model, isolated in (
            (self.model, one), (self.reference, other))]
        for executor in executors:
            executor.allocate()
        self._isolated = executors[0], executors[1], one, other
        self._given = {key: np.empty(self._full_reference.array(cuts[key]).shape, np.float32)
                       for key in {**one.cuts, **other.cuts}}

    def add(self, inputs: Sequence[NDArray[Any]], local: bool = True) -> None:
        """Run both models on one sample: an array for each input, float32 for those that are real or quantized.

        local: measure each node by itself, too.
        """
        if not self.grids:
            self.prepare(inputs)
        shapes = [array.shape for array in inputs]
        if shapes != self._full.shapes:
            raise ComparisonError(f"sample {self.samples + 1} has the shapes {shapes}, and the first one had "
                                  f"{self._full.shapes}; they must agree")
        for executor, subgraph in ((self._full_reference, self.other), (self._full, self.subgraph)):
            executor.reset_variables()
            for index, array in zip(subgraph.inputs, inputs, strict=True):
                fill(executor.array(index), array, Grid.of(subgraph.tensors[index]))
            if executor is self._full:
                self._observe_inputs(inputs)
            executor.invoke()
        for index in self.measured:
            self.cumulative[index].add(self.grids[index], self._full.array(index), self._expected(index))
        self.samples += 1
        if local:
            self._add_local()

    def _observe_inputs(self, inputs: Sequence[NDArray[Any]]) -> None:
        for index, array in zip(self.subgraph.inputs, inputs, strict=True):
            if index in self.input_sums and array.dtype == np.float32:
                self.input_sums[index].add(self.grids[index], self._full.array(index), array)

    def _add_local(self) -> None:
        assert self._isolated is not None
        executor, reference, ours, theirs = self._isolated
        for key in self._given:
            self._give(key)
        for full, single, isolated in ((self._full, executor, ours), (self._full_reference, reference, theirs)):
            single.reset_variables()
            for original, index in isolated.inputs.items():
                single.array(index)[...] = full.array(original)
            single.invoke()
        for index in self.measured:
            if index in self._casts:
                expected = self._given[self._casts[index]]
            else:
                expected = reference.array(theirs.results[self.matching.matches[index].reference])
            for group in (self.local, self.histograms):
                if index in group:
                    group[index].add(self.grids[index], executor.array(ours.results[index]), expected)

    def _give(self, key: int) -> None:
        """Give the reference's activation, as the model's tensor `key` can represent it, to the nodes that read it."""
        assert self._isolated is not None
        executor, reference, ours, theirs = self._isolated
        real = self._given[key]
        np.copyto(real, self._full_reference.array(self.matching.matches[key].reference))
        if key in ours.cuts:
            fill(executor.array(ours.cuts[key]), real, Grid.of(self.subgraph.tensors[key]), in_place=True)
        if key in theirs.cuts:
            target = reference.array(theirs.cuts[key])
            np.copyto(target, real.reshape(target.shape))


def _exposed(model: Model, subgraph: Subgraph, tensors: Sequence[int], pool: Pool) -> Executor:
    """An Executor of the graph with more outputs."""
    return Executor(model, replace(subgraph, outputs=tuple(dict.fromkeys((*subgraph.outputs, *tensors)))), pool)


def _channels(values: NDArray[Any]) -> int:
    return values.shape[-1] if values.ndim else 1


def _shapes(executor: Executor, subgraph: Subgraph, tensors: Any) -> dict[int, tuple[int, ...]]:
    return {i: executor.array(i).shape for i in (*subgraph.inputs, *tensors)}


def fill(target: NDArray[Any], array: NDArray[Any], grid: Grid | None, in_place: bool = False) -> None:
    """Write `array` to a tensor; real numbers are quantized to its grid, and replaced if `in_place`."""
    if grid is None or not grid.step or array.dtype != np.float32:
        target[...] = array.reshape(target.shape)
        return
    real = array if in_place else array.copy()
    round_trip(real.reshape(-1), target.reshape(-1), grid.step, grid.zero_point)
