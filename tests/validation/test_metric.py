"""Metrics of the user's own: what the function gets, how its number is used, and what is said where it fails."""
import json
import sys

import numpy as np
import pytest

from pylite import cli, validation
from pylite.errors import ComparisonError
from pylite.media import models
from pylite.schema import read, write
from pylite.schema.builder import ModelBuilder
from pylite.validation.repair import repair
from pylite.validation.sensitivity import sensitivity
from tests.project.pages import ROOT
from tests.tools import resources, small_models
from tests.validation.labelled import ORDER, digits, scenes

MODULE = """
import numpy as np

def top1(outputs, labels):
    return np.mean(outputs[0].argmax(1) == labels)

def far(outputs, labels, reference):
    return max(np.abs(one - other).mean() for one, other in zip(outputs, reference, strict=True))
far.better = "lower"

class Holder:
    @staticmethod
    def top1(outputs, labels):
        return top1(outputs, labels)

def lonely(outputs):
    return 1

def table(outputs, labels):
    return {"top1": 1}

def each(outputs, labels):
    return outputs[0]

def nothing(outputs, labels):
    return None

def nan(outputs, labels):
    return np.float32("nan")

def failing(outputs, labels):
    return outputs[1]

def odd(outputs, labels):
    return 1
odd.better = "more"
number = 3
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_figures.py").write_text(MODULE)
    (tmp_path / "broken_figures.py").write_text("import no_such_module\n")
    digits(tmp_path / "classes", "{0}/a.pgm")
    yield tmp_path
    for name in ("own_figures", "broken_figures"):
        sys.modules.pop(name, None)


@pytest.fixture
def spoiled(here):
    model = read(models.path("digits").read_bytes())
    weights = next(t for t in model.subgraphs[0].tensors if t.name == "trunk/4/weights")
    weights.quantization.scale = weights.quantization.scale * 3
    (here / "spoiled.tflite").write_bytes(write(model))
    return "spoiled.tflite"


def test_the_number_equals_the_task_s_own(spoiled):
    plain = validation.accuracy(spoiled, "classes", "digits")
    for name in ("own_figures:top1", "own_figures:Holder.top1"):
        found = validation.accuracy(spoiled, "classes", "digits", metric=name)
        main = found.metrics[found.main]
        assert (main.model, main.reference) == (plain.metrics["top1"].model, plain.metrics["top1"].reference)
        assert main.model < main.reference and found.drop == plain.drop
        assert found.task == "metric" and found.mcnemar is None and not found.notes


def test_what_a_function_gets_of_one_output(tmp_path):
    """Real numbers for quantized outputs, the batch axis dropped, and labels in the data's order."""
    seen = []

    def look(outputs, labels, reference):
        seen.append((outputs, labels, reference))
        return 1.5
    (tmp_path / "q.tflite").write_bytes(small_models.reshape("int8", shape=(1, 3), to=(1, 3), scale=0.5, zero_point=3))
    (tmp_path / "f.tflite").write_bytes(small_models.reshape(shape=(1, 3), to=(1, 3)))
    data, labels = np.random.default_rng(0).normal(0, 2, (7, 3)), np.arange(7) * 2
    np.savez(tmp_path / "d.npz", data, labels=labels)
    report = validation.compare(tmp_path / "q.tflite", tmp_path / "f.tflite", tmp_path / "d.npz", metric=look)
    assert report.accuracy.metrics["test_what_a_function_gets_of_one_output.<locals>.look"].model == 1.5
    assert report.tensors and len(seen) == 2
    (own, own_labels, given), (other, _, same) = seen
    assert own[0].shape == other[0].shape == (7, 3) and own[0].dtype == other[0].dtype == np.float32
    assert np.array_equal(other[0], data.astype(np.float32)) and given is other and same is other
    assert np.array_equal(own[0], np.round(own[0] * 2) / 2) and np.abs(own[0] - data).max() <= 0.25
    assert own_labels.dtype == np.int64 and np.array_equal(own_labels, labels)
    validation.accuracy(tmp_path / "f.tflite", tmp_path / "d.npz", tmp_path / "f.tflite", metric=look, label_offset=5)
    assert np.array_equal(seen[-1][1], labels + 5)


def test_what_a_function_gets_of_several_outputs(tmp_path):
    m = ModelBuilder()
    x, y, z = m.tensor("x", (1, 4)), m.tensor("y", (1, 4)), m.tensor("z", (1,), "int64")
    m.operator("RELU", [x], [y])
    m.operator("ARG_MAX", [x, m.constant("axis", np.array(1, np.int32))], [z], output_type="int64")
    m.inputs([x])
    m.outputs([y, z])
    (tmp_path / "two.tflite").write_bytes(m.build())
    data = np.random.default_rng(0).normal(0, 1, (5, 4)).astype(np.float32)
    seen = []

    def look(outputs, labels):
        seen.append((outputs, labels))
        return 0
    validation.accuracy(tmp_path / "two.tflite", [(row, None) for row in data], metric=look)
    (first, second), labels = seen[0]
    assert labels is None and second.dtype == np.int64 and second.shape == (5,)
    assert np.array_equal(first, data.clip(0)) and np.array_equal(second, data.argmax(1))
    validation.accuracy(tmp_path / "two.tflite", [(row, row[:2]) for row in data], metric=look, output="z")
    (only,), labels = seen[1]
    assert np.array_equal(only, second) and np.array_equal(labels, data[:, :2])


def test_outputs_of_different_shapes_and_text_come_as_lists(tmp_path):
    m = ModelBuilder()
    x, y = m.tensor("x", (1, None)), m.tensor("y", (1, None))
    m.operator("RELU", [x], [y])
    m.inputs([x])
    m.outputs([y])
    (tmp_path / "long.tflite").write_bytes(m.build())
    seen = []
    validation.accuracy(tmp_path / "long.tflite", [(np.ones((1, n), np.float32), "ab"[:n]) for n in (1, 2)],
                        metric=lambda outputs, labels: seen.append((outputs, labels)) or 1)
    outputs, labels = seen[0]
    assert [array.shape for array in outputs[0]] == [(1,), (2,)] and labels.tolist() == ["a", "ab"]


def test_labels_are_numbered_where_names_are_known(here):
    seen = []

    def look(outputs, labels):
        seen.append(labels)
        return 1
    (here / "names.txt").write_text("\n".join(ORDER))
    bare = read(models.path("digits").read_bytes())
    bare.metadata, bare.metadata_buffer = [], None
    (here / "bare.tflite").write_bytes(write(bare))
    found = validation.accuracy("bare.tflite", "classes", metric=look)
    assert seen[-1].tolist() == sorted(ORDER) and "as text, as 'eight'" in "".join(found.notes)
    validation.accuracy("bare.tflite", "classes", metric=look, labels="names.txt")
    assert seen[-1].tolist() == [ORDER.index(name) for name in sorted(ORDER)]
    validation.accuracy("bare.tflite", "classes", metric=look, labels="sorted")
    assert seen[-1].tolist() == list(range(10))
    boxes = scenes(here / "coco", np.random.default_rng(0))
    validation.accuracy(models.path("digit-detector"), boxes, metric=look)
    assert [array.shape for array in seen[-1]] == [(number % 3, 7) for number in range(8)]


def identity(folder, count=60):
    """(model that returns its input of 3 numbers, samples with labels): files in `folder`, and the samples."""
    (folder / "f.tflite").write_bytes(small_models.reshape(shape=(1, 3), to=(1, 3)))
    data = np.random.default_rng(5).normal(1, 2, (count, 3)).astype(np.float32)
    np.savez(folder / "d.npz", data, labels=np.arange(count) % 2)
    return folder / "f.tflite", folder / "d.npz", data


def test_an_interval_is_that_of_the_mean(tmp_path):
    """By the normal distribution, for a metric that is a mean; every run draws the same, for both models."""
    model, samples, data = identity(tmp_path)

    def mean(outputs, labels):
        assert len(labels) == len(outputs[0]) == 60
        return outputs[0][:, 0].mean()
    found = validation.accuracy(model, samples, model, metric=mean)
    metric = found.metrics[found.main]
    half = 1.96 * data[:, 0].std() / np.sqrt(60)
    np.testing.assert_allclose(metric.interval, (data[:, 0].mean() - half, data[:, 0].mean() + half), atol=half / 4)
    assert metric.method == "bootstrap" and metric.reference_interval == metric.interval
    assert validation.accuracy(model, samples, model, metric=mean) == found
    assert f"{metric.interval[0]:.4f}..{metric.interval[1]:.4f}" in str(found)


def test_no_interval(tmp_path):
    """Of few samples, where the function asks for none, or where it fails on a draw."""
    model, samples, data = identity(tmp_path)

    def first(outputs, labels):
        return 1.0 if np.isin(data[0], outputs[0]).all() else np.nan     # the first sample is missing in some draws

    def quick(outputs, labels):
        quick.calls += 1
        return outputs[0].mean()
    quick.calls, quick.resamples = 0, 0
    few = tmp_path / "few"
    few.mkdir()
    for metric, (path, drawn, _) in ((first, (model, samples, data)), (quick, (model, samples, data)),
                                     (lambda outputs, labels: 1, identity(few, 19))):
        found = validation.accuracy(path, drawn, metric=metric)
        assert found.metrics[found.main].interval is None and found.metrics[found.main].method is None
    assert quick.calls == 1
    quick.resamples = -1
    with pytest.raises(ComparisonError, match="`resamples` is -1; it must be a whole number, 0 for no interval"):
        validation.accuracy(model, samples, metric=quick)


def test_workers_and_shards_give_the_same(spoiled):
    one = validation.accuracy(spoiled, "classes", "digits", metric="own_figures:far")
    assert one.metrics["far"].better == "lower" and one.metrics["far"].reference == 0 < one.metrics["far"].model
    assert validation.accuracy(spoiled, "classes", "digits", metric="own_figures:far", workers=2) == one
    for part in (1, 2):
        validation.accuracy(spoiled, "classes", "digits", metric="own_figures:far", shard=(part, 2), save=f"{part}.npz")
    merged = validation.merge(spoiled, "digits", ["2.npz", "1.npz"])
    assert merged.accuracy == one
    with pytest.raises(ComparisonError, match=r"need a function of a module.*define it there, or use one worker"):
        validation.accuracy(spoiled, "classes", metric=lambda outputs, labels: 1, workers=2)


@pytest.mark.parametrize(("name", "said"), [
    ("top1", "names no function; write it as module:function"),
    ("no_such_module:f", "'no_such_module' cannot be imported: ModuleNotFoundError.*run from the folder that has"),
    ("broken_figures:f", "'broken_figures' cannot be imported: ModuleNotFoundError: No module named 'no_such_module'"),
    ("own_figures:top2", "has no 'top2'; its functions are top1, far,"),
    ("own_figures:number", "is 3, which cannot be called"),
    ("own_figures:lonely", r"its parameters are \(outputs\); it is called as metric\(outputs, labels\)"),
    ("own_figures:table", "returned {'top1': 1}, of type dict; it must return one number"),
    ("own_figures:each", r"returned an array of shape \[10, 10\]; it must return one number"),
    ("own_figures:nothing", "returned None, of type NoneType"),
    ("own_figures:nan", "returned nan for the model's outputs; it must return a finite number"),
    ("own_figures:failing", r"failed on the model's outputs: IndexError: .*outputs have the shapes \[10, 10\]"),
    ("own_figures:odd", "`better` is 'more'; it must be 'higher' or 'lower'"),
    ("own_figures:far", "has a parameter `reference`, and there is no reference")])
def test_each_fault_has_a_sentence(here, capsys, name, said):
    with pytest.raises(ComparisonError, match=f"^metric '{name}': .*{said}"):
        validation.accuracy("digits", "classes", metric=name)
    assert cli.main(["validate", "digits", "--data", "classes", "--metric", name]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_contradictions_are_refused(here):
    with pytest.raises(ComparisonError, match="a metric and a task exclude each other"):
        validation.accuracy("digits", "classes", metric="own_figures:top1", task="classification")
    with pytest.raises(ComparisonError, match="a file, a folder or a sequence, not from a list_iterator"):
        validation.compare("digits", "digits", iter([]), metric="own_figures:top1")
    assert cli.main(["validate", "digits", "--reference", "digits", "--data", "classes", "--metric", "own_figures:far",
                     "--sensitivity", "--target", "0.5"]) == 2


def test_limits_pages_and_json_take_it(spoiled, capsys):
    arguments = ["validate", spoiled, "--reference", "digits", "--data", "classes", "--metric", "own_figures:top1"]
    assert cli.main([*arguments, "--max-drop", "1", "--json"]) == 1
    said = capsys.readouterr()
    assert "accuracy: top1 dropped by 10.00 points" in said.err
    resources.tool("jsonschema")
    import jsonschema
    jsonschema.validate(json.loads(said.out), json.loads((ROOT / "docs" / "validation.schema.json").read_text()))
    assert cli.main([*arguments, "--max-drop", "20"]) == 0
    assert "top1 is 0.9, the reference's 1 (higher is better)" in capsys.readouterr().out


def test_a_set_in_float_reaches_a_target_of_it(spoiled):
    found = sensitivity(spoiled, "digits", "classes", 1.0, accuracy=validation.Settings(metric="own_figures:top1"))
    assert found.measure == "top1" and (found.quantized, found.reached, found.proposed) == (0.9, 1.0, [4])


def test_a_repair_keeps_no_step_that_makes_it_worse(spoiled):
    """Not even one that gains decibels."""
    samples = [[x] for x in np.random.default_rng(0).random((24, 1, 8, 8, 1), np.float32)]
    plain = repair(spoiled, "digits", samples)
    assert any(step.kept for step in plain.steps)
    assert plain.accuracy is None and all(step.metric is None for step in plain.steps)
    good = repair(spoiled, "digits", samples, metric="own_figures:far")
    assert good.accuracy.metric == "far" and good.accuracy.before.model > 2 * good.accuracy.after.model
    values = [good.accuracy.before.model, *(s.metric.model for s in good.steps if s.kept)]
    assert len(values) > 1 and values == sorted(values, reverse=True) and values[-1] == good.accuracy.after.model
    assert "far" in good.lines()[1] and f"{good.accuracy.after.model:.4f}" in good.lines()[-1]

    def near(outputs, labels, reference):       # best where the outputs are farthest off
        return np.abs(outputs[0] - reference[0]).mean()
    bad = repair(spoiled, "digits", samples, metric=near)
    first = bad.steps[0]
    assert first.gained_db > 10 and not first.kept and first.metric.model < bad.accuracy.before.model
    assert bad.accuracy.after.model >= bad.accuracy.before.model


def test_a_repair_with_labels_gives_intervals(spoiled, capsys):
    resources.tool("jsonschema")
    import jsonschema
    assert cli.main(["validate", spoiled, "--reference", "digits", "--data", "classes", "--accuracy", "--repair",
                     "mended.tflite", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    schema = json.loads((ROOT / "docs" / "validation.schema.json").read_text())
    jsonschema.validate(found, {**schema["$defs"]["repair"], "$defs": schema["$defs"]})
    assert found["accuracy"]["metric"] == "top1" and found["accuracy"]["after"]["method"] == "Wilson"
    low, high = found["accuracy"]["after"]["interval"]
    assert low < found["accuracy"]["after"]["model"] <= high
