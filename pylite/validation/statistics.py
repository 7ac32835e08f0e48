"""Sums over samples of the differences between a tensor and its reference, mergeable and exact.

The sums of one sample are doubles, taken in a fixed order; over samples they are added exactly.  So results do not
depend on how samples are shared among processes, or on the order in which their sums are merged, by a single bit.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pylite._core.run import statistics

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from pylite.ir.graph import Tensor

# Rows of the counts, the sums and the extremes, in the order of statistics.h.
COUNT, LOW, HIGH, TOO_LARGE = range(statistics.COUNTS)
ERROR, ERROR2, REFERENCE2 = range(statistics.SUMS)
MAX_ERROR, MAX_REFERENCE, MIN_REFERENCE = range(statistics.EXTREMES)
LIMB_BITS = 40
LOWEST_BIT = -80        # of an exact sum
FLOAT_MAX = float(np.finfo(np.float32).max)
NEUTRAL = np.array([0, -FLOAT_MAX, FLOAT_MAX], np.float32)      # of the extremes
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
        """The grid of an activation; None if validation cannot measure it: types other than 8, 16 bits and float."""
        if tensor.dtype == "float32":
            return cls("float32")
        q = tensor.quantization
        if tensor.dtype not in ("int8", "uint8", "int16") or q is None or q.scale.size != 1 or not q.scale[0] > 0:
            return None
        return cls(tensor.dtype, float(q.scale[0]), int(q.zero_point[0]) if q.zero_point.size else 0)

    def saturates(self, real: NDArray[Any]) -> bool:
        """Is more than a hundredth of these real numbers outside the range?"""
        low, high = self.lowest - self.step / 2, self.highest + self.step / 2
        if not self.step or not real.size or (real.min() >= low and real.max() <= high):
            return False
        return bool(np.mean((real < low) | (real > high)) > 0.01)

    def real(self, values: NDArray[Any]) -> NDArray[Any]:
        """The real numbers that `values` represent, float32."""
        if not self.step:
            return values
        return (values.astype(np.int32) - self.zero_point).astype(np.float32) * self.scale


class ErrorSums:
    """A tensor's errors over samples: counts, exact sums and extremes for each channel, that is, along the last axis.

    samples: number of samples added; elements: number of their elements, finite or not.  If the last axes of samples
    differ in size, the sums have one channel.
    """

    def __init__(self, channels: int) -> None:
        self.samples = self.elements = 0
        self._elements = 0      # of one sample, as the last observer() has them
        self._set_channels(channels)

    def _set_channels(self, channels: int) -> None:
        """Start over, without samples, for this number of channels."""
        self.counts = np.zeros((statistics.COUNTS, channels), np.int64)
        self.limbs = np.zeros((statistics.LIMBS, statistics.SUMS * channels), np.int64)
        self.extremes = np.repeat(NEUTRAL[:, None], channels, axis=1)

    @property
    def channels(self) -> int:
        return self.counts.shape[1]

    def observer(self, grid: Grid, values: NDArray[Any], reference: NDArray[Any]) -> statistics.Observe:
        """A kernel that adds one sample each time it runs; call counted() afterwards.

        values: the tensor's contents as stored; reference: float32 of as many elements; both contiguous.  A value
        counts as saturated if its reference is more than a step beyond the range: a probability of 1 that is stored as
        255/256 does not.
        """
        self._elements = reference.size
        limits = grid.lowest - grid.step, grid.highest + grid.step, grid.lowest, grid.highest
        return statistics.Observe(grid.dtype, values.reshape(-1).view(np.uint8), reference.reshape(-1),
                                  (grid.step, grid.zero_point), limits, self.counts, self.limbs, self.extremes)

    def add(self, grid: Grid, values: NDArray[Any], reference: NDArray[Any]) -> None:
        """Add one sample."""
        self.observer(grid, values, reference).run()
        self.counted()

    def counted(self) -> None:
        """Count the sample that the last observer() has added."""
        self.samples += 1
        self.elements += self._elements
        if self.samples % _CARRY_AFTER == 0:
            self._carry()

    def merge(self, other: ErrorSums) -> None:
        """Add the samples of `other`.  If the numbers of channels differ, both have one channel afterwards."""
        if not other.samples:
            return
        self._carry()
        other._carry()
        if self.channels != other.channels:
            if self.samples:
                self._join_channels()
                other._join_channels()
            else:
                self._set_channels(other.channels)
        self.samples += other.samples
        self.elements += other.elements
        self.counts += other.counts
        self.limbs += other.limbs
        for row, better in ((MAX_ERROR, np.maximum), (MAX_REFERENCE, np.maximum), (MIN_REFERENCE, np.minimum)):
            better(self.extremes[row], other.extremes[row], out=self.extremes[row])

    def clear(self) -> None:
        """Forget all samples."""
        self.samples = self.elements = 0
        self.counts[...] = 0
        self.limbs[...] = 0
        self.extremes[...] = NEUTRAL[:, None]

    def _join_channels(self) -> None:
        """Join all channels into one."""
        self.counts = self.counts.sum(1, keepdims=True)
        self.limbs = self.limbs.reshape(statistics.LIMBS, statistics.SUMS, -1).sum(2)
        self.extremes = np.stack([self.extremes[row].max(keepdims=True, initial=NEUTRAL[row]) if row != MIN_REFERENCE
                                  else self.extremes[row].min(keepdims=True, initial=NEUTRAL[row])
                                  for row in range(statistics.EXTREMES)])

    def _carry(self) -> None:
        """Bring every limb but the first into 0 .. 2^40 - 1; the sums stay."""
        for k in range(statistics.LIMBS - 1, 0, -1):
            self.limbs[k - 1] += self.limbs[k] >> LIMB_BITS
            self.limbs[k] &= (1 << LIMB_BITS) - 1

    def sums(self) -> NDArray[Any]:
        """The sums of errors, of their squares and of the reference's, (SUMS, channels), each rounded once."""
        self._carry()
        totals, *rest = self.limbs.tolist()
        for limbs in rest:
            totals = [(total << LIMB_BITS) + limb for total, limb in zip(totals, limbs, strict=True)]
        return np.array([_scaled(total) for total in totals]).reshape(statistics.SUMS, self.channels)

    def state(self) -> dict[str, Any]:
        """A copy of everything, as arrays and numbers, for files and other processes."""
        self._carry()
        return {"samples": self.samples, "elements": self.elements, "counts": self.counts.copy(),
                "limbs": self.limbs.copy(), "extremes": self.extremes.copy()}

    @classmethod
    def restored(cls, state: dict[str, Any]) -> ErrorSums:
        """The sums whose state() this is."""
        sums = cls(state["counts"].shape[1])
        sums.samples, sums.elements = int(state["samples"]), int(state["elements"])
        for name in ("counts", "limbs", "extremes"):
            getattr(sums, name)[...] = state[name]
        return sums


def channels_of(values: NDArray[Any]) -> int:
    """How many channels, the last axis, a tensor's sums have."""
    return values.shape[-1] if values.ndim else 1


def add_sample(group: dict[int, ErrorSums], tensor: int, grid: Grid, values: NDArray[Any],
               expected: NDArray[Any]) -> statistics.Observe:
    """Add one sample of any shape to a tensor's ErrorSums, which may be new; returns the observer that has run."""
    channels, total = channels_of(values), group.get(tensor)
    if total is None or not total.samples:
        total = group[tensor] = ErrorSums(channels)
    sums = total if total.channels == channels else ErrorSums(channels)
    observer = sums.observer(grid, np.ascontiguousarray(values), np.ascontiguousarray(expected))
    observer.run()
    sums.counted()
    if sums is not total:
        total.merge(sums)
    return observer


def _scaled(total: int) -> float:
    """total * 2**LOWEST_BIT, rounded once."""
    try:
        return total / (1 << -LOWEST_BIT)
    except OverflowError:
        return float("inf") if total > 0 else float("-inf")
