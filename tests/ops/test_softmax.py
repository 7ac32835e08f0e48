"""Softmax and its logarithm."""
import numpy as np
import pytest

from pylite.interpreter import Interpreter
from pylite.schema.builder import ModelBuilder
from tests.ops import draw
from tests.tools import oneop
from tests.tools.graphs import run

OUTPUT = {"int8": (2.0**-8, -128), "uint8": (2.0**-8, 0), "int16": (2.0**-15, 0)}


def softmax(m, rng, dtype, y_dtype=None, last=None):
    rank = int(rng.integers(1, 6))
    last = last or int(rng.choice([1, 2, 3, 10, 17, 100, 257, 1001]))
    shape = (*(int(n) for n in rng.integers(0 if rng.random() < 0.1 else 1, 4, rank - 1)), last)
    y_dtype = y_dtype or dtype
    scale, zero_point = OUTPUT.get(y_dtype, (None, 0))
    if y_dtype == "int16" and dtype != "int16":
        scale, zero_point = 2.0**-16, -32768
    q = draw.quantization(rng, dtype)
    x = m.tensor("x", shape, dtype, **q)
    y = m.tensor("y", shape, y_dtype, scale, zero_point)
    beta = float(rng.choice([1.0, 0.1, 3.7]))
    if dtype == "float32" and rng.random() < 0.1:
        beta = -0.1
    if dtype in ("int8", "uint8") and beta * q["scale"] < 2.0**-25:
        beta = 1.0
    m.operator("SOFTMAX", [x], [y], beta=beta)
    m.inputs([x])
    m.outputs([y])
    return [spread(rng, draw.values(rng, shape, dtype), q)]


def spread(rng, x, q):
    """Rows with few equal maxima: the peer aborts if its 8-bit sum needs a shift of more than 31."""
    if x.dtype.itemsize == 1 and x.size and x.shape[-1] > 100 and q["scale"] < 0.1:
        x = np.where(rng.random(x.shape) < 0.9, np.iinfo(x.dtype).min, x)
    return x


@oneop.differential("float32", "int16", count=30)
def test_softmax(m, rng, dtype):
    return softmax(m, rng, dtype)


def test_a_sum_of_16_bits_just_below_a_power_of_two():
    """The reciprocal's argument is rounded up to 2^31: such rows became twice as large."""
    m = ModelBuilder()
    x = m.tensor("x", (1, 17), "int16", scale=0.00025175)
    y = m.tensor("y", (1, 17), "int16", *OUTPUT["int16"])
    m.operator("SOFTMAX", [x], [y], beta=1.0)
    m.inputs([x])
    m.outputs([y])
    row = np.array([[32767] * 16 + [9565]], np.int16)
    assert oneop.run_pylite(m.build(), [row])[0].tolist() == [[2048] * 16 + [6]]


@oneop.differential("int8", "uint8", count=40)
def test_softmax_8(m, rng, dtype):
    return softmax(m, rng, dtype, last=int(rng.choice([1, 2, 3, 10, 17, 64, 255, 256])))


@oneop.differential("int8", "uint8", count=40)
def test_softmax_8_to_16(m, rng, dtype):
    return softmax(m, rng, dtype, "int16")


@oneop.differential("int8", "uint8", count=20)
def test_softmax_whose_output_has_another_scale(m, rng, dtype):
    """The reference reads neither scale nor zero point of these outputs."""
    y_dtype = "int16" if dtype == "int8" or rng.random() < 0.5 else dtype
    x = m.tensor("x", (3, 40), dtype, 0.15, 20)
    y = m.tensor("y", (3, 40), y_dtype, float(rng.choice([2.0**-16, 0.25, 2.0**-15])), int(rng.choice([0, 7])))
    m.operator("SOFTMAX", [x], [y], beta=1.0)
    m.inputs([x])
    m.outputs([y])
    return [draw.values(rng, (3, 40), dtype)]


@oneop.differential("int8", "uint8", count=20)
def test_softmax_of_a_thousand_classes(m, rng, dtype):
    x = m.tensor("x", (3, 1001), dtype, 0.15, 20)
    y = m.tensor("y", (3, 1001), dtype, *OUTPUT[dtype])
    m.operator("SOFTMAX", [x], [y], beta=1.0)
    m.inputs([x])
    m.outputs([y])
    return [np.clip(rng.normal(-20, 25, (3, 1001)) + 128 * (dtype == "uint8"), *(
        np.iinfo(dtype).min, np.iinfo(dtype).max)).astype(dtype)]


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("n", [512, 1000, 5000, 20000])
def test_many_equal_values_give_zeros(n, dtype):
    """The reference kernel aborts."""
    m = ModelBuilder()
    x = m.tensor("x", (1, n), dtype, 0.1, 0)
    y = m.tensor("y", (1, n), dtype, *OUTPUT[dtype])
    m.operator("SOFTMAX", [x], [y], beta=1.0)
    m.inputs([x])
    m.outputs([y])
    got, = oneop.run_pylite(m.build(), [np.zeros((1, n), dtype)])
    assert (got == OUTPUT[dtype][1]).all()


def log_softmax(m, rng, dtype, shape):
    x = m.tensor("x", shape, dtype, **draw.quantization(rng, dtype))
    y = m.tensor("y", shape, dtype, *{"int8": (16 / 256, 127), "uint8": (16 / 256, 255)}.get(dtype, ()))
    m.operator("LOG_SOFTMAX", [x], [y])
    m.inputs([x])
    m.outputs([y])
    return [draw.values(rng, shape, dtype)]


@oneop.differential("float32", "int8", "uint8", count=40)
def test_log_softmax(m, rng, dtype):
    return log_softmax(m, rng, dtype, (int(rng.integers(1, 5)), int(rng.choice([1, 2, 3, 10, 17, 100, 257, 1001]))))


@oneop.differential("int8", "uint8", count=15)
def test_log_softmax_of_many_rows(m, rng, dtype):
    return log_softmax(m, rng, dtype, (int(rng.integers(20, 80)), int(rng.choice([1, 2, 5, 16, 63, 65, 255, 256]))))


@oneop.differential("int8", "uint8", count=1)
def test_log_softmax_between_two_results(m, rng, dtype):
    """The last bits of the sum's logarithm decide about the last element."""
    x = m.tensor("x", (1, 8), dtype, 0.05, 0)
    y = m.tensor("y", (1, 8), dtype, 16 / 256, 127 if dtype == "int8" else 255)
    m.operator("LOG_SOFTMAX", [x], [y])
    m.inputs([x])
    m.outputs([y])
    return [(np.iinfo(dtype).max - np.array([[0, 0, 0, 0, 51, 120, 219, 200]])).astype(dtype)]


@oneop.differential("float32", "int8", "uint8", "int16", count=10)
def test_one_after_another_in_the_same_memory(m, rng, dtype):
    shape = (int(rng.integers(1, 4)), int(rng.choice([1, 5, 40, 129, 300])))
    q = OUTPUT.get(dtype, (None, 0))
    at = [m.tensor("x", shape, dtype, *((0.1, 0) if q[0] else q))]
    for i in range(4):
        at.append(m.tensor(f"y{i}", shape, dtype, *q))
        m.operator("SOFTMAX", at[-2:-1], at[-1:], beta=float(8**i))
    m.inputs(at[:1])
    m.outputs(at[-1:])
    x = draw.values(rng, shape, dtype)
    x[:, 0] = 9                             # one maximum
    return [np.minimum(x, 9)]


@oneop.differential("float32", count=6)
def test_softmax_of_infinities(m, rng, dtype):
    x, = softmax(m, rng, dtype, last=19)
    x[rng.random(x.shape) < 0.3] = -np.inf
    x[rng.random(x.shape) < 0.02] = np.nan
    return [x]


def softmax_8(x, op, scale, **options):
    """The result for rows x (int8 or uint8) of this scale."""
    m = ModelBuilder()
    low = np.iinfo(x.dtype).min
    y_quantization = (1 / 256, low) if op == "SOFTMAX" else (16 / 256, low + 255)
    m.inputs([m.tensor("x", x.shape, x.dtype, scale)])
    m.outputs([m.tensor("y", x.shape, x.dtype, *y_quantization)])
    m.operator(op, [0], [1], **options)
    return run(m.build(), [x])[1][0]


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize(("op", "scale", "options", "expected"), [
    ("SOFTMAX", 7.8e-9, {"beta": 1.0}, 26), ("SOFTMAX", 1e-38, {"beta": 1.0}, 26), ("SOFTMAX", 0.1, {"beta": 0.0}, 26),
    ("LOG_SOFTMAX", 7.8e-9, {}, 218), ("LOG_SOFTMAX", 1e-38, {}, 218)])
def test_rows_without_differences_that_count(op, scale, options, expected, dtype):
    """Models of random weights have such scales; the reference's kernels stop the process, LiteRT's default do not."""
    x = np.linspace(np.iinfo(dtype).min, np.iinfo(dtype).max, 10).astype(dtype)[None]
    assert (softmax_8(x, op, scale, **options).astype(int) - np.iinfo(dtype).min == expected).all()


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_a_negative_beta_favours_the_smallest(dtype):
    x = np.random.default_rng(0).integers(0, 256, (3, 20)).astype(np.uint8).view(dtype)
    assert (softmax_8(x, "SOFTMAX", 0.03, beta=-1.5) == softmax_8(~x, "SOFTMAX", 0.03, beta=1.5)).all()


@pytest.mark.parametrize(("x_quantization", "y_quantization", "beta", "words"), [
    ((0.1, 0), (1 / 128, -128), 1.0, "its scale must be"),
    ((0.1, 0), (1 / 256, 0), 1.0, "zero point"),
])
def test_errors_name_the_tensor(x_quantization, y_quantization, beta, words):
    m = ModelBuilder()
    x = m.tensor("x", (1, 4), "int8", *x_quantization)
    y = m.tensor("y", (1, 4), "int8", *y_quantization)
    m.operator("SOFTMAX", [x], [y], beta=beta)
    m.inputs([x])
    m.outputs([y])
    with pytest.raises(RuntimeError, match=words) as error:
        Interpreter(model_content=m.build()).allocate_tensors()
    assert "tensor" in str(error.value)
