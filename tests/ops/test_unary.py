"""EXP, SQRT, RSQRT, ABS and NEG against the reference kernels; extreme values are in tests/ops/test_activation.py."""
import numpy as np
import pytest

from pylite.schema.builder import ModelBuilder
from tests.ops.draw import mild_quantization, shape_of, values
from tests.ops.test_activation import one_op, run
from tests.tools.oneop import differential


@differential("float32", "int8", "int16")
def test_exp(m, rng, dtype):
    return one_op(m, rng, "EXP", dtype)


def _not_negative(rng, dtype, q):
    """Values that stand for real numbers >= 0."""
    x = values(rng, shape_of(rng), dtype)
    return np.abs(x) if dtype == "float32" else np.maximum(x, x.dtype.type(q["zero_point"]))


@differential("float32", "int8", "int16")
def test_sqrt(m, rng, dtype):
    q = mild_quantization(rng, dtype) if dtype != "float32" else None
    return one_op(m, rng, "SQRT", dtype, x=_not_negative(rng, dtype, q), q=q)


@differential("float32", "int8", "int16")
def test_rsqrt(m, rng, dtype):
    q = mild_quantization(rng, dtype) if dtype != "float32" else None
    return one_op(m, rng, "RSQRT", dtype, x=_not_negative(rng, dtype, q), q=q)


@differential("float32", "int8", "int16")
def test_abs(m, rng, dtype):
    q = mild_quantization(rng, dtype) if dtype != "float32" else None
    return one_op(m, rng, "ABS", dtype, q=q, y_q=q if rng.random() < 0.4 else None)


@differential("float32", "int8", "int16", "int32", "int64")
def test_neg(m, rng, dtype):
    x = values(rng, shape_of(rng), dtype)
    xi, y = m.tensor("x", x.shape, dtype), m.tensor("y", x.shape, dtype)
    m.operator("NEG", [xi], [y])
    m.inputs([xi])
    m.outputs([y])
    return [x]


@differential("int16")
def test_abs_without_scales(m, rng, dtype):
    x = values(rng, (100,), dtype)
    x[0] = -32768
    xi, y = m.tensor("x", x.shape, dtype), m.tensor("y", x.shape, dtype)
    m.operator("ABS", [xi], [y], version=3)
    m.inputs([xi])
    m.outputs([y])
    return [x]


def test_abs_of_int32():
    m = ModelBuilder()
    x, = one_op(m, np.random.default_rng(0), "ABS", "int32", x=np.array([-(2**31), -5, 0, 7], np.int32), version=5)
    assert run(m, x).tolist() == [-(2**31), 5, 0, 7]


@pytest.mark.parametrize("name", ["SQRT", "RSQRT"])
@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_roots_of_negative_integers_are_refused(name, dtype):
    m = ModelBuilder()
    x, = one_op(m, np.random.default_rng(0), name, dtype, x=np.array([3, -1], dtype), q={"scale": 0.1},
                y_q={"scale": 0.1})
    with pytest.raises(RuntimeError, match=f"{name}.*below zero"):
        run(m, x)


@pytest.mark.parametrize(("x_scale", "y_scale"), [(300.0, 828.0), (1e4, 50.0), (2.0, 4000.0)])
def test_scales_for_which_rsqrt_shifts_by_more_than_31(x_scale, y_scale):
    """The reference's shift counts wrap, as in DIV, so results saturate that should be 0."""
    m = ModelBuilder()
    x, = one_op(m, np.random.default_rng(0), "RSQRT", "int8", x=np.arange(128).astype(np.int8), q={"scale": x_scale},
                y_q={"scale": y_scale})
    assert run(m, x).tolist() == [127] * 128
