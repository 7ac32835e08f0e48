"""What TfLiteTensors show as shapes, types and memory change, and what is reported: by ctypes, in this process."""
import ctypes
import os
import signal
import sys
import threading
from ctypes import c_char_p, c_int, c_int32, c_size_t, c_void_p
from pathlib import Path

import numpy as np
import pytest

import pylite
from pylite import errors
from pylite.clib import described, library_path
from pylite.schema.builder import ModelBuilder
from pylite.schema.encodings import unpack
from tests.capi.compiling import build
from tests.clib.test_programs import one

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the library is one of Linux")
PLUGINS = Path(__file__).parent.parent / "capi" / "plugins"
F32, INT64, ADD = np.float32, 4, 0
SIGNATURES = {
    "ModelCreate": (c_void_p, c_char_p, c_size_t), "ModelCreateFromFile": (c_void_p, c_char_p),
    "InterpreterOptionsCreate": (c_void_p,), "InterpreterOptionsDelete": (None, c_void_p),
    "InterpreterOptionsAddBuiltinOp": (None, c_void_p, c_int, c_void_p, c_int, c_int),
    "InterpreterOptionsAddCustomOp": (None, c_void_p, c_char_p, c_void_p, c_int, c_int),
    "InterpreterOptionsAddDelegate": (None, c_void_p, c_void_p),
    "InterpreterOptionsAddOperator": (None, c_void_p, c_void_p),
    "OperatorCreate": (c_void_p, c_int, c_char_p, c_int, c_void_p), "OperatorDelete": (None, c_void_p),
    "InterpreterCreate": (c_void_p, c_void_p, c_void_p), "InterpreterDelete": (None, c_void_p),
    "InterpreterAllocateTensors": (c_int, c_void_p), "InterpreterInvoke": (c_int, c_void_p),
    "InterpreterResizeInputTensor": (c_int, c_void_p, c_int32, c_void_p, c_int32),
    "InterpreterGetInputTensor": (c_void_p, c_void_p, c_int32), "InterpreterGetTensor": (c_void_p, c_void_p, c_int),
    "InterpreterGetOutputTensor": (c_void_p, c_void_p, c_int32),
    "InterpreterModifyGraphWithDelegate": (c_int, c_void_p, c_void_p),
    "InterpreterGetSignatureRunner": (c_void_p, c_void_p, c_char_p), "SignatureRunnerDelete": (None, c_void_p),
    "SignatureRunnerAllocateTensors": (c_int, c_void_p), "SignatureRunnerInvoke": (c_int, c_void_p),
    "SignatureRunnerResizeInputTensor": (c_int, c_void_p, c_char_p, c_void_p, c_int32),
    "SignatureRunnerGetInputTensor": (c_void_p, c_void_p, c_char_p),
    "SignatureRunnerGetOutputTensor": (c_void_p, c_void_p, c_char_p),
    "TensorType": (c_int, c_void_p), "TensorDim": (c_int32, c_void_p, c_int32), "TensorData": (c_void_p, c_void_p),
    "TensorByteSize": (c_size_t, c_void_p), "TensorCopyFromBuffer": (c_int, c_void_p, c_char_p, c_size_t),
    "TensorCopyToBuffer": (c_int, c_void_p, c_void_p, c_size_t)}


@pytest.fixture(scope="module")
def c():
    """The library's functions, without the TfLite in front."""
    library = ctypes.CDLL(library_path())
    for name, (result, *arguments) in SIGNATURES.items():
        function = getattr(library, f"TfLite{name}")
        function.restype, function.argtypes = result, arguments
        setattr(library, name, function)
    return library


def opened(c, data, options=None):
    return c.InterpreterCreate(c.ModelCreate(data, len(data)), options)


def wrote(c, tensor, values):
    data = np.asarray(values, F32).tobytes()
    return c.TensorCopyFromBuffer(tensor, data, len(data)) == 0


def contents(c, tensor, dtype=F32):
    """The bytes of a tensor as an array; None if they cannot be copied."""
    found = ctypes.create_string_buffer(c.TensorByteSize(tensor))
    if c.TensorCopyToBuffer(tensor, found, len(found)):
        return None
    return np.frombuffer(found.raw, dtype).tolist()


class Runner:
    """An interpreter, or with a key its signature runner, with one input x and one output y."""

    def __init__(self, c, interpreter, key=None):
        self.c, self.interpreter = c, interpreter
        self.runner = None if key is None else c.InterpreterGetSignatureRunner(interpreter, key)
        if key is None:
            self.x, self.y = c.InterpreterGetInputTensor(interpreter, 0), c.InterpreterGetOutputTensor(interpreter, 0)
        else:
            self.x = c.SignatureRunnerGetInputTensor(self.runner, b"x")
            self.y = c.SignatureRunnerGetOutputTensor(self.runner, b"y")

    def resize(self, size):
        dims = (c_int * 1)(size)
        if self.runner is None:
            return self.c.InterpreterResizeInputTensor(self.interpreter, 0, dims, 1) == 0
        return self.c.SignatureRunnerResizeInputTensor(self.runner, b"x", dims, 1) == 0

    def allocate(self):
        return (self.c.InterpreterAllocateTensors(self.interpreter) if self.runner is None
                else self.c.SignatureRunnerAllocateTensors(self.runner)) == 0

    def invoke(self):
        return (self.c.InterpreterInvoke(self.interpreter) if self.runner is None
                else self.c.SignatureRunnerInvoke(self.runner)) == 0

    def run(self, values):
        """The output for this input."""
        assert wrote(self.c, self.x, values) and self.invoke()
        return contents(self.c, self.y)

    def run_resized(self, values):
        assert self.resize(len(values)) and self.allocate()
        return self.run(values)


def calling():
    """x -> subgraph 1, of the signature "sub": NEG -> y."""
    m = ModelBuilder()
    x, y = m.tensor("x", (None,)), m.tensor("y", (None,))
    m.operator("STABLEHLO_COMPOSITE", [x], [y], name="negated", decomposition_subgraph_index=1)
    m.inputs([x])
    m.outputs([y])
    m.subgraph("negated")
    x, y = m.tensor("x", (None,)), m.tensor("y", (None,))
    m.operator("NEG", [x], [y])
    m.inputs([x])
    m.outputs([y])
    m.signature("sub", {"x": x}, {"y": y})
    return m.build()


@pytest.mark.parametrize("sizes", [[3], [100000, 2], [2]])
def test_a_signature_runner_of_a_subgraph_that_the_main_graph_calls(c, sizes):
    """It has shapes and memory of its own, whatever the other needs of the subgraph in between."""
    interpreter = opened(c, calling())
    main, sub = Runner(c, interpreter), Runner(c, interpreter, b"sub")
    assert sub.run_resized([1, 2]) == [-1, -2]
    for size in sizes:
        assert main.run_resized(range(size)) == [-i for i in range(size)]
    assert c.TensorDim(sub.x, 0) == 2 and sub.run([5, 6]) == [-5, -6]
    assert main.run(range(sizes[-1])) == [-i for i in range(sizes[-1])] and sub.run([7, 8]) == [-7, -8]
    assert sub.run_resized([1, 2, 3, 4]) == [-1, -2, -3, -4]
    assert main.run(range(sizes[-1])) == [-i for i in range(sizes[-1])]
    assert sub.allocate() and c.TensorByteSize(sub.x) == 16
    c.SignatureRunnerDelete(sub.runner)
    c.InterpreterDelete(interpreter)


def test_a_signature_runner_that_is_not_allocated(c, capfd):
    """Also where the main graph has prepared its subgraph."""
    interpreter = opened(c, calling())
    main, sub = Runner(c, interpreter), Runner(c, interpreter, b"sub")
    assert main.run_resized([1]) == [-1] and not sub.invoke()
    assert "Invoke called on model that is not ready. Call AllocateTensors first" in capfd.readouterr().err


def test_tensors_without_elements(c):
    """They had the size and the contents of the run before."""
    m = ModelBuilder()
    x, found, y = m.tensor("x", (None,)), m.tensor("found", (None,), "bool"), m.tensor("y", (None, 1), "int64")
    m.operator("GREATER", [x, m.constant("zero", np.zeros(1, F32))], [found])
    m.operator("WHERE", [found], [y])
    m.inputs([x])
    m.outputs([y])
    runner = Runner(c, opened(c, m.build()))
    for values, where in ([1, 0, 1], [0, 2]), ([0, 0, 0], []), ([1, 0, 0], [0]), ([], []):
        if len(values) != c.TensorDim(runner.x, 0) or not c.TensorData(runner.x):
            assert runner.resize(len(values)) and runner.allocate()
        assert wrote(c, runner.x, values) and runner.invoke()
        assert c.TensorByteSize(runner.x) == 4 * len(values) and c.TensorData(runner.x)
        assert contents(c, runner.y, np.int64) == where and c.TensorDim(runner.y, 0) == len(where)


def test_an_intermediate_tensor_of_strings(c):
    """It kept the strings of the first run."""
    m = ModelBuilder()
    x, words, y = m.tensor("x", (2,), "int32"), m.tensor("words", (2,), "string"), m.tensor("y", (2,), "bool")
    m.operator("GATHER", [m.constant("all", np.array(["a", "bb"])), x], [words], axis=0)
    m.operator("EQUAL", [words, m.constant("a", np.array(["a", "a"]))], [y])
    m.inputs([x])
    m.outputs([y])
    runner = Runner(c, opened(c, m.build()))
    assert runner.allocate()
    for numbers in [0, 1], [1, 1]:
        assert c.TensorCopyFromBuffer(runner.x, np.int32(numbers).tobytes(), 8) == 0 and runner.invoke()
        found = contents(c, c.InterpreterGetTensor(runner.interpreter, words), np.uint8)
        assert unpack(np.uint8(found), "string", (2,)).tolist() == [[b"a", b"bb"][n] for n in numbers]


def with_plugin(c, tmp_path, what):
    """The Runner of x -> Faulty, of misbehaves.c -> y."""
    library = ctypes.CDLL(build(PLUGINS / "misbehaves.c", tmp_path / "misbehaves.so", "-lpthread"))
    library.Register_FAULTY.restype = c_void_p
    options = c.InterpreterOptionsCreate()
    c.InterpreterOptionsAddCustomOp(options, b"Faulty", library.Register_FAULTY(), 1, 1)
    return Runner(c, opened(c, one("Faulty", shape=(4,), custom_options=what).build(), options))


def test_the_type_that_a_plugin_gives_its_output(c, tmp_path):
    runner = with_plugin(c, tmp_path, b"Y")
    assert runner.allocate() and c.TensorType(runner.y) == INT64
    assert wrote(c, runner.x, [1, 2, 3, 4]) and runner.invoke()
    assert contents(c, runner.y, np.int64) == [i + 2**40 for i in (1, 2, 3, 4)]


@pytest.mark.parametrize("later", [False, True])
def test_a_delegate_that_fails(c, later, tmp_path, capfd):
    library = build(PLUGINS / "delegate.c", tmp_path / "delegate.so")
    delegate = pylite.load_delegate(library, {"fail": "prepare"})
    address, options = delegate._get_native_delegate_pointer(), c.InterpreterOptionsCreate()
    if later:
        interpreter = opened(c, one("ADD", 2).build())
        assert c.InterpreterModifyGraphWithDelegate(interpreter, address) == 2      # kTfLiteDelegateError
    else:
        c.InterpreterOptionsAddDelegate(options, address)
        assert opened(c, one("ADD", 2).build(), options) is None
    reported = capfd.readouterr().err
    assert f"delegate TfLiteDelegate at {address:#x} failed: DelegationError: its Prepare() failed" in reported


def test_the_first_signature_of_a_key_counts(c):
    m = one("NEG", key="same")
    m.subgraph("two")
    x, y = m.tensor("x", (2, 3)), m.tensor("y", (2, 3))
    m.operator("ABS", [x], [y])
    m.inputs([x])
    m.outputs([y])
    m.signature("same", {"x": x}, {"z": y})
    interpreter = opened(c, m.build())
    runner = c.InterpreterGetSignatureRunner(interpreter, b"same")
    assert c.SignatureRunnerAllocateTensors(runner) == 0
    assert wrote(c, c.SignatureRunnerGetInputTensor(runner, b"x"), range(6)) and c.SignatureRunnerInvoke(runner) == 0
    assert contents(c, c.SignatureRunnerGetOutputTensor(runner, b"z")) == [-i for i in range(6)]


def test_a_path_that_is_not_utf8(c, capfd):
    """The text of the message was lost, and the exception stayed set."""
    assert c.ModelCreateFromFile(b"/no/such\xff.tflite") is None
    assert "ERROR: Could not open '/no/such\\udcff.tflite'" in capfd.readouterr().err


def test_ctrl_c_during_a_run(c, capfd):
    """The call fails, and Python raises KeyboardInterrupt when it returns."""
    m = ModelBuilder()
    x, y = m.tensor("x", (), "int32"), m.tensor("y", (), "int32")
    m.operator("WHILE", [x], [y], cond_subgraph_index=1, body_subgraph_index=2)
    m.inputs([x])
    m.outputs([y])
    m.subgraph("forever")
    x = m.tensor("x", (), "int32")
    m.inputs([x])
    m.outputs([m.constant("true", np.bool_(True))])
    m.subgraph("nothing")
    x = m.tensor("x", (), "int32")
    m.inputs([x])
    m.outputs([x])
    runner = Runner(c, opened(c, m.build()))
    assert runner.allocate()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)   # ignored in shells' background jobs
    try:
        timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            runner.invoke()
        timer.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert capfd.readouterr().err == "ERROR: KeyboardInterrupt\n"


@pytest.mark.parametrize(("problem", "text"), [
    (KeyError("x"), b"KeyError: 'x'"), (MemoryError(), b"MemoryError"), (errors.OpError("no"), b"no"),
    (errors.OpError(), b"OpError"), (ValueError("\udcff"), b"ValueError: \\udcff")])
def test_exceptions_as_text(problem, text):
    """Of Python itself with their types; in UTF-8."""
    assert described(problem) == text


@pytest.mark.parametrize(("raises", "words"), [
    (lambda interpreter: interpreter.invoke(), b"Run TfLiteInterpreterAllocateTensors() first, also after every "
                                               b"TfLiteInterpreterResizeInputTensor() that changes a shape"),
    (lambda interpreter: interpreter.allocate_tensors(),
     b"Register it with TfLiteInterpreterOptionsAddCustomOp(), or convert")])
def test_remedies_name_functions_of_c(raises, words):
    interpreter = pylite.Interpreter(model_content=one("Unknown", custom_options=b"").build())
    with pytest.raises(errors.PyliteError) as info:
        raises(interpreter)
    assert words in described(info.value)


def test_remedies_that_name_a_delegate():
    problem = errors.UnsupportedOpError("pass experimental_delegates=[load_delegate('libedgetpu.so.1')], or")
    assert described(problem) == b"pass TfLiteInterpreterOptionsAddDelegate() the delegate of 'libedgetpu.so.1', or"


@pytest.mark.parametrize(("code", "name", "words"), [
    (300, None, "AddBuiltinOp was given the operator code 300; builtin_ops.h has the codes 0 to "),
    (-7, None, "AddBuiltinOp was given the operator code -7"), (32, b"", "AddCustomOp was given a custom op without a"),
    (32, None, "AddBuiltinOp was given a custom op without a name: pass the name that the model has")])
def test_ops_that_cannot_be_added(c, code, name, words, capfd):
    options, registration = c.InterpreterOptionsCreate(), (ctypes.c_uint64 * 11)()
    if name is None:
        c.InterpreterOptionsAddBuiltinOp(options, code, registration, 1, 1)
    else:
        c.InterpreterOptionsAddCustomOp(options, name, registration, 1, 1)
    assert opened(c, one("NEG").build(), options) is None
    assert f"TfLiteInterpreterOptions{words}" in capfd.readouterr().err


@pytest.mark.parametrize("code", [-1, 1000000])
def test_an_operator_that_cannot_be_added(c, code, capfd):
    options, operator = c.InterpreterOptionsCreate(), c.OperatorCreate(code, None, 1, None)
    c.InterpreterOptionsAddOperator(options, operator)
    assert opened(c, one("NEG").build(), options) is None
    assert f"TfLiteInterpreterOptionsAddOperator was given the operator code {code}" in capfd.readouterr().err
    c.OperatorDelete(operator)
