"""RESHAPE, SQUEEZE, EXPAND_DIMS and SHAPE against the peer."""
import numpy as np
import pytest

from pylite.errors import OpError
from pylite.interpreter import Interpreter
from pylite.schema.builder import ModelBuilder
from tests.ops.moving import WIDTHS, one_op, random_array, random_shape
from tests.tools.oneop import differential


def random_factors(rng, size):
    """Sizes whose product is `size`."""
    factors = []
    while size > 1 and len(factors) < 4:
        divisors = [d for d in range(1, size + 1) if size % d == 0]
        factors.append(int(rng.choice(divisors)))
        size //= factors[-1]
    return [*factors, size]


@differential(*WIDTHS, "complex64", "int4", count=15)
def test_reshape(m, rng, dtype):
    shape = random_shape(rng, 0, 6, empty=False)
    wanted = random_factors(rng, int(np.prod(shape)))
    if rng.random() < 0.5:
        wanted[rng.integers(0, len(wanted))] = -1
    x = random_array(rng, shape, dtype)
    if rng.random() < 0.5:
        return one_op(m, "RESHAPE", dtype, [x], new_shape=tuple(wanted))
    return one_op(m, "RESHAPE", dtype, [x], [np.array(wanted, np.int32)])


@differential("int8", "float32", count=10)
def test_squeeze(m, rng, dtype):
    shape = tuple(int(n) if rng.random() < 0.5 else 1 for n in random_shape(rng, 1, 6))
    ones = [i for i, n in enumerate(shape) if n == 1]
    axes = [i - len(shape) if rng.random() < 0.5 else i for i in ones if rng.random() < 0.6]
    return one_op(m, "SQUEEZE", dtype, [random_array(rng, shape, dtype)], squeeze_dims=tuple(axes))


@differential("int8", "float32", count=10)
def test_expand_dims(m, rng, dtype):
    shape = random_shape(rng, 0, 5)
    axis = np.array(rng.integers(-len(shape) - 1, len(shape) + 1), rng.choice(["int32", "int64"]))
    return one_op(m, "EXPAND_DIMS", dtype, [random_array(rng, shape, dtype)], [axis])


@differential("int8", "float32", count=5)
def test_shape(m, rng, dtype):
    out = str(rng.choice(["int32", "int64"]))
    return one_op(m, "SHAPE", dtype, [random_array(rng, random_shape(rng, 1, 6), dtype)], out_dtype=out, out_type=out)


@pytest.mark.parametrize(("name", "options", "text"), [
    ("RESHAPE", {"new_shape": (5, 2)}, "12 elements"), ("RESHAPE", {"new_shape": (-1, -1)}, "12 elements"),
    ("SQUEEZE", {"squeeze_dims": (1,)}, "not all are of one element")])
def test_invalid_shapes_are_refused(name, options, text):
    m = ModelBuilder()
    one_op(m, name, "float32", [np.zeros((3, 4), np.float32)], **options)
    with pytest.raises(OpError, match=rf"{name}.*x0.*{text}"):
        Interpreter(model_content=m.build()).allocate_tensors()
