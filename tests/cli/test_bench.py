"""`pylite bench`: consistent sums, and warnings about unreliable measurements.  Times themselves are not tested."""
import json
from pathlib import Path

import pytest

from pylite import cli
from pylite.cli import _board


def bench(capsys, *arguments):
    assert cli.main(["bench", "digits", "--seconds", "0.02", *arguments]) == 0
    return capsys.readouterr().out


def test_report(capsys):
    report = json.loads(bench(capsys, "--json"))
    times = report["latency"]
    assert 0 < times["least"] <= times["median"] <= times["p95"]
    assert times["runs"] >= 5
    assert report["memory"]["arena"] > 0
    assert report["memory"]["packed"] > 0
    assert report["memory"]["peak_rss"] > 1_000_000
    nodes = report["nodes"]
    assert [n["node"] for n in nodes] == sorted({n["node"] for n in nodes})
    assert nodes[0]["name"] == "CONV_2D"
    assert nodes[0]["kernels"] == ["conv.ConvQ8"]
    assert nodes[0]["macs"] > 0
    ends = [n["start"] + n["seconds"] for n in nodes]
    assert [n["start"] for n in nodes[1:]] == pytest.approx(ends[:-1])


def test_table(capsys):
    text = bench(capsys, "--top", "2", "--threads", "2")
    assert "2 thread(s)" in text
    assert "median" in text
    table = text[text.index("node  op"):].split("\n\n")[0].splitlines()
    assert len(table) == 3


def test_data_dependent_shapes(capsys):
    """The nodes of all segments are timed, each on the shapes that the previous one computed, and those in between."""
    model = Path(__file__).parents[1] / "converted" / "masked.tflite"
    assert cli.main(["bench", str(model), "--seconds", "0.02", "--json"]) == 0
    names = [node["name"] for node in json.loads(capsys.readouterr().out)["nodes"]]
    assert names == ["SUM", "GREATER", "WHERE", "GATHER", "MEAN"]


def test_trace(capsys, tmp_path):
    file = tmp_path / "trace.json"
    bench(capsys, "--trace", str(file))
    trace = json.loads(file.read_text())
    assert trace["otherData"]["threads"] == 1
    assert all(event["ph"] == "X" and event["dur"] >= 0 for event in trace["traceEvents"])
    assert trace["traceEvents"][0]["name"] == "CONV_2D 0"


def test_wrong_arguments(capsys):
    assert cli.main(["bench", "digits", "--shape", "image"]) == 2
    assert "INPUT=N,N" in capsys.readouterr().err
    assert cli.main(["bench", "digits", "--shape", "nothing=1,2"]) == 2
    assert "no input is called 'nothing'" in capsys.readouterr().err


def test_a_trace_that_cannot_be_written_is_an_error(capsys, tmp_path):
    assert cli.main(["bench", "digits", "--seconds", "0.02", "--trace", str(tmp_path / "no" / "trace.json")]) == 2
    assert "No such file" in capsys.readouterr().err


def test_warnings_about_unreliable_measurements():
    quiet = {"load": 0.0, "clock": 1_500_000, "temperature": 50.0, "throttled": 0}
    assert _board.doubts(quiet, quiet, 1) == [d for d in _board.doubts(quiet, quiet, 1) if "governor" in d]
    hot = {"load": 3.0, "clock": 600_000, "temperature": 85.0, "throttled": 0b1100}
    text = " | ".join(_board.doubts(quiet | {"load": 1000.0}, hot, 1000))
    for part in ("1000 threads share", "load 1000.0", "fell from 1500 to 600 MHz", "throttled (at 85.0 degrees)",
                 "temperature limit"):
        assert part in text
