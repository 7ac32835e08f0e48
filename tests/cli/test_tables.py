"""Tables, in terminals of every width and in pipes: no word is lost, no row is folded that has room below it."""
import collections
import itertools
import re

import numpy as np
import pytest

from pylite import cli
from pylite.cli import _format
from pylite.media import models
from pylite.schema import read, write
from pylite.validation.agreement import Agreement, Difference

PICTURES = str(models.sample("seven").parent)
ESCAPE = re.compile(r"\x1b\[[\d;?]*[A-Za-z]")


def inspected(capsys):
    assert cli.main(["inspect", "digits", "--tensors"]) == 0
    return capsys.readouterr().out


def test_tables_are_the_same_on_a_terminal(capsys, monkeypatch, request):
    monkeypatch.setenv("COLUMNS", "400")
    plain = inspected(capsys)
    request.getfixturevalue("terminal")
    monkeypatch.setenv("COLUMNS", "400")
    coloured = inspected(capsys)
    assert "\x1b[1m" in coloured
    assert ESCAPE.sub("", coloured) == plain


def test_verdicts_at_the_end_of_a_row_have_colours(terminal):
    lines = _format.table(("node", "verdict"), [(1, "faster"), (2, "slower"), (3, "only now")], ("node",))
    assert lines[1:] == ["   1  \x1b[32mfaster\x1b[0m", "   2  \x1b[31mslower\x1b[0m", "   3  only now"]


def test_narrow_terminals_lose_no_letters(capsys, terminal, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    lines = [ESCAPE.sub("", line) for line in _format.table(("name", "n"), [("abcdefghij" * 6, 7)], ("n",))]
    assert all(len(line) <= 40 for line in lines)
    assert "".join(lines[1:]).replace(" ", "").replace("7", "") == "abcdefghij" * 6


@pytest.mark.parametrize("command", [
    ["cache", "list"], ["report", "digits", "--seconds", "0.01"], ["bench", "digits", "--seconds", "0.01"],
    ["inspect", "digits", "--tensors"], ["inspect", "digits"], ["ops"], ["ops", "CONV_2D"],
    ["run", "digits", "--input", "seven"], ["validate", "digits", "--reference", "digits", "--data", PICTURES]])
def test_each_command_has_the_option_that_its_tables_name(capsys, monkeypatch, tmp_path, command):
    monkeypatch.setenv("PYLITE_CACHE_DIR", str(tmp_path / "cache"))
    cli.main(["compile", "digits"])
    monkeypatch.setenv("COLUMNS", "30")
    capsys.readouterr()
    assert cli.main(command) == 0
    if "(--verbose" in capsys.readouterr().out or command[0] == "cache":
        assert cli.main([*command, "--verbose"]) == 0
        assert "(--verbose" not in capsys.readouterr().out


@pytest.mark.parametrize("columns", [60, 80, 100])
@pytest.mark.parametrize("command", [["report", "--seconds", "0.01"], ["bench", "--seconds", "0.01"], ["inspect"]])
def test_tables_fit_the_terminal(capsys, terminal, monkeypatch, command, columns):
    """Columns that do not fit are named, and come with --verbose."""
    monkeypatch.setenv("COLUMNS", str(columns))
    texts = []
    for verbose in [], ["--verbose"]:
        assert cli.main([command[0], "digits", *command[1:], *verbose]) == 0
        texts.append(ESCAPE.sub("", capsys.readouterr().out))
        first = next(i for i, line in enumerate(texts[-1].splitlines()) if line.startswith("node"))
        assert max(map(len, texts[-1].splitlines()[first:first + 11])) <= columns
    assert ("(--verbose shows" in texts[0]) == ("kernels" not in re.search(r"^node.*", texts[0], re.M)[0])
    assert "(--verbose shows" not in texts[1]


@pytest.fixture
def data(tmp_path):
    """Ten pictures for `digits` with labels, some of them wrong."""
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "d.npz", image=rng.uniform(0, 1, (10, 8, 8, 1)).astype(np.float32), labels=np.arange(10))
    spoil(tmp_path / "spoiled.tflite")
    return tmp_path


def spoil(path):
    """`digits` with wrong weights in one node."""
    model = read(models.path("digits").read_bytes())
    weights = next(t for t in model.subgraphs[0].tensors if t.name == "trunk/4/weights")
    weights.quantization.scale = weights.quantization.scale * np.float32(1.5)
    path.write_bytes(write(model))


@pytest.mark.parametrize("columns", [46, 70])
@pytest.mark.parametrize("options", [
    [], ["--local-samples", "0"], ["--accuracy"], ["--sensitivity", "--target", "15dB"],
    ["--repair", "r.tflite"]], ids=" ".join)
def test_tables_of_validate_fit_the_terminal(capsys, terminal, monkeypatch, data, options, columns):
    monkeypatch.chdir(data)
    given = ["validate", "spoiled.tflite", "--data", "d.npz", "--reference", "digits"]
    tables = []

    def recorded(*arguments, **options):
        lines = shown(*arguments, **options)
        tables.append([ESCAPE.sub("", line) for line in lines])
        return lines
    shown = _format.table
    monkeypatch.setattr(_format, "table", recorded)
    monkeypatch.setenv("COLUMNS", str(columns))
    for verbose in [], ["--verbose"]:
        tables.clear()
        capsys.readouterr()
        assert cli.main([*given, *options, *verbose]) in (0, 1)
        assert len(tables) == 1 + (options == ["--accuracy"])
        out = ESCAPE.sub("", capsys.readouterr().out)
        for lines in tables:
            assert len(lines) > 3 and max(map(len, lines)) <= columns
            assert "\n".join(lines) in out
    assert "(--verbose shows" not in out


def test_differences_fit_the_terminal(terminal, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    differences = [Difference(node, "DEPTHWISE_CONV_2D", node, "y", 0, 3, 200, 2.0, {-1: 100, 2: 100})
                   for node in (4, 11)]
    first, *lines = Agreement("m.tflite", "litert", 3, 12, differences).lines(10, _format.table)
    assert "node 4 (DEPTHWISE_CONV_2D, 'y') is the first of 2" in first
    assert len(lines) > 4 and max(len(ESCAPE.sub("", line)) for line in lines) <= 40


def test_a_pipe_gets_100_columns_or_what_columns_says(capsys, monkeypatch):
    rows = [("a" * 90, "b c" * 10)]
    monkeypatch.delenv("COLUMNS", raising=False)
    assert _format.table(("x", "y"), rows, (), ("y",)) == ["x", "a" * 90, "(--verbose shows y)"]
    monkeypatch.setenv("COLUMNS", "200")
    assert _format.table(("x", "y"), rows, (), ("y",)) == ["x" + " " * 91 + "y", "a" * 90 + "  " + "b c" * 10]
    monkeypatch.setenv("COLUMNS", "20")
    assert max(map(len, _format.table(("x", "y"), rows, (), ("y",), verbose=True))) == 20


@pytest.mark.parametrize("command", [["ops", "CAST"], ["inspect", "digits", "--tensors"],
                                     ["inspect", "digits", "--verbose"],
                                     ["report", "digits", "--seconds", "0.01", "--verbose"]])
def test_lists_and_tables_in_a_pipe_are_no_wider_than_100_columns(capsys, monkeypatch, command):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert cli.main(command) == 0
    path = str(models.path("digits"))       # shown whole with --verbose
    assert max(len(line) for line in capsys.readouterr().out.splitlines() if not line.startswith(path)) <= 100


@pytest.mark.parametrize("columns", [41, 38, 35])
def test_narrow_columns_keep_words_and_numbers(monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    rows = [("DEPTHWISE_CONV_2D", "filter 2, stride 2, SAME", "9.22 k")]
    text = "\n".join(lines := _format.table(("op", "settings", "MAC"), rows, ("MAC",)))
    assert max(map(len, lines)) <= columns
    assert all(word in text for word in ("DEPTHWISE_CONV_2D", "filter", "stride", "SAME", "9.22 k", "settings"))


@pytest.mark.parametrize("columns", ["1", "20", "40", "80"])
def test_a_narrow_terminal_gets_all_columns(terminal, capsys, monkeypatch, columns):
    """Words may be folded, and headers are repeated below each row."""
    monkeypatch.setenv("COLUMNS", columns)
    narrow = collections.Counter("".join(ESCAPE.sub("", inspected(capsys)).split()))
    monkeypatch.setenv("COLUMNS", "400")
    assert collections.Counter("".join(ESCAPE.sub("", inspected(capsys)).split())) <= narrow


@pytest.mark.parametrize("columns", [60, 80, 100, 160])
@pytest.mark.parametrize("command", [["inspect", "--verbose"], ["inspect", "--tensors"],
                                     ["report", "--seconds", "0.01", "--verbose"],
                                     ["bench", "--seconds", "0.01", "--verbose"]])
@pytest.mark.parametrize("pipe", [True, False])
def test_no_row_of_a_verbose_table_is_folded(capsys, monkeypatch, request, command, columns, pipe):
    """A node has one line of columns; what does not fit stands below with its header, no word broken."""
    if not pipe:
        request.getfixturevalue("terminal")
    monkeypatch.setenv("COLUMNS", str(columns))
    assert cli.main([command[0], "digits", *command[1:]]) == 0
    lines = ESCAPE.sub("", capsys.readouterr().out).splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith("node  "))
    table = list(itertools.takewhile(bool, lines[begin + 1:]))
    assert max(map(len, table)) <= columns
    below = [line for line in table if re.match(r" {6}\w[\w ]*: | {8}\w", line)]
    rows = [line for line in table if line not in below]
    numbers = [int(row[:4]) for row in rows if " rest " not in row]
    assert numbers == sorted(set(numbers)) and len(numbers) > 5
    assert re.search(r"\bconv\.Conv\w+", " ".join([*rows, *below]))


def test_cells_without_room_follow_their_row(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    rows = [(1, "CONV_2D", "stride 2, SAME", "packed once; every line by itself, at any length", "885 k"),
            (2, "SOFTMAX", "", "", "")]
    assert _format.table(("node", "op", "settings", "chosen", "MAC"), rows, ("node", "MAC"),
                         ("chosen", "MAC", "settings"), verbose=True) == [
        "node  op       settings          MAC",
        "   1  CONV_2D  stride 2, SAME  885 k",
        "      chosen: packed once; every line by",
        "        itself, at any length",
        "   2  SOFTMAX"]


def test_rounded_numbers_have_no_exponent():
    assert [_format.rounded(v) for v in (0.1234, 12.34, 999.6, 12345, 0.0)] == ["0.123", "12.3", "1000", "12300", "0"]
    assert [_format.seconds(v) for v in (9.996e-4, 0.0123, 1234.0)] == ["1000 us", "12.3 ms", "1230 s"]
