"""The tf.lite interface of the interpreter, on small models."""
import copy
import gc
import os
import pickle
import threading
import weakref

import numpy as np
import pytest

import pylite
from pylite.ir.graph import DTYPES, NUMPY_DTYPES
from pylite.schema.builder import ModelBuilder
from pylite.tflite.details import Details
from tests.tools import small_models
from tests.tools.interpreters import X, ready, run
from tests.tools.resources import peer


def same(a, b):
    """Are two nests of dicts, lists, arrays and scalars equal, types included?  (Details are lists for notebooks.)"""
    if type(a) is not type(b) and not (type(a) is Details and type(b) is list):
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
    detail["shape"][0] = 7      # of a copy
    assert interpreter.get_input_details()[0]["shape"][0] == 1


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d not in ("variant", "resource", "bfloat16")])
def test_types_equal_the_peers(dtype):
    litert = peer()
    value = np.array([b"a", b"", b"xyz", b"\0"], object) if dtype == "string" else np.array([0, 1, 1, 0]).astype(
        NUMPY_DTYPES[dtype])
    model = small_models.no_ops(dtype, value, (4,))
    ours = ready(model)
    theirs = litert.Interpreter(model_content=model,
                                experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF)
    theirs.allocate_tensors()
    assert same(ours.get_tensor_details(), theirs.get_tensor_details())
    assert same(ours.get_tensor(1), theirs.get_tensor(1))
    ours.set_tensor(0, ours.get_tensor(1))
    assert same(ours.get_tensor(0), theirs.get_tensor(1))


@pytest.mark.parametrize("quantization", [{}, {"scale": 0.25, "zero_point": 5},
                                          {"scale": [0.1, 0.2, 0.3], "zero_point": [1, 2, 3], "axis": 1}])
def test_details_equal_the_peers(quantization):
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


@pytest.mark.parametrize("source", ["pylite", "peer"])
@pytest.mark.parametrize("signature", [(-1, 3), None])
def test_strict_resizing_compares_with_the_declared_shape(signature, source):
    """With the sizes in the file if some are unknown, else with the present ones, whatever strict=False has changed."""
    kind = pylite if source == "pylite" else peer()
    interpreter = kind.Interpreter(model_content=small_models.reshape(shape=(1, 3), to=(-1, 1),
                                                                      shape_signature=signature))
    for before, shape, fits in [((2, 2), (1, 3), signature), ((2, 2), (4, 3), signature),
                                ((2, 2), (2, 2), not signature), ((2, 2), (4, 2), False), ((2, 2), (2,), False),
                                ((6,), (6,), True), ((6,), (4,), signature), ((6,), (2, 3), False)]:
        interpreter.resize_tensor_input(0, before)
        if fits:
            interpreter.resize_tensor_input(0, shape, strict=True)
        else:
            with pytest.raises(RuntimeError):
                interpreter.resize_tensor_input(0, shape, strict=True)
        assert interpreter.get_input_details()[0]["shape"].tolist() == list(shape if fits else before)


def test_resize_to_the_same_shape_changes_nothing():
    interpreter = ready()
    interpreter.set_tensor(0, X)
    interpreter.resize_tensor_input(0, (2, 3))
    interpreter.invoke()
    interpreter.allocate_tensors()
    np.testing.assert_array_equal(interpreter.get_tensor(0), X)


def test_an_interpreter_is_freed_without_the_garbage_collector():
    gc.disable()
    try:
        interpreter = ready()
        run(interpreter)
        gone = weakref.ref(interpreter)
        del interpreter
        assert gone() is None
    finally:
        gc.enable()


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
    m = ModelBuilder()
    x, y = small_models._reshape(m, **arguments)
    m.signature("serving_default", {"x": x}, {"y": y})
    return m.build()


def test_the_first_signature_of_a_key_counts():
    """As in tf.lite."""
    m = ModelBuilder()
    for name in ("NEG", "ABS"):
        if name == "ABS":
            m.subgraph("second")
        x, y = m.tensor("x", (2, 3)), m.tensor("y", (2, 3))
        m.operator(name, [x], [y])
        m.inputs([x])
        m.outputs([y])
        m.signature("same", {f"x of {name}": x}, {"y": y})
    interpreter = pylite.Interpreter(model_content=m.build())
    assert interpreter.get_signature_list() == {"same": {"inputs": ["x of NEG"], "outputs": ["y"]}}
    np.testing.assert_array_equal(interpreter.get_signature_runner()(**{"x of NEG": X})["y"], -X)


def test_a_signature_names_a_tensor_that_is_not_an_input():
    """It cannot be resized, and need not be."""
    m = ModelBuilder()
    x, state = m.tensor("x", (2, 3)), m.tensor("state", (2, 3), variable=True)
    y = m.tensor("y", (2, 3))
    m.operator("ADD", [x, state], [y])
    m.inputs([x])
    m.outputs([y])
    m.signature("both", {"x": x, "state": state}, {"y": y})
    runner = pylite.Interpreter(model_content=m.build()).get_signature_runner()
    np.testing.assert_array_equal(runner(x=X, state=2 * X)["y"], 3 * X)
    with pytest.raises(RuntimeError, match=r"tensor 1 \('state'\) is not an input"):
        runner(x=X, state=X[:1])


@pytest.mark.parametrize(("dtype", "zero"), [("float32", 0), ("int8", -5), ("uint8", 0), ("int16", 0)])
def test_variables(dtype, zero):
    quantization = {} if dtype == "float32" else {"scale": 0.5, "zero_point": -5 if dtype == "int8" else 7}
    interpreter = ready(small_models.variable(dtype, **quantization))
    state, out = 3, interpreter.get_output_details()[1]["index"]
    interpreter.invoke()
    assert (interpreter.get_tensor(out) == zero).all()
    interpreter.set_tensor(state, X.astype(dtype))
    for _ in range(2):      # variables keep their values between runs
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


def test_calls_of_several_threads_are_serialized():
    interpreter = ready(small_models.reshape(shape=(64, 3), to=(3, 64)))
    x = np.zeros((64, 3), np.float32)
    failures = []

    def work(k):
        try:
            for _ in range(200):
                interpreter.set_tensor(0, x + k)
                interpreter.invoke()
                y = interpreter.get_tensor(2)
                assert (y == y.flat[0]).all()       # from a single run, of any thread
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


class Named(pylite.Interpreter):
    """As a program derives it: with other arguments, and attributes of its own."""

    def __init__(self, content, name):
        self.__secret = 3
        super().__init__(model_content=content)
        self.name, self._model_name = name, f"model {name}"
        self.allocate_tensors()

    def secret(self):
        return self.__secret


@pytest.mark.parametrize("copied", [lambda i: pickle.loads(pickle.dumps(i)), copy.copy, copy.deepcopy])
def test_copies_of_a_derived_class(copied):
    interpreter = Named(small_models.reshape(), "a")
    again = copied(interpreter)
    assert type(again) is Named and (again.name, again._model_name, again.secret()) == ("a", "model a", 3)
    again.invoke()
    interpreter.close()
    again.invoke()


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
    runner = pylite.Interpreter(model_content=small_models.two_signatures()).get_signature_runner("rows")
    again = pickle.loads(pickle.dumps(runner))
    assert repr(again) == repr(runner)
    np.testing.assert_array_equal(again(x=X)["y"], runner(x=X)["y"])


def test_fork_while_another_thread_holds_the_lock():
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


def test_native_handle_raises_not_implemented():
    with pytest.raises(RuntimeError, match="tflite::Interpreter"):
        ready()._native_handle()


def test_nothing_is_printed(capfd):
    interpreter = ready()
    run(interpreter)
    assert capfd.readouterr() == ("", "")
