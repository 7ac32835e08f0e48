"""Accuracy on a data set equals plain statements in numpy, scikit-learn, scipy and pycocotools."""
import json

import numpy as np
import pytest

from pylite import cli, validation
from pylite.errors import ComparisonError
from pylite.media import models
from pylite.schema.builder import ModelBuilder
from pylite.validation.tally import KEEP
from tests.project.pages import ROOT
from tests.tools import resources, small_models

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
    m = ModelBuilder()
    x, y = m.tensor("x", (1, 3)), m.tensor("y", (1, 3))
    m.operator("LOG", [x], [y])
    m.inputs([x])
    m.outputs([y])
    (place / "log.tflite").write_bytes(m.build())
    data = np.ones((4, 3), np.float32)
    data[2] = -1
    np.savez(place / "negative.npz", data, labels=np.zeros((4, 3)))
    found = validation.accuracy(place / "log.tflite", place / "negative.npz", task="regression")
    assert found.metrics["mae"].model is None and "no finite numbers" in found.notes[0]
    json.loads(found.to_json())


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
    assert cli.main([*common, f"{found.drop - 0.01}%"]) == 1
    assert f"accuracy: top1 dropped by {found.drop:.2f} points, more than --max-drop " in capsys.readouterr().err
    assert cli.main(["validate", str(place / "scores.tflite"), "--data", str(place / "scores.npz"), "--max-drop",
                     "1"]) == 2
    assert "--max-drop needs --reference" in capsys.readouterr().err


def test_a_drop_without_labels_is_of_agreement(place, tmp_path, capsys):
    """A note says so."""
    rng = np.random.default_rng(1)
    np.save(tmp_path / "bare.npy", rng.normal(0, 2, (30, CLASSES)))
    common = ["validate", str(place / "scores_int8.tflite"), "--reference", str(place / "scores.tflite"), "--data"]
    last = ["--tensors", "0", "--max-drop", "100", "--task", "classification"]
    assert cli.main([*common, str(tmp_path / "bare.npy"), *last]) == 0
    shown = capsys.readouterr().out
    assert "agreement" in shown and "note: the data have no labels, so --max-drop limits how often" in shown
    same = [str(place / "scores.tflite") if part.endswith("_int8.tflite") else part for part in common]
    assert cli.main([*same, str(tmp_path / "bare.npy"), *last]) == 0
    assert "both models name the same class for every sample" in capsys.readouterr().out
    assert cli.main([*common, str(place / "scores.npz"), *last]) == 0
    assert "no labels" not in capsys.readouterr().out


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
    with pytest.raises(ComparisonError, match="not as a sequence"):
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
