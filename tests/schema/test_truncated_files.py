"""Model files that change while they are mapped."""
import os
import subprocess
import sys

import numpy as np
import pytest

from pylite.errors import ExecutionError, ModelError
from pylite.interpreter import Interpreter
from pylite.schema.builder import ModelBuilder


def large():
    """One operator with 8 MB of constants, which its kernel reads in the file."""
    m = ModelBuilder()
    x, y = m.tensor("x", (1 << 21,)), m.tensor("y", (1 << 21,))
    m.operator("ADD", [x, m.constant("k", np.ones(1 << 21, np.float32))], [y])
    m.inputs([x])
    m.outputs([y])
    return m.build()


@pytest.fixture
def path(tmp_path):
    (tmp_path / "m.tflite").write_bytes(large())
    return tmp_path / "m.tflite"


def opened(path, **options):
    interpreter = Interpreter(path, **options)
    interpreter.allocate_tensors()
    return interpreter


@pytest.mark.parametrize("threads", [1, 2])
def test_truncated_while_it_runs(path, threads):
    interpreter, copy = opened(path, num_threads=threads), opened(None, model_content=path.read_bytes())
    interpreter.invoke()
    os.truncate(path, 1 << 20)
    for _ in range(2):
        with pytest.raises(ExecutionError, match="truncated while it was in use"):
            interpreter.invoke()
    copy.invoke()               # other models are not concerned
    again = opened(None, model_content=large())
    again.invoke()


def test_truncated_before_it_is_resized(tmp_path):
    """The new shape is among the lost bytes."""
    m = ModelBuilder()
    x, y = m.tensor("x", (1, 2), shape_signature=(-1, 2)), m.tensor("y", (2,))
    z = m.tensor("z", (1 << 21,))
    m.operator("RESHAPE", [x, m.constant("shape", np.array([-1], np.int32))], [y])
    m.operator("ADD", [y, m.constant("k", np.ones(1 << 21, np.float32))], [z])
    m.inputs([x])
    m.outputs([z])
    path = tmp_path / "m.tflite"
    path.write_bytes(m.build())
    interpreter = Interpreter(path)
    interpreter.resize_tensor_input(x, (1 << 20, 2))
    interpreter.allocate_tensors()
    os.truncate(path, 4096)
    with pytest.raises(ExecutionError, match="truncated while it was in use"):
        interpreter.invoke()
    interpreter.resize_tensor_input(x, (3, 2))
    with pytest.raises(ExecutionError, match="truncated while it was in use"):
        interpreter.allocate_tensors()


def test_truncated_before_it_is_allocated(path):
    interpreter = Interpreter(path)
    os.truncate(path, 4096)
    interpreter.allocate_tensors()
    with pytest.raises(ExecutionError, match="truncated"):
        interpreter.invoke()


def test_truncated_while_it_is_loaded(path, monkeypatch):
    from pylite.schema import loader
    mapped = loader.contents_of
    monkeypatch.setattr(loader, "contents_of", lambda source: (mapped(source), os.truncate(path, 0))[0])
    with pytest.raises(ModelError, match=r"truncated|not valid|Git LFS|identifier"):
        Interpreter(path)


def test_a_file_that_another_one_replaces(path):
    interpreter = opened(path)
    output = interpreter.get_output_details()[0]["index"]
    interpreter.invoke()
    before = interpreter.get_tensor(output)
    (path.parent / "new").write_bytes(b"")
    os.rename(path.parent / "new", path)
    interpreter.invoke()
    np.testing.assert_array_equal(interpreter.get_tensor(output), before)


def test_other_faults_are_not_caught(path):
    """SIGBUS in memory that is not a model's ends the process as before."""
    code = f"""
import mmap, os
from pylite.interpreter import Interpreter
i = Interpreter({str(path)!r})
i.allocate_tensors()
with open({str(path.parent / "other")!r}, "w+b") as file:
    file.truncate(1 << 20)
    view = mmap.mmap(file.fileno(), 1 << 20)
    file.truncate(0)
view[5000]
"""
    options = os.environ.get("ASAN_OPTIONS", "") + ":handle_sigbus=0"      # AddressSanitizer would report it and exit
    done = subprocess.run([sys.executable, "-P", "-c", code], check=False, env={**os.environ, "ASAN_OPTIONS": options})
    assert done.returncode == -7
