"""A model compared with arrays of its tensors, as a Comparison for analyse()."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pylite._core.simd import Pool
from pylite.errors import ComparisonError
from pylite.runtime.executor import Executor
from pylite.validation.activations import Activations
from pylite.validation.compared import Compared
from pylite.validation.data import fitted
from pylite.validation.golden_arrays import Folder, arranged, layouts
from pylite.validation.histograms import Histograms
from pylite.validation.interleaving import quantizing_kernels
from pylite.validation.isolation import Isolation, NodeGroup, closure
from pylite.validation.matching import CASTS, Match, Matching
from pylite.validation.statistics import ErrorSums, Grid

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite.ir.graph import Tensor
    from pylite.runtime.model import Model

    Array = NDArray[Any]

LAYOUTS = {"channels first": "channels first (NCHW), and were compared as channels last",
           "channels last": "channels last (NHWC), and were compared as channels first",
           "in order": "of other shapes, and were compared element by element, in order"}


class GoldenComparison(Compared):
    """A model compared with arrays of its tensors.  The reference is the model itself, so its weights count as right.

    names: {tensor: name of its array}.
    """

    def __init__(self, model: Model, folder: Folder, threads: int, histograms: bool) -> None:
        self.subgraph = model.graph.subgraphs[0]
        self._folder, self._threads = folder, threads
        tensors, inputs = self.subgraph.tensors, self.subgraph.inputs
        self.names = {index: golden.name for index, golden in folder.arrays.items()}
        how = dict(folder.how)
        self._source = {index: index for index in folder.arrays}    # tensor -> the one whose array it has
        for operator in self.subgraph.operators:
            if operator.name in CASTS:
                self._cast(operator.name, operator.inputs[0], operator.outputs[0], how)
        results = [i for o in self.subgraph.operators for i in o.outputs]
        measured = [i for i in results if i in self._source and i not in inputs]
        if not measured:
            raise self._unmatched(results)
        super().__init__(model, model, Matching({i: Match(i, i, how[i]) for i in self._source}, [], []), measured)
        self.unmeasured = {i: "there is no array of this name" for i in results
                           if i not in self._source and Grid.of(tensors[i]) is not None}
        # `origins` stays None, because the reference's weights are not known; `calls` stays empty, because arrays of
        # called subgraphs have no names of their own.
        self._with_histograms = histograms
        self._full = Activations(model, tuple(dict.fromkeys((*inputs, *self.measured))), threads)
        self._orders: dict[int, tuple[str, tuple[int, ...]]] = {}

    def _unmatched(self, results: list[int]) -> ComparisonError:
        names = [repr(self.subgraph.tensors[i].name) for i in results[:5]]
        return ComparisonError(
            "no array belongs to the result of a node; the folder has "
            f"{_listed([*self.names.values(), *self._folder.unused])}, and the results of nodes are "
            f"{', '.join(names)}{', ...' * (len(results) > 5)}; rename the files, or map the names in names.json")

    def _cast(self, name: str, source: int, target: int, how: dict[int, str]) -> None:
        """Both sides of a cast have the same array."""
        for one, other in ((source, target), (target, source)):
            if one in self._source and other not in self._source and Grid.of(self.subgraph.tensors[other]):
                self._source[other], self.names[other] = self._source[one], self.names[one]
                how[other] = f"through {name}"

    def inputs(self, number: int) -> list[Array]:
        """A sample of the folder for the inputs."""
        arrays = []
        for index in self.subgraph.inputs:
            tensor, array = self.subgraph.tensors[index], self._folder.arrays[index][number]
            how, order = next(iter(layouts(array.shape, tensor.shape).items()))
            self._orders[index] = how, order
            arrays.append(fitted(_real(arranged(array, tensor.shape, order), tensor), tensor))
        return arrays

    def add(self, number: int, inputs: Sequence[Array]) -> None:
        """Run the model on a sample, and its nodes on the arrays for this sample."""
        self._full.run(inputs)
        if not self.grids:
            self._prepare()
        for index, array in zip(self.subgraph.inputs, inputs, strict=True):
            if index in self.input_sums and array.dtype == np.float32:
                self.input_sums[index].add(self.grids[index], self._full.array(index), array)
        arrays = {i: self._array(i, number) for i in self._source if i in self.grids}
        for index in self.measured:
            self.cumulative[index].add(self.grids[index], self._full.array(index), arrays[index])
        self._single.reset_variables_and_ops()
        for original, place in self._isolated.inputs.items():
            self._single.array(place)[...] = self._full.array(original)
        for key, place in self._isolated.cuts.items():
            target = self._single.array(place)
            for kernel in quantizing_kernels(self.grids[key], arrays[key], target):
                kernel.run()
            self.given[key].add(self.grids[key], target, arrays[key])
        self._single.invoke()
        for index in self.measured:
            values = self._single.array(self._isolated.results[index])
            observer = self.local[index].observer(self.grids[index], values, arrays[index])
            observer.run()
            self.local[index].counted()
            if index in self.histograms:
                self.histograms[index].counter(observer).run()
        self.samples += 1

    def _prepare(self) -> None:
        """Make sums of the sizes that tensors have now, and the graph of single nodes."""
        for index in dict.fromkeys((*self._source, *self.subgraph.inputs)):
            grid = Grid.of(self.subgraph.tensors[index])
            if grid is not None:
                self.grids[index] = grid

        def sums(indices: Iterable[int]) -> dict[int, ErrorSums]:
            return {i: ErrorSums((self._full.array(i).shape or (1,))[-1]) for i in indices if i in self.grids}
        self.given, self.input_sums = sums(self._source), sums(self.subgraph.inputs)
        self.cumulative, self.local = sums(self.measured), sums(self.measured)
        if self._with_histograms:
            self.histograms = {index: Histograms(self.grids[index]) for index in self.measured}
        self._isolate()

    def _isolate(self) -> None:
        """Make the graph of single nodes."""
        cuts = set(self.grids).intersection(self._source)
        shapes = {i: self._full.array(i).shape for i in (*self.subgraph.inputs, *cuts)}
        isolation = Isolation(self.subgraph, shapes)
        for operator in self.subgraph.operators:
            results = tuple(i for i in operator.outputs if i in self.measured)
            if results:
                isolation.add(NodeGroup(results, {i: i for i in closure(self.subgraph, results, cuts)[1]}))
        self._isolated = isolation.finished()
        self._single = Executor(self.model, self._isolated.subgraph, Pool(self._threads))
        self._single.allocate()

    def _array(self, index: int, number: int) -> Array:
        """The array of a tensor for a sample, in the tensor's layout, as real numbers."""
        values, source = self._full.array(index), self._source[index]
        array, tensor = self._folder.arrays[source][number], self.subgraph.tensors[source]
        if source not in self._orders:
            self._orders[source] = self._order(array, values, tensor)
        return _real(arranged(array, values.shape, self._orders[source][1]), tensor)

    def _order(self, array: Array, values: Array, tensor: Tensor) -> tuple[str, tuple[int, ...]]:
        """(layout of an array, the order of its axes); if several fit, the one with which the model agrees best."""
        grid, orders = Grid.of(tensor), layouts(array.shape, values.shape)
        assert grid is not None
        own = grid.real(values)

        def distance(how: str) -> float:
            expected = _real(arranged(array, values.shape, orders[how]), tensor)
            return float(np.square(own.astype(np.float64) - expected).sum())
        best = min(orders, key=distance) if len(orders) > 1 else next(iter(orders))
        return best, orders[best]

    def notes(self) -> Iterable[str]:
        """Lines on arrays that are stored in another layout than the tensors, and on arrays without a tensor."""
        for how, text in LAYOUTS.items():
            names = [self._folder.arrays[i].name for i, (layout, _) in self._orders.items() if layout == how]
            if names:
                yield f"{_listed(names)} {text}"
        if self._folder.unused:
            yield f"no tensor has the name of {_listed(self._folder.unused)}"


def _real(array: Array, tensor: Tensor) -> Array:
    """Real numbers, float32; integers of the tensor's own type are its quantized values."""
    grid = Grid.of(tensor)
    if grid is not None and grid.step and array.dtype == grid.dtype:
        return grid.real(array)
    return np.ascontiguousarray(array, np.float32) if grid is not None else array


def _listed(names: Sequence[str]) -> str:
    return f"{len(names)} array{'s' if len(names) > 1 else ''} ({', '.join(names[:5])}{', ...' * (len(names) > 5)})"
