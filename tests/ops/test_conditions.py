"""What ops demand of scales and zero points, and results at the ends of their ranges: one-op models for each rule.

test_grid.py compares all of them with the reference kernels.
"""
from fractions import Fraction

import numpy as np
import pytest

import pylite
from pylite.schema.builder import ModelBuilder
from tests.tools.oneop import check, run_peer, run_pylite
from tests.tools.resources import peer


def one_op(op, inputs, dtype, x=(), y=(), shape=None, constants=(), **options):
    """A model of one op and its input arrays.  x, y: (scale, zero point) of inputs and output."""
    m = ModelBuilder()
    x = x if x and isinstance(x[0], tuple) else [x] * len(inputs)
    indices = [m.constant(f"x{i}", a, *q) if i in constants else m.tensor(f"x{i}", a.shape, a.dtype.name, *q)
               for i, (a, q) in enumerate(zip(inputs, x, strict=True))]
    y_index = m.tensor("y", inputs[0].shape if shape is None else shape, dtype, *y)
    m.operator(op, indices, [y_index], **options)
    m.inputs([index for i, index in enumerate(indices) if i not in constants])
    m.outputs([y_index])
    return m.build(), [a for i, a in enumerate(inputs) if i not in constants]


def refuses(model, words):
    with pytest.raises(RuntimeError, match=words):
        pylite.Interpreter(model_content=model).allocate_tensors()


ALL_16 = np.arange(-(2**15), 2**15, dtype=np.int16)


@pytest.mark.parametrize("op", ["TANH", "LOGISTIC"])
@pytest.mark.parametrize("scale", [3.0e-5, 2e-5, 2.0**-14, 2.0**-16, 1e-40, 1e30])
def test_int16_tanh_and_logistic_have_one_output_scale(op, scale):
    model, _ = one_op(op, [ALL_16[:9]], "int16", (2.0**-12, 0), (scale, 0))
    refuses(model, r"scale .* must be 2\^-15 for int16")
    with pytest.raises(RuntimeError):
        run_peer(model, [ALL_16[:9]])


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("scale", [2.0**-7, 0.0039, 2.0**-9])
def test_logistic_of_8_bits_has_one_output_scale(dtype, scale):
    x = np.arange(9).astype(dtype)
    model, _ = one_op("LOGISTIC", [x], dtype, (0.1, 0), (scale, 0))
    refuses(model, r"scale .* must be 2\^-8 for u?int8")
    with pytest.raises(RuntimeError):
        run_peer(model, [x])


@pytest.mark.parametrize("op", ["TANH", "LOGISTIC"])
def test_int16_tanh_and_logistic_of_all_integers(op):
    model, inputs = one_op(op, [ALL_16], "int16", (3e-4, 0), (2.0**-15, 0))
    check(model, inputs, run_peer(model, inputs), op)


@pytest.mark.parametrize("op", ["TANH", "LOGISTIC", "RELU", "RELU6", "LEAKY_RELU", "ABS", "SQRT", "RSQRT", "EXP", "LOG",
                                "ADD", "SUB", "MUL"])
@pytest.mark.parametrize("changed", ["x", "y"])
def test_int16_has_no_zero_point(op, changed):
    inputs = [ALL_16[-9:]] * (2 if op in ("ADD", "SUB", "MUL") else 1)
    options = {"pot_scale_int16": False} if op in ("ADD", "SUB") else {}
    x, y = (2.0**-11, 5 * (changed == "x")), (2.0**-15, 7 * (changed == "y"))
    model, _ = one_op(op, inputs, "int16", x, y, **options)
    refuses(model, "has the zero point [57]; it must be 0 for int16")
    with pytest.raises(RuntimeError):
        run_peer(model, inputs)


@pytest.mark.parametrize("op", ["MUL", "RELU", "PRELU", "TANH", "EXP", "MEAN", "SOFTMAX"])
def test_ops_of_one_scale_refuse_several(op):
    """The reference takes 0 for their scale there, and computes with it."""
    x = np.zeros((2, 3), np.int8)
    second = {"MUL": [x], "PRELU": [x], "MEAN": [np.array([1], np.int32)]}.get(op, [])
    q = [((0.5, 0.25), 0)] + [(0.5, 0) if a.dtype == np.int8 else () for a in second]
    options = {"beta": 1.0} if op == "SOFTMAX" else {}
    model, _ = one_op(op, [x, *second], "int8", q, (2.0**-8, -128), (2,) if op == "MEAN" else None,
                      (1,) if op == "MEAN" else (), **options)
    refuses(model, "has 2 scales along axis 0; this op takes one for the tensor")


def test_unscaled_int16_div_names_the_scale_that_is_missing():
    x = np.ones(4, np.int16)
    model, _ = one_op("DIV", [x, x], "int16")
    refuses(model, "'x0'.*has no scale; this op needs one above 0")


# ---- integers at their ends ---------------------------------------------------------------------------------------
def test_div_of_int32_saturates():
    a, b = np.full(5, -(2**31), np.int32), np.full(5, -1, np.int32)
    model, inputs = one_op("DIV", [a, b], "int32")
    check(model, inputs, [np.full(5, 2**31 - 1, np.int32)], "DIV")
    check(model, inputs, run_peer(model, inputs), "DIV")


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_floor_div_of_8_and_16_bits_saturates(dtype):
    """Whole vectors of the reference do; its rests of them wrap."""
    limits = np.iinfo(dtype)
    for n in (1, 16, 40):
        model, inputs = one_op("FLOOR_DIV", [np.full(n, limits.min, dtype), np.full(n, -1, dtype)], dtype)
        check(model, inputs, [np.full(n, limits.max, dtype)], "FLOOR_DIV")
        if n == 16:
            check(model, inputs, run_peer(model, inputs), "FLOOR_DIV")


# ---- NaN ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sign_of_nan_is_nan(dtype):
    x = np.array([np.nan, -0.0, 0.0, -np.nan, np.inf, -np.inf, -1e-45], dtype)
    model, inputs = one_op("SIGN", [x], dtype)
    want = run_peer(model, inputs)
    assert np.isnan(want[0][0])
    np.testing.assert_array_equal(run_pylite(model, inputs)[0], want[0])


@pytest.mark.parametrize("values", [[5, 3, np.nan, 1, 8], [9, np.nan, 7, 4], [np.nan, 9, 7, 4],
                                    [4, 7, np.nan, 9, np.nan, 1], [1, 2, 3, np.nan], [9, 7, 4, np.nan, np.nan]])
def test_top_k_has_nan_last(values):
    x = np.array(values, np.float32)
    for k in range(1, len(x)):
        m = ModelBuilder()
        operands = [m.tensor("x", x.shape), m.constant("k", np.int32(k))]
        outputs = [m.tensor("v", (k,)), m.tensor("i", (k,), "int32")]
        m.operator("TOPK_V2", operands, outputs)
        m.inputs(operands[:1])
        m.outputs(outputs)
        for got, want in zip(run_pylite(m.build(), [x]), run_peer(m.build(), [x]), strict=True):
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(("values", "least", "most"), [
    ([5, 3, np.nan, 1, 8], 3, 4), ([np.nan, 3, 5], 1, 2), ([3, np.nan, np.nan], 0, 0), ([np.nan, np.nan], 0, 0)])
def test_arg_min_and_arg_max_pass_over_nan(values, least, most):
    """docs/numerics.md section 5: the reference's answer depends on where in a vector NaN lies."""
    x = np.array(values, np.float32)
    for op, want in (("ARG_MIN", least), ("ARG_MAX", most)):
        model, inputs = one_op(op, [x, np.int32(0)], "int32", shape=(), constants=(1,), output_type="int32")
        check(model, inputs, [np.int32(want)], op)


# ---- by definition, rounded once ----------------------------------------------------------------------------------
def rounded(value):
    whole = (abs(value) * 2 + 1) // 2
    return int(whole if value >= 0 else -whole)


def defined(a, b, scales, zero_points, f, dtype):
    """f of the real operands in the output's steps, in fractions."""
    (sa, sb, sy), (za, zb, zy) = (Fraction(float(np.float32(s))) for s in scales), zero_points
    limits = np.iinfo(dtype)
    steps = [rounded(f((int(p) - za) * sa, (int(q) - zb) * sb) / sy) + zy for p, q in zip(a, b, strict=True)]
    return np.clip(np.array(steps, object), limits.min, limits.max).astype(dtype)


@pytest.mark.parametrize("scales", [(2.0**-12, 2.0**-12, 2.0**-10), (3e-4, 2e-4, 1e-3), (2.0**-3, 2.0**-15, 2.0**-2),
                                    (1e-4, 1e-4, 1e-9), (0.5, 0.25, 0.125), (1e-4, 3e-5, 7e-6)])
def test_squared_difference_of_int16_is_exact(scales):
    """The layer normalisation of a 16x8 transformer, on which the reference fails."""
    rng = np.random.default_rng(3)
    ends = np.array([-(2**15), -1, 0, 1, 2, 3, 2**15 - 1], np.int16)
    a = np.concatenate([np.repeat(ends, 7), rng.integers(-(2**15), 2**15, 300), rng.integers(-300, 300, 300)])
    b = np.concatenate([np.tile(ends, 7), rng.integers(-(2**15), 2**15, 300), rng.integers(-300, 300, 300)])
    a, b = a.astype(np.int16), b.astype(np.int16)
    model, inputs = one_op("SQUARED_DIFFERENCE", [a, b], "int16", [(s, 0) for s in scales[:2]], (scales[2], 0))
    check(model, inputs, [defined(a, b, scales, (0, 0, 0), lambda p, q: (p - q) ** 2, "int16")], "SQUARED_DIFFERENCE")


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("op", ["ADD", "SUB"])
@pytest.mark.parametrize("scales", [(1, 1, 7.8431e-9), (0.25, 0.25, 1e-40), (1e30, 0.25, 0.25), (0.25, 3e7, 0.5)])
def test_sums_whose_output_scale_is_too_small_saturate(dtype, op, scales):
    """A dead output makes the reference shift by negative counts in SUB, and refuse ADD."""
    limits = np.iinfo(dtype)
    zero = 0 if dtype == "int16" else 3
    ends = np.array([limits.min, 0, 2, 3, 4, limits.max], dtype)
    a, b = np.repeat(ends, 6), np.tile(ends, 6)
    model, inputs = one_op(op, [a, b], dtype, [(s, zero) for s in scales[:2]], (scales[2], zero), pot_scale_int16=False)
    sign = 1 if op == "ADD" else -1
    check(model, inputs, [defined(a, b, scales, (zero,) * 3, lambda p, q: p + sign * q, dtype)], op)


@pytest.mark.parametrize("scale", [1.0, 2.0**-12, 0.3, 2.0**-5])
def test_large_biases_are_rounded_as_the_rule_has_it(scale):
    """The sum that rounds for the second time exceeds 32 bits where the accumulator is close to 2^31."""
    channels = 40
    x, w = np.ones((1, 2, 2, 3), np.int8), np.ones((channels, 1, 1, 3), np.int8)
    bias = np.array([2**31 - 4 - 3 * i for i in range(20)] + [-(2**31) + i for i in range(20)], np.int32)
    m = ModelBuilder()
    operands = [m.tensor("x", x.shape, "int8", scale), m.constant("w", w, 1.0), m.constant("b", bias, scale)]
    y = m.tensor("y", (1, 2, 2, channels), "int8", 1.01)
    m.operator("CONV_2D", operands, [y], padding="VALID", stride_w=1, stride_h=1)
    m.inputs(operands[:1])
    m.outputs([y])
    peer()
    check(m.build(), [x], run_peer(m.build(), [x]), "CONV_2D")
