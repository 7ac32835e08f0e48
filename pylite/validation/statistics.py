"""Sums over samples of the differences between a tensor and its reference, mergeable and exact.

The sums of one sample are doubles, taken in a fixed order; over samples they are added exactly.  So results do not
depend on how samples are shared among processes, or on the order in which their sums are merged, by a single bit.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pylite._core import statistics

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from pylite.ir.graph import Tensor

# Rows of the sums and of the extremes, in the order of statistics.h.
COUNT, ERROR, ERROR2, REFERENCE2, LOW, HIGH = range(statistics.SUMS)
MAX_ERROR, MAX_REFERENCE, MIN_REFERENCE = range(statistics.EXTREMES)
LIMB_BITS = 40
LOWEST_BIT = -80        # of an exact sum
FLOAT_MAX = float(np.finfo(np.float32).max)
NEUTRAL = np.array([0, -FLOAT_MAX, FLOAT_MAX], np.float32)      # of the extremes
_WIDTH = 32             # channels that are enough for vectors
_CARRY_AFTER = 1 << 20  # samples: long before a limb overflows


class Grid:
    """The values that a tensor can represent: real = scale * (q - zero_point), q of an integer type.

    step: 0 for a tensor of real numbers; lowest, highest: the ends of the range, as real numbers.
    """

    def __init__(self, dtype: str, scale: float = 0.0, zero_point: int = 0) -> None:
        self.dtype, self.scale, self.zero_point = dtype, np.float32(scale), int(zero_point)
        self.step = float(self.scale)
        self.levels = 0
        self.lowest, self.highest = -np.inf, np.inf
        if self.step:
            limits = np.iinfo(dtype)
            self.levels = int(limits.max) - int(limits.min)
            self.lowest, self.highest = (
                float(np.float32(int(end) - self.zero_point) * self.scale) for end in (limits.min, limits.max))

    @classmethod
    def of(cls, tensor: Tensor) -> Grid | None:
        """The grid of an activation; None where validation cannot measure it: types other than 8, 16 bits and float."""
        if tensor.dtype == "float32":
            return cls("float32")
        q = tensor.quantization
        if tensor.dtype not in ("int8", "uint8", "int16") or q is None or q.scale.size != 1 or not q.scale[0] > 0:
            return None
        return cls(tensor.dtype, float(q.scale[0]), int(q.zero_point[0]) if q.zero_point.size else 0)

    def real(self, values: NDArray[Any]) -> NDArray[Any]:
        """The real numbers that `values` represent, float32."""
        if not self.step:
            return values
        return (values.astype(np.int32) - self.zero_point).astype(np.float32) * self.scale


class ErrorSums:
    """What is known of a tensor's errors: exact sums and extremes for each channel, the last axis."""

    def __init__(self, channels: int) -> None:
        self.samples = 0
        self.limbs = np.zeros((statistics.LIMBS, statistics.SUMS * channels), np.int64)
        self.extremes = np.repeat(NEUTRAL[:, None], channels, axis=1)
        self.overflow = False

    @property
    def channels(self) -> int:
        return self.extremes.shape[1]

    def add(self, grid: Grid, values: NDArray[Any], reference: NDArray[Any]) -> None:
        """Add one sample: the tensor's contents as it stores them, and the reference, float32 of as many elements."""
        half = grid.step / 2
        together = self._rows_together(values.size)
        partial = np.zeros((statistics.SUMS, together * self.channels))
        extremes = np.tile(self.extremes, together)
        statistics.observe(values.reshape(-1), reference.reshape(-1), grid.step, grid.zero_point, grid.lowest - half,
                           grid.highest + half, grid.lowest, grid.highest, partial, extremes)
        if together > 1:
            partial = partial.reshape(statistics.SUMS, together, self.channels).sum(1)
        for row in extremes.reshape(statistics.EXTREMES, together, self.channels).swapaxes(0, 1):
            self._widen(row)
        self.overflow |= not statistics.add_exactly(partial.reshape(-1), self.limbs)
        self.samples += 1
        if self.samples % _CARRY_AFTER == 0:
            self._carry()

    def merge(self, other: ErrorSums) -> None:
        """Add the samples of `other`, which are other ones than this one's."""
        self._carry()
        other._carry()
        self.limbs += other.limbs
        self._widen(other.extremes)
        self.samples += other.samples
        self.overflow |= other.overflow

    def _rows_together(self, size: int) -> int:
        """How many rows of few channels are taken for one of many, which is summed faster."""
        rows = size // self.channels if self.channels else 0
        return next((k for k in range(min(_WIDTH // max(self.channels, 1), rows), 1, -1) if rows % k == 0), 1)

    def _widen(self, extremes: NDArray[Any]) -> None:
        for row, better in ((MAX_ERROR, np.maximum), (MAX_REFERENCE, np.maximum), (MIN_REFERENCE, np.minimum)):
            better(self.extremes[row], extremes[row], out=self.extremes[row])

    def _carry(self) -> None:
        """Bring every limb but the first into 0 .. 2^40 - 1; the sums stay."""
        for k in range(statistics.LIMBS - 1, 0, -1):
            self.limbs[k - 1] += self.limbs[k] >> LIMB_BITS
            self.limbs[k] &= (1 << LIMB_BITS) - 1

    def sums(self) -> NDArray[Any]:
        """The sums, (SUMS, channels), each rounded once."""
        self._carry()
        weights = [1 << (LIMB_BITS * k) for k in reversed(range(statistics.LIMBS))]
        totals = [sum(int(limb) * weight for limb, weight in zip(column, weights, strict=True))
                  for column in self.limbs.T.tolist()]
        exact = [_scaled(total) for total in totals]
        return np.array(exact).reshape(statistics.SUMS, self.channels)

    def state(self) -> dict[str, Any]:
        """Everything, as arrays and numbers, for files and other processes."""
        self._carry()
        return {"samples": self.samples, "limbs": self.limbs, "extremes": self.extremes, "overflow": self.overflow}

    @classmethod
    def restored(cls, state: dict[str, Any]) -> ErrorSums:
        """The sums whose state() this is."""
        sums = cls(state["extremes"].shape[1])
        sums.samples, sums.overflow = int(state["samples"]), bool(state["overflow"])
        sums.limbs, sums.extremes = state["limbs"].astype(np.int64), state["extremes"].astype(np.float32)
        return sums


def _scaled(total: int) -> float:
    """total * 2**LOWEST_BIT, rounded once."""
    try:
        return total / (1 << -LOWEST_BIT)
    except OverflowError:
        return float("inf") if total > 0 else float("-inf")
