"""State between runs: resource variables, hash tables, variable tensors, and signatures that share them."""
import numpy as np
import pytest

import pylite
from pylite.schema.builder import ModelBuilder
from tests.tools.resources import peer

OPTIONS = [{}, {"num_threads": 2}, {"guard_bands": True},
           {"experimental_preserve_all_tensors": True,
            "experimental_op_resolver_type": pylite.OpResolverType.BUILTIN_REF}]


def handle(m, name="state"):
    h = m.tensor("handle", (), "resource")
    m.operator("VAR_HANDLE", [], [h], shared_name=name, container="")
    return h


def accumulator(shape=(2,), signature=None, initialized=True, join=False):
    """y = variable + x (or their concatenation), assigned to the variable, which is initially [10, 20]."""
    m = ModelBuilder()
    x, old, y = m.tensor("x", (2,)), m.tensor("old", shape, shape_signature=signature), m.tensor("y", shape)
    if initialized:
        m.operator("CALL_ONCE", [], [], init_subgraph_index=1)
    h = handle(m)
    m.operator("READ_VARIABLE", [h], [old])
    if join:
        m.operator("CONCATENATION", [old, x], [y], axis=0)
    else:
        m.operator("ADD", [old, x], [y])
    m.operator("ASSIGN_VARIABLE", [h, y], [])
    m.inputs([x])
    m.outputs([y, old])
    m.signature("add", {"x": x}, {"y": y})
    m.subgraph("initialize")
    h = handle(m)
    m.operator("ASSIGN_VARIABLE", [h, m.constant("start", np.array([10, 20], np.float32))], [])
    m.subgraph("look")
    h, now = handle(m), m.tensor("now", shape, shape_signature=signature)
    m.operator("READ_VARIABLE", [h], [now])
    m.outputs([now])
    m.signature("look", {}, {"now": now})
    return m.build()


def steps(interpreter, values):
    """The outputs of several runs."""
    results = []
    for value in values:
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], value)
        interpreter.invoke()
        results.append([interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()])
    return results


def assert_agree(model, values, resolver="BUILTIN_REF", **options):
    """Assert that several runs of one interpreter agree with the peer's."""
    litert = peer()
    theirs = litert.Interpreter(model_content=model,
                                experimental_op_resolver_type=getattr(litert.OpResolverType, resolver))
    ours = pylite.Interpreter(model_content=model, **options)
    theirs.allocate_tensors()
    ours.allocate_tensors()
    for got, want in zip(steps(ours, values), steps(theirs, values), strict=True):
        for a, b in zip(got, want, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("signature", [None, (-1,)])
def test_variable(options, signature):
    rng = np.random.default_rng(0)
    model = accumulator(signature=signature)
    values = rng.integers(-9, 9, (5, 2)).astype(np.float32)
    interpreter = pylite.Interpreter(model_content=model, **options)
    interpreter.allocate_tensors()
    got = steps(interpreter, values)
    want = np.array([10, 20], np.float32) + np.cumsum(values, 0)
    np.testing.assert_array_equal([y for y, _ in got], want)
    np.testing.assert_array_equal([old for _, old in got], want - values)
    assert_agree(model, values, **options)


def test_resetting_a_variable():
    interpreter = pylite.Interpreter(model_content=accumulator())
    interpreter.allocate_tensors()
    one = np.ones(2, np.float32)
    assert steps(interpreter, [one])[0][0].tolist() == [11, 21]
    interpreter.reset_all_variables()           # concerns variable tensors only
    assert steps(interpreter, [one])[0][0].tolist() == [12, 22]
    interpreter.resize_tensor_input(0, [1])
    interpreter.allocate_tensors()
    assert steps(interpreter, [one[:1]])[0][0].tolist() == [13, 23]
    other = pylite.Interpreter(model=interpreter._model)
    other.allocate_tensors()
    assert steps(other, [one])[0][0].tolist() == [11, 21]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("signature", [None, (-1,)])
def test_a_variable_that_grows(options, signature):
    interpreter = pylite.Interpreter(model_content=accumulator(join=True, signature=signature), **options)
    interpreter.allocate_tensors()
    value = np.array([1, 2], np.float32)
    for run in range(1, 5):
        y, old = steps(interpreter, [value])[0]
        assert y.tolist() == [10, 20] + [1, 2] * run and old.tolist() == y.tolist()[:-2]


def test_signatures_share_variables():
    interpreter = pylite.Interpreter(model_content=accumulator())
    add, look = interpreter.get_signature_runner("add"), interpreter.get_signature_runner("look")
    assert add(x=np.array([1, 2], np.float32))["y"].tolist() == [11, 22]
    assert look()["now"].tolist() == [11, 22]
    assert add(x=np.array([1, 2], np.float32))["y"].tolist() == [12, 24]
    assert look()["now"].tolist() == [12, 24]


@pytest.mark.parametrize("signature", [None, (-1,)])
def test_reading_an_unassigned_variable_is_refused(signature):
    interpreter = pylite.Interpreter(model_content=accumulator(initialized=False, signature=signature))
    interpreter.allocate_tensors()
    with pytest.raises(RuntimeError, match=r"node 1 READ_VARIABLE.*read before anything was assigned"):
        interpreter.invoke()


def test_a_tensor_that_is_no_resource_is_refused():
    m = ModelBuilder()
    h, y = m.constant("h", np.array(3, np.int32), dtype="resource"), m.tensor("y", (2,))
    m.operator("READ_VARIABLE", [h], [y])
    m.outputs([y])
    with pytest.raises(RuntimeError, match=r"READ_VARIABLE.*is not a variable"):
        pylite.Interpreter(model_content=m.build()).allocate_tensors()


def test_variables_in_a_loop():
    """A loop whose body counts its iterations in a variable, which it gets as a resource."""
    m = ModelBuilder()
    n, left, y = m.tensor("n", (1,), "int32"), m.tensor("left", (1,), "int32"), m.tensor("y", (1,), "int32")
    m.operator("CALL_ONCE", [], [], init_subgraph_index=1)
    h, same = handle(m), m.tensor("same", (), "resource")
    m.operator("WHILE", [n, h], [left, same], cond_subgraph_index=2, body_subgraph_index=3)
    m.operator("READ_VARIABLE", [h], [y])
    m.inputs([n])
    m.outputs([y])
    m.subgraph("initialize")
    m.operator("ASSIGN_VARIABLE", [handle(m), m.constant("0", np.array([0], np.int32))], [])
    m.subgraph("test")
    n, h, go_on = m.tensor("n", (1,), "int32"), m.tensor("h", (), "resource"), m.tensor("go on", (1,), "bool")
    m.operator("CAST", [n], [go_on], in_data_type="int32", out_data_type="bool")
    m.inputs([n, h])
    m.outputs([go_on])
    m.subgraph("body")
    n, h = m.tensor("n", (1,), "int32"), m.tensor("h", (), "resource")
    fewer, old, new = [m.tensor(name, (1,), "int32") for name in ("fewer", "old", "new")]
    one = m.constant("one", np.array([1], np.int32))
    m.operator("SUB", [n, one], [fewer])
    m.operator("READ_VARIABLE", [h], [old])
    m.operator("ADD", [old, one], [new])
    m.operator("ASSIGN_VARIABLE", [h, new], [])
    m.inputs([n, h])
    m.outputs([fewer, h])
    model = m.build()
    interpreter = pylite.Interpreter(model_content=model)
    interpreter.allocate_tensors()
    values = [np.array([turns], np.int32) for turns in (3, 0, 5)]
    assert [y.item() for y, in steps(interpreter, values)] == [3, 3, 8]
    assert interpreter._executors[3].current.boundary is None      # no boundary: the body's variable is known
    assert_agree(model, values)


KEYS = {"string": np.array([b"a", b"bb", b"", b"a"], object), "int64": np.array([1, -2, 1 << 40, 1], np.int64)}
VALUES = {"int64": np.array([7, 8, 9, 10], np.int64), "string": np.array([b"x", b"yy", b"", b"again"], object)}
DEFAULTS = {"int64": np.array([-1], np.int64), "string": np.array([b"none"], object)}


def table(keys, values, filled=True):
    """Looks up three keys; returns the size of the table."""
    def handle(m):
        h = m.tensor("handle", (1,), "resource")
        m.operator("HASHTABLE", [], [h], table_id=5, key_dtype=keys, value_dtype=values)
        return h
    m = ModelBuilder()
    x, y, size = m.tensor("x", (3,), keys), m.tensor("y", (3,), values), m.tensor("size", (1,), "int64")
    if filled:
        m.operator("CALL_ONCE", [], [], init_subgraph_index=1)
    h = handle(m)
    m.operator("HASHTABLE_FIND", [h, x, m.constant("default", DEFAULTS[values])], [y])
    m.operator("HASHTABLE_SIZE", [h], [size])
    m.inputs([x])
    m.outputs([y, size])
    m.subgraph("initialize")
    h = handle(m)
    m.operator("HASHTABLE_IMPORT", [h, m.constant("keys", KEYS[keys]), m.constant("values", VALUES[values])], [])
    return m.build()


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize(("keys", "values"), [("string", "int64"), ("int64", "string")])
def test_hash_table(keys, values, options):
    wanted = [KEYS[keys][[0, 1, 2]], np.roll(KEYS[keys], 2)[:3], KEYS[keys][[0, 0, 1]]]
    wanted[1][1] = b"other" if keys == "string" else 77
    interpreter = pylite.Interpreter(model_content=table(keys, values), **options)
    interpreter.allocate_tensors()
    got = steps(interpreter, wanted)
    known = dict(zip(KEYS[keys][:3].tolist(), VALUES[values].tolist(), strict=False))
    for (y, size), x in zip(got, wanted, strict=True):
        assert y.tolist() == [known.get(key, DEFAULTS[values][0]) for key in x.tolist()] and size.tolist() == [3]
    assert_agree(table(keys, values), wanted, "BUILTIN_WITHOUT_DEFAULT_DELEGATES", **options)


def test_reading_an_empty_hash_table_is_refused():
    interpreter = pylite.Interpreter(model_content=table("string", "int64", filled=False))
    interpreter.allocate_tensors()
    with pytest.raises(RuntimeError, match=r"HASHTABLE_FIND failed: .*before anything was imported"):
        interpreter.invoke()


def test_the_size_of_an_empty_hash_table():
    m = ModelBuilder()
    h, size = m.tensor("handle", (1,), "resource"), m.tensor("size", (1,), "int64")
    m.operator("HASHTABLE", [], [h], table_id=5, key_dtype="string", value_dtype="int64")
    m.operator("HASHTABLE_SIZE", [h], [size])
    m.inputs([])
    m.outputs([size])
    interpreter = pylite.Interpreter(model_content=m.build())
    interpreter.allocate_tensors()
    interpreter.invoke()
    assert interpreter.get_tensor(size).tolist() == [0]


def test_subgraphs_share_weights():
    """A buffer shared by constants of two subgraphs is decoded and packed once."""
    m = ModelBuilder()
    weights = np.arange(48, dtype=np.float32).reshape(6, 8)
    for subgraph in range(2):
        m.subgraph(f"subgraph {subgraph}")
        x, y = m.tensor("x", (3, 8)), m.tensor("y", (3, 6))
        w = m.constant("w", weights) if not subgraph else m.tensor("w", weights.shape, buffer=1)
        m.operator("FULLY_CONNECTED", [x, w, None], [y])
        m.inputs([x])
        m.outputs([y])
        m.signature(f"run {subgraph}", {"x": x}, {"y": y})
    interpreter = pylite.Interpreter(model_content=m.build())
    x, sizes = np.ones((3, 8), np.float32), []
    for key in ("run 0", "run 1"):
        np.testing.assert_array_equal(interpreter.get_signature_runner(key)(x=x)["y"], x @ weights.T)
        sizes.append(interpreter._model.weights.packed_bytes)
    assert sizes[0] == sizes[1] > 0


def test_a_subgraph_both_called_and_run_by_a_signature():
    """Constants passed by a caller do not apply to runs of the signature."""
    m = ModelBuilder()
    x, y, w = m.tensor("x", (2,)), m.tensor("y", (2,)), m.constant("w", np.array([10, 20], np.float32))
    m.operator("STABLEHLO_COMPOSITE", [x, w], [y], name="scale", decomposition_subgraph_index=1,
               composite_attributes=np.array([0, 0, 1, 0, 0, 36, 1], np.uint8))
    m.inputs([x])
    m.outputs([y])
    m.signature("main", {"x": x}, {"y": y})
    m.subgraph("scale")
    x, w, y = m.tensor("x", (2,)), m.tensor("w", (2,)), m.tensor("y", (2,))
    m.operator("MUL", [x, w], [y])
    m.inputs([x, w])
    m.outputs([y])
    m.signature("scale", {"x": x, "w": w}, {"y": y})
    interpreter = pylite.Interpreter(model_content=m.build())
    main, scale = interpreter.get_signature_runner("main"), interpreter.get_signature_runner("scale")
    a, b = np.array([1, 2], np.float32), np.array([3, 4], np.float32)
    for _ in range(2):
        assert main(x=a)["y"].tolist() == [10, 40]
        assert scale(x=a, w=b)["y"].tolist() == [3, 8]
    interpreter.invoke()
    assert interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).tolist() == [10, 40]
