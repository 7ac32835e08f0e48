"""Bundles of models in zip archives: the only model or the named one is opened, from the archive itself."""
import contextlib
import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

import pylite
from pylite import cli
from pylite.errors import ModelError
from pylite.media import models
from tests.tools import resources, small_models

RESHAPE, OTHER = small_models.reshape(), small_models.reshape(shape=(1, 4), to=(4,))


def archive(folder, name="bundle.task", method=zipfile.ZIP_STORED, **members):
    path = folder / name
    with zipfile.ZipFile(path, "w", method) as file:
        for member, contents in members.items():
            file.writestr(member.replace("__", "/"), contents)
    return str(path)


def shape(interpreter):
    return interpreter.get_input_details()[0]["shape"].tolist()


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_the_only_model_is_opened(tmp_path, method):
    path = archive(tmp_path, method=method, one=RESHAPE, readme=b"words")
    for open_ in (lambda: pylite.Interpreter(path), lambda: pylite.Interpreter(model=pylite.Model(path)),
                  lambda: pylite.Interpreter(model_content=Path(path).read_bytes())):
        interpreter = open_()
        interpreter.allocate_tensors()
        interpreter.set_tensor(0, np.ones((2, 3), np.float32))
        interpreter.invoke()
        assert interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).sum() == 6


def test_a_named_model_is_opened(tmp_path):
    path = archive(tmp_path, models__a=RESHAPE, b=OTHER)
    assert shape(pylite.Interpreter(path, member="models/a")) == [2, 3]
    assert shape(pylite.Interpreter(path, member="b")) == [1, 4]
    assert shape(pylite.Interpreter(path + "/models/a")) == [2, 3]
    assert shape(pylite.Interpreter(model_content=Path(path).read_bytes(), member="b")) == [1, 4]
    assert pylite.Model(path + "/b").graph.subgraphs[0].tensors[0].shape == (1, 4)


def test_errors_list_the_models(tmp_path):
    path = archive(tmp_path, a=RESHAPE, b=OTHER, text=b"words")
    with pytest.raises(ModelError, match=r"bundle.task' is a zip archive that holds 'a', 'b'; open .*bundle\.task/a'"):
        pylite.Interpreter(path)
    with pytest.raises(ModelError, match=r"holds 'a', 'b'; pass the name of one of them, such as member='a'"):
        pylite.Interpreter(model_content=Path(path).read_bytes())
    with pytest.raises(ModelError, match=r"holds no model 'c'; its models are 'a', 'b'"):
        pylite.Interpreter(path, member="c")
    with pytest.raises(ModelError, match=r"holds no model; expected a .tflite file"):
        pylite.Interpreter(archive(tmp_path, "none.zip", text=b"words"))
    with pytest.raises(ModelError, match=r"digits.tflite' is a model, not a bundle; leave out the member 'a'"):
        pylite.Interpreter(models.path("digits"), member="a")


def test_members_of_what_is_no_bundle(tmp_path):
    path = tmp_path / "m.tflite"
    path.write_bytes(small_models.variable())
    for source in ({"model_path": path}, {"model_content": path.read_bytes()}):
        with pytest.raises(ModelError, match=r"is a model, not a bundle; leave out the member 'x'"):
            pylite.Interpreter(**source, member="x")
        with pytest.raises(TypeError, match=r"member is the name of a model in the bundle, not 3"):
            pylite.Interpreter(**source, member=3)


def test_damaged_bundles(tmp_path):
    contents = Path(archive(tmp_path, a=RESHAPE, method=zipfile.ZIP_DEFLATED)).read_bytes()
    for size in range(4, len(contents), 7):
        with pytest.raises(ModelError):
            pylite.Interpreter(model_content=contents[:size] + b"\0" * 9)
    rng = np.random.default_rng(0)
    for _ in range(200):
        damaged = bytearray(contents)
        damaged[rng.integers(4, len(damaged))] ^= 1 << rng.integers(8)
        with contextlib.suppress(ModelError):
            pylite.Interpreter(model_content=bytes(damaged))


def test_a_bundle_has_no_plan_of_its_archive(tmp_path):
    path = archive(tmp_path, a=RESHAPE)
    for _ in range(3):
        interpreter = pylite.Interpreter(path, cache_dir=str(tmp_path / "plans"))
        interpreter.allocate_tensors()
        interpreter.set_tensor(0, np.full((2, 3), 2, np.float32))
        interpreter.invoke()
        assert interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).sum() == 12


def test_the_command_line(tmp_path, capsys):
    path = archive(tmp_path, a=RESHAPE, b=OTHER)
    assert cli.main(["inspect", path]) == 0
    printed = capsys.readouterr().out
    assert "a bundle of 2 models" in printed and f"{path}/b" in printed
    assert cli.main(["inspect", f"{path}/b"]) == 0
    assert "[1, 4]" in capsys.readouterr().out
    assert cli.main(["run", f"{path}/b", "--zeros"]) == 0


def test_a_real_bundle():
    path = str(resources.models() / "reports" / "bundle.task")
    assert shape(pylite.Interpreter(path, member="hand_detector.tflite"))
    with pytest.raises(ModelError, match=r"gesture_classifier\.tflite"):
        pylite.Interpreter(path)


def test_an_archive_behind_a_model_is_no_bundle(tmp_path):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as appended:
        appended.writestr("labels.txt", "a\nb")
    (tmp_path / "model.tflite").write_bytes(RESHAPE + file.getvalue())
    assert shape(pylite.Interpreter(str(tmp_path / "model.tflite"))) == [2, 3]


@pytest.mark.parametrize(("member", "text"), [
    ("model.weights.h5", r"a Keras model; convert it with .*from_keras_model\(\)"),
    ("net/data.pkl", "a PyTorch model; convert it"),
    ("other", "expected a .tflite file, or a bundle with one"),
])
def test_archives_of_other_frameworks(tmp_path, member, text):
    path = tmp_path / "m.keras"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(member, b"\0" * 20)
    with pytest.raises(ModelError, match=text):
        pylite.Model(path)


def test_a_file_object_is_no_model(tmp_path):
    (tmp_path / "m.tflite").write_bytes(b"\0")
    with open(tmp_path / "m.tflite", "rb") as file:
        for arguments in ({"model_path": file}, {"model_content": file}):
            with pytest.raises(TypeError, match=r"not from a BufferedReader; pass model_content=file\.read\(\)"):
                pylite.Interpreter(**arguments)
