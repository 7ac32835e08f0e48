"""What a terminal gets: colours, rich's tables, progress; and the same words without them."""
import re
import sys

import numpy as np
import pytest
from _pytest.capture import CaptureIO

from pylite import cli
from pylite.cli import _format, _terminal
from pylite.media import models

ESCAPE = re.compile(r"\x1b\[[\d;?]*[A-Za-z]")


@pytest.fixture
def terminal(capsys, monkeypatch):
    """Both streams are terminals."""
    monkeypatch.setattr(CaptureIO, "isatty", lambda stream: True)
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def without_rich(monkeypatch):
    for name in ("rich", "rich.console", "rich.table", "rich.text", "rich.progress"):
        monkeypatch.setitem(sys.modules, name, None)


def inspected(capsys):
    assert cli.main(["inspect", "digits", "--tensors"]) == 0
    return capsys.readouterr().out


def words(text):
    return ESCAPE.sub("", text).split()


def test_a_pipe_gets_plain_text(capsys):
    assert "\x1b" not in inspected(capsys)


def test_the_words_are_the_same_with_rich_and_without(capsys, monkeypatch, request):
    plain = inspected(capsys)
    request.getfixturevalue("terminal")
    pytest.importorskip("rich")
    rich = inspected(capsys)
    request.getfixturevalue("without_rich")
    coloured = inspected(capsys)
    assert "\x1b[1m" in rich and "\x1b[1m" in coloured
    assert words(rich) == words(coloured) == plain.split()
    assert ESCAPE.sub("", coloured) == plain


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_no_colours(capsys, terminal, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    assert "\x1b" not in inspected(capsys)


def test_an_empty_no_color_is_none(capsys, terminal, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "")
    assert "\x1b" in inspected(capsys)


def test_narrow_terminals_lose_no_letters(capsys, terminal, monkeypatch):
    pytest.importorskip("rich")
    monkeypatch.setenv("COLUMNS", "40")
    lines = [ESCAPE.sub("", line) for line in _format.table(("name", "n"), [("abcdefghij" * 6, 7)], ("n",))]
    assert all(len(line) <= 40 for line in lines)
    assert "".join(lines[1:]).replace(" ", "").replace("7", "") == "abcdefghij" * 6


def test_verdicts_and_warnings_have_colours(capsys, terminal, without_rich):
    assert list(_terminal.marked(["warning: hot", "slower: 2", "a: faster"])) == [
        "\x1b[33mwarning: hot\x1b[0m", "\x1b[31mslower: 2\x1b[0m", "a: faster"]


def test_errors_are_red_on_a_terminal(capsys, terminal):
    assert cli.main(["inspect", "nowhere.tflite"]) == 2
    assert capsys.readouterr().err.startswith("\x1b[31mpylite inspect:\x1b[0m Could not open")


@pytest.mark.parametrize("rich", [True, False])
def test_progress(capsys, terminal, request, rich):
    if rich:
        pytest.importorskip("rich")
    else:
        request.getfixturevalue("without_rich")
    with _terminal.Progress("samples") as progress:
        progress.show(1, 4)
        progress.show(3, 4, "a.png")
    text = ESCAPE.sub("", capsys.readouterr().err)
    assert "1 of 4 samples" in text and "3 of 4 samples, 0 s left  a.png" in text


def test_no_progress_in_a_file(capsys):
    with _terminal.Progress("samples") as progress:
        progress.show(1, 4)
    assert capsys.readouterr().err == ""


def test_progress_of_many_files_is_not_between_their_lines(capsys, monkeypatch, terminal, tmp_path):
    """On the terminal that shows the answers there is none; with the answers in a file there is."""
    arguments = ["run", "digits", str(models.sample("seven")), str(models.sample("two"))]
    assert cli.main(arguments) == 0
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(CaptureIO, "isatty", lambda stream: stream is sys.stderr)
    assert cli.main(arguments) == 0
    assert "1 of 2 files" in ESCAPE.sub("", capsys.readouterr().err)


def test_validate_shows_progress(capsys, terminal, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((3, 1, 8, 8, 1), np.float32))
    cli.main(["validate", "digits", "--reference", str(models.path("digits")), "--data", str(tmp_path / "x.npy")])
    assert re.search(r"\d of \d samples", ESCAPE.sub("", capsys.readouterr().err))
