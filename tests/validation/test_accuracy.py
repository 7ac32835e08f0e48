"""Accuracy on a data set equals plain statements in numpy, scikit-learn, scipy and pycocotools."""
import contextlib
import io
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pylite import cli, validation
from pylite.errors import ComparisonError
from pylite.media import models
from pylite.schema.builder import ModelBuilder
from pylite.validation.accuracy_report import Flip
from pylite.validation.detection import Detection
from pylite.validation.scoring import finish
from pylite.validation.sources import Objects
from pylite.validation.tally import KEEP, Tally, mcnemar, wilson
from pylite.validation.tasks import Classification, Segmentation, Vectors
from tests import resources, small_models
from tests.test_docs import ROOT

CLASSES = 7


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Models that give what they are given: as floats, and in few steps of int8."""
    folder = tmp_path_factory.mktemp("accuracy")
    for name, shape in (("scores", (1, CLASSES)), ("numbers", (1, 3)), ("pixels", (1, 6, 5, 4)), ("one", (1, 1))):
        (folder / f"{name}.tflite").write_bytes(small_models.reshape(shape=shape, to=shape))
        (folder / f"{name}_int8.tflite").write_bytes(small_models.reshape(
            "int8", shape=shape, to=shape, scale=0.7, zero_point=3))
    rng = np.random.default_rng(1)
    np.savez(folder / "scores.npz", rng.normal(0, 2, (300, CLASSES)), labels=rng.integers(0, CLASSES, 300))
    np.savez(folder / "numbers.npz", rng.normal(0, 2, (50, 3)), labels=rng.normal(0, 2, (50, 3)))
    masks = rng.integers(0, 4, (20, 12, 11))
    masks[rng.random(masks.shape) < 0.1] = 255
    np.savez(folder / "pixels.npz", rng.normal(0, 2, (20, 6, 5, 4)), labels=masks)
    np.savez(folder / "one.npz", rng.normal(0, 2, (90, 1)), labels=rng.integers(0, 2, 90))
    return folder


def measured(place, name, **options):
    """(the Accuracy of both models, the data, the labels, what the int8 model gives)"""
    found = validation.accuracy(place / f"{name}_int8.tflite", place / f"{name}.npz", place / f"{name}.tflite",
                                **options)
    with np.load(place / f"{name}.npz") as archive:
        data, labels = archive["arr_0"].astype(np.float32), archive["labels"]
    steps = np.trunc(data / np.float32(0.7) + np.copysign(np.float32(0.5), data)) + 3
    return found, data, labels, (steps.clip(-128, 127) - 3).astype(np.float32) * np.float32(0.7)


def softmax(scores):
    powers = np.exp(scores.astype(np.float64) - scores.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def test_classification(place):
    resources.tool("sklearn")
    from sklearn import metrics
    found, data, labels, rough = measured(place, "scores")
    assert found.task == "classification" and found.main == "top1" and found.samples == 300
    chosen = {}
    for side, scores in (("model", rough), ("reference", data)):
        order = np.argsort(-scores, 1, kind="stable")
        chosen[side] = order[:, 0]
        shown = softmax(scores).max(1)
        for name, value in (("top1", metrics.accuracy_score(labels, order[:, 0])),
                            ("top5", np.mean([label in row[:5] for label, row in zip(labels, order, strict=True)])),
                            ("macro_f1", metrics.f1_score(labels, order[:, 0], average="macro")),
                            ("matthews", metrics.matthews_corrcoef(labels, order[:, 0]))):
            assert getattr(found.metrics[name], side) == pytest.approx(value, abs=1e-12), name
        table = np.zeros((CLASSES, CLASSES), int)
        for label, predicted, count in found.confusion[side]:
            table[label, predicted] = count
        assert np.array_equal(table, metrics.confusion_matrix(labels, order[:, 0], labels=range(CLASSES)))
        error = 0
        for number, entry in enumerate(found.calibration[side]):
            inside = (shown > number / 15) & (shown <= (number + 1) / 15)
            assert entry["count"] == inside.sum()
            if inside.any():
                right = (order[inside, 0] == labels[inside]).mean()
                assert entry["accuracy"] == pytest.approx(right)
                assert entry["confidence"] == pytest.approx(shown[inside].mean(), abs=1e-12)
                error += inside.mean() * abs(right - shown[inside].mean())
        assert getattr(found.metrics["ece"], side) == pytest.approx(error, abs=1e-12)
        recall = metrics.recall_score(labels, order[:, 0], average=None)
        assert [entry[side] for entry in found.classes] == pytest.approx(recall.tolist())
    differ = chosen["model"] != chosen["reference"]
    assert found.flipped == differ.sum() == len(found.flips) > 0
    assert found.metrics["agreement"].model == pytest.approx(1 - differ.mean())
    right = {side: chosen[side] == labels for side in chosen}
    assert found.mcnemar["reference_only"] == (right["reference"] & ~right["model"]).sum()
    assert found.mcnemar["model_only"] == (right["model"] & ~right["reference"]).sum()
    assert found.drop == pytest.approx(100 * (right["reference"].mean() - right["model"].mean()))
    fall = softmax(data)[range(300), labels] - softmax(rough)[range(300), labels]
    worst = sorted(np.flatnonzero(differ), key=lambda i: (-fall[i], i))
    assert [flip.sample for flip in found.flips] == worst
    first = found.flips[0]
    assert (first.label, first.model, first.reference) == (
        labels[worst[0]], chosen["model"][worst[0]], chosen["reference"][worst[0]])
    assert len(found.worst) == min((~right["model"]).sum(), KEEP)


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


def test_segmentation(place):
    resources.tool("sklearn")
    from sklearn import metrics
    found, data, masks, rough = measured(place, "pixels")
    assert found.task == "segmentation" and found.main == "mean_iou"
    for side, scores in (("model", rough), ("reference", data)):
        rows, columns = np.arange(12) * 6 // 12, ((np.arange(11) + 0.5) * 5 / 11).astype(int)
        shown = scores.argmax(3)[:, rows][:, :, columns]
        valid = masks != 255
        assert getattr(found.metrics["mean_iou"], side) == pytest.approx(
            metrics.jaccard_score(masks[valid], shown[valid], average="macro"))
        assert getattr(found.metrics["pixel_accuracy"], side) == pytest.approx((masks == shown)[valid].mean())
        each = metrics.jaccard_score(masks[valid], shown[valid], average=None)
        assert [entry[side] for entry in found.classes] == pytest.approx(each.tolist())
        image = [metrics.jaccard_score(m[m != 255], s[m != 255], average="macro")
                 for m, s in zip(masks, shown, strict=True)]
        assert getattr(found.metrics["image_iou"], side) == pytest.approx(np.mean(image))
        if side == "model":
            assert [flip.sample for flip in found.worst] == sorted(range(20), key=lambda i: (image[i], i))


@pytest.mark.parametrize("task", ["regression", "embedding"])
def test_numbers(place, task):
    resources.tool("sklearn")
    from sklearn import metrics
    found, data, labels, rough = measured(place, "numbers", task=task)
    for side, shown in (("model", rough), ("reference", data)):
        cosine = [metrics.pairwise.cosine_similarity([a], [b])[0, 0] for a, b in zip(shown, labels, strict=True)]
        plain = {"r2": metrics.r2_score(labels.ravel(), shown.ravel()), "cosine": np.mean(cosine),
                 "mae": metrics.mean_absolute_error(labels, shown),
                 "rmse": metrics.mean_squared_error(labels, shown) ** 0.5}
        for name, metric in found.metrics.items():
            assert getattr(metric, side) == pytest.approx(plain[name], rel=1e-5), name
    assert found.main == {"regression": "r2", "embedding": "cosine"}[task] == next(iter(found.metrics))
    error = np.abs(rough - labels).mean(1) if task == "regression" else -np.array(
        [metrics.pairwise.cosine_similarity([a], [b])[0, 0] for a, b in zip(rough, labels, strict=True)])
    assert [flip.sample for flip in found.worst[:5]] == np.argsort(-error, kind="stable")[:5].tolist()
    assert found.metrics["rmse"].interval[0] < found.metrics["rmse"].model < found.metrics["rmse"].interval[1]


def test_without_labels_the_reference_is_the_measure(place):
    data = np.random.default_rng(4).normal(0, 2, (30, 3))
    np.savez(place / "bare.npz", data)
    found = validation.accuracy(place / "numbers_int8.tflite", place / "bare.npz", place / "numbers.tflite",
                                task="embedding")
    assert 0.9 < found.metrics["cosine"].model < 1 == found.metrics["cosine"].reference
    assert found.drop == pytest.approx(100 * (1 - found.metrics["cosine"].model)) and found.mcnemar is None
    found = validation.accuracy(place / "numbers_int8.tflite", place / "bare.npz", place / "numbers.tflite",
                                task="classification")
    assert list(found.metrics) == ["agreement"] and found.flipped == round(30 * (1 - found.metrics["agreement"].model))
    with pytest.raises(ComparisonError, match="leave the task open"):
        validation.accuracy(place / "numbers_int8.tflite", place / "bare.npz", place / "numbers.tflite")
    with pytest.raises(ComparisonError, match="has no labels for classification"):
        validation.accuracy(place / "numbers.tflite", place / "bare.npz", task="classification")


def test_one_score_makes_two_classes(place):
    with pytest.raises(ComparisonError, match=r"label such as .* leave the task open; give --task"):
        measured(place, "one")
    found, data, labels, _ = measured(place, "one", task="classification")
    assert found.metrics["top1"].reference == pytest.approx(((data[:, 0] > 0) == labels).mean())
    assert "top5" not in found.metrics
    shown = 1 / (1 + np.exp(-data[:, 0].astype(np.float64)))
    mean = sum(entry["confidence"] * entry["count"] for entry in found.calibration["reference"] if entry["count"])
    assert mean == pytest.approx(np.maximum(shown, 1 - shown).sum())


def test_results_that_are_no_numbers(place):
    data = np.ones((4, 3), np.float32)
    data[2] = np.nan
    np.savez(place / "nan.npz", data, labels=np.zeros((4, 3)))
    found = validation.accuracy(place / "numbers.tflite", place / "nan.npz", task="regression")
    assert found.metrics["mae"].model is None and "no finite numbers" in found.notes[0]
    json.loads(found.to_json())


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


def test_workers_shards_and_files_give_the_same(place, capsys, tmp_path):
    common = ["validate", str(place / "scores_int8.tflite"), "--reference", str(place / "scores.tflite")]
    data = ["--data", str(place / "scores.npz"), "--accuracy", "--json"]

    def run(*arguments):
        assert cli.main([*common, *map(str, arguments)]) == 0
        return capsys.readouterr().out
    plain = run(*data)
    found = json.loads(plain)
    assert found["samples"] == 300 and found["tensors"] and found["accuracy"]["samples"] == 300
    assert run(*data, "--workers", 2) == plain
    for i in (1, 2, 3):
        run(*data, "--shard", f"{i}/3", "--save", tmp_path / f"{i}.npz")
    files = [tmp_path / f"{i}.npz" for i in (2, 3, 1)]
    assert run("--merge", *files, "--json") == plain
    few = json.loads(run(*data, "--tensors", 20))
    assert few["samples"] == 20 and few["accuracy"] == found["accuracy"]
    none = json.loads(run(*data, "--tensors", 0))
    assert none["tensors"] == [] and none["accuracy"] == found["accuracy"] and none["samples"] == 300
    for i in (1, 2):
        run(*data, "--shard", f"{i}/2", "--save", tmp_path / f"few{i}.npz", "--tensors", 20)
    assert json.loads(run("--merge", tmp_path / "few2.npz", tmp_path / "few1.npz", "--json")) == few


def test_the_exit_code_follows_the_drop(place, capsys):
    found = validation.accuracy(place / "scores_int8.tflite", place / "scores.npz", place / "scores.tflite")
    common = ["validate", str(place / "scores_int8.tflite"), "--reference", str(place / "scores.tflite"), "--data",
              str(place / "scores.npz"), "--tensors", "0", "--max-drop"]
    assert cli.main([*common, str(found.drop)]) == 0
    assert cli.main([*common, str(found.drop - 0.01)]) == 1
    assert "accuracy: top1 dropped by" in capsys.readouterr().err
    assert cli.main(["validate", str(place / "scores.tflite"), "--data", str(place / "scores.npz"), "--max-drop",
                     "1"]) == 2
    assert "--max-drop takes --reference" in capsys.readouterr().err


def test_the_report_follows_the_schema(place, capsys):
    resources.tool("jsonschema")
    import jsonschema
    schema = json.loads((ROOT / "docs" / "validation.schema.json").read_text())
    for arguments in (["scores_int8.tflite", "--reference", str(place / "scores.tflite"), "--accuracy"],
                      ["scores.tflite"]):
        cli.main(["validate", str(place / arguments[0]), *arguments[1:], "--data", str(place / "scores.npz"), "--json"])
        found = json.loads(capsys.readouterr().out)
        jsonschema.validate(found, schema)
        for name, part in (("accuracy", found["accuracy"]), ("metric", found["accuracy"]["metrics"]["top1"]),
                           ("flip", found["accuracy"]["worst"][0]), ("class", found["accuracy"]["classes"][0]),
                           ("bin", found["accuracy"]["calibration"]["model"][0])):
            assert set(part) == set(schema["$defs"][name]["properties"]) == set(schema["$defs"][name]["required"]), name


def test_in_python(place):
    found, data, labels, _ = measured(place, "scores")
    again = validation.accuracy(place / "scores_int8.tflite", [(one, int(label)) for one, label in zip(
        data, labels, strict=True)], place / "scores.tflite")
    assert again == found
    with pytest.raises(ComparisonError, match="not a sequence"):
        validation.accuracy(place / "scores.tflite", [(data[0], 1)], workers=2)
    assert found._repr_html_().count("<tr>") == 1 + len(found.metrics)
    text = "\n".join(found.lines(3))
    assert "top1" in text and "Wilson" in text and "McNemar" in text and f"{found.flipped} differ" in text
    resources.tool("pandas")
    assert found.to_pandas().loc["top1", "model"] == found.metrics["top1"].model


def test_several_outputs_need_a_name(tmp_path):
    m = ModelBuilder()
    x = m.tensor("x", (1, 4))
    outputs = [m.tensor(name, (1, 4)) for name in ("logits", "features")]
    for y in outputs:
        m.operator("RESHAPE", [x, m.constant(f"shape{y}", np.array([1, 4], np.int32))], [y], new_shape=(1, 4))
    m.inputs([x])
    m.outputs(outputs)
    (tmp_path / "two.tflite").write_bytes(m.build())
    data = [(np.eye(4, dtype=np.float32)[i], i) for i in range(4)]
    with pytest.raises(ComparisonError, match="--output, the one that counts"):
        validation.accuracy(tmp_path / "two.tflite", data)
    with pytest.raises(ComparisonError, match="no output is called 'logit'; the model has 'logits', 'features'"):
        validation.accuracy(tmp_path / "two.tflite", data, output="logit")
    assert validation.accuracy(tmp_path / "two.tflite", data, output="logits").metrics["top1"].model == 1


def test_the_bundled_models(capsys):
    """Their samples, by their names."""
    from pylite.media import images
    data = [(images.read(models.sample(name)).astype(np.float32) / 255, name) for name in models.samples()]
    found = validation.accuracy(models.path("digits"), data, models.path("digits"))
    assert found.metrics["top1"].model == 1 and found.flipped == 0 and found.mcnemar["p"] == 1
    assert found.labels[7] == "seven"
