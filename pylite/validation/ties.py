"""Which tensors of a quantized model must share a scale and a zero point, and which ones cannot change theirs.

Each node is asked: it runs by itself on the same integers with one operand's scale changed.  Where the result follows,
the node honours that scale.  Operands whose scales it ignores or refuses are tied: they may change together, if the
node then computes the same integers (a reshape, a concatenation), and not at all otherwise (a softmax).
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pylite._core.simd import Pool
from pylite.errors import PyliteError
from pylite.ir.graph import replace
from pylite.runtime.executor import Executor
from pylite.runtime.model import Model
from pylite.validation.statistics import Grid
from pylite.validation.weights import WEIGHT_OPS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite.ir.graph import Operator, Subgraph

FACTORS = 1.5, 64, 1 / 64       # of a scale under test: one of them shows in any result that depends on it
INTEGERS = "int8", "uint8", "int16"


@dataclass
class Tied:
    """Tensors with one grid.  tensors: their indices, sorted; fixed: it cannot change."""
    tensors: list[int]
    fixed: bool = False


def grid_of(subgraph: Subgraph, index: int) -> Grid | None:
    """The Grid of a tensor of integers with one scale; None for all others, and absent operands."""
    return Grid.of(subgraph.tensors[index]) if index >= 0 and subgraph.tensors[index].dtype in INTEGERS else None


def tied(model: Model) -> list[Tied]:
    """The Tied tensors of a model's main subgraph: every activation that has a grid is in one of them.

    Constants are in one if they share the grid of activations.  Inputs of the model keep their grids, since callers
    quantize for them.
    """
    graph = model.graph.subgraphs[0]
    used = dict.fromkeys(i for o in graph.operators for i in (*graph.inputs, *o.inputs, *o.outputs))
    group = {i: Tied([i], i in graph.inputs or graph.tensors[i].is_variable) for i in used if grid_of(graph, i)}
    for operator in graph.operators:
        together, fixed = _tied_by(model, operator)
        for index in fixed:
            group[index].fixed = True
        for index in together[1:]:
            _join(group, together[0], index)
    by_id = {id(t): t for t in group.values() if any(graph.tensors[i].data is None for i in t.tensors)}
    return sorted(by_id.values(), key=lambda t: t.tensors)


def _join(group: dict[int, Tied], one: int, other: int) -> None:
    """Merge the Tied of two tensors."""
    first, second = group[one], group[other]
    if first is not second:
        first.tensors, first.fixed = sorted(first.tensors + second.tensors), first.fixed or second.fixed
        group.update(dict.fromkeys(second.tensors, first))


def _tied_by(model: Model, operator: Operator) -> tuple[list[int], list[int]]:
    """(tensors that the node ties, tensors whose grids it fixes)"""
    graph = model.graph.subgraphs[0]
    operands = [i for i in dict.fromkeys((*operator.inputs, *operator.outputs)) if grid_of(graph, i)]
    if operator.name in WEIGHT_OPS:
        return [], []       # these take any grids, and their bias follows
    probe = _Probe(model, operator)
    plain = None if _has_biases(graph, operator) else probe.run(())
    if plain is None:
        return [], operands
    ignored = [i for i in operands if not probe.follows(i, plain)]
    if len(ignored) > 1 and all(probe.run(ignored, factor) == plain for factor in FACTORS):
        return ignored, []
    if len(ignored) == 1 and not any(i in operands for i in operator.outputs):
        return [], []       # no scale changes the result: the largest element stays the largest
    return [], ignored


def _has_biases(graph: Subgraph, operator: Operator) -> bool:
    """Does a node have constants, such as a bias, whose scale must follow from the scales of other operands?"""
    constants = [graph.tensors[i] for i in operator.inputs if i >= 0 and graph.tensors[i].data is not None]
    return any(t.dtype in ("int32", "int64") and t.quantization is not None and t.quantization.scale.size > 0
               for t in constants)


class _Probe:
    """A node by itself, on random integers."""

    def __init__(self, model: Model, operator: Operator) -> None:
        self._model, self._graph = model, model.graph.subgraphs[0]
        self._operator = replace(operator, index=0)
        self._inputs = tuple(i for i in dict.fromkeys(operator.inputs)
                             if i >= 0 and self._graph.tensors[i].data is None)
        grids = [grid_of(self._graph, i) for i in (*operator.inputs, *operator.outputs)]
        self._magnitude = max((max(grid.highest, -grid.lowest) for grid in grids if grid), default=1.0)

    def run(self, scaled: Iterable[int], factor: float = 1.0) -> list[bytes] | None:
        """The bytes of the results with the scales of these tensors times `factor`; None if the node refuses them."""
        tensors = list(self._graph.tensors)
        for i in scaled:
            q = tensors[i].quantization
            assert q is not None
            tensors[i] = replace(tensors[i], quantization=replace(q, scale=(q.scale * factor).astype(np.float32)))
        graph = replace(self._graph, tensors=tuple(tensors), operators=(self._operator,), inputs=self._inputs,
                        outputs=self._operator.outputs)
        others = self._model.graph.subgraphs[1:]
        model = Model(self._model.graph.contents, replace(self._model.graph, subgraphs=(graph, *others)))
        results: list[bytes] = []
        try:
            executor = Executor(model, graph, Pool(1))
            for lowest in (-1, 0):      # of both signs, and of one: a mean of both is near 0 in any scale
                executor.allocate()
                rng = np.random.default_rng(0)
                for index in self._inputs:
                    self._draw(rng, executor.array(index), grid_of(self._graph, index), lowest)
                executor.invoke()
                results += [executor.array(i).tobytes() for i in self._operator.outputs]
        except (PyliteError, ValueError, RuntimeError):
            return None
        return results

    def _draw(self, rng: np.random.Generator, array: NDArray[Any], grid: Grid | None, lowest: int) -> None:
        """Fill `array` with numbers of all magnitudes, some of which neither saturate nor vanish; indices become 0."""
        drawn = rng.uniform(lowest, 1, array.shape) * 2.0 ** rng.uniform(-7, 0, array.shape)
        if grid is not None:
            limits = np.iinfo(array.dtype)
            array[...] = np.clip(np.rint(grid.zero_point + drawn * grid.levels), limits.min, limits.max)
        else:
            array[...] = drawn * self._magnitude if array.dtype.kind == "f" else 0

    def follows(self, index: int, plain: Sequence[bytes]) -> bool:
        """Does the result depend on the scale of this tensor?"""
        return any(results is not None and results != plain for results in (self.run((index,), f) for f in FACTORS))
