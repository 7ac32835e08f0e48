"""`pylite compile` and `pylite cache`: the plan cache is filled ahead, listed and cleared."""
import json
import os

import pytest

import pylite
from pylite import cli
from pylite.media import models
from pylite.plugins import resolver
from pylite.runtime import executor, plan_cache
from pylite.runtime.cache_files import Store, default_folder
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
    path = tmp_path / "strings.tflite"
    path.write_bytes(small_models.reshape("string"))
    for _ in range(2):
        assert cli.main(["compile", os.fspath(path), "--cache-dir", os.fspath(folder)]) == 1
        assert "it has no plan, since it has tensors of strings" in capsys.readouterr().err
    assert cli.main(["cache", "list", "--cache-dir", os.fspath(folder)]) == 0
    assert "as in the file (no plan)" in capsys.readouterr().out


DELEGATE = """
import pylite
class Mine(pylite.PythonDelegate):
    def supports(self, node):
        return False
"""


def test_compile_with_plugins_says_that_there_is_no_plan(folder, model, tmp_path, capsys):
    (tmp_path / "mine.py").write_text(DELEGATE)
    for options in (["--delegate", f"{tmp_path / 'mine.py'}:Mine"], ["--ops", os.fspath(tmp_path / "op.py")]):
        (tmp_path / "op.py").write_text("import numpy, pylite\npylite.custom_op('Atan')(numpy.arctan)")
        try:
            assert cli.main(["compile", model, "--cache-dir", os.fspath(folder), *options]) == 1
        finally:
            resolver.registered._entries.clear()
        assert "it has no plan, since plug-ins or delegates take part" in capsys.readouterr().err


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
    assert "of another pylite, damaged or not trusted" in text
    assert "1 plan and 2 files without a plan, " in text
    assert cli.main(["cache", "clear", "--cache-dir", os.fspath(folder)]) == 0
    assert "removed 3 files" in capsys.readouterr().out
    assert os.listdir(folder) == ["mine.txt"]
    assert cli.main(["cache", "list", "--cache-dir", os.fspath(folder)]) == 0
    assert "0 plans" in capsys.readouterr().out


def test_plans_of_other_builds_are_only_counted(folder, model, capsys, monkeypatch):
    """This build cannot use them."""
    monkeypatch.setattr(plan_cache, "build", lambda: "0.1 other")
    cli.main(["compile", model, "digits", "--cache-dir", os.fspath(folder)])
    monkeypatch.undo()
    cli.main(["compile", "digits", "--cache-dir", os.fspath(folder)])
    capsys.readouterr()
    assert cli.main(["cache", "list", "--cache-dir", os.fspath(folder)]) == 0
    text = capsys.readouterr().out
    assert text.count("digits.tflite") == 1 and "model.tflite" not in text
    assert "2 plans of other builds of pylite (--verbose lists them)\n3 plans, " in text
    assert cli.main(["cache", "list", "--cache-dir", os.fspath(folder), "--verbose"]) == 0
    text = capsys.readouterr().out
    assert text.count("digits.tflite") == 2 and "model.tflite" in text and "0.1, another build" in text


@pytest.mark.parametrize("command", [["compile", "digits"], ["cache", "list"], ["cache", "clear"]])
def test_an_empty_environment_variable_turns_the_cache_off(folder, command, capsys, monkeypatch):
    monkeypatch.setenv("PYLITE_CACHE_DIR", "")
    assert cli.main(command) == 2
    assert "PYLITE_CACHE_DIR is empty" in capsys.readouterr().err


def test_the_cache_is_in_the_users_folder_by_default(folder, model, capsys, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", os.fspath(folder))
    assert cli.main(["cache", "list"]) == 0
    assert f"0 plans: there is no folder {folder}" in capsys.readouterr().out
    assert not folder.exists()
    assert cli.main(["compile", model]) == 0
    assert [file.suffix for file in (folder / "pylite").iterdir()] == [".plan"]
    capsys.readouterr()
    assert cli.main(["cache", "list"]) == 0
    assert "1 plan," in capsys.readouterr().out


def test_commands_that_run_a_model_use_its_plan(folder, capsys, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", os.fspath(folder))
    command, answers = ["run", "digits", "--random", "3", "--json"], []
    for turn in range(2):
        if turn:
            monkeypatch.setattr(executor, "Executor", None)     # not needed
        assert cli.main(command) == 0
        answers.append(json.loads(capsys.readouterr().out)["outputs"])
        assert len(list(folder.glob("pylite/*.plan"))) == 1
    assert answers[0] == answers[1]


@pytest.mark.parametrize(("cache", "home", "found"), [
    ("/x", "/home/me", "/x/pylite"), ("", "/home/me", "/home/me/.cache/pylite"), ("x", "/h", "/h/.cache/pylite"),
    (None, "/h", "/h/.cache/pylite"), (None, "relative", "")])
def test_the_users_cache_folder(monkeypatch, cache, home, found):
    monkeypatch.delenv("PYLITE_CACHE_DIR", raising=False)
    monkeypatch.setenv("HOME", home)
    if cache is None:
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", cache)
    assert default_folder() == found
    monkeypatch.setenv("PYLITE_CACHE_DIR", "/elsewhere")
    assert default_folder() == "/elsewhere"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders to other users")
def test_no_folder_is_made_in_that_of_another_user(tmp_path):
    """As `sudo` does that keeps HOME."""
    os.chown(tmp_path, 12345, 12345)
    with pytest.raises(PermissionError, match="belongs to another user"):
        Store(tmp_path / "cache" / "pylite", create=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [["compile", "digits"], ["cache", "list"], ["cache", "clear"]])
def test_folders_that_are_not_trusted_are_refused(folder, command, capsys):
    folder.mkdir()
    folder.chmod(0o777)
    assert cli.main([*command, "--cache-dir", os.fspath(folder)]) == 2
    assert "others may write it (its mode is 777)" in capsys.readouterr().err


def test_wrong_shapes_are_errors(folder, model, capsys):
    assert cli.main(["compile", model, "--cache-dir", os.fspath(folder), "--shape", "other=2"]) == 2
    assert "no input is called 'other'" in capsys.readouterr().err
