"""Models and files for tests of the command line."""
import numpy as np
import pytest
from _pytest.capture import CaptureIO

from pylite.schema.builder import ModelBuilder


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    """Room for all columns of tables."""
    monkeypatch.setenv("COLUMNS", "250")


@pytest.fixture
def terminal(capsys, monkeypatch):
    """Both streams are terminals."""
    monkeypatch.setattr(CaptureIO, "isatty", lambda stream: True)
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def model(tmp_path):
    """A function that writes a model that reshapes its input to one row, and returns its path."""
    def make(shape, dtype="float32", scale=None, zero_point=0, signature=None):
        m = ModelBuilder()
        x = m.tensor("x", shape, dtype, scale, zero_point, shape_signature=signature)
        y = m.tensor("y", (1, int(np.prod(shape))), dtype, scale, zero_point)
        m.operator("RESHAPE", [x, m.constant("shape", np.array([1, -1], np.int32))], [y])
        m.inputs([x])
        m.outputs([y])
        path = tmp_path / "model.tflite"
        path.write_bytes(m.build())
        return str(path)
    return make


@pytest.fixture
def folder(tmp_path):
    """Three inputs for a model of three classes, one of them of a wrong shape, and labels."""
    (tmp_path / "data").mkdir()
    for name, values in ("a", [.7, .1, .2]), ("b", [.1, .2, .7]), ("c", [1, 2]):
        np.save(tmp_path / "data" / f"{name}.npy", np.array([values], np.float32))
    (tmp_path / "data" / "notes.txt").write_text("not an input")
    (tmp_path / "labels.txt").write_text("ant\nbee\ncat\n")
    return tmp_path
