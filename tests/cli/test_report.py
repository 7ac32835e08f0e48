"""`pylite report`: graph, arena and sizes agree with the model and with each other."""
import itertools
import json
import math
from types import SimpleNamespace

import numpy as np
import pytest

from pylite import Model, cli
from pylite.cli import _cost
from pylite.media import models
from pylite.schema import read, write
from pylite.schema.builder import ModelBuilder
from tests.tools import custom_models, resources


def report(capsys, *arguments):
    assert cli.main(["report", *map(str, arguments), "--seconds", "0.02"]) == 0
    return capsys.readouterr().out


def test_json_has_every_node_its_time_and_its_sizes(capsys):
    found = json.loads(report(capsys, "digits", "--json"))
    graph = Model(models.path("digits")).graph.subgraphs[0]
    assert [n["op"] for n in found["nodes"]] == [o.name for o in graph.operators]
    assert [n["name"] for n in found["nodes"]] == [graph.tensors[o.outputs[0]].name for o in graph.operators]
    assert found["nodes"][0]["settings"] == "SAME, RELU" and found["nodes"][0]["kernels"] == "conv.ConvQ8"
    assert found["nodes"][3]["settings"] == "filter 2, stride 2, SAME"
    timed = [n for n in found["nodes"] if n["seconds"] is not None]
    assert len(timed) == 9 and all(n["seconds"] >= 0 for n in timed)
    assert sum(n["seconds"] for n in timed) + found["rest"] == pytest.approx(found["latency"]["median"])
    assert sum(n["weight_bytes"] for n in found["nodes"]) == found["weight_bytes"]
    assert found["macs"] == sum(n["macs"] for n in found["nodes"]) == sum(o["macs"] for o in found["by_op"])
    assert sum(o["count"] for o in found["by_op"]) == len(found["nodes"])


@pytest.mark.parametrize(("op", "shapes", "states", "expected"), [
    ("UNIDIRECTIONAL_SEQUENCE_LSTM", [(2, 5, 3), *[(4, 3)] * 4, *[(4, 4)] * 4, (2, 4)], (9,), 10 * 4 * 4 * (3 + 4)),
    ("UNIDIRECTIONAL_SEQUENCE_LSTM", [(2, 5, 3), None, *[(4, 3)] * 3, None, *[(4, 4)] * 3], (), 10 * 3 * 4 * (3 + 4)),
    ("LSTM", [(2, 3), *[(4, 3)] * 4, *[(4, 4)] * 4], (), 2 * 4 * 4 * (3 + 4)),
    ("LSTM", [(2, 3), (2, 4), (16, 7), (16,), (2, 4)], (1, 4), 2 * 16 * 7),
    ("UNIDIRECTIONAL_SEQUENCE_RNN", [(2, 5, 3), (4, 3), (4, 4), (4,), (2, 4)], (4,), 10 * 4 * 7),
    ("BIDIRECTIONAL_SEQUENCE_RNN", [(2, 5, 3), *[(4, 3), (4, 4), (4,), (2, 4)] * 2], (4, 8), 10 * 2 * 4 * 7),
    ("RNN", [(2, 3), (4, 3), (4, 4), (4,), (2, 4)], (4,), 2 * 4 * 7),
    ("SVDF", [(2, 3), (4, 3), (4, 6), None, (2, 24)], (4,), 2 * 4 * (3 + 6)),
    ("FULLY_CONNECTED", [(2, 3), (4, 3)], (), 2 * 4 * 3)])
def test_products_of_recurrent_ops_count(op, shapes, states, expected):
    values = [None if shape is None else SimpleNamespace(shape=shape, size=math.prod(shape), data=None if i in states
                                                         else shape) for i, shape in enumerate(shapes)]
    node = SimpleNamespace(name=op, inputs=tuple(values), outputs=(SimpleNamespace(shape=(2, 4), size=8),),
                           input=lambda i: values[i] if i < len(values) else None)
    assert _cost.macs(node) == expected


def loop(outside=False):
    """A WHILE whose body multiplies a matrix."""
    m = ModelBuilder()
    x, y = m.tensor("x", (2, 3)), m.tensor("y", (2, 3))
    m.operator("WHILE", [x], [y], cond_subgraph_index=1, body_subgraph_index=2)
    last = y
    if outside:
        last = m.tensor("z", (2, 3))
        m.operator("FULLY_CONNECTED", [y, m.constant("v", np.ones((3, 3), np.float32)), -1], [last])
    m.inputs([x])
    m.outputs([last])
    m.subgraph("condition")
    a, b = m.tensor("a", (2, 3)), m.constant("b", np.bool_(False))
    m.inputs([a])
    m.outputs([b])
    m.subgraph("body")
    c, d = m.tensor("c", (2, 3)), m.tensor("d", (2, 3))
    m.operator("FULLY_CONNECTED", [c, m.constant("w", np.ones((3, 3), np.float32)), -1], [d])
    m.inputs([c])
    m.outputs([d])
    return m.build()


def test_times_of_called_nodes_are_not_those_of_their_op(capsys, tmp_path):
    """One FULLY_CONNECTED is timed, and one runs in the loop: how many were timed stands beside the time."""
    (tmp_path / "loop.tflite").write_bytes(loop(outside=True))
    found = json.loads(report(capsys, tmp_path / "loop.tflite", "--json"))
    by_op = {entry["op"]: entry for entry in found["by_op"]}
    assert by_op["FULLY_CONNECTED"]["count"] == 2 and by_op["FULLY_CONNECTED"]["timed"] == 1
    assert by_op["FULLY_CONNECTED"]["seconds"] > 0 and by_op["WHILE"]["seconds"] > 0
    assert "s (1 of 2 timed)" in report(capsys, tmp_path / "loop.tflite")
    assert found["notes"] == ["the nodes of subgraph 2 are not timed one by one: their time is that of the node that "
                              "calls them, 0 (WHILE)"]
    assert f"\nnote: {found['notes'][0]}\n" in report(capsys, tmp_path / "loop.tflite")
    assert cli.main(["bench", str(tmp_path / "loop.tflite"), "--seconds", "0.02"]) == 0
    assert "\nthe time of node 0 (WHILE) includes the nodes of the subgraphs that it calls;" in capsys.readouterr().out


def test_a_signature_and_shapes(capsys, tmp_path):
    """Times, shapes and the arena are those of the signature, and of the shapes, that were asked for."""
    m = ModelBuilder()
    for name, op in ("first", "NEG"), ("second", "ABS"):
        if name == "second":
            m.subgraph(name)
        x, y = (m.tensor(f"{name}_{side}", (1, 1), shape_signature=(-1, -1)) for side in "xy")
        m.operator(op, [x], [y])
        m.inputs([x])
        m.outputs([y])
        m.signature(name, {"x": x}, {"y": y})
    path = tmp_path / "two.tflite"
    path.write_bytes(m.build())
    found = json.loads(report(capsys, path, "--json", "--signature", "second", "--shape", "x=3,5"))
    first, second = found["nodes"]
    assert first["seconds"] is None and first["shape"] == [1, 1] and second["seconds"] > 0
    assert second["shape"] == [3, 5] and found["by_op"][0]["result_bytes"] == 60
    assert found["notes"] == ["only signature 'second' ran; the model also has 'first'"]
    assert cli.main(["report", str(path), "--shape", "z=3,5"]) == 2
    assert "no input is called 'z'; the model has 'first_x' (its signature calls it 'x')" in capsys.readouterr().err
    assert cli.main(["inspect", str(path), "--subgraph", "1", "--shape", "x=3,5", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["subgraphs"][0]["operators"][0]["shapes"] == {"0": [3, 5], "1": [3, 5]}


def test_a_model_without_operators(capsys, tmp_path):
    m = ModelBuilder()
    x = m.tensor("x", (2, 3))
    m.inputs([x])
    m.outputs([x])
    (tmp_path / "none.tflite").write_bytes(m.build())
    out = report(capsys, tmp_path / "none.tflite")
    assert "\nthe model has no operators\n" in out and "kernels" not in out.replace("kernels for", "")
    assert cli.main(["bench", str(tmp_path / "none.tflite"), "--seconds", "0.02"]) == 0
    assert "\nthe model has no operators\n" in capsys.readouterr().out


def test_loops_count_as_one_iteration(capsys, tmp_path):
    (tmp_path / "loop.tflite").write_bytes(loop())
    assert "2 nodes, 18 MAC (of each loop one iteration)" in report(capsys, tmp_path / "loop.tflite")
    assert cli.main(["inspect", str(tmp_path / "loop.tflite")]) == 0
    shown = capsys.readouterr().out
    assert "subgraph 2 'body': 1 operator, 3 tensors, 18 MAC per iteration\n" in shown
    assert "subgraph 0 'main': 1 operator, 2 tensors, 0 MAC\n" in shown
    assert "iteration" not in report(capsys, "digits")


@pytest.mark.parametrize("name", ["digits", "keras/lstm_unrolled_k3_10_int8.tflite",
                                  "keras/unet_transpose_128_int8.tflite"])
def test_blocks_of_the_arena_never_overlap(capsys, name):
    path = name if name == "digits" else resources.models() / name
    found = json.loads(report(capsys, path, "--json"))
    assert len(found["arena"]) == 1
    arena = found["arena"][0]
    assert max(b["offset"] + b["bytes"] for b in arena["blocks"]) <= arena["bytes"]
    for step in range(len(arena["steps"])):
        live = sorted((b["offset"], b["bytes"]) for b in arena["blocks"] if b["first"] <= step <= b["last"])
        assert all(a + size <= b for (a, size), (b, _) in itertools.pairwise(live))
    kinds = {b["kind"] for b in arena["blocks"]}
    assert {"input", "output"} <= kinds <= {"input", "output", "temporary", "scratch"}
    nodes = {n["node"] for n in found["nodes"]}
    assert set(arena["steps"]) <= nodes


def test_text_has_the_graph_the_sizes_and_the_map(capsys):
    shown = report(capsys, "digits")
    for words in ("CONV_2D", "filter 2, stride 2, SAME", "conv.ConvQ8", "trunk/6, reshape_8", "arena: 3.14 kB"):
        assert words in shown
    lines = shown.splitlines()
    rows = lines[next(i for i, line in enumerate(lines) if line.startswith("arena")) + 2:]
    assert all(set(row.split()[3]) <= {".", "#"} and len(row.split()[3]) == 9 for row in rows[:9])


@pytest.mark.parametrize(("name", "signed", "expected"), [
    ("main", True, "main"), ("named", True, "named"), ("", True, "serving_default"), ("", False, "main")])
def test_the_overlay_has_the_time_of_every_node(capsys, tmp_path, name, signed, expected):
    """Under the name by which Model Explorer knows the graph."""
    model = read(models.path("digits").read_bytes())
    model.subgraphs[0].name = name
    assert model.signature_defs[0].signature_key == "serving_default"
    model.signature_defs = model.signature_defs if signed else []
    (tmp_path / "m.tflite").write_bytes(write(model))
    report(capsys, tmp_path / "m.tflite", "--explorer", tmp_path / "times.json")
    graph = json.loads((tmp_path / "times.json").read_text())[expected]
    assert len(graph["results"]) == 9 and [stop["stop"] for stop in graph["gradient"]] == [0, 1]


def test_a_model_that_cannot_run_is_reported(capsys, tmp_path):
    path = tmp_path / "custom.tflite"
    path.write_bytes(custom_models.model("NoSuchOp"))
    found = json.loads(report(capsys, path, "--json"))
    assert found["arena"] == [] and found["latency"] is None and "NoSuchOp" in found["problems"][0]
    assert "missing" in report(capsys, path)
