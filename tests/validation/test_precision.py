"""compare(precision="float16"): a float model in float16 beside itself in float32."""
import numpy as np
import pytest

from pylite import errors, validation
from pylite.cli import main
from pylite.schema.builder import ModelBuilder
from tests.interpreter.test_precision import network


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.tflite"
    path.write_bytes(network())
    return str(path)


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "samples.npz"
    np.savez(path, x=np.random.default_rng(0).normal(size=(3, 8, 8, 16)).astype(np.float32))
    return str(path)


def test_products_in_float16_differ_from_float32(model, data):
    report = validation.compare(model, model, data, precision="float16")
    assert len(report.tensors) == 4
    assert all(40 < tensor.sqnr_db < 90 for tensor in report.tensors)
    assert validation.compare(model, model, data, precision="float16", workers=2).to_json() == report.to_json()
    samples = [[sample[None]] for sample in np.load(data)["x"]]
    assert [t.sqnr_db for t in validation.compare(model, model, samples, precision="float16").tensors] == [
        t.sqnr_db for t in report.tensors]


@pytest.mark.parametrize("precision", [None, "float32"])
def test_without_it_nothing_differs(model, data, precision):
    report = validation.compare(model, model, data, precision=precision)
    assert all(tensor.sqnr_db == float("inf") for tensor in report.tensors)


def test_other_precisions_are_refused(model, data):
    with pytest.raises(errors.ComparisonError, match="precision must be 'float16' or 'float32', not 'half'"):
        validation.compare(model, model, data, precision="half")


def mixed(tmp_path, floats):
    """A quantized network, followed by a convolution of real numbers or by none."""
    rng, m = np.random.default_rng(1), ModelBuilder()
    x, y = (m.tensor(name, (1, 8, 8, 16), "int8", scale=1 / 16) for name in "xy")
    w = m.constant("w", rng.integers(-127, 128, (16, 1, 1, 16), np.int8), scale=1 / 256)
    m.operator("CONV_2D", [x, w], [y], padding="SAME", stride_w=1, stride_h=1)
    result = y
    if floats:
        real, result = m.tensor("real", (1, 8, 8, 16)), m.tensor("result", (1, 8, 8, 64))
        v = m.constant("v", rng.normal(size=(64, 3, 3, 16)).astype(np.float32))
        m.operator("DEQUANTIZE", [y], [real])
        m.operator("CONV_2D", [real, v], [result], padding="SAME", stride_w=1, stride_h=1)
    m.inputs([x])
    m.outputs([result])
    (tmp_path / "mixed.tflite").write_bytes(m.build())
    return str(tmp_path / "mixed.tflite")


def test_integers_stay_as_they_are(tmp_path, data):
    """Not the cost of quantizing them: what float16 changes is measured, and nothing else."""
    path = mixed(tmp_path, floats=True)
    report = validation.compare(path, path, data, precision="float16")
    assert report.precision == "float16" and "mixed.tflite in float16 against mixed.tflite in float32: 3" in str(report)
    assert [(t.name, t.sqnr_db > 50) for t in report.tensors] == [("real", True), ("result", True)]
    assert report.tensors[0].sqnr_db == float("inf") > report.tensors[1].sqnr_db


def test_a_model_of_integers_is_refused(tmp_path, data):
    path = mixed(tmp_path, floats=False)
    with pytest.raises(errors.ComparisonError, match="computes nothing in float32, so float16 changes nothing"):
        validation.compare(path, path, data, precision="float16")


def test_the_command_compares_a_model_with_itself(model, data, capsys):
    assert main(["validate", model, "--precision", "float16", "--data", data]) == 0
    assert "SQNR" in capsys.readouterr().out
    assert main(["validate", model, "--precision", "float16", "--data", data, "--min-sqnr", "99"]) == 1
    capsys.readouterr()
    assert main(["validate", model, "--precision", "float16", "--data", data, "--repair", "out.tflite"]) == 2
    assert "give --repair and --sensitivity a --reference" in capsys.readouterr().err
