"""Rounding, powers, bits and other element-wise ops against the reference kernels."""
import sys

import numpy as np
import pytest

from pylite import Interpreter
from pylite._core import simd
from pylite.schema.builder import ModelBuilder
from tests.ops.draw import mild_quantization, shape_of, values
from tests.ops.moving import one_op, random_array, random_shape
from tests.ops.test_arithmetic import one_op as two_operands
from tests.ops.test_arithmetic import operands
from tests.tools.oneop import differential, run_peer, run_pylite


def unary(m, rng, name, dtype, x=None, **options):
    return one_op(m, name, dtype, [values(rng, shape_of(rng), dtype) if x is None else x], **options)


@differential("float32")
def test_floor(m, rng, dtype):
    return unary(m, rng, "FLOOR", dtype)


@differential("float32", tolerance=2e-6)
def test_sin(m, rng, dtype):
    return unary(m, rng, "SIN", dtype)


@differential("float32", tolerance=2e-6)
def test_cos(m, rng, dtype):
    return unary(m, rng, "COS", dtype)


@differential("float32", tolerance=2e-6)
def test_sin_of_large_numbers(m, rng, dtype):
    x = (rng.standard_normal(300) * 10.0 ** rng.uniform(0, 30, 300)).astype(dtype)
    return unary(m, rng, "SIN", dtype, x)


@differential("float32", tolerance=1e-6)
def test_log(m, rng, dtype):
    x = np.abs(values(rng, shape_of(rng), dtype)) * np.float32(10.0) ** rng.integers(-30, 30)
    return unary(m, rng, "LOG", dtype, x.astype(np.float32))


@differential("int8", "int16")
def test_log_of_integers(m, rng, dtype):
    x = values(rng, shape_of(rng), dtype)
    xi = m.tensor("x", x.shape, dtype, **mild_quantization(rng, dtype))
    y = m.tensor("y", x.shape, dtype, **mild_quantization(rng, dtype))
    m.operator("LOG", [xi], [y])
    m.inputs([xi])
    m.outputs([y])
    return [x]


@differential("float32")
def test_square(m, rng, dtype):
    return unary(m, rng, "SQUARE", dtype)


@differential("float32", "float64", "int32")
def test_sign(m, rng, dtype):
    return unary(m, rng, "SIGN", dtype, version=2)


@differential("float32", "int8", "int32")
def test_squared_difference(m, rng, dtype):
    y_scale = x_scale = None
    if dtype == "int8":
        x_scale = [float(np.exp(rng.uniform(-4, 0))) for _ in range(2)]
        y_scale = max(x_scale) ** 2 * float(np.exp(rng.uniform(0, 5)))
    return two_operands(m, rng, "SQUARED_DIFFERENCE", dtype, x_scale=x_scale, y_scale=y_scale)


@differential("float32", "int8", "int16", "int32")
def test_floor_div(m, rng, dtype):
    return plain(m, rng, "FLOOR_DIV", dtype)


@differential("float32")
def test_floor_div_near_whole_numbers(m, rng, dtype):
    """Quotients that float32 rounds up to whole numbers."""
    b = (rng.uniform(1e-5, 1e-3, (3, 40)) * rng.choice([-1, 1], (3, 40))).astype(dtype)
    a = (b[0].astype(np.float64) * rng.integers(1, 30000, 40)).astype(dtype)
    return one_op(m, "FLOOR_DIV", dtype, [a, b])


@differential("float32", "int8", "int16", "int32", "int64")
def test_floor_mod(m, rng, dtype):
    return plain(m, rng, "FLOOR_MOD", dtype)


def plain(m, rng, name, dtype, **options):
    """A model of two operands without scales, the second never 0."""
    a, b = (values(rng, shape, dtype) for shape in operands(rng))
    return one_op(m, name, dtype, [a, np.where(b == 0, b.dtype.type(3), b)], **options)


@pytest.mark.parametrize(("name", "exact"), [("FLOOR_DIV", lambda a, b: a // b), ("FLOOR_MOD", lambda a, b: a % b)])
def test_floor_of_extreme_integers(name, exact):
    """Quotients near integers, and -2^31 / -1, which wraps."""
    edges = [-(2**31), -(2**31) + 1, -7, -1, 1, 7, 2**30 - 1, 2**31 - 2, 2**31 - 1]
    a, b = (v.astype(np.int32) for v in map(np.ravel, np.meshgrid([*edges, 0], edges)))
    m = ModelBuilder()
    inputs = one_op(m, name, "int32", [a, b])
    got, = run_pylite(m.build(), inputs)
    want = [exact(int(p), int(q)) for p, q in zip(a, b, strict=True)]
    assert got.tolist() == [(v + 2**31) % 2**32 - 2**31 for v in want]


@differential("float32", tolerance=1e-6)
def test_pow_of_a_constant(m, rng, dtype):
    """A constant exponent, with or without a special kernel; it may broadcast."""
    x = rng.random((2, 3)).astype(np.float32) + np.float32(0.1)
    exponent = rng.choice([2, 3, 0.5, -0.5, 1.5])
    shape = [(), (1,), (1, 1), (1, 1, 1)][int(rng.integers(4))]
    return one_op(m, "POW", dtype, [x], [np.full(shape, exponent, np.float32)])


@differential("float32", tolerance=1e-6)
def test_pow(m, rng, dtype):
    shape = shape_of(rng)
    x = (rng.random(shape) * 4).astype(np.float32)
    return one_op(m, "POW", dtype, [x, rng.uniform(-3, 3, shape).astype(np.float32)])


@differential("int32")
def test_pow_of_integers(m, rng, dtype):
    shape = shape_of(rng)
    return one_op(m, "POW", dtype, [values(rng, shape, dtype), rng.integers(0, 9, shape[-1:], dtype)])


@differential("int32")
def test_pow_of_integers_by_one_exponent(m, rng, dtype):
    """The reference then multiplies modulo 2^32, unless both shapes are the same."""
    exponent = np.full([(), (1,), (1, 1)][int(rng.integers(3))], rng.choice([0, 1, 2, 3, 5, 8, 31, 33]), dtype)
    return one_op(m, "POW", dtype, [values(rng, shape_of(rng), dtype), exponent])


@differential("float32", "float64")
def test_atan2(m, rng, dtype):
    shape = shape_of(rng)
    return one_op(m, "ATAN2", dtype, [values(rng, shape, dtype), values(rng, shape, dtype)])


BITS = ("int8", "uint8", "int16", "uint16", "int32", "uint32")


@differential(*BITS)
def test_bitwise_xor(m, rng, dtype):
    shape = shape_of(rng)
    return one_op(m, "BITWISE_XOR", dtype, [values(rng, shape, dtype), values(rng, shape, dtype)])


@differential(*BITS)
def test_right_shift(m, rng, dtype):
    shape = shape_of(rng)
    shift = rng.integers(-3 if dtype[0] == "i" else 0, 40, shape).astype(dtype)
    return one_op(m, "RIGHT_SHIFT", dtype, [values(rng, shape, dtype), shift])


ALL = (*BITS, "float32", "float16", "float64", "int64", "uint64", "bool")


def stablehlo(m, rng, name, dtype):
    shape = random_shape(rng, 0, 4)
    return one_op(m, name, dtype, [random_array(rng, shape, dtype) for _ in range(2)])


@differential(*ALL, count=4)
def test_stablehlo_add(m, rng, dtype):
    return stablehlo(m, rng, "STABLEHLO_ADD", dtype)


@differential(*ALL, count=4)
def test_stablehlo_multiply(m, rng, dtype):
    return stablehlo(m, rng, "STABLEHLO_MULTIPLY", dtype)


@differential(*ALL, count=4)
def test_stablehlo_maximum(m, rng, dtype):
    return stablehlo(m, rng, "STABLEHLO_MAXIMUM", dtype)


@differential(*ALL, count=4)
def test_stablehlo_minimum(m, rng, dtype):
    return stablehlo(m, rng, "STABLEHLO_MINIMUM", dtype)


@differential("float32", "int32", count=10)
def test_add_n(m, rng, dtype):
    shape = shape_of(rng)
    terms = [values(rng, shape, dtype) for _ in range(int(rng.integers(2, 6)))]
    if dtype == "float32" and rng.random() < 0.3:
        far = [np.float32(rng.choice([np.inf, -np.inf, 3e38, -3e38])) for _ in terms]
        terms = [np.where(rng.random(shape) < 0.1, value, term) for value, term in zip(far, terms, strict=True)]
    return one_op(m, "ADD_N", dtype, terms)


@differential("float32", count=30)
def test_fake_quant(m, rng, dtype):
    low, high = sorted(float(np.float32(v)) for v in rng.uniform(-8, 8, 2))
    return unary(m, rng, "FAKE_QUANT", dtype, min=low, max=high, num_bits=int(rng.integers(2, 9)))


@differential("float32", "float64", "int32", "int64")
def test_bucketize(m, rng, dtype):
    boundaries = np.sort(rng.integers(-20, 20, int(rng.integers(1, 9)))).astype(np.float32)
    x = rng.integers(-25, 25, shape_of(rng)).astype(dtype)
    return one_op(m, "BUCKETIZE", dtype, [x], out_dtype="int32", boundaries=boundaries)


# ---- not in the reference resolver --------------------------------------------------------------------------
@pytest.mark.parametrize(("name", "dtypes", "meaning"), [
    ("CEIL", "float32 float16", np.ceil), ("ROUND", "float32 float16", np.rint), ("FLOOR", "float16 float64", np.floor),
    ("SIN", "float16", np.sin), ("COS", "float16", np.cos)])
def test_other_types(name, dtypes, meaning):
    for dtype in dtypes.split():
        x = np.linspace(-9, 9, 721).astype(dtype)
        m = ModelBuilder()
        one_op(m, name, dtype, [x])
        got, = run_pylite(m.build(), [x])
        assert got.dtype == x.dtype
        want = meaning(x.astype(np.float64)).astype(dtype).astype(np.float64)
        np.testing.assert_allclose(got.astype(np.float64), want, atol=1e-3 if name in ("SIN", "COS") else 0)


@pytest.mark.parametrize(("name", "meaning"), [
    ("STABLEHLO_AND", np.bitwise_and), ("STABLEHLO_SHIFT_LEFT", np.left_shift)])
@pytest.mark.parametrize("dtype", ["int8", "int16", "int32"])
def test_bits_of_stablehlo(name, meaning, dtype):
    rng, m = np.random.default_rng(1), ModelBuilder()
    inputs = [random_array(rng, (50,), dtype), rng.integers(0, 8, 50).astype(dtype)]
    one_op(m, name, dtype, inputs)
    np.testing.assert_array_equal(run_pylite(m.build(), inputs)[0], meaning(*inputs))


# ---- errors -----------------------------------------------------------------------------------------------------
def once(model, operand, x):
    interpreter = Interpreter(model_content=model)
    interpreter.allocate_tensors()
    interpreter.set_tensor(operand, x)
    interpreter.invoke()


@pytest.mark.parametrize(("name", "dtype", "b", "message"), [
    ("FLOOR_DIV", "int32", 0, "zero"), ("FLOOR_MOD", "int64", 0, "zero"),
    ("POW", "int32", -1, "negative exponent|below zero")])
@pytest.mark.parametrize("constant", [False, True])
def test_operands_with_undefined_results_are_refused(name, dtype, b, message, constant):
    m = ModelBuilder()
    x = m.tensor("x", (2,), dtype)
    bad = np.array([1, b], dtype)
    operand = m.constant("b", bad) if constant else m.tensor("b", (2,), dtype)
    y = m.tensor("y", (2,), dtype)
    m.operator(name, [x, operand], [y])
    m.inputs([x] if constant else [x, operand])
    m.outputs([y])
    with pytest.raises(RuntimeError, match=f"{name}.*({message})"):
        once(m.build(), operand, bad)


def test_special_values():
    x = np.array([np.inf, -np.inf, np.nan, 0, -1, 1e-42, 3e38], np.float32)
    for name in ("LOG", "SIN", "COS", "FLOOR"):
        m = ModelBuilder()
        one_op(m, name, "float32", [x])
        model = m.build()
        np.testing.assert_allclose(run_pylite(model, [x])[0], run_peer(model, [x])[0], rtol=1e-6, err_msg=name)


@pytest.mark.parametrize(("name", "exact"), [
    ("SQRT", np.sqrt), ("RSQRT", lambda x: 1 / np.sqrt(x)), ("LOG", np.log), ("SIN", np.sin), ("COS", np.cos)])
def test_subnormal_and_large_numbers(name, exact):
    """Also where they are beside others; the negative ones of SQRT, RSQRT and LOG are NaN."""
    rng = np.random.default_rng(5)
    x = (np.exp(rng.uniform(-103, 88.5, 4001)) * rng.choice([-1, 1], 4001)).astype(np.float32)
    x[::3] = rng.uniform(0, 1e-38, x[::3].shape)
    x[1::7] = rng.uniform(-9000, 9000, x[1::7].shape)
    if sys.maxsize < 2**32 and "neon" in simd.available():      # vectors of 32-bit Arm take subnormal numbers for 0
        x = x[np.abs(x) >= np.finfo(np.float32).tiny]
    m = ModelBuilder()
    one_op(m, name, "float32", [x])
    with np.errstate(invalid="ignore"):
        want = exact(x.astype(np.float64))
    chosen = simd.current
    try:
        for isa_level in simd.available():
            simd.use(isa_level)
            np.testing.assert_allclose(run_pylite(m.build(), [x])[0], want, rtol=1e-6, atol=1e-45, err_msg=isa_level)
    finally:
        simd.use(chosen)


BFLOAT = {"MAXIMUM": np.maximum, "MINIMUM": np.minimum, "LESS": np.less, "NEG": np.negative, "TANH": np.tanh,
          "LOGISTIC": lambda x: 1 / (1 + np.exp(-x)), "FLOOR": np.floor, "ROUND": np.rint, "ATAN2": np.arctan2}


def bfloat16(x):
    """float32 to the bits of bfloat16, halves to even."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


@pytest.mark.parametrize("name", BFLOAT)
def test_bfloat16(name):
    """The peer's Python interface does not support bfloat16."""
    rng = np.random.default_rng(0)
    stored = [bfloat16(rng.standard_normal(100) * 5) for _ in range(getattr(BFLOAT[name], "nin", 1))]
    real = [(x.astype(np.uint32) << 16).view(np.float32).astype(np.float64) for x in stored]
    m = ModelBuilder()
    tensors = [m.tensor(f"x{i}", x.shape, "bfloat16") for i, x in enumerate(stored)]
    y = m.tensor("y", (100,), "bool" if name == "LESS" else "bfloat16")
    m.operator(name, tensors, [y])
    m.inputs(tensors)
    m.outputs([y])
    got, = run_pylite(m.build(), stored)
    want = BFLOAT[name](*real)
    if name != "LESS":      # numpy's type of bfloat16, if a package has registered one
        got, want = got.view(np.uint16), bfloat16(want)
    np.testing.assert_array_equal(got, want)
