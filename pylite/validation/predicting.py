"""Runs a model for the outputs that are scored."""
from __future__ import annotations

from typing import TYPE_CHECKING

from pylite._core.simd import Pool
from pylite.errors import ComparisonError
from pylite.media.outputs import DETECTION, PROBABILITIES, producer
from pylite.runtime.executor import Executor
from pylite.validation.feeding import feed
from pylite.validation.statistics import Grid

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite.runtime.model import Model

    Array = NDArray[Any]


class Predictor:
    """Runs a model for its outputs.

    detects: are they boxes, classes, scores and their number?  likely: are they probabilities?
    """

    def __init__(self, model: Model, output: str | None, threads: int = 1) -> None:
        self.subgraph = model.graph.subgraphs[0]
        self._executor = Executor(model, self.subgraph, Pool(threads))
        self.outputs = list(self.subgraph.outputs)
        tensors = self.subgraph.tensors
        if output is not None:
            self.outputs = [i for i in self.outputs if tensors[i].name == output]
            if not self.outputs:
                raise ComparisonError(f"no output is called {output!r}; the model has "
                                      + ", ".join(repr(tensors[i].name) for i in self.subgraph.outputs))
        operator = next((o for o in self.subgraph.operators if o.name == DETECTION), None)
        self.detects = len(self.outputs) == 4
        if operator is not None and set(operator.outputs) == set(self.outputs):
            self.outputs = list(operator.outputs)       # of files that list them in another order
        self._grids = {i: Grid.of(tensors[i]) for i in self.outputs}
        self.likely = producer(self.subgraph, self.outputs[0]) in PROBABILITIES if self.outputs else False

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs, dequantized; the arrays belong to the caller."""
        executor = self._executor
        feed(executor, inputs)
        executor.invoke()
        return [self._real(index) for index in self.outputs]

    def _real(self, index: int) -> Array:
        grid, values = self._grids[index], self._executor.array(index)
        return values.copy() if grid is None or not grid.step else grid.real(values)
