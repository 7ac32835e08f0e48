"""The fuzzer: some of its cases, the detection of injected faults, and regression tests of faults that it found."""
import subprocess
import sys
import time
import tracemalloc

import numpy as np
import pytest

from pylite.errors import MemoryLimitError, OpError, PyliteError
from pylite.interpreter import Interpreter
from pylite.schema.builder import ModelBuilder
from pylite.schema.reader import read
from pylite.schema.writer import write
from tests.fuzz import case, minimise, mutate
from tests.fuzz.__main__ import keep
from tests.fuzz.runner import Run, fault
from tests.fuzz.seeds import seeds


def test_nothing_unexpected():
    seeds()
    run = Run(0)
    assert run.until(time.monotonic() + 600, most=400) == 400
    assert run.found == [] and sum(run.ended.values()) == 400
    assert run.ended["run"] > 50, run.ended     # many mutated models are still valid


def test_a_case_can_be_repeated():
    assert case.content(5, 17) == case.content(5, 17)
    assert len({case.content(5, number) for number in range(20)}) > 15


@pytest.mark.parametrize(("fault", "reported"), [
    ("raise KeyError('x')", "KeyError: 'x'"), ("__import__('os').abort()", "crash: SIGABRT"),
    ("import signal; signal.signal(signal.SIGPROF, signal.SIG_IGN)\nwhile True: pass", "6 s of CPU time"),
    ("[0] * (4 * 10**7)", "MB of memory, where max_memory is 64 MB")])
def test_injected_faults_are_reported(fault, reported, monkeypatch):
    monkeypatch.setattr(case, "use", lambda interpreter, rng: exec(fault))
    monkeypatch.setattr(mutate, "model", lambda rng: (0, THROUGH))
    run = Run(0)
    run.until(time.monotonic() + 600, most=1)
    (number, what), = run.found
    assert number == 0 and reported in what


@pytest.mark.parametrize(("endless", "patience"), [
    ("while True: pass", 0.1),
    ("class Owner:\n    def __del__(self):\n        while True: pass\n"    # Python drops what the first signal raises
     "owner = Owner()\ndel owner\nwhile True: pass", 0.4),
])
def test_an_endless_case_is_interrupted(monkeypatch, endless, patience):
    monkeypatch.setattr(case, "use", lambda interpreter, rng: exec(endless))
    monkeypatch.setattr(case, "PATIENCE", patience)
    monkeypatch.setattr(mutate, "model", lambda rng: (0, THROUGH))
    run = Run(0)
    run.until(time.monotonic() + 600, most=1)
    assert run.ended == {"interrupted": 1} and run.found == []


def test_models_of_findings_are_kept_in_a_new_folder(tmp_path):
    path = keep(5, 17, tmp_path / "a" / "b")
    assert path.read_bytes() == case.content(5, 17)


def test_a_case_is_interrupted_while_its_model_is_made(monkeypatch):
    monkeypatch.setattr(case, "PATIENCE", 0.1)
    monkeypatch.setattr(mutate, "model", lambda rng: exec("while True: pass"))
    run = Run(0)
    run.until(time.monotonic() + 600, most=1)
    assert run.ended == {"interrupted": 1} and run.found == []


def test_too_many_products_are_not_computed():
    m, n = ModelBuilder(), 1 << 10
    x, y = m.tensor("x", (n, n)), m.tensor("y", (n, n))
    m.operator("BATCH_MATMUL", [x, x], [y])
    m.inputs([x])
    m.outputs([y])
    assert case.run(0, 0, m.build()) == "TooMuchWork"


@pytest.mark.parametrize("number", [3, 14, 15])
def test_a_history_gives_the_same_model(number):
    history, rng = [], np.random.default_rng([2, number])
    origin, content = mutate.model(rng, history)
    record = mutate.replayed(origin, history, rng)
    assert mutate.finished(record, origin, rng) == content == case.content(2, number)


def test_a_failing_case_is_made_smaller():
    """The failure: an operator reads a tensor that does not exist."""
    def fails(model):
        try:
            record = read(model)
        except PyliteError:
            return False
        return any(i >= len(subgraph.tensors or ()) for subgraph in record.subgraphs or []
                   for operator in subgraph.operators or [] for i in operator.inputs or ())
    shrunk = 0
    for number in range(2000):
        history = []
        _, content = mutate.model(np.random.default_rng([1, number]), history)
        if fails(content):
            small, steps = minimise.minimise(1, number, fails)
            assert fails(small) and len(steps) <= 2 and len(small) <= len(content)
            shrunk += len(steps) < len(history) - 1
    assert shrunk > 2


@pytest.mark.parametrize("path", sorted(minimise.FOUND.glob("*.tflite")), ids=lambda path: path.stem)
def test_models_that_once_failed(path):
    seed, number = map(int, path.stem.split("-"))
    assert fault(seed, number, path.read_bytes()) is None


def without_operands(seed, subgraph, operator, side, positions):
    """A seed with operands of one operator left out."""
    record = mutate.clone(seeds()[seed])
    changed = record.subgraphs[subgraph].operators[operator]
    operands = list(getattr(changed, side))
    for i in positions:
        operands[i] = -1
    setattr(changed, side, tuple(operands))
    return write(record)


def test_operands_that_are_left_out():
    """Each operand by itself and with the one before: of one model for each op and number of operands."""
    variants, seen = [], set()
    for seed, record in enumerate(seeds()):
        for subgraph, operator in [(s, o) for s in range(len(record.subgraphs))
                                   for o in range(len(record.subgraphs[s].operators))]:
            one = record.subgraphs[subgraph].operators[operator]
            name = record.operator_codes[one.opcode_index].builtin_code
            form = name, tuple(i >= 0 for i in one.inputs or ()), len(one.outputs or ())
            if form not in seen:
                seen.add(form)
                variants += [(seed, subgraph, operator, side, positions) for side in ("inputs", "outputs")
                             for i in range(len(getattr(one, side) or ())) for positions in ((i,), (i, max(i - 1, 0)))]
    run = Run(1, lambda number: without_operands(*variants[number]))
    assert run.until(time.monotonic() + 600, most=len(variants)) == len(variants)
    assert run.found == [] and run.ended["run"] > 20, run.ended


def through():
    m = ModelBuilder()
    m.inputs([m.tensor("x", (1,))])
    return m.build()


THROUGH = through()


# ---- faults that it found ------------------------------------------------------------------------------------
@pytest.mark.parametrize(("dtype", "data", "want"), [("int4", [0x0F], -1), ("uint4", [0x0F], 15), ("int2", [2], -2)])
def test_a_packed_constant_without_dimensions(dtype, data, want):
    m = ModelBuilder()
    k = m.tensor("k", (), dtype, buffer=m.buffer(np.array(data, np.uint8)))
    m.inputs([m.tensor("x", (1,))])
    m.outputs([k])
    interpreter = Interpreter(model_content=m.build())
    interpreter.allocate_tensors()
    assert interpreter.get_tensor(k) == want


def test_contents_of_a_type_without_size():
    m = ModelBuilder()
    k = m.tensor("k", (1,), "variant", buffer=m.buffer(np.zeros(8, np.uint8)))
    m.inputs([m.tensor("x", (1,))])
    m.outputs([k])
    with pytest.raises(ValueError, match=r"tensor 0 'k': a variant tensor has no contents"):
        Interpreter(model_content=m.build()).allocate_tensors()


def test_convolution_of_no_channels():
    """The groups of channels would be none, and a number is divided by them."""
    m = ModelBuilder()
    x, y = m.tensor("x", (1, 4, 4, 0), "float32"), m.tensor("y", (1, 3, 3, 3), "float32")
    m.operator("CONV_2D", [x, m.constant("w", np.ones((3, 2, 2, 2), np.float32)), -1], [y], stride_h=1, stride_w=1)
    m.inputs([x])
    m.outputs([y])
    with pytest.raises(OpError, match=r"tensor 0 'x' .*: it has no channels"):
        Interpreter(model_content=m.build()).allocate_tensors()


@pytest.mark.parametrize("op", ["WHERE", "UNIQUE"])
def test_results_of_the_run_time_beyond_max_memory(op):
    m = ModelBuilder()
    x, y = m.tensor("x", (1 << 20,), "int8"), m.tensor("y", (1, 1), "int64", shape_signature=(-1, 1))
    i = m.tensor("i", (1,), "int32")
    m.operator(op, [x], [y] if op == "WHERE" else [m.tensor("u", (1,), "int8"), i])
    m.inputs([x])
    m.outputs([y if op == "WHERE" else i])
    interpreter = Interpreter(model_content=m.build(), max_memory=2 << 20)
    interpreter.allocate_tensors()
    interpreter.set_tensor(x, np.ones(1 << 20, np.int8))
    with pytest.raises(MemoryLimitError, match=f"node 0 {op}: its results take"):
        interpreter.invoke()


def test_tables_of_a_resize_beyond_max_memory():
    m = ModelBuilder()
    x, y = m.tensor("x", (1, 2, 2, 1), "int8"), m.tensor("y", (), "int8")
    m.operator("RESIZE_NEAREST_NEIGHBOR", [x, m.constant("size", np.array([4, 10_000_000], np.int32))], [y])
    m.inputs([x])
    m.outputs([y])
    with pytest.raises(MemoryLimitError, match="node 0 RESIZE_NEAREST_NEIGHBOR: its tables of pixels take"):
        Interpreter(model_content=m.build(), max_memory=64 << 20).allocate_tensors()


@pytest.mark.parametrize("known", [False, True])
def test_packing_of_weights_of_the_run_time_beyond_max_memory(known):
    """Packed, each weight of these filters takes 24 bytes and more.  known: all is folded, since x is a constant."""
    m, n = ModelBuilder(), 1 << 20
    x = m.constant("x", np.ones((1, 2, 2, 1), np.int8), 0.5) if known else m.tensor("x", (1, 2, 2, 1), "int8", 0.5)
    w, y = m.tensor("w", (1, 1, 2, n), "int8", 0.5), m.tensor("y", (1, 2, 2, n), "int8", 0.5)
    m.operator("DEPTHWISE_CONV_2D", [x, w, -1], [y], stride_w=1, stride_h=1, padding="SAME", depth_multiplier=n)
    m.inputs([w] if known else [x, w])
    m.outputs([y])
    for limit, fits in ((400 << 20, True), (30 << 20, False)):
        interpreter = Interpreter(model_content=m.build(), max_memory=limit)
        interpreter.allocate_tensors()
        if fits:
            interpreter.invoke()
        else:
            with pytest.raises(MemoryLimitError, match=r"node 0 DEPTHWISE_CONV_2D: .* where max_memory leaves"):
                interpreter.invoke()


@pytest.mark.parametrize("dtype", ["uint64", "string"])
def test_a_shape_without_elements_that_numpy_cannot_represent(dtype):
    m = ModelBuilder()
    x, y = m.tensor("x", (2,), dtype), m.tensor("y", (), dtype)
    m.operator("MATRIX_DIAG", [x], [y])
    m.inputs([x])
    m.outputs([y])
    interpreter = Interpreter(model_content=m.build())
    interpreter.resize_tensor_input(x, [0, 2**31 - 1])

    def read():
        interpreter.allocate_tensors()      # which makes arrays of strings
        return interpreter.get_tensor(y)
    with pytest.raises(PyliteError, match="a shape that numpy cannot represent"):
        read()


def test_strings_for_which_there_is_no_memory():
    """In a process that may have 640 MB more: enough for the numbers that stand for them, 256 MB each, alone."""
    program = """
import resource
import numpy as np
from pylite import errors
from pylite.interpreter import Interpreter
from pylite.schema.builder import ModelBuilder
m = ModelBuilder()
x, y = m.tensor("x", (2,), "string"), m.tensor("y", (2,), "string")
m.operator("REVERSE_V2", [x, m.constant("axes", np.zeros(1, "int32"))], [y])
m.inputs([x])
m.outputs([y])
interpreter = Interpreter(model_content=m.build())
interpreter.resize_tensor_input(x, [2**25])
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 640 * 2**20, ) * 2)
try:
    interpreter.allocate_tensors()
except errors.MemoryLimitError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True)
    assert "no memory for the strings of tensor 0 'x'" in run.stdout, run.stdout + run.stderr
    assert "268435456 bytes" in run.stdout, run.stdout


@pytest.mark.parametrize(("op", "extra"), [("PAD", ()), ("TILE", ()), ("SUM", ()), ("TRANSPOSE", ()), ("RESHAPE", ()),
                                           ("SLICE", ((3,),)), ("REVERSE_V2", ())])
def test_lists_of_sizes_that_are_large(op, extra):
    """A list in Python takes 40 bytes for each of them, however few a node can use."""
    m, n = ModelBuilder(), 1 << 20
    x, sizes, y = m.tensor("x", (2, 2, 2)), m.tensor("sizes", (n,), "int32"), m.tensor("y", ())
    m.operator(op, [x, sizes, *[m.constant("c", np.ones(shape, np.int32)) for shape in extra]], [y])
    m.inputs([x, sizes])
    m.outputs([y])
    interpreter = Interpreter(model_content=m.build())
    interpreter.allocate_tensors()
    tracemalloc.start()
    with pytest.raises(OpError, match=f"node 0 {op}: {n} integers of shape .{n}.; expected a few sizes or axes"):
        interpreter.invoke()
    assert tracemalloc.get_traced_memory()[1] < 20 * n      # the data, and its key
    tracemalloc.stop()


def table_of_many(keys):
    m = ModelBuilder()
    table, x, y = m.tensor("t", (1,), "resource"), m.tensor("x", (keys,), "int64"), m.tensor("y", (1,), "int64")
    words = m.tensor("w", (keys,), "string")
    m.operator("HASHTABLE", [], [table], table_id=1, key_dtype="int64", value_dtype="string")
    m.operator("HASHTABLE_IMPORT", [table, x, words], [])
    m.operator("HASHTABLE_SIZE", [table], [y])
    m.inputs([x, words])
    m.outputs([y])
    return m.build()


def test_entries_of_tables_beyond_max_memory():
    Interpreter(model_content=table_of_many(1 << 10), max_memory=1 << 20).allocate_tensors()
    with pytest.raises(MemoryLimitError, match=r"the model needs .* bytes and max_memory is"):
        Interpreter(model_content=table_of_many(1 << 14), max_memory=1 << 20).allocate_tensors()


@pytest.mark.parametrize("names", ["ab", "aa"])
def test_resource_variables_beyond_max_memory(names):
    """Each one is a copy."""
    m, n = ModelBuilder(), 1 << 20
    x, y = m.tensor("x", (n,), "int8"), m.tensor("y", (n,), "int8")
    for name in names:
        handle = m.tensor(name, (1,), "resource")
        m.operator("VAR_HANDLE", [], [handle], shared_name=name)
        m.operator("ASSIGN_VARIABLE", [handle, x], [])
    m.operator("READ_VARIABLE", [handle], [y])
    m.inputs([x])
    m.outputs([y])
    interpreter = Interpreter(model_content=m.build(), max_memory=7 * n // 2)
    if names == "ab":
        with pytest.raises(MemoryLimitError, match=r"the model needs 41943.. bytes and max_memory is 3670016"):
            interpreter.allocate_tensors()
    else:
        interpreter.allocate_tensors()
        interpreter.invoke()


def test_unique_of_many_that_are_no_numbers():
    """They have one hash and equal nothing: a search for them would take hours."""
    m, n = ModelBuilder(), 1 << 20
    x, y, i = m.tensor("x", (n,)), m.tensor("y", ()), m.tensor("i", (), "int32")
    m.operator("UNIQUE", [x], [y, i])
    m.inputs([x])
    m.outputs([y, i])
    interpreter = Interpreter(model_content=m.build())
    interpreter.allocate_tensors()
    interpreter.set_tensor(x, np.full(n, np.nan, np.float32))
    interpreter.invoke()
    np.testing.assert_array_equal(interpreter.get_tensor(i), np.arange(n))


def test_softmax_whose_sum_wraps():
    """The sum of 8192 equal exponentials is 2^32 in Q12, and the last shift to 16 bits would be negative."""
    m = ModelBuilder()
    x = m.tensor("x", (1, 8192), "int8", 0.25)
    y = m.tensor("y", (1, 8192), "int16", 2.0**-16, -32768)
    m.operator("SOFTMAX", [x], [y], beta=1.0)
    m.inputs([x])
    m.outputs([y])
    interpreter = Interpreter(model_content=m.build())
    interpreter.allocate_tensors()
    interpreter.invoke()
    assert len(np.unique(interpreter.get_tensor(y))) == 1
