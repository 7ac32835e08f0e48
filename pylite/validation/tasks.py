"""Counts for each sample, and the Accuracy that they give: for classes, masks and vectors of numbers."""
from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from pylite.errors import ComparisonError
from pylite.validation.accuracy_report import Accuracy, Flip, Metric
from pylite.validation.tally import mcnemar, shares

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite.validation.tally import Tally

    Array = NDArray[Any]

SIDES = ("model", "reference")
BINS = 15           # of the confidence, for the calibration
VOID = 255          # in masks: a pixel that does not count


class Task:
    """Counts samples in a Tally.  The results of a sample are a list: the model's, and the reference's if there is one.

    facts: {"labels": names of the classes, "labelled": have the samples labels? "paired": is there a reference?}
    """
    name = main = ""

    def __init__(self, facts: dict[str, Any]) -> None:
        self.facts = facts
        self.labels: list[str] = facts["labels"]
        self.sides = SIDES[:1 + facts["paired"]]

    def add(self, tally: Tally, number: int, path: str | None, label: Any, results: Sequence[Any]) -> None:
        raise NotImplementedError

    def finish(self, tally: Tally, samples: int) -> Accuracy:
        raise NotImplementedError

    def pair(self, tally: Tally, *names: Any) -> list[Any]:
        """[the model's count of this name, the reference's or None]"""
        return list(self.each(lambda side: tally.counts[(side, *names)]).values())

    def each(self, function: Callable[[str], Any]) -> dict[str, Any]:
        """{side: function(side)}, with None for the reference if there is none."""
        return {side: function(side) if side in self.sides else None for side in SIDES}

    def accuracy(self, tally: Tally, samples: int, metrics: dict[str, Metric], **more: Any) -> Accuracy:
        test = None
        if self.facts["paired"] and self.facts["labelled"]:
            test = mcnemar(tally.counts["reference_only",], tally.counts["model_only",])
        broken = [side for side in SIDES for key in tally.counts if key[0] == "not finite" and key[1] == side]
        notes = [f"some results of the {side} are no finite numbers" for side in dict.fromkeys(broken)]
        return Accuracy(self.name, samples, self.main, self.labels, metrics, mcnemar=test,
                        flipped=tally.counts["flipped",], flips=tally.worst("flips"), worst=tally.worst("worst"),
                        notes=[*self.facts["notes"], *notes], **more)

    def compared(self, tally: Tally, number: int, path: str | None, values: Sequence[float],
                 higher: bool = True) -> None:
        """Count sample `number` by its measure for each model, `values`; higher: is a larger one better?"""
        scores = dict(zip(self.sides, map(float, values), strict=True))
        sign = 1 if higher else -1
        for name in ("worst", "flips")[:len(self.sides)]:
            drop = -sign * scores["model"] if name == "worst" else sign * (scores["reference"] - scores["model"])
            if name == "worst" or drop > 0:
                tally.note(name, Flip.of_measure(number, path, scores, drop))
        if len(self.sides) == 2 and scores["model"] != scores["reference"]:
            behind = sign * (scores["reference"] - scores["model"]) > 0
            tally.counts["flipped",] += behind
            tally.counts["reference_only" if behind else "model_only",] += 1


class Classification(Task):
    """Results: (scores, probabilities) of all classes; label: the class."""
    name = "classification"

    def __init__(self, facts: dict[str, Any]) -> None:
        super().__init__(facts)
        self.main = "top1" if facts["labelled"] else "agreement"

    def add(self, tally: Tally, number: int, path: str | None, label: Any, results: Sequence[Any]) -> None:
        best, right, score = [], [], []
        for side, (scores, shown) in zip(self.sides, results, strict=True):
            known = np.where(np.isnan(scores), -np.inf, scores)
            best.append(int(np.argmax(known)))
            score.append(float(shown[best[-1]]))
            if label is not None:
                rank = int(np.sum(known > known[label]) + np.sum(known[:label] == known[label]))
                right.append(rank == 0)
                self._count(tally, side, label, best[-1], rank, score[-1])
        own = dict(zip(self.sides, score, strict=True))
        entry = (number, path, label, best[1] if len(best) > 1 else None, best[0], own)
        if right and not right[0]:
            tally.note("worst", Flip(*entry, score[0] - float(results[0][1][label])))
        if len(best) > 1 and best[0] != best[1]:
            judge = best[1] if label is None else label
            tally.counts["flipped",] += 1
            tally.note("flips", Flip(*entry, float(results[1][1][judge] - results[0][1][judge])))
            if right and right[0] != right[1]:
                tally.counts["model_only" if right[0] else "reference_only",] += 1

    def _count(self, tally: Tally, side: str, label: int, best: int, rank: int, confidence: float) -> None:
        for name, limit in (("top1", 1), ("top5", 5)):
            tally.counts[side, name] += rank < limit
        tally.counts[side, "confusion", label, best] += 1
        place = min(max(math.ceil(confidence * BINS) - 1, 0), BINS - 1) if math.isfinite(confidence) else 0
        tally.counts[side, "right", place] += rank == 0
        tally.add(confidence, side, "confidence", place)

    def finish(self, tally: Tally, samples: int) -> Accuracy:
        if not self.facts["labelled"]:
            same = samples - tally.counts["flipped",]
            metric = shares([same, None], samples)
            metric.reference = 1.0
            return self.accuracy(tally, samples, {"agreement": metric})
        metrics = {name: shares(self.pair(tally, name), samples) for name, least in (("top1", 0), ("top5", 5))
                   if self.facts["classes"] > least}
        bins = self.each(lambda side: self._bins(tally, side))
        metrics["ece"] = Metric.of([_calibration_error(rows, samples) for rows in bins.values()], better="lower")
        if len(self.sides) == 2:
            metrics["agreement"] = shares([samples - tally.counts["flipped",], None], samples)
        confusion = self.each(lambda side: confused(tally, side))
        more = by_class(confusion)
        accuracy = self.accuracy(tally, samples, metrics | more, confusion=confusion, calibration=bins)
        seen = sorted({row[0] for row in confusion["model"] or ()})
        accuracy.classes = [self._recall(accuracy, label) for label in seen]
        if not more:
            accuracy.notes.append("macro_f1 and matthews are measured by scikit-learn: pip install "
                                  "'pylite-runtime[validate]'")
        return accuracy

    def _bins(self, tally: Tally, side: str) -> list[dict[str, Any]]:
        bins = []
        for place in range(BINS):
            mean, count = tally.mean(side, "confidence", place), tally.counts["count", side, "confidence", place]
            right = tally.counts[side, "right", place] / count if count else None
            bins.append({"low": place / BINS, "high": (place + 1) / BINS, "count": count,
                         "confidence": mean and mean[0], "accuracy": right})
        return bins

    def _recall(self, accuracy: Accuracy, label: int) -> dict[str, Any]:
        entry: dict[str, Any] = {"class": label, "label": accuracy.name(label)}
        for side in SIDES:
            rows = [row for row in accuracy.confusion[side] or () if row[0] == label]
            count = sum(row[2] for row in rows)
            entry["count"] = entry.get("count") or count
            entry[side] = sum(row[2] for row in rows if row[1] == label) / count if count else None
        return entry


def _calibration_error(bins: list[dict[str, Any]] | None, samples: int) -> float | None:
    """The expected calibration error: mean distance of confidence and accuracy, by the samples in the bins."""
    return None if bins is None else math.fsum(
        b["count"] / samples * abs(b["accuracy"] - b["confidence"]) for b in bins
        if b["count"] and b["confidence"] is not None)


def confused(tally: Tally, side: str) -> list[list[int]]:
    """[label, predicted class, count] of one side."""
    return sorted([*key[2:], count] for key, count in tally.counts.items() if key[:2] == (side, "confusion") and count)


def by_class(confusion: dict[str, list[list[int]] | None]) -> dict[str, Metric]:
    """scikit-learn's metrics that weigh all classes equally; empty if scikit-learn is not installed."""
    try:
        from sklearn import metrics  # type: ignore[import-untyped,import-not-found,unused-ignore] # an extra
    except ImportError:
        return {}
    columns = [None if rows is None else np.array(rows).T for rows in confusion.values()]

    def both(function: Any, **options: Any) -> Metric:
        return Metric.of([None if c is None else float(function(c[0], c[1], sample_weight=c[2], **options))
                          for c in columns])
    return {"macro_f1": both(metrics.f1_score, average="macro", zero_division=0),
            "matthews": both(metrics.matthews_corrcoef)}


class Segmentation(Task):
    """Results: maps of classes (height, width); label: a mask of classes, of any size."""
    name, main = "segmentation", "mean_iou"

    def add(self, tally: Tally, number: int, path: str | None, label: Any, results: Sequence[Any]) -> None:
        counts = [self._counted(tally, side, label, output) for side, output in zip(self.sides, results, strict=True)]
        ious = [_mean(list(_ious(c).values())) if c else 1.0 for c in counts]
        for side, iou in zip(self.sides, ious, strict=True):
            tally.add(iou, side, "image")
        self.compared(tally, number, path, ious)

    def _counted(self, tally: Tally, side: str, mask: Array, output: Array) -> dict[tuple[int, int], int]:
        rows, columns = (((np.arange(wanted) + 0.5) * have / wanted).astype(int)
                         for wanted, have in zip(mask.shape, output.shape, strict=True))
        valid = mask != VOID
        pairs, counts = np.unique(np.stack([mask[valid], output[rows][:, columns][valid]]).astype(np.int64), axis=1,
                                  return_counts=True)
        table = {(int(a), int(b)): int(n) for (a, b), n in zip(pairs.T, counts, strict=True)}
        for pair, n in table.items():
            tally.counts[side, "confusion", *pair] += n
        return table

    def finish(self, tally: Tally, samples: int) -> Accuracy:
        confusion = self.each(lambda side: confused(tally, side))
        tables = {side: {(a, b): n for a, b, n in rows or ()} for side, rows in confusion.items()}
        ious = self.each(lambda side: _ious(tables[side]))
        pixels = self.each(lambda side: sum(n for (a, b), n in tables[side].items() if a == b)
                           / max(sum(tables[side].values()), 1))
        metrics = {"mean_iou": Metric.of(list(self.each(lambda side: _mean(list(ious[side].values()))).values())),
                   "pixel_accuracy": Metric.of(list(pixels.values())), "image_iou": means(tally, self.sides, "image")}
        accuracy = self.accuracy(tally, samples, metrics, confusion=confusion)
        counts: dict[int, int] = {}
        for (label, _), n in tables["model"].items():
            counts[label] = counts.get(label, 0) + n
        accuracy.classes = [{"class": c, "label": accuracy.name(c), "count": n, **self.each(partial(_iou_of, ious, c))}
                            for c, n in sorted(counts.items())]
        return accuracy


def _iou_of(ious: dict[str, Any], label: int, side: str) -> float | None:
    return ious[side].get(label)


def _ious(table: dict[tuple[int, int], int]) -> dict[int, float]:
    """{class: intersection over union} of the classes in the masks or in the result."""
    same: dict[int, int] = {}
    either: dict[int, int] = {}
    for (a, b), n in table.items():
        for c in {a, b}:
            either[c] = either.get(c, 0) + n
        if a == b:
            same[a] = n
    return {c: same.get(c, 0) / either[c] for c in sorted(either)}


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan


def means(tally: Tally, sides: Sequence[str], *names: str, better: str = "higher", root: bool = False) -> Metric:
    """The Metric of a number's means over samples; root: the square roots of the means."""
    pairs = [tally.mean(side, *names) if side in sides else None for side in SIDES]
    values: list[Any] = [f and f[0] for f in pairs]
    ends: list[Any] = [f and f[1] for f in pairs]
    if root:
        values = [v if v is None else math.sqrt(v) for v in values]
        ends = [e and tuple(math.sqrt(max(end, 0.0)) for end in e) for e in ends]
    return Metric.of(values, ends, "normal", better)


class Vectors(Task):
    """Regression and embeddings.  Results: numbers; label: as many, or None to use the reference's."""

    def __init__(self, facts: dict[str, Any]) -> None:
        super().__init__(facts)
        self.name = facts["task"]
        self.main = "r2" if self.name == "regression" else "cosine"
        if not facts["labelled"]:
            self.sides = SIDES[:1]

    def add(self, tally: Tally, number: int, path: str | None, label: Any, results: Sequence[Any]) -> None:
        target = np.asarray(results[1] if label is None else label, np.float64).reshape(-1)
        reals = [np.asarray(output, np.float64).reshape(-1) for output in results]
        for real in reals:
            if real.shape != target.shape:
                raise ComparisonError(f"{path or f'sample {number}'}: the label has {target.size} numbers, and the "
                                      f"output {real.size}")
        tally.add(float(np.mean(target)), "target")
        tally.add(float(np.mean(target * target)), "target squared")
        own = []
        for side, real in zip(self.sides, reals, strict=False):
            error = float(np.mean(np.abs(real - target)))
            scale = math.sqrt(float(real @ real) * float(target @ target))
            cosine = float(real @ target) / scale if scale else float(not real.any() and not target.any())
            for name, value in (("mae", error), ("mse", float(np.mean((real - target) ** 2))), ("cosine", cosine)):
                tally.add(value, side, name)
            own.append(error if self.name == "regression" else cosine)
        self.compared(tally, number, path, own, higher=self.name != "regression")

    def finish(self, tally: Tally, samples: int) -> Accuracy:
        spread = tally.variance(("sum", "target"), ("sum", "target squared"), tally.counts["count", "target"])
        error = means(tally, self.sides, "mse")
        r2 = Metric.of([None if e is None or not spread else 1 - e / spread for e in (error.model, error.reference)])
        metrics = {"r2": r2, "mae": means(tally, self.sides, "mae", better="lower"),
                   "rmse": means(tally, self.sides, "mse", better="lower", root=True),
                   "cosine": means(tally, self.sides, "cosine")}
        if not self.facts["labelled"]:
            for name, best in (("r2", 1.0), ("cosine", 1.0), ("mae", 0.0), ("rmse", 0.0)):
                metrics[name].reference = best
        if self.name == "embedding":
            metrics = {"cosine": metrics["cosine"], "rmse": metrics["rmse"]}
        return self.accuracy(tally, samples, metrics)
