"""GATHER against the peer."""
import numpy as np
import pytest

from pylite.interpreter import Interpreter
from pylite.schema.builder import ModelBuilder
from tests.ops.moving import WIDTHS, random_array, random_shape
from tests.tools.oneop import differential


def gather_model(m, x, indices, dtype, **options):
    tensors = [m.tensor("x", x.shape, dtype), m.tensor("indices", indices.shape, indices.dtype.name)]
    y = m.tensor("y", (), dtype)
    m.operator("GATHER", tensors, [y], version=5, **options)
    m.inputs(tensors)
    m.outputs([y])
    return [x, indices]


@differential(*WIDTHS, count=20)
def test_gather(m, rng, dtype):
    shape = random_shape(rng, 1, 5, empty=False)
    axis = int(rng.integers(0, len(shape)))
    batch = int(rng.integers(0, min(axis, 2) + 1))
    indices = rng.integers(0, shape[axis], shape[:batch] + random_shape(rng, 0, 2, empty=False))
    indices = np.asarray(indices, rng.choice(["int16", "int32", "int64"]))
    return gather_model(m, random_array(rng, shape, dtype), indices, dtype, batch_dims=batch,
                        axis=axis - len(shape) if rng.random() < 0.5 else axis)


@differential("int4", count=10)
def test_gather_pairs_of_nibbles(m, rng, dtype):
    """The peer copies bytes, so runs of int4 must have even lengths."""
    shape = (*random_shape(rng, 1, 3, empty=False), 2 * int(rng.integers(1, 4)))
    axis = int(rng.integers(0, len(shape) - 1))
    return gather_model(m, random_array(rng, shape, dtype), rng.integers(0, shape[axis], 5), dtype, axis=axis)


@pytest.mark.parametrize("index", [-1, 5])
def test_indices_out_of_range_are_refused_in_invoke(index):
    m = ModelBuilder()
    x, indices = gather_model(m, np.zeros((5, 2), np.float32), np.array([0, index]), "float32", axis=0)
    interpreter = Interpreter(model_content=m.build())
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, x)
    interpreter.set_tensor(1, indices)
    with pytest.raises(RuntimeError, match=r"GATHER.*outside the axis"):
        interpreter.invoke()
