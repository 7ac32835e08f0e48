"""The interpreter's surface: what a client of tf.lite sees, on models of the project's own."""
import gc
import inspect
import pickle
import threading
from unittest import mock

import numpy as np
import pytest

import pylite
from pylite.ir.graph import DTYPES, NUMPY_DTYPES
from tests import small_models
from tests.resources import peer

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def ready(model=None, **options):
    interpreter = pylite.Interpreter(model_content=model or small_models.reshape(), **options)
    interpreter.allocate_tensors()
    return interpreter


def run(interpreter, value=X):
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], value)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


def same(a, b):
    """Are two nests of dicts, lists, arrays and scalars equal, types included?"""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b)
    return a == b


def test_run(tmp_path):
    path = tmp_path / "m.tflite"
    path.write_bytes(small_models.reshape())
    for interpreter in (pylite.Interpreter(str(path)), pylite.Interpreter(path),
                        pylite.Interpreter(model_path=bytes(path)), pylite.Interpreter(model_content=path.read_bytes()),
                        pylite.Interpreter(model_content=bytearray(path.read_bytes())),
                        pylite.Interpreter(model_content=memoryview(path.read_bytes())),
                        pylite.Interpreter(None, path.read_bytes(), None, 2, pylite.OpResolverType.BUILTIN_REF, False)):
        interpreter.allocate_tensors()
        np.testing.assert_array_equal(run(interpreter), X.reshape(3, 2))


@pytest.mark.parametrize("options", [
    {"experimental_disable_delegate_clustering": True}, {"experimental_default_delegate_latest_features": True},
    {"experimental_compress_quantization_zero_points": True}, {"experimental_disable_delegate_node_fusion": True},
    {"experimental_force_delegate_node_profiling": True}, {"num_threads": np.int64(2)}, {"experimental_delegates": []},
    {"guard_bands": True}, {"max_memory": 1 << 20}])
def test_options(options):
    interpreter = ready(**options)
    np.testing.assert_array_equal(run(interpreter), X.reshape(3, 2))
    assert interpreter.experimental_compress_quantization_zero_points == \
        options.get("experimental_compress_quantization_zero_points", False)


def test_details():
    interpreter = pylite.Interpreter(model_content=small_models.reshape(
        "int8", (1, 3), (3, 1), shape_signature=(-1, 3), scale=0.5, zero_point=-3))
    [detail] = interpreter.get_input_details()
    assert same(detail, {
        "name": "input", "index": 0, "shape": np.array([1, 3], np.int32),
        "shape_signature": np.array([-1, 3], np.int32),
        "dtype": np.int8, "quantization": (0.5, -3), "quantization_parameters": {
            "scales": np.array([0.5], np.float32), "zero_points": np.array([-3], np.int32), "quantized_dimension": 0,
            "block_size": 0}, "sparsity_parameters": {}})
    interpreter.resize_tensor_input(0, [1, 3], strict=True)
    assert same(interpreter._get_ops_details(), [{
        "index": 0, "op_name": "RESHAPE", "inputs": np.array([0, 1], np.int32), "outputs": np.array([2], np.int32),
        "operand_types": [np.int8, np.int32], "result_types": [np.int8]}])
    assert [d["name"] for d in interpreter.get_tensor_details()] == ["input", "shape", "output"]
    assert interpreter.num_subgraphs() == 1
    assert interpreter._interpreter.NumTensors() == 3
    detail["shape"][0] = 7      # the caller's own
    assert interpreter.get_input_details()[0]["shape"][0] == 1


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d not in ("variant", "resource")])
def test_types_are_the_peers(dtype):
    litert = peer()
    value = np.array([b"a", b"", b"xyz", b"\0"], object) if dtype == "string" else np.array([0, 1, 1, 0]).astype(
        NUMPY_DTYPES[dtype])
    model = small_models.no_ops(dtype, value, (4,))
    ours = ready(model)
    theirs = litert.Interpreter(model_content=model,
                                experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF)
    theirs.allocate_tensors()
    expected = theirs.get_tensor_details()
    if dtype == "bfloat16":     # which the peer cannot show
        assert not expected and ours.get_tensor(1).dtype == np.uint16
        return
    assert same(ours.get_tensor_details(), expected)
    assert same(ours.get_tensor(1), theirs.get_tensor(1))
    ours.set_tensor(0, ours.get_tensor(1))
    assert same(ours.get_tensor(0), theirs.get_tensor(1))


@pytest.mark.parametrize("quantization", [{}, {"scale": 0.25, "zero_point": 5},
                                          {"scale": [0.1, 0.2, 0.3], "zero_point": [1, 2, 3], "axis": 1}])
def test_details_are_the_peers(quantization):
    litert = peer()
    for model in (small_models.reshape("int8", to=(2, 3), **quantization), small_models.two_signatures(),
                  small_models.reshape(shape=(1, 3), to=(-1, 1), shape_signature=(-1, 3))):
        ours = pylite.Interpreter(model_content=model)
        theirs = litert.Interpreter(model_content=model,
                                    experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF)
        for _ in range(2):
            for i in range(ours.num_subgraphs()):
                assert same(ours.get_tensor_details(i), theirs.get_tensor_details(i))
            for name in ("get_input_details", "get_output_details", "get_signature_list", "_get_full_signature_list",
                         "_get_ops_details", "num_subgraphs"):
                assert same(getattr(ours, name)(), getattr(theirs, name)()), name
            for call in ("NumNodes", "NumSubgraphs", "InputIndices", "OutputIndices"):
                assert same(getattr(ours._interpreter, call)(), getattr(theirs._interpreter, call)()), call
            ours.allocate_tensors()
            theirs.allocate_tensors()


def test_resize():
    interpreter = ready(small_models.reshape(shape=(1, 3), to=(-1, 1), shape_signature=(-1, 3)))
    for rows in (4, 1, 4, 0, 2):
        interpreter.resize_tensor_input(0, np.array([rows, 3]), strict=True)
        assert interpreter.get_input_details()[0]["shape"].tolist() == [rows, 3]
        assert interpreter.get_input_details()[0]["shape_signature"].tolist() == [-1, 3]
        interpreter.allocate_tensors()
        x = np.random.default_rng(rows).normal(size=(rows, 3)).astype(np.float32)
        np.testing.assert_array_equal(run(interpreter, x), x.reshape(-1, 1))
        assert interpreter.get_output_details()[0]["shape"].tolist() == [3 * rows, 1]


def test_resize_to_the_same_shape_changes_nothing():
    interpreter = ready()
    interpreter.set_tensor(0, X)
    interpreter.resize_tensor_input(0, (2, 3))
    interpreter.invoke()
    interpreter.allocate_tensors()
    np.testing.assert_array_equal(interpreter.get_tensor(0), X)


def test_views_are_writable_and_live():
    interpreter = ready()
    into, out = interpreter.tensor(0), interpreter.tensor(2)
    into()[:] = X
    interpreter.invoke()
    np.testing.assert_array_equal(out(), X.reshape(3, 2))
    interpreter.set_tensor(0, X + 1)
    assert into()[1, 2] == 6
    assert out().shape == (3, 2)
    assert into().flags.c_contiguous and into().flags.writeable


def test_views_of_constants_are_read_only():
    view = ready().tensor(1)()
    assert view.tolist() == [3, 2] and not view.flags.writeable


@pytest.mark.parametrize("derive", [
    lambda v: v, lambda v: v[0], lambda v: v.T, lambda v: v.reshape(-1)[2:], lambda v: v.view(np.uint8), memoryview,
    lambda v: v[None][..., ::2].transpose(), lambda v: np.asarray(v), lambda v: [v],
    lambda v: np.frombuffer(v, np.int32)])
def test_anything_that_looks_at_a_view_counts(derive):
    interpreter = ready()
    view = interpreter.tensor(0)()
    derived = derive(view)
    del view
    for call in (interpreter.invoke, interpreter.allocate_tensors, lambda: interpreter.resize_tensor_input(0, (2, 3))):
        with pytest.raises(RuntimeError, match="at least 1 reference to internal data"):
            call()
    assert not interpreter._safe_to_run()
    interpreter.set_tensor(0, X)        # these two may
    interpreter.get_tensor(0)
    del derived
    gc.collect()
    assert interpreter._safe_to_run()
    interpreter.invoke()


@pytest.mark.parametrize("derive", [
    lambda i: i.get_tensor(0), lambda i: i.tensor(0), lambda i: i.tensor(0)().copy(), lambda i: i.tensor(0)()[0, 0],
    lambda i: i.tensor(0)() + 1, lambda i: i.get_signature_runner, lambda i: i._interpreter, lambda i: i.invoke])
def test_nothing_else_counts(derive):
    interpreter = ready()
    kept = derive(interpreter)
    interpreter.invoke()
    interpreter.resize_tensor_input(0, (2, 3))
    interpreter.allocate_tensors()
    assert kept is not None


def test_a_view_in_a_cycle_does_not_count():
    interpreter = ready()
    cycle = [interpreter.tensor(0)()]
    cycle.append(cycle)
    del cycle
    interpreter.invoke()


def test_a_view_outlives_its_interpreter():
    interpreter = ready()
    interpreter.set_tensor(0, X)
    view = interpreter.tensor(0)()
    del interpreter
    gc.collect()
    np.testing.assert_array_equal(view, X)


def test_an_interpreter_is_freed_at_once():
    import weakref
    gc.disable()
    try:
        interpreter = ready()
        run(interpreter)
        gone = weakref.ref(interpreter)
        del interpreter
        assert gone() is None
    finally:
        gc.enable()


def test_what_set_tensor_takes():
    interpreter = ready()
    for value in (X.T.copy().T, X.astype(">f4"), np.broadcast_to(np.float32(3), (2, 3)), X[::-1, ::-1],
                  np.ma.masked_array(X), X.view(np.recarray)):
        np.testing.assert_array_equal(run(interpreter, value), np.asarray(value).reshape(3, 2))
    for index in (np.int64(0), np.array(0)):
        interpreter.set_tensor(index, X)
        np.testing.assert_array_equal(interpreter.get_tensor(index), X)
    integers = ready(small_models.reshape("int64"))
    integers.set_tensor(0, [[1, 2, 3], [4, 5, 6]])
    assert integers.get_tensor(0).tolist() == [[1, 2, 3], [4, 5, 6]]


def test_the_short_way_takes_what_the_long_one_takes():
    """set_tensor() and get_tensor() look at nothing where the array is like the tensor; all else goes the long way."""
    i = ready()
    x, y = i.get_input_details()[0]["index"], i.get_output_details()[0]["index"]
    numbers = np.arange(12, dtype=np.float32)
    misaligned = np.frombuffer(bytes(1) + X.tobytes(), np.uint8)[1:].view(np.float32).reshape(2, 3)
    for _ in range(2):      # the first time is the long way
        for value in (X, X + 1, X.T.copy().T, numbers.reshape(2, 6)[:, ::2], numbers.reshape(4, 3)[::-2], misaligned,
                      X.view(np.recarray), np.broadcast_to(np.float32(3), (2, 3)), X.astype(">f4")):
            i.set_tensor(x, value)
            i.invoke()
            first, second = i.get_tensor(y), i.get_tensor(y)
            np.testing.assert_array_equal(first, np.array(value).reshape(3, 2))
            first[...] = 0      # a copy of its own
            np.testing.assert_array_equal(second, i.get_tensor(y))
            assert second.flags.owndata and second.flags.writeable and second.flags.aligned
        for value in (X.T, X.reshape(6), X[:, :2], X.view(np.int32), X.astype(np.float64), X.view("V4"), X[:0]):
            with pytest.raises(ValueError):
                i.set_tensor(x, value)


def test_the_methods_of_the_short_way():
    i = ready()
    assert str(inspect.signature(i.get_tensor)) == "(tensor_index, subgraph_index=0)"
    assert str(inspect.signature(i.set_tensor)) == "(tensor_index, value)"
    assert str(inspect.signature(i.invoke)) == "()"
    assert all(len(m.__doc__) > 20 for m in (i.get_tensor, i.set_tensor, i.invoke))
    for _ in range(2):
        assert i.set_tensor(tensor_index=np.int64(0), value=X) is None
        assert i.set_tensor(0, value=X) is None and i.invoke() is None
        np.testing.assert_array_equal(i.get_tensor(0), i.get_tensor(tensor_index=0, subgraph_index=0))
        np.testing.assert_array_equal(i.get_tensor(True), i.get_tensor(1, 0))
        for wrong in (lambda: i.get_tensor(), lambda: i.get_tensor(0, 0, 0), lambda: i.get_tensor(0, index=0),
                      lambda: i.set_tensor(0), lambda: i.invoke(0), lambda: i.get_tensor([]), lambda: i.get_tensor("0"),
                      lambda: i.set_tensor({}, X), lambda: pylite.Interpreter.invoke(3)):
            with pytest.raises(TypeError):
                wrong()
        with pytest.raises(ValueError):
            i.get_tensor(99)
    assert pickle.loads(pickle.dumps(i.get_tensor))(0).shape == (2, 3)
    with pytest.raises(AttributeError):
        pylite.Interpreter.__new__(pylite.Interpreter).invoke()

    class Counting(pylite.Interpreter):
        count = 0

        def invoke(self):
            self.count += 1
            super().invoke()

    counting = Counting(model_content=small_models.reshape())
    counting.allocate_tensors()
    run(counting)
    assert counting.count == 1
    with mock.patch.object(pylite.Interpreter, "invoke") as invoke:
        i.invoke()
    assert invoke.called


def test_strings():
    interpreter = ready(small_models.no_ops("string", np.array([b"a", b"bc"], object), (2,)))
    assert interpreter.get_input_details()[0]["dtype"] is np.bytes_
    assert interpreter.get_tensor(0).tolist() == [b"", b""]
    for value in (np.array(["é", "xyz"]), np.array([b"a", b"bc"]), ["a", b"\0b"], np.array(["q", ""], object)):
        interpreter.set_tensor(0, value)
        expected = [v.encode() if isinstance(v, str) else v for v in list(value)]
        got = interpreter.get_tensor(0)
        assert got.dtype == object and got.tolist() == expected
    with pytest.raises(ValueError, match="STRING"):
        interpreter.set_tensor(0, np.zeros(2, np.float32))
    with pytest.raises(ValueError, match="takes str or bytes"):
        interpreter.set_tensor(0, np.array([1, 2], object))
    with pytest.raises(ValueError, match="strings"):
        interpreter.tensor(0)()


def test_signatures():
    interpreter = pylite.Interpreter(model_content=small_models.two_signatures())
    assert interpreter.get_signature_list() == {"rows": {"inputs": ["x"], "outputs": ["y"]},
                                                "columns": {"inputs": ["x"], "outputs": ["y"]}}
    rows, columns = (interpreter.get_signature_runner(k) for k in ("rows", "columns"))
    assert rows(x=X)["y"].shape == (6, 1)
    assert columns(x=X)["y"].shape == (1, 6)
    assert columns.get_input_details()["x"]["name"] == "other"
    assert columns.get_output_details()["y"]["index"] == 3
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, X + 1)
    columns(x=X)
    np.testing.assert_array_equal(interpreter.get_tensor(0), X + 1)
    np.testing.assert_array_equal(interpreter.get_tensor(1, subgraph_index=1), X)


def test_a_signature_runner_resizes():
    interpreter = pylite.Interpreter(model_content=_signed(small_models.reshape, shape=(1, 3), to=(-1, 1)))
    runner = interpreter.get_signature_runner()
    for rows in (2, 5, 2):
        x = np.full((rows, 3), rows, np.float32)
        np.testing.assert_array_equal(runner(x=x)["y"], x.reshape(-1, 1))


def _signed(make, **arguments):
    from pylite.schema.builder import ModelBuilder
    m = ModelBuilder()
    x, y = small_models._reshape(m, **arguments)
    m.signature("serving_default", {"x": x}, {"y": y})
    return m.build()


@pytest.mark.parametrize(("dtype", "zero"), [("float32", 0), ("int8", -5), ("uint8", 0), ("int16", 0)])
def test_variables(dtype, zero):
    quantization = {} if dtype == "float32" else {"scale": 0.5, "zero_point": -5 if dtype == "int8" else 7}
    interpreter = ready(small_models.variable(dtype, **quantization))
    state, out = 3, interpreter.get_output_details()[1]["index"]
    interpreter.invoke()
    assert (interpreter.get_tensor(out) == zero).all()
    interpreter.set_tensor(state, X.astype(dtype))
    for _ in range(2):      # kept from one run to the next
        interpreter.invoke()
        np.testing.assert_array_equal(interpreter.get_tensor(out), X.ravel())
    interpreter.reset_all_variables()
    interpreter.invoke()
    assert (interpreter.get_tensor(out) == zero).all()


def test_shared_model():
    model = pylite.Model(small_models.reshape())
    a, b = (pylite.Interpreter(model=model) for _ in range(2))
    a.allocate_tensors()
    b.allocate_tensors()
    a.set_tensor(0, X)
    b.set_tensor(0, X + 1)
    a.invoke()
    b.invoke()
    np.testing.assert_array_equal(a.get_tensor(2), X.reshape(3, 2))
    np.testing.assert_array_equal(b.get_tensor(2), X.reshape(3, 2) + 1)
    assert np.shares_memory(a._main.array(1), b._main.array(1))


def test_max_memory():
    with pytest.raises(MemoryError, match=r"RESHAPE"):
        ready(small_models.reshape(shape=(1000, 3), to=(3, 1000)), max_memory=10_000)
    with pytest.raises(RuntimeError, match=r"max_memory is 10000"):
        ready(small_models.reshape(shape=(1000, 3), to=(3, 1000)), max_memory=10_000)


def test_threads_take_turns():
    interpreter = ready(small_models.reshape(shape=(64, 3), to=(3, 64)))
    x = np.zeros((64, 3), np.float32)
    failures = []

    def work(k):
        try:
            for _ in range(200):
                interpreter.set_tensor(0, x + k)
                interpreter.invoke()
                y = interpreter.get_tensor(2)
                assert (y == y.flat[0]).all()       # of one run, whosever
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_pickle(tmp_path):
    path = tmp_path / "m.tflite"
    path.write_bytes(small_models.reshape(shape=(1, 3), to=(-1, 1), shape_signature=(-1, 3)))
    for source in ({"model_path": path}, {"model_content": path.read_bytes()}):
        interpreter = pylite.Interpreter(**source, num_threads=2)
        interpreter.resize_tensor_input(0, (2, 3))
        fresh = pickle.loads(pickle.dumps(interpreter))
        with pytest.raises(RuntimeError, match="not ready"):
            fresh.invoke()
        interpreter.allocate_tensors()
        again = pickle.loads(pickle.dumps(interpreter))
        np.testing.assert_array_equal(run(again), X.reshape(6, 1))


def test_fork_while_another_thread_holds_the_lock():
    import os
    interpreter = ready()
    held, done = threading.Event(), threading.Event()

    def hold():
        with interpreter._lock:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        os._exit(0 if (run(interpreter) == X.reshape(3, 2)).all() else 1)
    done.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_set_num_threads():
    interpreter = ready(small_models.variable())
    interpreter.set_tensor(0, X)
    interpreter.set_tensor(3, X + 1)
    interpreter._interpreter.SetNumThreads(3)
    assert interpreter._pool.threads == 3
    interpreter.invoke()
    np.testing.assert_array_equal(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]),
                                  X.reshape(3, 2))
    np.testing.assert_array_equal(interpreter.get_tensor(interpreter.get_output_details()[1]["index"]), X.ravel() + 1)


def test_no_native_handle():
    with pytest.raises(RuntimeError, match="tflite::Interpreter"):
        ready()._native_handle()


def test_nothing_is_printed(capfd):
    interpreter = ready()
    run(interpreter)
    assert capfd.readouterr() == ("", "")


def shape_from_data():
    """(2, 6) doubled, reshaped to what the input "shape" times 1 says, then summed over rows."""
    from pylite.schema.builder import ModelBuilder
    m = ModelBuilder()
    x, shape, doubled = m.tensor("x", (2, 6)), m.tensor("shape", (2,), "int32"), m.tensor("doubled", (2, 6))
    wanted, y, z = m.tensor("wanted", (2,), "int32"), m.tensor("y", (3, 4)), m.tensor("z", (4,))
    m.operator("ADD", [x, x], [doubled])
    m.operator("MUL", [shape, m.constant("one", np.array([1, 1], np.int32))], [wanted])
    m.operator("RESHAPE", [doubled, wanted], [y], new_shape=(3, 4))
    m.operator("SUM", [y, m.constant("axis", np.array([0], np.int32))], [z])
    m.inputs([x, shape])
    m.outputs([z, doubled])
    return m.build()


@pytest.mark.parametrize("options", [
    {}, {"guard_bands": True}, {"num_threads": 2},
    {"experimental_preserve_all_tensors": True, "experimental_op_resolver_type": pylite.OpResolverType.BUILTIN_REF}])
def test_shapes_that_depend_on_data(options):
    interpreter = ready(shape_from_data(), **options)
    x, shape = (d["index"] for d in interpreter.get_input_details())
    z, doubled = (d["index"] for d in interpreter.get_output_details())
    with pytest.raises(ValueError, match="known once the model has run"):
        interpreter.get_tensor(z)
    rng = np.random.default_rng(0)
    for wanted in ((3, 4), (4, 3), (3, 4), (12, 1), (1, 12), (4, 3)):
        value = rng.integers(-9, 9, (2, 6)).astype(np.float32)
        interpreter.set_tensor(x, value)
        interpreter.set_tensor(shape, np.array(wanted, np.int32))
        interpreter.invoke()
        np.testing.assert_array_equal(interpreter.get_tensor(z), 2 * value.reshape(wanted).sum(0))
        np.testing.assert_array_equal(interpreter.get_tensor(doubled), 2 * value)
        assert interpreter.get_output_details()[0]["shape"].tolist() == [wanted[1]]
        np.testing.assert_array_equal(interpreter.tensor(shape)(), wanted)
    interpreter.set_tensor(shape, np.array([5, 5], np.int32))
    with pytest.raises(RuntimeError, match=r"RESHAPE.*cannot take the shape \[5, 5\]"):
        interpreter.invoke()
    interpreter.set_tensor(shape, np.array([2, 6], np.int32))
    interpreter.invoke()
    assert interpreter.get_tensor(z).shape == (6,)


def test_many_shapes_that_depend_on_data():
    interpreter = ready(shape_from_data(), max_memory=4096)
    x, shape = (d["index"] for d in interpreter.get_input_details())
    interpreter.set_tensor(x, np.ones((2, 6), np.float32))
    for wanted in [(n, 12 // n) for n in (1, 2, 3, 4, 6, 12)] * 3:
        interpreter.set_tensor(shape, np.array(wanted, np.int32))
        interpreter.invoke()
    assert interpreter._main.cache.segment_count <= 12
