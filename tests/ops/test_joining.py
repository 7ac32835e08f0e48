"""CONCATENATION, PACK, SPLIT, SPLIT_V and UNPACK against the peer."""
import numpy as np
import pytest

from pylite.errors import OpError
from pylite.interpreter import Interpreter
from pylite.schema.builder import ModelBuilder
from tests.ops.moving import one_op, random_array, random_shape
from tests.tools.oneop import differential, run_pylite


def either_sign(rng, axis, rank):
    return axis - rank if rng.random() < 0.5 else axis


@differential("int8", "float16", "float32", "int64", "bool", "int4", count=15)
def test_concatenation(m, rng, dtype):
    shape = random_shape(rng, 1, 6, empty=False)
    axis = int(rng.integers(0, len(shape)))
    sizes = rng.integers(0 if rng.random() < 0.1 else 1, 9, rng.integers(1, 6))
    inputs = [random_array(rng, shape[:axis] + (int(n),) + shape[axis + 1:], dtype) for n in sizes]
    quantization = (0.5, -3) if dtype == "int8" else ()
    return one_op(m, "CONCATENATION", dtype, inputs, axis=either_sign(rng, axis, len(shape)),
                  quantization=quantization, version=6 if dtype == "int4" else 3)


@differential("uint8", count=25)
def test_concatenation_rescales(m, rng, dtype):
    shape = random_shape(rng, 1, 4, empty=False)
    axis = int(rng.integers(0, len(shape)))
    y_scale, y_zero = float(rng.uniform(0.01, 1)), int(rng.integers(0, 256))
    inputs, tensors, total = [], [], 0
    for i in range(int(rng.integers(1, 5))):
        n = int(rng.integers(1, 40))
        total += n
        scale, zero = (y_scale, y_zero) if rng.random() < 0.3 else (y_scale * rng.uniform(0.3, 3), rng.integers(0, 256))
        x = random_array(rng, shape[:axis] + (n,) + shape[axis + 1:], dtype)
        inputs.append(x)
        tensors.append(m.tensor(f"x{i}", x.shape, dtype, scale=scale, zero_point=int(zero)))
    y = m.tensor("y", shape[:axis] + (total,) + shape[axis + 1:], dtype, scale=y_scale, zero_point=y_zero)
    m.operator("CONCATENATION", tensors, [y], axis=axis)
    m.inputs(tensors)
    m.outputs([y])
    return inputs


@differential("int8", "int16", "float32", "int64", count=12)
def test_pack(m, rng, dtype):
    shape = random_shape(rng, 0, 4, empty=False)
    axis = int(rng.integers(0, len(shape) + 1))
    inputs = [random_array(rng, shape, dtype) for _ in range(int(rng.integers(1, 6)))]
    return one_op(m, "PACK", dtype, inputs, axis=either_sign(rng, axis, len(shape) + 1), values_count=len(inputs))


@differential("int8", "float16", "float32", "bool", count=12)
def test_unpack(m, rng, dtype):
    shape = random_shape(rng, 1, 5, empty=False)
    axis = int(rng.integers(0, len(shape)))
    return one_op(m, "UNPACK", dtype, [random_array(rng, shape, dtype)], outputs=shape[axis], num=shape[axis],
                  axis=either_sign(rng, axis, len(shape)), version=4)


@differential("int8", "int16", "float32", "int64", count=12)
def test_split(m, rng, dtype):
    shape = list(random_shape(rng, 1, 4, empty=False))
    axis = int(rng.integers(0, len(shape)))
    parts = int(rng.integers(1, 6))
    shape[axis] *= parts
    x = random_array(rng, tuple(shape), dtype)
    return one_op(m, "SPLIT", dtype, [x], [np.array([either_sign(rng, axis, len(shape))], np.int32)], outputs=parts,
                  order=(1, 0), num_splits=parts, version=3)


@differential("int8", "int16", "float32", "int64", count=12)
def test_split_v(m, rng, dtype):
    shape = list(random_shape(rng, 1, 4, empty=False))
    axis = int(rng.integers(0, len(shape)))
    sizes = rng.integers(1, 6, rng.integers(1, 6)).astype(rng.choice(["int32", "int64"]))
    shape[axis] = int(sizes.sum())
    if rng.random() < 0.5:
        sizes[rng.integers(0, len(sizes))] = -1
    x = random_array(rng, tuple(shape), dtype)
    return one_op(m, "SPLIT_V", dtype, [x], [sizes, np.array(either_sign(rng, axis, len(shape)), np.int32)],
                  outputs=len(sizes), num_splits=len(sizes))


def test_int8_inputs_with_other_parameters_are_refused():
    m = ModelBuilder()
    tensors = [m.tensor(name, (4,), "int8", scale=scale) for name, scale in (("a", 0.5), ("b", 0.25), ("y", 0.5))]
    m.operator("CONCATENATION", tensors[:2], tensors[2:], axis=0)
    m.inputs(tensors[:2])
    m.outputs(tensors[2:])
    with pytest.raises(OpError, match=r"CONCATENATION.*'b'.*0.25"):
        Interpreter(model_content=m.build()).allocate_tensors()


def test_a_fused_activation_is_refused():
    m = ModelBuilder()
    one_op(m, "CONCATENATION", "float32", [np.zeros(3, np.float32)] * 2, axis=0, fused_activation_function="RELU")
    with pytest.raises(OpError, match="activation RELU"):
        Interpreter(model_content=m.build()).allocate_tensors()


@pytest.mark.parametrize(("x", "y", "expected"), [
    ((0.1, 3), None, [0, 0, 0]), (None, (0.1, 3), [3, 3, 3]), ((0.1, 3), (0.0, 3), [0, 0, 0]),
    ((0.0, 3), (0.1, 5), [5, 5, 5]), ((1e4, 3), (1e-8, 9), [0, 0, 0]), ((0.1, 7), (1e-8, 9), [0, 0, 255])])
def test_concatenation_between_scales_that_hold_nothing(x, y, expected):
    """No scale is the scale 0; a quotient beyond int32 is the least one, as in the reference."""
    m = ModelBuilder()
    made = [m.tensor(name, (3,), "uint8", **(dict(zip(("scale", "zero_point"), q, strict=True)) if q else {}))
            for name, q in (("x", x), ("y", y))]
    m.operator("CONCATENATION", made[:1], made[1:], axis=0)
    m.inputs(made[:1])
    m.outputs(made[1:])
    got, = run_pylite(m.build(), [np.array([0, 5, 128], np.uint8)])
    assert got.tolist() == expected
