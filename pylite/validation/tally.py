"""Counts over samples: exact, so that it does not matter who has counted which samples, and of bounded size."""
from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np

from pylite.validation.accuracy_report import Flip, Metric

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from numpy.typing import NDArray

KEEP = 100          # of the samples that differ most, and of the worst
UNIT_BITS = 80      # sums of real numbers are integers in units of 2**-80
Z = 1.959963984540054       # of the normal distribution: 95 % lie within


class Tally:
    """counts: {(name, ...): integer}; flips, worst: the KEEP with the largest drop; rows: {name: arrays of numbers};
    arrays: {name without spaces: {sample: array}}."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[Any, ...]] = Counter()
        self.lists: dict[str, list[Flip]] = {"flips": [], "worst": []}
        self.rows: dict[str, list[NDArray[np.float64]]] = {}
        self.arrays: dict[str, dict[int, NDArray[Any]]] = {}

    def add(self, value: float, *key: Any) -> None:
        """Add a real number to the exact sums of it and of its square; NaN and infinities are counted apart."""
        if not math.isfinite(value) or abs(value) > 1e100:
            self.counts["not finite", *key] += 1
            return
        for power, name in ((value, "sum"), (value * value, "squares")):
            self.counts[name, *key] += int(math.ldexp(power, UNIT_BITS))
        self.counts["count", *key] += 1

    def note(self, name: str, flip: Flip) -> None:
        """Enter a sample in a list, which keeps the worst."""
        self.lists[name].append(flip)
        if len(self.lists[name]) > 2 * KEEP:
            self._cut(name)

    def _cut(self, name: str) -> list[Flip]:
        self.lists[name] = sorted(self.lists[name], key=lambda flip: (-flip.drop, flip.sample))[:KEEP]
        return self.lists[name]

    def merge(self, other: Tally) -> None:
        """Add the counts of other samples."""
        for key, count in other.counts.items():
            self.counts[key] += count
        for name, flips in other.lists.items():
            self.lists[name] += flips
            self._cut(name)
        for name, arrays in other.rows.items():
            self.rows.setdefault(name, []).extend(arrays)
        for name, by_sample in other.arrays.items():
            self.arrays.setdefault(name, {}).update(by_sample)

    def keep(self, name: str, sample: int, array: NDArray[Any]) -> None:
        """Keep an array of a sample as it is; the Tally grows with the samples."""
        self.arrays.setdefault(name, {})[sample] = array

    def kept(self, name: str) -> list[NDArray[Any]]:
        """The arrays of this name, in the order of the samples."""
        return [array for _, array in sorted(self.arrays[name].items(), key=lambda item: item[0])]

    def worst(self, name: str) -> list[Flip]:
        return self._cut(name)

    def sorted_rows(self, name: str) -> NDArray[np.float64]:
        """All rows of this name in the order of their first column, the sample."""
        rows = np.concatenate(self.rows[name])
        return rows[np.argsort(rows[:, 0], kind="stable")]

    def state(self) -> dict[str, Any]:
        """Everything, as arrays, for files."""
        text = json.dumps([[[*key, count] for key, count in self.counts.items()],
                           {name: [asdict(flip) for flip in self._cut(name)] for name in self.lists}])
        arrays = {f"array:{name}:{sample}": array for name, by_sample in self.arrays.items()
                  for sample, array in by_sample.items()}
        return {"tally": np.array(text)} | {f"rows:{name}": self.sorted_rows(name) for name in self.rows} | arrays

    @classmethod
    def restored(cls, state: dict[str, Any]) -> Tally:
        """The Tally whose state() this is."""
        tally = cls()
        counts, lists = json.loads(str(state["tally"]))
        tally.counts.update({tuple(key): count for *key, count in counts})
        tally.lists = {name: [Flip(**entry) for entry in entries] for name, entries in lists.items()}
        for name, value in state.items():
            kind, _, rest = name.partition(":")
            if kind == "rows":
                tally.rows[rest] = [value]
            elif kind == "array":
                what, _, sample = rest.rpartition(":")
                tally.keep(what, int(sample), value)
        return tally

    def mean(self, *key: Any) -> tuple[float, tuple[float, float]] | None:
        """(mean of the numbers added, its interval of 95 % by the normal distribution), or None without any."""
        count = self.counts["count", *key]
        if not count or self.counts["not finite", *key]:
            return None
        mean = self.counts["sum", *key] / (count << UNIT_BITS)
        half = Z * math.sqrt(self.variance(("sum", *key), ("squares", *key), count) / max(count - 1, 1))
        return mean, (mean - half, mean + half)

    def variance(self, total: tuple[Any, ...], squares: tuple[Any, ...], count: int) -> float:
        """Mean square less the squared mean of `count` numbers, by the keys of the two sums."""
        sum_, exact = self.counts[total], count * (self.counts[squares] << UNIT_BITS)
        return max(exact - sum_ * sum_, 0) / (max(count * count, 1) << 2 * UNIT_BITS)


def wilson(right: int, count: int) -> tuple[float, float]:
    """Wilson's score interval of 95 % for a share of which `right` of `count` have been seen."""
    share, spread = right / count, Z * Z / count
    centre, half = share + spread / 2, Z * math.sqrt(share * (1 - share) / count + spread / (4 * count))
    return (max(0.0, (centre - half) / (1 + spread)) if right else 0.0,
            min(1.0, (centre + half) / (1 + spread)) if right < count else 1.0)


def shares(right: Sequence[int | None], count: int) -> Metric:
    """The Metric of the shares of `count` that the model and the reference get right.

    right: their numbers, None for an absent reference.
    """
    values = [None if r is None else r / count for r in right]
    ends = [None if r is None else wilson(r, count) for r in right]
    return Metric.of(values, ends, "Wilson")


def mcnemar(reference_only: int, model_only: int) -> dict[str, Any]:
    """McNemar's test of the samples that only one of the two gets right: exact for fewer than 25."""
    count = reference_only + model_only
    counts = {"reference_only": reference_only, "model_only": model_only}
    if count < 25:
        tail = sum(math.comb(count, k) for k in range(min(reference_only, model_only) + 1))
        return {**counts, "statistic": None, "p": min(1.0, 2 * tail / 2 ** count), "method": "exact binomial"}
    statistic = max(abs(reference_only - model_only) - 1, 0) ** 2 / count
    return {**counts, "statistic": statistic, "p": math.erfc(math.sqrt(statistic / 2)),
            "method": "chi-squared with continuity correction"}
