"""Comparisons and logic against the reference kernels."""
import numpy as np
import pytest

from pylite import Interpreter
from pylite.schema.builder import ModelBuilder
from tests.ops.draw import mild_quantization, values
from tests.ops.test_arithmetic import operands
from tests.tools.oneop import differential


def compare(m, rng, name, dtype, quantized=("int8", "uint8")):
    """A model of one comparison of operands with many equal elements."""
    shapes, inputs, feeds, q = operands(rng), [], [], {}
    for i, shape in enumerate(shapes):
        if dtype in quantized and not (i and rng.random() < 0.5):
            q = mild_quantization(rng, dtype)
        data = values(rng, shape, dtype)
        if rng.random() < 0.5 and dtype != "bool":
            data = data.astype(dtype) % 5
        inputs.append(m.tensor("ab"[i], shape, dtype, **q))
        feeds.append(np.asarray(data, dtype))
    y = m.tensor("y", np.broadcast_shapes(*shapes), "bool")
    m.operator(name, inputs, [y])
    m.inputs(inputs)
    m.outputs([y])
    return feeds


@differential("float32", "float16", "int8", "uint8", "int16", "int32", "int64", "bool")
def test_equal(m, rng, dtype):
    return compare(m, rng, "EQUAL", dtype, ("int8", "uint8", "int16"))


@differential("float32", "float16", "int8", "uint8", "int16", "int32", "int64", "bool")
def test_not_equal(m, rng, dtype):
    return compare(m, rng, "NOT_EQUAL", dtype, ("int8", "uint8", "int16"))


@differential("int16")
def test_equal_without_scales(m, rng, dtype):
    return compare(m, rng, "EQUAL", dtype)


@differential("float32", "float16", "int8", "uint8", "int16", "int32", "int64")
def test_less(m, rng, dtype):
    return compare(m, rng, "LESS", dtype)


@differential("float32", "float16", "int8", "uint8", "int16", "int32", "int64")
def test_less_equal(m, rng, dtype):
    return compare(m, rng, "LESS_EQUAL", dtype)


@differential("float32", "float16", "int8", "uint8", "int16", "int32", "int64")
def test_greater(m, rng, dtype):
    return compare(m, rng, "GREATER", dtype)


@differential("float32", "float16", "int8", "uint8", "int16", "int32", "int64")
def test_greater_equal(m, rng, dtype):
    return compare(m, rng, "GREATER_EQUAL", dtype)


@differential("bool")
def test_logical_and(m, rng, dtype):
    return compare(m, rng, "LOGICAL_AND", dtype)


@differential("bool")
def test_logical_or(m, rng, dtype):
    return compare(m, rng, "LOGICAL_OR", dtype)


@differential("bool")
def test_logical_not(m, rng, dtype):
    x = values(rng, operands(rng)[0], dtype)
    xi, y = m.tensor("x", x.shape, dtype), m.tensor("y", x.shape, dtype)
    m.operator("LOGICAL_NOT", [xi], [y])
    m.inputs([xi])
    m.outputs([y])
    return [x]


@differential("int8", "uint8")
def test_scales_of_one_and_more(m, rng, dtype):
    """Outside the rule's range: shift counts are taken modulo the register's width, as in the reference."""
    inputs = [m.tensor(name, (64,), dtype, scale=float(rng.uniform(0.9, 9)), zero_point=int(rng.integers(0, 9)))
              for name in "ab"]
    y = m.tensor("y", (64,), "bool")
    m.operator("GREATER", inputs, [y])
    m.inputs(inputs)
    m.outputs([y])
    return [values(rng, (64,), dtype) for _ in inputs]


def test_a_missing_scale_is_named():
    m = ModelBuilder()
    a, b, y = m.tensor("a", (2,), "int8"), m.tensor("b", (2,), "int8"), m.tensor("y", (2,), "bool")
    m.operator("LESS", [a, b], [y])
    m.inputs([a, b])
    m.outputs([y])
    with pytest.raises(RuntimeError, match=r"LESS.*no scale"):
        Interpreter(model_content=m.build()).allocate_tensors()
