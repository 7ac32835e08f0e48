"""Measures from the sums of a tensor's errors: ratios, steps and shares."""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pylite.validation import statistics as rows

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from pylite.validation.statistics import ErrorSums, Grid

IDEAL_LEVELS = 255      # of a tensor of real numbers among quantized ones
TINY = 1e-300
NONE_DB = -200.0        # an SQNR without signal, or with infinite noise: JSON has no infinities but null, for no error


@dataclass(frozen=True)
class Errors:
    """The errors of one tensor, all of it and by channel; of real numbers if the tensor has no step.

    signal, noise: mean squares of the reference and of the error, by channel; count: of elements, by channel
    mean_error, max_error, low, high: by channel; low, high: shares saturated at the ends
    lowest, highest: of the reference over all samples, by channel
    """
    count: NDArray[Any]
    signal: NDArray[Any]
    noise: NDArray[Any]
    mean_error: NDArray[Any]
    max_error: NDArray[Any]
    low: NDArray[Any]
    high: NDArray[Any]
    lowest: NDArray[Any]
    highest: NDArray[Any]

    @classmethod
    def of(cls, sums: ErrorSums) -> Errors:
        counts, totals, extremes = sums.counts, sums.sums(), sums.extremes
        if counts[rows.TOO_LARGE].any():
            totals[rows.ERROR2, counts[rows.TOO_LARGE] > 0] = np.inf
        n = np.maximum(counts[rows.COUNT], 1)
        seen = counts[rows.COUNT] > 0
        return cls(counts[rows.COUNT], totals[rows.REFERENCE2] / n, totals[rows.ERROR2] / n, totals[rows.ERROR] / n,
                   extremes[rows.MAX_ERROR], counts[rows.LOW] / n, counts[rows.HIGH] / n,
                   np.where(seen, extremes[rows.MIN_REFERENCE], 0), np.where(seen, extremes[rows.MAX_REFERENCE], 0))

    def mean(self, by_channel: NDArray[Any]) -> float:
        """The mean over all elements, from means by channel."""
        total = self.count.sum()
        return float((by_channel * self.count).sum() / total) if total else 0.0

    @property
    def sqnr_db(self) -> float:
        """The reference's power over the error's; infinite if there is no error."""
        return decibels(self.mean(self.signal), self.mean(self.noise))

    def channel_sqnr_db(self) -> list[float]:
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = 10 * np.log10(self.signal / self.noise)
        decibels = np.where((self.signal > 0) & (self.noise < np.inf), ratios, NONE_DB)
        return np.where(self.noise <= 0, np.inf, decibels).tolist()

    def needed(self) -> tuple[float, float]:
        """The range that the reference takes, with 0, which quantized ranges always hold."""
        return min(0.0, float(self.lowest.min(initial=0))), max(0.0, float(self.highest.max(initial=0)))

    def ideal_noise(self, grid: Grid) -> float:
        """The mean squared error of rounding on a grid of as many levels that just spans the needed range."""
        low, high = self.needed()
        return ((high - low) / (grid.levels or IDEAL_LEVELS)) ** 2 / 12

    def range_used(self, grid: Grid) -> float:
        """The share of the range that the reference's values span; above 1 if they exceed it."""
        low, high = self.needed()
        return (high - low) / (grid.levels * grid.step) if grid.step else 0.0

    def channel_range_used(self, grid: Grid) -> list[float]:
        """The same by channel."""
        spans = np.maximum(self.highest, 0).astype(np.float64) - np.minimum(self.lowest, 0)
        return (spans / (grid.levels * grid.step)).tolist() if grid.step else []


def decibels(power: float, noise: float) -> float:
    """10 log10 of the ratio; infinite without noise, NONE_DB without power or with infinite noise."""
    if noise <= 0:
        return float("inf")
    return float(10 * np.log10(power / noise)) if power > 0 and noise < np.inf else NONE_DB
