"""C++ exceptions thrown in any function of a plug-in become errors of pylite."""
import gc
from pathlib import Path

import numpy as np
import pytest

import pylite
from pylite.plugins import resolver
from pylite.plugins.host import libraries
from tests.capi.chains import X, model
from tests.capi.compiling import build

PLUGINS = Path(__file__).parent / "plugins"


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    if libraries.support("guard") is None:
        pytest.skip("built without a C++ compiler")
    return build(PLUGINS / "throws.cc", tmp_path_factory.mktemp("throws") / "throws.so")


def delegated(library, where):
    return pylite.Interpreter(model_content=model("RELU", "ABS"),
                              experimental_delegates=[pylite.load_delegate(library, {"where": where})])


def run(i):
    i.set_tensor(0, X)
    i.invoke()
    return i.get_tensor(2)


@pytest.mark.parametrize("where", ["create", "delegate", "init", "prepare"])
def test_exceptions_while_a_delegate_is_applied(library, where):
    with pytest.raises(ValueError, match=f"it threw an exception: thrown in {where}"):
        delegated(library, where)


@pytest.mark.parametrize("where", ["invoke", "copy"])
def test_exceptions_while_running(library, where):
    i = delegated(library, where)
    i.allocate_tensors()
    for _ in range(2):
        with pytest.raises(RuntimeError, match=f"it threw an exception: thrown in {where}"):
            run(i)


@pytest.mark.parametrize("where", ["free", "free handle", "destroy"])
def test_exceptions_while_freeing_are_ignored(library, where):
    i = delegated(library, where)
    i.allocate_tensors()
    np.testing.assert_array_equal(run(i), np.zeros((1, 4)))
    del i
    gc.collect()


@pytest.mark.parametrize(("function", "words"), [
    ("ThrowsInInit", "it threw an object that is not a std::exception"),
    ("ThrowsInPrepare", "it threw an exception: thrown with data")])
def test_opaque_callbacks_with_data(library, function, words):
    ops = resolver.MutableOpResolver()
    (op,) = pylite.load_custom_ops(library, [function], "opaque", register=False)
    ops.add_custom("Throws", op)
    with pytest.raises(RuntimeError, match=words):
        pylite.Interpreter(model_content=model("Throws"), op_resolver=ops).allocate_tensors()


def test_functions_that_give_registrations(library):
    with pytest.raises(pylite.PluginError, match="it threw an exception: thrown at once"):
        pylite.load_custom_ops(library, ["ThrowsAtOnce"], "opaque")
