"""Delegates in C: the order of calls, compared with the peer's if it is installed."""
import ctypes
import gc
from pathlib import Path

import numpy as np
import pytest

import pylite
from pylite.schema.builder import ModelBuilder
from tests.capi.compiling import build

PLUGINS = Path(__file__).parent / "plugins"


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return build(PLUGINS / "delegate.c", tmp_path_factory.mktemp("delegate") / "delegate.so")


def tracer(library):
    take = ctypes.CDLL(library).take_trace
    take.restype = ctypes.c_char_p
    take()
    return lambda: take().decode().splitlines()


@pytest.fixture
def trace(library):
    gc.collect()
    return tracer(library)


@pytest.fixture
def peer():
    """(Interpreter, load_delegate) of the peer without its default delegates."""
    module = pytest.importorskip("ai_edge_litert.interpreter", reason="ai-edge-litert is not installed")

    def make(**arguments):
        return module.Interpreter(
            experimental_op_resolver_type=module.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES, **arguments)
    return make, module.load_delegate


def addmul(shape=(1, 4)):
    """Nine nodes: ADD and MUL, with two others in between."""
    m = ModelBuilder()
    t = [m.tensor(f"t{i}", shape) for i in range(2)]
    t.append(m.constant("c", np.full(shape, 0.5, np.float32)))
    t += [m.tensor(f"t{i}", shape) for i in range(3, 12)]
    for name, a, b, y in (("ADD", 0, 1, 3), ("MUL", 3, 2, 4), ("TANH", 4, None, 5), ("ABS", 1, None, 6),
                          ("ADD", 5, 1, 7), ("MUL", 7, 6, 8), ("ADD", 0, 2, 9), ("MUL", 9, 9, 10), ("ADD", 8, 10, 11)):
        m.operator(name, [t[a]] if b is None else [t[a], t[b]], [t[y]])
    m.inputs([t[0], t[1]])
    m.outputs([t[11]])
    return m.build()


def expected(x, y):
    half = np.float32(0.5)
    t7 = np.tanh((x + y) * half) + y
    return t7 * np.abs(y) + (x + half) ** 2


X = np.array([[1, 2, 3, 4]], np.float32)
Y = np.array([[-1, 0.5, 2, -3]], np.float32)


def run(i, x=X, y=Y):
    for detail, array in zip(i.get_input_details(), (x, y), strict=True):
        i.set_tensor(detail["index"], array)
    i.invoke()
    return i.get_tensor(i.get_output_details()[0]["index"])


def interpreter(library, model=None, **options):
    return pylite.Interpreter(model_content=model or addmul(),
                              experimental_delegates=[pylite.load_delegate(library, options)])


@pytest.mark.parametrize("options", [{}, {"flags": 1}, {"flags": 3}, {"each": 1}, {"handles": 1}, {"preview": 1},
                                     {"flags": 1, "handles": 1, "each": 1}, {"flags": 1, "dynamic": 1},
                                     {"flags": 1, "dynamic": 1, "each": 1}, {"flags": 1, "dynamic": 1, "handles": 1}])
def test_results(library, options):
    i = interpreter(library, **options)
    i.allocate_tensors()
    for _ in range(2):
        np.testing.assert_allclose(run(i), expected(X, Y), rtol=1e-6)
    i.resize_tensor_input(0, [2, 4])
    i.resize_tensor_input(1, [2, 4])
    i.allocate_tensors()
    x, y = np.vstack([X, Y]), np.vstack([Y, X])
    if not options.get("each"):
        np.testing.assert_allclose(run(i, x, y), expected(x, y), rtol=1e-6)


def life(make, load, library, options, take):
    """The trace of a delegate's life cycle in one runtime."""
    delegate = load(library, options)
    i = make(model_content=addmul(), experimental_delegates=[delegate])
    i.allocate_tensors()
    run(i)
    run(i)
    i.allocate_tensors()
    for index in (0, 1):
        i.resize_tensor_input(i.get_input_details()[index]["index"], [1, 4])
    i.allocate_tensors()
    for index in (0, 1):
        i.resize_tensor_input(i.get_input_details()[index]["index"], [2, 4])
    i.allocate_tensors()
    run(i, np.vstack([X, Y]), np.vstack([Y, X]))
    del i
    gc.collect()
    del delegate
    gc.collect()
    return take()


@pytest.mark.parametrize("options", [{}, {"flags": 1}, {"flags": 3}, {"handles": 1}, {"preview": 1}, {"edit": 0},
                                     {"flags": 1, "handles": 1}, {"flags": 1, "dynamic": 1}])
def test_traces_equal_the_peers(library, trace, peer, options):
    theirs = life(*peer, library, options, trace)
    ours = life(pylite.Interpreter, pylite.load_delegate, library, options, trace)
    # When a kernel is prepared again, the peer keeps the data pointers of the previous shape.  pylite sets them to
    # null, except for dynamic tensors.
    assert [line for line in ours if line != "data"] == [line for line in theirs if line != "data"]


def end(make, load, library, options, take, close):
    """What the end of an interpreter calls at once, and what the end of the delegate does."""
    delegate = load(library, options)
    i = make(model_content=addmul(), experimental_delegates=[delegate])
    i.allocate_tensors()
    run(i)
    take()
    gc.disable()
    try:
        if close:
            i.close()
        del i
        ended = take()
        del delegate
        return ended, take()
    finally:
        gc.enable()


@pytest.mark.parametrize("flags", [0, 1])
@pytest.mark.parametrize("close", [False, True])
def test_handles_are_freed_when_the_interpreter_ends(library, trace, peer, flags, close):
    """At close() or with the last reference, without the garbage collector, in the peer's order."""
    options = {"flags": flags, "handles": 1}
    ours, theirs = (end(make, load, library, options, trace, close and make is pylite.Interpreter)
                    for make, load in ((pylite.Interpreter, pylite.load_delegate), peer))
    assert ours == theirs
    assert sum(line.startswith("free handle") for line in ours[0]) >= 2


def life_with_failures(make, load, library, options, take):
    """The trace of a delegate that fails, and the calls that raise an error."""
    failed = []

    def attempt(what, call):
        try:
            return call()
        except (RuntimeError, ValueError):
            failed.append(what)
            return None
    delegate = load(library, options)
    i = attempt("make", lambda: make(model_content=addmul(), experimental_delegates=[delegate]))
    if i is not None:
        attempt("allocate", i.allocate_tensors)
        for turn in ("first", "second"):
            attempt(turn, lambda: run(i))
        for detail in i.get_input_details():
            i.resize_tensor_input(detail["index"], [2, 4])
        attempt("allocate again", i.allocate_tensors)
        attempt("third", lambda: run(i, np.vstack([X, X]), np.vstack([Y, Y])))
    i = None
    for _ in range(3):      # the traceback of the error keeps the delegate alive
        gc.collect()
    delegate = None
    for _ in range(3):
        gc.collect()
    return failed, [line for line in take() if line != "data"]


@pytest.mark.parametrize("options", [
    {"fail": "prepare"}, {"fail": "init"}, {"fail": "init", "flags": 1}, {"fail": "kernel"},
    {"fail": "kernel", "flags": 1}, {"fail": "invoke"}, {"fail": "invoke", "flags": 1}, {"fail": "copy", "handles": 1}])
def test_traces_equal_the_peers_when_a_step_fails(library, trace, peer, options):
    assert (life_with_failures(pylite.Interpreter, pylite.load_delegate, library, options, trace)
            == life_with_failures(*peer, library, options, trace))


def around_unique():
    """ADD, UNIQUE, which has a data-dependent shape, MUL, ABS, ADD."""
    m = ModelBuilder()
    x, a, u, b, n, c = (m.tensor(name, (4,)) for name in "xaubnc")
    where = m.tensor("where", (4,), "int32")
    m.operator("ADD", [x, x], [a])
    m.operator("UNIQUE", [a], [u, where], idx_out_type="int32")
    m.operator("MUL", [u, u], [b])
    m.operator("ABS", [b], [n])
    m.operator("ADD", [n, b], [c])
    m.inputs([x])
    m.outputs([c])
    return m.build()


def life_with_dynamic_shapes(make, load, library, options, take):
    """(results, trace) of a delegate before and after an operator with a data-dependent shape."""
    delegate = load(library, options)
    i = make(model_content=around_unique(), experimental_delegates=[delegate])
    i.allocate_tensors()
    results = []
    for numbers in ([1, 1, 2, 3], [1, 1, 2, 3], [1, 1, 1, 3], [1, 2, 3, 4], [1, 1, 1, 3, 2, 2], [1, 1, 1, 3, 2, 2]):
        index = i.get_input_details()[0]["index"]
        i.resize_tensor_input(index, [len(numbers)])
        i.allocate_tensors()
        i.set_tensor(index, np.array(numbers, np.float32))
        i.invoke()
        results.append(i.get_tensor(i.get_output_details()[0]["index"]).tolist())
    del i
    gc.collect()
    del delegate
    gc.collect()
    return results, [line for line in take() if line != "data"]


@pytest.mark.parametrize("options", [{"flags": 1}, {"flags": 3}, {"flags": 1, "handles": 1},
                                     {"flags": 1, "dynamic": 1}])
def test_traces_equal_the_peers_with_dynamic_shapes(library, trace, peer, options):
    assert (life_with_dynamic_shapes(pylite.Interpreter, pylite.load_delegate, library, options, trace)
            == life_with_dynamic_shapes(*peer, library, options, trace))


def test_life_cycle(library, trace):
    ours = life(pylite.Interpreter, pylite.load_delegate, library, {}, trace)
    once = ["Prepare 0 1 2 3 4 5 6 7 8", "init 0 1 6 7", " ends 0 1 2 | 4 10", "init 4 5 8", " ends 1 5 6 10 | 11"]
    assert ours == (["create", *once, "prepare 1 4 | 1 4", "prepare 1 4 | 1 4", *["invoke"] * 4, "free", "free", *once,
                     "prepare 2 4 | 2 4", "prepare 2 4 | 2 4", "invoke", "invoke", "free", "free", "destroy"])


@pytest.mark.parametrize(("fail", "words"), [
    ("prepare", "no device"), ("init", "no kernel for 4 nodes"), ("kernel", "AddMul. failed to prepare")])
def test_failures_to_apply(library, trace, fail, words):
    with pytest.raises(RuntimeError, match=words):
        interpreter(library, fail=fail)
    for _ in range(3):      # the traceback of the error keeps the delegate alive
        gc.collect()
    lines = trace()
    assert lines.count("free") == (2 if fail == "kernel" else 0) and lines[-1] == "destroy"


def test_failure_to_create(library):
    with pytest.raises(ValueError, match=r"(?s)Failed to load delegate from .*no device was found"):
        pylite.load_delegate(library, {"fail": "create"})


@pytest.mark.parametrize(("options", "words"), [({"fail": "invoke"}, "the device is gone"),
                                                ({"fail": "copy", "handles": 1}, "CopyFromBufferHandle")])
def test_failures_to_run(library, options, words):
    i = interpreter(library, **options)
    i.allocate_tensors()
    for _ in range(2):
        with pytest.raises(RuntimeError, match=words):
            run(i)


def test_edits_are_undone(library, trace):
    i = interpreter(library, edit=1)
    i.allocate_tensors()
    assert trace()[2] == "edit 4"
    i.resize_tensor_input(0, [2, 4])
    i.resize_tensor_input(1, [2, 4])
    i.allocate_tensors()
    assert "edit 4" in trace()


def test_registrations_of_64_bytes(tmp_path):
    old = build(PLUGINS / "delegate.c", tmp_path / "old.so", "-DOLD", "-O0")
    i = interpreter(old)
    i.allocate_tensors()
    np.testing.assert_allclose(run(i), expected(X, Y), rtol=1e-6)


def test_two_delegates_share_a_graph(library):
    i = pylite.Interpreter(model_content=addmul(), experimental_delegates=[
        pylite.load_delegate(library), pylite.load_delegate(library, {"each": 1})])
    i.allocate_tensors()
    np.testing.assert_allclose(run(i), expected(X, Y), rtol=1e-6)


def test_details_show_the_nodes(library):
    i = interpreter(library)
    names = [op["op_name"] for op in i._get_ops_details()]
    assert len(names) == 11 and names[9:] == ["DELEGATE", "DELEGATE"]


def test_threads_reach_the_delegate(library):
    i = pylite.Interpreter(model_content=addmul(), num_threads=2,
                           experimental_delegates=[pylite.load_delegate(library)])
    assert i._main.plugin_structs.host.threads == 2


@pytest.mark.parametrize(("source", "raised", "words"), [
    ("int TFL_TheStableDelegate;", AttributeError,
     "does not export tflite_plugin_create_delegate: it is a stable delegate"),
    ("int other;", AttributeError, "it is not a delegate: it does not export tflite_plugin_create_delegate$"),
    ("void foo_missing(void); void *use = foo_missing;", OSError,
     "undefined symbol: foo_missing; link other.so with the library that defines it"),
    ("void TfLiteInterpreterCreate(void); void *use = TfLiteInterpreterCreate;", OSError,
     "undefined symbol: TfLiteInterpreterCreate. pylite hosts plug-ins that keep to"),
    ("void f(void) __asm__(\"_ZN6tflite8Subgraph10AddTensorsEiPi\"); void *use = f;", OSError,
     "undefined symbol: _ZN6tflite8Subgraph10AddTensorsEiPi. pylite hosts")])
def test_libraries_that_are_not_hosted(tmp_path, source, raised, words):
    (tmp_path / "other.c").write_text(source)
    library = build(tmp_path / "other.c", tmp_path / "other.so")
    with pytest.raises(raised, match=words) as caught:
        pylite.load_delegate(library)
    assert isinstance(caught.value, ValueError)
