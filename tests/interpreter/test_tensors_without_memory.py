"""Tensors that need no memory, or have none to look at: those without elements, and references to variables."""
import numpy as np
import pytest

import pylite
from pylite.errors import NotAllocatedError, TensorError
from pylite.schema.builder import ModelBuilder


def absolute(shape):
    m = ModelBuilder()
    x, y = m.tensor("x", shape), m.tensor("y", shape)
    m.operator("ABS", [x], [y])
    m.inputs([x])
    m.outputs([y])
    return pylite.Interpreter(model_content=m.build())


def test_tensors_without_elements_need_no_allocation():
    """As in tf.lite."""
    interpreter = absolute((0, 3))
    for index in 0, 1:
        array = interpreter.get_tensor(index)
        assert array.shape == (0, 3) and array.dtype == np.float32
    interpreter.set_tensor(0, np.zeros((0, 3), np.float32))
    with pytest.raises(TensorError, match="Got 1 but expected 0 for dimension 0"):
        interpreter.set_tensor(0, np.zeros((1, 3), np.float32))
    interpreter.allocate_tensors()
    interpreter.invoke()
    assert interpreter.get_tensor(1).shape == (0, 3)


def test_an_input_without_elements_until_it_is_resized():
    interpreter = absolute((0, 3))
    interpreter.resize_tensor_input(0, (2, 3))
    with pytest.raises(NotAllocatedError):
        interpreter.get_tensor(0)
    with pytest.raises(NotAllocatedError):
        interpreter.set_tensor(0, np.zeros((2, 3), np.float32))
    interpreter.allocate_tensors()
    interpreter.resize_tensor_input(0, (4, 0, 3))
    assert interpreter.get_tensor(0).shape == (4, 0, 3)


def test_a_reference_to_a_variable_is_an_object_as_its_details_say():
    m = ModelBuilder()
    handle, y = m.tensor("handle", (), "resource"), m.tensor("y", (2,))
    m.operator("VAR_HANDLE", [], [handle], shared_name="v", container="")
    m.operator("ASSIGN_VARIABLE", [handle, m.constant("two", np.array([2, 2], np.float32))], [])
    m.operator("READ_VARIABLE", [handle], [y])
    m.inputs([])
    m.outputs([y])
    interpreter = pylite.Interpreter(model_content=m.build())
    interpreter.allocate_tensors()
    interpreter.invoke()
    for _ in range(2):
        array = interpreter.get_tensor(handle)
        assert array.dtype == np.dtype(interpreter.get_tensor_details()[handle]["dtype"]) == object
        assert array.shape == () and array.item() is None
    with pytest.raises(TensorError, match=r"'handle'. holds no numbers but a reference, such as that of a variable"):
        interpreter.tensor(handle)()
    assert interpreter.get_tensor(y).tolist() == [2, 2]
