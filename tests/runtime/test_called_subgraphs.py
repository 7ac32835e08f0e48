"""Subgraphs that others call: inputs named twice, outputs that nothing computes, plans of those that call others."""
import numpy as np
import pytest

import pylite
from pylite.compiled_model import CompiledModel
from pylite.schema.builder import ModelBuilder
from tests.tools.resources import peer

F32 = np.float32


def negating(m, twice=False, output=True):
    """An input, which may be named twice, its negation, and an output that nothing computes."""
    x, y, z = m.tensor("x", (None,)), m.tensor("y", (None,)), m.tensor("z", (None,))
    m.operator("NEG", [x], [y])
    m.inputs([x, x] if twice else [x])
    m.outputs([y, y] if output and twice else [y] if output else [y, z])
    return x, y, z


# ---- inputs that are named twice -------------------------------------------------------------------------------
def test_an_input_of_the_main_graph_twice():
    """A new shape was that of its first position only."""
    m = ModelBuilder()
    x, y, _ = negating(m, twice=True)
    litert, model = peer(), m.build()
    theirs = litert.Interpreter(model_content=model, experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF)
    ours = pylite.Interpreter(model_content=model)
    for size in (3, 2, 5, 3):
        for i in (ours, theirs):
            i.resize_tensor_input(x, [size])
            i.allocate_tensors()
            i.set_tensor(x, np.arange(size, dtype=F32))
            i.invoke()
        assert [d["shape"].tolist() for d in ours.get_input_details()] == [[size], [size]]
        np.testing.assert_array_equal(ours.get_tensor(y), theirs.get_tensor(y))


def test_an_input_of_a_called_subgraph_twice():
    """One tensor cannot have two shapes; the message was one of bytes."""
    m = ModelBuilder()
    q, a, b = m.tensor("q", (), "bool"), m.tensor("a", (None,)), m.tensor("b", (None,))
    results = [m.tensor(name, (None,)) for name in ("c", "d")]
    m.operator("IF", [q, a, b], results, then_subgraph_index=1, else_subgraph_index=2)
    m.inputs([q, a, b])
    m.outputs(results)
    for name in ("then", "else"):
        m.subgraph(name)
        negating(m, twice=True)
    interpreter = pylite.Interpreter(model_content=m.build())
    for first, second in ((2, 2), (3, 2), (3, 3), (2, 3), (4, 7), (7, 7)):
        interpreter.resize_tensor_input(a, [first])
        interpreter.resize_tensor_input(b, [second])
        if first == second:
            interpreter.allocate_tensors()
            interpreter.set_tensor(b, np.ones(second, F32))
            interpreter.invoke()
            assert interpreter.get_tensor(results[0]).tolist() == [-1] * first
        else:
            with pytest.raises(RuntimeError, match=rf"subgraph 1 \('then'\) is called with the shapes \[{first}\], "
                               rf"\[{second}\] for its inputs 0, 1, which are one tensor: 0 \('x'\)"):
                interpreter.allocate_tensors()


# ---- outputs that nothing computes -----------------------------------------------------------------------------
def test_an_output_of_the_main_graph_that_nothing_computes():
    """As in tf.lite, it has no data; it had what lay in the arena."""
    m = ModelBuilder()
    x, y, z = negating(m, output=False)
    model = m.build()
    interpreter = pylite.Interpreter(model_content=model)
    for size in (2, 4, 3, 5):
        interpreter.resize_tensor_input(x, [size])
        interpreter.allocate_tensors()
        interpreter.set_tensor(x, np.ones(size, F32))
        interpreter.invoke()
        assert interpreter.get_tensor(y).tolist() == [-1] * size
        with pytest.raises(ValueError, match=r"Tensor data is null: tensor 2 'z'.* since no operator computes it"):
            interpreter.get_tensor(z)
    compiled = CompiledModel.from_buffer(model)
    inputs, outputs = compiled.create_input_buffers(0), compiled.create_output_buffers(0)
    inputs[0].write(np.ones(1, F32))
    compiled.run_by_index(0, inputs, outputs)
    assert outputs[0].read(1, F32).tolist() == [-1]


@pytest.mark.parametrize("shape", [(4,), (None,)])
def test_an_output_of_a_called_subgraph_that_nothing_computes(shape):
    m = ModelBuilder()
    x, y, z = (m.tensor(name, shape) for name in "xyz")
    m.operator("STABLEHLO_COMPOSITE", [x], [y, z], name="called", decomposition_subgraph_index=1)
    m.inputs([x])
    m.outputs([y])
    m.subgraph("called")
    negating(m, output=False)
    interpreter = pylite.Interpreter(model_content=m.build())
    with pytest.raises(RuntimeError, match=r"subgraph 1 \('called'\).*output 2 \('z'\), and no operator computes it"):
        interpreter.allocate_tensors()


# ---- plans -----------------------------------------------------------------------------------------------------
def test_a_plan_of_a_subgraph_that_calls_one_that_calls_another(tmp_path):
    """A loop whose variables change shape has bound the inner ones before: allocate_tensors() raised AttributeError."""
    def loop(m, *names):
        found = [m.tensor("n", (), "int32"), *(m.tensor(name, (None,)) for name in names)]
        m.inputs(found)
        return found

    def composite(m, x, index):
        y = m.tensor("y", (None,))
        m.operator("STABLEHLO_COMPOSITE", [x], [y], name="called", decomposition_subgraph_index=index)
        return y

    m = ModelBuilder()
    given, results = loop(m, "a", "b"), [m.tensor("m", (), "int32"), *(m.tensor(name, (None,)) for name in "cd")]
    h = m.tensor("h", (), "resource")
    m.operator("VAR_HANDLE", [], [h], shared_name="v", container="")
    m.operator("ASSIGN_VARIABLE", [h, given[0]], [])
    m.operator("WHILE", given, results, cond_subgraph_index=1, body_subgraph_index=2)
    m.outputs(results)
    m.subgraph("test")
    n, *_ = loop(m, "a", "b")
    go_on = m.tensor("go on", (), "bool")
    m.operator("LESS", [n, m.constant("three", np.int32(3))], [go_on])
    m.outputs([go_on])
    m.subgraph("swap")
    n, a, b = loop(m, "a", "b")
    more = m.tensor("more", (), "int32")
    m.operator("ADD", [n, m.constant("one", np.int32(1))], [more])
    m.outputs([more, b, composite(m, a, 3)])
    m.subgraph("outer")
    x = m.tensor("x", (None,))
    m.inputs([x])
    m.outputs([composite(m, x, 4)])
    m.subgraph("inner")
    negating(m)
    model = m.build()
    for _ in range(2):
        interpreter = pylite.Interpreter(model_content=model, cache_dir=tmp_path)
        for first, second in ((3, 2), (2, 2), (2, 3), (3, 3)):
            interpreter.resize_tensor_input(given[1], [first])
            interpreter.resize_tensor_input(given[2], [second])
            interpreter.allocate_tensors()
            interpreter.set_tensor(given[0], np.int32(0))
            interpreter.set_tensor(given[1], np.ones(first, F32))
            interpreter.set_tensor(given[2], np.full(second, 2, F32))
            interpreter.invoke()
            assert interpreter.get_tensor(results[1]).tolist() == [-2] * second
            assert interpreter.get_tensor(results[2]).tolist() == [1] * first


# ---- variable tensors ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("operator", ["IF", "STABLEHLO_COMPOSITE"])
def test_variable_tensors_keep_their_contents_between_runs(operator):
    """As docs/drop-in.md says; tf.lite resets them."""
    m = ModelBuilder()
    x, y = m.tensor("x", (1, 1)), m.tensor("y", (1, 1))
    if operator == "IF":
        m.operator("IF", [m.constant("true", np.bool_(True)), x], [y], then_subgraph_index=1, else_subgraph_index=1)
    else:
        m.operator(operator, [x], [y], name="called", decomposition_subgraph_index=1)
    m.inputs([x])
    m.outputs([y])
    m.subgraph("called")
    x, state, y = m.tensor("x", (1, 1)), m.tensor("state", (1, 1), variable=True), m.tensor("y", (1, 1))
    one, bias = m.constant("one", np.ones((1, 1), F32)), m.constant("bias", np.zeros(1, F32))
    m.operator("RNN", [x, one, one, bias, state], [y], fused_activation_function="NONE")
    m.inputs([x])
    m.outputs([y])
    interpreter = pylite.Interpreter(model_content=m.build())
    interpreter.allocate_tensors()
    for expected in (1, 2, 3):
        interpreter.set_tensor(0, np.ones((1, 1), F32))
        interpreter.invoke()
        assert interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).item() == expected


@pytest.mark.parametrize("nested", [False, True])
def test_a_subgraph_called_with_constants_and_without(nested):
    """while i < 1: a = a - b, from (x, x) and from (x, [2]); nested: called by a subgraph that is called twice."""
    m = ModelBuilder()

    def number(value):
        return m.constant(f"n{len(m._current.tensors)}", np.array(value, np.int32))

    def vectors(*names):
        return [m.tensor(name, (None,), "int32") for name in names]

    def loops(x):
        results = []
        for b in (x, number([2])):
            count, variables = m.tensor("count", (), "int32"), vectors("a", "b")
            m.operator("WHILE", [number(0), x, b], [count, *variables], cond_subgraph_index=1, body_subgraph_index=2)
            results.append(variables[0])
        return results
    x, = vectors("x")
    m.inputs([x])
    if nested:
        first, results = m.tensor("first", (1,), "int32"), []
        m.operator("SLICE", [x, number([0]), number([1])], [first])
        for operand in (first, x):
            results += vectors("y", "z")
            m.operator("IF", [m.constant(f"true{operand}", np.array(True)), operand], results[-2:],
                       then_subgraph_index=3, else_subgraph_index=3)
        m.outputs(results)
    else:
        m.outputs(loops(x))
    for name in ("test", "body"):
        m.subgraph(name)
        count, (a, b) = m.tensor("count", (), "int32"), vectors("a", "b")
        m.inputs([count, a, b])
        if name == "test":
            y = m.tensor("y", (), "bool")
            m.operator("LESS", [count, number(1)], [y])
            m.outputs([y])
        else:
            more, (difference,) = m.tensor("more", (), "int32"), vectors("difference")
            m.operator("ADD", [count, number(1)], [more])
            m.operator("SUB", [a, b], [difference])
            m.outputs([more, difference, b])
    if nested:
        m.subgraph("loops")
        x, = vectors("x")
        m.inputs([x])
        m.outputs(loops(x))
    interpreter = pylite.Interpreter(model_content=m.build())
    for length in (1, 3, 2, 5):
        interpreter.resize_tensor_input(0, (length,))
        interpreter.allocate_tensors()
        x = np.arange(1, length + 1, dtype=np.int32)
        interpreter.set_tensor(0, x)
        interpreter.invoke()
        results = [interpreter.get_tensor(detail["index"]).tolist() for detail in interpreter.get_output_details()]
        assert results == [[0], [-1]] * nested + [[0] * length, (x - 2).tolist()], length
