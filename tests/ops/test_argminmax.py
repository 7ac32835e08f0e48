"""ARG_MAX and ARG_MIN against the peer."""
import numpy as np
import pytest

from pylite.errors import OpError
from pylite.interpreter import Interpreter
from pylite.schema.builder import ModelBuilder
from tests.ops.moving import one_op, random_array, random_shape
from tests.tools.oneop import differential, run_pylite


def draw_arg(m, rng, dtype, name):
    shape = list(random_shape(rng, 1, 5, empty=False))
    axis = int(rng.integers(0, len(shape)))
    if rng.random() < 0.5:
        shape[axis] = int(rng.integers(1, 100))
    x = random_array(rng, tuple(shape), dtype)
    if dtype in ("int8", "uint8", "int32", "float32") and rng.random() < 0.5:
        x = (x // np.asarray(rng.choice([1, 20])).astype(x.dtype)).astype(x.dtype)      # with equal elements
    out = str(rng.choice(["int32", "int64"]))
    given = np.array(axis - len(shape) if rng.random() < 0.5 else axis, rng.choice(["int32", "int64"]))
    return one_op(m, name, dtype, [x], [given], out_dtype=out, output_type=out, version=1)


@differential("float32", "int8", "uint8", "int32", "bool", count=20)
def test_arg_max(m, rng, dtype):
    return draw_arg(m, rng, dtype, "ARG_MAX")


@differential("float32", "int8", "uint8", "int32", "bool", count=20)
def test_arg_min(m, rng, dtype):
    return draw_arg(m, rng, dtype, "ARG_MIN")


@differential("float32", count=20)
def test_special_floats(m, rng, dtype):
    x = random_array(rng, (3, int(rng.integers(1, 50)), 2), dtype)
    x[rng.random(x.shape) < 0.3] = np.nan
    x[rng.random(x.shape) < 0.2] = np.inf
    x[rng.random(x.shape) < 0.2] = -np.inf
    x[rng.random(x.shape) < 0.2] = -0.0
    x[:, :int(rng.integers(0, 3))] = np.nan
    return one_op(m, str(rng.choice(["ARG_MAX", "ARG_MIN"])), dtype, [x], [np.array(1, np.int32)], out_dtype="int32",
                  output_type="int32")


def test_an_empty_axis_is_refused():
    m = ModelBuilder()
    one_op(m, "ARG_MAX", "float32", [np.zeros((2, 0), np.float32)], [np.array(1, np.int32)], out_dtype="int32",
           output_type="int32")
    with pytest.raises(OpError, match=r"ARG_MAX.*x0.*no elements"):
        Interpreter(model_content=m.build()).allocate_tensors()


@pytest.mark.parametrize("name", ["ARG_MAX", "ARG_MIN"])
def test_an_empty_axis_is_no_fault_if_there_are_no_results(name):
    """As in the reference: an upstream filter may leave nothing in several dimensions."""
    m = ModelBuilder()
    one_op(m, name, "float32", [np.zeros((0, 5, 0), np.float32)], [np.array(0, np.int32)], out_dtype="int32",
           output_type="int32")
    [result] = run_pylite(m.build(), [np.zeros((0, 5, 0), np.float32)])
    assert result.shape == (5, 0)
