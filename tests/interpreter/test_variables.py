"""Variable tensors that operators write."""
import numpy as np
import pytest

import pylite
from pylite.schema.builder import ModelBuilder


@pytest.mark.parametrize("constant", [False, True])
def test_variables_that_operators_write(constant):
    """They have memory of their own: they are no alias, and no constant."""
    m = ModelBuilder()
    x, y, state = m.tensor("x", (2, 3)), m.tensor("y", (2, 3)), m.tensor("state", (3, 2), variable=True)
    numbers = np.arange(6, dtype=np.float32)
    operand = m.constant("numbers", numbers.reshape(2, 3)) if constant else y
    m.operator("ABS", [x], [y])
    m.operator("RESHAPE", [operand, m.constant("shape", np.array([3, 2], np.int32))], [state], new_shape=(3, 2))
    m.inputs([x])
    m.outputs([state])
    interpreter = pylite.Interpreter(model_content=m.build())
    interpreter.allocate_tensors()
    for _ in range(2):
        interpreter.set_tensor(x, numbers.reshape(2, 3))
        interpreter.invoke()
        np.testing.assert_array_equal(interpreter.get_tensor(state), numbers.reshape(3, 2))


@pytest.mark.parametrize("starts", [1, 2])
def test_a_state_that_begins_with_a_constant(starts, tmp_path):
    """In LSTMs with weights of float16, a DEQUANTIZE computes it, once."""
    m = ModelBuilder()
    x, y = m.tensor("x", (1, 2)), m.tensor("y", (1, 2))
    state, weights = (m.tensor("state", (1, 4), variable=True), m.constant("weights", np.ones((2, 2), np.float32)))
    first = m.constant("first", np.arange(4, dtype=np.float16).reshape(1, 4))
    m.operator("DEQUANTIZE", [first], [state])
    m.operator("SVDF", [x, weights, m.constant("time", np.ones((2, 2), np.float32)), -1, state], [y], rank=1)
    m.inputs([x])
    m.outputs([y])
    for _ in range(starts):     # the second one finds no plan
        interpreter = pylite.Interpreter(model_content=m.build(), cache_dir=tmp_path)
        interpreter.allocate_tensors()
        interpreter.invoke()
    interpreter.reset_all_variables()
    for _ in range(2):
        np.testing.assert_array_equal(interpreter.get_tensor(state), [[0, 1, 2, 3]])
        interpreter.set_tensor(x, np.ones((1, 2), np.float32))
        interpreter.invoke()
        np.testing.assert_array_equal(interpreter.get_tensor(y), [[3, 5]])
        np.testing.assert_array_equal(interpreter.get_tensor(state), [[1, 2, 3, 2]])
        interpreter.invoke()
        np.testing.assert_array_equal(interpreter.get_tensor(y), [[4, 4]])
        interpreter.reset_all_variables()


@pytest.mark.parametrize(("op", "dtype", "later"), [("DEQUANTIZE", np.float16, [4, 4]), ("ABS", np.float32, [3, 5])])
def test_readers_of_a_state_that_an_operator_writes(op, dtype, later, tmp_path):
    """They see the state, not what the operator wrote; all but DEQUANTIZE write it at each run, as tf.lite's do."""
    m = ModelBuilder()
    x, y, z = m.tensor("x", (1, 2)), m.tensor("y", (1, 2)), m.tensor("z", (1, 4))
    state, weights = m.tensor("state", (1, 4), variable=True), m.constant("weights", np.ones((2, 2), np.float32))
    m.operator(op, [m.constant("first", np.arange(4, dtype=dtype).reshape(1, 4))], [state])
    m.operator("SVDF", [x, weights, m.constant("time", np.ones((2, 2), np.float32)), -1, state], [y], rank=1)
    m.operator("NEG", [state], [z])
    m.inputs([x])
    m.outputs([y, z])
    for _ in range(2):
        interpreter = pylite.Interpreter(model_content=m.build(), cache_dir=tmp_path)
        interpreter.allocate_tensors()
        interpreter.set_tensor(x, np.ones((1, 2), np.float32))
        interpreter.invoke()
        np.testing.assert_array_equal(interpreter.get_tensor(y), [[3, 5]])
        np.testing.assert_array_equal(interpreter.get_tensor(z), [[-1, -2, -3, -2]])
        interpreter.invoke()
        np.testing.assert_array_equal(interpreter.get_tensor(y), [later])
        np.testing.assert_array_equal(interpreter.get_tensor(z), -interpreter.get_tensor(state))


def test_a_plan_of_a_state_of_zeros_that_a_constant_sets(tmp_path):
    """Zeros are not what a state of int8 begins with: its zero point is."""
    m = ModelBuilder()
    state = m.tensor("state", (2,), "int8", scale=0.1, zero_point=5, variable=True)
    x, y = (m.tensor(name, (2,), "int8", scale=0.1, zero_point=5) for name in "xy")
    m.operator("QUANTIZE", [m.constant("first", np.full(2, -0.5, np.float32))], [state])
    m.operator("ADD", [x, state], [y])
    m.inputs([x])
    m.outputs([y, state])
    for _ in range(2):
        interpreter = pylite.Interpreter(model_content=m.build(), cache_dir=tmp_path)
        interpreter.allocate_tensors()
        interpreter.set_tensor(x, np.full(2, 5, np.int8))
        interpreter.invoke()
        np.testing.assert_array_equal([interpreter.get_tensor(i) for i in (y, state)], [[0, 0], [0, 0]])
