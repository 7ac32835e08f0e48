"""Histograms of a tensor, of its reference and of the error, mergeable and exact: they do not depend on the order.

The range is not known beforehand.  So bins have a power of two times a unit as their width, lie around 0, and pairs of
them become one when a value is beyond: the counts are those that the final width would have given from the start.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pylite._core.run import statistics
from pylite._core.run.statistics import BINS

if TYPE_CHECKING:
    from typing import Any

    from pylite.validation.statistics import Grid

KINDS = ("values", "reference", "error")
FINEST = -150           # exponent of the narrowest bins of real numbers, below float32's least number
ERROR_FINEST = -6       # of errors in steps: 1/64 step


class Histograms:
    """Three histograms of a tensor, in the order of KINDS.

    counts: int64 (3, BINS); exponents: int32 (3,): a bin of histogram k is 2**exponents[k] units wide.  The unit is
    the step of a quantized tensor, whose levels are in the middle of bins of one step; otherwise it is 1.
    """

    def __init__(self, grid: Grid) -> None:
        self.step = grid.step
        self.counts = np.zeros((len(KINDS), BINS), np.int64)
        self.exponents = np.zeros(len(KINDS), np.int32)
        self.clear()

    def counter(self, observer: statistics.Observe) -> statistics.Count:
        """A kernel that counts the sample that `observer`, of ErrorSums, adds; it skips numbers that are not finite.
        """
        return statistics.Count(observer, 1 / (self.step or 1.0), self._offset(0), self.counts, self.exponents)

    def _offset(self, kind: int) -> float:
        """The number, in units, that is added to a value to find its bin."""
        return 0.5 if self.step and kind < 2 else 0.0

    def clear(self) -> None:
        """Forget all samples."""
        self.counts[...] = 0
        self.exponents[...] = [0, 0, ERROR_FINEST] if self.step else FINEST

    def _widen(self, kind: int, exponent: int) -> None:
        """Join pairs of bins until their width is at least 2**exponent units."""
        while self.exponents[kind] < exponent:
            if not self.counts[kind].any():
                self.exponents[kind] = exponent
                return
            pairs = self.counts[kind].reshape(-1, 2).sum(1)
            self.counts[kind] = 0
            self.counts[kind, BINS // 4:-BINS // 4] = pairs
            self.exponents[kind] += 1

    def merge(self, other: Histograms) -> None:
        """Add the samples of `other`, which are of the same tensor."""
        for kind, exponent in enumerate(other.exponents.tolist()):
            self._widen(kind, exponent)
            other._widen(kind, int(self.exponents[kind]))
            self.counts[kind] += other.counts[kind]

    def state(self) -> dict[str, Any]:
        """Everything, as arrays and numbers, for files and other processes."""
        return {"counts": self.counts.copy(), "exponents": self.exponents.copy(), "step": self.step}

    @classmethod
    def restored(cls, state: dict[str, Any]) -> Histograms:
        """The histograms whose state() this is."""
        histograms = cls.__new__(cls)
        histograms.step, histograms.counts = float(state["step"]), state["counts"].astype(np.int64)
        histograms.exponents = state["exponents"].astype(np.int32)
        return histograms

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """{kind: {"start": of the first bin, "width": of all, "counts": without zeros at the ends}}

        Real numbers for values and reference; steps for the error of a tensor that has them.
        """
        by_kind = {}
        for kind, name in enumerate(KINDS):
            filled = np.flatnonzero(self.counts[kind])
            first, end = (int(filled[0]), int(filled[-1]) + 1) if filled.size else (0, 0)
            unit = self.step if self.step and kind < 2 else 1.0
            width = 2.0 ** int(self.exponents[kind])
            by_kind[name] = {"start": ((first - BINS // 2) * width - self._offset(kind)) * unit, "width": width * unit,
                             "counts": self.counts[kind, first:end].tolist()}
        return by_kind
