"""Functions of one operand (and PRELU) against the reference kernels."""
import math

import numpy as np
import pytest

from pylite import Interpreter
from pylite.schema.builder import ModelBuilder
from tests.ops.draw import mild_quantization, shape_of, values
from tests.tools.oneop import differential

QUANTIZED = ("int8", "uint8", "int16")


def one_op(m, rng, name, dtype, x=None, q=None, y_q=None, version=None, **options):
    """A model of one op on one drawn operand."""
    if x is None:
        x = values(rng, shape_of(rng), dtype)
    if dtype in QUANTIZED:
        q = q or mild_quantization(rng, dtype)
        y_q = y_q or mild_quantization(rng, dtype)
    xi = m.tensor("x", x.shape, dtype, **(q or {}))
    y = m.tensor("y", x.shape, dtype, **(y_q or {}))
    m.operator(name, [xi], [y], version=version, **options)
    m.inputs([xi])
    m.outputs([y])
    return [x]


@differential("float32", "int8", "uint8", "int16")
def test_logistic(m, rng, dtype):
    y = {"int8": {"scale": 1 / 256, "zero_point": -128}, "uint8": {"scale": 1 / 256}, "int16": {"scale": 2.0**-15}}
    q = sigmoid_input(rng) if dtype == "int16" else None
    return one_op(m, rng, "LOGISTIC", dtype, q=q, y_q=y.get(dtype))


@differential("float32", "int8", "uint8", "int16")
def test_tanh(m, rng, dtype):
    y = {"int8": {"scale": 1 / 128}, "uint8": {"scale": 1 / 128, "zero_point": 128}, "int16": {"scale": 2.0**-15}}
    q = sigmoid_input(rng) if dtype == "int16" else None
    return one_op(m, rng, "TANH", dtype, q=q, y_q=y.get(dtype))


def sigmoid_input(rng):
    """int16 quantization of LOGISTIC and TANH inputs: a power of two (some are special cases) or any scale."""
    if rng.random() < 0.5:
        return {"scale": 2.0 ** int(rng.integers(-15, -8))}
    return {"scale": float(np.float32(np.exp(rng.uniform(-12, -5))))}


@differential("float32", "int8", "uint8", "int16")
def test_relu(m, rng, dtype):
    return one_op(m, rng, "RELU", dtype)


@differential("float32", "int8", "uint8", "int16")
def test_relu6(m, rng, dtype):
    return one_op(m, rng, "RELU6", dtype)


@differential("float32", "int8", "uint8")
def test_relu_n1_to_1(m, rng, dtype):
    return one_op(m, rng, "RELU_N1_TO_1", dtype)


@differential("float32", "int8", "uint8")
def test_relu_0_to_1(m, rng, dtype):
    return one_op(m, rng, "RELU_0_TO_1", dtype)


@differential("float32", "int8", "uint8", "int16")
def test_leaky_relu(m, rng, dtype):
    return one_op(m, rng, "LEAKY_RELU", dtype, alpha=float(np.float32(rng.uniform(-1, 1.5))))


@differential("float32", "int8", "uint8")
def test_hard_swish(m, rng, dtype):
    q = y_q = None
    if dtype != "float32":
        q = mild_quantization(rng, dtype, float(np.exp(rng.uniform(-5, -1))))
        times = rng.uniform(0.6, 1.1) if rng.random() < 0.8 else 2.0**rng.integers(1, 22)     # also beyond 15 bits
        y_q = mild_quantization(rng, dtype, q["scale"] * float(times))
    return one_op(m, rng, "HARD_SWISH", dtype, q=q, y_q=y_q)


@differential("float32", "int8", "uint8", "int16")
def test_gelu(m, rng, dtype):
    return one_op(m, rng, "GELU", dtype, approximate=bool(rng.integers(2)))


@differential("int16", count=60)
def test_all_entries_of_a_table_of_gelu(m, rng, dtype):
    """They show the last bit of the C library's erfcf and tanhf, by which one table in ten would be off."""
    scale, ratio = (float(np.float32(np.exp(rng.uniform(*ends)))) for ends in ((-13, -7), (-2, 2)))
    return one_op(m, rng, "GELU", dtype, np.arange(-32768, 32768, 128).astype(np.int16), {"scale": scale},
                  {"scale": scale * ratio}, approximate=bool(rng.integers(2)))


@differential("float32", "int8", "uint8", count=30)
def test_prelu(m, rng, dtype):
    x = values(rng, shape_of(rng, 4), dtype)
    tail = x.shape[int(rng.integers(0, x.ndim + 1)):]
    alpha = values(rng, tuple(1 if rng.random() < 0.4 else n for n in tail), dtype)
    qs = [mild_quantization(rng, dtype) if dtype != "float32" else {} for _ in range(3)]
    xi = m.tensor("x", x.shape, dtype, **(qs[0]))
    ai = m.constant("alpha", alpha, **qs[1])
    y = m.tensor("y", x.shape, dtype, **(qs[2]))
    m.operator("PRELU", [xi, ai], [y])
    m.inputs([xi])
    m.outputs([y])
    return [x]


@differential("int16")
def test_prelu_of_int16(m, rng, dtype):
    """alpha is int8."""
    x, alpha = values(rng, (5, 40), "int16"), values(rng, (40,), "int8")
    xi = m.tensor("x", x.shape, "int16", **(mild_quantization(rng, "int16")))
    ai = m.constant("alpha", alpha, **mild_quantization(rng, "int8"))
    y = m.tensor("y", x.shape, "int16", **(mild_quantization(rng, "int16")))
    m.operator("PRELU", [xi, ai], [y])
    m.inputs([xi])
    m.outputs([y])
    return [x]


# ---- not in the reference resolver ------------------------------------------------------------------------
def run(m, x):
    interpreter = Interpreter(model_content=m.build())
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


def test_elu():
    m, rng = ModelBuilder(), np.random.default_rng(1)
    x, = one_op(m, rng, "ELU", "float32", x=np.linspace(-30, 30, 1001, dtype=np.float32))
    np.testing.assert_allclose(run(m, x), np.where(x < 0, np.expm1(x.astype(np.float64)), x), rtol=1e-6)
    m = ModelBuilder()
    x, = one_op(m, rng, "ELU", "int8", x=np.arange(-128, 128, dtype=np.int8), q={"scale": 0.05, "zero_point": 3},
                y_q={"scale": 0.04, "zero_point": -100})
    real = 0.05 * (x.astype(np.float64) - 3)
    expected = np.where(real < 0, np.expm1(real), real) / 0.04 - 100
    assert np.abs(run(m, x) - np.clip(expected, -128, 127)).max() <= 0.5001


HALF = {"LOGISTIC": lambda x: 1 / (1 + np.exp(-x)), "TANH": np.tanh, "NEG": np.negative,
        "GELU": lambda x: x * 0.5 * np.vectorize(math.erfc)(-x / math.sqrt(2))}


@pytest.mark.parametrize("name", HALF)
def test_float16_results_are_rounded_once(isa_level, name):
    x = np.arange(0, 65536, 7, dtype=np.uint16).view(np.float16)
    x = x[np.isfinite(x)]
    m = ModelBuilder()
    one_op(m, np.random.default_rng(0), name, "float16", x=x)
    with np.errstate(over="ignore"):
        expected = HALF[name](x.astype(np.float64))
    np.testing.assert_allclose(run(m, x).astype(np.float64), expected, rtol=2.0**-11 * 1.01, atol=2.0**-25 * 1.01)


# Below -9 the reference computes LOGISTIC as exp(x).
EXACT = {"LOGISTIC": lambda x: np.where(x < -9, np.exp(x), 1 / (1 + np.exp(-x))), "TANH": np.tanh,
         "EXP": np.exp, "SQRT": np.sqrt}


@pytest.mark.parametrize("name", EXACT)
def test_float_results_are_within_a_millionth(isa_level, name):
    x = np.concatenate([np.linspace(-85, 85, 20001), np.linspace(-1, 1, 20001), 10.0 ** np.arange(-30, 1)])
    x = x.astype(np.float32)
    if name == "SQRT":
        x = np.abs(x)
    m = ModelBuilder()
    one_op(m, np.random.default_rng(0), name, "float32", x=x)
    np.testing.assert_allclose(run(m, x), EXACT[name](x.astype(np.float64)), rtol=1e-6)


@pytest.mark.parametrize(("name", "expected"), [
    ("LOGISTIC", [1, 0, np.nan, 1, 0]), ("TANH", [1, -1, np.nan, 1, -1]), ("EXP", [np.inf, 0, np.nan, np.inf, 0]),
    ("RELU", [np.inf, 0, np.nan, 1e30, 0]), ("RELU6", [6, 0, np.nan, 6, 0]), ("ELU", [np.inf, -1, np.nan, 1e30, -1]),
    ("GELU", [np.inf, np.nan, np.nan, 1e30, 0]), ("HARD_SWISH", [np.inf, np.nan, np.nan, 1e30, 0])])
def test_infinities_and_nan(name, expected):
    x = np.array([np.inf, -np.inf, np.nan, 1e30, -1e30], np.float32)
    m = ModelBuilder()
    one_op(m, np.random.default_rng(0), name, "float32", x=x)
    np.testing.assert_allclose(run(m, x), np.array(expected, np.float32), rtol=1e-6)
