"""Counts are the same however samples are shared; intervals are scipy's, detections are judged as pycocotools does."""
import contextlib
import io
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pylite.validation.accuracy_report import Flip
from pylite.validation.detection import Detection
from pylite.validation.scoring import finish
from pylite.validation.sources import Objects
from pylite.validation.tally import KEEP, Tally, mcnemar, wilson
from pylite.validation.tasks import Classification, Segmentation, Vectors
from tests.tools import resources

CLASSES = 7


def softmax(scores):
    powers = np.exp(scores.astype(np.float64) - scores.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def test_intervals_and_tests_are_scipys():
    resources.tool("sklearn")
    from scipy import stats
    for right, count in ((0, 7), (3, 7), (7, 7), (900, 1000), (1, 50000)):
        ends = stats.binomtest(right, count).proportion_ci(method="wilson")
        assert wilson(right, count) == pytest.approx((ends.low, ends.high), abs=1e-12)
    for a, b in ((0, 0), (1, 0), (3, 9), (12, 12)):
        found = mcnemar(a, b)
        assert found["method"] == "exact binomial"
        assert found["p"] == pytest.approx(stats.binomtest(a, a + b).pvalue if a + b else 1)
    found = mcnemar(40, 20)
    assert found["method"].startswith("chi-squared") and found["statistic"] == pytest.approx(19 ** 2 / 60)
    assert found["p"] == pytest.approx(stats.chi2.sf(19 ** 2 / 60, 1))
    tally, numbers = Tally(), np.random.default_rng(0).normal(5, 3, 40)
    for number in numbers:
        tally.add(number, "x")
    mean, ends = tally.mean("x")
    assert mean == pytest.approx(numbers.mean())
    assert ends == pytest.approx(stats.norm.interval(0.95, numbers.mean(), stats.sem(numbers)))


def counted(task, samples, split):
    """The Accuracy of samples that are counted in parts, which are merged in the order of `split`."""
    parts = {}
    for number, (label, results) in enumerate(samples):
        task.add(parts.setdefault(split[number % len(split)], Tally()), number, f"{number}.png", label, results)
    total = Tally()
    for key in dict.fromkeys(split):
        if key in parts:
            total.merge(Tally.restored(parts[key].state()) if key % 2 else parts[key])
    return finish(task.facts, total, len(samples)).to_json()


def facts(task, **more):
    return {"task": task, "labels": [], "labelled": True, "paired": True, "classes": CLASSES, "notes": [], **more}


def drawn(rng, kind):
    """(a task, samples) that have been drawn."""
    if kind == "classification":
        scores = rng.normal(0, 3, (250, 2, CLASSES))
        return Classification(facts(kind)), [(int(rng.integers(CLASSES)), [(s, softmax(s[None])[0]) for s in pair])
                                             for pair in scores]
    if kind == "segmentation":
        return Segmentation(facts(kind)), [(rng.integers(0, 3, (4, 4)), list(rng.integers(0, 3, (2, 4, 4))))
                                           for _ in range(40)]
    if kind == "detection":
        return (Detection(facts(kind, categories={"0": 1, "1": 5})),
                [(objects(rng), [detections(rng), detections(rng)]) for _ in range(30)])
    return Vectors(facts(kind)), [(rng.normal(size=3), list(rng.normal(0, 10.0 ** rng.integers(-9, 9), (2, 3))))
                                  for _ in range(230)]


def objects(rng):
    count = int(rng.integers(0, 6))
    rows = np.column_stack([rng.uniform(0, 60, (count, 2)), rng.uniform(5, 40, (count, 2)), rng.choice([1, 5], count),
                            rng.random(count) < 0.1, np.zeros(count)])
    rows[:, 6] = rows[:, 2] * rows[:, 3]
    return Objects(rows, 100, 200)


def detections(rng):
    count = int(rng.integers(0, 12))
    corner = rng.uniform(0, 0.5, (count, 2))
    return (np.hstack([corner, corner + rng.uniform(0.05, 0.4, (count, 2))]), rng.integers(0, 3, count).astype(float),
            np.round(rng.uniform(0, 1, count), 1))


@pytest.mark.parametrize("kind", ["classification", "segmentation", "regression", "embedding", "detection"])
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2 ** 32 - 1), split=st.lists(st.integers(0, 6), min_size=1, max_size=9))
def test_any_split_of_the_samples_gives_the_same_accuracy(kind, seed, split):
    if kind == "detection":
        resources.tool("pycocotools")
    task, samples = drawn(np.random.default_rng(seed), kind)
    assert counted(task, samples, split) == counted(task, samples, [0])


def test_lists_do_not_grow_with_the_samples():
    tally = Tally()
    for number in range(1000):
        tally.note("worst", Flip(number, None, None, None, None, {}, float(number * 7919 % 1000)))
        assert len(tally.lists["worst"]) <= 2 * KEEP
    assert [flip.drop for flip in tally.worst("worst")] == [999.0 - i for i in range(KEEP)]


def test_mean_average_precision_is_pycocotools(tmp_path):
    """As its own documentation uses it: annotations and results in files."""
    resources.tool("pycocotools")
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval
    rng = np.random.default_rng(3)
    task, samples = drawn(rng, "detection")
    near = []
    for label, (_, other) in samples:       # half of the objects are found, about
        boxes = label.rows[:, :4] + rng.normal(0, 2, (len(label.rows), 4))
        edges = np.column_stack([boxes[:, 1], boxes[:, 0], boxes[:, 1] + boxes[:, 3], boxes[:, 0] + boxes[:, 2]])
        near.append((label, [(edges / [100, 200, 100, 200], (label.rows[:, 4] == 5).astype(float),
                              rng.uniform(0.2, 1, len(boxes))), other]))
    found = finish(task.facts, tally_of(task, near), len(near))
    annotations = [{"id": 1000 + 50 * i + k, "image_id": i, "bbox": row[:4].tolist(), "category_id": int(row[4]),
                    "iscrowd": int(row[5]), "area": row[6]} for i, (label, _) in enumerate(near)
                   for k, row in enumerate(label.rows)]
    (tmp_path / "truth.json").write_text(json.dumps({
        "images": [{"id": i} for i in range(len(near))], "annotations": annotations,
        "categories": [{"id": 1}, {"id": 5}]}))
    for side, name in enumerate(("model", "reference")):
        results = [{"image_id": i, "category_id": [1, 5][int(c)], "score": float(s),
                    "bbox": [200 * box[1], 100 * box[0], 200 * (box[3] - box[1]), 100 * (box[2] - box[0])]}
                   for i, (_, pair) in enumerate(near) for box, c, s in zip(*pair[side], strict=True) if c < 2]
        (tmp_path / "results.json").write_text(json.dumps(results))
        with contextlib.redirect_stdout(io.StringIO()):
            truth = COCO(str(tmp_path / "truth.json"))
            evaluation = COCOeval(truth, truth.loadRes(str(tmp_path / "results.json")), "bbox")
            evaluation.evaluate()
            evaluation.accumulate()
            evaluation.summarize()
        for metric, place in (("mean_ap", 0), ("ap50", 1), ("ap75", 2), ("ar100", 8)):
            assert getattr(found.metrics[metric], name) == pytest.approx(evaluation.stats[place], abs=1e-9), metric
    assert found.metrics["mean_ap"].model > found.metrics["mean_ap"].reference + 0.2
    single = [row for label, _ in near for row in label.rows if not row[5]]
    assert found.metrics["found"].model == pytest.approx(sum(
        hits(label.rows, *pair[0]) for label, pair in near) / len(single))
    assert sum(entry["count"] for entry in found.classes) == len(single)


def tally_of(task, samples):
    tally = Tally()
    for number, (label, results) in enumerate(samples):
        task.add(tally, number, None, label, results)
    return tally


def hits(rows, boxes, classes, scores):
    """How many objects have a detection of their own, plainly."""
    left = [row for row in rows if not row[5]]
    count = len(left)
    for i in np.argsort(-scores, kind="stable"):
        if scores[i] < 0.5 or classes[i] > 1:
            continue
        t, l, b, r = boxes[i] * [100, 200, 100, 200]

        def overlap(row, box=(t, l, b, r)):
            t, l, b, r = box
            wide = max(0, min(r, row[0] + row[2]) - max(l, row[0]))
            high = max(0, min(b, row[1] + row[3]) - max(t, row[1]))
            return wide * high / ((b - t) * (r - l) + row[2] * row[3] - wide * high)
        same = [row for row in left if row[4] == [1, 5][int(classes[i])]]
        best = max(same, key=overlap, default=None)
        if best is not None and overlap(best) >= 0.5:
            left = [row for row in left if row is not best]
    return count - len(left)
