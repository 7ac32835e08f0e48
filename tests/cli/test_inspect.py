"""`pylite inspect`, and the exit codes and messages of the command line."""
import json
import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pytest

from pylite import cli
from pylite.cli import _format
from pylite.schema.builder import ModelBuilder


@pytest.fixture
def path(tmp_path):
    """A model of a supported RESHAPE and several unsupported operators."""
    m = ModelBuilder("one of each")
    x = m.tensor("x", (None, 4, 4, 2), "int8", scale=0.5, zero_point=-3)
    w = m.constant("weights", np.zeros((3, 1, 1, 2), np.int8), scale=[0.1, 0.2, 0.3], axis=0)
    b = m.constant("bias", np.zeros(3, np.int32))
    y = m.tensor("y", (1, 4, 4, 3), "int8", scale=0.5)
    z = m.tensor("z", (1, 48), "int8", scale=0.5)
    out = m.tensor("out", (1, 48), "int8", scale=0.5)
    m.operator("CONV_2D", [x, w, b], [y], version=99, padding="SAME", stride_h=1, stride_w=1)
    m.operator("RESHAPE", [y, m.constant("shape", np.array([1, 48], np.int32))], [z])
    m.operator("Mystery", [z], [out], custom_options=b"")
    m.inputs([x])
    m.outputs([out])
    m.signature("serve", {"picture": x}, {"answer": out})
    m.metadata("note", b"hello")
    file = tmp_path / "model.tflite"
    file.write_bytes(m.build())
    return str(file)


@pytest.fixture
def runnable(tmp_path):
    m = ModelBuilder()
    x, y = m.tensor("x", (2, 3)), m.tensor("y", (6,))
    m.operator("RESHAPE", [x, m.constant("shape", np.array([6], np.int32))], [y])
    m.inputs([x])
    m.outputs([y])
    file = tmp_path / "runs.tflite"
    file.write_bytes(m.build())
    return str(file)


def test_all_unsupported_operators_are_named(path, capsys):
    assert cli.main(["inspect", path]) == 0
    text = capsys.readouterr().out
    assert "opcode 'CONV_2D' version '99'" in text and "custom op: Mystery" in text
    assert "serve(picture: int8[-1, 4, 4, 2]) -> answer: int8[1, 48]" in text
    assert "0.5 * (q + 3)" in text and "0.5 * q\n" in text and "note (5 B)" in text and "one of each" in text
    assert cli.main(["inspect", path, "--tensors"]) == 0
    assert "3 scales, axis 0" in capsys.readouterr().out


def test_exit_codes_of_compat(path, runnable, capsys):
    assert cli.main(["inspect", path, "--compat"]) == 1
    assert cli.main(["inspect", runnable, "--compat"]) == 0
    assert "pylite runs it" in capsys.readouterr().out


def test_json_has_all_parts(path, runnable, capsys):
    cli.main(["inspect", path, "--json"])
    facts = json.loads(capsys.readouterr().out)
    [subgraph] = facts["subgraphs"]
    assert [o["supported"] for o in subgraph["operators"]] == [False, True, False]
    assert subgraph["operators"][0]["macs"] == subgraph["macs"] == 4 * 4 * 3 * 2
    assert facts["weight_bytes"] == 6 + 12 + 8 and facts["runs"] is False
    weights = subgraph["tensors"][1]["quantization"]
    assert weights["scheme"] == "per channel" and weights["scale"] == pytest.approx([0.1, 0.2, 0.3])
    cli.main(["inspect", runnable, "--json"])
    [subgraph] = json.loads(capsys.readouterr().out)["subgraphs"]
    assert subgraph["arena"]["bytes"] == 64 + 24 and subgraph["operators"][0]["kernels"]


def test_each_node_shows_its_kernels_and_notes(tmp_path, capsys):
    m = ModelBuilder()
    x, padded, y, halves, z, total = (m.tensor(*t) for t in (
        ("x", (1, 6, 6, 2)), ("padded", (1, 8, 8, 2)), ("y", (1, 6, 6, 2)), ("flat", (72,)), ("z", (72,)),
        ("sum", (1,))))
    widths = np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32)
    m.operator("PAD", [x, m.constant("widths", widths)], [padded])
    m.operator("CONV_2D", [padded, m.constant("w", np.ones((2, 3, 3, 2), np.float32)), None], [y], padding="VALID",
               stride_h=1, stride_w=1)
    m.operator("RESHAPE", [y, m.constant("shape", np.array([72], np.int32))], [halves])
    m.operator("NEG", [halves], [z])
    m.operator("SUM", [z, m.constant("axis", np.array([0], np.int32))], [total], keep_dims=True)
    m.inputs([x])
    m.outputs([total])
    file = tmp_path / "model.tflite"
    file.write_bytes(m.build())
    assert cli.main(["inspect", str(file), "--json"]) == 0
    [subgraph] = json.loads(capsys.readouterr().out)["subgraphs"]
    chosen = [o["chosen"] for o in subgraph["operators"]]
    assert subgraph["instruction_set"]
    assert chosen[0] == ["folded into node 1"] and subgraph["operators"][0]["kernels"] == []
    assert chosen[1][0] == f"sees the border around tensor {x} by itself" and len(chosen[1]) == 2
    assert chosen[2:4] == [[f"alias of tensor {y}"], [f"in place in tensor {halves}"]]
    assert cli.main(["inspect", str(file)]) == 0
    assert "folded into node 1" in capsys.readouterr().out


def test_nodes_show_the_end_of_names_and_their_settings(tmp_path, capsys):
    name = "a/scope/that/many/tensors/of/this/model/have/in/common/last"
    assert cli.main(["inspect", convolution(tmp_path, name, stride=2)]) == 0
    [row] = [line for line in capsys.readouterr().out.splitlines() if line.lstrip().startswith("0  CONV_2D")]
    assert "..." + name[-29:] in row and "stride 2, VALID, RELU6" in row and "[1, 3, 3, 2]" in row


def convolution(folder, name="y", stride=1, weights=1.0, relu="RELU6", extra=False):
    """The path of a model of a convolution, and of a NEG after it if `extra`."""
    m = ModelBuilder()
    size = (6 - 2) // stride + 1
    x, y = m.tensor("x", (1, 6, 6, 2)), m.tensor(name, (1, size, size, 2))
    m.operator("CONV_2D", [x, m.constant("w", np.full((2, 2, 2, 2), weights, np.float32)), None], [y], padding="VALID",
               stride_h=stride, stride_w=stride, fused_activation_function=relu)
    m.inputs([x])
    if extra:
        z = m.tensor("z", (1, size, size, 2))
        m.operator("NEG", [y], [z])
        y = z
    m.outputs([y])
    file = folder / f"{stride}{weights}{relu}{extra}.tflite"
    file.write_bytes(m.build())
    return str(file)


def test_one_node_in_depth(path, capsys):
    assert cli.main(["inspect", path, "--node", "0"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("node 0: CONV_2D, version 99") and "option   padding = SAME" in text
    assert "scales 0.1, 0.2, 0.3" in text and "int8[3, 1, 1, 2], 6 B, constant" in text
    assert cli.main(["inspect", path, "--node", "9"]) == 2
    assert "has no node 9; its nodes are 0 to " in capsys.readouterr().err


def test_an_impossible_shape_exits_with_1(tmp_path, capsys):
    m = ModelBuilder()
    x, y = m.tensor("x", (1, 4, 4, 2)), m.tensor("y", (1, 4, 4, 3))
    m.operator("CONV_2D", [x, m.constant("w", np.ones((3, 1, 1, 2), np.float32)), -1], [y], stride_h=1, stride_w=1)
    m.inputs([x])
    m.outputs([y])
    path = tmp_path / "model.tflite"
    path.write_bytes(m.build())
    assert cli.main(["inspect", str(path), "--shape", "x=1,5,5,2"]) == 0
    assert cli.main(["inspect", str(path), "--shape", "x=1,4,4,3"]) == 1
    assert "cannot be prepared: node 0 CONV_2D: tensor 0 'x'" in capsys.readouterr().out


def test_json_has_the_options_and_digests_of_weights(path, capsys):
    cli.main(["inspect", path, "--json"])
    [subgraph] = json.loads(capsys.readouterr().out)["subgraphs"]
    assert subgraph["operators"][0]["options"]["stride_h"] == 1
    assert subgraph["operators"][0]["shapes"]["0"] == [1, 4, 4, 2]
    digests = [t["digest"] for t in subgraph["tensors"]]
    assert digests[0] is None and len(set(digests[1:4])) > 1


@pytest.mark.parametrize(("change", "shown"), [
    ({"stride": 2}, ["~ node 0 CONV_2D  y", "    stride_w: 1 -> 2",
                     "    output 0 shape: [1, 5, 5, 2] -> [1, 3, 3, 2]"]),
    ({"weights": 2.0}, ["    input 1 contents: other values"]),
    ({"relu": "RELU"}, ["    fused_activation_function: RELU6 -> RELU"]),
    ({"extra": True}, ["+ node 1 NEG  z"])])
def test_the_difference_of_two_models(tmp_path, capsys, change, shown):
    one, other = convolution(tmp_path), convolution(tmp_path, **change)
    assert cli.main(["inspect", one, "--diff", one]) == 0
    assert capsys.readouterr().out == "no node and no constant differs\n"
    assert cli.main(["inspect", one, "--diff", other]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert set(shown) <= set(lines)
    assert cli.main(["inspect", other, "--diff", one, "--json"]) == 1
    [entry] = json.loads(capsys.readouterr().out)
    assert entry["change"] == ("removed" if "extra" in change else "changed")


def test_the_first_scale_that_differs_is_shown(tmp_path, capsys):
    def scaled(name, scales):
        m = ModelBuilder()
        x, y = (m.tensor(n, (1, 5, 5, 2), "int8", scale=0.1) for n in "xy")
        w = m.constant("w", np.ones((8, 1, 1, 2), np.int8), scale=scales, axis=0)
        m.operator("CONV_2D", [x, w, -1], [y], padding="VALID", stride_w=1, stride_h=1)
        m.inputs([x])
        m.outputs([y])
        (tmp_path / name).write_bytes(m.build())
        return str(tmp_path / name)
    scales = np.full(8, 0.5, np.float32)
    one = scaled("one", scales)
    scales[6] = 1.5
    assert cli.main(["inspect", one, "--diff", scaled("other", scales)]) == 1
    assert "; scale 6: 0.5 -> 1.5" in capsys.readouterr().out


def test_inputs_from_other_nodes_are_a_difference(tmp_path, capsys):
    def crossed(name, first, second):
        m = ModelBuilder()
        x, a, b, y = (m.tensor(n, (3,)) for n in "xaby")
        m.operator("ABS", [x], [a])
        m.operator("NEG", [x], [b])
        m.operator("SUB", [(a, b)[first], (a, b)[second]], [y])
        m.inputs([x])
        m.outputs([y])
        (tmp_path / name).write_bytes(m.build())
        return str(tmp_path / name)
    assert cli.main(["inspect", crossed("one", 0, 1), "--diff", crossed("other", 1, 0)]) == 1
    assert "    input 0 source: 0 -> 1" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["svg", "mmd"])
def test_the_graph_as_a_picture_has_every_node_and_edge(tmp_path, capsys, kind):
    file = tmp_path / f"graph.{kind}"
    assert cli.main(["inspect", "digits", "--graph", str(file)]) == 0
    text = file.read_text()
    if kind == "svg":
        root = ElementTree.fromstring(text)
        boxes = root.findall(".//{*}g")
        assert len(boxes) == 10 + 2 and len(root.findall(".//{*}path")) == 11
        assert [text for text in boxes[1].itertext() if text.strip()] == ["0 CONV_2D", "SAME, RELU"]
    else:
        assert text.startswith("flowchart TD\n") and text.count("-->") == 11
        assert '  n8 -->|"int8[1, 10]"| n9' in text
    with pytest.raises(SystemExit):
        cli.main(["inspect", "digits", "--graph", "picture.gif"])
    assert "ends in .svg or .mmd" in capsys.readouterr().err


def test_a_missing_subgraph_is_named(path, capsys):
    assert cli.main(["inspect", path, "--subgraph", "1"]) == 2
    assert "has 1 subgraph, and no subgraph 1" in capsys.readouterr().err


def test_a_missing_file_is_one_line_and_code_2(capsys):
    assert cli.main(["inspect", "/no/such.tflite"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("pylite inspect: ") and error.count("\n") == 1 and "/no/such.tflite" in error


def test_a_damaged_file_is_one_line_and_code_2(tmp_path, capsys):
    path = tmp_path / "broken.tflite"
    path.write_bytes(b"TFL3" * 5)
    assert cli.main(["inspect", str(path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_command_imports_no_other_command():
    code = "import sys; from pylite.cli import main; main(['inspect', '/no/such.tflite']); " \
           "sys.exit('pylite.cli.run' in sys.modules or 'PIL' in sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True)
    assert done.returncode == 0, done.stderr


def test_tables_align():
    assert _format.table(("op", "n"), [("ADD", 1), ("X", 100)], ("n",)) == ["op     n", "ADD    1", "X    100"]


def test_sizes():
    assert [_format.nbytes(n) for n in (0, 999, 1500, 12_345, 999_999, 2_500_000)] == [
        "0 B", "999 B", "1.50 kB", "12.3 kB", "1000 kB", "2.50 MB"]
    assert _format.seconds(0.00123) == "1.23 ms" and _format.seconds(2.5e-6) == "2.5 us"


def test_a_node_shows_few_of_many_scales(capsys):
    assert cli.main(["inspect", "digits", "--node", "4"]) == 0
    out = capsys.readouterr().out
    assert "0.00476747 and 24 more\n      zero points 0\n" in out and "int8[1, 4, 4, 32], 512 B\n      0.0473842" in out
    assert max(map(len, out.splitlines())) <= 160
