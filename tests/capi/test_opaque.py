"""Plug-ins that import functions of the host: those of opaque types, and MutableOpResolver::AddCustom."""
import ctypes
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pylite
from pylite.plugins import resolver
from pylite.plugins.host import libraries
from pylite.schema.builder import ModelBuilder
from tests.capi.chains import X, interpreter, model, run
from tests.capi.compiling import build

PLUGINS = Path(__file__).parent / "plugins"


@pytest.fixture(scope="module")
def opaque(tmp_path_factory):
    return build(PLUGINS / "opaque.c", tmp_path_factory.mktemp("opaque") / "opaque.so", "-lm")


@pytest.fixture(scope="module")
def registerer(tmp_path_factory):
    return build(PLUGINS / "registerer.cc", tmp_path_factory.mktemp("registerer") / "registerer.so")


@pytest.mark.parametrize(("function", "kind"), [("AtanOperator", "opaque"), ("AtanExternal", "opaque"),
                                                ("AtanWithData", "opaque"), ("AtanOpRegistration", "classic"),
                                                ("AtanByValue", "value"), ("AtanOperator", None),
                                                ("AtanExternal", None), ("AtanOpRegistration", None)])
def test_ops_behind_opaque_types(opaque, function, kind):
    ops = pylite.load_custom_ops(opaque, [function], kind, register=False)
    assert [op.name for op in ops] == ["Atan"]
    i = interpreter(model("ABS", "Atan", "Atan"), ops)
    for _ in range(2):
        np.testing.assert_allclose(run(i), np.arctan(np.arctan(np.abs(X))), rtol=1e-6)
    i.resize_tensor_input(0, [1, 4])
    i.allocate_tensors()


def test_user_data_reaches_the_callbacks(opaque):
    count = ctypes.CDLL(opaque).count_calls
    before = count()
    i = interpreter(model("Atan", "Atan"), pylite.load_custom_ops(opaque, ["AtanWithData"], "opaque", register=False))
    run(i)
    assert count() == before + 2


def test_a_delegate_behind_opaque_types(opaque):
    i = pylite.Interpreter(model_content=model("ABS", "RELU", "NEG", "RELU"),
                           experimental_delegates=[pylite.load_delegate(opaque)])
    i.allocate_tensors()
    np.testing.assert_array_equal(run(i), np.zeros((1, 4)))
    assert [op["op_name"] for op in i._get_ops_details()][4:] == ["DELEGATE", "DELEGATE"]
    i.resize_tensor_input(0, [2, 4])
    i.allocate_tensors()


def branching(op="RELU"):
    """IF, with an op in one branch and TANH in the other."""
    m = ModelBuilder()
    c, x, y = m.tensor("c", (), "bool"), m.tensor("x", (4,)), m.tensor("y", (4,))
    m.operator("IF", [c, x], [y], then_subgraph_index=1, else_subgraph_index=2)
    m.inputs([c, x])
    m.outputs([y])
    for name in (op, "TANH"):
        m.subgraph(name)
        a, b = m.tensor("a", (4,)), m.tensor("b", (4,))
        m.operator(name, [a], [b], **({} if name.isupper() else {"custom_options": b""}))
        m.inputs([a])
        m.outputs([b])
    return m.build()


@pytest.mark.parametrize(("skip", "taken"), [(0, True), (2, True), (1, False)])
def test_subgraphs_marked_as_skippable(opaque, skip, taken):
    i = pylite.Interpreter(model_content=branching(),
                           experimental_delegates=[pylite.load_delegate(opaque, {"skip": skip})])
    i.allocate_tensors()
    i.set_tensor(0, np.array(True))
    i.set_tensor(1, X[0])
    i.invoke()
    np.testing.assert_array_equal(i.get_tensor(2), np.maximum(X[0], 0))
    assert ("DELEGATE" in [o.name for o in i._executors[1].subgraph.operators]) == taken


def resized(i, f):
    for size in (4, 6, 4, 3, 6):
        i.resize_tensor_input(1, [size])
        i.allocate_tensors()
        x = np.linspace(-2, 3, size, dtype=np.float32)
        i.set_tensor(0, np.array(True))
        i.set_tensor(1, x)
        i.invoke()
        np.testing.assert_allclose(i.get_tensor(2), f(x), rtol=1e-6)


def test_plugins_in_subgraphs_that_are_called(opaque):
    delegate = pylite.load_delegate(opaque)
    resized(pylite.Interpreter(model_content=branching(), experimental_delegates=[delegate]),
            lambda x: np.maximum(x, 0))
    ops = resolver.BuiltinOpResolver()
    ops.add_custom("Atan", pylite.load_custom_ops(opaque, ["AtanOperator"], "opaque", register=False)[0])
    resized(pylite.Interpreter(model_content=branching("Atan"), op_resolver=ops), np.arctan)


def test_skipping_a_missing_subgraph_is_refused(opaque):
    with pytest.raises(RuntimeError, match="error"):
        pylite.Interpreter(model_content=branching(),
                           experimental_delegates=[pylite.load_delegate(opaque, {"skip": 9})])


@pytest.mark.parametrize("function", ["RegisterOps", "mine::Register"])
@pytest.mark.parametrize("kind", ["registerer", None])
def test_functions_that_register_ops(registerer, function, kind):
    ops = pylite.load_custom_ops(registerer, function, kind, register=False)
    assert [(op.name, op.versions) for op in ops] == [("Double", (1, 1)), ("Throw", (1, 3))]
    np.testing.assert_array_equal(run(interpreter(model("Double"), ops)), 2 * X)


def test_custom_op_registerers_as_in_tf_lite(registerer):
    """Functions of C++ that take an address, those in Python that pass it on, names, and functions in Python."""
    pylite.load_custom_ops(registerer, "RegisterFromC", "registerer", register=False)   # binds its AddCustom
    library = ctypes.CDLL(registerer, ctypes.RTLD_GLOBAL)
    function = library.RegisterFromC
    function.argtypes = [ctypes.c_void_p]
    for given in (function, lambda address: library.RegisterFromC(ctypes.c_void_p(address)), "RegisterFromC",
                  lambda ops: ops.add_custom("Double", lambda x, y: np.multiply(x, 2, out=y))):
        i = pylite.InterpreterWithCustomOps([given], model_content=model("ABS", "Double"))
        i.allocate_tensors()
        np.testing.assert_array_equal(run(i), 2 * np.abs(X))
    with pytest.raises(RuntimeError, match="unresolved custom op: Double"):
        pylite.Interpreter(model_content=model("Double")).allocate_tensors()


def test_functions_of_unknown_kind_are_refused(registerer):
    with pytest.raises(pylite.PluginError, match=r"take_trace of .* pass its kind"):
        pylite.load_custom_ops(registerer, "take_trace", register=False)


def test_functions_that_register_ops_are_found(registerer):
    ops = pylite.load_custom_ops(registerer, register=False)
    assert [(op.name, op.versions) for op in ops] == [("Double", (1, 1)), ("Throw", (1, 3))]


def test_cpp_exceptions_become_errors(registerer):
    if libraries.support("guard") is None:
        pytest.skip("built without a C++ compiler")
    ops = pylite.load_custom_ops(registerer, "RegisterOps", "registerer", register=False)
    i = interpreter(model("Throw", version=2), ops)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="it threw an exception: out of luck"):
            run(i)


def test_symbols_are_exported_on_demand_only():
    script = """
import ctypes
import pylite
from pylite.plugins.host import custom_ops, delegates
everyone = ctypes.CDLL(None)
print(hasattr(everyone, "TfLiteOpaqueTensorType"), hasattr(everyone, "TfLiteIntArrayCreate"))
"""
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_strings(tmp_path):
    library = build(PLUGINS / "words.c", tmp_path / "words.so")
    m = ModelBuilder()
    t = [m.tensor(f"t{i}", (2,), "string") for i in range(3)]
    m.operator("Words", [t[0]], [t[1]], custom_options=b"")
    m.operator("Words", [t[1]], [t[2]], custom_options=b"")
    m.inputs([t[0]])
    m.outputs([t[2]])
    i = interpreter(m.build(), pylite.load_custom_ops(library, ["WordsOperator"], "opaque", register=False))
    for text, words in ((["a bc", "d"], [b"a", b"bc", b"d"]), (["e", "f"], [b"e", b"f"]),
                        (["", "x  z"], [b"", b"x", b"", b"z"])):
        i.set_tensor(0, np.array(text, dtype=bytes))
        i.invoke()
        assert i.get_tensor(2).tolist() == words
        assert i.get_tensor(1).tolist() == words


def test_strings_to_numbers(tmp_path):
    library = build(PLUGINS / "words.c", tmp_path / "words.so")
    m = ModelBuilder()
    text, count = m.tensor("text", (2,), "string"), m.tensor("count", (1,), "int32")
    m.operator("Lengths", [text], [count], custom_options=b"")
    m.inputs([text])
    m.outputs([count])
    i = interpreter(m.build(), pylite.load_custom_ops(library, ["LengthsOperator"], "opaque", register=False))
    i.set_tensor(0, np.array(["abc", "de"], dtype=bytes))
    i.invoke()
    assert i.get_tensor(1).tolist() == [3, 2]
    i.resize_tensor_input(0, [3])
    i.allocate_tensors()
    i.set_tensor(0, np.array(["abc", "", "def"], dtype=bytes))
    i.invoke()
    assert i.get_tensor(1).tolist() == [3, 0, 3]


def test_libraries_already_bound_to_another_runtime(tmp_path):
    """The function is already bound to the AddCustom of another runtime, which cannot take pylite's resolver."""
    other = tmp_path / "registerer.so"
    build(PLUGINS / "registerer.cc", other, "-DOWN_RESOLVER")
    script = f"""
import ctypes
import pylite
ctypes.CDLL({str(other)!r})
try:
    pylite.load_custom_ops({str(other)!r}, "RegisterOps", "registerer")
except pylite.PluginError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    assert "was loaded before" in done.stdout
