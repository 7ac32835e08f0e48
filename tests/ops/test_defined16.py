"""int16 ops that the reference lacks, against their definition on real numbers, rounded once (docs/numerics.md)."""
from fractions import Fraction

import numpy as np
import pytest

from pylite.schema.builder import ModelBuilder
from tests.ops.test_conditions import ALL_16, one_op, refuses, rounded
from tests.tools.oneop import check

SCALES = [(2.0**-12, 2.0**-11), (2.0**-12, 2.0**-15), (3e-4, 1.7e-4), (1.0, 0.5), (2.0**-15, 2.0**-15), (6.1e-5, 1e-9)]


def clamped(steps, zero_point=0):
    return np.clip(np.array(steps, object) + zero_point, -(2**15), 2**15 - 1).astype(np.int16)


SOME_16 = np.concatenate([ALL_16[::7], ALL_16[-1:]])        # fractions take their time


def real(scale, zero_point=0):
    """The numbers that SOME_16 stand for."""
    return [(int(q) - zero_point) * Fraction(float(np.float32(scale))) for q in SOME_16]


RATIONAL = {"HARD_SWISH": lambda x: x * min(max(x + 3, 0), 6) / 6, "SQUARE": lambda x: x * x,
            "RELU_N1_TO_1": lambda x: min(max(x, -1), 1), "RELU_0_TO_1": lambda x: min(max(x, 0), 1)}


@pytest.mark.parametrize("op", RATIONAL)
@pytest.mark.parametrize("scales", SCALES)
def test_rational_functions_are_exact(op, scales):
    want = clamped([rounded(RATIONAL[op](x) / Fraction(float(np.float32(scales[1])))) for x in real(scales[0])])
    model, inputs = one_op(op, [SOME_16], "int16", (scales[0], 0), (scales[1], 0))
    check(model, inputs, [want], op)


@pytest.mark.parametrize("op", ["HARD_SWISH", "SQUARE"])
def test_zero_points_count(op):
    want = clamped([rounded(RATIONAL[op](x) / Fraction(1, 2**11)) for x in real(2.0**-12, 700)], -300)
    model, inputs = one_op(op, [SOME_16], "int16", (2.0**-12, 700), (2.0**-11, -300))
    check(model, inputs, [want], op)


REAL = {"SIN": np.sin, "COS": np.cos, "ELU": lambda x: np.where(x < 0, np.expm1(np.minimum(x, 0)), x)}


def nearest(steps):
    """Steps (longdouble) to the nearest integer, halves away from zero."""
    return clamped((np.sign(steps) * np.floor(np.abs(steps) + np.longdouble(0.5))).astype(np.int64))


@pytest.mark.parametrize("op", REAL)
@pytest.mark.parametrize("scales", SCALES[:-1])
def test_functions_of_all_integers(op, scales):
    x_scale, y_scale = (np.longdouble(np.float32(s)) for s in scales)
    model, inputs = one_op(op, [ALL_16], "int16", (scales[0], 0), (scales[1], 0))
    check(model, inputs, [nearest(REAL[op](ALL_16.astype(np.longdouble) * x_scale) / y_scale)], op)


@pytest.mark.parametrize("op", ["HARD_SWISH", "ELU", "SIN", "RELU_0_TO_1", "L2_NORMALIZATION", "LOG_SOFTMAX"])
def test_a_missing_scale_is_named(op):
    refuses(one_op(op, [ALL_16[:4]], "int16", (), (0.5, 0))[0], "'x0'.*this op needs one above 0")


ROWS = np.array([[0] * 5, [1, 0, 0, 0, 0], [-(2**15)] * 5, [2**15 - 1, -(2**15), 2**15 - 1, 0, 1], [3, 4, 0, 0, 0],
                 [-5, 12, 0, 0, 0], [20000, 19999, 19990, -7, 7]], np.int16)


@pytest.mark.parametrize("scales", [(2.0**-12, 2.0**-15), (3e-4, 2.0**-15), (1e-9, 2.0**-14), (0.02, 1e-4)])
def test_l2_normalization(scales):
    rng = np.random.default_rng(1)
    for rows in (ROWS, rng.integers(-(2**15), 2**15, (70, 33), np.int16), ROWS[:3, :1]):
        x = rows.astype(np.longdouble) * np.longdouble(np.float32(scales[0]))
        norm = np.maximum(np.sqrt((x * x).sum(-1, keepdims=True)), np.longdouble(1e-6))
        model, inputs = one_op("L2_NORMALIZATION", [rows], "int16", (scales[0], 0), (scales[1], 0))
        check(model, inputs, [nearest(x / norm / np.longdouble(np.float32(scales[1])))], "L2_NORMALIZATION")


@pytest.mark.parametrize("scales", [(2.0**-12, 2.0**-11), (3e-4, 3e-4), (0.02, 0.03), (2.0**-15, 1e-6)])
def test_log_softmax(scales):
    rng = np.random.default_rng(1)
    for rows in (ROWS, rng.integers(-(2**15), 2**15, (70, 33), np.int16), ROWS[:3, :1]):
        x = rows.astype(np.longdouble) * np.longdouble(np.float32(scales[0]))
        x -= x.max(-1, keepdims=True)
        y = x - np.log(np.exp(x).sum(-1, keepdims=True))
        model, inputs = one_op("LOG_SOFTMAX", [rows], "int16", (scales[0], 0), (scales[1], 0))
        check(model, inputs, [nearest(y / np.longdouble(np.float32(scales[1])))], "LOG_SOFTMAX")


@pytest.mark.parametrize("op", ["ARG_MAX", "ARG_MIN"])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_largest_and_smallest(op, axis, dtype):
    x = np.random.default_rng(2).integers(-40, 40, (7, 33, 20)).astype(np.int16)
    x[3, :2, 5], x[4, :2, 6] = 2**15 - 1, -(2**15)
    want = (np.argmax if op == "ARG_MAX" else np.argmin)(x, axis).astype(dtype)
    model, inputs = one_op(op, [x, np.int32(axis)], dtype, [(1e-3, 0), ()], shape=want.shape, constants=(1,),
                           output_type=dtype)
    check(model, inputs, [want], op)


@pytest.mark.parametrize(("dtype", "zero_point"), [("int8", 0), ("int8", -5), ("uint8", 128)])
@pytest.mark.parametrize("scales", [(0.01, 0.01), (0.5, 2.0**-12), (3e-4, 1.7e-2), (0.25, 0.5)])
def test_embedding_of_8_bits_to_16(dtype, zero_point, scales):
    """The reference copies the bytes and leaves the second half of its output as it was."""
    limits = np.iinfo(dtype)
    table = np.arange(limits.min, limits.max + 1).astype(dtype).reshape(16, 2, 8)
    ids = np.array([3, 0, 15, 3], np.int32)
    m = ModelBuilder()
    operands = [m.tensor("ids", ids.shape, "int32"), m.constant("table", table, scales[0], zero_point)]
    y = m.tensor("y", (4, 2, 8), "int16", scales[1])
    m.operator("EMBEDDING_LOOKUP", operands, [y])
    m.inputs(operands[:1])
    m.outputs([y])
    ratio = Fraction(float(np.float32(scales[0]))) / Fraction(float(np.float32(scales[1])))
    want = clamped([rounded((int(q) - zero_point) * ratio) for q in table[ids].ravel()]).reshape(4, 2, 8)
    check(m.build(), [ids], [want], "EMBEDDING_LOOKUP")


@pytest.mark.parametrize("channels", [1, 5])
def test_an_int32_bias_of_fully_connected(channels):
    """Unless quantized_bias_type says int32, the reference reads it as int64, beyond its end."""
    rng = np.random.default_rng(4)
    x, w = rng.integers(-(2**15), 2**15, (9, 8), np.int16), rng.integers(-127, 128, (5, 8), np.int8)
    b, scales = rng.integers(-(10**6), 10**6, 5, np.int32), np.linspace(0.01, 0.02, channels).astype(np.float32)
    m = ModelBuilder()
    operands = [m.tensor("x", x.shape, "int16", 2.0**-12), m.constant("w", w, scales),
                m.constant("b", b, scales / 2**12)]
    y = m.tensor("y", (9, 5), "int16", 2.0**-10)
    m.operator("FULLY_CONNECTED", operands, [y])
    m.inputs(operands[:1])
    m.outputs([y])
    ratios = [Fraction(float(s)) / 4 for s in np.broadcast_to(scales, 5)]
    sums = x.astype(np.int64) @ w.T.astype(np.int64) + b
    check(m.build(), [x], [clamped([[rounded(int(v) * r) for v, r in zip(row, ratios, strict=True)] for row in sums])],
          "FULLY_CONNECTED")
