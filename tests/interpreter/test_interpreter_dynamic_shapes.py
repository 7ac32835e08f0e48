"""Interpreters of graphs with data-dependent shapes."""
import numpy as np
import pytest

import pylite
from pylite.schema.builder import ModelBuilder
from tests.tools.interpreters import ready


def shape_from_data():
    """x (2, 6) is doubled, reshaped to the input "shape" times a constant, and summed over rows."""
    m = ModelBuilder()
    x, shape, doubled = m.tensor("x", (2, 6)), m.tensor("shape", (2,), "int32"), m.tensor("doubled", (2, 6))
    wanted, y, z = m.tensor("wanted", (2,), "int32"), m.tensor("y", (3, 4)), m.tensor("z", (4,))
    m.operator("ADD", [x, x], [doubled])
    m.operator("MUL", [shape, m.constant("one", np.array([1, 1], np.int32))], [wanted])
    m.operator("RESHAPE", [doubled, wanted], [y], new_shape=(3, 4))
    m.operator("SUM", [y, m.constant("axis", np.array([0], np.int32))], [z])
    m.inputs([x, shape])
    m.outputs([z, doubled])
    return m.build()


@pytest.mark.parametrize("options", [
    {}, {"guard_bands": True}, {"num_threads": 2},
    {"experimental_preserve_all_tensors": True, "experimental_op_resolver_type": pylite.OpResolverType.BUILTIN_REF}])
def test_data_dependent_shapes(options):
    interpreter = ready(shape_from_data(), **options)
    x, shape = (d["index"] for d in interpreter.get_input_details())
    z, doubled = (d["index"] for d in interpreter.get_output_details())
    with pytest.raises(ValueError, match="known once the model has run"):
        interpreter.get_tensor(z)
    rng = np.random.default_rng(0)
    for wanted in ((3, 4), (4, 3), (3, 4), (12, 1), (1, 12), (4, 3)):
        value = rng.integers(-9, 9, (2, 6)).astype(np.float32)
        interpreter.set_tensor(x, value)
        interpreter.set_tensor(shape, np.array(wanted, np.int32))
        interpreter.invoke()
        np.testing.assert_array_equal(interpreter.get_tensor(z), 2 * value.reshape(wanted).sum(0))
        np.testing.assert_array_equal(interpreter.get_tensor(doubled), 2 * value)
        assert interpreter.get_output_details()[0]["shape"].tolist() == [wanted[1]]
        np.testing.assert_array_equal(interpreter.tensor(shape)(), wanted)
    interpreter.set_tensor(shape, np.array([5, 5], np.int32))
    with pytest.raises(RuntimeError, match=r"RESHAPE.*cannot take the shape \[5, 5\]"):
        interpreter.invoke()
    interpreter.set_tensor(shape, np.array([2, 6], np.int32))
    interpreter.invoke()
    assert interpreter.get_tensor(z).shape == (6,)


def test_many_data_dependent_shapes():
    interpreter = ready(shape_from_data(), max_memory=4096)
    x, shape = (d["index"] for d in interpreter.get_input_details())
    interpreter.set_tensor(x, np.ones((2, 6), np.float32))
    for wanted in [(n, 12 // n) for n in (1, 2, 3, 4, 6, 12)] * 3:
        interpreter.set_tensor(shape, np.array(wanted, np.int32))
        interpreter.invoke()
    assert len(interpreter._main.cache._predecessors) <= 12
