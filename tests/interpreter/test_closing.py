"""close(), `with`, and memory that is freed with the last reference to an interpreter, without garbage collection."""
import gc
import subprocess
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest

from pylite.errors import ExecutionError
from pylite.interpreter import Interpreter
from pylite.media import models as bundled
from pylite.runtime.model import Model
from pylite.schema.builder import ModelBuilder
from tests.tools import small_models
from tests.tools.resources import MODELS, models


def loop():
    """A WHILE whose body calls an IF; one loop variable has a fixed shape, one grows."""
    m = ModelBuilder()
    n, x = m.tensor("n", (1,), "int32"), m.tensor("x", (1,), "float32", shape_signature=(-1,))
    left, y = m.tensor("left", (1,), "int32"), m.tensor("y", (1,), "float32", shape_signature=(-1,))
    m.operator("WHILE", [n, x], [left, y], cond_subgraph_index=1, body_subgraph_index=2)
    m.inputs([n, x])
    m.outputs([y])
    m.subgraph("test")
    n, x, more = m.tensor("n", (1,), "int32"), m.tensor("x", (1,), "float32"), m.tensor("more", (1,), "bool")
    m.operator("CAST", [n], [more], in_data_type="int32", out_data_type="bool")
    m.inputs([n, x])
    m.outputs([more])
    m.subgraph("body")
    n, x = m.tensor("n", (1,), "int32"), m.tensor("x", (1,), "float32", shape_signature=(-1,))
    less, y = m.tensor("less", (1,), "int32"), m.tensor("y", (2,), "float32", shape_signature=(-1,))
    m.operator("SUB", [n, m.constant("one", np.array([1], np.int32))], [less])
    m.operator("CONCATENATION", [x, x], [y], axis=0)
    m.inputs([n, x])
    m.outputs([less, y])
    return m.build()


def dynamic():
    """A data-dependent shape."""
    m = ModelBuilder()
    x, at, y = m.tensor("x", (4,), "float32"), m.tensor("at", (1, 1), "int64"), m.tensor("y", (1,), "float32")
    m.operator("WHERE", [x], [at])
    m.operator("GATHER_ND", [x, at], [y])
    m.inputs([x])
    m.outputs([y])
    return m.build()


def words():
    m = ModelBuilder()
    x, y = m.tensor("x", (2,), "string"), m.tensor("y", (4,), "string")
    m.operator("TILE", [x, m.constant("n", np.array([2], np.int32))], [y])
    m.inputs([x])
    m.outputs([y])
    return m.build()


def invoked(content):
    interpreter = Interpreter(model_content=content)
    interpreter.allocate_tensors()
    for detail in interpreter.get_input_details():
        if detail["dtype"] not in (np.object_, np.bytes_):
            interpreter.set_tensor(detail["index"], np.ones(detail["shape"], detail["dtype"]))
    interpreter.invoke()
    return interpreter


@pytest.fixture(autouse=True)
def _without_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("make", [small_models.reshape, small_models.variable, loop, dynamic, words])
@pytest.mark.parametrize("end", ["del", "close", "with"])
def test_everything_is_freed(make, end):
    interpreter = invoked(make())
    watched = [weakref.ref(e) for e in interpreter._executors.values()]
    arenas = [weakref.ref(p.arena) for e in interpreter._executors.values() for p in e.segments]
    model = weakref.ref(interpreter._model)
    assert watched and arenas
    if end == "close":
        interpreter.close()
        assert not any(ref() is not None for ref in arenas)
    elif end == "with":
        with interpreter:
            pass
        assert not any(ref() is not None for ref in arenas)
    del interpreter
    assert [ref() for ref in (*watched, *arenas, model)] == [None] * (len(watched) + len(arenas) + 1)


def test_the_mapped_file_is_freed(tmp_path):
    (tmp_path / "m.tflite").write_bytes(small_models.reshape())
    interpreter = Interpreter(str(tmp_path / "m.tflite"))
    interpreter.allocate_tensors()
    interpreter.invoke()
    assert any("m.tflite" in line for line in Path("/proc/self/maps").read_text().splitlines())
    del interpreter
    assert not any("m.tflite" in line for line in Path("/proc/self/maps").read_text().splitlines())


def test_memory_does_not_grow():
    """Interpreters created and dropped in sequence, without garbage collection."""
    models()
    path = str(MODELS / "test_data" / "mobilenet_v2_1.0_224_quant.tflite")
    used = []
    for _ in range(6):
        interpreter = Interpreter(path)
        interpreter.allocate_tensors()
        interpreter.invoke()
        used.append(int(Path("/proc/self/statm").read_text().split()[1]) * 4096)
    assert used[-1] - used[1] < 8 << 20, used


def test_a_closed_interpreter():
    interpreter = invoked(small_models.reshape())
    view, got = interpreter.tensor(0)(), interpreter.get_tensor(0)
    interpreter.close()
    interpreter.close()
    assert view.tolist() == got.tolist() == np.ones((2, 3)).tolist()        # arrays keep their contents
    for call in (interpreter.allocate_tensors, interpreter.invoke, lambda: interpreter.resize_tensor_input(0, (1, 6))):
        with pytest.raises(ExecutionError, match="closed"):
            call()
    for call in (lambda: interpreter.get_tensor(0), lambda: interpreter.set_tensor(0, got), interpreter.tensor(0)):
        with pytest.raises(ValueError, match="the interpreter is closed; make another one"):
            call()


def test_views_outlive_their_interpreter():
    interpreter = invoked(small_models.reshape())
    view = interpreter.tensor(interpreter.get_output_details()[0]["index"])()
    del interpreter
    assert view.tolist() == [[1, 1], [1, 1], [1, 1]]


def test_models_are_shared_beyond_one_interpreter():
    model, results, packed = Model(bundled.path("digits")), [], []
    for _ in range(2):
        with Interpreter(model=model) as interpreter:
            interpreter.allocate_tensors()
            packed.append(model.weights.packed_bytes)
            interpreter.invoke()
            results.append(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).tolist())
    assert packed[0] == packed[1] > 0       # the second one packs nothing
    assert results[0] == results[1]


def test_an_interpreter_may_outlive_the_contents_of_modules():
    """At the end of Python; without the GIL, those that other threads have made often do."""
    code = """
import sys
from pylite.interpreter import Interpreter
from pylite.media import models
interpreter = Interpreter(str(models.path("digits")))
interpreter.allocate_tensors()
sys.kept = list(sys.modules.values())       # now modules are emptied in turn, this one last
"""
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout + done.stderr == ""
