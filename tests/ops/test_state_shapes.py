"""Resource variables that change their shape, when programs exist that were lowered for the shape before."""
import numpy as np
import pytest

import pylite
from pylite.compiled_model import CompiledModel
from pylite.schema.builder import ModelBuilder
from tests.ops.test_state import OPTIONS, handle
from tests.tools.resources import peer

START = np.array([1, -2, 3], np.float32)


def model(assign=None, loop=False):
    """Reads a variable, initially START, as y; x is assigned to it afterwards, or joined to it in a loop.

    assign: "here", or "if" the input q is true, or None; the signature "put" assigns it, too.
    """
    m = ModelBuilder()
    q, x = m.tensor("q", (), "bool"), m.tensor("x", (None,))
    m.operator("CALL_ONCE", [], [], init_subgraph_index=1)
    h, read, y = handle(m), m.tensor("read", ()), m.tensor("y", (None,))
    m.operator("READ_VARIABLE", [h], [read])
    m.operator("ABS", [read], [y])
    outputs = [y]
    if assign == "if":
        outputs.append(m.tensor("z", (None,)))
        m.operator("IF", [q, x], outputs[1:], then_subgraph_index=2, else_subgraph_index=3)
    elif assign == "here":
        m.operator("ASSIGN_VARIABLE", [h, x], [])
    if loop:
        outputs.append(m.tensor("n", (), "bool"))
        m.operator("WHILE", [q], outputs[-1:], cond_subgraph_index=4, body_subgraph_index=5)
    m.inputs([q, x])
    m.outputs(outputs)
    m.signature("main", {"q": q, "x": x}, {"y": y})
    m.subgraph("initialize")
    m.operator("ASSIGN_VARIABLE", [handle(m), m.constant("start", START)], [])
    m.subgraph("put")
    x, z = m.tensor("x", (None,)), m.tensor("z", (None,))
    m.operator("ASSIGN_VARIABLE", [handle(m), x], [])
    m.operator("NEG", [x], [z])
    m.inputs([x])
    m.outputs([z])
    m.signature("put", {"x": x}, {"z": z})
    m.subgraph("keep")
    x, z = m.tensor("x", (None,)), m.tensor("z", (None,))
    m.operator("ABS", [x], [z])
    m.inputs([x])
    m.outputs([z])
    m.subgraph("go on")
    n = m.tensor("n", (), "bool")
    m.inputs([n])
    m.outputs([n])
    m.subgraph("join")
    n, less = m.tensor("n", (), "bool"), m.tensor("less", (), "bool")
    h, old, new = handle(m), m.tensor("old", ()), m.tensor("new", (None,))
    m.operator("READ_VARIABLE", [h], [old])
    m.operator("CONCATENATION", [old, old], [new], axis=0)
    m.operator("ASSIGN_VARIABLE", [h, new], [])
    m.operator("LOGICAL_NOT", [n], [less])
    m.inputs([n])
    m.outputs([less])
    return m.build()


def runs(interpreter, cases):
    """The outputs of runs.  cases: q and the size of x, which is resized where that differs from the one before."""
    found, before = [], None
    q, x = [d["index"] for d in interpreter.get_input_details()]
    for flag, size in cases:
        if size != before:
            interpreter.resize_tensor_input(x, [size])
            interpreter.allocate_tensors()
        before = size
        interpreter.set_tensor(q, np.bool_(flag))
        interpreter.set_tensor(x, np.arange(size, dtype=np.float32))
        interpreter.invoke()
        found.append([interpreter.get_tensor(d["index"]).tolist() for d in interpreter.get_output_details()])
    return found


@pytest.mark.parametrize("options", [*OPTIONS, {"cache_dir": True}])
@pytest.mark.parametrize(("assign", "loop", "cases"), [
    ("if", False, [(False, 2), (True, 2), (True, 2), (False, 4), (True, 4), (False, 2), (True, 2), (False, 2)]),
    ("here", False, [(True, n) for n in (3, 2, 3, 2, 2, 5, 3, 3)]),
    (None, True, [(q, 1) for q in (False, True, False, True, True, False)]),
    ("here", True, [(q, n) for q, n in zip([False, True] * 4, [3, 3, 2, 2, 3, 3, 3, 3], strict=True)])])
def test_programs_of_other_shapes(assign, loop, cases, options, tmp_path):
    """Invoke() failed, as their reads expected the shape before."""
    if options.get("cache_dir"):
        options = {"cache_dir": tmp_path}
    data, litert = model(assign, loop), peer()
    theirs = litert.Interpreter(model_content=data, experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF)
    expected = runs(theirs, cases)
    for _ in range(2):
        assert runs(pylite.Interpreter(model_content=data, **options), cases) == expected


def test_another_signature_assigns_another_shape():
    """The inputs that were set before keep their contents."""
    interpreter = pylite.Interpreter(model_content=model("if"))
    assert runs(interpreter, [(False, 4)])[0][0] == [1, 2, 3]
    interpreter.set_tensor(1, np.arange(4, dtype=np.float32) + 1)
    interpreter.get_signature_runner("put")(x=np.ones(5, np.float32))
    interpreter.invoke()
    assert interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).tolist() == [1] * 5
    assert interpreter.get_tensor(interpreter.get_output_details()[1]["index"]).tolist() == [1, 2, 3, 4]


def test_a_compiled_model():
    compiled = CompiledModel.from_buffer(model())
    main, put = [(i, compiled.create_input_buffers(i), compiled.create_output_buffers(i)) for i in (0, 1)]
    compiled.run_by_index(*main)
    assert main[2][0].read(3, np.float32).tolist() == [1, 2, 3]
    put[1][0].write(np.full(1, -7, np.float32))
    compiled.run_by_index(*put)
    compiled.run_by_index(*main)
    assert main[2][0].read(1, np.float32).tolist() == [7]
