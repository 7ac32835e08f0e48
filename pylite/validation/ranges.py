"""The grids of a quantized model that can change, and their noise on the values that the float model takes."""
from __future__ import annotations

from typing import TYPE_CHECKING

from pylite.validation.calibration import METHODS, Observed, observed
from pylite.validation.statistics import Grid
from pylite.validation.widening import dequantized

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite.runtime.model import Model
    from pylite.validation.requantizing import Changes
    from pylite.validation.ties import Tied

    Array = NDArray[Any]


class Ranges:
    """The grids that can change, and the values that their tensors take.  groups: {first tensor: its Tied}."""

    def __init__(self, graph: Any, ties: Sequence[Tied]) -> None:
        self._tensors = graph.tensors
        self.groups = {group.tensors[0]: group for group in ties if not group.fixed}
        self._seen: dict[int, Observed] = {}
        self._fits: dict[tuple[int, str], tuple[float, int]] = {}

    def observe(self, model: Model, reference: Model, matches: Mapping[int, int], samples: Sequence[Sequence[Array]],
                threads: int) -> None:
        """Record the values of the float model's tensors over the samples; drop groups without a matched tensor."""
        wanted = {key: [matches[i] for i in group.tensors if i in matches] for key, group in self.groups.items()}
        wanted = {key: others for key, others in wanted.items() if others}
        self.groups = {key: self.groups[key] for key in wanted}
        constants = {key: [values for i in group.tensors if self._tensors[i].data is not None
                           for values in [dequantized(model, self._tensors[i])] if values is not None]
                     for key, group in self.groups.items()}
        self._seen = observed(reference, wanted, samples, threads, constants)

    def present(self, changes: Changes) -> dict[int, tuple[float, int]]:
        """{group: its present grid}: that of `changes`, or else the file's."""
        grids = {}
        for key in self.groups:
            grid = Grid.of(self._tensors[key])
            assert grid is not None
            grids[key] = changes.grids.get(key, (grid.step, grid.zero_point))
        return grids

    def grid(self, key: int, method: str) -> tuple[float, int]:
        """The grid of group `key` by one of METHODS."""
        if (key, method) not in self._fits:
            self._fits[key, method] = self._seen[key].grid(method, self._tensors[key].dtype)
        return self._fits[key, method]

    def noise(self, key: int, grid: tuple[float, int]) -> float:
        """The mean squared error of the group's values, rounded to `grid`."""
        return self._seen[key].noise(grid, self._tensors[key].dtype)

    def promise(self, key: int, grid: tuple[float, int]) -> float:
        """The share of the group's noise on `grid` that remains with the best range: the less, the more it may gain."""
        noise = self.noise(key, grid)
        return min(self.noise(key, self.grid(key, method)) for method in METHODS) / noise if noise else 1.0
