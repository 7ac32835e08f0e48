"""Every op at the extremes of its operands' types: one-op models of tests/tools/op_models.py, and what they are given.

The inputs of the first input's type take extremes; the others (indices, shapes, axes) choose, and stay in range.
"""
import zlib

import numpy as np

from pylite.numerics.quantization import LIMITS
from tests.ops import grid

RUNS = 14                   # as many as there are extremes of a float: each meets each


def extremes(dtype):
    """The extreme values of a data type, as an array."""
    if dtype.kind == "f":
        info = np.finfo(dtype)
        ends = [info.max, info.tiny, info.smallest_subnormal]
        values = np.array([np.nan, np.nan, np.inf, -np.inf, 0, -0.0, 1, -1, *ends, *(-end for end in ends)], dtype)
        values[:1].view(f"u{dtype.itemsize}")[...] |= 0x5A      # a NaN whose other bits are not 0
        return values
    if dtype.name not in LIMITS:
        return np.array([0, 1], dtype)
    low, high = LIMITS[dtype.name]
    return np.array(sorted({low, low + 1, max(low, -1), 0, 1, high - 1, high}), dtype)


class Case(grid.Case):
    """A one-op model whose operands are extremes."""

    def inputs(self, details):
        """RUNS lists of inputs: over all of them, each extreme of the first meets each of the second."""
        rng = np.random.default_rng(zlib.crc32(str(self).encode()))
        return [[self._values(rng, detail, position, run, details[0]["dtype"])
                 for position, detail in enumerate(details)] for run in range(RUNS)]

    @staticmethod
    def _values(rng, detail, position, run, computed):
        dtype, shape = np.dtype(detail["dtype"]), tuple(detail["shape"])
        if dtype != computed or dtype.kind not in "iuf":
            return grid.values(rng, detail, 0)
        values = np.roll(extremes(dtype), run * position + (run // 2 if position else run * 5))
        return np.resize(values, int(np.prod(shape))).reshape(shape)


def cases():
    """All Cases; models without a scale need one base."""
    return [Case(number, choice, base) for number, choice, operands in grid.accepted()
            for base in (grid.BASES if operands else grid.BASES[:1])]
