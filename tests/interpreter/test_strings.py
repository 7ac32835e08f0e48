"""String tensors: as inputs and outputs, and in the ops that move them."""
import numpy as np
import pytest

import pylite
from pylite.schema.builder import ModelBuilder
from tests.tools.resources import peer

WORDS = np.array([[b"a", b"bb", b"", b"nul\x00nul"], ["ü".encode(), b"\xff", b"long" * 99, b" "]], object)


def op(name, inputs, constants, shape, dtype="string", **options):
    m = ModelBuilder()
    xs = [m.tensor(f"x{i}", x.shape, "string") for i, x in enumerate(inputs)]
    y = m.tensor("y", shape, dtype)
    m.operator(name, xs + [m.constant(f"c{i}", np.array(c, np.int32)) for i, c in enumerate(constants)], [y], **options)
    m.inputs(xs)
    m.outputs([y])
    return m.build()


def run(module, model, inputs, **options):
    interpreter = module.Interpreter(model_content=model, **options)
    interpreter.allocate_tensors()
    for detail, value in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


@pytest.mark.parametrize(("name", "inputs", "constants", "want", "options"), [
    ("RESHAPE", [WORDS], [[4, 2]], WORDS.reshape(4, 2), {}),
    ("SQUEEZE", [WORDS[:1]], [], WORDS[0], {}),
    ("EXPAND_DIMS", [WORDS], [1], WORDS[:, None], {}),
    ("GATHER", [WORDS[0]], [[2, 0, 0]], WORDS[0, [2, 0, 0]], {"axis": 0}),
    ("SLICE", [WORDS], [[1, 0], [1, 3]], WORDS[1:, :3], {}),
    ("STRIDED_SLICE", [WORDS], [[0, 3], [2, 0], [1, -2]], WORDS[:, 3:0:-2], {}),
    ("TILE", [WORDS[:1]], [[2, 3]], np.tile(WORDS[:1], (2, 3)), {}),
    ("GATHER_ND", [WORDS], [[[1, 2], [0, 0]]], WORDS[[1, 0], [2, 0]], {"version": 4}),
    ("EQUAL", [WORDS, WORDS[:, ::-1]], [], np.asarray(WORDS[:, ::-1] == WORDS, bool), {}),
    ("NOT_EQUAL", [WORDS, WORDS[:, ::-1]], [], np.asarray(WORDS[:, ::-1] != WORDS, bool), {}),
    ("SHAPE", [WORDS], [], np.array([2, 4], np.int32), {"out_type": "int32"}),
])
def test_ops(name, inputs, constants, want, options):
    model = op(name, inputs, constants, want.shape, "string" if want.dtype == object else want.dtype.name, **options)
    for got in (run(pylite, model, inputs), run(pylite, model, inputs, guard_bands=True),
                run(peer(), model, inputs)):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(("name", "want", "options"), [
    ("CONCATENATION", np.concatenate([WORDS, WORDS], 1), {"axis": 1}), ("PACK", np.stack([WORDS, WORDS]), {"axis": 0})])
def test_ops_that_the_peer_refuses(name, want, options):
    got = run(pylite, op(name, [WORDS, WORDS], [], want.shape, **options), [WORDS, WORDS])
    np.testing.assert_array_equal(got, want)


def through(shape):
    m = ModelBuilder()
    x = m.tensor("x", shape, "string")
    m.inputs([x])
    m.outputs([x])
    return m.build()


@pytest.mark.parametrize("value", [WORDS, np.array(["x", "yy"]), np.array([b"x", b"yy"]),
                                   np.array(["ü", b"\xff"], object)])
def test_strings_are_returned_as_bytes(value):
    got, theirs = run(pylite, through(value.shape), [value]), run(peer(), through(value.shape), [value])
    assert got.dtype == theirs.dtype == object and got.shape == value.shape
    assert got.tolist() == theirs.tolist()
    assert {type(item) for item in got.reshape(-1)} == {bytes}


def test_strings_without_dimensions():
    assert run(pylite, through(()), [np.array("ü", object)]).item() == "ü".encode()
    assert run(pylite, through((0,)), [np.empty(0, object)]).shape == (0,)


@pytest.mark.parametrize("value", [np.array([1, 2]), np.array([1, 2], object), np.array([b"a"], object),
                                   np.array([None, b"a"], object)])
def test_other_values_are_refused(value):
    with pytest.raises(ValueError, match="Cannot set tensor"):
        run(pylite, through((2,)), [value])


def test_strings_in_a_loop_and_a_branch():
    """IF selects one half of the words; WHILE reverses them the given number of times."""
    m = ModelBuilder()
    c, n, x = m.tensor("c", (1,), "bool"), m.tensor("n", (1,), "int32"), m.tensor("x", (4,), "string")
    half, left, y = m.tensor("half", (2,), "string"), m.tensor("left", (1,), "int32"), m.tensor("y", (2,), "string")
    m.operator("IF", [c, x], [half], then_subgraph_index=1, else_subgraph_index=2)
    m.operator("WHILE", [n, half], [left, y], cond_subgraph_index=3, body_subgraph_index=4)
    m.inputs([c, n, x])
    m.outputs([y])
    for first in (0, 2):
        m.subgraph(f"from {first}")
        x, y = m.tensor("x", (4,), "string"), m.tensor("y", (2,), "string")
        m.operator("SLICE", [x, *[m.constant(k, np.array([v], np.int32)) for k, v in (("b", first), ("s", 2))]], [y])
        m.inputs([x])
        m.outputs([y])
    m.subgraph("test")
    n, x, go_on = m.tensor("n", (1,), "int32"), m.tensor("x", (2,), "string"), m.tensor("go on", (1,), "bool")
    m.operator("CAST", [n], [go_on], in_data_type="int32", out_data_type="bool")
    m.inputs([n, x])
    m.outputs([go_on])
    m.subgraph("body")
    n, x, y = m.tensor("n", (1,), "int32"), m.tensor("x", (2,), "string"), m.tensor("y", (2,), "string")
    fewer = m.tensor("fewer", (1,), "int32")
    m.operator("SUB", [n, m.constant("one", np.array([1], np.int32))], [fewer])
    m.operator("GATHER", [x, m.constant("turned", np.array([1, 0], np.int32))], [y], axis=0)
    m.inputs([n, x])
    m.outputs([fewer, y])
    model = m.build()
    words = np.array([b"a", b"bcd", b"", b"e"], object)
    for c in (True, False):
        for n in (0, 1, 2):
            inputs = [np.array([c]), np.array([n], np.int32), words]
            want = words[:2] if c else words[2:]
            assert run(pylite, model, inputs).tolist() == (want[::-1] if n % 2 else want).tolist()


def test_fill():
    m = ModelBuilder()
    shape = m.constant("shape", np.array([2, 3], np.int32))
    x, y = m.tensor("x", (), "string"), m.tensor("y", (2, 3), "string")
    m.operator("FILL", [shape, x], [y])
    m.inputs([x])
    m.outputs([y])
    word = np.array(b"word", object)
    got = run(pylite, m.build(), [word])            # the peer reads a scalar's object address as its characters
    np.testing.assert_array_equal(got, np.full((2, 3), b"word", object))
