"""The memory planner: properties of every plan, sizes compared with the peer's, guard bands and max_memory."""
import importlib.util
import itertools
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

from pylite import Interpreter
from pylite._core.run import arena
from pylite._core.run.memory import memory_limit
from pylite.compiler import binding
from pylite.ir import registry
from pylite.ir.values import Call
from pylite.schema.builder import ModelBuilder
from tests.tools import oneop

ROOT = Path(__file__).resolve().parents[2]

BLOCK = st.tuples(st.integers(0, 5000), st.integers(0, 40), st.integers(0, 40)).map(
    lambda b: (b[0], min(b[1:]), max(b[1:])))


def columns(blocks):
    return [np.array(column, np.int64) for column in zip(*blocks, strict=True)]


@given(st.lists(BLOCK, min_size=1, max_size=60))
@settings(max_examples=200, deadline=None)
def test_no_two_live_blocks_overlap(blocks):
    size, first, last = columns(blocks)
    offset, total, bound = arena.plan(size, first, last)
    offset = np.array(offset)
    assert (offset % arena.ALIGNMENT == 0).all() and (offset >= 0).all()
    assert total == max((offset + size)[size > 0], default=0)
    for i in range(len(size)):
        for j in range(i):
            if size[i] and size[j] and first[i] <= last[j] and first[j] <= last[i]:
                assert offset[i] >= offset[j] + size[j] or offset[j] >= offset[i] + size[i]
    alive = [size[(first <= t) & (t <= last)].sum() for t in range(41)]
    assert bound == max(alive) <= total


@given(st.lists(BLOCK, max_size=60))
@settings(max_examples=50, deadline=None)
def test_the_same_blocks_get_the_same_plan(blocks):
    blocks = blocks or [(1, 0, 0)]
    one, other = arena.plan(*columns(blocks)), arena.plan(*columns(blocks))
    assert one == other


@given(st.lists(st.tuples(st.integers(1, 300), st.integers(1, 6)), min_size=1, max_size=60))
@settings(max_examples=50, deadline=None)
def test_a_chain_takes_at_most_one_and_a_half_times_its_lower_bound(blocks):
    """In a chain each block overlaps in time with the previous and the next one."""
    size = np.array([64 * n for n, _ in blocks], np.int64)
    first = np.arange(len(size), dtype=np.int64)
    _, total, bound = arena.plan(size, first, first + 1)
    assert total <= 1.5 * bound


def test_an_empty_plan():
    offset, total, bound = arena.plan(*[np.empty(0, np.int64)] * 3)
    assert len(offset) == 0 and (total, bound) == (0, 0)


@pytest.mark.parametrize("blocks", [[(-1, 0, 0)], [(1, 2, 1)], [(1, -1, 0)]])
def test_invalid_blocks_are_refused(blocks):
    with pytest.raises(ValueError, match="negative size or ends before it begins"):
        arena.plan(*columns(blocks))


def test_columns_of_unequal_length_are_refused():
    with pytest.raises(ValueError, match="2 sizes, 1 first uses"):
        arena.plan(np.ones(2, np.int64), np.zeros(1, np.int64), np.zeros(1, np.int64))


@pytest.fixture
def chain(monkeypatch):
    """A function that builds a model of copying nodes with the tensor sizes given, in bytes."""
    registry.find("RELU")       # loads the ops first, so that monkeypatch restores their registration
    monkeypatch.setitem(registry._ops, "RELU", registry.Op(
        "RELU", (1, 1), ["uint8 -> uint8"], lambda node: [node.outputs[0].shape], lower_copy, None, False))

    def build(*sizes):
        m = ModelBuilder()
        tensors = [m.tensor(f"t{i}", (size,), "uint8") for i, size in enumerate(sizes)]
        for x, y in itertools.pairwise(tensors):
            m.operator("RELU", [x], [y])
        m.inputs(tensors[:1])
        m.outputs(tensors[-1:])
        return m.build()
    return build


def lower_copy(node):
    x, y = node.inputs[0], node.outputs[0]
    count = min(x.size, y.size)
    return Call("movement.Copy", x.view((count,)), y.view((count,)))


def test_guard_bands_name_the_node_that_writes_out_of_bounds(chain, monkeypatch):
    model = chain(100, 100, 100, 100)
    made = []
    real = binding.kernel_class("movement.Copy")

    def faulty(x, y):
        made.append(y)
        return real(np.zeros(101, np.uint8), as_strided(y, (101,))) if len(made) == 2 else real(x, y)
    monkeypatch.setattr(binding, "kernel_class", lambda name: faulty)
    interpreter = Interpreter(model_content=model, guard_bands=True)
    interpreter.allocate_tensors()
    with pytest.raises(RuntimeError, match=r"node 1 RELU wrote out of bounds, past the end of tensor 2 't2'"):
        interpreter.invoke()


def test_guard_bands_pass_correct_kernels(chain):
    interpreter = Interpreter(model_content=chain(100, 60, 100), guard_bands=True)
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, np.arange(100, dtype=np.uint8))
    interpreter.invoke()
    assert interpreter.get_tensor(2)[:60].tolist() == list(range(60))


def test_max_memory_names_the_node_at_the_peak(chain):
    model = chain(100, 1000, 5000, 3000, 10)
    with pytest.raises(MemoryError, match=r"needs \d+ bytes and max_memory is 8000; the peak is at node 2 RELU with"):
        Interpreter(model_content=model, max_memory=8000).allocate_tensors()
    Interpreter(model_content=model, max_memory=8200).allocate_tensors()


def test_max_memory_counts_variables_and_says_so():
    """They are outside of the arena, so the node at its peak is not what the model needs the memory for."""
    m = ModelBuilder()
    x, y = m.tensor("x", (1, 4)), m.tensor("y", (1, 8))
    state = m.tensor("state", (1, 8), variable=True)
    weights = [m.constant(f"w{n}", np.ones((8, n), np.float32)) for n in (4, 8)]
    m.operator("RNN", [x, *weights, m.constant("b", np.zeros(8, np.float32)), state], [y])
    m.inputs([x])
    m.outputs([y])
    expected = (r"needs 1\d\d bytes and max_memory is 64; the peak is at node 0 RNN with \d+ bytes alive; \d+ bytes "
                "are variables, computed constants and other")
    with pytest.raises(MemoryError, match=expected):
        Interpreter(model_content=m.build(), max_memory=64).allocate_tensors()


def test_an_arena_larger_than_the_machines_memory_is_refused():
    """An error before any allocation, for one large tensor and for a large sum."""
    shape = (4096, int(memory_limit() // 4096 // 4 * 0.9))
    m = ModelBuilder()
    tensors = [m.tensor(f"t{i}", shape, "uint8") for i in range(5)]
    y = m.tensor("y", (5, *shape), "uint8")
    m.operator("PACK", tensors, [y], axis=0, values_count=5)
    m.inputs(tensors)
    m.outputs([y])
    with pytest.raises(RuntimeError, match=r"node 0 PACK.*this machine has \d+. Make the inputs smaller"):
        Interpreter(model_content=m.build()).allocate_tensors()
    m = ModelBuilder()
    tensors = [m.tensor(f"t{i}", shape, "float32") for i in range(2)]
    z = m.tensor("z", shape, "float32")
    m.operator("ADD", tensors, [z])
    m.inputs(tensors)
    m.outputs([z])
    with pytest.raises(MemoryError, match=r"needs \d+ bytes and this machine has \d+"):
        Interpreter(model_content=m.build()).allocate_tensors()


def benchmark(name):
    """A script of benchmarks/ as a module."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    return module


def test_no_arena_is_larger_than_the_peers():
    if oneop.peer() is None:
        pytest.skip("the peer (ai-edge-litert) is not installed")
    folder = ROOT.parent / "shared" / "models"
    if not folder.is_dir():
        pytest.skip(f"no models to compare: {folder} does not exist")
    arenas = benchmark("arena")
    rows = arenas.compare(sorted(folder.glob("**/*.tflite")))
    assert rows
    assert arenas.larger(rows) == []


def test_a_result_of_a_run_time_size_takes_no_more_than_its_elements():
    """As in the peer, whose arena has the inputs, of 576 bytes, and which allocates outputs of any k apart."""
    m = ModelBuilder()
    k, x = m.tensor("k", (), "int32"), m.tensor("x", (1, 128))
    values, indices = m.tensor("values", (1, None)), m.tensor("indices", (1, None), "int32")
    m.operator("TOPK_V2", [x, k], [values, indices])
    m.inputs([k, x])
    m.outputs([values, indices])
    interpreter = Interpreter(model_content=m.build())
    interpreter.allocate_tensors()
    interpreter.set_tensor(k, np.array(5, np.int32))
    interpreter.set_tensor(x, np.arange(128, dtype=np.float32)[None])
    interpreter.invoke()
    assert interpreter.get_tensor(indices).tolist() == [[127, 126, 125, 124, 123]]
    assert interpreter._main.memory.nbytes <= 576 + 2 * 5 * 4


@pytest.mark.parametrize("dtype", ["int8", "float32"])
def test_products_of_small_matrices_have_no_scratch(dtype):
    """Three heads of 64 tokens, whose panels and sums lie on the stack: the peer's arena has none of that either."""
    m = ModelBuilder()
    depth = 64 if dtype == "int8" else 16
    x, w = (m.tensor(name, (1, 3, 64, depth), dtype, scale=0.05) for name in "xw")
    y = m.tensor("y", (1, 3, 64, 64), dtype, scale=0.05)
    m.operator("BATCH_MATMUL", [x, w], [y], adj_y=True)
    m.inputs([x, w])
    m.outputs([y])
    interpreter = Interpreter(model_content=m.build())
    interpreter.allocate_tensors()
    assert interpreter._main.memory.nbytes == np.dtype(dtype).itemsize * 3 * 64 * (2 * depth + 64)


def test_plan_of_litert_recomputed_by_the_benchmark():
    """In a chain of three, the first and the last node share memory; ADD overwrites its input."""
    plan = benchmark("arena").litert_plan
    nodes = [("CONV_2D", (0,), (1,)), ("CONV_2D", (1,), (2,)), ("CONV_2D", (2,), (3,))]
    assert plan(nodes, (0,), (3,), {0: 10, 1: 100, 2: 50, 3: 100}) == ({0: 0, 1: 64, 3: 64, 2: 192}, 242)
    nodes = [("CONV_2D", (0,), (1,)), ("ADD", (1, 0), (2,)), ("CONV_2D", (2,), (3,))]
    assert plan(nodes, (0,), (3,), {0: 10, 1: 100, 2: 100, 3: 64}) == ({0: 0, 1: 64, 2: 64, 3: 192}, 256)
