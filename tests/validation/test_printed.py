"""print() of a result shows what the command line shows; the prompt shows its first line."""
import subprocess
import sys

import numpy as np
import pytest

import pylite.media
from pylite import tasks, validation
from pylite.validation.agreement import Agreement, Difference
from pylite.validation.repair import repair
from pylite.validation.sensitivity import sensitivity


@pytest.fixture
def pictures(tmp_path):
    path = tmp_path / "pictures.npy"
    np.save(path, np.random.default_rng(0).uniform(0, 1, (4, 8, 8, 1)).astype(np.float32))
    return path


@pytest.mark.parametrize("made", [
    lambda data: validation.compare("digits", "digits", data),
    lambda data: sensitivity("digits", "digits", data, 20.0),
    lambda data: repair("digits", "digits", data),
    lambda data: Agreement("m.tflite", "other", 3, 4)], ids=["compare", "sensitivity", "repair", "agreement"])
def test_results(made, pictures):
    result = made(pictures)
    assert str(result) == "\n".join(result.lines())
    assert repr(result) == f"<{type(result).__name__}: {result.lines()[0]}; print() shows all>"
    assert len(repr(result)) < 200
    shown = result._repr_html_()
    assert shown.count("<table>") == ("Agreement" not in repr(result)) and "<p>" in shown


def test_notebooks_show_names_as_text():
    name = "<script>&"
    shown = Agreement("m.tflite", name, 3, 4, [Difference(1, name, name, "y", 0, 3, 200, 2.0, {-1: 1})])._repr_html_()
    assert name not in shown and shown.count("&lt;script&gt;&amp;") == 3 and shown.count("<table>") == 1


def test_a_task_names_its_model():
    shown = repr(tasks.ImageClassifier("digits"))
    assert shown.startswith("<ImageClassifier of <Interpreter digits.tflite: image int8")


def test_modules_of_media_are_there_when_they_are_asked_for():
    code = "import pylite; print(pylite.media.models.path('digits').name, 'images' in dir(pylite.media))"
    assert subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True,
                          check=True).stdout == "digits.tflite True\n"
    with pytest.raises(AttributeError, match="nothing"):
        _ = pylite.media.nothing
