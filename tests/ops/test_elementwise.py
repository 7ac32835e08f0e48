"""Shared parts of element-wise ops: broadcasting to rows, parameters, scales."""
import numpy as np
import pytest

from pylite import Interpreter
from pylite.ops.elementwise import LONG, SHORT, binary, flip, parameters
from pylite.schema.builder import ModelBuilder


def add(a_shape, b_shape, constant=None, dtype="float32", **quantization):
    """An interpreter of a + b, and the shape of the sum."""
    m = ModelBuilder()
    a = m.tensor("a", a_shape, dtype, **quantization)
    b = m.tensor("b", b_shape, dtype, **quantization) if constant is None else m.constant("b", constant)
    shape = np.broadcast_shapes(a_shape, b_shape)
    y = m.tensor("y", shape, dtype, **quantization)
    m.operator("ADD", [a, b], [y])
    m.inputs([a] if constant is not None else [a, b])
    m.outputs([y])
    return Interpreter(model_content=m.build())


@pytest.mark.parametrize("shapes", [((2, 3), (3,)), ((2, 1, 4), (3, 1)), ((), (5,)), ((1,), (2, 2)), ((0, 3), (1, 3)),
                                    ((2, 1, 3, 1, 2), (1, 4, 1, 5, 1)), ((7, 3), (7, 3))])
def test_broadcasting(shapes):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
    interpreter = add(*shapes)
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, a)
    interpreter.set_tensor(1, b)
    interpreter.invoke()
    np.testing.assert_array_equal(interpreter.get_tensor(2), a + b)


def test_short_constant_rows_are_repeated():
    b = np.arange(3, dtype=np.float32)
    interpreter = add((1000, 3), (3,), b)
    interpreter.allocate_tensors()
    call, = interpreter._main.current.lowered.calls
    rows, width = call.args[1]
    assert rows * width == 3000 and SHORT < width <= LONG
    a = np.random.default_rng(0).standard_normal((1000, 3)).astype(np.float32)
    interpreter.set_tensor(0, a)
    interpreter.invoke()
    np.testing.assert_array_equal(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]), a + b)


def test_an_operand_of_the_outputs_size_is_overwritten():
    interpreter = add((4, 1), (4, 3))
    interpreter.allocate_tensors()
    call, = interpreter._main.current.lowered.calls
    assert [value.name for value in call.inplace] == ["y", "b"]


def test_shapes_that_do_not_broadcast_are_refused():
    interpreter = add((2, 3), (1, 3))
    interpreter.resize_tensor_input(1, (2, 4))
    with pytest.raises(RuntimeError, match="node 0 ADD"):
        interpreter.allocate_tensors()


def test_integers_need_a_scale():
    with pytest.raises(RuntimeError, match="no scale; this op needs one above 0"):
        add((2,), (2,), dtype="int8").allocate_tensors()


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_functions_of_integers_need_a_scale(dtype):
    """Without one, a table would hold the same number everywhere."""
    m = ModelBuilder()
    x, y = m.tensor("x", (2,), dtype), m.tensor("y", (2,), dtype)
    m.operator("ELU" if dtype == "int8" else "EXP", [x], [y])
    m.inputs([x])
    m.outputs([y])
    with pytest.raises(RuntimeError, match=r"no scale; this op needs one above 0|needs? .*scale"):
        Interpreter(model_content=m.build()).allocate_tensors()


def test_parameters_out_of_range_are_refused():
    interpreter = add((2,), (2,))
    interpreter.allocate_tensors()
    node = interpreter._main.current.lowered.nodes[0]
    assert parameters(node, "2i", 1, 2) == np.array([1, 2], np.int32).tobytes()
    with pytest.raises(RuntimeError, match="a quantization parameter is out of range"):
        parameters(node, "i", 2**40)
    assert binary(node, "add_f32").kernel == "elementwise.Binary"


def test_flip():
    assert (flip("uint8"), flip("int8"), flip("int16")) == (128, 0, 0)
