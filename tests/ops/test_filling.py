"""Ops that place or repeat elements against the reference kernels."""
import numpy as np
import pytest

from pylite import Interpreter
from pylite.schema.builder import ModelBuilder
from tests.ops.moving import WIDTHS, one_op, random_array, random_shape
from tests.tools.oneop import differential, run_pylite


@differential(*WIDTHS, count=8)
def test_fill(m, rng, dtype):
    shape = np.array(random_shape(rng, 0, 5), rng.choice(["int32", "int64"]))
    return one_op(m, "FILL", dtype, [random_array(rng, (), dtype)], [shape], order=[1, 0])


@differential("float32", "int32", "int64", count=8)
def test_zeros_like(m, rng, dtype):
    return one_op(m, "ZEROS_LIKE", dtype, [random_array(rng, random_shape(rng, 0, 5), dtype)])


@differential("float32", "int8", "complex64", count=4)
def test_rank(m, rng, dtype):
    return one_op(m, "RANK", dtype, [random_array(rng, random_shape(rng, 0, 5), dtype)], out_dtype="int32")


@differential(*WIDTHS, count=10)
def test_tile(m, rng, dtype):
    x = random_array(rng, random_shape(rng, 1, 5, largest=5), dtype)
    times = rng.integers(0 if rng.random() < 0.1 else 1, 4, x.ndim).astype(rng.choice(["int32", "int64"]))
    return one_op(m, "TILE", dtype, [x], [times])


@differential(*WIDTHS, count=10)
def test_broadcast_to(m, rng, dtype):
    shape = random_shape(rng, 1, 6, largest=5)
    inner = tuple(1 if rng.random() < 0.4 else n for n in shape[int(rng.integers(0, len(shape))):])
    return one_op(m, "BROADCAST_TO", dtype, [random_array(rng, inner, dtype)],
                  [np.array(shape, rng.choice(["int32", "int64"]))], version=3)


@differential("int32", "int64", count=10)
def test_broadcast_args(m, rng, dtype):
    shape = np.array(rng.integers(1, 5, rng.integers(1, 6)), dtype)
    shorter = np.where(rng.random(len(shape)) < 0.4, 1, shape)[int(rng.integers(0, len(shape))):].astype(dtype)
    shape = np.where(rng.random(len(shape)) < 0.2, 1, shape).astype(dtype)
    pair = [shape, shorter] if rng.random() < 0.5 else [shorter, shape]
    return one_op(m, "BROADCAST_ARGS", dtype, pair)


@differential(*WIDTHS, count=10)
def test_reverse_v2(m, rng, dtype):
    x = random_array(rng, random_shape(rng, 1, 5), dtype)
    first = int(rng.integers(0, x.ndim))
    axes = np.arange(first, int(rng.integers(first, x.ndim)) + 1, dtype=np.int32)      # the peer requires adjacent axes
    return one_op(m, "REVERSE_V2", dtype, [x], [axes], version=2)


@differential("float32", "uint8", "int16", "int32", "int64", count=8)
def test_reverse_sequence(m, rng, dtype):
    x = random_array(rng, random_shape(rng, 2, 5, empty=False), dtype)
    seq, batch = (int(i) for i in rng.permutation(x.ndim)[:2])
    lengths = rng.integers(1, x.shape[seq] + 1, x.shape[batch]).astype(rng.choice(["int32", "int64"]))
    return one_op(m, "REVERSE_SEQUENCE", dtype, [x], [lengths], seq_dim=seq, batch_dim=batch)


@differential("float32", "int8", "uint8", "int16", "int32", "int64", count=6)
def test_matrix_diag(m, rng, dtype):
    return one_op(m, "MATRIX_DIAG", dtype, [random_array(rng, random_shape(rng, 1, 4, empty=False), dtype)])


@differential("float32", "int8", "uint8", "int16", "int32", "int64", count=6)
def test_matrix_set_diag(m, rng, dtype):
    shape = random_shape(rng, 2, 5, empty=False)
    inputs = [random_array(rng, s, dtype) for s in (shape, (*shape[:-2], min(shape[-2:])))]
    return one_op(m, "MATRIX_SET_DIAG", dtype, inputs)


@differential(*WIDTHS, "float64", count=8)
def test_dilate(m, rng, dtype):
    x = random_array(rng, random_shape(rng, 1, 4, empty=False), dtype)
    return one_op(m, "DILATE", dtype, [x], [rng.integers(1, 4, x.ndim).astype(np.int32), random_array(rng, (), dtype)])


@differential(*WIDTHS, count=12)
def test_stablehlo_pad(m, rng, dtype):
    x = random_array(rng, random_shape(rng, 1, 4, empty=False), dtype)
    low, high = (rng.integers(-1, 4, x.ndim) for _ in range(2))
    inner = rng.integers(0, 3, x.ndim)
    high = np.maximum(high, -(x.shape + (np.array(x.shape) - 1) * inner + low) + 1)
    return one_op(m, "STABLEHLO_PAD", dtype, [x, random_array(rng, (), dtype)], edge_padding_low=tuple(low.tolist()),
                  edge_padding_high=tuple(high.tolist()), interior_padding=tuple(inner.tolist()))


@pytest.mark.parametrize(("shape", "low", "high"), [((3, 1), (1, -1), (0, 0)), ((3, 1), (0, -2), (0, 0)),
                                                    ((3, 0), (0, 0), (1, 0)), ((2, 3), (0, 0), (-2, 5))])
def test_a_pad_that_leaves_nothing_has_no_sizes(shape, low, high):
    m = ModelBuilder()
    fed = one_op(m, "STABLEHLO_PAD", "float32", [np.ones(shape, np.float32), np.float32(0)], edge_padding_low=low,
                 edge_padding_high=high, interior_padding=(0, 0))
    got, = run_pylite(m.build(), fed)
    assert got.shape == (0, 0)


@pytest.mark.parametrize(("old", "new"), [("float32", "int32"), ("float32", "uint8"), ("int16", "int64"),
                                          ("complex64", "float64"), ("bool", "int8"), ("uint8", "float32")])
@pytest.mark.parametrize("constant", [False, True])
def test_bitcast(old, new, constant):
    x = random_array(np.random.default_rng(0), (3, 5, 4), old)
    want = x.view(new)
    if np.dtype(old).itemsize > np.dtype(new).itemsize:
        want = want.reshape(3, 5, 4, -1)
    elif np.dtype(old).itemsize < np.dtype(new).itemsize:
        want = want.reshape(3, 5)
    m = ModelBuilder()
    operand = m.constant("x", x) if constant else m.tensor("x", x.shape, old)
    y = m.tensor("y", want.shape, new)
    m.operator("BITCAST", [operand], [y])
    m.inputs([] if constant else [operand])
    m.outputs([y])
    got, = run_pylite(m.build(), [] if constant else [x])
    assert got.dtype == want.dtype and got.shape == want.shape and got.tobytes() == want.tobytes()


@pytest.mark.parametrize("constant", [False, True])
def test_shapes_larger_than_memory_are_refused(constant):
    m = ModelBuilder()
    shape, x = m.constant("shape", np.array([2**31 - 1] * 2, np.int32)), np.array(1, np.float32)
    value = m.constant("x", x) if constant else m.tensor("x", (), "float32")
    y = m.tensor("y", (1, 1))
    m.operator("FILL", [shape, value], [y])
    m.inputs([] if constant else [value])
    m.outputs([y])
    with pytest.raises(RuntimeError, match=r"FILL.*this machine has"):
        Interpreter(model_content=m.build()).allocate_tensors()


def test_shapes_that_do_not_broadcast_are_refused_in_invoke():
    m = ModelBuilder()
    one_op(m, "BROADCAST_ARGS", "int32", [np.array([3, 2], np.int32), np.array([3], np.int32)])
    interpreter = Interpreter(model_content=m.build())
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, np.array([3, 2], np.int32))
    interpreter.set_tensor(1, np.array([3], np.int32))
    with pytest.raises(RuntimeError, match="cannot be broadcast"):
        interpreter.invoke()
