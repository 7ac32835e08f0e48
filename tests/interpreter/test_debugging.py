"""Parts of a graph run from given tensors; constants are replaced in memory."""
import os
import pickle
import weakref

import numpy as np
import pytest

import pylite
from pylite.errors import PyliteError, TensorError
from pylite.media import models
from pylite.schema.builder import ModelBuilder
from tests.tools import small_models


def chain():
    """y = ((x + 1) * 2 - 3) as three nodes."""
    m = ModelBuilder()
    x, a, b, y = (m.tensor(name, (4,)) for name in "xaby")
    m.operator("ADD", [x, m.constant("one", np.ones(4, np.float32))], [a])
    m.operator("MUL", [a, m.constant("two", np.full(4, 2, np.float32))], [b])
    m.operator("SUB", [b, m.constant("three", np.full(4, 3, np.float32))], [y])
    m.inputs([x])
    m.outputs([y])
    return m.build()


def ready(**options):
    interpreter = pylite.Interpreter(model_content=chain(), **options)
    interpreter.allocate_tensors()
    return interpreter


def index(interpreter, name):
    return next(d["index"] for d in interpreter.get_tensor_details() if d["name"] == name)


@pytest.mark.filterwarnings("ignore:experimental_preserve")
def test_nodes_run_from_a_tensor_that_was_set():
    interpreter = ready(experimental_preserve_all_tensors=True)
    interpreter.invoke_nodes(0)
    assert interpreter.get_tensor(index(interpreter, "y")).tolist() == [-1] * 4
    interpreter.set_tensor(index(interpreter, "b"), np.full(4, 10, np.float32))
    interpreter.invoke_nodes(2)
    assert interpreter.get_tensor(index(interpreter, "y")).tolist() == [7] * 4
    interpreter.set_tensor(index(interpreter, "a"), np.full(4, 5, np.float32))
    interpreter.invoke_nodes(1, 1)
    assert interpreter.get_tensor(index(interpreter, "b")).tolist() == [10] * 4
    assert interpreter.get_tensor(index(interpreter, "y")).tolist() == [7] * 4
    for wrong in ((-1,), (3,), (2, 1), (0, 3)):
        with pytest.raises(ValueError, match=r"which has nodes 0 to 2"):
            interpreter.invoke_nodes(*wrong)


@pytest.mark.filterwarnings("ignore:experimental_preserve")
def test_nodes_run_although_another_file_has_lost_pages(tmp_path):
    path = tmp_path / "lost.tflite"
    path.write_bytes(models.path("digits").read_bytes())
    other = pylite.Interpreter(str(path), cache_dir="")
    os.truncate(path, 0)
    with pytest.raises(PyliteError):
        other.allocate_tensors()
    assert other._model.lost_pages
    interpreter = ready(experimental_preserve_all_tensors=True)
    interpreter.invoke_nodes(0)
    assert interpreter.get_tensor(index(interpreter, "y")).tolist() == [-1] * 4


@pytest.mark.filterwarnings("ignore:experimental_preserve")
def test_what_a_small_output_was_computed_from_can_be_read():
    """Logits before the last SOFTMAX, and embeddings, as in tf.lite: many programs read the output's index - 1."""
    plain, preserved = (pylite.Interpreter(models.path("digits"), experimental_preserve_all_tensors=p)
                        for p in (False, True))
    for interpreter in (plain, preserved):
        interpreter.allocate_tensors()
        interpreter.set_tensor(0, np.arange(64, dtype=np.int8).reshape(1, 8, 8, 1))
        interpreter.invoke()
    last = plain._get_ops_details()[-1]
    assert last["op_name"] == "SOFTMAX"
    logits = plain.get_tensor(last["inputs"][0])
    np.testing.assert_array_equal(logits, preserved.get_tensor(last["inputs"][0]))
    assert (logits != plain.get_tensor(last["outputs"][0])).any()


@pytest.mark.parametrize(("size", "apart"), [(1 << 14, True), ((1 << 14) + 1, False)])
def test_a_large_output_takes_over_the_memory_of_an_operand(size, apart):
    m = ModelBuilder()
    x, a, y = (m.tensor(name, (1, size)) for name in "xay")
    m.operator("SOFTMAX", [x], [a], beta=1.0)
    m.operator("SOFTMAX", [a], [y], beta=1.0)
    m.inputs([x])
    m.outputs([y])
    interpreter = pylite.Interpreter(model_content=m.build())
    interpreter.allocate_tensors()
    interpreter.invoke()
    if apart:
        np.testing.assert_allclose(interpreter.get_tensor(a), 1 / size)
    else:
        with pytest.raises(ValueError, match=r"'a'.*whose memory later nodes reuse"):
            interpreter.get_tensor(a)


def test_a_tensor_between_two_temporaries_is_not_read_after_it_is_overwritten():
    """ADD of integers to floats computes with temporaries: `a` takes over the first one's memory, and loses it."""
    m = ModelBuilder()
    x, y = (m.tensor(name, (1, 8), "int8", scale=0.5, zero_point=0) for name in "xy")
    a = m.tensor("a", (1, 8))
    m.operator("ADD", [x, x], [a])
    m.operator("ADD", [a, x], [y])
    m.inputs([x])
    m.outputs([y])
    interpreter = pylite.Interpreter(model_content=m.build())
    interpreter.allocate_tensors()
    interpreter.set_tensor(x, np.ones((1, 8), np.int8))
    interpreter.invoke()
    assert interpreter.get_tensor(y).tolist() == [[3] * 8]
    with pytest.raises(ValueError, match=r"'a'.*whose memory later nodes reuse"):
        interpreter.get_tensor(a)


def test_results_of_nodes_cannot_be_set():
    interpreter = ready()
    with pytest.raises(TensorError, match=r"result of node 1 MUL.*preserve_all_tensors.*invoke_nodes\(2\)"):
        interpreter.set_tensor(index(interpreter, "b"), np.zeros(4, np.float32))
    with pytest.raises(RuntimeError, match=r"experimental_preserve_all_tensors=True"):
        interpreter.invoke_nodes(0)
    with pytest.raises(RuntimeError, match=r"allocate_tensors\(\) first"):
        pylite.Interpreter(model_content=chain(), experimental_preserve_all_tensors=True,
                           experimental_op_resolver_type=pylite.OpResolverType.BUILTIN_REF).invoke_nodes(0)


def test_variables_can_be_set():
    interpreter = pylite.Interpreter(model_content=small_models.variable())
    interpreter.allocate_tensors()
    state = index(interpreter, "state")
    interpreter.set_tensor(state, np.ones((2, 3), np.float32))
    interpreter.invoke()
    assert interpreter.get_tensor(index(interpreter, "state_output")).sum() == 6


@pytest.mark.parametrize("by", ["name", "index"])
def test_constants_are_replaced(by):
    key = "two" if by == "name" else index(ready(), "two")
    interpreter = ready(overrides={key: np.arange(4, dtype=np.float32)})
    interpreter.invoke()
    assert interpreter.get_tensor(index(interpreter, "y")).tolist() == [-3, -2, -1, 0]
    assert interpreter.get_tensor(index(interpreter, "two")).tolist() == [0, 1, 2, 3]
    plain = ready()
    plain.invoke()
    assert plain.get_tensor(index(plain, "y")).tolist() == [-1] * 4


def test_a_pickled_interpreter_keeps_its_constants():
    interpreter = pickle.loads(pickle.dumps(ready(overrides={"two": np.zeros(4, np.float32)})))
    interpreter.invoke()
    assert interpreter.get_tensor(index(interpreter, "y")).tolist() == [-3] * 4


@pytest.mark.parametrize(("overrides", "text"), [
    ({"two": np.zeros(3, np.float32)}, r"takes float32 \[4\], not float32 \[3\]"),
    ({"two": np.zeros(4, complex)}, r"not complex128"), ({"nope": np.zeros(4)}, r"no constants are called 'nope'"),
    ({"two": np.full(4, 1e40)}, r"is float32, which does not hold all numbers from 1e\+40 to 1e\+40"),
    ({"a": np.zeros(4)}, r"is computed, not a constant"),
    ({"x": np.zeros(4)}, r"'x' is an input, not a constant; set_tensor\(\) fills it"),
    ({99: np.zeros(4)}, r"no constants are called 99"),
])
def test_wrong_overrides(overrides, text):
    with pytest.raises(TensorError, match=text):
        ready(overrides=overrides)


@pytest.mark.parametrize(("value", "good"), [
    ([1, -128, 127], True), (np.uint8([1, 2, 127]), True), ([1, 2, 128], False), (np.uint8([1, 2, 200]), False),
    (np.int64([0, 0, -1000]), False)])
def test_integers_that_the_type_holds(value, good):
    """Numbers of another type are taken if the constant's type holds them, and never wrapped."""
    m = ModelBuilder()
    x, y = m.tensor("x", (3,), "int8", scale=1.0), m.tensor("y", (3,), "int8", scale=1.0)
    m.operator("MAXIMUM", [x, m.constant("c", np.zeros(3, np.int8), scale=1.0)], [y])
    m.inputs([x])
    m.outputs([y])
    if good:
        interpreter = pylite.Interpreter(model_content=m.build(), overrides={"c": value})
        interpreter.allocate_tensors()
        assert interpreter.get_tensor(index(interpreter, "c")).tolist() == list(value)
    else:
        with pytest.raises(TensorError, match="'c' is int8, which does not hold all numbers from"):
            pylite.Interpreter(model_content=m.build(), overrides={"c": value})


def test_overrides_of_another_kind():
    with pytest.raises(TypeError, match=r"overrides is a dictionary.*not list"):
        ready(overrides=[np.zeros(4)])


def test_the_result_of_the_last_node_has_no_later_nodes_to_run():
    interpreter = pylite.Interpreter(models.path("digits"))
    interpreter.allocate_tensors()
    last = interpreter.get_output_details()[0]
    with pytest.raises(ValueError, match=r"computes it again\. No node comes after it: set the inputs of the model"):
        interpreter.set_tensor(last["index"], np.zeros(last["shape"], last["dtype"]))


def test_the_wrapper_keeps_its_interpreter():
    """`Interpreter(path)._interpreter.InputIndices()` in one expression; and no cycle keeps both."""
    assert pylite.Interpreter(models.path("digits"))._interpreter.InputIndices().tolist() == [0]
    interpreter = pylite.Interpreter(models.path("digits"))
    assert interpreter._interpreter.NumSubgraphs() == 1
    reference = weakref.ref(interpreter)
    del interpreter
    assert reference() is None
