"""Programs for new input shapes: several at a time, in arenas that grow, on several threads."""
import gc
import itertools
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import pylite
from pylite._core import simd
from pylite._core.kernels import kernel_class
from pylite.runtime import recorded_program
from pylite.schema.builder import ModelBuilder
from pylite.schema.tables import table


def network():
    """x (n, h, w, 3) float32: convolutions of every kind, a pool, a sum with a constant, softmax of the means."""
    rng = np.random.default_rng(0)
    m = ModelBuilder()

    def constant(name, shape):
        return m.constant(name, rng.normal(0, .3, shape).astype(np.float32))

    def tensor(name, shape):
        return m.tensor(name, shape, shape_signature=(-1, -1, -1, shape[3]))
    x, a, b, c = (tensor(name, (1, 8, 8, n)) for name, n in zip("xabc", (3, 8, 8, 16), strict=True))
    d, e, f = tensor("d", (1, 4, 4, 16)), tensor("e", (1, 4, 4, 16)), tensor("f", (1, 4, 4, 32))
    mean, y = m.tensor("mean", (1, 32), shape_signature=(-1, 32)), m.tensor("y", (1, 32), shape_signature=(-1, 32))
    m.operator("CONV_2D", [x, constant("w1", (8, 3, 3, 3)), constant("b1", (8,))], [a], padding="SAME", stride_w=1,
               stride_h=1, dilation_w_factor=1, dilation_h_factor=1, fused_activation_function="RELU")
    m.operator("DEPTHWISE_CONV_2D", [a, constant("w2", (1, 3, 3, 8)), constant("b2", (8,))], [b], padding="SAME",
               stride_w=1, stride_h=1, depth_multiplier=1, dilation_w_factor=1, dilation_h_factor=1)
    m.operator("CONV_2D", [b, constant("w3", (16, 1, 1, 8)), constant("b3", (16,))], [c], padding="SAME", stride_w=1,
               stride_h=1, dilation_w_factor=1, dilation_h_factor=1)
    m.operator("MAX_POOL_2D", [c], [d], padding="SAME", stride_w=2, stride_h=2, filter_width=2, filter_height=2)
    m.operator("ADD", [d, constant("k", (16,))], [e])
    m.operator("CONCATENATION", [d, e], [f], axis=3)
    m.operator("MEAN", [f, m.constant("axes", np.array([1, 2], np.int32))], [mean])
    m.operator("SOFTMAX", [mean], [y], beta=1.0)
    m.inputs([x])
    m.outputs([y])
    return m.build()


SHAPES = [(1, 8, 8, 3), (2, 8, 8, 3), (1, 9, 7, 3), (3, 16, 5, 3), (1, 1, 1, 3), (2, 30, 30, 3), (1, 8, 8, 3),
          (4, 2, 3, 3), (0, 8, 8, 3), (1, 33, 31, 3), (2, 5, 5, 3)]


def result(interpreter, shape):
    """The output for an input of `shape`, which the shape determines."""
    interpreter.resize_tensor_input(0, shape)
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, np.random.default_rng(shape).normal(0, 1, shape).astype(np.float32))
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).tobytes()


@pytest.fixture(scope="module")
def wanted():
    """{shape: the result of an interpreter that has had no other}"""
    return {shape: result(pylite.Interpreter(model_content=network()), shape) for shape in SHAPES}


@pytest.mark.parametrize("kept", [1, 2, 3, 20])
def test_programs_of_earlier_shapes_stay_as_they_were(wanted, kept):
    interpreter, kinds = pylite.Interpreter(model_content=network(), cached_shapes=kept), set()
    for shape in SHAPES + SHAPES[::-1] + SHAPES[::2] * 2:
        assert result(interpreter, shape) == wanted[shape], shape
        kinds.add(type(interpreter._main.current).__name__)
    assert "ShapedProgram" in kinds


def test_interpreters_of_one_model_have_shapes_of_their_own(wanted):
    model = pylite.Model(network())

    def work(start):
        interpreter = pylite.Interpreter(model=model, cached_shapes=2)
        return all(result(interpreter, shape) == wanted[shape] for shape in (SHAPES[start:] + SHAPES[:start]) * 4)
    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(work, range(4)))


def test_outgrown_arenas_are_freed():
    interpreter = pylite.Interpreter(model_content=network(), cached_shapes=1)
    arenas = []
    for count in (1, 2, 3, 8, 30, 100, 400):        # one recording serves all but the first
        result(interpreter, (count, 8, 8, 3))
        arenas.append(weakref.ref(interpreter._main.current.arena))
    assert len({id(arena()) for arena in arenas if arena() is not None}) == 1
    assert arenas[-1]() is not None


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("channels", [40, 150])
def test_filters_of_3_by_3_with_many_channels(channels, threads):
    """Winograd's products, for which filters of many channels are transformed at run time."""
    rng, m = np.random.default_rng(0), ModelBuilder()
    x, y = (m.tensor(name, (1, 8, 8, n), shape_signature=(-1, -1, -1, n)) for name, n in (("x", channels), ("y", 70)))
    w = m.constant("w", rng.normal(0, .1, (70, 3, 3, channels)).astype(np.float32))
    m.operator("CONV_2D", [x, w, -1], [y], padding="SAME", stride_w=1, stride_h=1)
    m.inputs([x])
    m.outputs([y])
    model, shapes = pylite.Model(m.build()), [(1, 8, 8), (2, 9, 30), (1, 2, 3), (3, 20, 7), (1, 1, 1), (1, 40, 17)]
    interpreter = pylite.Interpreter(model=model, num_threads=threads, cached_shapes=2)
    for shape in shapes * 3:
        fresh = pylite.Interpreter(model_content=m.build())
        assert result(interpreter, (*shape, channels)) == result(fresh, (*shape, channels)), shape


def selecting():
    """condition (n, 4) bool and ids (n,) int32: constant rows, selected from a table by ids, or zeros."""
    m = ModelBuilder()
    ids, found = m.tensor("ids", (1,), "int32", shape_signature=(-1,)), m.tensor("f", (1, 4), shape_signature=(-1, 4))
    y = m.tensor("y", (1, 4), shape_signature=(-1, 4))
    table = m.constant("table", np.arange(4 * 50, dtype=np.float32).reshape(50, 4))
    m.operator("GATHER", [table, ids], [found], axis=0)
    m.operator("SELECT_V2", [m.constant("c", np.array([True, False, True, False])), found,
                             m.constant("z", np.zeros(4, np.float32))], [y])
    m.inputs([ids])
    m.outputs([y])
    return m.build()


def test_constants_of_kernels_that_move_keep_no_arena():
    interpreter = pylite.Interpreter(model_content=selecting(), cached_shapes=1)
    arenas = []
    for count in (1, 2, 3, 8, 30, 100, 4000):
        interpreter.resize_tensor_input(0, (count,))
        interpreter.allocate_tensors()
        ids = np.arange(count, dtype=np.int32) % 50
        interpreter.set_tensor(0, ids)
        interpreter.invoke()
        want = np.arange(200, dtype=np.float32).reshape(50, 4)[ids] * [1, 0, 1, 0]
        assert (interpreter.get_tensor(interpreter.get_output_details()[0]["index"]) == want).all()
        arenas.append(weakref.ref(interpreter._main.current.arena))
    assert len({id(arena()) for arena in arenas if arena() is not None}) == 1


def test_views_outlive_the_interpreter_and_its_shapes():
    interpreter = pylite.Interpreter(model_content=network())
    for shape in SHAPES[:4]:
        result(interpreter, shape)
    view = interpreter.tensor(0)()
    expected = view.copy()
    arena = weakref.ref(interpreter._main.current.arena)
    del interpreter
    gc.collect()
    assert view.shape == SHAPES[3]
    np.testing.assert_array_equal(view, expected)
    view[...] = 1
    del view
    gc.collect()
    assert arena() is None


def test_shapes_after_a_refused_one(wanted):
    interpreter = pylite.Interpreter(model_content=network())
    for shape in SHAPES[:4]:
        result(interpreter, shape)
    interpreter.resize_tensor_input(0, (1, 8, 8, 4))
    with pytest.raises(RuntimeError):
        interpreter.allocate_tensors()
    for shape in SHAPES:
        assert result(interpreter, shape) == wanted[shape], shape


def test_errors_after_a_resize_name_the_input():
    """The tensor that does not fit may be another one."""
    m = ModelBuilder()
    y, a, b = m.tensor("y", (1, 3)), m.tensor("a", (1, 3)), m.tensor("b", (1, 3))
    m.operator("ADD", [a, b], [y])
    m.inputs([a, b])
    m.outputs([y])
    interpreter = pylite.Interpreter(model_content=m.build())
    interpreter.resize_tensor_input(b, (2, 4))
    for _ in range(2):
        with pytest.raises(RuntimeError) as caught:
            interpreter.allocate_tensors()
        assert str(caught.value).endswith("; input 'b' was resized from [1, 3] to [2, 4]")
        assert str(caught.value).count("was resized") == 1


@pytest.mark.parametrize("dtype", ["int4", "int8"])
def test_rows_of_products_with_blocks(dtype):
    """Any number of rows, also none, by two products with a scale for each block of the depth."""
    depth, size, rng = 64, 32, np.random.default_rng(1)
    m = ModelBuilder()
    tensors = [m.tensor(name, (1, depth), shape_signature=(-1, depth)) for name in "xyz"]
    for i, (x, y) in enumerate(itertools.pairwise(tensors)):
        scales = m.constant(f"scales{i}", rng.uniform(.01, .1, depth * depth // size).astype(np.float16))
        blocks = table("BlockwiseQuantization")(scales=scales, zero_points=-1, block_size=size)
        w = m.constant(f"w{i}", rng.integers(-8, 8, (depth, depth)).astype(np.int8), dtype=dtype,
                       quantization=table("QuantizationParameters")(details=blocks))
        b = m.constant(f"b{i}", rng.normal(0, 1, depth).astype(np.float32))
        m.operator("FULLY_CONNECTED", [x, w, b], [y], version=13, fused_activation_function="RELU")
    m.inputs(tensors[:1])
    m.outputs(tensors[-1:])
    content = m.build()
    interpreter = pylite.Interpreter(model_content=content)
    for rows in (1, 3, 5, 2, 40, 0, 7, 5, 1):
        shape = (rows, depth)
        assert result(interpreter, shape) == result(pylite.Interpreter(model_content=content), shape), rows


def loop_and_branch():
    """x (n,) float32: a loop that exchanges its two vectors, 3 times, then one of two branches, by the flag (1,)."""
    m = ModelBuilder()

    def vector(name, constant=None):
        return m.tensor(name, (2,), shape_signature=(-1,)) if constant is None else \
            m.constant(name, np.array([constant], np.float32))

    def subgraph(name, operator, constant):
        m.subgraph(name)
        x, y = vector("x"), vector("y")
        m.operator(operator, [x, vector("c", constant)], [y])
        m.inputs([x])
        m.outputs([y])
    x, flag, three = vector("x"), m.tensor("flag", (1,), "bool"), m.constant("three", np.array([3], np.int32))
    left, a, b, y = m.tensor("left", (1,), "int32"), vector("a"), vector("b"), vector("y")
    z = vector("z")
    m.operator("WHILE", [three, x, x], [left, a, b], cond_subgraph_index=1, body_subgraph_index=2)
    m.operator("SUB", [a, b], [y])
    m.operator("IF", [flag, y], [z], then_subgraph_index=3, else_subgraph_index=4)
    m.inputs([x, flag])
    m.outputs([z, a, b])
    m.subgraph("condition")
    n, a, b, more = m.tensor("n", (1,), "int32"), vector("a"), vector("b"), m.tensor("more", (1,), "bool")
    m.operator("GREATER", [n, m.constant("zero", np.array([0], np.int32))], [more])
    m.inputs([n, a, b])
    m.outputs([more])
    m.subgraph("body")
    n, a, b, fewer, c = m.tensor("n", (1,), "int32"), vector("a"), vector("b"), m.tensor("fewer", (1,), "int32"), \
        vector("c")
    m.operator("SUB", [n, m.constant("one", np.array([1], np.int32))], [fewer])
    m.operator("MUL", [b, vector("factor", 1.5)], [c])
    m.inputs([n, a, b])
    m.outputs([fewer, c, a])
    subgraph("then", "ADD", 2)
    subgraph("else", "MUL", -3)
    return m.build()


def loop_and_branch_computed(x, flag):
    """What loop_and_branch() computes."""
    a = b = x
    for _ in range(3):
        a, b = b * np.float32(1.5), a
    y = a - b
    return [y + np.float32(2) if flag else y * np.float32(-3), a, b]


def test_kernels_that_call_subgraphs_move_to_new_shapes(monkeypatch):
    """For further shapes no kernel is constructed, and results are those of the definition."""
    constructed = []

    def noted(name):
        def construct(*args, **named):
            constructed.append(name)
            return kind(*args, **named)
        kind = kernel_class(name)
        construct.ARRAYS, construct.SIZES = kind.ARRAYS, kind.SIZES
        return construct
    monkeypatch.setattr(recorded_program, "kernel_class", noted)
    interpreter = pylite.Interpreter(model_content=loop_and_branch())
    rng = np.random.default_rng(0)
    for count, n in enumerate((2, 5, 40, 3, 7, 39, 2, 5, 4, 40)):
        interpreter.resize_tensor_input(0, (n,))
        interpreter.allocate_tensors()
        if count == 2:      # the first shape that the recording serves, in arenas that the largest shape fits
            constructed.clear()
        x, flag = rng.normal(0, 1, n).astype(np.float32), bool(count % 2)
        for detail, data in zip(interpreter.get_input_details(), (x, np.array([flag])), strict=True):
            interpreter.set_tensor(detail["index"], data)
        interpreter.invoke()
        for detail, wanted in zip(interpreter.get_output_details(), loop_and_branch_computed(x, flag), strict=True):
            assert interpreter.get_tensor(detail["index"]).tobytes() == wanted.tobytes(), n
    assert not constructed


def test_with_a_plan_cache_called_subgraphs_are_recorded_as_well(tmp_path):
    """And a plan that follows, here of another instruction set, finds the operands of their kernels."""
    folder, content, rng, before = tmp_path / "cache", loop_and_branch(), np.random.default_rng(0), simd.current
    folder.mkdir(mode=0o700)
    levels = simd.available()[:2]
    interpreter = pylite.Interpreter(model_content=content, cache_dir=folder)
    try:
        for level, lengths in zip(levels, ((2, 5, 40, 3, 7, 39), (12, 15, 50, 13, 17, 49)), strict=False):
            simd.use(level)
            for n in lengths:
                interpreter.resize_tensor_input(0, (n,))
                interpreter.allocate_tensors()
                x = rng.normal(0, 1, n).astype(np.float32)
                for detail, data in zip(interpreter.get_input_details(), (x, np.array([n % 2 == 1])), strict=True):
                    interpreter.set_tensor(detail["index"], data)
                interpreter.invoke()
                for detail, wanted in zip(interpreter.get_output_details(), loop_and_branch_computed(x, n % 2 == 1),
                                          strict=True):
                    assert interpreter.get_tensor(detail["index"]).tobytes() == wanted.tobytes(), n
            for index in (0, 2, 3, 4):      # the condition, 1, does not read what changes
                assert type(interpreter._executors[index].current).__name__ == "ShapedProgram", index
            assert not interpreter._main.plans.problem
    finally:
        simd.use(before)
    plans, summaries = 2 * len(levels), len(levels) - 1     # the second level has not run the file's own shape
    assert len(list(folder.glob("*.plan"))) == plans + summaries


def padded_fill(pad):
    """The mirrored FILL of the input's shape: an output of the shape alone, so that no kernel computes it."""
    m = ModelBuilder()
    x, shape = m.tensor("x", (None,)), m.tensor("shape", (1,), "int32")
    filled, y = m.tensor("filled", (None,)), m.tensor("y", (None,))
    m.operator("SHAPE", [x], [shape], out_type="int32")
    m.operator("FILL", [shape, m.constant("value", np.float32(2))], [filled])
    m.operator("MIRROR_PAD", [filled, m.constant("pad", np.int32([[pad, pad]]))], [y], mode="REFLECT")
    m.inputs([x])
    m.outputs([y])
    return m.build()


@pytest.mark.parametrize(("pad", "sizes"), [(2, (5, 4, 2, 2, 6, 1, 5)), (0, (3, 2, 5, 0, 0, 4))])
def test_shapes_that_a_folded_operator_refuses_are_refused_when_allocating(pad, sizes):
    """A result that depends on shapes alone was computed when it was read, which then raised the operator's error."""
    interpreter = pylite.Interpreter(model_content=padded_fill(pad))
    for n in sizes:
        interpreter.resize_tensor_input(0, (n,))
        if 0 < n <= pad:
            with pytest.raises(pylite.errors.OpError, match="too small to be mirrored"):
                interpreter.allocate_tensors()
            continue
        interpreter.allocate_tensors()
        interpreter.invoke()
        for _ in range(2):
            np.testing.assert_array_equal(interpreter.get_tensor(3), np.full(n + 2 * pad, 2, np.float32))
