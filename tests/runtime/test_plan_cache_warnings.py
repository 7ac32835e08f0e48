"""A cache folder that keeps no plans is warned of once, and is no error."""
import os
import warnings

import pytest

import pylite
from pylite.runtime.cache_files import default_folder
from tests.tools.plans import network


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "cache").mkdir(mode=0o700)
    return tmp_path / "cache"


@pytest.mark.parametrize(("code", "reason"), [
    (28, "No space left on device; give a folder .* with free space"),
    (30, "Read-only file system; give a folder that this user owns")])
def test_a_folder_that_cannot_be_written_is_warned_of_once(folder, monkeypatch, code, reason):
    real = os.open

    def fails(path, flags, *args, **named):
        if flags & os.O_CREAT:
            raise OSError(code, os.strerror(code), path)
        return real(path, flags, *args, **named)
    monkeypatch.setattr(os, "open", fails)
    interpreter = pylite.Interpreter(model_content=network(), cache_dir=folder)
    with pytest.warns(UserWarning, match=f"cache_dir='.*' keeps no plans: {reason}") as caught:
        interpreter.allocate_tensors()
    assert len(caught) == 1 and caught[0].filename == __file__
    assert interpreter._main.plans.problem == f"{folder} cannot be written: {os.strerror(code)}"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pylite.Interpreter(model_content=network(), cache_dir=folder).allocate_tensors()


def test_an_error_that_the_caller_handles_is_not_the_folders(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            raise OSError(30, "Read-only file system")
        except OSError:
            interpreter = pylite.Interpreter(model_content=network(), cache_dir=folder)
            interpreter.allocate_tensors()
    assert not interpreter._main.plans.problem and len(list(folder.glob("*.plan"))) == 1


def test_a_folder_of_no_use_is_warned_of(tmp_path, monkeypatch):
    """One that does not exist yet is made, and the default folder may be missing."""
    (tmp_path / "file").write_text("")
    with pytest.warns(UserWarning, match="cache_dir='.*file' keeps no plans: Not a directory; give a folder") as caught:
        pylite.Interpreter(model_content=network(), cache_dir=tmp_path / "file")
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pylite.Interpreter(model_content=network(), cache_dir=tmp_path / "new")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
        monkeypatch.delenv("PYLITE_CACHE_DIR")
        pylite.Interpreter(model_content=network(), cache_dir=default_folder())
    (tmp_path / "other").write_text("")
    monkeypatch.setenv("PYLITE_CACHE_DIR", str(tmp_path / "other"))
    with pytest.warns(UserWarning, match="PYLITE_CACHE_DIR='.*other' keeps no plans: Not a directory; give a folder"):
        pylite.Interpreter(model_content=network())
