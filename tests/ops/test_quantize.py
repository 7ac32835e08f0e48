"""QUANTIZE, DEQUANTIZE and CAST against the reference kernels."""
import numpy as np
import pytest

from pylite import Interpreter
from pylite.numerics.quantization import LIMITS
from pylite.schema.builder import ModelBuilder
from tests.ops.draw import mild_quantization, shape_of, values
from tests.tools.oneop import differential

REQUANTIZE = [(a, b) for a in ("int8", "uint8") for b in ("int8", "uint8", "int16")] + [
    ("int16", "int8"), ("int16", "int16"), ("int16", "int32"), ("int32", "int8"), ("int32", "int16")]


def one_op(m, name, x, x_dtype, y_dtype, q=None, y_q=None, **options):
    xi = m.tensor("x", x.shape, x_dtype, **(q or {}))
    y = m.tensor("y", x.shape, y_dtype, **(y_q or {}))
    m.operator(name, [xi], [y], **options)
    m.inputs([xi])
    m.outputs([y])
    return [x]


def per_axis(rng, shape, dtype):
    """Scales and zero points along one axis."""
    axis = int(rng.integers(len(shape)))
    n = shape[axis]
    low, high = (0, 1) if dtype == "int16" else LIMITS[dtype]
    return {"scale": np.exp(rng.uniform(-5, 0, n)).astype(np.float32), "zero_point": rng.integers(low, high, n),
            "axis": axis}


@differential("int8", "uint8", "int16")
def test_quantize(m, rng, dtype):
    x = values(rng, shape_of(rng), "float32") * np.float32(rng.choice([1, 10, 100]))
    return one_op(m, "QUANTIZE", x, "float32", dtype, y_q=mild_quantization(rng, dtype))


@differential("int8", "uint8")
def test_quantize_ties(m, rng, dtype):
    x = (rng.integers(-300, 300, 500) + 0.5).astype(np.float32) * np.float32(0.25)
    return one_op(m, "QUANTIZE", x, "float32", dtype, y_q=mild_quantization(rng, dtype, 0.25))


@differential("int8", "uint8", "int16")
def test_quantize_per_axis(m, rng, dtype):
    x = values(rng, shape_of(rng, 4, 1, 0), "float32")
    return one_op(m, "QUANTIZE", x, "float32", dtype, y_q=per_axis(rng, x.shape, dtype))


@differential(*(f"{a}-{b}" for a, b in REQUANTIZE))
def test_requantize(m, rng, dtype):
    a, b = dtype.split("-")
    qs = [{"scale": float(np.exp(rng.uniform(-20, -12)))} if t == "int32" else mild_quantization(rng, t)
          for t in (a, b)]
    return one_op(m, "QUANTIZE", values(rng, shape_of(rng), a), a, b, *qs)


@differential("int8", "uint8", "int16")
def test_dequantize(m, rng, dtype):
    return one_op(m, "DEQUANTIZE", values(rng, shape_of(rng), dtype), dtype, "float32", mild_quantization(rng, dtype))


@differential("int8", "uint8")
def test_dequantize_per_axis(m, rng, dtype):
    x = values(rng, shape_of(rng, 4, 1, 0), dtype)
    return one_op(m, "DEQUANTIZE", x, dtype, "float32", per_axis(rng, x.shape, dtype))


@differential("float16")
def test_dequantize_half(m, rng, dtype):
    x = np.concatenate([values(rng, (50,), "float16"), np.array([0, 6e-8, 6e-5, 65504, np.inf, -np.inf], "float16")])
    return one_op(m, "DEQUANTIZE", x, dtype, "float32")


CASTS = ("float32", "float16", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "bool",
         "complex64")


@differential(*CASTS, count=5, tolerance=0)
def test_cast(m, rng, dtype):
    """One input, cast to every type."""
    if dtype == "complex64":
        x = (values(rng, (40,), "float32") + 1j * values(rng, (40,), "float32")).astype(dtype)
    elif dtype.startswith("float"):
        x = rng.standard_normal(40) * 10.0 ** rng.integers(-3, 12, 40)
        with np.errstate(over="ignore"):
            x = np.concatenate([x, [0, 0.5, -0.5, np.inf, -np.inf, np.nan, 1e30, -1e30]]).astype(dtype)
    else:
        x = values(rng, (40,), dtype)
    xi = m.tensor("x", x.shape, dtype)
    targets = [m.tensor(f"to {target}", x.shape, target) for target in CASTS]
    for y, target in zip(targets, CASTS, strict=True):
        m.operator("CAST", [xi], [y], in_data_type=dtype, out_data_type=target)
    m.inputs([xi])
    m.outputs(targets)
    return [x]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_floats_beyond_int32_become_its_minimum(dtype):
    """The reference converts to int32 first; x86-64 gives the minimum for all values out of range."""
    m = ModelBuilder()
    x = np.array([1e30, -1e30, np.inf, -np.inf, np.nan, 3e9, 1], np.float32)
    one_op(m, "QUANTIZE", x, "float32", dtype, y_q={"scale": 0.1, "zero_point": 0})
    interpreter = Interpreter(model_content=m.build())
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, x)
    interpreter.invoke()
    low = LIMITS[dtype][0]
    assert interpreter.get_tensor(1).tolist() == [low] * 6 + [10]


def test_four_bits():
    """int4 constants are dequantized; float to int4 and uint4 clamps to the type."""
    m = ModelBuilder()
    w = m.constant("w", np.array([-8, -1, 0, 7, 3], np.int8), dtype="int4", scale=0.5)
    y = m.tensor("y", (5,))
    m.operator("DEQUANTIZE", [w], [y])
    x = m.tensor("x", (5,))
    z = m.tensor("z", (5,), "uint4", scale=0.5, zero_point=3)
    m.operator("QUANTIZE", [x], [z])
    m.inputs([x])
    m.outputs([y, z])
    interpreter = Interpreter(model_content=m.build())
    interpreter.allocate_tensors()
    interpreter.set_tensor(x, np.array([-9, -1, 0, 2.26, 99], np.float32))
    interpreter.invoke()
    assert interpreter.get_tensor(y).tolist() == [-4, -0.5, 0, 3.5, 1.5]
    assert interpreter.get_tensor(z).tolist() == [0, 1, 3, 8, 15]


@differential("int4", "int2", "uint4", count=3)
def test_cast_to_a_few_bits_and_back(m, rng, dtype):
    """Truncated, then reduced to the type's bits."""
    x = (rng.standard_normal((5, 7)) * 10.0 ** rng.integers(0, 3)).astype(np.float32)
    x.flat[:4] = np.nan, np.inf, -np.inf, 7.9
    tensors = [m.tensor("x", x.shape), m.tensor("few", x.shape, dtype), m.tensor("y", x.shape)]
    m.operator("CAST", tensors[:1], tensors[1:2])
    m.operator("CAST", tensors[1:2], tensors[2:])
    m.inputs(tensors[:1])
    m.outputs(tensors[2:])
    return [x]
