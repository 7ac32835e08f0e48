"""The examples of custom ops and delegates in Python run on the models written by their scripts."""
import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pylite

EXAMPLES = Path(__file__).parents[2] / "examples"


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("folder", "model"), [
    ("custom_op_python", "atan.tflite"), ("delegate_python", "two_convolutions.tflite")])
def test_models_equal_the_output_of_their_scripts(folder, model):
    assert load(EXAMPLES / folder / "make_model.py").build() == (EXAMPLES / folder / model).read_bytes()


def test_atan(registered):
    example = load(EXAMPLES / "custom_op_python" / "atan.py")
    numbers = [-8, 0.5, 2, 2.2, 201]
    np.testing.assert_allclose(example.atan(numbers), np.arctan(np.array(numbers) + 1), rtol=1e-6)


def test_my_delegate():
    example = load(EXAMPLES / "delegate_python" / "my_delegate.py")
    x = np.random.default_rng(5).normal(size=(1, 8, 8, 3)).astype(np.float32)
    plain, names = example.run(x)
    assert names == ["CONV_2D", "TANH", "CONV_2D", "MEAN"]
    result, names = example.run(x, [example.MyDelegate()])
    assert names == ["CONV_2D", "TANH", "CONV_2D", "MEAN", "DELEGATE", "DELEGATE"]
    np.testing.assert_allclose(result, plain, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("script", ["custom_op_python/atan.py", "delegate_python/my_delegate.py"])
def test_scripts(script):
    done = subprocess.run([sys.executable, str(EXAMPLES / script)], capture_output=True, text=True, check=True,
                          env={"PYTHONPATH": str(Path(pylite.__file__).parents[1])})
    assert done.stdout
