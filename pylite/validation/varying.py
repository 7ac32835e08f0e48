"""Measures samples whose shapes differ, or depend on data: node after node, without a program that runs all.

Its twin, uniform.py, measures samples of equal shapes in less time; the sums are the same to the last bit.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pylite.errors import PyliteError
from pylite.runtime import subgraph_calls
from pylite.runtime.executor import Executor
from pylite.validation.feeding import feed
from pylite.validation.interleaving import quantizing_kernels
from pylite.validation.isolation import Isolation, grouped
from pylite.validation.origins import REAL, constants_of
from pylite.validation.statistics import Grid, add_sample

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite._core.simd import Pool
    from pylite.ir.graph import Subgraph, Tensor
    from pylite.runtime.model import Model
    from pylite.validation.isolation import NodeGroup
    from pylite.validation.statistics import ErrorSums

    Array = NDArray[Any]
    Comparison = Any        # it imports this module


class _Node:
    """The nodes of a NodeGroup, as a graph that takes activations of any shape."""

    def __init__(self, model: Model, subgraph: Subgraph, group: NodeGroup, pool: Pool,
                 constants: Mapping[int, Tensor] | None = None) -> None:
        isolation = Isolation(subgraph, {})
        isolation.add(group, constants)
        self._graph = isolation.finished()
        self._executor = Executor(model, self._graph.subgraph, pool)

    def run(self, activations: Mapping[int, Array], full: Executor) -> dict[int, Array]:
        """{result of the group: its contents}.

        activations: {key of a cut: the array to read there}; full: the Executor whose inputs hold the sample.
        """
        arrays = [*(activations[key] for key in self._graph.cuts), *map(full.array, self._graph.inputs)]
        self._executor.reset_variables_and_ops()
        return dict(zip(self._graph.results, subgraph_calls.call(self._executor, arrays), strict=True))


class Varying:
    """Adds samples of any shapes to the sums of a Comparison.

    full, reference: Executors of both models, with the tensors to compare as outputs.
    """

    def __init__(self, comparison: Comparison, full: Executor, reference: Executor, pool: Pool) -> None:
        self._comparison, self._full, self._reference = comparison, full, reference
        self._nodes: list[tuple[NodeGroup, _Node, _Node | None, _Node | None]] = []
        matches, subgraph, other = comparison.matching.matches, comparison.subgraph, comparison.other
        self._cuts = {i: matches[i].reference for i in (*subgraph.inputs, *comparison.measured)
                      if i in matches and Grid.of(subgraph.tensors[i])
                      and other.tensors[matches[i].reference].dtype == "float32"}
        pairs, self._casts = grouped(subgraph, self._cuts)
        for group, counterpart in pairs if comparison.alone else ():
            theirs = with_constants = None
            if counterpart is not None:
                theirs = _Node(comparison.reference, other, counterpart, pool)
                constants = constants_of(comparison.model, group, comparison.reference, counterpart)
                if constants and comparison.origins is not None:
                    with_constants = _Node(comparison.reference, other, counterpart, pool, constants)
            self._nodes.append((group, _Node(comparison.model, subgraph, group, pool), theirs, with_constants))

    def add(self, inputs: Sequence[Array], local: bool, origins: bool) -> None:
        """Run both models on one sample; local, origins: as Comparison.add() has them."""
        comparison = self._comparison
        for executor in (self._full, self._reference):
            feed(executor, inputs)
            executor.invoke()
        comparison.add_inputs(self._full, inputs)
        expected = {i: self._reference.array(counterpart) for i, counterpart in self._cuts.items()}
        for index in comparison.measured:
            self._observe(comparison.cumulative, index, self._full.array(index), expected[index])
        if local:
            self._add_nodes(expected, origins)

    def _add_nodes(self, expected: Mapping[int, Array], origins: bool) -> None:
        """Run each node by itself.  expected: {tensor: the reference's activation}"""
        comparison = self._comparison
        quantized, represented = {}, {}
        for index, real in expected.items():
            grid = comparison.grids[index]
            quantized[index] = np.empty(real.shape, grid.dtype)
            represented[index] = np.empty(real.shape, np.float32)
            for kernel in quantizing_kernels(grid, np.ascontiguousarray(real), quantized[index], [represented[index]]):
                kernel.run()
        for group, ours, theirs, with_constants in self._nodes:
            try:
                results = ours.run(quantized, self._full)
                wanted = {} if theirs is None else theirs.run(represented, self._reference)
                changed = with_constants.run(represented, self._reference) if with_constants and origins else {}
            except PyliteError:     # shapes that depend on data may not fit those of activations that are given
                continue
            for index in group.results:
                counterpart = comparison.matching.matches[index].reference
                one = represented[self._casts[index]] if theirs is None else wanted[counterpart]
                self._observe(comparison.local, index, results[index], one)
                if theirs is not None and origins and comparison.origins is not None:
                    self._add_origins(index, one, expected[index], changed.get(counterpart))

    def _add_origins(self, index: int, computed: Array, expected: Array, changed: Array | None) -> None:
        """Add where the error of tensor `index` comes from.

        computed: the result of the reference's node on quantized operands; changed: the same with the model's
        constants, or None; expected: the reference's activation.
        """
        origins, grid = self._comparison.origins, self._comparison.grids[index]
        assert origins is not None
        if changed is not None:
            self._observe(origins.constants, index, changed, computed, REAL)
        if grid.step:
            rounded = np.empty(computed.shape, grid.dtype)
            for kernel in quantizing_kernels(grid, computed, rounded):
                kernel.run()
            self._observe(origins.activations, index, rounded, expected)

    def _observe(self, group: dict[int, ErrorSums], index: int, values: Array, expected: Array,
                 grid: Grid | None = None) -> None:
        """Add a sample of a tensor, unless the sides differ in size or are empty."""
        if values.size != expected.size or not values.size:
            return
        comparison = self._comparison
        observer = add_sample(group, index, grid or comparison.grids[index], values, expected)
        if group is comparison.local and index in comparison.histograms:
            comparison.histograms[index].counter(observer).run()
