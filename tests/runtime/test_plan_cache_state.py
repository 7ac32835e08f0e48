"""Plans of models that keep a state or call subgraphs: everything is the same with a plan and without."""
import gc
import threading
import weakref
import zipfile

import numpy as np
import pytest

import pylite
from pylite.errors import PyliteError
from pylite.runtime import plan_record, plan_store
from pylite.schema.builder import ModelBuilder
from tests.tools import op_models, small_models
from tests.tools.plans import assert_same, differences, filled, outcome, plan_file, planned, run
from tests.tools.resources import models

REAL = ("keras/lstm_tfk_28_int8.tflite", "keras/gru_k3_28_float32.tflite", "reports/tts_fused.tflite",
        "micro-wake-word-models/models/v2/okay_nabu.tflite", "LiteRT/litert/test/testdata/simple_group_norm_op.tflite",
        "go-tflite/_example/style_transform/style_transfer_quantized_dynamic.tflite")


@pytest.fixture
def folder(tmp_path):
    """A cache folder that is trusted, wherever pytest keeps its files."""
    path = tmp_path / "cache"
    path.mkdir(mode=0o700)
    return path


# ---- models --------------------------------------------------------------------------------------------------
def accumulator(shape=(2, 3), signature=None):
    """y = v = v + x: a resource variable, which CALL_ONCE fills with ones."""
    m = ModelBuilder()
    x = m.tensor("x", shape, shape_signature=signature)
    y, old, v = m.tensor("y", shape, shape_signature=signature), m.tensor("old", shape), m.tensor("v", (1,), "resource")
    m.operator("CALL_ONCE", [], [], init_subgraph_index=1)
    m.operator("VAR_HANDLE", [], [v], shared_name="v")
    m.operator("READ_VARIABLE", [v], [old])
    m.operator("ADD", [old, x], [y])
    m.operator("ASSIGN_VARIABLE", [v, y], [])
    m.inputs([x])
    m.outputs([y])
    m.subgraph("fill")
    v = m.tensor("v", (1,), "resource")
    m.operator("VAR_HANDLE", [], [v], shared_name="v")
    m.operator("ASSIGN_VARIABLE", [v, m.constant("ones", np.ones(shape, np.float32))], [])
    return m.build()


def unset():
    """Reads a variable that nothing assigns."""
    m = ModelBuilder()
    x, y, z, v = m.tensor("x", (3,)), m.tensor("y", (3,)), m.tensor("z", (3,)), m.tensor("v", (1,), "resource")
    m.operator("VAR_HANDLE", [], [v], shared_name="v")
    m.operator("READ_VARIABLE", [v], [y])
    m.operator("ADD", [x, y], [z])
    m.inputs([x])
    m.outputs([z])
    return m.build()


def chosen(shape=(2, 3)):
    """x * 2 + state where the sum of x is above 4, else x - 1, in a loop that runs n times; each branch has a table."""
    m = ModelBuilder()
    x, n = m.tensor("x", shape, shape_signature=(-1, shape[1])), m.tensor("n", (1,), "int32")
    i, y = m.tensor("i", (1,), "int32"), m.tensor("y", shape, shape_signature=(-1, shape[1]))
    m.operator("WHILE", [n, x], [i, y], cond_subgraph_index=1, body_subgraph_index=2)
    m.inputs([x, n])
    m.outputs([y])

    m.subgraph("test")
    n, x, more = m.tensor("n", (1,), "int32"), m.tensor("x", shape), m.tensor("more", (1,), "bool")
    m.operator("GREATER", [n, m.constant("0", np.zeros(1, np.int32))], [more])
    m.inputs([n, x])
    m.outputs([more])

    m.subgraph("body")
    n, x, less = m.tensor("n", (1,), "int32"), m.tensor("x", shape), m.tensor("less", (1,), "int32")
    total, above, y = m.tensor("total", ()), m.tensor("above", (), "bool"), m.tensor("y", shape)
    m.operator("SUB", [n, m.constant("1", np.ones(1, np.int32))], [less])
    m.operator("SUM", [x, m.constant("axes", np.array([0, 1], np.int32))], [total])
    m.operator("GREATER", [total, m.constant("4", np.array(4, np.float32))], [above])
    m.operator("IF", [above, x], [y], then_subgraph_index=3, else_subgraph_index=4)
    m.inputs([n, x])
    m.outputs([less, y])

    for name, op, number in (("then", "MUL", 0.5), ("else", "ADD", 3)):
        m.subgraph(name)
        x, y = m.tensor("x", shape), m.tensor("y", shape)
        m.operator(op, [x, m.constant("c", np.array(number, np.float32))], [y])
        m.inputs([x])
        m.outputs([y])
    return m.build()


def table():
    """Looks words up in a table, which CALL_ONCE fills."""
    m = ModelBuilder()
    x, y, n = m.tensor("x", (4,), "int64"), m.tensor("y", (1,), "int64"), m.tensor("n", (4,), "int64")
    h = m.tensor("h", (1,), "resource")
    m.operator("CALL_ONCE", [], [], init_subgraph_index=1)
    m.operator("HASHTABLE", [], [h], table_id=7, key_dtype="int64", value_dtype="string")
    m.operator("HASHTABLE_SIZE", [h], [y])
    m.operator("ADD", [x, y], [n])
    m.inputs([x])
    m.outputs([n])
    m.subgraph("fill")
    h = m.tensor("h", (1,), "resource")
    m.operator("HASHTABLE", [], [h], table_id=7, key_dtype="int64", value_dtype="string")
    m.operator("HASHTABLE_IMPORT", [h, m.constant("keys", np.array([3, 5], np.int64)),
                                    m.constant("words", np.array([b"a", b"bc"], object))], [])
    return m.build()


def constants():
    """An input and an output that have contents in the file."""
    m = ModelBuilder()
    x, y = m.tensor("x", (2, 3)), m.tensor("y", (2, 3))
    c = m.constant("c", np.arange(6, dtype=np.float32).reshape(2, 3))
    m.operator("ADD", [x, c], [y])
    m.inputs([x, c])
    m.outputs([c, y])
    return m.build()


def random_numbers(seed):
    """Random numbers plus x."""
    m = ModelBuilder()
    x, y, z = m.tensor("x", (4,), shape_signature=(-1,)), m.tensor("y", (4,)), m.tensor("z", (4,))
    m.operator("RANDOM_UNIFORM", [m.constant("shape", np.array([4], np.int32))], [y], seed=seed, seed2=seed)
    m.operator("MUL", [m.constant("ones", np.ones(4, np.float32)), y], [z])
    m.inputs([x])
    m.outputs([z])
    return m.build()


STATEFUL = {"no ops": small_models.no_ops("float32", np.ones(2, np.float32), (2,)), "constants": constants(),
            "bfloat16": small_models.reshape("bfloat16"), "variable": small_models.variable(),
            "accumulator": accumulator(), "unset": unset(), "chosen": chosen(),
            "int8 variable": small_models.variable("int8", scale=0.5, zero_point=-7), "random": random_numbers(5),
            "signatures": small_models.two_signatures()}


# ---- tests ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", STATEFUL)
def test_state_and_calls_are_the_same_with_a_plan(folder, name):
    used, found = differences(STATEFUL[name], folder)
    assert used
    assert not found


@pytest.mark.parametrize("name", REAL)
def test_real_models_are_the_same_with_a_plan(folder, name):
    used, found = differences((models() / name).read_bytes(), folder)
    assert used
    assert not found


@pytest.mark.parametrize("op", sorted({line.op for line in op_models.lines()}))
def test_every_op_is_the_same_with_a_plan(folder, op):
    """One model for each op, of the first types that it takes."""
    lines = [line for line in op_models.lines() if line.op == op]
    for model in [line.model(choice) for line in lines for choice in line.cases()]:
        try:
            pylite.Interpreter(model_content=model, cache_dir="").allocate_tensors()
        except PyliteError:
            continue
        used, found = differences(model, folder)
        assert not found
        if used:
            return
    assert op in ("UNIQUE", "WHERE")


def test_each_interpreter_has_a_state_of_its_own(folder):
    wanted = filled(folder, accumulator())
    one, other = (pylite.Interpreter(model_content=accumulator(), cache_dir=folder) for _ in range(2))
    assert planned(one)
    assert planned(other)
    results = [run(one)[0] for _ in range(3)]
    assert_same(run(other), wanted)
    assert (results[2] > results[1]).all()


def test_threads_run_interpreters_with_one_plan(folder):
    filled(folder, accumulator((64, 64)))
    plain = pylite.Interpreter(model_content=accumulator((64, 64)), cache_dir="")
    wanted = [run(plain, seed) for seed in range(5)]
    failed = []

    def work():
        interpreter = pylite.Interpreter(model_content=accumulator((64, 64)), cache_dir=folder, num_threads=2)
        for seed, want in enumerate(wanted):
            if not np.array_equal(run(interpreter, seed)[0], want[0]):
                failed.append(seed)
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_a_random_seed_is_drawn_for_each_interpreter(folder):
    pylite.Interpreter(model_content=random_numbers(0), cache_dir=folder).allocate_tensors()
    pair = [pylite.Interpreter(model_content=random_numbers(0), cache_dir=folder) for _ in range(2)]
    assert all(map(planned, pair))
    results = [run(interpreter)[0] for interpreter in (*pair, *pair)]
    assert len({result.tobytes() for result in results}) == 4


def test_other_subgraphs_are_read_from_the_memory_of_the_plan(folder):
    """Also after they have run by the plan alone."""
    model = chosen()
    filled(folder, model)
    pair = [pylite.Interpreter(model_content=model, cache_dir=where) for where in ("", folder)]
    for seed in range(3):
        results = []
        for interpreter in pair:
            interpreter.allocate_tensors()
            interpreter.set_tensor(0, np.random.default_rng(seed).random((2, 3), np.float32))
            interpreter.set_tensor(1, np.array([4], np.int32))
            interpreter.invoke()
            results.append([outcome(lambda i=interpreter, s=s: i.get_tensor(i._model.graph.subgraphs[s].inputs[-1], s))
                            for s in range(1, 5)])
        for a, b in zip(*results, strict=True):
            np.testing.assert_array_equal(a, b)


def test_failures_in_called_subgraphs_name_the_node(folder):
    """An index out of range, in the body of a branch."""
    m = ModelBuilder()
    x, c, y = m.tensor("x", (2,), "int32"), m.tensor("c", (1,), "bool"), m.tensor("y", (2,))
    m.operator("IF", [c, x], [y], then_subgraph_index=1, else_subgraph_index=1)
    m.inputs([x, c])
    m.outputs([y])
    m.subgraph("then")
    x, y = m.tensor("indices", (2,), "int32"), m.tensor("found", (2,))
    m.operator("GATHER", [m.constant("table", np.arange(3, dtype=np.float32)), x], [y])
    m.inputs([x])
    m.outputs([y])
    model = m.build()
    pylite.Interpreter(model_content=model, cache_dir=folder).allocate_tensors()
    texts = []
    for where in ("", folder):
        interpreter = pylite.Interpreter(model_content=model, cache_dir=where)
        interpreter.allocate_tensors()
        interpreter.set_tensor(0, np.array([1, 7], np.int32))
        texts.append(outcome(interpreter.invoke))
        assert planned(interpreter) or where == "" or type(interpreter._main.current).__name__ == "PlannedProgram"
    assert texts[0] == texts[1]
    assert "GATHER" in texts[0]
    assert "'indices'" in texts[0]


def test_a_table_that_is_filled_once(folder):
    """Its strings have no plan, yet later processes know that."""
    used, found = differences(table(), folder)
    assert not used
    assert not found


# ---- what has no plan ----------------------------------------------------------------------------------------
def test_later_processes_do_not_try_what_has_no_plan(folder, monkeypatch):
    model = small_models.reshape("string")
    first = pylite.Interpreter(model_content=model, cache_dir=folder)
    first.allocate_tensors()
    assert "tensors of strings" in first._main.plans.problem
    written = plan_file(folder).stat()
    monkeypatch.setattr(plan_store, "RecordBuilder", None)
    monkeypatch.setattr(plan_store, "Store", None)
    again = pylite.Interpreter(model_content=model, cache_dir=folder)
    assert not planned(again)
    assert again._main.plans.problem == first._main.plans.problem
    again.allocate_tensors()
    again.invoke()
    assert plan_file(folder).stat().st_ino == written.st_ino


def test_arrays_of_any_strides_are_written_and_read(folder):
    """Kernels may read constants backwards, or across."""
    base = np.arange(240, dtype=np.int16).reshape(4, 6, 10)
    for array in (base[::-1], base[:, ::-2, 1::3], base.T, base[2, 3, ::-1], base.view(np.uint8)[:, :, 1:7].view(
            np.uint8)[..., ::2], np.broadcast_to(base[0, 0], (3, 10)), base.view(np.int32)[..., 0]):
        low, high = plan_record.address_range(array)
        found = np.ndarray(array.shape, array.dtype, bytes(plan_record.memory_between(low, high)),
                           array.ctypes.data - low, array.strides)
        np.testing.assert_array_equal(found, array)


@pytest.mark.parametrize("more", [False, True])
@pytest.mark.parametrize("name", ["accumulator", "chosen", "variable"])
def test_memory_of_states_is_freed_with_the_last_reference(folder, name, more):
    filled(folder, STATEFUL[name])
    gc.collect()
    gc.disable()
    try:
        interpreter = pylite.Interpreter(model_content=STATEFUL[name], cache_dir=folder)
        run(interpreter)
        assert planned(interpreter)
        found = [weakref.ref(each) for each in (interpreter, interpreter._model, interpreter._main._bound.arena.base)]
        if more:
            interpreter.get_tensor_details()
            interpreter._executors_of_all()
        del interpreter
        assert [each() for each in found] == [None, None, None]
    finally:
        gc.enable()


def test_subgraphs_that_were_asked_for_before_the_plan_is_bound(folder):
    """Their tensors are those of the run, too."""
    model, results = chosen(), []
    filled(folder, model)
    for where in ("", folder):
        interpreter = pylite.Interpreter(model_content=model, cache_dir=where)
        interpreter.get_tensor_details(3)
        answer = run(interpreter)
        results.append([*answer, *[outcome(lambda i=interpreter, s=s: i.get_tensor(0, s)) for s in range(1, 5)]])
    assert_same(*results)


def test_signatures_share_their_variables(folder):
    """One adds to a variable, the other one reads it; whichever is called first."""
    m = ModelBuilder()
    x, old, y, v = m.tensor("x", (2,)), m.tensor("old", (2,)), m.tensor("y", (2,)), m.tensor("v", (1,), "resource")
    m.operator("CALL_ONCE", [], [], init_subgraph_index=2)
    m.operator("VAR_HANDLE", [], [v], shared_name="v")
    m.operator("READ_VARIABLE", [v], [old])
    m.operator("ADD", [old, x], [y])
    m.operator("ASSIGN_VARIABLE", [v, y], [])
    m.inputs([x])
    m.outputs([y])
    m.signature("add", {"x": x}, {"y": y})
    m.subgraph("read")
    y, v = m.tensor("y", (2,)), m.tensor("v", (1,), "resource")
    m.operator("VAR_HANDLE", [], [v], shared_name="v")
    m.operator("READ_VARIABLE", [v], [y])
    m.outputs([y])
    m.signature("read", {}, {"y": y})
    m.subgraph("fill")
    v = m.tensor("v", (1,), "resource")
    m.operator("VAR_HANDLE", [], [v], shared_name="v")
    m.operator("ASSIGN_VARIABLE", [v, m.constant("start", np.array([3, 4], np.float32))], [])
    model = m.build()
    pylite.Interpreter(model_content=model, cache_dir=folder).allocate_tensors()
    for order in ("add", "read", "add", "read"), ("read", "add", "read"):
        results = []
        for where in ("", folder):
            interpreter = pylite.Interpreter(model_content=model, cache_dir=where)
            assert planned(interpreter) == (where != "")
            results.append([])
            for name in order:
                given = {"x": np.ones(2, np.float32)} if name == "add" else {}
                results[-1].append(outcome(lambda n=name, i=interpreter, g=given: i.get_signature_runner(n)(**g)["y"]))
        for a, b in zip(*results, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_models_in_bundles_have_no_plan_and_say_so(folder, tmp_path, compression):
    path = tmp_path / "bundle.task"
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("model.tflite", accumulator())
    wanted = run(pylite.Interpreter(model_content=accumulator(), cache_dir=""))
    for _ in range(2):
        interpreter = pylite.Interpreter(path, cache_dir=folder)
        assert_same(run(interpreter), wanted)
        assert interpreter._main.plans.problem == "its file is a bundle"
