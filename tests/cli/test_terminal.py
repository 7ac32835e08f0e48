"""What a terminal gets: colours, sentences of its width, progress; and the same words without them."""
import argparse
import contextlib
import json
import os
import re
import shlex
import subprocess
import sys
from xml.dom import minidom

import numpy as np
import pytest
from _pytest.capture import CaptureIO

from pylite import cli
from pylite.cli import _limits, _terminal
from pylite.media import models
from pylite.schema.builder import ModelBuilder

ESCAPE = re.compile(r"\x1b\[[\d;?]*[A-Za-z]")


@pytest.fixture
def without_rich(monkeypatch):
    for name in ("rich", "rich.console", "rich.table", "rich.text", "rich.progress"):
        monkeypatch.setitem(sys.modules, name, None)


def inspected(capsys):
    assert cli.main(["inspect", "digits", "--tensors"]) == 0
    return capsys.readouterr().out


def test_a_pipe_gets_plain_text(capsys):
    assert "\x1b" not in inspected(capsys)


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_no_colours(capsys, terminal, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    assert "\x1b" not in inspected(capsys)


def test_an_empty_no_color_is_none(capsys, terminal, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "")
    assert "\x1b" in inspected(capsys)


def test_an_explained_word_has_its_explanation_in_one_column(capsys, terminal, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    line = "  signature     serving_default(input: int8[1, 8, 8, 1]) -> probabilities: int8[1, 10]"
    first, *more = _terminal.shown([line])
    assert first.startswith("  signature     serving_default") and more
    assert all(each.startswith(" " * 16) and each[16] != " " and len(each) <= 40 for each in more)


@pytest.mark.parametrize("command", [["run", "digits", "--input", "sevne"], ["run", "digits", "--inptu", "seven"],
                                     ["validate", "digits"], ["ops", "conv2"],
                                     *(["help", verb] for verb in ("bench", "inspect", "ops", "report", "run")),
                                     ["validate", "--help"]])
def test_errors_and_help_are_no_wider_than_the_terminal(capsys, terminal, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "60")
    with contextlib.suppress(SystemExit):
        cli.main(command)
    printed = capsys.readouterr()
    lines = ESCAPE.sub("", printed.err + printed.out).splitlines()
    assert lines and max(map(len, lines)) <= 60


def test_json_is_never_broken(capsys, terminal, monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    for command in ["inspect"], ["run", "--input", "seven"], ["report", "--seconds", "0.01"]:
        assert cli.main([command[0], "digits", *command[1:], "--json"]) == 0
        assert isinstance(json.loads(capsys.readouterr().out), dict)


def test_sentences_are_broken_between_words(capsys, terminal, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    samples = str(models.sample("seven").parent)
    assert cli.main(["validate", "digits", "--reference", "digits", "--data", samples, "--mean", "0", "--std", "255",
                     "--samples", "4"]) == 0
    coloured = capsys.readouterr().out.splitlines()
    lines = [ESCAPE.sub("", line) for line in coloured]
    assert max(map(len, lines)) <= 40
    verdict = next(i for i, line in enumerate(lines) if line.startswith("Good: the error of the output is"))
    assert coloured[verdict].startswith("\x1b[32m") and " ".join(lines[verdict:verdict + 9]).startswith(
        "Good: the error of the output is") and "No node adds more noise than rounding explains." in " ".join(
        lines[verdict:verdict + 9])
    assert lines[verdict + 1] and lines[verdict + 1][0] != " "


@pytest.mark.parametrize("command", [["inspect"], ["inspect", "--compat"], ["report", "--seconds", "0.01"],
                                     ["bench", "--seconds", "0.01"]])
def test_headings_name_files_without_folders(capsys, tmp_path, command):
    folder = tmp_path / ("folder" * 10)
    folder.mkdir()
    long = "a" * 40 + "b" * 40 + ".tflite"
    for name, shown in (("m.tflite", "m.tflite"), (long, "a" * 22 + "..." + "b" * 18 + ".tflite")):
        (folder / name).write_bytes(models.path("digits").read_bytes())
        heads = []
        for verbose in [], ["--verbose"]:
            assert cli.main([command[0], str(folder / name), *command[1:], *verbose]) == 0
            heads.append(next(line for line in capsys.readouterr().out.splitlines() if ".tflite" in line))
        assert heads[0].startswith((shown + ":", shown + ","))
        assert heads[1].startswith(str(folder / name))


@pytest.mark.parametrize(("arguments", "file"), [
    (["run", "digits", "--input", "seven", "--output"], "o.npz"), (["inspect", "digits", "--graph"], "g.svg"),
    (["resolver", "digits", "--output"], "r.py"), (["bench", "digits", "--seconds", "0.01", "--trace"], "t.json"),
    (["report", "digits", "--seconds", "0.01", "--explorer"], "e.json"),
    (["validate", "digits", "--data", "x.npy", "--record"], "r.npz"),
    (["validate", "digits", "--data", "x.npy", "--reference", "digits", "--save"], "s.npz"),
    (["validate", "digits", "--data", "x.npy", "--reference", "digits", "--junit"], "j.xml")])
def test_every_command_says_what_it_wrote(capsys, tmp_path, monkeypatch, arguments, file):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.zeros((3, 1, 8, 8, 1), np.float32))
    assert cli.main([*arguments, file]) == 0
    assert os.path.exists(file) and f"wrote {file}\n" in capsys.readouterr().err


def test_verdicts_and_warnings_have_colours(capsys, terminal, without_rich):
    assert list(_terminal.shown(["warning: hot", "slower: 2", "a: faster"])) == [
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


# ---- names of files and tensors, which may have any character ------------------------------------------------------
def named(tmp_path, *names):
    """A model whose outputs have these names."""
    m = ModelBuilder()
    x = m.tensor("x", (1, 3))
    outputs = [m.tensor(name, (1, 3)) for name in names]
    for place, y in enumerate(outputs):
        m.operator("NEG" if place % 2 else "ABS", [x], [y])
    m.inputs([x])
    m.outputs(outputs)
    path = tmp_path / "m.tflite"
    path.write_bytes(m.build())
    return str(path)


@pytest.mark.parametrize("command", [["inspect"], ["inspect", "--tensors"], ["run", "--zeros"],
                                     ["report", "--seconds", "0.01"]])
def test_names_send_no_commands_to_a_terminal(tmp_path, terminal, capsys, command):
    """Such as to change its title, to clear it or to delete characters; colours are those of pylite."""
    path = named(tmp_path, "\x1b[2Jname\x08\x9b\x1b]0;title\x07", "\x1b")
    assert cli.main([command[0], path, *command[1:]]) == 0
    out = capsys.readouterr().out
    assert re.search(r"[^\n -~]", re.sub(r"\x1b\[[\d;]*m", "", out)) is None
    assert r"\x1b" in out
    assert type(sys.stdout) is not _terminal.Guarded


def test_errors_send_no_commands_to_a_terminal(tmp_path, terminal, capsys):
    path = named(tmp_path, "\x1b[2J")
    assert cli.main(["run", path, "--input", "\x1b[2J=x.npy"]) == 2
    assert "\x1b[2J" not in capsys.readouterr().err


def test_pictures_of_graphs_and_reports_of_tests_are_xml_whatever_the_names(tmp_path):
    path = named(tmp_path, "\x1b\x01<&\"'", "two\nlines")
    for name in "g.svg", "g.mmd":
        assert cli.main(["inspect", path, "--graph", str(tmp_path / name)]) == 0
    assert r"\x1b\x01<&" in minidom.parse(str(tmp_path / "g.svg")).documentElement.toxml().replace("&lt;", "<")
    assert '["two lines<br>output"]' in (tmp_path / "g.mmd").read_text()
    arguments = argparse.Namespace(junit=tmp_path / "j.xml")
    assert _limits.finish(arguments, path, {"node \x1b[2J": ["\x00"], "two": []}) == 1
    cases = minidom.parse(str(arguments.junit)).getElementsByTagName("testcase")
    assert [case.getAttribute("name") for case in cases] == [r"node \x1b[2J", "two"]


def process(*arguments, **options):
    return subprocess.run([sys.executable, "-P", "-m", "pylite", *arguments], capture_output=True, check=False,
                          **options)


@pytest.mark.parametrize("encoding", ["ascii", "utf-8", "latin-1"])
def test_names_that_the_encoding_lacks(tmp_path, encoding):
    """Also names of files that are not UTF-8."""
    path = os.fsencode(named(tmp_path, "名前"))
    odd = os.path.join(os.path.dirname(path), b"m\xff.tflite")
    os.rename(path, odd)
    done = process("inspect", odd, env={**os.environ, "PYTHONIOENCODING": encoding + ":strict"})
    assert (done.returncode, done.stderr) == (0, b"")
    assert rb"m\udcff.tflite" in done.stdout


@pytest.mark.parametrize("arguments", [["--version"], ["ops"]])
def test_a_full_or_closed_output_gives_one_line(arguments):
    with open("/dev/full", "wb") as full:
        done = subprocess.run([sys.executable, "-P", "-m", "pylite", *arguments], stdout=full, stderr=subprocess.PIPE,
                              check=False)
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)
    assert b"No space left" in done.stderr
    read, write = os.pipe()
    os.close(read)
    with open(write, "wb") as closed:
        done = subprocess.run([sys.executable, "-P", "-m", "pylite", *arguments], stdout=closed, stderr=subprocess.PIPE,
                              check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_everything_runs_with_a_closed_error_stream():
    files = str(models.sample("seven")), "nowhere.npy"
    command = f"exec {shlex.join([sys.executable, '-P', '-m', 'pylite', 'run', 'digits', *files, '--csv'])} 2>&-"
    done = subprocess.run(["sh", "-c", command], stdout=subprocess.PIPE, check=False)
    assert done.returncode == 1
    assert done.stdout.count(b"\n") == 7


@pytest.mark.parametrize(("arguments", "order"), [
    (["help"], ["run ", "inspect ", "bench ", "report ", "validate ", "cache "]),
    (["help", "validate"], ["compare with:", "--reference", "samples:", "--data", "accuracy:", "a better model:",
                            "--repair", "results:", "limits:", "many samples:"]),
    (["help", "run"], ["inputs:", "--input", "answers:", "--labels"])])
def test_help_has_an_order(capsys, arguments, order):
    with contextlib.suppress(SystemExit):
        cli.main(arguments)
    options = capsys.readouterr().out.partition("\noptions:" if len(arguments) > 1 else "commands")[2]
    places = [options.index(f"  {word}" if word[0] == "-" or word[-1] == " " else f"\n{word}") for word in order]
    assert places == sorted(places)


def test_styles_of_a_name_do_not_hide_the_rest(capsys):
    """Concealed text, or black on black: only pylite's own colours pass."""
    guarded = _terminal.Guarded(sys.stdout)
    guarded.write("a\x1b[8mb\x1b[30;40mc \x1b[31md\x1b[0m\n")
    assert capsys.readouterr().out == "a\\x1b[8mb\\x1b[30;40mc \x1b[31md\x1b[0m\n"
