"""compare(precision="float16"): a float model in float16 beside itself in float32."""
import numpy as np
import pytest

from pylite import errors, validation
from pylite.cli import main
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


def test_the_command_compares_a_model_with_itself(model, data, capsys):
    assert main(["validate", model, "--precision", "float16", "--data", data]) == 0
    assert "SQNR" in capsys.readouterr().out
    assert main(["validate", model, "--precision", "float16", "--data", data, "--min-sqnr", "99"]) == 1
    capsys.readouterr()
    assert main(["validate", model, "--precision", "float16", "--data", data, "--repair", "out.tflite"]) == 2
    assert "give --repair and --sensitivity a --reference" in capsys.readouterr().err
