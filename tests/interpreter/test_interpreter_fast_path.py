"""The fast paths of set_tensor(), invoke() and get_tensor() behave like the methods in Python."""
import inspect
import pickle
from unittest import mock

import numpy as np
import pytest

import pylite
from tests.tools import small_models
from tests.tools.interpreters import X, ready, run


def test_set_tensor_takes_arrays_of_any_layout():
    interpreter = ready()
    for value in (X.T.copy().T, X.astype(">f4"), np.broadcast_to(np.float32(3), (2, 3)), X[::-1, ::-1],
                  np.ma.masked_array(X), X.view(np.recarray)):
        np.testing.assert_array_equal(run(interpreter, value), np.asarray(value).reshape(3, 2))
    for index in (np.int64(0), np.array(0)):
        interpreter.set_tensor(index, X)
        np.testing.assert_array_equal(interpreter.get_tensor(index), X)
    integers = ready(small_models.reshape("int64"))
    integers.set_tensor(0, [[1, 2, 3], [4, 5, 6]])
    assert integers.get_tensor(0).tolist() == [[1, 2, 3], [4, 5, 6]]


def test_the_fast_path_takes_the_same_arrays():
    """Arrays of the tensor's type and shape take the fast path; all others go through the checks."""
    i = ready()
    x, y = i.get_input_details()[0]["index"], i.get_output_details()[0]["index"]
    numbers = np.arange(12, dtype=np.float32)
    misaligned = np.frombuffer(bytes(1) + X.tobytes(), np.uint8)[1:].view(np.float32).reshape(2, 3)
    for _ in range(2):      # the second call takes the fast path
        for value in (X, X + 1, X.T.copy().T, numbers.reshape(2, 6)[:, ::2], numbers.reshape(4, 3)[::-2], misaligned,
                      X.view(np.recarray), np.broadcast_to(np.float32(3), (2, 3)), X.astype(">f4")):
            i.set_tensor(x, value)
            i.invoke()
            first, second = i.get_tensor(y), i.get_tensor(y)
            np.testing.assert_array_equal(first, np.array(value).reshape(3, 2))
            first[...] = 0      # a copy, not the tensor
            np.testing.assert_array_equal(second, i.get_tensor(y))
            assert second.flags.owndata and second.flags.writeable and second.flags.aligned
        for value in (X.T, X.reshape(6), X[:, :2], X.view(np.int32), X.astype(np.float64), X.view("V4"), X[:0]):
            with pytest.raises(ValueError):
                i.set_tensor(x, value)


def test_the_methods_of_the_fast_path():
    i = ready()
    assert list(inspect.signature(i.get_tensor).parameters) == ["tensor_index", "subgraph_index"]
    assert list(inspect.signature(i.set_tensor).parameters) == ["tensor_index", "value"]
    assert str(inspect.signature(i.invoke)) == "()"
    assert all(len(m.__doc__) > 20 for m in (i.get_tensor, i.set_tensor, i.invoke))
    for _ in range(2):
        assert i.set_tensor(tensor_index=np.int64(0), value=X) is None
        assert i.set_tensor(0, value=X) is None and i.invoke() is None
        np.testing.assert_array_equal(i.get_tensor(0), i.get_tensor(tensor_index=0, subgraph_index=0))
        np.testing.assert_array_equal(i.get_tensor(True), i.get_tensor(1, 0))
        for wrong in (lambda: i.get_tensor(), lambda: i.get_tensor(0, 0, 0), lambda: i.get_tensor(0, index=0),
                      lambda: i.set_tensor(0), lambda: i.invoke(0), lambda: i.get_tensor([]), lambda: i.get_tensor("0"),
                      lambda: i.set_tensor({}, X), lambda: pylite.Interpreter.invoke(3)):
            with pytest.raises(TypeError):
                wrong()
        with pytest.raises(ValueError):
            i.get_tensor(99)
    assert pickle.loads(pickle.dumps(i.get_tensor))(0).shape == (2, 3)
    with pytest.raises(AttributeError):
        pylite.Interpreter.__new__(pylite.Interpreter).invoke()

    class Counting(pylite.Interpreter):
        count = 0

        def invoke(self):
            self.count += 1
            super().invoke()

    counting = Counting(model_content=small_models.reshape())
    counting.allocate_tensors()
    run(counting)
    assert counting.count == 1
    with mock.patch.object(pylite.Interpreter, "invoke") as invoke:
        i.invoke()
    assert invoke.called
