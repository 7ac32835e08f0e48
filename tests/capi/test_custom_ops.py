"""Custom ops in C: the life cycle of a node, and errors."""
import ctypes
import gc
import shutil
from pathlib import Path

import numpy as np
import pytest

import pylite
from pylite.plugins import resolver
from pylite.schema.builder import ModelBuilder
from tests.capi.compiling import build

PLUGINS = Path(__file__).parent / "plugins"


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return build(PLUGINS / "ops.c", tmp_path_factory.mktemp("ops") / "ops.so")


@pytest.fixture
def test_op(library):
    (op,) = pylite.load_custom_ops(library, {"Test": "Register_TEST"}, register=False)
    filled = resolver.BuiltinOpResolver()
    filled.add_custom("Test", op)
    return filled


@pytest.fixture
def trace(library):
    take = ctypes.CDLL(library).take_trace
    take.restype = ctypes.c_char_p
    take()
    return lambda: take().decode().splitlines()


def chain(letters, shape=(1, 4)):
    """A model of Test nodes one after the other, one for each letter."""
    m = ModelBuilder()
    tensors = [m.tensor(f"t{i}", shape) for i in range(len(letters) + 1)]
    for x, y, letter in zip(tensors, tensors[1:], letters, strict=False):
        if letter == "+":
            m.operator("ADD", [x, x], [y])
        else:
            m.operator("Test", [x], [y], custom_options=letter.encode())
    m.inputs([tensors[0]])
    m.outputs([tensors[-1]])
    return m.build()


def run(interpreter, x):
    interpreter.set_tensor(0, np.asarray(x, np.float32))
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


def test_life_cycle_of_a_node(test_op, trace):
    i = pylite.Interpreter(model_content=chain("ab"), op_resolver=test_op)
    assert trace() == ["init a", "init b"]
    i.allocate_tensors()
    assert trace() == ["prepare a 1 4", "prepare b 1 4"]
    np.testing.assert_array_equal(run(i, [[1, 2, 3, 4]]), [[4, 8, 12, 16]])
    run(i, [[1, 2, 3, 4]])
    assert trace() == ["invoke a", "invoke b"] * 2
    i.allocate_tensors()
    assert trace() == []
    i.resize_tensor_input(0, [2, 4])
    i.allocate_tensors()
    assert trace() == ["prepare a 2 4", "prepare b 2 4"]
    np.testing.assert_array_equal(run(i, np.ones((2, 4))), np.full((2, 4), 4))
    i.resize_tensor_input(0, [1, 4])
    i.allocate_tensors()
    assert trace() == ["invoke a", "invoke b", "prepare a 1 4", "prepare b 1 4"]
    del i
    gc.collect()
    assert trace() == ["free a", "free b"]


def test_between_builtin_ops(test_op):
    i = pylite.Interpreter(model_content=chain("+a+b+"), op_resolver=test_op)
    i.allocate_tensors()
    np.testing.assert_array_equal(run(i, [[1, 2, 3, 4]]), [[32, 64, 96, 128]])


def test_temporaries(test_op):
    i = pylite.Interpreter(model_content=chain("TPT"), op_resolver=test_op)
    i.allocate_tensors()
    for turn in range(1, 4):
        np.testing.assert_array_equal(run(i, [[1, 2, 3, 4]]), [[1 + turn, 2 + turn, 3 + turn, 4 + turn]])


def test_constants_made_in_prepare(test_op):
    i = pylite.Interpreter(model_content=chain("R+"), op_resolver=test_op)
    i.allocate_tensors()
    np.testing.assert_array_equal(run(i, [[1, 2, 3, 4]]), [[5] * 4])


def test_constants_made_in_prepare_for_another_plugin(test_op):
    i = pylite.Interpreter(model_content=chain("RaR"), op_resolver=test_op)
    for _ in range(2):
        i.allocate_tensors()
        np.testing.assert_array_equal(run(i, [[1, 2, 3, 4]]), [[2.5] * 4])
        np.testing.assert_array_equal(i.get_tensor(2), [[5] * 4])
        i.resize_tensor_input(0, [2, 4])
        i.allocate_tensors()
        i.resize_tensor_input(0, [1, 4])


def test_outputs_sized_while_running(test_op, trace):
    i = pylite.Interpreter(model_content=chain("aD+b", (4,)), op_resolver=test_op)
    i.allocate_tensors()
    assert trace()[3:] == ["prepare a 4", "prepare D 4"]        # b waits for the shape of D's output
    np.testing.assert_array_equal(run(i, [1.5, 2, 3, 4]), [0, 4, 8])
    assert trace() == ["invoke a", "invoke D", "prepare b 3", "invoke b"]
    np.testing.assert_array_equal(run(i, [1.5, 2, 3, 4]), [0, 4, 8])
    assert trace() == ["invoke a", "invoke D", "invoke b"]
    np.testing.assert_array_equal(run(i, [2.5, 2, 3, 4]), [0, 4, 8, 12, 16])
    assert trace() == ["invoke a", "invoke D", "prepare b 5", "invoke b"]
    np.testing.assert_array_equal(run(i, [0, 2, 3, 4]), [])


def test_two_outputs_sized_while_running(test_op, trace):
    i = pylite.Interpreter(model_content=chain("aD+DDb", (4,)), op_resolver=test_op)
    i.allocate_tensors()
    for _ in range(2):      # the second D reads its size from the first element of the first D's output: 0
        np.testing.assert_array_equal(run(i, [1, 2, 3, 4]), [])
        assert i.get_tensor(3).tolist() == [0, 2]
    del i
    gc.collect()
    assert trace()[-5:] == [f"free {letter}" for letter in "aDDDb"]


def test_failure_in_a_node_that_sizes_its_output(test_op):
    i = pylite.Interpreter(model_content=chain("Dv", (4,)), op_resolver=test_op)
    i.allocate_tensors()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="node 1 Test failed: cannot run"):
            run(i, [2, 2, 3, 4])
        with pytest.raises(RuntimeError, match="node 0 Test failed: ResizeTensor was given a negative dimension"):
            run(i, [-2, 2, 3, 4])


def test_max_memory_limits_an_output_sized_while_running(test_op):
    i = pylite.Interpreter(model_content=chain("D", (4,)), op_resolver=test_op, max_memory=1 << 20)
    i.allocate_tensors()
    with pytest.raises(RuntimeError, match="node 0 Test failed: ResizeTensor needs more bytes than max_memory allows"):
        run(i, [1 << 20, 2, 3, 4])
    assert len(run(i, [1 << 10, 2, 3, 4])) == 1 << 10


def test_bands_and_temporaries_beside_an_output_sized_while_running(test_op):
    i = pylite.Interpreter(model_content=chain("DTPo", (4,)), op_resolver=test_op)
    i.allocate_tensors()
    with pytest.raises(RuntimeError, match=r"wrote past the end of tensor \d+ .* of shape \[.*\] \(\d+ bytes\)"):
        run(i, [3, 2, 3, 4])


@pytest.mark.parametrize(("letter", "words"), [
    ("p", "cannot prepare this 7.*Node number 1 .Test. failed to prepare"),
    ("n", "negative dimension"),
    ("m", "not of this context"),
    ("d", "memory of its own"),
    ("x", "changed the shape of an input"),
    ("y", "20 bytes"),
    ("g", "only be called in Prepare of a delegate"),
    ("w", "lists tensor 99999"),
])
def test_failures_in_prepare(test_op, trace, letter, words):
    i = pylite.Interpreter(model_content=chain("a" + letter), op_resolver=test_op)
    with pytest.raises(RuntimeError, match=words):
        i.allocate_tensors()
    with pytest.raises(RuntimeError, match=words):
        i.allocate_tensors()
    with pytest.raises(RuntimeError, match="not ready"):
        i.invoke()
    del i
    gc.collect()
    assert trace()[-2:] == ["free a", f"free {letter}"]


@pytest.mark.parametrize(("letter", "words"), [
    ("v", "node 1 Test failed: cannot run"),
    ("o", "wrote past the end"),
    ("q", "changed the data pointer"),
    ("z", "make it kTfLiteDynamic in prepare"),
])
def test_failures_in_invoke(test_op, letter, words):
    i = pylite.Interpreter(model_content=chain("a" + letter), op_resolver=test_op)
    i.allocate_tensors()
    for _ in range(2):
        with pytest.raises(RuntimeError, match=words):
            run(i, [[1, 2, 3, 4]])


def test_failure_in_init(test_op, trace):
    with pytest.raises(RuntimeError, match="node 1 Test failed to initialize"):
        pylite.Interpreter(model_content=chain("aib"), op_resolver=test_op)
    gc.collect()
    assert trace() == ["init a", "init i", "free a"]


def test_registrations_of_64_bytes(library):
    (op,) = pylite.load_custom_ops(library, ["Register_OLD"], register=False)
    assert op.name == "Test"
    filled = resolver.BuiltinOpResolver()
    filled.add_custom("Test", op)
    i = pylite.Interpreter(model_content=chain("ab"), op_resolver=filled)
    i.allocate_tensors()
    np.testing.assert_array_equal(run(i, [[1, 2, 3, 4]]), [[4, 8, 12, 16]])


def test_invalid_plugins_are_refused(library, tmp_path):
    with pytest.raises(pylite.PluginError, match=r"does not export Register_ELSE; it exports .*Register_TEST"):
        pylite.load_custom_ops(library, ["Register_ELSE"])
    with pytest.raises(pylite.PluginError, match="returned null"):
        pylite.load_custom_ops(library, ["Register_NOTHING"])
    with pytest.raises(pylite.PluginError, match=r"Register_NUMBER of .* returned 3, which is no address; name a"):
        pylite.load_custom_ops(library, ["Register_NUMBER"])
    with pytest.raises(ValueError, match="kind must be one of"):
        pylite.load_custom_ops(library, ["Register_TEST"], kind="modern")
    for functions in (["f"], None):
        with pytest.raises(OSError):
            pylite.load_custom_ops(tmp_path / "missing.so", functions)


def test_a_rebuilt_library_is_refused_under_its_old_name(tmp_path):
    path = tmp_path / "ops.so"
    for _ in range(2):
        shutil.copy(build(PLUGINS / "types.c", tmp_path / "new.so"), path)
        assert pylite.load_custom_ops(path, ["Register_SAME"], register=False)
        assert pylite.load_custom_ops(path, ["Register_SAME"], register=False)
        path = tmp_path / "other.so"
    path.unlink()
    build(PLUGINS / "types.c", path)
    with pytest.raises(OSError, match="another file than the one that this process has loaded"):
        pylite.load_custom_ops(path, ["Register_SAME"])


def test_a_library_in_the_current_folder(library, monkeypatch):
    monkeypatch.chdir(Path(library).parent)
    assert pylite.load_custom_ops("ops.so", ["Register_OLD"], register=False)[0].name == "Test"


def test_registered_ops_are_known_to_all_interpreters(library):
    model = chain("a")
    assert [op.name for op in pylite.load_custom_ops(library, ["Register_TEST"])] == ["Test"]
    try:
        i = pylite.Interpreter(model_content=model)
        i.allocate_tensors()
        np.testing.assert_array_equal(run(i, [[1, 2, 3, 4]]), [[2, 4, 6, 8]])
    finally:
        resolver.registered.remove("Test")
    i = pylite.Interpreter(model_content=model)
    with pytest.raises(RuntimeError, match="unresolved custom op: Test"):
        i.allocate_tensors()


def test_models_without_plugins_have_no_tables():
    i = pylite.Interpreter(model_content=chain("++"))
    i.allocate_tensors()
    assert i._main.plugin_structs is None


def test_two_interpreters_at_once(test_op):
    model = chain("Pa")
    first, second = (pylite.Interpreter(model_content=model, op_resolver=test_op) for _ in range(2))
    for i in (first, second):
        i.allocate_tensors()
    np.testing.assert_array_equal(run(first, [[1, 2, 3, 4]]), [[4, 6, 8, 10]])
    np.testing.assert_array_equal(run(second, [[1, 2, 3, 4]]), [[4, 6, 8, 10]])
    np.testing.assert_array_equal(run(first, [[1, 2, 3, 4]]), [[6, 8, 10, 12]])


@pytest.mark.parametrize(("kind", "text"), [
    ("class", "is a library for 32-bit "),
    ("machine", "is a library for 64-bit machines of number 22 in ELF, and this Python is for "),
    ("object", "is not a shared library .*compile its source with cc -shared"),
    ("folder", "is a folder; give the path of a library in it"),
    ("static", "does not export Register_TEST; it exports no functions; declare them with TFL_CAPI_EXPORT")])
def test_libraries_that_cannot_be_loaded(kind, text, library, tmp_path):
    """glibc says of a library for another CPU that there is no such file, and users of boards often have one."""
    path = tmp_path / "other.so"
    data = bytearray(Path(library).read_bytes())
    if kind == "class":
        data[4] = 1
    elif kind == "machine":
        data[4], data[18:20] = 2, (22).to_bytes(2, "little" if data[5] == 1 else "big")
    path.write_bytes(data)
    if kind == "folder":
        path = tmp_path
    elif kind in ("object", "static"):
        (tmp_path / "empty.c").write_text("static int hidden(void) { return 1; }\nint value = sizeof(hidden());\n")
        build(tmp_path / "empty.c", path, *["-c"] * (kind == "object"))
    with pytest.raises((OSError, pylite.errors.PluginError), match=text):
        pylite.load_custom_ops(path, ["Register_TEST"])
    if kind != "static":
        with pytest.raises(OSError, match=text):
            pylite.load_delegate(path)


def test_a_registerer_that_adds_nothing_is_of_another_kind(library, tmp_path):
    library = shutil.copy(library, tmp_path / "another.so")     # not loaded before
    with pytest.raises(pylite.errors.PluginError, match=r"Register_TEST of .* added no ops; .*another kind"):
        pylite.load_custom_ops(library, ["Register_TEST"], "registerer")
