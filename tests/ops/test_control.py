"""Ops that call subgraphs: IF, WHILE, STABLEHLO_COMPOSITE, STABLEHLO_CASE, also nested."""
import signal

import numpy as np
import pytest

import pylite
from pylite import DelegateFlags, PythonDelegate
from pylite.schema.builder import ModelBuilder
from tests.tools.oneop import differential


def counter(m):
    """A subgraph (n, x, ...) -> n != 0."""
    index = m.subgraph("test")
    n, x, y = m.tensor("n", (1,), "int32"), m.tensor("x", (2,)), m.tensor("go on", (1,), "bool")
    m.operator("CAST", [n], [y], in_data_type="int32", out_data_type="bool")
    m.inputs([n, x])
    m.outputs([y])
    return index


def less_one(m, n):
    fewer = m.tensor("fewer", (1,), "int32")
    m.operator("SUB", [n, m.constant("one", np.array([1], np.int32))], [fewer])
    return fewer


def body(m, grow=False, swap=False):
    """A subgraph (n, x) -> (n - 1, x + x or concat(x, x))."""
    index = m.subgraph("body")
    n, x, y = m.tensor("n", (1,), "int32"), m.tensor("x", (2,)), m.tensor("y", (2,))
    fewer = less_one(m, n)
    if grow:
        m.operator("CONCATENATION", [x, x], [y], axis=0)
    else:
        m.operator("ADD", [x, m.constant("c", np.array([1, -3], np.float32))], [y])
    m.inputs([n, x])
    m.outputs([fewer, y])
    return index


def start(m, first="int32"):
    n, x = m.tensor("n", (1,), first), m.tensor("x", (2,))
    m.inputs([n, x])
    return n, x, m.tensor("y", (2,)), m.tensor("z", (2,))


def finish(m, y, z, *more):
    m.operator("ADD", [y, y], [z])
    m.outputs([z, y, *more])


@differential("float32", count=6)
def test_while(m, rng, dtype):
    n, x, y, z = start(m)
    left = m.tensor("left", (1,), "int32")
    m.operator("WHILE", [n, x], [left, y], cond_subgraph_index=1, body_subgraph_index=2)
    finish(m, y, z, left)
    counter(m)
    body(m)
    return [rng.integers(0, 6, 1).astype(np.int32), rng.standard_normal(2).astype(np.float32)]


@differential("float32", count=4)
def test_while_with_a_variable_that_is_only_written(m, rng, dtype):
    n, x, y, z = start(m)
    left = m.tensor("left", (1,), "int32")
    m.operator("WHILE", [n, x], [left, y], cond_subgraph_index=1, body_subgraph_index=2)
    finish(m, y, z, left)
    counter(m)
    m.subgraph("body")
    n, x, y = m.tensor("n", (1,), "int32"), m.tensor("x", (2,)), m.tensor("y", (2,))
    a, b = m.constant("a", np.array([1, 2], np.float32)), m.constant("b", np.array([3, 4], np.float32))
    m.operator("ADD", [a, b], [y])
    m.inputs([n, x])
    m.outputs([less_one(m, n), y])
    return [rng.integers(0, 3, 1).astype(np.int32), rng.standard_normal(2).astype(np.float32)]


@differential("float32", count=6)
def test_while_that_grows(m, rng, dtype):
    n, x, y, z = start(m)
    left = m.tensor("left", (1,), "int32")
    m.operator("WHILE", [n, x], [left, y], cond_subgraph_index=1, body_subgraph_index=2)
    finish(m, y, z, left)
    counter(m)
    body(m, grow=True)
    return [rng.integers(0, 5, 1).astype(np.int32), rng.standard_normal(2).astype(np.float32)]


@differential("float32", count=4)
def test_while_in_while(m, rng, dtype):
    """Each iteration of the outer loop runs as many iterations of the inner one as remain."""
    n, x, y, z = start(m)
    left = m.tensor("left", (1,), "int32")
    m.operator("WHILE", [n, x], [left, y], cond_subgraph_index=3, body_subgraph_index=4)
    finish(m, y, z, left)
    counter(m)
    body(m, grow=bool(rng.integers(2)))
    counter(m)          # in the peer, two loops cannot call the same subgraph
    m.subgraph("outer")
    n, x, y = m.tensor("n", (1,), "int32"), m.tensor("x", (2,)), m.tensor("y", (2,))
    fewer = m.tensor("fewer", (1,), "int32")
    m.operator("WHILE", [n, x], [fewer, y], cond_subgraph_index=1, body_subgraph_index=2)
    m.inputs([n, x])
    m.outputs([less_one(m, n), y])
    return [rng.integers(0, 4, 1).astype(np.int32), rng.standard_normal(2).astype(np.float32)]


def branch(m, name, kind):
    """A subgraph (x,) -> (y,); `kind` determines the function and y's shape."""
    index = m.subgraph(name)
    x, y = m.tensor("x", (2,)), m.tensor("y", (2,))
    m.inputs([x])
    m.outputs([y])
    if kind == "add":
        m.operator("ADD", [x, x], [y])
    elif kind == "join":
        m.operator("CONCATENATION", [x, x, x], [y], axis=0)
    elif kind == "constant":
        m.outputs([m.constant("c", np.array([5, 6], np.float32))])
    elif kind == "nothing":
        m.outputs([x])
    return index


@differential("float32", count=12)
def test_if(m, rng, dtype):
    c, x, y, z = start(m, "bool")
    m.operator("IF", [c, x], [y], then_subgraph_index=1, else_subgraph_index=2)
    finish(m, y, z)
    for name in ("then", "else"):
        branch(m, name, str(rng.choice(["add", "join", "constant", "nothing"])))
    return [rng.integers(0, 2, 1).astype(bool), rng.standard_normal(2).astype(np.float32)]


@differential("float32", count=6)
def test_if_in_while(m, rng, dtype):
    n, x, y, z = start(m)
    left = m.tensor("left", (1,), "int32")
    m.operator("WHILE", [n, x], [left, y], cond_subgraph_index=1, body_subgraph_index=4)
    finish(m, y, z, left)
    counter(m)
    branch(m, "then", "add")
    branch(m, "else", str(rng.choice(["join", "nothing"])))
    m.subgraph("body")
    n, x, c, y = m.tensor("n", (1,), "int32"), m.tensor("x", (2,)), m.tensor("c", (1,), "bool"), m.tensor("y", (2,))
    fewer = less_one(m, n)
    m.operator("CAST", [fewer], [c], in_data_type="int32", out_data_type="bool")
    m.operator("IF", [c, x], [y], then_subgraph_index=2, else_subgraph_index=3)
    m.inputs([n, x])
    m.outputs([fewer, y])
    return [rng.integers(0, 5, 1).astype(np.int32), rng.standard_normal(2).astype(np.float32)]


@differential("float32", count=4)
def test_composite(m, rng, dtype):
    _, x, y, z = start(m)
    m.inputs([x])
    m.operator("STABLEHLO_COMPOSITE", [x], [y], name="own.thing", decomposition_subgraph_index=1,
               composite_attributes=np.array([0, 0, 1, 0, 0, 36, 1], np.uint8))      # an empty FlexBuffers map
    finish(m, y, z)
    branch(m, "decomposition", str(rng.choice(["add", "join", "nothing"])))
    return [rng.standard_normal(2).astype(np.float32)]


@differential("STABLEHLO_COMPOSITE", "IF", "WHILE", count=3)
def test_constants_are_handed_in(m, rng, name):
    """The weights of a layer come from the caller, and differ between two calls."""
    n, x, y, z = start(m, "int32" if name == "WHILE" else "bool")
    weights = [m.constant(f"w{i}", rng.standard_normal((2, 2)).astype(np.float32)) for i in range(2)]
    for k, (w, a, b) in enumerate(zip(weights, (x, y), (y, z), strict=True)):
        if name == "IF":
            m.operator(name, [n, a, w], [b], then_subgraph_index=1, else_subgraph_index=2)
        elif name == "WHILE":
            rest = m.tensor(f"n{k}", (1,), "int32"), m.tensor(f"same{k}", (2, 2))
            m.operator(name, [n, a, w], [rest[0], b, rest[1]], cond_subgraph_index=2, body_subgraph_index=1)
        else:
            m.operator(name, [a, w], [b], name="layer", decomposition_subgraph_index=1,
                       composite_attributes=np.array([0, 0, 1, 0, 0, 36, 1], np.uint8))
    m.outputs([z, y])
    m.inputs([x] if name == "STABLEHLO_COMPOSITE" else [n, x])

    def operands(*first):
        inputs = [*first, m.tensor("x", (2,)), m.tensor("w", (2, 2))]
        m.inputs(inputs)
        return inputs
    m.subgraph("layer")
    *first, x, w = operands(*([m.tensor("n", (1,), "int32")] if name == "WHILE" else []))
    row, y, flat = m.tensor("row", (1, 2)), m.tensor("y", (1, 2)), m.tensor("flat", (2,))
    m.operator("RESHAPE", [x, m.constant("s", np.array([1, 2], np.int32))], [row])
    m.operator("FULLY_CONNECTED", [row, w, None], [y])
    m.operator("RESHAPE", [y, m.constant("s", np.array([2], np.int32))], [flat])
    m.outputs([less_one(m, *first), flat, w] if first else [flat])
    m.subgraph("other")
    if first:
        n, *_ = operands(m.tensor("n", (1,), "int32"))
        go_on = m.tensor("go on", (1,), "bool")
        m.operator("CAST", [n], [go_on], in_data_type="int32", out_data_type="bool")
        m.outputs([go_on])
    else:
        m.outputs([operands()[0]])
    x = rng.standard_normal(2).astype(np.float32)
    if name == "STABLEHLO_COMPOSITE":
        return [x]
    return [rng.integers(0, 3, 1).astype(np.int32) if first else rng.integers(0, 2, 1).astype(bool), x]


def run(model, *inputs, **options):
    interpreter = pylite.Interpreter(model_content=model, **options)
    interpreter.allocate_tensors()
    for detail, value in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    return [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]


@pytest.mark.parametrize(("which", "want"), [(0, [2, 4]), (1, [1, 2]), (2, [5, 6]), (7, [5, 6]), (-1, [5, 6])])
@pytest.mark.parametrize("options", [{}, {"guard_bands": True}])
def test_case(which, want, options):
    m = ModelBuilder()
    n, x, y, _ = start(m)
    m.operator("STABLEHLO_CASE", [n, x], [y], branch_subgraph_indices=[1, 2, 3])
    m.outputs([y])
    for kind in ("add", "nothing", "constant"):
        branch(m, kind, kind)
    y, = run(m.build(), np.array([which], np.int32), np.array([1, 2], np.float32), **options)
    assert y.tolist() == want


@pytest.mark.parametrize("options", [{}, {"guard_bands": True}])
def test_loop_variables_that_are_permuted(options):
    """(n, a, b, c) -> (n - 1, b, c, a)"""
    m = ModelBuilder()
    names = "abc"
    n, values = m.tensor("n", (1,), "int32"), [m.tensor(name, (2,)) for name in names]
    left, outputs = m.tensor("left", (1,), "int32"), [m.tensor("to " + name, (2,)) for name in names]
    m.operator("WHILE", [n, *values], [left, *outputs], cond_subgraph_index=1, body_subgraph_index=2)
    m.inputs([n, *values])
    m.outputs(outputs)
    m.subgraph("test")
    n, values, y = m.tensor("n", (1,), "int32"), [m.tensor(name, (2,)) for name in names], m.tensor("y", (1,), "bool")
    m.operator("CAST", [n], [y], in_data_type="int32", out_data_type="bool")
    m.inputs([n, *values])
    m.outputs([y])
    m.subgraph("body")
    n, values = m.tensor("n", (1,), "int32"), [m.tensor(name, (2,)) for name in names]
    m.inputs([n, *values])
    m.outputs([less_one(m, n), *values[1:], values[0]])
    inputs = [np.array([i, -i], np.float32) for i in range(3)]
    got = run(m.build(), np.array([4], np.int32), *inputs, **options)
    np.testing.assert_array_equal(got, np.roll(inputs, -4, 0))


def loop_of(make_body):
    m = ModelBuilder()
    n, x, y, _ = start(m)
    left = m.tensor("left", (1,), "int32")
    m.operator("WHILE", [n, x], [left, y], cond_subgraph_index=1, body_subgraph_index=2)
    m.outputs([y])
    counter(m)
    make_body(m)
    return m


def test_a_failure_in_a_subgraph_names_all_calling_nodes():
    def gather_out_of_range(m):
        m.subgraph("body")
        n, x, y = m.tensor("n", (1,), "int32"), m.tensor("x", (2,)), m.tensor("y", (1,))
        z = m.tensor("z", (2,))
        m.operator("GATHER", [x, n], [y], axis=0)
        m.operator("ADD", [y, x], [z])
        m.inputs([n, x])
        m.outputs([less_one(m, n), z])
    for options in ({}, {"guard_bands": True}):
        with pytest.raises(RuntimeError, match=r"node 0 WHILE failed: .*node 0 GATHER failed"):
            run(loop_of(gather_out_of_range).build(), np.array([5], np.int32), np.zeros(2, np.float32), **options)


def interrupted(make_body, count, x):
    """Run a loop of `count` iterations, which a signal interrupts; the interpreter."""
    def interrupt(number, frame):
        raise KeyboardInterrupt
    i = pylite.Interpreter(model_content=loop_of(make_body).build())
    i.resize_tensor_input(1, x.shape)
    i.allocate_tensors()
    i.set_tensor(0, np.array([count], np.int32))
    i.set_tensor(1, x)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            i.invoke()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return i


def test_an_endless_loop_can_be_interrupted():
    def nothing(m):
        m.subgraph("body")
        n, x = m.tensor("n", (1,), "int32"), m.tensor("x", (2,))
        m.inputs([n, x])
        m.outputs([n, x])
    interrupted(nothing, 1, np.zeros(2, np.float32))


def test_a_loop_of_few_long_iterations_can_be_interrupted():
    def add_one(m):
        m.subgraph("body")
        n, x, y = m.tensor("n", (1,), "int32"), m.tensor("x", (2,)), m.tensor("y", (2,))
        m.operator("ADD", [x, m.constant("one", np.ones(1, np.float32))], [y])
        m.inputs([n, x])
        m.outputs([less_one(m, n), y])
    i = interrupted(add_one, 5000, np.zeros(1 << 20, np.float32))
    y, = i.get_output_details()
    assert i.get_tensor(y["index"])[0] != 5000      # the loop did not end


def test_subgraphs_with_other_operands_are_refused():
    def two_inputs(m):
        m.subgraph("body")
        n = m.tensor("n", (1,), "int32")
        m.inputs([n])
        m.outputs([n])

    def other_type(m):
        m.subgraph("body")
        n, x = m.tensor("n", (1,), "int32"), m.tensor("x", (2,), "int8")
        m.inputs([n, x])
        m.outputs([n, x])

    for make, message in ((two_inputs, "calls subgraph 2, which has 1 inputs, with 2"),
                          (other_type, "calls subgraph 2, which takes int8 there")):
        with pytest.raises(RuntimeError, match=message):
            pylite.Interpreter(model_content=loop_of(make).build()).allocate_tensors()


class Adder(PythonDelegate):
    """Delegates all ADD nodes."""

    def __init__(self, flags):
        self.flags = flags

    def supports(self, node):
        return node.name == "ADD"

    def compile(self, part):
        class Kernel:
            def prepare(self, node):
                return node.inputs[0].shape

            def invoke(self, a, *rest):
                rest[-1][...] = a + (rest[0] if len(rest) > 1 else a)
        return Kernel()


@pytest.mark.parametrize("grow", [False, True])
@pytest.mark.parametrize("kind", ["custom op", "delegate"])
@pytest.mark.parametrize("options", [{}, {"guard_bands": True}])
def test_plug_ins_in_a_loop(grow, kind, options):
    """Each iteration doubles x; the plug-in runs the addition."""
    def doubled(m):
        m.subgraph("body")
        n, x, y, z = m.tensor("n", (1,), "int32"), m.tensor("x", (2,)), m.tensor("y", (2,)), m.tensor("z", (2,))
        m.operator("double" if kind == "custom op" else "ADD", [x] if kind == "custom op" else [x, x], [y],
                   custom_options=b"" if kind == "custom op" else None)
        m.operator("CONCATENATION", [y, y] if grow else [y], [z], axis=0)
        m.inputs([n, x])
        m.outputs([less_one(m, n), z])
    if kind == "custom op":
        resolver = pylite.BuiltinOpResolver()
        resolver.add_custom("double", lambda x, y: np.add(x, x, out=y))
        options = options | {"op_resolver": resolver}
    else:
        options = options | {"experimental_delegates": [Adder(DelegateFlags.ALLOW_DYNAMIC_TENSORS)]}
    model = loop_of(doubled).build()
    interpreter = pylite.Interpreter(model_content=model, **options)
    interpreter.allocate_tensors()
    for turns in (0, 2, 1, 2):
        interpreter.set_tensor(0, np.array([turns], np.int32))
        interpreter.set_tensor(1, np.array([1, 2], np.float32))
        interpreter.invoke()
        y = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
        assert y.tolist() == [n * 2 ** turns for n in (1, 2)] * (2 ** turns if grow else 1)


def test_delegates_for_known_shapes_refuse():
    def join(m):
        body(m, grow=True)
    with pytest.raises(RuntimeError, match="node 0 WHILE: its outputs' shapes depend on data; delegates without"):
        pylite.Interpreter(model_content=loop_of(join).build(),
                           experimental_delegates=[Adder(DelegateFlags.NONE)])
