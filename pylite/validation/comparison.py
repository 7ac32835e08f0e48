"""Runs a model and its reference on samples, and sums the differences of all tensors that match."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from pylite._core.simd import Pool
from pylite.errors import ComparisonError
from pylite.validation.called import SubgraphCalls
from pylite.validation.compared import Compared
from pylite.validation.feeding import exposed, feed
from pylite.validation.histograms import Histograms
from pylite.validation.matching import match
from pylite.validation.origins import OriginSums
from pylite.validation.statistics import COUNT, ErrorSums, Grid, add_sample, channels_of
from pylite.validation.uniform import Uniform
from pylite.validation.varying import Varying

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite.runtime.executor import Executor
    from pylite.runtime.model import Model


class Comparison(Compared):
    """A model and its reference, ready to take samples.

    A Uniform runs the samples; once shapes differ, or depend on data, a Varying does.
    sampler: the Uniform or the Varying, None before the first sample.
    """
    calls: SubgraphCalls

    def __init__(self, model: Model, reference: Model, threads: int = 1, histograms: bool = False,
                 alone: bool = True, origins: bool = False, depth: int = 0) -> None:
        """alone: run nodes by themselves, else `local`, `histograms` and `origins` stay empty; histograms, origins:
        measure these, too; depth: number of calls between the main subgraph and this one."""
        graph = model.graph.subgraphs[0]
        matching, inputs = match(graph, reference.graph.subgraphs[0]), set(graph.inputs)
        super().__init__(model, reference, matching, [
            i for o in graph.operators for i in o.outputs if i in matching.matches and i not in inputs])
        wanted = [self.matching.matches[i].reference for i in self.measured]
        pool = self._pool = Pool(threads)
        self._full = exposed(model, self.subgraph, self.measured, pool)
        self._full_reference = exposed(reference, self.other, wanted, pool)
        self.sampler: Uniform | Varying | None = None
        self.alone, self._with_histograms, self._with_origins = alone, alone and histograms, alone and origins
        self.calls = SubgraphCalls(model, reference, self.matching, pool, depth, lambda one, other: Comparison(
            one, other, threads, histograms, alone, origins, depth + 1))

    def prepare(self, inputs: Sequence[NDArray[Any]]) -> None:
        """Allocate for samples of these shapes; `inputs`: one array for each input, as `add` takes them."""
        executors = self._full, self._full_reference
        for executor in executors:
            feed(executor, inputs)
        if any(executor.current.boundary is not None for executor in executors):
            self._vary()
            return
        self._choose()
        for index in self.measured:
            self.cumulative[index] = ErrorSums(channels_of(self._full.array(index)))
        if self.alone:
            self.local = {index: ErrorSums(self.cumulative[index].channels) for index in self.measured}
        self.sampler = Uniform(self, self._full, self._full_reference, self._pool, self._with_origins)
        self.origins = self.sampler.origins

    def _vary(self) -> None:
        """Take samples of any shapes from here on."""
        if not self.grids:
            self._choose(sized=False)
            self.origins = OriginSums() if self._with_origins else None
        wanted = [self.matching.matches[i].reference for i in (*self.subgraph.inputs, *self.measured)
                  if i in self.matching.matches]
        self._full = exposed(self.model, self.subgraph, self.measured, self._pool)
        self._full_reference = exposed(self.reference, self.other, wanted, self._pool)
        self.sampler = Varying(self, self._full, self._full_reference, self._pool)

    def _choose(self, sized: bool = True) -> None:
        """Remove tensors that cannot be compared from `measured` (sized: those of other sizes, too); find the grids."""
        kept = []
        for index in self.measured:
            tensor, expected = self.subgraph.tensors[index], self.other.tensors[self.matching.matches[index].reference]
            grid = Grid.of(tensor)
            shapes = [self._full.shape(index), self._full_reference.shape(expected.index)] if sized else []
            if grid is None or expected.dtype != "float32":
                self.unmeasured[index] = f"{tensor.dtype} cannot be compared with {expected.dtype}"
            elif len(set(map(math.prod, shapes))) > 1:
                self.unmeasured[index] = f"its shape is {list(shapes[0])}, its counterpart's {list(shapes[1])}"
            else:
                kept.append(index)
                self.grids[index] = grid
        if not kept:
            raise ComparisonError("no tensor of the model has a counterpart of type float32 in the reference")
        self.measured = kept
        for index in self.subgraph.inputs:
            grid = Grid.of(self.subgraph.tensors[index])
            if grid is not None:
                self.grids[index], self.input_sums[index] = grid, ErrorSums(1)
        if self._with_histograms:
            self.histograms = {index: Histograms(self.grids[index]) for index in kept}

    @property
    def finite(self) -> bool:
        """Were all values and their references finite?  Sums leave out the others."""
        return all(int(sums.counts[COUNT].sum()) == sums.elements for sums in self.cumulative.values())

    def _groups(self) -> dict[str, dict[int, Any]]:
        groups: dict[str, dict[int, Any]] = {"cumulative": self.cumulative, "local": self.local,
                                             "input": self.input_sums, "histograms": self.histograms}
        if self.origins is not None:
            groups |= {"constants": self.origins.constants, "activations": self.origins.activations}
        return groups

    def sums(self) -> dict[str, ErrorSums | Histograms]:
        """Copies of all sums by name, for `take` of another Comparison of the same models."""
        own = {f"{name} {index}": type(sums).restored(sums.state())
               for name, group in self._groups().items() for index, sums in group.items()}
        return {**own, **self.calls.sums()}

    def clear(self) -> None:
        """Start over, with sums of no samples."""
        for group in self._groups().values():
            for sums in group.values():
                sums.clear()
        self.samples = 0
        self.calls.clear()

    def take(self, sums: Mapping[str, ErrorSums | Histograms], samples: int) -> None:
        """Put sums of `samples` samples in place of these."""
        if not self.grids:
            self._vary()
        self.clear()
        for what, taken in self.calls.take(sums).items():
            name, index = what.split()
            group, tensor = self._groups()[name], int(index)
            if tensor in group:
                group[tensor].merge(taken)
            else:
                group[tensor] = taken
        self.samples = samples

    def add(self, inputs: Sequence[NDArray[Any]], local: bool = True, origins: bool = False) -> None:
        """Run both models on one sample: an array for each input, float32 for those that are real or quantized.

        local: measure each node by itself, too, if this Comparison does that at all; origins: also find where its error
        comes from.
        """
        if not self.grids:
            self.prepare(inputs)
        local = local and self.alone
        if isinstance(self.sampler, Uniform) and [array.shape for array in inputs] != self._full.shapes:
            self._vary()
        assert self.sampler is not None
        self.sampler.add(inputs, local, origins)
        self.samples += 1
        self.calls.add(inputs, local, origins)

    def add_inputs(self, executor: Executor, inputs: Sequence[NDArray[Any]]) -> None:
        """Add the error that quantizing a sample makes; the inputs of `executor` hold the quantized sample."""
        for index, array in zip(self.subgraph.inputs, inputs, strict=True):
            if index in self.input_sums and array.dtype == np.float32:
                add_sample(self.input_sums, index, self.grids[index], executor.array(index), array)
