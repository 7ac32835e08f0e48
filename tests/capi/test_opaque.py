"""Plug-ins that import the host's functions: behind opaque types, and C++ functions that register ops."""
import ctypes
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pylite
from pylite import resolver
from pylite._core.capi import libraries
from pylite.schema.builder import ModelBuilder
from tests.capi.compiling import build

PLUGINS = Path(__file__).parent / "plugins"
X = np.array([[-1.5, 0.5, 2, -3]], np.float32)


@pytest.fixture(scope="module")
def opaque(tmp_path_factory):
    return build(PLUGINS / "opaque.c", tmp_path_factory.mktemp("opaque") / "opaque.so", "-lm")


@pytest.fixture(scope="module")
def registerer(tmp_path_factory):
    return build(PLUGINS / "registerer.cc", tmp_path_factory.mktemp("registerer") / "registerer.so")


def model(*names, version=1):
    m = ModelBuilder()
    t = [m.tensor(f"t{i}", (1, 4)) for i in range(len(names) + 1)]
    for x, y, name in zip(t, t[1:], names, strict=False):
        m.operator(name, [x], [y], **({} if name.isupper() else {"custom_options": b"", "version": version}))
    m.inputs([t[0]])
    m.outputs([t[-1]])
    return m.build()


def interpreter(content, ops):
    filled = resolver.BuiltinOpResolver()
    for op in ops:
        filled.add_custom(op.name, op)
    i = pylite.Interpreter(model_content=content, op_resolver=filled)
    i.allocate_tensors()
    return i


def run(i):
    i.set_tensor(0, X)
    i.invoke()
    return i.get_tensor(i.get_output_details()[0]["index"])


@pytest.mark.parametrize(("function", "kind"), [("AtanOperator", "opaque"), ("AtanExternal", "opaque"),
                                                ("AtanWithData", "opaque"), ("AtanOpRegistration", "classic")])
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


@pytest.mark.parametrize("function", ["RegisterOps", "mine::Register"])
def test_functions_that_register_ops(registerer, function):
    ops = pylite.load_custom_ops(registerer, function, "registerer", register=False)
    assert [(op.name, op.versions) for op in ops] == [("Double", (1, 1)), ("Throw", (1, 3))]
    np.testing.assert_array_equal(run(interpreter(model("Double"), ops)), 2 * X)


def test_exceptions_of_cpp_stop_at_the_border(registerer):
    if libraries.support("guard") is None:
        pytest.skip("built without a C++ compiler")
    ops = pylite.load_custom_ops(registerer, "RegisterOps", "registerer", register=False)
    i = interpreter(model("Throw", version=2), ops)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="it threw an exception: out of luck"):
            run(i)


def test_nothing_is_visible_to_the_process_without_need():
    script = """
import ctypes
import pylite
from pylite._core.capi import external, custom_ops
everyone = ctypes.CDLL(None)
print(hasattr(everyone, "TfLiteOpaqueTensorType"), hasattr(everyone, "TfLiteIntArrayCreate"))
"""
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
