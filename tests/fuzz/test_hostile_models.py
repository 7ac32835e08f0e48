"""Inconsistent models raise errors that name the tensor or the node; max_memory limits all memory of a model."""
import sys

import numpy as np
import pytest
from flatbuffers import flexbuffers

from pylite._core.graph.calls import Packed
from pylite._core.run.memory import memory_limit
from pylite.errors import MemoryLimitError, ModelError, OpError, ResizeError
from pylite.interpreter import Interpreter
from pylite.schema.builder import ModelBuilder
from tests.tools.graphs import lowered


def with_constant_input(first):
    """BATCH_MATMUL of two inputs; the right one also has contents in the file."""
    m = ModelBuilder()
    x, y = m.tensor("x", (2, 3), "float32"), m.tensor("y", (2, 2), "float32")
    w = m.constant("w", np.arange(6, dtype=np.float32).reshape(3, 2))
    m.operator("BATCH_MATMUL", [x, w], [y])
    m.inputs([x, w])
    m.outputs([y])
    return m.build(), w


def test_an_input_with_contents_keeps_its_shape():
    content, w = with_constant_input(0)
    interpreter = Interpreter(model_content=content)
    interpreter.resize_tensor_input(w, (3, 2))
    interpreter.allocate_tensors()
    with pytest.raises(ResizeError, match=r"Attempting to resize a fixed-size tensor: input .* \('w'\)"):
        interpreter.resize_tensor_input(w, (3, 1 << 20))
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, np.ones((2, 3), np.float32))
    interpreter.invoke()
    assert interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).tolist() == [[6, 9], [6, 9]]


def test_a_called_subgraph_whose_input_has_contents():
    m = ModelBuilder()
    c, x, y = m.tensor("c", (1,), "bool"), m.tensor("x", (4096,), "float32"), m.tensor("y", (4096,), "float32")
    m.operator("IF", [c, x], [y], then_subgraph_index=1, else_subgraph_index=1)
    m.inputs([c, x])
    m.outputs([y])
    m.subgraph("called")
    k, z = m.constant("k", np.ones(2, np.float32)), m.tensor("z", (2,), "float32")
    m.operator("ABS", [k], [z])
    m.inputs([k])
    m.outputs([z])
    interpreter = Interpreter(model_content=m.build())
    with pytest.raises(OpError, match=r"IF: tensor \d+ 'x' .* calls subgraph 1, whose input 0 is a constant"):
        interpreter.allocate_tensors()


@pytest.mark.parametrize("op", ["FLOOR_DIV", "FLOOR_MOD", "DIV"])
def test_a_variable_with_contents(op):
    """A divisor that is checked as a constant, and zero at run time as a variable."""
    m = ModelBuilder()
    x, y = m.tensor("x", (2,), "int32"), m.tensor("y", (2,), "int32")
    d = m.tensor("d", (2,), "int32", buffer=m.buffer(np.array([3, 3], np.int32).tobytes()), variable=True)
    m.operator(op, [x, d], [y])
    m.inputs([x])
    m.outputs([y])
    with pytest.raises(ModelError, match=r"tensor 2 'd': it is a variable and has contents"):
        Interpreter(model_content=m.build())


# ---- max_memory: one limit for all memory --------------------------------------------------------------------
LIMIT = 1 << 20


def range_of_data():
    """RANGE up to a number computed at run time."""
    m = ModelBuilder()
    n, y = m.tensor("n", (), "int32"), m.tensor("y", (1,), "int32", shape_signature=(-1,))
    m.operator("RANGE", [m.constant("0", np.array(0, np.int32)), n, m.constant("1", np.array(1, np.int32))], [y])
    m.inputs([n])
    m.outputs([y])
    return m.build(), np.array(200_000_000, np.int32)


def folded():
    """BROADCAST_TO of constants, computed while the graph is lowered."""
    m = ModelBuilder()
    x, y, z = m.tensor("x", (1,), "float32"), m.tensor("y", (1000, 1000), "float32"), m.tensor("z", (1,), "float32")
    m.operator("BROADCAST_TO", [m.constant("k", np.ones(1, np.float32)),
                                m.constant("s", np.array([1000, 1000], np.int32))], [y])
    m.operator("ABS", [x], [z])
    m.inputs([x])
    m.outputs([y, z])
    return m.build(), np.zeros(1, np.float32)


def many_folded():
    """The same in many nodes, each of which is below the limit."""
    m = ModelBuilder()
    x, z = m.tensor("x", (1,), "float32"), m.tensor("z", (1,), "float32")
    shape, one = m.constant("s", np.array([500, 100], np.int32)), m.constant("k", np.ones(1, np.float32))
    outputs = []
    for i in range(20):
        outputs.append(m.tensor(f"y{i}", (500, 100), "float32"))
        m.operator("BROADCAST_TO", [one, shape], outputs[-1:])
    m.operator("ABS", [x], [z])
    m.inputs([x])
    m.outputs([*outputs, z])
    return m.build(), np.zeros(1, np.float32)


def variable():
    m = ModelBuilder()
    x, y = m.tensor("x", (1, 2), "float32"), m.tensor("y", (1, 3), "float32")
    state = m.tensor("state", (1000, 1000), "float32", variable=True)
    z = m.tensor("z", (1000, 1000), "float32")
    m.operator("ABS", [state], [z])
    m.operator("SUM", [z, m.constant("axes", np.array([0, 1], np.int32))], [y])
    m.inputs([x])
    m.outputs([y])
    return m.build(), np.zeros((1, 2), np.float32)


def strings():
    m = ModelBuilder()
    x, y = m.tensor("x", (1,), "string"), m.tensor("y", (1 << 20,), "string")
    m.operator("TILE", [x, m.constant("n", np.array([1 << 20], np.int32))], [y])
    m.inputs([x])
    m.outputs([y])
    return m.build(), np.array([b"word"], object)


def growing_loop():
    """A loop that doubles its variable 20 times."""
    m = ModelBuilder()
    n, left = m.tensor("n", (1,), "int32"), m.tensor("left", (1,), "int32")
    start = m.constant("start", np.ones(8, np.float32))
    y = m.tensor("y", (8,), "float32", shape_signature=(-1,))
    m.operator("WHILE", [n, start], [left, y], cond_subgraph_index=1, body_subgraph_index=2)
    m.inputs([n])
    m.outputs([y])
    for name in ("test", "body"):
        m.subgraph(name)
        n, x = m.tensor("n", (1,), "int32"), m.tensor("x", (8,), "float32", shape_signature=(-1,))
        m.inputs([n, x])
        if name == "test":
            more = m.tensor("more", (1,), "bool")
            m.operator("CAST", [n], [more], in_data_type="int32", out_data_type="bool")
            m.outputs([more])
        else:
            less, y = m.tensor("less", (1,), "int32"), m.tensor("y", (16,), "float32", shape_signature=(-1,))
            m.operator("SUB", [n, m.constant("one", np.array([1], np.int32))], [less])
            m.operator("CONCATENATION", [x, x], [y], axis=0)
            m.outputs([less, y])
    return m.build(), np.array([20], np.int32)


def run_with(content, value, max_memory):
    interpreter = Interpreter(model_content=content, max_memory=max_memory)
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, value)
    interpreter.invoke()


@pytest.mark.parametrize("make", [range_of_data, folded, many_folded, variable, strings, growing_loop])
def test_max_memory_counts_all_memory(make):
    content, value = make()
    with pytest.raises(MemoryLimitError, match=f"max_memory is {LIMIT}"):
        run_with(content, value, LIMIT)
    if make is not range_of_data:
        run_with(content, value, 256 * LIMIT)


def test_failed_allocations_raise_a_memory_limit_error():
    """Also if numpy or the system refuses the allocation."""
    m = ModelBuilder()
    x, y = m.tensor("x", (1,), "float32"), m.tensor("y", (1,), "float32")
    state = m.tensor("state", (1 << 20, 1 << 20), "float32", variable=True)
    m.operator("ADD", [x, state], [y])
    m.inputs([x])
    m.outputs([y])
    with pytest.raises(MemoryLimitError):
        Interpreter(model_content=m.build()).allocate_tensors()


def test_subgraphs_that_call_each_other_deeply_say_what_helps():
    m = ModelBuilder()
    for k in range(250):
        m.subgraph(f"s{k}")
        x, y = m.tensor("x", (2,)), m.tensor("y", (2,))
        if k < 249:
            m.operator("STABLEHLO_COMPOSITE", [x], [y], name="t", decomposition_subgraph_index=k + 1)
        else:
            m.operator("NEG", [x], [y])
        m.inputs([x])
        m.outputs([y])
    interpreter = Interpreter(model_content=m.build())
    before = sys.getrecursionlimit()
    with pytest.raises(OpError, match=rf"call each other more deeply than Python's recursion limit of {before} allows"):
        interpreter.allocate_tensors()
    sys.setrecursionlimit(20 * before)
    try:
        interpreter.allocate_tensors()
        interpreter.set_tensor(0, np.ones(2, np.float32))
        interpreter.invoke()
    finally:
        sys.setrecursionlimit(before)
    assert interpreter.get_tensor(1).tolist() == [-1, -1]


@pytest.mark.parametrize("op", ["MAX_POOL_2D", "AVERAGE_POOL_2D", "L2_POOL_2D"])
@pytest.mark.parametrize("channels", [16, 1])
def test_pools_of_more_taps_than_an_integer_counts(op, channels):
    m = ModelBuilder()
    x, y = m.tensor("x", (1, 1, 1, channels)), m.tensor("y", (1, 1, 1, channels))
    m.operator(op, [x], [y], filter_width=1 << 30, filter_height=1 << 30, stride_w=1, stride_h=1, padding="SAME")
    m.inputs([x])
    m.outputs([y])
    interpreter = Interpreter(model_content=m.build())
    for shape in (1, 1, 1, channels), (1, 1, 1, 16):
        interpreter.resize_tensor_input(x, shape)
        interpreter.allocate_tensors()
        interpreter.set_tensor(x, np.full(shape, 3, np.float32))
        interpreter.invoke()
        assert (interpreter.get_tensor(y) == 3).all()


def transposed(size, taps, stride):
    m = ModelBuilder()
    shape = m.constant("shape", np.array([1, size, size, 1], np.int32))
    w = m.constant("w", np.ones((1, taps, taps, 1), np.float32))
    x, y = m.tensor("x", (1, 1, 1, 1)), m.tensor("y", (1, size, size, 1))
    m.operator("TRANSPOSE_CONV", [shape, w, x], [y], stride_w=stride, stride_h=stride, padding="VALID")
    m.inputs([x])
    m.outputs([y])
    return m.build()


def test_transposed_convolutions_with_strides_far_beyond_the_filter():
    """Phases without taps share their weights; looking for each one's took time that grew with their number squared."""
    calls = lowered(transposed(64, 2, 64)).calls
    weights = [arg for call in calls for arg in call.args if type(arg) is Packed]
    assert len(weights) == 64 * 64 and len({layout for packed in weights for layout in packed.args[1:]}) == 9
    interpreter = Interpreter(model_content=transposed(64, 2, 64))
    interpreter.allocate_tensors()
    interpreter.set_tensor(2, np.full((1, 1, 1, 1), 5, np.float32))
    interpreter.invoke()
    y = interpreter.get_tensor(3)[0, :, :, 0]
    assert (y[:2, :2] == 5).all() and y.sum() == 20
    with pytest.raises(OpError, match=r"strides \[200, 200\] give 40000 kinds of output pixels; at most 16384"):
        Interpreter(model_content=transposed(200, 1, 200)).allocate_tensors()


@pytest.mark.parametrize("limit", [1 << 20, None])
def test_tables_count_as_memory(limit):
    m = ModelBuilder()
    x, y = m.tensor("x", (1, 1, 3)), m.tensor("y", (1, 1, 2))
    m.operator("Mfcc", [x, m.constant("rate", np.array(16000, np.int32))], [y], custom_options=bytes(flexbuffers.Dumps({
        "lower_frequency_limit": 0, "upper_frequency_limit": 4000, "filterbank_channel_count": 2**31 - 1,
        "dct_coefficient_count": 2})))
    m.inputs([x])
    m.outputs([y])
    if limit is None and memory_limit() > 1 << 37:
        pytest.skip("this machine has memory for the tables")
    with pytest.raises(MemoryLimitError, match="its tables of filters take 154618822584 bytes"):
        Interpreter(model_content=m.build(), max_memory=limit).allocate_tensors()


def test_keys_chosen_to_meet_in_a_hash_table():
    keys = np.array([j * pow(0x9E3779B97F4A7C15, -1, 1 << 64) % (1 << 64) for j in range(1 << 16)], np.uint64)
    m = ModelBuilder()
    x, y = m.tensor("x", keys.shape, "int64"), m.tensor("y", keys.shape, "int64")
    index = m.tensor("index", keys.shape, "int32")
    m.operator("UNIQUE", [x], [y, index], idx_out_type="int32")
    m.inputs([x])
    m.outputs([y])
    interpreter = Interpreter(model_content=m.build())
    interpreter.allocate_tensors()
    interpreter.set_tensor(x, keys.view(np.int64))
    interpreter.invoke()        # the time grew with the square of their number
    assert (interpreter.get_tensor(y) == keys.view(np.int64)).all()


def test_a_table_that_is_filled_twice_counts_with_the_larger_contents():
    m = ModelBuilder()
    table = m.tensor("table", (1,), "resource")
    keys, values = m.tensor("keys", (100_000,), "int64"), m.tensor("values", (100_000,), "string")
    m.operator("HASHTABLE", [], [table], table_id=1, key_dtype="int64", value_dtype="string")
    m.operator("HASHTABLE_IMPORT", [table, keys, values], [])
    m.operator("HASHTABLE_IMPORT", [table, m.constant("key", np.array([1])),
                                    m.constant("value", np.array([b"a"], object))], [])
    m.inputs([keys, values])
    m.outputs([])
    with pytest.raises(MemoryLimitError, match="max_memory is 8000000"):
        Interpreter(model_content=m.build(), max_memory=8_000_000).allocate_tensors()


def test_more_mask_bits_than_entries():
    m = ModelBuilder()
    x, begin, y = m.tensor("x", (5, 3, 4)), m.tensor("begin", (1,), "int32"), m.tensor("y", (3, 4))
    m.operator("STRIDED_SLICE", [x, begin, m.constant("end", np.array([2], np.int32)),
                                 m.constant("strides", np.array([1], np.int32))], [y], shrink_axis_mask=7)
    m.inputs([x, begin])
    m.outputs([y])
    interpreter = Interpreter(model_content=m.build())
    interpreter.allocate_tensors()
    values = np.arange(60, dtype=np.float32).reshape(5, 3, 4)
    interpreter.set_tensor(x, values)
    interpreter.set_tensor(begin, np.array([1], np.int32))
    interpreter.invoke()
    assert (interpreter.get_tensor(y) == values[1]).all()


@pytest.mark.parametrize("size", [-1, 0])
def test_skip_grams_of_no_words(size):
    m = ModelBuilder()
    x, y = m.tensor("x", (), "string"), m.tensor("y", (1,), "string")
    m.operator("SKIP_GRAM", [x], [y], ngram_size=size, include_all_ngrams=True)
    m.inputs([x])
    m.outputs([y])
    interpreter = Interpreter(model_content=m.build())
    interpreter.allocate_tensors()
    interpreter.set_tensor(x, np.array(b"a b", object))
    interpreter.invoke()
    assert interpreter.get_tensor(y).size == 0


def test_blocks_of_many_axes_are_refused():
    m = ModelBuilder()
    x, y = m.tensor("x", (1, *[2] * 20, 1)), m.tensor("y", ())
    m.operator("SPACE_TO_BATCH_ND", [x, m.constant("blocks", np.full(20, 3, np.int32)),
                                     m.constant("paddings", np.tile(np.array([2, 2], np.int32), (20, 1)))], [y])
    m.inputs([x])
    m.outputs([y])
    with pytest.raises(OpError, match="has 22 dimensions; at most 8 are possible"):
        Interpreter(model_content=m.build()).allocate_tensors()


def test_a_chain_of_subgraphs_prepared_piece_by_piece():
    """Python's recursion limit does not see its depth, because each call finds the rest prepared."""
    count, step = 1100, 50
    m = ModelBuilder()
    x = m.tensor("x", (1,))
    ys = [m.tensor(f"y{k}", (1,)) for k in range(count // step)]
    for y, first in zip(ys, range(count - step, -1, -step), strict=True):
        m.operator("STABLEHLO_COMPOSITE", [x], [y], name="t", decomposition_subgraph_index=first + 1)
    m.inputs([x])
    m.outputs(ys[-1:])
    for k in range(count):
        m.subgraph(f"s{k}")
        a, b = m.tensor("a", (1,)), m.tensor("b", (1,))
        if k < count - 1:
            m.operator("STABLEHLO_COMPOSITE", [a], [b], name="t", decomposition_subgraph_index=k + 2)
        else:
            m.operator("NEG", [a], [b])
        m.inputs([a])
        m.outputs([b])
    with pytest.raises(OpError, match="in more than 1000 levels"):
        Interpreter(model_content=m.build()).allocate_tensors()
