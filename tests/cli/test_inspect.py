"""`pylite inspect`, and the exit codes and messages of the command line."""
import json
import subprocess
import sys

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
    assert "0.5 * (q + 3)" in text and "note (5 B)" in text and "one of each" in text
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
    x, padded, y, halves, z = (m.tensor(*t) for t in (
        ("x", (1, 6, 6, 2)), ("padded", (1, 8, 8, 2)), ("y", (1, 6, 6, 2)), ("flat", (72,)), ("z", (72,))))
    widths = np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32)
    m.operator("PAD", [x, m.constant("widths", widths)], [padded])
    m.operator("CONV_2D", [padded, m.constant("w", np.ones((2, 3, 3, 2), np.float32)), None], [y], padding="VALID",
               stride_h=1, stride_w=1)
    m.operator("RESHAPE", [y, m.constant("shape", np.array([72], np.int32))], [halves])
    m.operator("NEG", [halves], [z])
    m.inputs([x])
    m.outputs([z])
    file = tmp_path / "model.tflite"
    file.write_bytes(m.build())
    assert cli.main(["inspect", str(file), "--json"]) == 0
    [subgraph] = json.loads(capsys.readouterr().out)["subgraphs"]
    chosen = [o["chosen"] for o in subgraph["operators"]]
    assert subgraph["instruction_set"]
    assert chosen[0] == ["folded into node 1"] and subgraph["operators"][0]["kernels"] == []
    assert chosen[1][0] == f"sees the border around tensor {x} by itself" and len(chosen[1]) == 2
    assert chosen[2:] == [[f"alias of tensor {y}"], [f"in place in tensor {halves}"]]
    assert cli.main(["inspect", str(file)]) == 0
    assert "folded into node 1" in capsys.readouterr().out


def test_a_missing_subgraph_is_named(path, capsys):
    assert cli.main(["inspect", path, "--subgraph", "1"]) == 2
    assert "has 1 subgraph(s), and no subgraph 1" in capsys.readouterr().err


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
