"""`pylite bench`: consistent sums, and warnings about unreliable measurements.  Times themselves are not tested."""
import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from pylite import cli
from pylite._core import simd
from pylite.cli import _against, _board, _timing
from pylite.interpreter import Interpreter
from pylite.media import models
from pylite.plugins import resolver
from pylite.schema.builder import ModelBuilder


def bench(capsys, *arguments):
    assert cli.main(["bench", "digits", "--seconds", "0.02", *arguments]) == 0
    return capsys.readouterr().out


def test_an_input_has_the_name_of_its_tensor_and_of_the_signature(capsys):
    for name in "image", "input":
        report = json.loads(bench(capsys, "--json", "--shape", f"{name}=2,8,8,1"))
        assert report["nodes"]


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
    assert sum(n["seconds"] for n in nodes) + report["rest"] == pytest.approx(times["median"])


def test_table(capsys):
    text = bench(capsys, "--top", "2", "--threads", "2")
    assert "2 threads" in text
    assert "median" in text
    table = text[text.index("node  op"):].split("\n\n")[0].splitlines()
    assert [line.split()[0] for line in table[-2:]] == ["7", "rest"]
    assert len(table) == 5
    shares = [float(word.rstrip("%")) for line in table[1:] for word in line.split() if word.endswith("%")]
    assert sum(shares) == pytest.approx(100, abs=0.3)


def test_nodes_without_work_are_named(capsys):
    assert json.loads(bench(capsys, "--json"))["idle"] == [{"node": 7, "name": "RESHAPE"}]
    assert bench(capsys).endswith("\n\n1 node has no work at run time (RESHAPE)\n")


def test_what_rounding_leaves_is_no_rest(monkeypatch):
    """Where the nodes take all of the time, they are scaled down to it."""
    monkeypatch.setattr(_timing, "_nodes", lambda *_: [{"node": i, "seconds": i / 10} for i in range(1, 4)])
    interpreter, _, _ = _timing.started(models.path("digits"), 1, {}, seed=0, delegates=[])
    assert _timing.measured(interpreter, 0.01)[2] == 0


def test_a_sleep_is_in_the_time_of_its_node(capsys, tmp_path):
    (tmp_path / "ops.py").write_text("import pylite, time\n@pylite.custom_op('Sleeps')\ndef f(x, y): time.sleep(2e-3)\n"
                                     "@pylite.custom_op('Copies')\ndef g(x, y): y[...] = x\n")
    m = ModelBuilder()
    x, y, z = (m.tensor(name, (3,)) for name in "xyz")
    m.operator("Sleeps", [x], [y], custom_options=b"")
    m.operator("Copies", [y], [z], custom_options=b"")
    m.inputs([x])
    m.outputs([z])
    (tmp_path / "model.tflite").write_bytes(m.build())
    arguments = ["bench", str(tmp_path / "model.tflite"), "--ops", str(tmp_path / "ops.py"), "--seconds", "0.05"]
    try:
        assert cli.main([*arguments, "--json"]) == 0
    finally:
        resolver.registered._entries.clear()
    report = json.loads(capsys.readouterr().out)
    assert [node["name"] for node in report["nodes"]] == ["Sleeps", "Copies"]
    assert report["nodes"][0]["seconds"] >= 2e-3 and report["latency"]["least"] >= 2e-3


@pytest.mark.parametrize("command", ["bench", "report"])
def test_a_model_that_random_numbers_do_not_fit_is_measured_on_zeros(capsys, tmp_path, command):
    """Such as one that looks up words, whose numbers come as floats."""
    m = ModelBuilder()
    x, words, y = m.tensor("x", (64,)), m.tensor("words", (64,), "int32"), m.tensor("y", (64, 2))
    m.operator("CAST", [x], [words])
    m.operator("GATHER", [m.constant("table", np.ones((2, 2), np.float32)), words], [y])
    m.inputs([x])
    m.outputs([y])
    (tmp_path / "m.tflite").write_bytes(m.build())
    assert cli.main([command, str(tmp_path / "m.tflite"), "--seconds", "0.01"]) == 0
    out = capsys.readouterr().out
    assert "warning: the inputs are zeros: with random numbers, node 1 GATHER failed" in out and "median" in out


def test_data_dependent_shapes(capsys):
    """The nodes of all segments are timed, each on the shapes that the previous one computed, and those in between."""
    model = Path(__file__).parents[1] / "models" / "converted" / "masked.tflite"
    assert cli.main(["bench", str(model), "--seconds", "0.02", "--json"]) == 0
    names = [node["name"] for node in json.loads(capsys.readouterr().out)["nodes"]]
    assert names == ["SUM", "GREATER", "WHERE", "GATHER", "MEAN"]


# The parts of the Trace Event Format that viewers need of the two kinds of events used here.
COMMON = {"name": {"type": "string", "minLength": 1}, "pid": {"type": "integer"}, "tid": {"type": "integer"},
          "args": {"type": "object"}}
TRACE = {
    "type": "object", "required": ["traceEvents"], "additionalProperties": False, "properties": {
        "displayTimeUnit": {"enum": ["ms", "ns"]}, "otherData": {"type": "object"},
        "traceEvents": {"type": "array", "minItems": 1, "items": {"oneOf": [
            {"type": "object", "required": ["name", "ph", "pid", "tid", "ts", "dur"], "additionalProperties": False,
             "properties": COMMON | {"ph": {"const": "X"}, "cat": {"type": "string"},
                                     "ts": {"type": "number", "minimum": 0}, "dur": {"type": "number", "minimum": 0}}},
            {"type": "object", "required": ["name", "ph", "pid", "tid", "args"], "additionalProperties": False,
             "properties": COMMON | {
                 "ph": {"const": "M"}, "name": {"enum": ["process_name", "thread_name"]},
                 "args": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}}}]}}}}


def nested(events):
    """Does each event of a thread end before the next begins, or lie within it?"""
    open_until = []
    for event in sorted(events, key=lambda e: (e["ts"], -e["dur"])):
        while open_until and open_until[-1] <= event["ts"] + 1e-6:
            open_until.pop()
        end = event["ts"] + event["dur"]
        if open_until and end > open_until[-1] + 1e-6:
            return False
        open_until.append(end)
    return True


def complete(trace, category):
    return [event for event in trace["traceEvents"] if event.get("cat") == category]


@pytest.mark.parametrize("threads", [1, 3])
def test_the_trace_is_the_timeline_of_one_run(capsys, tmp_path, threads):
    """invoke(), in it each node in order, and in these the ranges of all threads, which cover their loops."""
    m = ModelBuilder()
    x, y, z = (m.tensor(name, (1, 64, 64, 16)) for name in "xyz")
    m.operator("ADD", [x, m.constant("c", np.ones((1, 64, 64, 16), np.float32))], [y])
    m.operator("SOFTMAX", [y], [z], beta=1.0)
    m.inputs([x])
    m.outputs([z])
    (tmp_path / "model.tflite").write_bytes(m.build())
    file = tmp_path / "trace.json"
    assert cli.main(["bench", str(tmp_path / "model.tflite"), "--seconds", "0.02", "--threads", str(threads),
                     "--trace", str(file)]) == 0
    trace = json.loads(file.read_text())
    jsonschema.validate(trace, TRACE)
    assert trace["otherData"]["threads"] == threads
    (invoke,), nodes, ranges = complete(trace, "invoke"), complete(trace, "node"), complete(trace, "range")
    assert [node["name"] for node in nodes] == ["ADD 0", "SOFTMAX 1"]
    assert sum(node["dur"] for node in nodes) <= invoke["dur"]
    for thread in range(threads):
        assert nested([e for e in trace["traceEvents"] if e["ph"] == "X" and e["tid"] == thread])
    assert bool(ranges) == (threads > 1)
    for name in {r["name"] for r in ranges}:
        node = next(n for n in nodes if n["name"] == name)
        own = sorted((r for r in ranges if r["name"] == name), key=lambda r: r["args"]["items"])
        assert all(node["ts"] <= r["ts"] and r["ts"] + r["dur"] <= node["ts"] + node["dur"] + 1e-6 for r in own)
        items = [r["args"]["items"] for r in own]
        assert items[0][0] == 0 and [i[0] for i in items[1:]] == [i[1] for i in items[:-1]]


def test_a_timeline_with_more_ranges_than_room_is_recorded_again():
    """The room of the first attempt is too small for a loop of many iterations."""
    class Pool:
        sizes, recorded = [], 5000

        def record(self, rows):
            if rows is not None:
                self.sizes.append(len(rows))

    interpreter = Interpreter(models.path("digits"))
    interpreter.allocate_tensors()
    interpreter._pool = pool = Pool()
    _, ranges = _timing.timeline(interpreter, runs=1)
    assert pool.sizes == [4096, 10000] and len(ranges) == 5000


def test_against_a_report(capsys, tmp_path):
    """Ratios and verdicts of reports whose times are known; nodes of one of them alone; what else differs."""
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text(bench(capsys, "--json"))
    report = json.loads(old.read_text())
    report["latency"] |= {"median": 1.0, "noise": 0.02}
    report["doubts"] = ["the inputs are zeros: no doubt about the times"]
    for node in report["nodes"]:
        node |= {"seconds": 0.1, "noise": 0.02}
    old.write_text(json.dumps(report))
    first, second, third = report["nodes"][:3]
    first["seconds"], second["seconds"], third["name"] = 0.2, 0.099, "OTHER"
    report["latency"] |= {"median": 0.8, "noise": 0.03}
    report["threads"] = 4
    new.write_text(json.dumps(report))
    assert cli.main(["bench", str(new), "--against", str(old), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["against"]
    assert found["ratio"] == pytest.approx(0.8) and found["noise"] == pytest.approx(0.05)
    assert found["verdict"] == "faster"
    assert [row.get("verdict") for row in found["nodes"][:4]] == ["slower", "same", None, "same"]
    assert found["nodes"][2]["old"] is None and found["nodes"][-1] == {
        "node": 2, "name": "CONV_2D", "new": None, "old": 0.1}
    assert found["differences"] == ["threads: 1 before, 4 now"]
    assert cli.main(["bench", str(new), "--against", str(old)]) == 0
    text = capsys.readouterr().out
    assert "faster: 0.800 of the time before, noise 0.050" in text
    assert "only now" in text and "only before" in text and "not the same threads: 1 before, 4 now" in text
    assert cli.main(["bench", str(old), "--against", str(old)]) == 0
    assert "no difference beyond the noise: ratio 1.000" in capsys.readouterr().out


def test_times_in_doubt_give_no_verdict(capsys, tmp_path):
    quiet = json.loads(bench(capsys, "--json")) | {"doubts": []}
    quiet["latency"] |= {"median": 1.0, "noise": 0.0}
    busy = quiet | {"doubts": ["timings vary by 30%"], "latency": quiet["latency"] | {"median": 1.5}}
    alike = quiet | {"latency": quiet["latency"] | {"median": 1.02}}
    for name, report in (("quiet", quiet), ("busy", busy), ("alike", alike)):
        (tmp_path / f"{name}.json").write_text(json.dumps(report))
    for one, other, when, ratio in (("busy", "quiet", "now", "1.500"), ("quiet", "busy", "before", "0.667")):
        assert cli.main(["bench", str(tmp_path / f"{one}.json"), "--against", str(tmp_path / f"{other}.json")]) == 0
        text = capsys.readouterr().out
        assert f"no verdict, since times are in doubt ({when}: timings vary by 30%): {ratio} of the time before" in text
        assert "slower" not in text and "faster" not in text
    assert cli.main(["bench", str(tmp_path / "alike.json"), "--against", str(tmp_path / "quiet.json")]) == 0
    assert "no difference beyond the noise: ratio 1.020, noise 0.030" in capsys.readouterr().out


def test_a_measurement_against_a_report(capsys, tmp_path):
    (tmp_path / "old.json").write_text(bench(capsys, "--json"))
    found = json.loads(bench(capsys, "--against", str(tmp_path / "old.json"), "--json"))["against"]
    assert found["differences"] == [] and all(row["ratio"] > 0 for row in found["nodes"])


def test_noise_is_how_far_parts_of_a_measurement_differ():
    assert _timing.noise(np.ones(100)) == 0
    assert _timing.noise(np.linspace(0.9, 1.1, 8000)) == pytest.approx(0.0875, abs=1e-3)      # drift
    assert _timing.noise(np.tile([0.5, 1.0, 1.5], 800)) == 0                                  # spread alone
    assert _timing.noise(np.zeros(10)) == 0


def test_compare_with_litert(capsys):
    pytest.importorskip("ai_edge_litert")
    found = json.loads(bench(capsys, "--compare", "litert", "--json"))["litert"]
    assert found["ratio"] > 0 and found["quartiles"][0] <= found["ratio"] <= found["quartiles"][1]
    assert found["outputs"] == [{"name": "probabilities", "equal": True, "integer": True,
                                 "largest_difference": 0.0}]
    text = bench(capsys, "--compare", "litert")
    assert f"LiteRT {found['version']}" in text and "; probabilities is equal" in text


def test_compare_names_the_package_that_is_missing(capsys, monkeypatch):
    """Before the measurement, and without a word about the model."""
    monkeypatch.setitem(sys.modules, "ai_edge_litert", None)
    monkeypatch.setattr(_timing, "started", None)
    assert cli.main(["bench", "digits", "--seconds", "0.02", "--compare", "litert"]) == 2
    assert "pylite bench: LiteRT is not installed" in (said := capsys.readouterr().err)
    assert "pip install ai-edge-litert" in said


def test_a_model_that_litert_cannot_run_is_measured(capsys, tmp_path):
    pytest.importorskip("ai_edge_litert")
    m = ModelBuilder()
    a, b, y = (m.tensor(name, (4,), "int16", scale=1.0) for name in "aby")
    m.operator("SQUARED_DIFFERENCE", [a, b], [y])
    m.inputs([a, b])
    m.outputs([y])
    (tmp_path / "m.tflite").write_bytes(m.build())
    command = ["bench", str(tmp_path / "m.tflite"), "--seconds", "0.02", "--compare", "litert"]
    assert cli.main(command) == 2
    out, err = capsys.readouterr()
    assert "median" in out and "LiteRT" not in out
    assert "pylite bench: LiteRT fails: SquaredDifference only supports" in err
    assert cli.main([*command, "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["litert"]["problem"].startswith("LiteRT fails")


def test_differences_of_outputs():
    """Of numbers the largest, of strings whether there is one; shapes that differ are different outputs."""
    a = np.array([1, 250], np.uint8)
    assert _against._difference("y", a, np.array([2, 5], np.uint8))["largest_difference"] == 245
    nan = np.array([1, np.nan], np.float32)
    assert _against._difference("y", nan, nan.copy())["equal"]
    words = np.array([b"a", b"b"], object)
    assert _against._difference("y", words, words.copy()) == {"name": "y", "equal": True}
    assert not _against._difference("y", words, np.array([b"a", b"c"], object))["equal"]
    assert _against._difference("y", a, a[:1]) == {"name": "y", "equal": False}


def test_wrong_arguments(capsys, tmp_path):
    (tmp_path / "other.json").write_text('{"nodes": []}')
    for arguments, says in ((["new.json"], "give --against"),
                            (["digits", "--against", str(tmp_path / "other.json")], "not a report of pylite bench"),
                            (["digits", "--against", "nowhere.json"], "No such file")):
        assert cli.main(["bench", *arguments]) == 2
        assert says in capsys.readouterr().err
    assert cli.main(["bench", "digits", "--shape", "image"]) == 2
    assert "INPUT=N,N" in capsys.readouterr().err
    assert cli.main(["bench", "digits", "--shape", "nothing=1,2"]) == 2
    assert "no input is called 'nothing'" in capsys.readouterr().err


LATENCY = {"median": 1, "noise": 0.1}


@pytest.mark.parametrize("text", ["{}", "[]", "[" * 100000, json.dumps({"latency": {"median": "x"}, "nodes": []}), *(
    json.dumps({"machine": {}, "rest": 0, "nodes": [], "latency": LATENCY} | wrong) for wrong in (
        {"machine": 3}, {"nodes": [3]}, {"nodes": [{}]}, {"latency": {"median": "x", "noise": 0}},
        {"latency": {"median": 0, "noise": 0}}))])
def test_reports_that_are_none_are_one_line(capsys, tmp_path, text):
    path = tmp_path / "r.json"
    path.write_text(text)
    assert cli.main(["bench", str(path), "--against", str(path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("pylite bench: ") and "r.json: not a report" in error and error.count("\n") == 1


def test_a_report_without_what_it_shows_is_none(capsys, tmp_path):
    path = tmp_path / "r.json"
    path.write_text(json.dumps({"machine": {}, "rest": 0, "nodes": [], "latency": LATENCY}))
    assert cli.main(["bench", str(path), "--against", str(path)]) == 2
    assert "r.json: not a report" in capsys.readouterr().err


def test_a_trace_that_cannot_be_written_is_an_error(capsys, tmp_path):
    assert cli.main(["bench", "digits", "--seconds", "0.02", "--trace", str(tmp_path / "no" / "trace.json")]) == 2
    assert "No such file" in capsys.readouterr().err


def test_warnings_about_unreliable_measurements():
    quiet = _board.State(load=0.0, clock=1_500_000, temperature=50.0, throttled=0)
    assert _board.doubts(quiet, quiet, 1) == [d for d in _board.doubts(quiet, quiet, 1) if "governor" in d]
    hot = _board.State(load=3.0, clock=600_000, temperature=85.0, throttled=0b1100)
    text = " | ".join(_board.doubts(quiet._replace(load=1000.0), hot, 1000))
    for part in ("1000 threads share", "load 1000.0", "fell from 1500 to 600 MHz", "throttled (at 85.0 degrees)",
                 "temperature limit"):
        assert part in text


def test_a_level_that_the_cpu_lacks_is_one_line():
    done = subprocess.run([sys.executable, "-m", "pylite", "bench", "digits"], capture_output=True, text=True,
                          env={**os.environ, "PYLITE_ISA": "mmx"})
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith(f"pylite bench: PYLITE_ISA='mmx': this CPU has {', '.join(simd.available())}; unset")
