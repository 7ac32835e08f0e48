"""`pylite compile` and `pylite cache`: the plan cache is filled ahead, listed and cleared."""
import os

import numpy as np
import pytest

import pylite
from pylite import cli
from pylite.media import models
from tests.tools.plans import assert_same, network, planned, run


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.delenv("PYLITE_CACHE_DIR", raising=False)
    return tmp_path / "cache"


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.tflite"
    path.write_bytes(network(signature=(-1, -1, -1, 3)))
    return os.fspath(path)


def test_compile_fills_the_cache(folder, model, capsys):
    assert cli.main(["compile", model, "digits", "--cache-dir", os.fspath(folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [os.path.basename(line.partition(":")[0]) for line in lines] == ["model.tflite", "digits.tflite"]
    for path in model, models.path("digits"):
        interpreter = pylite.Interpreter(path, cache_dir=folder)
        assert planned(interpreter)
        assert_same(run(interpreter), run(pylite.Interpreter(path, cache_dir="")))


def test_compile_for_shapes_and_preserved_tensors(folder, model, monkeypatch):
    monkeypatch.setenv("PYLITE_CACHE_DIR", os.fspath(folder))
    assert cli.main(["compile", model, "--shape", "x=2,4,4,3"]) == 0
    assert cli.main(["compile", model, "--preserve"]) == 0
    resized = pylite.Interpreter(model)
    resized.resize_tensor_input(0, (2, 4, 4, 3))
    resized.allocate_tensors()
    assert type(resized._main.current).__name__ == "PlannedProgram"
    with pytest.warns(UserWarning, match="experimental_preserve_all_tensors"):
        preserving = pylite.Interpreter(model, experimental_preserve_all_tensors=True)
    assert planned(preserving)


def test_compile_says_why_a_model_has_no_plan(folder, tmp_path, capsys):
    from tests.tools import small_models
    path = tmp_path / "constant.tflite"
    path.write_bytes(small_models.no_ops("float32", np.ones(2, np.float32), (2,)))
    for _ in range(2):
        assert cli.main(["compile", os.fspath(path), "--cache-dir", os.fspath(folder)]) == 1
        assert "it has no plan, since tensor 1 ('y'), an input or output, is of a rare kind" in capsys.readouterr().err
    assert cli.main(["cache", "list", "--cache-dir", os.fspath(folder)]) == 0
    assert "as in the file (no plan)" in capsys.readouterr().out


def test_list_and_clear(folder, model, capsys):
    cli.main(["compile", model, "--cache-dir", os.fspath(folder), "--shape", "x=2,4,4,3"])
    (folder / "mine.txt").write_text("kept")
    (folder / "0123456789abcdef.plan").write_bytes(b"damaged")
    capsys.readouterr()
    assert cli.main(["cache", "list", "--cache-dir", os.fspath(folder)]) == 0
    text = capsys.readouterr().out
    assert "model.tflite" in text
    assert "[2, 4, 4, 3]" in text
    assert "as in the file (no plan)" in text
    assert "damaged or not trusted" in text
    assert "3 plans, " in text
    assert cli.main(["cache", "clear", "--cache-dir", os.fspath(folder)]) == 0
    assert "removed 3 files" in capsys.readouterr().out
    assert os.listdir(folder) == ["mine.txt"]
    assert cli.main(["cache", "list", "--cache-dir", os.fspath(folder)]) == 0
    assert "0 plans" in capsys.readouterr().out


@pytest.mark.parametrize("command", [["compile", "digits"], ["cache", "list"], ["cache", "clear"]])
def test_a_folder_must_be_named(folder, command, capsys):
    assert cli.main(command) == 2
    assert "PYLITE_CACHE_DIR" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["compile", "digits"], ["cache", "list"], ["cache", "clear"]])
def test_folders_that_are_not_trusted_are_refused(folder, command, capsys):
    folder.mkdir()
    folder.chmod(0o777)
    assert cli.main([*command, "--cache-dir", os.fspath(folder)]) == 2
    assert "others may write it (its mode is 777)" in capsys.readouterr().err


def test_wrong_shapes_are_errors(folder, model, capsys):
    assert cli.main(["compile", model, "--cache-dir", os.fspath(folder), "--shape", "other=2"]) == 2
    assert "no input is called 'other'" in capsys.readouterr().err
