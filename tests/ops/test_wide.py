"""The micro-kernels that compute any type in int64 or float64, against numpy."""
import itertools
import re
from pathlib import Path

import numpy as np
import pytest

from pylite._core import simd
from pylite._core.kernels import kernel_class
from pylite.ir.graph import NUMPY_DTYPES
from pylite.ops import wide
from pylite.schema.builder import ModelBuilder
from tests.tools.graphs import lowered

UNARY = {"abs": np.abs, "neg": np.negative, "sign": np.sign, "square": np.square, "floor": np.floor, "ceil": np.ceil,
         "round": np.rint, "sin": np.sin, "cos": np.cos, "tanh": np.tanh}
BINARY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "maximum": np.maximum, "minimum": np.minimum,
          "less": np.less, "less_equal": np.less_equal, "equal": np.equal, "not_equal": np.not_equal,
          "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "floor_div": np.floor_divide,
          "floor_mod": np.mod}
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64")   # uint64: neither comparison nor division
BITS = ("and", "or", "xor")


def drawn(dtype, seed, n=300):
    rng, kind = np.random.default_rng(seed), NUMPY_DTYPES[dtype]
    if kind.kind == "f":
        return (rng.standard_normal(n) * 20).astype(kind)
    return rng.integers(np.iinfo(kind).min, np.iinfo(kind).max, n, kind, endpoint=True)


def raw(array):
    return array.view(np.uint8)


@pytest.mark.parametrize(("dtype", "op"), [
    *itertools.product(("float16", "float32", "float64"), UNARY),
    *itertools.product(("int8", "int16", "int32", "int64"), ("abs", "neg", "sign", "square"))])
def test_unary(dtype, op):
    x = drawn(dtype, 1)
    y = np.zeros_like(x)
    kernel_class("elementwise.Unary")("wide_unary", x.size, raw(x), raw(y), f"{op} {dtype} {dtype}".encode()).run()
    want = UNARY[op](x.astype(np.float64) if x.dtype.kind == "f" else x).astype(x.dtype)
    np.testing.assert_allclose(y, want, rtol=0 if x.dtype.kind != "f" else 2.0**-10 if dtype == "float16" else 1e-7)


@pytest.mark.parametrize(("dtype", "op"), [
    *itertools.product(INTEGERS, BINARY), *itertools.product(("float32", "float64"), [op for op in BINARY
                                                                                     if op not in BITS]),
    *(("uint64", op) for op in ("add", "sub", "mul", "maximum", "minimum", "equal", "not_equal", *BITS))])
def test_binary(dtype, op):
    a, b = drawn(dtype, 1), drawn(dtype, 2)
    b[b == 0] = 1
    with np.errstate(all="ignore"):
        want = BINARY[op](a, b)
    y = np.zeros(len(a), want.dtype)
    p = wide.binary_parameters(op, dtype, "bool" if want.dtype == bool else dtype)
    kernel_class("elementwise.Binary")("wide_binary", (len(a),), raw(a), raw(b), raw(y), a_strides=(1,),
                                         b_strides=(1,), p=p).run()
    np.testing.assert_array_equal(y, want)


@pytest.mark.parametrize("dtype", wide.TYPES)
def test_every_type_is_known(dtype):
    """ops/wide.py and simd/casts.h list the same types."""
    known = simd.kernel_parameters("wide_unary", f"cast {dtype} {dtype}".encode())
    assert known[4:8] == known[8:]
    headers = Path(__file__).resolve().parents[2] / "pylite" / "_core" / "simd"
    listed = re.findall(r"\bX\((\w+), \d, \d\)", (headers / "casts.h").read_text())
    assert sorted(listed) == sorted(wide.TYPES)


@pytest.mark.parametrize(("name", "words"), [
    ("wide_unary", b"cast int8 int3"), ("wide_unary", b"floor int8 int8"), ("wide_unary", b"add int8 int8"),
    ("wide_unary", b"abs int8"), ("wide_binary", b"abs int8 int8"), ("wide_binary", b"and float32 float32"),
    ("wide_binary", b"")])
def test_unsupported_types_and_ops_are_refused(name, words):
    with pytest.raises(ValueError, match=f"{name} has no"):
        simd.kernel_parameters(name, words)


def test_combining_prefers_a_specialized_micro_kernel():
    assert wide.combining("add", "int32")[0] == "add_i32"
    assert wide.combining("maximum", "float32")[0] == "maximum_f32"
    assert wide.combining("minimum", "uint8")[0] == "minimum_u8"
    assert wide.combining("mul", "uint16")[0] == "wide_binary"


@pytest.mark.parametrize(("name", "dtype", "kernel"), [
    ("STABLEHLO_ADD", "float16", "add_f16"), ("STABLEHLO_MULTIPLY", "int16", "mul_i16"),
    ("STABLEHLO_MULTIPLY", "int8", "mul_i8"), ("STABLEHLO_ADD", "bool", "or_bool"),
    ("STABLEHLO_AND", "bool", "and_bool"), ("STABLEHLO_MAXIMUM", "float32", "maximum_f32"),
    ("STABLEHLO_MINIMUM", "int8", "minimum_i8")])
def test_stablehlo_has_micro_kernels_of_its_own_types(name, dtype, kernel):
    m = ModelBuilder()
    a, b, y = (m.tensor(word, (5,), dtype) for word in "aby")
    m.operator(name, [a, b], [y])
    m.inputs([a, b])
    m.outputs([y])
    call, = lowered(m.build()).calls
    assert kernel in call.args
