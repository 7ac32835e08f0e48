"""The fuzzer: some of its cases, the detection of injected faults, and regression tests of faults that it found."""
import time

import numpy as np
import pytest

from pylite.errors import MemoryLimitError, OpError, PyliteError
from pylite.interpreter import Interpreter
from pylite.schema.builder import ModelBuilder
from tests.fuzz import case, mutate
from tests.fuzz.__main__ import Run
from tests.fuzz.seeds import seeds


def test_nothing_unexpected():
    seeds()
    run = Run(0)
    assert run.until(time.monotonic() + 600, most=400) == 400
    assert run.found == [] and sum(run.ended.values()) == 400
    assert run.ended["run"] > 50, run.ended     # many mutated models are still valid


def test_a_case_can_be_repeated():
    assert case.content(5, 17) == case.content(5, 17)
    assert len({case.content(5, number) for number in range(20)}) > 15


@pytest.mark.parametrize(("fault", "reported"), [
    ("raise KeyError('x')", "KeyError: 'x'"), ("__import__('os').abort()", "crash: SIGABRT"),
    ("while True: pass", "6 s of CPU time"), ("[0] * 10**8", "MB of memory, where max_memory is 64 MB")])
def test_injected_faults_are_reported(fault, reported, monkeypatch):
    monkeypatch.setattr(case, "use", lambda interpreter, rng: exec(fault))
    monkeypatch.setattr(mutate, "model", lambda rng: (0, THROUGH))
    run = Run(0)
    run.until(time.monotonic() + 600, most=1)
    (number, what), = run.found
    assert number == 0 and reported in what


def through():
    m = ModelBuilder()
    m.inputs([m.tensor("x", (1,))])
    return m.build()


THROUGH = through()


# ---- faults that it found ------------------------------------------------------------------------------------
@pytest.mark.parametrize(("dtype", "data", "want"), [("int4", [0x0F], -1), ("uint4", [0x0F], 15), ("int2", [2], -2)])
def test_a_packed_constant_without_dimensions(dtype, data, want):
    m = ModelBuilder()
    k = m.tensor("k", (), dtype, buffer=m.buffer(np.array(data, np.uint8)))
    m.inputs([m.tensor("x", (1,))])
    m.outputs([k])
    interpreter = Interpreter(model_content=m.build())
    interpreter.allocate_tensors()
    assert interpreter.get_tensor(k) == want


def test_contents_of_a_type_without_size():
    m = ModelBuilder()
    k = m.tensor("k", (1,), "variant", buffer=m.buffer(np.zeros(8, np.uint8)))
    m.inputs([m.tensor("x", (1,))])
    m.outputs([k])
    with pytest.raises(ValueError, match=r"tensor 'k' \(tensor 0\): a variant tensor has no contents"):
        Interpreter(model_content=m.build()).allocate_tensors()


def test_convolution_of_no_channels():
    """The groups of channels would be none, and a number is divided by them."""
    m = ModelBuilder()
    x, y = m.tensor("x", (1, 4, 4, 0), "float32"), m.tensor("y", (1, 3, 3, 3), "float32")
    m.operator("CONV_2D", [x, m.constant("w", np.ones((3, 2, 2, 2), np.float32)), -1], [y], stride_h=1, stride_w=1)
    m.inputs([x])
    m.outputs([y])
    with pytest.raises(OpError, match="do not divide its 0 channels"):
        Interpreter(model_content=m.build()).allocate_tensors()


@pytest.mark.parametrize("op", ["WHERE", "UNIQUE"])
def test_results_of_the_run_time_beyond_max_memory(op):
    m = ModelBuilder()
    x, y = m.tensor("x", (1 << 20,), "int8"), m.tensor("y", (1, 1), "int64", shape_signature=(-1, 1))
    i = m.tensor("i", (1,), "int32")
    m.operator(op, [x], [y] if op == "WHERE" else [m.tensor("u", (1,), "int8"), i])
    m.inputs([x])
    m.outputs([y if op == "WHERE" else i])
    interpreter = Interpreter(model_content=m.build(), max_memory=2 << 20)
    interpreter.allocate_tensors()
    interpreter.set_tensor(x, np.ones(1 << 20, np.int8))
    with pytest.raises(MemoryLimitError, match=f"node 0 {op}: its results take"):
        interpreter.invoke()


def test_tables_of_a_resize_beyond_max_memory():
    m = ModelBuilder()
    x, y = m.tensor("x", (1, 2, 2, 1), "int8"), m.tensor("y", (), "int8")
    m.operator("RESIZE_NEAREST_NEIGHBOR", [x, m.constant("size", np.array([4, 10_000_000], np.int32))], [y])
    m.inputs([x])
    m.outputs([y])
    with pytest.raises(MemoryLimitError, match="node 0 RESIZE_NEAREST_NEIGHBOR: its tables of pixels take"):
        Interpreter(model_content=m.build(), max_memory=64 << 20).allocate_tensors()


def test_a_shape_without_elements_that_numpy_cannot_represent():
    m = ModelBuilder()
    x, y = m.tensor("x", (2,), "uint64"), m.tensor("y", (), "uint64")
    m.operator("MATRIX_DIAG", [x], [y])
    m.inputs([x])
    m.outputs([y])
    interpreter = Interpreter(model_content=m.build())
    interpreter.resize_tensor_input(x, [0, 2**31 - 1])
    interpreter.allocate_tensors()
    with pytest.raises(PyliteError, match="a shape that numpy cannot represent"):
        interpreter.get_tensor(y)


def test_unique_of_many_that_are_no_numbers():
    """They have one hash and equal nothing: a search for them would take hours."""
    m, n = ModelBuilder(), 1 << 20
    x, y, i = m.tensor("x", (n,)), m.tensor("y", ()), m.tensor("i", (), "int32")
    m.operator("UNIQUE", [x], [y, i])
    m.inputs([x])
    m.outputs([y, i])
    interpreter = Interpreter(model_content=m.build())
    interpreter.allocate_tensors()
    interpreter.set_tensor(x, np.full(n, np.nan, np.float32))
    interpreter.invoke()
    np.testing.assert_array_equal(interpreter.get_tensor(i), np.arange(n))


def test_softmax_whose_sum_wraps():
    """The sum of 8192 equal exponentials is 2^32 in Q12, and the last shift to 16 bits would be negative."""
    m = ModelBuilder()
    x = m.tensor("x", (1, 8192), "int8", 0.25)
    y = m.tensor("y", (1, 8192), "int16", 2.0**-16, -32768)
    m.operator("SOFTMAX", [x], [y], beta=1.0)
    m.inputs([x])
    m.outputs([y])
    interpreter = Interpreter(model_content=m.build())
    interpreter.allocate_tensors()
    interpreter.invoke()
    assert len(np.unique(interpreter.get_tensor(y))) == 1
