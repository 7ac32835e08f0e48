"""Recordings and other runtimes: what is equal passes, and the first node that differs is named."""
import json

import numpy as np
import pytest

from pylite import Model, cli
from pylite.errors import ComparisonError
from pylite.media import models
from pylite.schema.builder import ModelBuilder
from pylite.validation import agreement
from pylite.validation.litert import LiteRT
from tests.ops.test_state import accumulator
from tests.tools import resources
from tests.validation import planted


@pytest.fixture(scope="module")
def model():
    return Model(models.path("digits"))


@pytest.fixture(scope="module")
def samples(model):
    return planted.samples(model, 4)


@pytest.mark.parametrize("values", [False, True])
def test_a_recording_agrees_with_its_model(model, samples, tmp_path, values):
    assert agreement.record(model, samples, tmp_path / "r.npz", values) == 4
    found = agreement.check(model, samples, tmp_path / "r.npz", "digits.tflite")
    assert found.equal and found.samples == 4 and found.tensors == len(model.graph.subgraphs[0].operators)
    assert found.lines()[0].startswith("equal: digits.tflite and ")
    assert found.to_dict()["first_difference"] is None


def changed(path, **arrays):
    """The recording with other arrays."""
    with np.load(path) as archive:
        known = dict(archive)
    np.savez(path, **known | {name: change(known[name]) for name, change in arrays.items()})
    return path


def test_the_first_node_that_differs_is_named(model, samples, tmp_path):
    agreement.record(model, samples, tmp_path / "r.npz")

    def other(digests):
        digests[2, 4] ^= np.uint64(1)
        digests[1:, 6] ^= np.uint64(1)
        return digests
    found = agreement.check(model, samples, changed(tmp_path / "r.npz", digests=other))
    assert [(d.node, d.samples, d.first_sample, d.elements) for d in found.differences] == [(4, 1, 2, None),
                                                                                           (6, 3, 1, None)]
    assert "differs: node 4 (DEPTHWISE_CONV_2D, 'trunk/4') is the first of 2" in found.lines()[0]
    assert json.loads(json.dumps(found.to_dict()))["first_difference"] == 4


def test_values_show_by_how_much(model, samples, tmp_path):
    agreement.record(model, samples, tmp_path / "r.npz", values=True)
    tensor = model.graph.subgraphs[0].operators[5].outputs[0]

    def shifted(values):
        values[3].reshape(-1)[:3] -= np.array([2, -1, 100], np.int8)
        return values

    def other(digests):
        digests[3, 5] ^= np.uint64(1)
        return digests
    changed(tmp_path / "r.npz", digests=other, **{f"tensor_{tensor}": shifted})
    difference, = agreement.check(model, samples, tmp_path / "r.npz").differences
    assert difference.elements == 3 and sum(difference.histogram.values()) == 3
    assert {abs(step) for step in difference.histogram} == {1, 2, 16} and difference.largest >= 100


def test_what_does_not_belong_together_is_refused(model, samples, tmp_path):
    path = tmp_path / "r.npz"
    agreement.record(model, samples, path)
    for taken, words in ((samples[:3], "has 4 samples, and the data 3"), (samples + samples[:1], "the data have more"),
                         (samples[::-1], "sample 0 of the data is not the recorded one")):
        with pytest.raises(ComparisonError, match=words):
            agreement.check(model, taken, path)
    with pytest.raises(ComparisonError, match="another model"):
        agreement.check(Model(models.path("sounds")), samples, path)
    with pytest.raises(ComparisonError, match="no samples"):
        agreement.record(model, [], path)
    (tmp_path / "no.npz").write_bytes(b"PK\3\4 no archive")
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    for name in ("no.npz", "other.npz"):
        with pytest.raises(ComparisonError, match="is not a recording"):
            agreement.check(model, samples, tmp_path / name)


def test_another_runtime_that_differs(model, samples):
    """Integers by a bit, real numbers by more than other kernels make."""
    same, tensor = agreement.ExposedModel(model), model.graph.subgraphs[0].operators[2].outputs[0]

    def elsewhere(number, inputs):
        real = [(array.astype(np.float32) - detail.quantization.zero_point[0]) * detail.quantization.scale[0]
                for array, detail in zip(inputs, [model.graph.subgraphs[0].tensors[0]], strict=True)]
        found = {i: array.copy() for i, array in same.run([array.astype(np.float32) for array in real])[1].items()}
        if number == 1:
            found[tensor].reshape(-1)[7] ^= 1
        return found
    found = agreement.compare_with(model, samples, elsewhere, "elsewhere")
    assert [(d.node, d.samples, d.elements, d.largest) for d in found.differences] == [(2, 1, 1, 1.0)]
    with pytest.raises(ComparisonError, match="no samples"):
        agreement.compare_with(model, [], elsewhere, "elsewhere")


@pytest.mark.parametrize("name", ["resnet", "person", "keyword", "anomaly"])
def test_litert_agrees(name):
    """On every result of every node."""
    resources.peer()
    path = resources.models() / (planted.PAIRS[name][0] + ".tflite")
    model = Model(str(path))
    other = LiteRT(bytes(model.graph.contents))
    found = agreement.compare_with(model, planted.samples(model, 2), other.results, "litert")
    assert found.equal, found.lines()
    assert found.tensors == len({i for o in model.graph.subgraphs[0].operators for i in o.outputs})


def recurrent():
    """A recurrent cell, whose state is a variable tensor."""
    m, rng = ModelBuilder(), np.random.default_rng(0)
    x, state, y = m.tensor("x", (1, 2)), m.tensor("state", (1, 3), variable=True), m.tensor("y", (1, 3))
    weights = [m.constant(name, rng.standard_normal(shape).astype(np.float32))
               for name, shape in (("weights", (3, 2)), ("recurrent", (3, 3)), ("bias", (3,)))]
    m.operator("RNN", [x, *weights, state], [y], fused_activation_function="TANH")
    m.inputs([x])
    m.outputs([y])
    return m.build()


@pytest.mark.parametrize("make", [recurrent, accumulator])
def test_litert_keeps_no_more_state_between_samples_than_pylite(make):
    resources.peer()
    model = Model(make())
    shape = model.graph.subgraphs[0].tensors[model.graph.subgraphs[0].inputs[0]].shape
    found = agreement.compare_with(model, [[np.ones(shape, np.float32)]] * 3, LiteRT(make()).results, "litert")
    assert found.equal, found.lines()


def test_on_the_command_line(samples, tmp_path, capsys):
    np.savez(tmp_path / "data.npz", image=np.concatenate([arrays[0] for arrays in samples]))

    def run(*arguments, code=0):
        assert cli.main(["validate", "digits", "--data", str(tmp_path / "data.npz"), *map(str, arguments)]) == code
        return capsys.readouterr()
    assert "4 samples" in run("--record", tmp_path / "r.npz").out
    assert run("--check", tmp_path / "r.npz").out.startswith("equal: digits.tflite")
    assert json.loads(run("--check", tmp_path / "r.npz", "--json").out)["equal"]

    def other(digests):
        return digests ^ np.uint64(1)
    changed(tmp_path / "r.npz", digests=other)
    assert run("--check", tmp_path / "r.npz", code=1).out.startswith("differs: node 0")
    assert "4 samples" in run("--record-values", tmp_path / "v.npz").out
    assert "r.npz: has 4 samples" in run("--check", tmp_path / "r.npz", "--samples", 2, code=2).err
    resources.peer()
    assert run("--against", "litert").out.startswith("equal")
    assert run("--against", "litert:opt", code=0).out


@pytest.mark.parametrize("change", [
    {"header": lambda _: np.array("{}")}, {"header": lambda _: np.array("[" * 10**5)},
    {"header": lambda h: np.array(str(h).replace('"model"', '"other"'))},
    {"header": lambda h: np.array(str(h).replace('"tensors": [', '"tensors": ["x", '))},
    {"digests": lambda d: d[:, 1:]}, {"digests": lambda d: np.uint64(3)}, {"digests": lambda d: d[0]},
    {"inputs": lambda i: i[1:]}, {"inputs": lambda i: np.uint64(3)}])
def test_other_arrays_are_no_recording(model, samples, tmp_path, change):
    agreement.record(model, samples, tmp_path / "r.npz")
    with pytest.raises(ComparisonError, match="is not a recording"):
        agreement.check(model, samples, changed(tmp_path / "r.npz", **change))


def test_values_whose_shapes_change_are_not_recorded(tmp_path):
    m = ModelBuilder()
    x, y = m.tensor("x", (4,)), m.tensor("y", (-1,), "int64")
    mask = m.tensor("mask", (4,), "bool")
    m.operator("GREATER", [x, m.constant("zero", np.zeros(1, np.float32))], [mask])
    m.operator("WHERE", [mask], [y])
    m.inputs([x])
    m.outputs([y])
    counted = Model(m.build())
    inputs = [[np.array(row, np.float32)] for row in ([1, 0, 0, 0], [1, 1, 0, 0])]
    with pytest.raises(ComparisonError, match="tensor 1 has a shape that depends on the sample"):
        agreement.record(counted, inputs, tmp_path / "r.npz", values=True)
    agreement.record(counted, inputs, tmp_path / "r.npz")
    assert agreement.check(counted, inputs, tmp_path / "r.npz").equal
