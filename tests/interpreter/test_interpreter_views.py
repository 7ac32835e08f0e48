"""Views of tensors: interpreter.tensor(index)(), and the references that forbid invoke()."""
import gc

import numpy as np
import pytest

from tests.tools.interpreters import X, ready


def test_views_are_writable_and_live():
    interpreter = ready()
    into, out = interpreter.tensor(0), interpreter.tensor(2)
    into()[:] = X
    interpreter.invoke()
    np.testing.assert_array_equal(out(), X.reshape(3, 2))
    interpreter.set_tensor(0, X + 1)
    assert into()[1, 2] == 6
    assert out().shape == (3, 2)
    assert into().flags.c_contiguous and into().flags.writeable


def test_views_of_constants_are_read_only():
    view = ready().tensor(1)()
    assert view.tolist() == [3, 2] and not view.flags.writeable


@pytest.mark.parametrize("derive", [
    lambda v: v, lambda v: v[0], lambda v: v.T, lambda v: v.reshape(-1)[2:], lambda v: v.view(np.uint8), memoryview,
    lambda v: v[None][..., ::2].transpose(), lambda v: np.asarray(v), lambda v: [v],
    lambda v: np.frombuffer(v, np.int32)])
def test_references_to_a_view_forbid_invoke(derive):
    interpreter = ready()
    view = interpreter.tensor(0)()
    derived = derive(view)
    del view
    for call in (interpreter.invoke, interpreter.allocate_tensors, lambda: interpreter.resize_tensor_input(0, (2, 3))):
        with pytest.raises(RuntimeError, match=r"at least 1 reference to internal data .*Arrays of tensor 0 .'input'"):
            call()
    assert not interpreter._safe_to_run()
    interpreter.set_tensor(0, X)        # these two are allowed
    interpreter.get_tensor(0)
    del derived
    gc.collect()
    assert interpreter._safe_to_run()
    interpreter.invoke()


@pytest.mark.parametrize("derive", [
    lambda i: i.get_tensor(0), lambda i: i.tensor(0), lambda i: i.tensor(0)().copy(), lambda i: i.tensor(0)()[0, 0],
    lambda i: i.tensor(0)() + 1, lambda i: i.get_signature_runner, lambda i: i._interpreter, lambda i: i.invoke])
def test_other_references_do_not_forbid_invoke(derive):
    interpreter = ready()
    kept = derive(interpreter)
    interpreter.invoke()
    interpreter.resize_tensor_input(0, (2, 3))
    interpreter.allocate_tensors()
    assert kept is not None


def test_a_view_in_a_cycle_does_not_forbid_invoke():
    interpreter = ready()
    cycle = [interpreter.tensor(0)()]
    cycle.append(cycle)
    del cycle
    interpreter.invoke()


def test_a_view_outlives_its_interpreter():
    interpreter = ready()
    interpreter.set_tensor(0, X)
    view = interpreter.tensor(0)()
    del interpreter
    gc.collect()
    np.testing.assert_array_equal(view, X)
