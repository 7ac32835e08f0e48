"""Data-dependent shapes: WHERE, UNIQUE, RANGE, and shape operands that are computed at run time."""
import numpy as np
import pytest

import pylite
from pylite._core.kernels import kernel_class
from pylite.ops.dynamic import evaluate_where
from pylite.schema.builder import ModelBuilder
from tests.tools.oneop import differential

TYPES = ("float32", "int8", "int16", "int32", "int64")


def draw(rng, shape, dtype):
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    return rng.integers(0 if dtype.startswith("u") else -2, 3, shape).astype(dtype)


def finish(m, inputs, y, shape, dtype="float32"):
    """Finish a model with ADD after y, whose shape is dynamic; both tensors are outputs."""
    z = m.tensor("z", shape, dtype)
    m.operator("ADD", [y, y], [z])
    m.inputs(inputs)
    m.outputs([z, y])


@differential("bool", "float32", "int32", "uint32", "int64", "int8", "uint8", count=12)
def test_where(m, rng, dtype):
    shape = tuple(rng.integers(1, 5, rng.integers(1, 6)))
    value = draw(rng, shape, dtype)
    value[(0,) * len(shape)] = 1                # the peer cannot return tensors without elements
    x = m.tensor("x", shape, dtype)
    y, z = m.tensor("y", (1, len(shape)), "int64"), m.tensor("z", (1, len(shape)), "int64")
    m.operator("WHERE", [x], [y])
    m.operator("ADD", [y, y], [z])
    m.inputs([x])
    m.outputs([z])
    return [value]


@pytest.mark.parametrize("shape", [(7,), (1, 1), (40, 1), (4, 1, 1), (1, 30, 1), (2, 3, 1, 4, 1), (3, 0, 1), (5, 6, 9)])
@pytest.mark.parametrize("share", [0, 0.02, 0.5, 1])
def test_where_of_any_share_and_axes_of_one_element(shape, share):
    mask = np.random.default_rng(0).random(shape) < share
    np.testing.assert_array_equal(evaluate_where(None, mask)[0], np.argwhere(mask))


@pytest.mark.parametrize("shape", [(2**16 + 5,), (300, 33), (99, 1, 7, 3)])
def test_where_takes_any_byte_for_true(shape):
    mask = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)
    np.testing.assert_array_equal(evaluate_where(None, mask.view(bool))[0], np.argwhere(mask))


def test_memory_is_checked_before_indices_are_found():
    with pytest.raises(MemoryError, match=r"^80$"):
        kernel_class("scanning.indices_of")(np.ones((2, 2), bool), refuse)


def refuse(nbytes):
    raise MemoryError(str(nbytes))


@differential("float32", "int8", "uint8", "int16", "int32", "int64", count=8)
def test_unique(m, rng, dtype):
    n = int(rng.integers(1, 30))
    index = str(rng.choice(["int32", "int64"]))
    x, y, i = m.tensor("x", (n,), dtype), m.tensor("y", (n,), dtype), m.tensor("i", (n,), index)
    m.operator("UNIQUE", [x], [y, i], idx_out_type=index)
    m.inputs([x])
    m.outputs([y, i])
    return [draw(rng, n, dtype)]


@differential("float32", "int32", "int64", count=12)
def test_range(m, rng, dtype):
    start, step = rng.uniform(-9, 9), rng.uniform(0.3, 4) * rng.choice([-1, 1])
    stop = start + step * rng.uniform(0.1, 20)
    if dtype != "float32":
        start, stop, step = int(start), int(stop) + (1 if step > 0 else -1), max(1, int(abs(step))) * int(np.sign(step))
        stop = stop if (stop - start) * step > 0 else start + step
    values = [np.array(v, dtype) for v in (start, stop, step)]
    operands = [m.tensor(name, (), dtype) if rng.integers(2) else m.constant(name, v)
                for name, v in zip(("start", "stop", "step"), values, strict=True)]
    fixed = [m.record.subgraphs[0].tensors[i].buffer for i in operands]
    if all(fixed):
        operands[0], fixed[0] = m.tensor("from", (), dtype), 0
    y = m.tensor("y", (1,), dtype)
    m.operator("RANGE", operands, [y])
    m.inputs([i for i, f in zip(operands, fixed, strict=True) if not f])
    m.outputs([y])
    return [v for v, f in zip(values, fixed, strict=True) if not f]


@differential("float32", count=12)
def test_reshape(m, rng, dtype):
    shape = tuple(rng.integers(1, 5, 3))
    new = rng.permutation(shape).astype(np.int32)
    wanted = new.copy()
    if rng.integers(2):
        wanted[rng.integers(3)] = -1
    x, s, y = m.tensor("x", shape), m.tensor("s", (3,), "int32"), m.tensor("y", (1, 1, 1))
    m.operator("RESHAPE", [x, s], [y], new_shape=None)
    finish(m, [x, s], y, (1, 1, 1))
    return [rng.standard_normal(shape).astype(np.float32), wanted]


@differential("int32", "int64", count=12)
def test_slice(m, rng, dtype):
    shape = rng.integers(1, 6, 3)
    begin = np.array([rng.integers(0, n) for n in shape], dtype)
    size = np.array([rng.integers(1, n - b + 1) for n, b in zip(shape, begin, strict=True)], dtype)
    size[rng.integers(3)] = -1
    x, y = m.tensor("x", shape), m.tensor("y", (None, None, None))      # the peer requires the declared shape
    b, s = m.tensor("b", (3,), dtype), m.tensor("s", (3,), dtype)
    m.operator("SLICE", [x, b, s], [y])
    finish(m, [x, b, s], y, (1, 1, 1))
    return [rng.standard_normal(shape).astype(np.float32), begin, size]


@differential("float32", count=12)
def test_strided_slice(m, rng, dtype):
    shape = rng.integers(2, 6, 3)
    begin = np.array([rng.integers(0, n - 1) for n in shape], np.int32)
    end = np.array([rng.integers(b + 1, n + 1) for n, b in zip(shape, begin, strict=True)], np.int32)
    shrink = int(rng.integers(0, 7))
    x, y = m.tensor("x", shape), m.tensor("y", (1,) * (3 - shrink.bit_count()))
    operands = [m.tensor(name, (3,), "int32") for name in ("b", "e")]
    step = m.constant("step", np.array([1, 1, 1], np.int32))
    m.operator("STRIDED_SLICE", [x, *operands, step], [y], shrink_axis_mask=shrink, begin_mask=int(rng.integers(8)))
    finish(m, [x, *operands], y, (1,) * (3 - shrink.bit_count()))
    return [rng.standard_normal(shape).astype(np.float32), begin, end]


@differential("int8", "float32", "int64", count=10)
def test_slice_at_a_computed_place(m, rng, dtype):
    shape = rng.integers(1, 6, rng.integers(1, 5))
    kind = str(rng.choice(["int32", "int64"]))
    size = np.array([rng.integers(1, n + 1) for n in shape], kind)
    begin = np.array([rng.integers(0, n - s + 1) for n, s in zip(shape, size, strict=True)], kind)
    x, b, y = m.tensor("x", shape, dtype), m.tensor("b", begin.shape, kind), m.tensor("y", size, dtype)
    m.operator("SLICE", [x, b, m.constant("size", size)], [y])
    m.inputs([x, b])
    m.outputs([y])
    return [draw(rng, shape, dtype), begin]


@differential("int8", "float32", "int64", count=10)
def test_element_at_a_computed_place(m, rng, dtype):
    shape = rng.integers(1, 6, rng.integers(1, 5))
    entries = int(rng.integers(1, len(shape) + 1))
    begin = np.array([rng.integers(-n, n) for n in shape[:entries]], np.int32)
    shrink = int(rng.integers(1, 1 << entries))
    whole = ~shrink & (1 << entries) - 1
    left = [int(n) for i, n in enumerate(shape) if not shrink >> i & 1]
    x, b, e = m.tensor("x", shape, dtype), m.tensor("b", begin.shape, "int32"), m.tensor("e", begin.shape, "int32")
    y = m.tensor("y", left, dtype)
    m.operator("STRIDED_SLICE", [x, b, e, m.constant("by", np.ones(entries, np.int32))], [y], shrink_axis_mask=shrink,
               begin_mask=whole, end_mask=whole)
    m.inputs([x, b, e])
    m.outputs([y])
    return [draw(rng, shape, dtype), begin, begin + 1]


def test_a_computed_slice_out_of_bounds_is_refused():
    m = ModelBuilder()
    x, b, y = m.tensor("x", (4,)), m.tensor("b", (1,), "int32"), m.tensor("y", (3,))
    m.operator("SLICE", [x, b, m.constant("size", np.array([3], np.int32))], [y])
    m.inputs([x, b])
    m.outputs([y])
    interpreter = pylite.Interpreter(model_content=m.build())
    interpreter.allocate_tensors()
    interpreter.set_tensor(x, np.arange(4, dtype=np.float32))
    for begin in (0, 1):
        interpreter.set_tensor(b, np.array([begin], np.int32))
        interpreter.invoke()
        assert interpreter.get_tensor(y).tolist() == [begin, begin + 1, begin + 2]
    for begin in (-1, 2):
        interpreter.set_tensor(b, np.array([begin], np.int32))
        with pytest.raises(RuntimeError, match=r"node 0 SLICE failed: the part to copy begins outside"):
            interpreter.invoke()


@differential("int32", "int64", count=8)
def test_pad(m, rng, dtype):
    shape = tuple(rng.integers(1, 4, 3))
    x, w, y = m.tensor("x", shape), m.tensor("w", (3, 2), dtype), m.tensor("y", (1, 1, 1))
    m.operator("PAD", [x, w], [y])
    finish(m, [x, w], y, (1, 1, 1))
    return [rng.standard_normal(shape).astype(np.float32), rng.integers(0, 3, (3, 2)).astype(dtype)]


@differential("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", count=6)
def test_resize(m, rng, name):
    shape = (1, *rng.integers(1, 6, 2), 2)
    x, s, y = m.tensor("x", shape), m.tensor("s", (2,), "int32"), m.tensor("y", (1, 1, 1, 2))
    m.operator(name, [x, s], [y])
    finish(m, [x, s], y, (1, 1, 1, 2))
    return [rng.standard_normal(shape).astype(np.float32), rng.integers(1, 9, 2).astype(np.int32)]


@differential("MEAN", "SUM", "REDUCE_MAX", count=6)
def test_reduce(m, rng, name):
    shape = tuple(rng.integers(1, 5, 3))
    x, a, y = m.tensor("x", shape), m.tensor("a", (1,), "int32"), m.tensor("y", (1, 1))
    m.operator(name, [x, a], [y], keep_dims=False)
    finish(m, [x, a], y, (1, 1))
    return [rng.standard_normal(shape).astype(np.float32), rng.integers(-3, 3, 1).astype(np.int32)]


@differential("float32", count=8)
def test_transpose(m, rng, dtype):
    shape = tuple(rng.integers(1, 5, 3))
    x, p, y = m.tensor("x", shape), m.tensor("p", (3,), "int32"), m.tensor("y", (1, 1, 1))
    m.operator("TRANSPOSE", [x, p], [y])
    finish(m, [x, p], y, (1, 1, 1))
    return [rng.standard_normal(shape).astype(np.float32), rng.permutation(3).astype(np.int32)]


@differential("float32", count=8)
def test_arg_max(m, rng, dtype):
    shape = tuple(rng.integers(1, 5, 3))
    x, a, y = m.tensor("x", shape), m.tensor("a", (1,), "int32"), m.tensor("y", (1, 1), "int32")
    m.operator("ARG_MAX", [x, a], [y], output_type="int32")
    m.inputs([x, a])
    m.outputs([y])
    return [rng.standard_normal(shape).astype(np.float32), rng.integers(0, 3, 1).astype(np.int32)]


def i32(*values):
    return np.array(values[0] if len(values) == 1 and np.ndim(values[0]) else values, np.int32)


def scalar(value):
    return np.array(value, np.int32)


# op: rng -> (operands, ranks of the outputs, options).  Every operand is an input of the graph.
COMPUTED = {
    "FILL": lambda rng: ([i32(rng.integers(1, 5, 3)), np.float32(2.5)], [3], {}),
    "TILE": lambda rng: ([x_of(rng, 2, 3), i32(rng.integers(1, 4, 2))], [2], {}),
    "BROADCAST_TO": lambda rng: ([x_of(rng, 1, 3), i32(rng.integers(1, 5), 3)], [2], {}),
    "ONE_HOT": lambda rng: ([i32(rng.integers(0, 5, (2, 3))), scalar(rng.integers(1, 6)), np.float32(3),
                             np.float32(-1)], [3], {"axis": -1}),
    "TOPK_V2": lambda rng: ([x_of(rng, 3, 6), scalar(rng.integers(1, 6))], [2, 2], {}),
    "SPARSE_TO_DENSE": lambda rng: ([i32(1, 3, 4), i32(rng.integers(5, 9, 1)), x_of(rng, 3), np.float32(7)], [1], {}),
    "SCATTER_ND": lambda rng: ([i32([[0], [2], [0]]), x_of(rng, 3, 2), i32(rng.integers(3, 6), 2)], [2], {}),
    "UNSORTED_SEGMENT_SUM": lambda rng: ([x_of(rng, 4, 2), i32(2, 0, 2, 1), scalar(rng.integers(3, 6))], [2], {}),
    "EXPAND_DIMS": lambda rng: ([x_of(rng, 2, 3), scalar(rng.integers(-3, 3))], [3], {}),
    "PADV2": lambda rng: ([x_of(rng, 2, 3), i32(rng.integers(0, 3, (2, 2))), np.float32(4)], [2], {}),
    "MIRROR_PAD": lambda rng: ([x_of(rng, 3, 4), i32(rng.integers(0, 3, (2, 2)))], [2], {"mode": "REFLECT"}),
    "SPACE_TO_BATCH_ND": lambda rng: ([x_of(rng, 1, 4, 6, 2), i32(2, int(rng.choice([1, 3]))), i32([[0, 2], [0, 0]])],
                                      [4], {}),
    "BATCH_TO_SPACE_ND": lambda rng: ([x_of(rng, 6, 2, 3, 2), i32(int(rng.choice([2, 3])), 1), i32([[0, 1], [1, 0]])],
                                      [4], {}),
    "TRANSPOSE_CONV": lambda rng: ([i32(1, *(4 + rng.integers(0, 2, 2)), 3), x_of(rng, 3, 2, 2, 2),
                                    x_of(rng, 1, 2, 2, 2)], [4], {"padding": "VALID", "stride_w": 2, "stride_h": 2}),
    "SPLIT": lambda rng: ([scalar(rng.integers(-2, 2)), x_of(rng, 2, 4)], [2, 2], {"num_splits": 2}),
    "SPLIT_V": lambda rng: ([x_of(rng, 5, 2), i32(rng.integers(1, 5), -1), scalar(0)], [2, 2], {"num_splits": 2}),
    "REDUCE_PROD": lambda rng: ([x_of(rng, 2, 3, 2), i32(rng.integers(0, 3, 1))], [2], {"keep_dims": False}),
    "REVERSE_V2": lambda rng: ([x_of(rng, 2, 3, 2), i32(rng.integers(0, 3, 1))], [3], {}),
    "CUMSUM": lambda rng: ([x_of(rng, 2, 3, 2), scalar(rng.integers(0, 3))], [3], {}),
    "BROADCAST_ARGS": lambda rng: ([i32(1, rng.integers(1, 5), 1), i32(rng.integers(1, 5), 1, 1)], [1], {}),
    "DYNAMIC_UPDATE_SLICE": lambda rng: ([x_of(rng, 5, 4), x_of(rng, 2, 3), i32(rng.integers(-1, 6, 2))], [2], {}),
}


def x_of(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


@differential(*COMPUTED, count=5)
def test_computed_operands(m, rng, name):
    values, ranks, options = COMPUTED[name](rng)
    values = [np.asarray(v) for v in values]
    operands = [m.tensor(f"x{i}", v.shape, v.dtype.name) for i, v in enumerate(values)]
    dtype = "int32" if name == "BROADCAST_ARGS" else "float32"
    outputs = [m.tensor(f"y{i}", (None,) * rank, "int32" if i and name == "TOPK_V2" else dtype)
               for i, rank in enumerate(ranks)]
    m.operator(name, operands, outputs, **options)
    m.inputs(operands)
    m.outputs(outputs)
    return values


@differential("float32", count=6)
def test_gather_of_where(m, rng, dtype):
    """As in detectors: gather the elements where a condition holds, twice in sequence."""
    n = int(rng.integers(2, 20))
    x, keep = m.tensor("x", (n, 3)), m.tensor("keep", (n,), "bool")
    at, flat, some = m.tensor("at", (1, 1), "int64"), m.tensor("flat", (1,), "int64"), m.tensor("some", (1, 3))
    best, some2 = m.tensor("best", (1,), "int32"), m.tensor("some2", (1, 3))
    m.operator("WHERE", [keep], [at])
    m.operator("RESHAPE", [at, m.constant("s", np.array([-1], np.int32))], [flat])
    m.operator("GATHER", [x, flat], [some], axis=0)
    m.operator("ARG_MAX", [some, m.constant("axis", np.array([0], np.int32))], [best], output_type="int32")
    m.operator("GATHER", [some, best], [some2], axis=0)
    m.inputs([x, keep])
    m.outputs([some2, some])
    kept = rng.integers(0, 2, n).astype(bool)
    kept[rng.integers(n)] = True
    return [rng.standard_normal((n, 3)).astype(np.float32), kept]


def test_unique_of_negative_zero_and_nan():
    """-0 equals 0, and each NaN is unique."""
    m = ModelBuilder()
    x, y, i = m.tensor("x", (6,)), m.tensor("y", (1,)), m.tensor("i", (6,), "int64")
    m.operator("UNIQUE", [x], [y, i], idx_out_type="int64")
    m.inputs([x])
    m.outputs([y, i])
    interpreter = pylite.Interpreter(model_content=m.build())
    interpreter.allocate_tensors()
    for _ in range(2):
        interpreter.set_tensor(x, np.array([0, np.nan, -0.0, np.nan, 1, 0], np.float32))
        interpreter.invoke()
        assert interpreter.get_tensor(i).tolist() == [0, 1, 0, 2, 3, 0]
        np.testing.assert_array_equal(interpreter.get_tensor(y), np.array([0, np.nan, np.nan, 1], np.float32))


def test_a_computed_shape_is_shared_by_its_aliases():
    """One boundary for the sizes, although two operators read them under different shapes."""
    m = ModelBuilder()
    n, flat = m.tensor("n", (), "int32"), m.tensor("flat", (1,), "int32")
    y, z = m.tensor("y", (1,)), m.tensor("z", (1,))
    m.operator("RESHAPE", [n, m.constant("s", np.array([1], np.int32))], [flat])
    m.operator("TILE", [m.constant("one", np.ones(1, np.float32)), flat], [y])
    both = m.tensor("both", (1,), "int32")
    m.operator("PACK", [n], [both], axis=0, values_count=1)
    m.operator("FILL", [both, m.constant("value", np.array(2, np.float32))], [z])
    m.inputs([n])
    m.outputs([y, z])
    interpreter = pylite.Interpreter(model_content=m.build())
    interpreter.allocate_tensors()
    for size in (3, 1, 3, 0):
        interpreter.set_tensor(n, np.array(size, np.int32))
        interpreter.invoke()
        assert interpreter.get_tensor(y).tolist() == [1] * size and interpreter.get_tensor(z).tolist() == [2] * size
        assert len(interpreter._main.segments) == 2


def test_an_empty_result():
    """Empty tensors pass through the rest of the graph."""
    m = ModelBuilder()
    x, at, flat = m.tensor("x", (4,)), m.tensor("at", (1, 1), "int64"), m.tensor("flat", (1,), "int64")
    y, total = m.tensor("y", (1,)), m.tensor("total", ())
    m.operator("WHERE", [x], [at])
    m.operator("RESHAPE", [at, m.constant("s", np.array([-1], np.int32))], [flat])
    m.operator("GATHER", [x, flat], [y], axis=0)
    m.operator("SUM", [y, m.constant("axis", np.array([0], np.int32))], [total])
    m.inputs([x])
    m.outputs([y, total])
    interpreter = pylite.Interpreter(model_content=m.build())
    interpreter.allocate_tensors()
    for value in ([0, 0, 0, 0], [0, 2, 0, 3], [0, 0, 0, 0], [1, 2, 3, 4]):
        value = np.array(value, np.float32)
        interpreter.set_tensor(x, value)
        interpreter.invoke()
        np.testing.assert_array_equal(interpreter.get_tensor(y), value[value != 0])
        assert interpreter.get_tensor(total) == value.sum()


@pytest.mark.parametrize("values", [(0, 1, 0), (0, 5, -1), (0.0, 1.0, 0.0)])
def test_range_errors(values):
    m = ModelBuilder()
    operands = [m.constant(name, np.array(v)) for name, v in zip(("a", "b", "c"), values, strict=True)]
    dtype = m.record.subgraphs[0].tensors[0].type
    if dtype == "float64":
        operands = [m.constant(name, np.array(v, np.float32)) for name, v in zip(("a", "b", "c"), values, strict=True)]
        dtype = "float32"
    y = m.tensor("y", (1,), dtype)
    m.operator("RANGE", operands, [y])
    m.outputs([y])
    interpreter = pylite.Interpreter(model_content=m.build())
    with pytest.raises(RuntimeError, match=r"node 0 RANGE: cannot go from"):
        interpreter.allocate_tensors()


@pytest.mark.parametrize("op", ["FULLY_CONNECTED", "MUL"])
def test_weights_of_an_op_on_contents_computed_from_sizes(op):
    """FILL gives numbers that are known once the shapes are; what reads them is evaluated, and packs its weights."""
    m = ModelBuilder()
    x, shape, filled = m.tensor("x", (None, 3, 24)), m.tensor("shape", (3,), "int32"), m.tensor("f", (None, 3, 24))
    m.operator("SHAPE", [x], [shape], out_type="int32")
    m.operator("FILL", [shape, m.constant("two", np.float32(2))], [filled])
    weights = np.arange(48 if op == "FULLY_CONNECTED" else 24, dtype=np.float32).reshape(-1, 24)
    y = m.tensor("y", (None, 3, 2 if op == "FULLY_CONNECTED" else 24))
    m.operator(op, [filled, m.constant("w", weights)], [y],
               **({"keep_num_dims": True} if op == "FULLY_CONNECTED" else {}))
    m.inputs([x])
    m.outputs([y])
    interpreter = pylite.Interpreter(model_content=m.build())
    for n in (1, 2, 3, 5):
        interpreter.resize_tensor_input(0, (n, 3, 24))
        interpreter.allocate_tensors()
        interpreter.set_tensor(0, np.zeros((n, 3, 24), np.float32))
        interpreter.invoke()
        row = 2 * (weights.sum(1) if op == "FULLY_CONNECTED" else weights[0])
        np.testing.assert_array_equal(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]),
                                      np.broadcast_to(row, (n, 3, len(row))))
