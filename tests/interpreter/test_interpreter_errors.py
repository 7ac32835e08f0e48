"""Errors of the interpreter: the built-in exception types of the peer, and texts with cause and remedy."""
import gc
import pathlib
import re
import warnings

import numpy as np
import pytest

import pylite.interpreter
from pylite.errors import ResizeError
from tests.tools import small_models
from tests.tools.resources import peer

GOOD = np.zeros((2, 3), np.uint8)


class Bench:
    """One implementation, and its models."""

    def __init__(self, module, folder):
        self.module = module
        self.folder = folder
        self.quantized = small_models.reshape("uint8", scale=0.5, zero_point=3)

    def open(self, model=None, **options):
        options = {"experimental_op_resolver_type": self.module.OpResolverType.BUILTIN_REF, **options}
        return self.module.Interpreter(model_content=model or self.quantized, **options)

    def ready(self, model=None, **options):
        interpreter = self.open(model, **options)
        interpreter.allocate_tensors()
        return interpreter

    def set(self, value, index=0):
        self.ready().set_tensor(index, value)

    def set_narrow(self, value):
        interpreter = self.ready(small_models.reshape("int4"))
        interpreter.set_tensor(0, np.full((2, 3), 7, np.int8))      # the memory of most inputs is known from now on
        interpreter.set_tensor(0, value)

    def set_again(self, index):
        interpreter = self.ready()
        interpreter.set_tensor(0, GOOD)
        interpreter.set_tensor(index, GOOD)

    def read(self, *arguments):
        interpreter = self.ready()
        interpreter.get_tensor(0)       # now the tensor is in a table of those that can be read
        interpreter.get_tensor(*arguments)

    def runner(self, key=None, model=None):
        return self.open(model or small_models.two_signatures()).get_signature_runner(key)

    def with_view(self, call):
        interpreter = self.ready()
        view = interpreter.tensor(0)()
        call(interpreter)
        return view

    def path(self, name, content):
        (self.folder / name).write_bytes(content)
        return self.folder / name


# name -> (the call, pattern of pylite's text)
CASES = {
    "missing file": (lambda b: b.module.Interpreter("/nope.tflite"), r"Could not open '/nope\.tflite'"),
    "missing file, pathlib": (lambda b: b.module.Interpreter(pathlib.Path("/no/pe.tflite")), r"Could not open"),
    "folder": (lambda b: b.module.Interpreter("/tmp"), r"/tmp"),
    "empty file": (lambda b: b.module.Interpreter(b.path("empty.tflite", b"")), r"empty\.tflite"),
    "not a model": (lambda b: b.module.Interpreter(b.path("text.tflite", b"hello, this is text" * 9)),
                    r"not a valid Flatbuffer"),
    "not a model, content": (lambda b: b.module.Interpreter(model_content=b"x" * 100), r"not a valid Flatbuffer"),
    "truncated": (lambda b: b.module.Interpreter(model_content=b.quantized[:len(b.quantized) // 2]),
                  r"not a valid Flatbuffer"),
    "empty content": (lambda b: b.module.Interpreter(model_content=b""), r"must be specified"),
    "path and content": (lambda b: b.module.Interpreter("/x", b.quantized), r"Can't both provide"),
    "neither path nor content": (lambda b: b.module.Interpreter(), r"`model_path` or `model_content` must be"),
    "path is no path": (lambda b: b.module.Interpreter(3), r"int"),
    "path is an array": (lambda b: b.module.Interpreter(np.array([1])), r"model_path is .* not ndarray"),
    "content is text": (lambda b: b.module.Interpreter(model_content="abc"), r"str"),
    "no threads": (lambda b: b.open(num_threads=0), r"num_threads should >= 1"),
    "negative threads": (lambda b: b.open(num_threads=-1), r"num_threads should >= 1"),
    "threads as text": (lambda b: b.open(num_threads="2"), r"type of num_threads should be int"),
    "threads as float": (lambda b: b.open(num_threads=2.0), r"type of num_threads should be int"),
    "resolver as number": (lambda b: b.open(experimental_op_resolver_type=2), r"Unrecognized passed in op resolver"),
    "resolver None": (lambda b: b.open(experimental_op_resolver_type=None), r"Unrecognized passed in op resolver"),
    "flag as text": (lambda b: b.open(experimental_preserve_all_tensors="no"),
                     r"experimental_preserve_all_tensors must be True or False, not 'no'"),
    "strict as text": (lambda b: b.open().resize_tensor_input(0, [2, 3], strict="no"), r"strict must be True or False"),
    "delegates as a function": (lambda b: b.open(experimental_delegates=len), r"must be a list of delegates"),
    "delegates that are none": (lambda b: b.open(experimental_delegates=[3]), r"load_delegate"),
    "unknown version": (lambda b: b.open(small_models.unknown_ops()),
                        r"Didn't find op for builtin opcode 'RESHAPE' version '99'.*Mystery.*nodes 1, 2"),
    "custom op": (lambda b: b.ready(small_models.custom_op()), r"Encountered unresolved custom op: Mystery"),
    "set before allocate": (lambda b: b.open().set_tensor(0, GOOD),
                            r"Cannot set tensor: Tensor is unallocated\. Try calling allocate_tensors\(\) first"),
    "get before allocate": (lambda b: b.open().get_tensor(0), r"Tensor data is null\. Run allocate_tensors\(\) first"),
    "view before allocate": (lambda b: b.open().tensor(0)(), r"Tensor data is null\. Run allocate_tensors\(\) first"),
    "invoke before allocate": (lambda b: b.open().invoke(), r"Invoke called on model that is not ready\."),
    "set float32": (lambda b: b.set(np.zeros((2, 3), np.float32)),
                    r"Cannot set tensor: Got value of type FLOAT32 but expected type UINT8 for input 0, name: input "),
    "set float64": (lambda b: b.set(np.zeros((2, 3))), r"Got value of type FLOAT64 but expected type UINT8"),
    "set bool": (lambda b: b.set(np.zeros((2, 3), bool)), r"Got value of type BOOL but expected type UINT8"),
    "set list": (lambda b: b.set([[0, 0, 0], [0, 0, 0]]), r"Got value of type INT64 but expected type UINT8"),
    "set int": (lambda b: b.set(5), r"Got value of type INT64 but expected type UINT8"),
    "set None": (lambda b: b.set(None), r"Got None but expected an array of UINT8 \[2, 3\] for input 0"),
    "set objects": (lambda b: b.set(np.array([{}, 1], object)), r"Got value of type OBJECT \(of dict, int\)"),
    "set by details": (lambda b: b.set(GOOD, b.ready().get_input_details()[0]), r"details\['index'\]"),
    "set by a list of details": (lambda b: b.set(GOOD, b.ready().get_input_details()), r"get_input_details\(\)\[0\]"),
    "set by a name": (lambda b: b.set(GOOD, "input"), r"int, not str.*get_signature_runner"),
    "get by nothing": (lambda b: b.ready().get_tensor(None), r"int, not NoneType"),
    "get a negative index": (lambda b: b.ready().get_tensor(-1), r"Invalid tensor index -1 is negative.*0 to \d"),
    "set text": (lambda b: b.set("abc"), r"Got value of type STRING but expected type UINT8"),
    "set dates": (lambda b: b.set(np.zeros((2, 3), "M8[s]")), r"but expected type UINT8"),
    "set int8": (lambda b: b.set(np.zeros((2, 3), np.int8)), r"Got value of type INT8 but expected type UINT8"),
    "set beyond 4 bits": (lambda b: b.set_narrow(np.full((2, 3), 8, np.int8)),
                          r"Values for INT4 input must be between -8 and 7\. .*name: input are 8 to 8"),
    "set other size": (lambda b: b.set(np.zeros((2, 100), np.uint8)),
                       r"Dimension mismatch\. Got 100 but expected 3 for dimension 1 of input 0\."),
    "set other rank": (lambda b: b.set(np.zeros((2, 3, 1), np.uint8)),
                       r"Dimension mismatch\. Got 3 but expected 2 for input 0\."),
    "set scalar": (lambda b: b.set(np.uint8(3)), r"Dimension mismatch\. Got 0 but expected 2 for input 0\."),
    "set beyond": (lambda b: b.set(GOOD, 9999), r"Invalid tensor index 9999 exceeds max tensor index \d+"),
    "set below": (lambda b: b.set(GOOD, -1), r"Invalid tensor index -1"),
    "set text index": (lambda b: b.set(GOOD, "a"), r"str"),
    "set float index": (lambda b: b.set_again(0.0), r"must be an int, not float"),
    "get beyond": (lambda b: b.ready().get_tensor(9999), r"Invalid tensor index 9999 exceeds max tensor index \d+"),
    "get below": (lambda b: b.ready().get_tensor(-1), r"Invalid tensor index -1"),
    "get float index": (lambda b: b.read(0.0), r"must be an int, not float"),
    "get in subgraph 0.0": (lambda b: b.read(0, 0.0), r"subgraph_index must be a whole number, not 0.0"),
    "get other subgraph": (lambda b: b.ready().get_tensor(0, 5), r"Invalid subgraph index 5"),
    "view beyond": (lambda b: b.ready().tensor(9999)(), r"Invalid tensor index 9999"),
    "details of other subgraph": (lambda b: b.open().get_tensor_details(5), r"subgraph_index is out of range: 5"),
    "details of subgraph -1": (lambda b: b.open().get_tensor_details(-1), r"subgraph_index is out of range: -1"),
    "details beyond": (lambda b: b.open()._get_tensor_details(9999, 0), r"Invalid tensor index 9999"),
    "op details beyond": (lambda b: b.open()._get_op_details(9999), r"Invalid node index"),
    "strict resize": (lambda b: b.open().resize_tensor_input(0, [2, 4], strict=True),
                      r"Attempting to resize dimension 1 of tensor 0 with value 3 to 4\. ResizeInputTensorStrict only "
                      r"allows mutating unknown dimensions identified by -1"),
    "strict resize, other rank": (lambda b: b.open().resize_tensor_input(0, [2, 3, 1], strict=True), r"2 dimensions"),
    "resize to negative": (lambda b: b.open().resize_tensor_input(0, [-1, 3]), r"negative"),
    "resize beyond": (lambda b: b.open().resize_tensor_input(9999, [1]), r"9999"),
    "resize to a matrix": (lambda b: b.open().resize_tensor_input(0, [[2, 3]]), r"Shape should be 1D instead of 2"),
    "resize to text": (lambda b: b.open().resize_tensor_input(0, "a"), r"a"),
    "allocate what does not fit": (lambda b: _resized(b).allocate_tensors(), r"RESHAPE"),
    "invoke after resize": (lambda b: _resized(b).invoke(), r"Invoke called on model that is not ready"),
    "set after resize": (lambda b: _resized(b).set_tensor(0, GOOD), r"Tensor is unallocated"),
    "get after resize": (lambda b: _resized(b).get_tensor(0), r"Tensor data is null"),
    "invoke with a view": (lambda b: b.with_view(lambda i: i.invoke()), r"There is at least 1 reference to internal"),
    "allocate with a view": (lambda b: b.with_view(lambda i: i.allocate_tensors()),
                             r"at least 1 reference to internal"),
    "resize with a view": (lambda b: b.with_view(lambda i: i.resize_tensor_input(0, [2, 3])),
                           r"at least 1 reference to internal"),
    "no such signature": (lambda b: b.runner("x"), r'Invalid signature_key provided: "x"'),
    "empty signature key": (lambda b: b.runner(""), r"None signature_key provided"),
    "no signature key, two": (lambda b: b.runner(), r"model has 2 Signatures"),
    "no signature key, none": (lambda b: b.runner(None, b.quantized), r"model has 0 Signatures"),
    "no interpreter": (lambda b: b.module.SignatureRunner(), r"None interpreter provided"),
    "too few signature inputs": (lambda b: b.runner("rows")(), r"Invalid number of inputs.*expected 1 vs provided 0"),
    "wrong signature input": (lambda b: b.runner("rows")(z=GOOD), r"Invalid Input name \(z\) for SignatureDef"),
    "signature input of another type": (lambda b: b.runner("rows")(x=GOOD), r"Got value of type UINT8 but expected"),
    "contents as a path": (lambda b: b.module.Interpreter(b.quantized), r"\d+ bytes.*model_content="),
    "a long path": (lambda b: b.module.Interpreter("/no" * 500), r"^.{0,300}$"),
    "the name of a delegate": (lambda b: b.open(experimental_delegates="libedgetpu.so.1"),
                               r"\[load_delegate\('libedgetpu.so.1'\)\]"),
    "an op for Coral": (lambda b: b.ready(small_models.custom_op("edgetpu-custom-op")), r"Edge TPU.*libedgetpu"),
    "types that an op does not take": (lambda b: b.ready(small_models.mixed_types()),
                                       r"input 1 must be .*float32.*tensor 1 'b'"),
    "an operand too many": (lambda b: b.ready(small_models.superfluous_operand()), r"ABS .*: input 1 must be absent; "),
    "missing delegate": (lambda b: b.module.load_delegate("/nope.so"), r"/nope\.so"),
}
# Deliberate differences: the peer's type comes from its internals.
INSTEAD = {"delegates that are none": ValueError, "the name of a delegate": ValueError}


def _resized(bench):
    interpreter = bench.ready()
    interpreter.resize_tensor_input(0, [2, 4])
    return interpreter


def failure(call, bench):
    """The exception that `call` raises."""
    with pytest.raises(Exception) as caught:
        call(bench)
    return caught.value


@pytest.mark.parametrize("name", CASES)
def test_text(name, tmp_path):
    call, pattern = CASES[name]
    error = failure(call, Bench(pylite.interpreter, tmp_path))
    assert re.search(pattern, str(error), re.DOTALL), str(error)
    assert "\n" not in str(error).strip() or "delegate" in name


@pytest.fixture
def swept(monkeypatch):
    """An incomplete delegate of the peer raises again when it is collected: collect it in this test."""
    monkeypatch.setattr("sys.unraisablehook", lambda _: None)
    yield
    gc.collect()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_type(name, tmp_path, swept):
    theirs = Bench(peer(), tmp_path)
    call, _ = CASES[name]
    error = failure(call, Bench(pylite.interpreter, tmp_path))
    wanted = INSTEAD.get(name) or type(failure(call, theirs))
    assert isinstance(error, wanted), f"{type(error).__mro__}: {error}; the peer raises {wanted}"


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("dtype", "value", "words"), [
    ("uint16", np.float16([1, 2]), "if its values are whole numbers"),
    ("uint8", np.float16([1, 300]), "it holds 1.0 to 300.0"), ("int32", np.float32([1, 2**40]), f"to {2**40}.0"),
    ("int32", np.uint64([1, 2**63]), f"it holds 1 to {2**63}")])
def test_the_remedy_for_another_type_warns_of_nothing(dtype, value, words):
    """numpy would cast the limits of a type to float16, and warn that they are too large."""
    interpreter = pylite.interpreter.Interpreter(model_content=small_models.reshape(dtype, (2,), (2,)))
    interpreter.allocate_tensors()
    with pytest.raises(ValueError, match=re.escape(words)):
        interpreter.set_tensor(0, value)


@pytest.mark.parametrize(("value", "words"), [
    (None, "Got None but expected an array of FLOAT32 [2, 3]"), ("abc", "Got value of type STRING but expected type F"),
    (np.zeros((5, 3), int), "Got value of type INT64 but expected type FLOAT32")])
def test_a_signature_runner_that_refuses_a_value_keeps_the_shape(value, words):
    runner = pylite.interpreter.Interpreter(model_content=small_models.two_signatures()).get_signature_runner("rows")
    runner(x=np.zeros((2, 3), np.float32))
    with pytest.raises(ValueError, match=re.escape(words)):
        runner(x=value)
    assert runner.get_input_details()["x"]["shape"].tolist() == [2, 3]


def test_a_signature_runner_takes_lists():
    runner = pylite.interpreter.Interpreter(model_content=small_models.two_signatures()).get_signature_runner("rows")
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(runner(x=list(array))["y"], runner(x=array)["y"])


def test_a_missing_delegate_library_is_a_value_error_and_an_os_error():
    with pytest.raises(ValueError, match=r"Failed to load delegate from /nope\.so"):
        pylite.load_delegate("/nope.so")
    with pytest.raises(OSError, match="No such file"):
        pylite.load_delegate("/nope.so")


def test_a_library_without_a_delegate_is_refused():
    with pytest.raises(ValueError, match="tflite_plugin_create_delegate"):
        pylite.load_delegate("libc.so.6", {"option": 1})


@pytest.mark.parametrize("registerer", ["RegisterWhatNoLibraryHas", 3, None])
def test_custom_op_registerers_that_are_no_functions(registerer):
    with pytest.raises(ValueError, match="registerers"):
        pylite.InterpreterWithCustomOps([registerer], model_content=small_models.reshape())
    assert pylite.InterpreterWithCustomOps(model_content=small_models.reshape()).num_subgraphs() == 1


@pytest.mark.parametrize("value", ["RegisterOps", "model.tflite", print, 3, pathlib.Path("model.tflite")])
def test_custom_op_registerers_that_are_no_list(value):
    """It is the first argument, where Interpreter takes the path of a model; a name is not a list of letters."""
    with pytest.raises(ValueError, match=r"must be a list of functions or of their names: pass \[.*model_path="):
        pylite.InterpreterWithCustomOps(value)


def test_a_repeated_error_has_the_same_message(tmp_path):
    interpreter = Bench(pylite.interpreter, tmp_path).open()
    texts = []
    for call in (interpreter.invoke, interpreter.invoke):
        with pytest.raises(RuntimeError) as caught:
            call()
        texts.append(str(caught.value))
    assert texts[0] == texts[1]


def test_constants_cannot_be_set(tmp_path):
    with pytest.raises(ValueError, match="constant"):
        Bench(pylite.interpreter, tmp_path).ready().set_tensor(1, np.array([6, 1], np.int32))


@pytest.mark.parametrize("size", [
    np.array([2**32 + 2, 2]), np.array([2**63], np.uint64), np.array([-2**63]), np.array([2.0**40]), [2**31],
    [1.5, 2], np.array([np.nan, 2]), [np.inf], (10**30,), [-1, 2]])
@pytest.mark.filterwarnings("error")
def test_shapes_that_cannot_be_are_refused(size):
    """Numpy's cast would wrap them, or cut off what follows the point."""
    interpreter = pylite.Interpreter(model_content=small_models.no_ops("float32", np.ones(2, np.float32), (2, 2)))
    with pytest.raises(ResizeError, match=r"input 0 .* (whole|beyond|negative)"):
        interpreter.resize_tensor_input(0, size)


def test_the_memory_is_found_after_the_value_is():
    """A value's __array__ may resize the tensor, or close the interpreter."""
    interpreter = pylite.Interpreter(model_content=small_models.no_ops("float32", np.ones(2, np.float32), (2, 2)))
    interpreter.allocate_tensors()

    class Resizing:
        def __array__(self, dtype=None, copy=None):
            interpreter.resize_tensor_input(0, (200, 300))
            interpreter.allocate_tensors()
            return np.full((200, 300), 7, np.float32)

    class Closing:
        def __array__(self, dtype=None, copy=None):
            interpreter.close()
            return np.ones((200, 300), np.float32)

    interpreter.set_tensor(0, Resizing())
    assert (interpreter.get_tensor(0) == 7).all()
    with pytest.raises(ValueError, match="the interpreter is closed"):
        interpreter.set_tensor(0, Closing())


def test_only_inputs_can_be_resized(tmp_path):
    with pytest.raises(RuntimeError, match="not an input"):
        Bench(pylite.interpreter, tmp_path).open().resize_tensor_input(2, [1])


def test_a_model_object_and_a_path_exclude_each_other():
    model = pylite.Model(small_models.reshape())
    with pytest.raises(ValueError, match="`model`"):
        pylite.Interpreter("/x", model=model)


@pytest.mark.parametrize("resolver", ["AUTO", "BUILTIN", "BUILTIN_REF", "BUILTIN_WITHOUT_DEFAULT_DELEGATES"])
def test_warnings_equal_the_peers(resolver):
    litert = peer()
    for module in (pylite.interpreter, litert):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            module.Interpreter(model_content=small_models.reshape(), experimental_preserve_all_tensors=True,
                               experimental_op_resolver_type=module.OpResolverType[resolver])
        expected = [UserWarning] if resolver in ("AUTO", "BUILTIN") else []
        assert [w.category for w in caught] == expected, module
