"""Constant and broadcast operands give the same results as full tensors set at run time."""
import numpy as np
import pytest

from pylite._core import simd
from pylite.schema.builder import ModelBuilder
from tests.tools.oneop import run_pylite

OPS = ["ADD", "SUB", "MUL", "MAXIMUM", "SQUARED_DIFFERENCE", "GREATER", "EQUAL"]
Q = {"scale": 0.1, "zero_point": -3}


def one_op(name, dtype, operands, constants=()):
    """(a model of one operator, its inputs); `constants` lists the positions of constants among the operands."""
    m = ModelBuilder()
    same = name in ("MAXIMUM", "MINIMUM")
    q = {} if dtype == "float32" else {**Q, "zero_point": 120 if dtype == "uint8" else -3}
    indices = [m.constant(f"x{i}", x, **q) if i in constants else m.tensor(f"x{i}", x.shape, dtype, **q)
               for i, x in enumerate(operands)]
    shape = np.broadcast_shapes(*(x.shape for x in operands))
    y_q = q if same or not q else {**q, "scale": 0.3}
    y = m.tensor("y", shape, "bool") if name in ("GREATER", "EQUAL") else m.tensor("y", shape, dtype, **y_q)
    fused = {"fused_activation_function": "NONE"} if name in ("ADD", "SUB", "MUL") else {}
    m.operator(name, indices, [y], **fused)
    m.inputs([t for i, t in enumerate(indices) if i not in constants])
    m.outputs([y])
    return m.build(), [x for i, x in enumerate(operands) if i not in constants]


def drawn(rng, dtype, *shapes):
    if dtype == "float32":
        return [rng.standard_normal(shape).astype(dtype) for shape in shapes]
    info = np.iinfo(dtype)
    return [rng.integers(info.min, info.max + 1, shape).astype(dtype) for shape in shapes]


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("name", OPS)
def test_one_constant_becomes_a_table(name, dtype):
    if (name, dtype) == ("SQUARED_DIFFERENCE", "uint8"):
        return
    rng = np.random.default_rng(0)
    every = np.arange(256).astype(np.uint8).view(dtype).reshape(2, 128)
    for constant, shape in ((0, ()), (1, (1, 1))):
        for (number,) in drawn(rng, dtype, (5,))[0].reshape(5, 1):
            operands = [every, every]
            operands[constant] = np.full(shape, number, dtype)
            want = run_pylite(*one_op(name, dtype, operands))
            got = run_pylite(*one_op(name, dtype, operands, (constant,)))
            np.testing.assert_array_equal(got[0], want[0])


@pytest.mark.parametrize("dtype", ["int8", "float32", "int16"])
@pytest.mark.parametrize("shapes", [((300, 1), (1, 17)), ((7, 50, 1, 3), (50, 9, 1)), ((2, 1, 40000, 1), (3, 1, 2)),
                                    ((1, 5), (700, 1)), ((4, 1, 6, 1, 5), (2, 6, 3, 5))])
def test_broadcasts_of_short_rows_equal_full_tensors(shapes, dtype):
    operands = drawn(np.random.default_rng(1), dtype, *shapes)
    full = [np.ascontiguousarray(x) for x in np.broadcast_arrays(*operands)]
    name = "ADD" if dtype == "int8" else "MAXIMUM"
    chosen = simd.current
    try:
        for isa_level in simd.available():
            simd.use(isa_level)
            want = run_pylite(*one_op(name, dtype, full))
            for threads in (1, 3):
                got = run_pylite(*one_op(name, dtype, operands), threads)
                np.testing.assert_array_equal(got[0], want[0])
    finally:
        simd.use(chosen)
