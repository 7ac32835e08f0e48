"""Histograms of a tensor, of its reference and of the error, mergeable and exact: they do not depend on the order.

The range is not known beforehand.  So bins have a power of two times a unit as their width, lie around 0, and pairs of
them become one when a value is beyond: the counts are those that the final width would have given from the start.
"""
from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from pylite._core.statistics import BINS, count

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from pylite.validation.statistics import Grid

KINDS = ("values", "reference", "error")
FINEST = -150           # exponent of the narrowest bins of real numbers, below float32's least number
ERROR_FINEST = -6       # of errors in steps: 1/64 step


class Histograms:
    """The counts of three histograms, (3, BINS) in the order of KINDS, and the exponents of their bins' widths.

    A tensor with a step: the unit is the step, and bins of one step have its levels in their middle.  Others: 1.
    """

    def __init__(self, grid: Grid) -> None:
        self.step = grid.step
        self.counts = np.zeros((len(KINDS), BINS), np.int64)
        self.exponents = [0, 0, ERROR_FINEST] if self.step else [FINEST] * len(KINDS)

    def add(self, grid: Grid, values: NDArray[Any], reference: NDArray[Any]) -> None:
        """Add one sample: the tensor's contents as it stores them, and the reference, float32 of as many elements."""
        real, expected = grid.real(values).reshape(-1), reference.reshape(-1)
        with np.errstate(invalid="ignore"):     # of numbers that are not finite, which do not count
            self._count(0, real)
            self._count(1, expected)
            self._count(2, real - expected)

    def _offset(self, kind: int) -> float:
        """What is added to a value in units before its bin is taken."""
        return 0.5 if self.step and kind < 2 else 0.0

    def _count(self, kind: int, values: NDArray[Any]) -> None:
        inverse, offset = 1 / (self.step or 1.0), self._offset(kind)
        reach = max(float(values.max(initial=0)), -float(values.min(initial=0)))
        if not math.isfinite(reach):
            reach = float(np.abs(values[np.isfinite(values)]).max(initial=0))
        needed = math.frexp(reach * inverse + offset)[1] - BINS.bit_length() + 2 if reach else FINEST
        self._widen(kind, needed)
        count(values, inverse, offset, 2.0 ** -self.exponents[kind], self.counts[kind])

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
        """Add the samples of `other`, which are other ones than this one's, of the same tensor."""
        for kind, exponent in enumerate(other.exponents):
            self._widen(kind, exponent)
            other._widen(kind, self.exponents[kind])
            self.counts[kind] += other.counts[kind]

    def state(self) -> dict[str, Any]:
        """Everything, as arrays and numbers, for files and other processes."""
        return {"counts": self.counts, "exponents": np.array(self.exponents), "step": self.step}

    @classmethod
    def restored(cls, state: dict[str, Any]) -> Histograms:
        """The histograms whose state() this is."""
        found = cls.__new__(cls)
        found.step, found.counts = float(state["step"]), state["counts"].astype(np.int64)
        found.exponents = [int(e) for e in state["exponents"]]
        return found

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """{kind: {"start": of the first bin, "width": of all, "counts": without zeros at the ends}}

        Real numbers for values and reference; steps for the error of a tensor that has them.
        """
        found = {}
        for kind, name in enumerate(KINDS):
            filled = np.flatnonzero(self.counts[kind])
            first, end = (int(filled[0]), int(filled[-1]) + 1) if filled.size else (0, 0)
            unit = self.step if self.step and kind < 2 else 1.0
            width = 2.0 ** self.exponents[kind]
            found[name] = {"start": ((first - BINS // 2) * width - self._offset(kind)) * unit, "width": width * unit,
                           "counts": self.counts[kind, first:end].tolist()}
        return found
