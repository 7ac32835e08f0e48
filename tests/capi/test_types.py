"""Tensors of every type in ops in C: plug-ins see sub-byte integers packed, and resources as numbers."""
import itertools
from pathlib import Path

import numpy as np
import pytest

import pylite
from pylite.ir.graph import DTYPE_BITS, NUMPY_DTYPES
from pylite.plugins import resolver
from pylite.schema.builder import ModelBuilder
from tests.capi.compiling import build

LIMITS = {"int4": (-8, 8), "uint4": (0, 16), "int2": (-2, 2)}
NUMBERS = [name for name in DTYPE_BITS if name not in ("string", "variant", "resource", "bool")
           and NUMPY_DTYPES[name].kind in "iu" and not name.startswith("float8")]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return build(Path(__file__).parent / "plugins" / "types.c", tmp_path_factory.mktemp("types") / "types.so")


@pytest.fixture(scope="module")
def ops(library):
    known = resolver.BuiltinOpResolver()
    for op in pylite.load_custom_ops(library, ["Register_INVERT", "Register_SAME"], register=False):
        known.add_custom(op.name, op)
    return known


def numbers(dtype, shape):
    return np.random.default_rng(3).integers(*LIMITS.get(dtype, (0, 100)), shape).astype(NUMPY_DTYPES[dtype])


def inverted(x, dtype):
    return 15 - x if dtype == "uint4" else ~x


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("where", ["arena", "dynamic"])
def test_numbers(ops, dtype, where):
    m = ModelBuilder()
    t = [m.tensor(f"t{i}", (3, 5), dtype) for i in range(4)]
    m.operator("Invert", [t[0]], [t[1]], custom_options=where[:1].encode())
    m.operator("RESHAPE", [t[1], m.constant("shape", np.array([5, 3], np.int32))], [t[2]], new_shape=[5, 3])
    m.operator("Invert", [t[2]], [t[3]], custom_options=where[:1].encode())
    m.inputs([t[0]])
    m.outputs([t[3]])
    i = pylite.Interpreter(model_content=m.build(), op_resolver=ops)
    for shape in ((3, 5), (5, 3), (3, 5)):
        i.resize_tensor_input(0, shape)
        i.allocate_tensors()
        x = numbers(dtype, shape)
        i.set_tensor(0, x)
        for _ in range(2):
            i.invoke()
        first, last = (i.get_tensor(t[k]).view(x.dtype) for k in (2, 3))    # bfloat16 may be ml_dtypes'
        np.testing.assert_array_equal(last, x.reshape(5, 3))
        np.testing.assert_array_equal(first, inverted(x, dtype).reshape(5, 3))


@pytest.mark.parametrize("dtype", [*LIMITS, "int8"])
def test_constants(ops, dtype):
    m = ModelBuilder()
    x = numbers(dtype, (7,))
    y, z = m.tensor("y", (7,), dtype), m.tensor("z", (7,), dtype)
    m.operator("Invert", [m.constant("x", x, dtype=dtype)], [y], custom_options=b"r")
    m.operator("Invert", [y], [z], custom_options=b"a")
    m.inputs([])
    m.outputs([z])
    i = pylite.Interpreter(model_content=m.build(), op_resolver=ops)
    i.allocate_tensors()
    i.invoke()
    np.testing.assert_array_equal(i.get_tensor(z), x)


@pytest.mark.parametrize("dtype", [*LIMITS, "int8", "resource"])
@pytest.mark.parametrize("flags", [0, 1, 3])
def test_delegates(library, dtype, flags):
    m = ModelBuilder()
    t = [m.tensor(f"t{i}", (3, 5), dtype) for i in range(3)]
    for x, y in itertools.pairwise(t):
        m.operator("RESHAPE", [x], [y], new_shape=[3, 5])
    m.inputs([t[0]])
    m.outputs([t[2]])
    i = pylite.Interpreter(model_content=m.build(),
                           experimental_delegates=[pylite.load_delegate(library, {"flags": flags})])
    i.allocate_tensors()
    x = numbers(dtype, (3, 5))
    i.set_tensor(0, x)
    for _ in range(2):
        i.invoke()
    found = i._main.array(t[2]) if dtype == "resource" else i.get_tensor(t[2])     # which gives a reference as None
    np.testing.assert_array_equal(found, inverted(x, dtype))


@pytest.mark.parametrize("where", [b"a", b"d"])
def test_resources_pass_through(ops, where):
    m = ModelBuilder()
    x, h1, h2 = m.tensor("x", (2,)), m.tensor("h1", (1,), "resource"), m.tensor("h2", (1,), "resource")
    y = m.tensor("y", (2,))
    m.operator("VAR_HANDLE", [], [h1], container="", shared_name="v")
    m.operator("Same", [h1], [h2], custom_options=where)
    m.operator("ASSIGN_VARIABLE", [h2, x], [])
    m.operator("READ_VARIABLE", [h2], [y])
    m.inputs([x])
    m.outputs([y])
    i = pylite.Interpreter(model_content=m.build(), op_resolver=ops)
    i.allocate_tensors()
    for _ in range(2):
        i.set_tensor(x, np.array([3, 4], np.float32))
        i.invoke()
        np.testing.assert_array_equal(i.get_tensor(y), [3, 4])


def test_variants_are_refused(ops):
    m = ModelBuilder()
    x, y = m.tensor("x", (1,), "variant"), m.tensor("y", (1,), "variant")
    m.operator("Same", [x], [y], custom_options=b"a")
    m.inputs([x])
    m.outputs([y])
    with pytest.raises(RuntimeError, match="cannot take variants"):
        pylite.Interpreter(model_content=m.build(), op_resolver=ops).allocate_tensors()
