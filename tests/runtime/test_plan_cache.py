"""The plan cache: interpreters do the same with it and without; its files are in test_plan_cache_files.py."""
import gc
import os
import pickle
import subprocess
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import pylite
from pylite._core import simd
from pylite.media import models
from pylite.runtime.executor import Executor
from pylite.schema.builder import ModelBuilder
from tests.tools.plans import assert_same, command, filled, network, outcome, plan_file, planned, run

DIGITS = os.fspath(models.path("digits"))


@pytest.fixture
def folder(tmp_path):
    """A cache folder that is trusted, wherever pytest keeps its files."""
    path = tmp_path / "cache"
    path.mkdir(mode=0o700)
    return path


def test_the_library_may_be_removed_while_it_is_in_use(folder, monkeypatch):
    """An upgrade does that to programs that keep running."""
    monkeypatch.setattr(simd, "__file__", os.path.join(os.path.dirname(simd.__file__), "removed.so"))
    model = network()
    filled(folder, model)
    assert planned(pylite.Interpreter(model_content=model, cache_dir=folder))


@pytest.mark.parametrize("level", simd.available())
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("preserve", [False, True])
@pytest.mark.filterwarnings("ignore:experimental_preserve")
def test_everything_is_the_same_with_a_plan(folder, level, threads, preserve):
    """Outputs, details, every tensor or why it cannot be read, after as before."""
    before = simd.current
    options = {"num_threads": threads, "experimental_preserve_all_tensors": preserve}
    simd.use(level)
    try:
        for model in (network(), Path(DIGITS).read_bytes()):
            filled(folder, model, **options)
            plain = pylite.Interpreter(model_content=model, cache_dir="", **options)
            cached = pylite.Interpreter(model_content=model, cache_dir=folder, **options)
            assert planned(cached)
            for method in ("get_input_details", "get_output_details", "get_signature_list"):
                assert repr(getattr(plain, method)()) == repr(getattr(cached, method)())
            for seed in (1, 2):
                assert_same(run(cached, seed), run(plain, seed))
            assert planned(cached)
            assert repr(plain.get_tensor_details()) == repr(cached.get_tensor_details())
            assert not planned(cached)
            assert type(cached._main) is Executor
            for index in range(len(plain.get_tensor_details())):
                same = [outcome(lambda i=i, index=index: i.get_tensor(index)) for i in (plain, cached)]
                assert type(same[0]) is type(same[1])
                np.testing.assert_array_equal(*same)
            assert_same(run(cached, 3), run(plain, 3))
            assert plain._get_ops_details().__repr__() == cached._get_ops_details().__repr__()
    finally:
        simd.use(before)


@pytest.mark.parametrize("dtype", ["float32", "int4"])
def test_a_plan_has_all_of_a_constant_that_a_slice_may_begin_in(folder, dtype):
    """The plan once had the slice that begins at 0, so that others were zeros."""
    table = np.arange(60).reshape(20, 3) % 8
    m = ModelBuilder()
    begin, y = m.tensor("begin", (2,), "int32"), m.tensor("y", (1, 3), dtype)
    size = m.constant("size", np.array([1, 3], np.int32))
    m.operator("SLICE", [m.constant("table", table, dtype=dtype), begin, size], [y])
    m.inputs([begin])
    m.outputs([y])
    model = m.build()
    for start in range(2):
        interpreter = pylite.Interpreter(model_content=model, cache_dir=folder)
        interpreter.allocate_tensors()
        assert planned(interpreter) == bool(start)
        for row in (0, 1, 19):
            interpreter.set_tensor(begin, np.array([row, 0], np.int32))
            interpreter.invoke()
            assert interpreter.get_tensor(y).tolist() == [table[row].tolist()]


def test_a_plan_needs_neither_graph_nor_compiler(folder):
    code = f"""
import sys
import numpy as np
from pylite import Interpreter
interpreter = Interpreter({DIGITS!r}, cache_dir={os.fspath(folder)!r})
interpreter.allocate_tensors()
detail = interpreter.get_input_details()[0]
interpreter.set_tensor(detail["index"], np.ones(detail["shape"], detail["dtype"]))
interpreter.invoke()
print(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).tolist())
print(sorted(m for m in sys.modules if m.startswith(("pylite.schema", "pylite.compiler", "pylite.ops",
    "pylite.numerics", "pylite.ir.graph", "pylite.runtime.executor", "hashlib"))))"""
    os.utime(DIGITS)        # its time of change is now, so the first process hashes it and remembers nothing
    outputs = [subprocess.run(command(code), capture_output=True, text=True, check=True).stdout
               for _ in range(2)]
    assert outputs[0].splitlines()[0] == outputs[1].splitlines()[0]
    assert "pylite.compiler" in outputs[0]
    assert outputs[1].splitlines()[1] == "[]"


def test_the_environment_names_the_folder(folder, monkeypatch):
    monkeypatch.setenv("PYLITE_CACHE_DIR", os.fspath(folder))
    wanted = run(pylite.Interpreter(model_content=network()))
    second = pylite.Interpreter(model_content=network())
    assert planned(second)
    assert_same(run(second), wanted)
    assert not planned(pylite.Interpreter(model_content=network(), cache_dir=""))


def test_without_a_folder_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.delenv("PYLITE_CACHE_DIR", raising=False)
    monkeypatch.setenv("HOME", os.fspath(tmp_path))
    monkeypatch.chdir(tmp_path)
    run(pylite.Interpreter(model_content=network()))
    assert list(tmp_path.iterdir()) == []


def test_the_folder_is_made_for_its_owner_alone(tmp_path):
    folder = tmp_path / "a" / "b"
    run(pylite.Interpreter(DIGITS, cache_dir=folder))
    assert folder.stat().st_mode & 0o777 == 0o700
    assert plan_file(folder).stat().st_mode & 0o777 == 0o600


# ---- processes and threads -----------------------------------------------------------------------------------
def test_threads_that_ask_for_more_get_one_executor(folder):
    filled(folder, network())
    for _ in range(10):
        interpreter = pylite.Interpreter(model_content=network(), cache_dir=folder)
        wanted = run(interpreter)
        assert planned(interpreter)
        start = threading.Barrier(4)

        def ask(interpreter=interpreter, start=start):
            start.wait()
            interpreter._get_tensor_details(1)
            return interpreter._main.current
        with ThreadPoolExecutor(4) as pool:
            found = [future.result() for future in [pool.submit(ask) for _ in range(4)]]
        assert len(set(map(id, found))) == 1
        assert_same(run(interpreter), wanted)


def test_forked_children_use_the_plan(folder):
    wanted = filled(folder, network())
    interpreter = pylite.Interpreter(model_content=network(), cache_dir=folder, num_threads=2)
    run(interpreter)
    child = os.fork()
    if child == 0:
        same = all(np.array_equal(a, b) for a, b in zip(run(interpreter), wanted, strict=True))
        details = len(interpreter.get_tensor_details())
        os._exit(0 if same and details == 7 else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_plans_are_in_memory_once_for_all_processes(folder):
    """Kernels read the file's pages: none of them is private."""
    model = network(128, (1, 6, 6, 128))
    filled(folder, model)
    interpreter = pylite.Interpreter(model_content=model, cache_dir=folder)
    run(interpreter)
    text = Path("/proc/self/smaps").read_text().partition(plan_file(folder).name)[2]
    fields = dict(line.split(":", 1) for line in text.splitlines()[1:20] if ":" in line)
    assert int(fields["Rss"].split()[0]) > 100
    assert int(fields["Private_Dirty"].split()[0]) == int(fields["Anonymous"].split()[0]) == 0


# ---- asking for more than the plan has -----------------------------------------------------------------------
def cached_pair(folder, model, **options):
    """(an interpreter without, one with a plan)"""
    filled(folder, model, **options)
    found = [pylite.Interpreter(model_content=model, cache_dir=where, **options) for where in ("", folder)]
    assert planned(found[1])
    return found


def test_new_shapes_get_plans_of_their_own(folder):
    model = network(signature=(-1, -1, -1, 3))
    plain, cached = cached_pair(folder, model)
    for shape in ((2, 9, 5, 3), (1, 4, 4, 3), (2, 9, 5, 3), (1, 6, 6, 3)):
        for interpreter in (plain, cached):
            interpreter.resize_tensor_input(0, shape)
            assert outcome(lambda i=interpreter: i.get_tensor(0)).startswith("NotAllocatedError") or shape[0] == 1
        assert_same(run(cached), run(plain))
    assert len(list(folder.glob("*.plan"))) == 3
    again = pylite.Interpreter(model_content=model, cache_dir=folder)
    again.resize_tensor_input(0, (2, 9, 5, 3))
    plain.resize_tensor_input(0, (2, 9, 5, 3))
    assert_same(run(again), run(plain))
    assert type(again._main.current).__name__ == "PlannedProgram"


def test_one_further_set_of_shapes_gets_a_plan_and_a_recording_serves_the_others(folder):
    """In each process, so that plans of usual shapes accumulate, and many shapes do not fill the folder."""
    model = network(signature=(-1, -1, -1, 3))
    plain = pylite.Interpreter(model_content=model, cache_dir="")
    for turn, shapes in enumerate([range(2, 9), range(9, 1, -1)]):
        cached = pylite.Interpreter(model_content=model, cache_dir=folder)
        for n in (1, *shapes):
            shape = (n, 6 + n % 3, 6, 3) if n > 1 else (1, 6, 6, 3)
            for interpreter in (plain, cached):
                interpreter.resize_tensor_input(0, shape)
            assert_same(run(cached, n), run(plain, n))
        assert type(cached._main.current).__name__ == "ShapedProgram"
        assert len(list(folder.glob("*.plan"))) == 2 + turn


def test_models_that_are_always_resized_start_without_their_graph(folder):
    model = network(signature=(-1, -1, -1, 3))
    for turn in range(2):
        interpreter = pylite.Interpreter(model_content=model, cache_dir=folder)
        assert planned(interpreter) == bool(turn)
        interpreter.resize_tensor_input(0, (3, 5, 5, 3))
        found = run(interpreter)
        assert ("graph" in vars(interpreter._model)) != bool(turn)
    plain = pylite.Interpreter(model_content=model, cache_dir="")
    plain.resize_tensor_input(0, (3, 5, 5, 3))
    assert_same(found, run(plain))
    at_once = pylite.Interpreter(model_content=model, cache_dir=folder)     # for these shapes there is no plan yet
    assert planned(at_once)
    assert_same(run(at_once), run(pylite.Interpreter(model_content=model, cache_dir="")))


@pytest.mark.parametrize("ready", [False, True])
@pytest.mark.parametrize("ask", [
    lambda i: i.get_tensor(1), lambda i: i.get_tensor(3), lambda i: i.get_tensor(99), lambda i: i.invoke(),
    lambda i: i.set_tensor(1, np.zeros(3, np.int8)), lambda i: i.set_tensor(0, np.zeros((1, 6, 6, 3), np.float32)),
    lambda i: i.set_tensor(0, np.zeros((1, 6, 5, 3), np.int8)), lambda i: i.resize_tensor_input(0, (1, 2)),
    lambda i: (i.resize_tensor_input(0, (1, 2)), i.allocate_tensors()), lambda i: i.resize_tensor_input(2, (1, 2)),
    lambda i: i.resize_tensor_input(0, (1, 7, 7, 3), strict=True), lambda i: i.get_tensor_details(),
    lambda i: i.num_subgraphs(), lambda i: i.get_tensor_details(3), lambda i: i.reset_all_variables(),
    lambda i: i.tensor(3)(), lambda i: i.tensor(0)(), lambda i: i._get_ops_details(), lambda i: i._repr_html_(),
    lambda i: i._set_num_threads(2), lambda i: i.get_signature_runner("run")(x=np.ones((1, 6, 6, 3), np.int8)),
    lambda i: i.get_signature_runner("other"), lambda i: i.close(), lambda i: (i.close(), i.get_tensor(0)),
    lambda i: (i.close(), i.invoke()), lambda i: i.get_signature_runner().get_input_details(),
    lambda i: i._interpreter.NumNodes(), lambda i: i.modify_graph_with_delegate(3)])
def test_whatever_is_asked_the_answer_is_the_same(folder, ask, ready):
    pair = cached_pair(folder, network())
    if ready:
        for interpreter in pair:
            run(interpreter)
    answers = [outcome(lambda i=i: ask(i)) for i in pair]
    if isinstance(answers[0], np.ndarray):
        np.testing.assert_array_equal(*answers)
    else:
        assert repr(answers[0]) == repr(answers[1])
    if not pair[0]._closed:
        after = [outcome(lambda i=i: run(i)) for i in pair]
        assert str(after[0]) == str(after[1])


def test_pickles_have_the_model_and_the_shapes(folder):
    plain, cached = cached_pair(folder, network())
    run(cached)
    assert_same(run(pickle.loads(pickle.dumps(cached))), run(plain))


def test_interpreters_that_share_a_model_read_its_graph(folder):
    plain, cached = cached_pair(folder, network())
    shared = pylite.Interpreter(model=cached._model, cache_dir=folder)
    assert not planned(shared)
    assert_same(run(shared), run(plain))
    assert_same(run(cached), run(plain))


def test_memory_is_freed_with_the_last_reference(folder):
    filled(folder, network())
    gc.collect()
    gc.disable()
    try:
        for more in (False, True):
            interpreter = pylite.Interpreter(model_content=network(), cache_dir=folder)
            run(interpreter)
            if more:
                interpreter.get_tensor_details()
            model, arena = weakref.ref(interpreter._model), weakref.ref(interpreter._main._bound.arena.base
                                                                       if planned(interpreter) else
                                                                       interpreter._main.current.arena)
            del interpreter
            assert model() is None
            assert arena() is None
    finally:
        gc.enable()


# ---- what has no plan ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("options", [{"guard_bands": True}, {"max_memory": 10**8},
                                     {"op_resolver": pylite.BuiltinOpResolver()}])
def test_options_that_plans_do_not_have(folder, options):
    filled(folder, network())
    interpreter = pylite.Interpreter(model_content=network(), cache_dir=folder, **options)
    assert not planned(interpreter)
    assert_same(run(interpreter), run(pylite.Interpreter(model_content=network(), cache_dir="")))


def test_ops_that_the_program_registers_keep_plans_away(folder):
    """In another process: what is registered stays so."""
    filled(folder, network())
    code = f"""
import numpy as np
import pylite
from tests.tools.plans import network, outcome, planned, run
early = pylite.Interpreter(model_content=network(), cache_dir={os.fspath(folder)!r})
assert planned(early)
plain = pylite.Interpreter(model_content=network(), cache_dir="")
@pylite.custom_op("DEQUANTIZE")
def sevens(x, y):
    y[...] = 7
late = pylite.Interpreter(model_content=network(), cache_dir={os.fspath(folder)!r})
assert not planned(late)
for interpreter in early, plain, late:
    print(outcome(lambda: float(run(interpreter)[0].max())))"""
    done = subprocess.run(command(code), capture_output=True, text=True, check=True,
                          cwd=Path(__file__).parents[1])
    early, plain, late = done.stdout.splitlines()
    assert early == plain
    assert late == "7.0"


def test_delegates_take_nodes_of_a_model_with_a_plan(folder):
    class Sevens(pylite.PythonDelegate):
        def supports(self, node):
            return node.name == "DEQUANTIZE"

        def compile(self, part):
            return Seven()

    class Seven:
        def invoke(self, x, y):
            y[...] = 7
    pair = cached_pair(folder, network())
    run(pair[1])
    for interpreter in pair:
        interpreter.modify_graph_with_delegate(Sevens())
        assert_same(run(interpreter), run(pair[0]))
    again = pylite.Interpreter(model_content=network(), cache_dir=folder, experimental_delegates=[Sevens()])
    assert not planned(again)
    assert_same(run(again), run(pair[0]))
