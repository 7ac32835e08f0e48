"""Ranges for quantized activations from the values that a float model takes: several methods, and their noise."""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pylite.validation.activations import Activations

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite.runtime.model import Model

    ScaleZero = tuple[float, int]        # scale, zero point

BINS = 4096         # between the least and the largest value
CLIPPED = {"99.99 %": 1e-4, "99.9 %": 1e-3}         # method -> share of the values that may lie outside
METHODS = ("min / max", *CLIPPED, "least error")
CUTS = np.linspace(1, 0.1, 37).tolist()     # factors of an end of the range that "least error" tries


@dataclass
class Observed:
    """The values that a tensor takes.  low, high: their range, extended to 0; counts: int64 (BINS,) over that range."""
    low: float = 0.0
    high: float = 0.0
    counts: NDArray[Any] | None = None

    def extend(self, values: NDArray[Any]) -> None:
        """Widen the range to these values; numbers that are not finite are left out."""
        if values.size:
            with np.errstate(invalid="ignore"):
                low, high = values.min(), values.max()
            if not (np.isfinite(low) and np.isfinite(high)):
                finite = values[np.isfinite(values)]
                low, high = finite.min(initial=0), finite.max(initial=0)
            self.low, self.high = min(self.low, float(low)), max(self.high, float(high))

    def count(self, values: NDArray[Any]) -> None:
        """Count values within the range."""
        if self.counts is None:
            self.counts = np.zeros(BINS, np.int64)
        if self.high > self.low:
            with np.errstate(invalid="ignore"):
                places = (values.reshape(-1) - self.low) * (BINS / (self.high - self.low))
                places = places[(places >= 0) & (places <= BINS)].astype(np.intp)
            self.counts += np.bincount(np.minimum(places, BINS - 1), minlength=BINS)

    def range(self, method: str) -> tuple[float, float]:
        """The range by a method of METHODS, extended to 0.  For "least error" call least_error()."""
        assert self.counts is not None
        total = self.counts.sum()
        if method not in CLIPPED or not total:
            return self.low, self.high
        share = np.cumsum(self.counts) / total
        edges = np.linspace(self.low, self.high, BINS + 1)
        low = edges[np.searchsorted(share, CLIPPED[method] / 2)] if self.low < 0 else 0.0
        high = edges[np.searchsorted(share, 1 - CLIPPED[method] / 2) + 1] if self.high > 0 else 0.0
        return min(0.0, float(low)), max(0.0, float(high))

    def noise(self, grid: ScaleZero, dtype: str) -> float:
        """The mean squared error of these values on a grid: of rounding inside its range, of clipping outside."""
        assert self.counts is not None
        scale, zero_point = grid
        limits = np.iinfo(dtype)
        low, high = (limits.min - zero_point) * scale, (limits.max - zero_point) * scale
        centres = self.low + (np.arange(BINS) + 0.5) * ((self.high - self.low) / BINS)
        beyond = np.maximum(0, np.maximum(low - scale / 2 - centres, centres - high - scale / 2))
        outside = np.where(beyond > 0, (beyond + scale / 2) ** 2, scale * scale / 12)
        total = self.counts.sum()
        return float((self.counts * outside).sum() / total) if total else 0.0

    def least_error(self, dtype: str) -> ScaleZero:
        """The grid with the least noise in a search that moves one end after the other towards 0."""
        ends = [self.low, self.high]
        for place in (1, 0, 1, 0):
            tried = [[*ends[:place], end * part, *ends[place + 1:]]
                     for end in [(self.low, self.high)[place]] if end for part in CUTS]
            ends = min(tried, key=lambda t: self.noise(grid_for(t[0], t[1], dtype), dtype), default=ends)
        return grid_for(ends[0], ends[1], dtype)

    def grid(self, method: str, dtype: str) -> ScaleZero:
        """The grid for type `dtype` by a method of METHODS."""
        return self.least_error(dtype) if method == "least error" else grid_for(*self.range(method), dtype)


def grid_for(low: float, high: float, dtype: str) -> ScaleZero:
    """The grid of a type over a range that contains 0; 0 is one of its values.  int16 is symmetric."""
    if dtype == "int16":
        return float(np.float32(max(-low, high) / 32767 or 1.0)), 0
    limits = np.iinfo(dtype)
    scale = float(np.float32((high - low) / (limits.max - limits.min) or 1.0))
    return scale, int(np.clip(np.rint(limits.min - low / scale), limits.min, limits.max))


def observed(model: Model, groups: Mapping[int, Iterable[int]], samples: Sequence[Sequence[NDArray[Any]]],
             threads: int, constants: Mapping[int, Iterable[NDArray[Any]]]) -> dict[int, Observed]:
    """{key: the Observed values of a group's tensors over the samples}.

    groups: {key: tensors of the model}; constants: {key: arrays whose values belong to the group, too}.
    """
    by_key = {key: Observed() for key in groups}
    for key, arrays in constants.items():
        for values in arrays:
            by_key[key].extend(values)
    activations = Activations(model, [i for tensors in groups.values() for i in tensors], threads)
    for counted in (False, True):
        for inputs in samples:
            activations.run(inputs)
            for key, tensors in groups.items():
                for index in tensors:
                    values = activations.array(index)
                    if values.dtype == np.float32:
                        (by_key[key].count if counted else by_key[key].extend)(values)
    return by_key
