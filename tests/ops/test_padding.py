"""PAD, PADV2 and MIRROR_PAD against the peer."""
import numpy as np
import pytest

from pylite.errors import OpError
from pylite.interpreter import Interpreter
from pylite.schema.builder import ModelBuilder
from tests.ops.moving import one_op, random_array, random_shape
from tests.tools.oneop import differential


def random_paddings(rng, shape, dtype, at_most=None):
    limit = at_most or [4] * len(shape)
    pairs = [[int(v) for v in rng.integers(0, n + 1, 2)] if rng.random() < 0.7 else [0, 0] for n in limit]
    return np.array(pairs, dtype).reshape(len(shape), 2)


@differential("int8", "uint8", "int16", "float32", "int64", "bool", "float16", count=15)
def test_pad(m, rng, dtype):
    x = random_array(rng, random_shape(rng, 1, 5), dtype)
    zero = {"int8": -7, "uint8": 120}.get(dtype, 0)
    return one_op(m, "PAD", dtype, [x], [random_paddings(rng, x.shape, rng.choice(["int32", "int64"]))],
                  quantization=(0.5, zero) if dtype in ("int8", "uint8", "int16") else (), version=4)


@differential("int8", "uint8", "float32", "int64", count=15)
def test_padv2(m, rng, dtype):
    x = random_array(rng, random_shape(rng, 1, 5), dtype)
    fields = {"scale": 0.5, "zero_point": 3} if dtype in ("int8", "uint8") else {}
    tensors = [m.tensor("x", x.shape, dtype, **fields), m.constant("paddings", random_paddings(rng, x.shape, "int32"))]
    inputs, value = [x], random_array(rng, (), dtype)
    if rng.random() < 0.5:
        tensors.append(m.constant("value", value, **fields))
    else:
        tensors.append(m.tensor("value", (), dtype, **fields))
        inputs.append(value)
    y = m.tensor("y", (), dtype, **fields)
    m.operator("PADV2", tensors, [y], version=4)
    m.inputs(tensors[::2][:len(inputs)])
    m.outputs([y])
    return inputs


@differential("int8", "int16", "float32", "int64", count=20)
def test_mirror_pad(m, rng, dtype):
    shape = random_shape(rng, 1, 4, empty=False)
    mode = str(rng.choice(["REFLECT", "SYMMETRIC"]))
    widths = random_paddings(rng, shape, rng.choice(["int32", "int64"]), [n - (mode == "REFLECT") for n in shape])
    return one_op(m, "MIRROR_PAD", dtype, [random_array(rng, shape, dtype)], [widths], mode=mode, version=2)


def test_mirror_padding_wider_than_the_input_is_refused():
    m = ModelBuilder()
    one_op(m, "MIRROR_PAD", "float32", [np.zeros((2, 3), np.float32)], [np.array([[0, 0], [3, 0]], np.int32)],
           mode="REFLECT")
    with pytest.raises(OpError, match=r"MIRROR_PAD.*x0.*too small"):
        Interpreter(model_content=m.build()).allocate_tensors()


def test_negative_widths_are_refused():
    m = ModelBuilder()
    one_op(m, "PAD", "float32", [np.zeros(5, np.float32)], [np.array([[-1, 2]], np.int32)])
    with pytest.raises(OpError, match="a width is negative"):
        Interpreter(model_content=m.build()).allocate_tensors()
