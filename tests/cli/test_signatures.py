"""Commands with models of several signatures: which one runs, and that the others are named."""
import json

import numpy as np
import pytest

from pylite import cli
from pylite.interpreter import Interpreter
from pylite.schema.builder import ModelBuilder
from tests.cli.running import run


@pytest.fixture
def path(tmp_path):
    """Signatures "add" and "multiply": subgraphs of their own, whose tensors have other indices."""
    m = ModelBuilder()
    for key, op in ("add", "ADD"), ("multiply", "MUL"):
        if key == "multiply":
            m.subgraph(key)
            m.constant("padding", np.zeros(1, np.float32))
        x, y = m.tensor(f"{key}_x", (1, 3), shape_signature=(-1, 3)), m.tensor(f"{key}_y", (1, 3))
        m.operator(op, [x, m.constant("ten", np.float32(10))], [y])
        m.inputs([x])
        m.outputs([y])
        m.signature(key, {"x": x}, {"y": y})
    file = tmp_path / "two.tflite"
    file.write_bytes(m.build())
    return file


@pytest.mark.parametrize(("given", "other"), [("add", "multiply"), ("multiply", "add")])
def test_a_signature_runs(path, tmp_path, capsys, given, other):
    x = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    np.save(tmp_path / "x.npy", x)
    for name in "", "x=", f"{given}_x=":        # names of the signature's input and its tensor
        done = run(capsys, path, "--signature", given, "-i", f"{name}{tmp_path / 'x.npy'}", "-o", tmp_path / "y.npz")
        assert f"note: only signature '{given}' ran; the model also has '{other}'\n" in done.err
        want = Interpreter(str(path)).get_signature_runner(given)(x=x)["y"]
        np.testing.assert_array_equal(np.load(tmp_path / "y.npz")[f"{given}_y"], want)
    assert f"no input is called '{other}_x'" in run(
        capsys, path, "--signature", given, "-i", f"{other}_x={tmp_path / 'x.npy'}", code=2).err


def test_the_first_subgraph_runs_without_one(path, capsys):
    assert run(capsys, path, "--zeros").out.startswith("add_y  [1, 3] float32")
    assert "only signature 'add' ran" not in run(capsys, "digits", "--zeros").err


@pytest.mark.parametrize(("command", "key", "words"), [
    ("run", "multipl", "no signature 'multipl'; did you mean multiply?"),
    ("bench", "x", "no signature 'x'; its signatures are 'add', 'multiply'")])
def test_an_unknown_signature(path, capsys, command, key, words):
    assert cli.main([command, str(path), "--signature", key]) == 2
    assert words in capsys.readouterr().err


def test_a_signature_is_measured(path, capsys):
    for key, op in (("add", "ADD"), ("multiply", "MUL")):
        assert cli.main(["bench", str(path), "--seconds=0.02", "--signature", key, "--shape=x=2,3", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert [node["name"] for node in found["nodes"]] == [op]
        assert found["notes"][0].startswith(f"only signature '{key}' ran; the model also has ")
    assert cli.main(["bench", str(path), "--signature", "add", "--compare", "litert"]) == 2
    assert "--compare and --signature exclude each other" in capsys.readouterr().err


def test_report_and_validate_name_the_others(path, tmp_path, capsys):
    assert cli.main(["report", str(path), "--seconds", "0.02"]) == 0
    assert "\nnote: only signature 'add' ran; the model also has 'multiply'\n" in capsys.readouterr().out
    np.save(tmp_path / "x.npy", np.ones((1, 3), np.float32))
    assert cli.main(["validate", str(path), "--reference", str(path), "--data", str(tmp_path / "x.npy")]) == 0
    assert "note: only signature 'add' ran; the model also has 'multiply'\n" in capsys.readouterr().out
