"""Sparse constants: all layouts are densified, and damaged ones are named."""
import numpy as np
import pytest

from pylite.errors import ModelError
from pylite.interpreter import Interpreter
from pylite.schema.builder import ModelBuilder
from tests.schema.sparse_models import sparse_constant

# shape, traversal order, compressed levels, block map, block sizes
LAYOUTS = [((4, 6), (0, 1), (1,), (), ()), ((4, 6), (1, 0), (1,), (), ()), ((4, 6), (0, 1), (0, 1), (), ()),
           ((4, 8), (0, 1, 2), (1,), (1,), (4,)), ((6, 8), (0, 1, 2, 3), (1,), (0, 1), (2, 4)),
           ((6, 8), (0, 1, 3, 2), (0, 1), (0, 1), (3, 2)), ((3, 2, 2, 8), (0, 1, 2, 3), (3,), (), ()),
           ((3, 2, 2, 8), (0, 1, 2, 3, 4), (3,), (3,), (4,)), ((5,), (0,), (0,), (), ()),
           ((2, 300), (0, 1), (1,), (), ())]


def array(shape, rng, dtype):
    dense = rng.integers(-5, 6, shape) * (rng.random(shape) < 0.3)
    return dense.astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_layouts(layout, dtype):
    shape, *rest = layout
    for seed in range(4):
        dense = array(shape, np.random.default_rng(seed), dtype) * (seed > 0)
        dense.flat[-1] = 1                  # an all-zero array has no buffer
        m = ModelBuilder()
        x, y = sparse_constant(m, "x", dense, *rest), m.tensor("y", shape, dtype)
        m.operator("DENSIFY", [x], [y])
        m.outputs([y])
        interpreter = Interpreter(model_content=m.build())
        interpreter.allocate_tensors()
        interpreter.invoke()
        np.testing.assert_array_equal(interpreter.get_tensor(y), dense)


def damaged(change):
    """A sparse model whose layout is changed."""
    m = ModelBuilder()
    x = sparse_constant(m, "x", array((4, 8), np.random.default_rng(0), "float32"), (0, 1, 2), (1,), (1,), (4,))
    y = m.tensor("y", (4, 8))
    m.operator("DENSIFY", [x], [y])
    m.outputs([y])
    tensor = m.record.subgraphs[0].tensors[x]
    change(tensor, tensor.sparsity.dim_metadata)
    return m.build()


def values(level, which):
    return getattr(level, which).values


DAMAGE = {
    "more rows": lambda t, d: setattr(d[0], "dense_size", 5),
    "many rows": lambda t, d: setattr(d[0], "dense_size", 2**31 - 1),
    "no rows": lambda t, d: setattr(d[0], "dense_size", -1),
    "other blocks": lambda t, d: setattr(d[2], "dense_size", 3),
    "empty blocks": lambda t, d: setattr(d[2], "dense_size", 0),
    "falling segments": lambda t, d: values(d[1], "array_segments").__setitem__(1, 100),
    "negative segments": lambda t, d: values(d[1], "array_segments").__setitem__(0, -1),
    "last segment": lambda t, d: values(d[1], "array_segments").__setitem__(-1, 1),
    "too few segments": lambda t, d: setattr(d[1].array_segments, "values", np.zeros(2, np.int32)),
    "far index": lambda t, d: values(d[1], "array_indices").__setitem__(0, 2),
    "an unknown format": lambda t, d: setattr(d[0], "format", 77),
    "shape": lambda t, d: setattr(t, "shape", (4, 6)),
}


@pytest.mark.parametrize("change", DAMAGE.values(), ids=DAMAGE)
def test_damage_is_named(change):
    with pytest.raises(ModelError, match="'x'"):
        Interpreter(model_content=damaged(change)).allocate_tensors()
