"""Models whose parts contradict each other: an error that names the tensor or the node, and no other exception."""
import numpy as np
import pytest

from pylite.errors import ModelError, OpError, ResizeError
from pylite.interpreter import Interpreter
from pylite.schema.builder import ModelBuilder


def with_constant_input(first):
    """BATCH_MATMUL of two inputs, of which the right one has contents in the file."""
    m = ModelBuilder()
    x, y = m.tensor("x", (2, 3), "float32"), m.tensor("y", (2, 2), "float32")
    w = m.constant("w", np.arange(6, dtype=np.float32).reshape(3, 2))
    m.operator("BATCH_MATMUL", [x, w], [y])
    m.inputs([x, w])
    m.outputs([y])
    return m.build(), w


def test_an_input_with_contents_keeps_its_shape():
    content, w = with_constant_input(0)
    interpreter = Interpreter(model_content=content)
    interpreter.resize_tensor_input(w, (3, 2))
    interpreter.allocate_tensors()
    with pytest.raises(ResizeError, match=r"Attempting to resize a fixed-size tensor: input .* \('w'\)"):
        interpreter.resize_tensor_input(w, (3, 1 << 20))
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, np.ones((2, 3), np.float32))
    interpreter.invoke()
    assert interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).tolist() == [[6, 9], [6, 9]]


def test_a_called_subgraph_whose_input_has_contents():
    m = ModelBuilder()
    c, x, y = m.tensor("c", (1,), "bool"), m.tensor("x", (4096,), "float32"), m.tensor("y", (4096,), "float32")
    m.operator("IF", [c, x], [y], then_subgraph_index=1, else_subgraph_index=1)
    m.inputs([c, x])
    m.outputs([y])
    m.subgraph("called")
    k, z = m.constant("k", np.ones(2, np.float32)), m.tensor("z", (2,), "float32")
    m.operator("ABS", [k], [z])
    m.inputs([k])
    m.outputs([z])
    interpreter = Interpreter(model_content=m.build())
    with pytest.raises(OpError, match=r"IF: tensor 'x' .* calls subgraph 1, whose input 0 is a constant"):
        interpreter.allocate_tensors()


@pytest.mark.parametrize("op", ["FLOOR_DIV", "FLOOR_MOD", "DIV"])
def test_a_variable_with_contents(op):
    """A divisor that is checked as a constant, and zero at run time as a variable."""
    m = ModelBuilder()
    x, y = m.tensor("x", (2,), "int32"), m.tensor("y", (2,), "int32")
    d = m.tensor("d", (2,), "int32", buffer=m.buffer(np.array([3, 3], np.int32).tobytes()), variable=True)
    m.operator(op, [x, d], [y])
    m.inputs([x])
    m.outputs([y])
    with pytest.raises(ModelError, match=r"tensor 2 'd': it is a variable and has contents"):
        Interpreter(model_content=m.build())
