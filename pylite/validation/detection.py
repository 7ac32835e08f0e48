"""Detected objects, and COCO's mean average precision."""
from __future__ import annotations

import contextlib
import io
from typing import TYPE_CHECKING

import numpy as np

from pylite.errors import ComparisonError
from pylite.validation.accuracy_report import Flip, Metric
from pylite.validation.tally import shares
from pylite.validation.tasks import Task

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite.validation.accuracy_report import Accuracy
    from pylite.validation.sources import Objects
    from pylite.validation.tally import Tally

    Array = NDArray[Any]

MAX_DETECTIONS = 100    # of one picture, as in COCO's metrics
MIN_OVERLAP = 0.5       # an object counts as found with at least this intersection over union,
MIN_SCORE = 0.5         # and this score
STATISTICS = {"mean_ap": 0, "ap50": 1, "ap75": 2, "ar100": 8}     # places in COCOeval.stats


class Detection(Task):
    """Results: (boxes, classes, scores), boxes as shares of the picture: top, left, bottom, right; label: Objects.

    facts: also "categories": {class: number of COCO's category}.
    """
    name, main = "detection", "mean_ap"

    def __init__(self, facts: dict[str, Any]) -> None:
        super().__init__(facts)
        self.categories = {int(c): int(number) for c, number in facts["categories"].items()}

    def add(self, tally: Tally, number: int, path: str | None, label: Objects, results: Sequence[Any]) -> None:
        truth = label.rows
        tally.rows.setdefault("truth", []).append(np.insert(truth, 0, number, axis=1))
        tally.counts["objects",] += int(np.sum(truth[:, 5] == 0))
        found = []
        for side, outputs in zip(self.sides, results, strict=True):
            rows = self._rows(outputs, label)
            tally.rows.setdefault(side, []).append(np.insert(rows, 0, number, axis=1))
            found.append(_found(truth, rows))
            tally.counts[side, "found"] += int(np.sum(found[-1]))
        scores = {side: float(np.mean(s)) if len(s) else 1.0 for side, s in zip(self.sides, found, strict=True)}
        if scores["model"] < 1:
            tally.note("worst", Flip.of_measure(number, path, scores, 1 - scores["model"]))
        if len(found) == 2:
            alone = [int(np.sum(a & ~b)) for a, b in (found, found[::-1])]
            for key, count in zip(("model_only", "reference_only"), alone, strict=True):
                tally.counts[key,] += count
                tally.counts["flipped",] += count
            if any(alone):
                tally.note("flips", Flip.of_measure(number, path, scores, scores["reference"] - scores["model"]))

    def _rows(self, outputs: Sequence[Array], label: Objects) -> Array:
        """(count, 6): left, top, width, height, category, score of the best detections of known classes."""
        boxes, classes, scores = outputs
        size = np.array([label.height, label.width] * 2, np.float64)
        order = [i for i in np.argsort(-scores, kind="stable") if int(classes[i]) in self.categories
                 and np.isfinite(scores[i]) and np.all(np.isfinite(boxes[i]))][:MAX_DETECTIONS]
        edges = boxes[order].astype(np.float64) * size
        return np.column_stack([edges[:, 1], edges[:, 0], edges[:, 3] - edges[:, 1], edges[:, 2] - edges[:, 0],
                                [self.categories[int(classes[i])] for i in order], scores[order]]).reshape(-1, 6)

    def finish(self, tally: Tally, samples: int) -> Accuracy:
        evaluated = self.each(lambda side: _evaluated(tally, side))
        metrics = {name: Metric.of([e and _known(e.stats[place]) for e in evaluated.values()])
                   for name, place in STATISTICS.items()}
        objects = tally.counts["objects",]
        if objects:
            metrics["found"] = shares(self.pair(tally, "found"), objects)
        accuracy = self.accuracy(tally, samples, metrics)
        truth = tally.sorted_rows("truth")
        for number, category in sorted(self.categories.items()):
            count = int(np.sum((truth[:, 5] == category) & (truth[:, 6] == 0)))
            if count:
                accuracy.classes.append({"class": number, "label": accuracy.name(number), "count": count,
                                         **{side: e and _precision(e, category) for side, e in evaluated.items()}})
        return accuracy


def _found(truth: Array, rows: Array) -> Array:
    """For each object that is not a crowd: is it found?  Each detection finds one object, high scores first."""
    single = truth[truth[:, 5] == 0]
    found = np.zeros(len(single), bool)
    for left, top, width, height, category, score in rows:
        if score < MIN_SCORE:
            break
        across = (np.minimum(single[:, 0] + single[:, 2], left + width) - np.maximum(single[:, 0], left)).clip(0)
        down = (np.minimum(single[:, 1] + single[:, 3], top + height) - np.maximum(single[:, 1], top)).clip(0)
        intersection = across * down
        union = single[:, 2] * single[:, 3] + width * height - intersection
        overlap = np.where((single[:, 4] == category) & ~found, intersection / np.maximum(union, 1e-300), 0)
        if overlap.max(initial=0) >= MIN_OVERLAP:
            found[np.argmax(overlap)] = True
    return found


def _evaluated(tally: Tally, side: str) -> Any:
    """pycocotools' COCOeval of one side's boxes, without the text that it prints."""
    try:
        from pycocotools.coco import COCO  # type: ignore[import-untyped,import-not-found,unused-ignore] # an extra
        from pycocotools.cocoeval import COCOeval  # type: ignore[import-untyped,import-not-found,unused-ignore]
    except ImportError:
        raise ComparisonError("mean average precision is measured by pycocotools: pip install "
                              "'pylite-runtime[validate]'") from None
    truth, rows = tally.sorted_rows("truth"), tally.sorted_rows(side)
    common = {"images": [{"id": int(i)} for i in np.unique(np.concatenate([truth[:, 0], rows[:, 0]]))],
              "categories": [{"id": int(c)} for c in np.unique(truth[:, 5])]}
    with contextlib.redirect_stdout(io.StringIO()):
        known, detected = COCO(), COCO()
        known.dataset = common | {"annotations": [
            {"id": i + 1, "image_id": int(r[0]), "bbox": r[1:5].tolist(), "category_id": int(r[5]),
             "iscrowd": int(r[6]), "area": float(r[7])} for i, r in enumerate(truth)]}
        detected.dataset = common | {"annotations": [
            {"id": i + 1, "image_id": int(r[0]), "bbox": r[1:5].tolist(), "category_id": int(r[5]), "iscrowd": 0,
             "area": float(r[3] * r[4]), "score": float(r[6])} for i, r in enumerate(rows)]}
        known.createIndex()
        detected.createIndex()
        evaluation = COCOeval(known, detected, "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return evaluation


def _known(value: float) -> float | None:
    """COCO's -1 is no number: there are no objects of the kind."""
    return None if value < 0 else float(value)


def _precision(evaluation: Any, category: int) -> float | None:
    """The average precision of one category, over all overlaps."""
    place = list(evaluation.params.catIds).index(category)
    values = evaluation.eval["precision"][:, :, place, 0, -1]
    return float(values[values > -1].mean()) if np.any(values > -1) else None
