"""Branches and bodies of loops that do not run: they need not take the shapes."""
import numpy as np
import pytest

import pylite
from pylite.schema.builder import ModelBuilder
from tests.tools.graphs import run


def vectors(m, names="xy"):
    """float32 tensors of any length."""
    return [m.tensor(name, (None,)) for name in names]


def indices(m, *numbers):
    return m.constant(f"n{len(m._current.tensors)}", np.array(numbers, np.int32))


def test_a_branch_that_is_not_taken_need_not_take_the_shapes():
    """y = x[x > 0], then y[:3] if it has so many elements, else y + y"""
    m = ModelBuilder()
    x, above, (at, some, y) = m.tensor("x", (6,)), m.tensor("above", (6,), "bool"), [
        m.tensor("at", (None, 1), "int64"), *vectors(m)]
    length, enough = m.tensor("length", (1,), "int32"), m.tensor("enough", (1,), "bool")
    m.operator("GREATER", [x, m.constant("zero", np.float32(0))], [above])
    m.operator("WHERE", [above], [at])
    m.operator("GATHER_ND", [x, at], [some])
    m.operator("SHAPE", [some], [length], out_type="int32")
    m.operator("GREATER_EQUAL", [length, indices(m, 3)], [enough])
    m.operator("IF", [enough, some], [y], then_subgraph_index=1, else_subgraph_index=2)
    m.inputs([x])
    m.outputs([y])
    for kind in ("SLICE", "ADD"):
        m.subgraph(kind)
        x, y = vectors(m)
        m.operator(kind, [x, indices(m, 0), indices(m, 3)] if kind == "SLICE" else [x, x], [y])
        m.inputs([x])
        m.outputs([y])
    for x in ([1, 2, 3, 4, -1, -1], [1, 2, -3, -4, -5, -6], [1, 2, 3, 4, 5, 6]):
        y, some = run(m.build(), [np.array(x, np.float32)])[1][0].tolist(), [n for n in x if n > 0]
        assert y == (some[:3] if len(some) > 2 else [2 * n for n in some])


@pytest.mark.parametrize("x", [3, 0])
def test_constants_that_fail_in_a_branch(x):
    """[6, 3, 2] // [x, 1, 1] where a constant 0 divides in the branch for x = 0."""
    m = ModelBuilder()
    n, y = m.tensor("n", (3,), "int32"), m.tensor("y", (3,), "int32")
    positive, all_positive = m.tensor("positive", (3,), "bool"), m.tensor("all positive", (), "bool")
    m.operator("GREATER", [n, indices(m, 0, 0, 0)], [positive])
    m.operator("REDUCE_ALL", [positive, indices(m, 0)], [all_positive], keep_dims=False)
    m.operator("IF", [all_positive, n], [y], then_subgraph_index=1, else_subgraph_index=2)
    m.inputs([n])
    m.outputs([y])
    for divisors in (None, (0, 1, 1)):
        m.subgraph("branch")
        n, y = m.tensor("n", (3,), "int32"), m.tensor("y", (3,), "int32")
        m.operator("FLOOR_DIV", [indices(m, 6, 3, 2), indices(m, *divisors) if divisors else n], [y])
        m.inputs([n])
        m.outputs([y])
    if x:
        assert run(m.build(), [np.array([x, 1, 1], np.int32)])[1][0].tolist() == [2, 3, 2]
    else:
        with pytest.raises(pylite.errors.PyliteError, match="FLOOR_DIV"):
            run(m.build(), [np.array([x, 1, 1], np.int32)])


@pytest.mark.parametrize("length", [1, 5])
def test_a_loop_that_ends_before_its_body_could_not_run(length):
    """while len(x) > 0: total += x[0]; x = x[1:]"""
    m = ModelBuilder()
    x, total, rest, y = m.tensor("x", (None,)), m.tensor("total", (1,)), m.tensor("rest", (None,)), m.tensor("y", (1,))
    m.operator("WHILE", [x, total], [rest, y], cond_subgraph_index=1, body_subgraph_index=2)
    m.inputs([x, total])
    m.outputs([y])
    m.subgraph("test")
    x, total, length_of, more = (m.tensor("x", (None,)), m.tensor("total", (1,)), m.tensor("length", (1,), "int32"),
                                 m.tensor("more", (1,), "bool"))
    m.operator("SHAPE", [x], [length_of], out_type="int32")
    m.operator("GREATER", [length_of, indices(m, 0)], [more])
    m.inputs([x, total])
    m.outputs([more])
    m.subgraph("body")
    x, total, first, rest, y = (m.tensor(name, shape) for name, shape in (
        ("x", (None,)), ("total", (1,)), ("first", (1,)), ("rest", (None,)), ("y", (1,))))
    m.operator("SLICE", [x, indices(m, 0), indices(m, 1)], [first])
    m.operator("SLICE", [x, indices(m, 1), indices(m, -1)], [rest])
    m.operator("ADD", [total, first], [y])
    m.inputs([x, total])
    m.outputs([rest, y])
    interpreter = pylite.Interpreter(model_content=m.build())
    interpreter.resize_tensor_input(0, (length,))
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, np.arange(1, length + 1, dtype=np.float32))
    interpreter.set_tensor(1, np.zeros(1, np.float32))
    interpreter.invoke()
    assert interpreter.get_tensor(interpreter.get_output_details()[0]["index"]) == length * (length + 1) // 2
