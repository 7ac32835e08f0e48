"""Resolvers of C++: functions that replace builtin ops, make resolvers of their own, and look ops up."""
import ctypes
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pylite
from pylite.plugins import resolver
from pylite.schema.builder import ModelBuilder
from tests.capi.chains import X, interpreter, model, run
from tests.capi.compiling import build

PLUGINS = Path(__file__).parent / "plugins"
ADD = "_ZN6tflite17MutableOpResolver9AddCustomEPKcPK18TfLiteRegistration"


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return build(PLUGINS / "resolving.cc", tmp_path_factory.mktemp("resolving") / "resolving.so", "-std=c++11")


def leaky():
    m = ModelBuilder()
    x, y = m.tensor("x", (1, 4)), m.tensor("y", (1, 4))
    m.operator("LEAKY_RELU", [x], [y], alpha=0.25)
    m.inputs([x])
    m.outputs([y])
    return m.build()


@pytest.mark.parametrize("functions", ["RegisterOps", None])
def test_add_builtin_add_all_and_find_op(library, functions):
    ops = pylite.load_custom_ops(library, functions, register=False)
    assert [(op.name, op.versions) for op in ops] == [
        ("TANH", (1, 3)), ("Triple", (1, 2)), ("Triple", (2, 2)), ("LEAKY_RELU", (1, 9))]
    known = [ctypes.CDLL(library).WasKnown(when) for when in range(3)]
    assert known == [0, 1 + 2, 1 + 2]       # the host's before, the plug-in's own, the host's afterwards
    np.testing.assert_array_equal(run(interpreter(model("TANH"), ops)), 2 * X)
    np.testing.assert_array_equal(run(interpreter(model("Triple", "ABS", "TANH"), ops)), 2 * np.abs(5 * X))
    np.testing.assert_array_equal(run(interpreter(model("Triple", version=2), ops)), 3 * X)
    np.testing.assert_array_equal(run(interpreter(leaky(), ops)), np.full((1, 4), 0.25))


def test_a_builtin_is_replaced_in_the_interpreter_that_asks_for_it(library):
    pylite.load_custom_ops(library, "RegisterOps", register=False)
    function = ctypes.CDLL(library)["_Z11RegisterOpsPN6tflite17MutableOpResolverE"]
    function.argtypes = [ctypes.c_void_p]
    i = pylite.InterpreterWithCustomOps([function], model_content=model("TANH"))
    i.allocate_tensors()
    np.testing.assert_array_equal(run(i), 2 * X)
    np.testing.assert_allclose(run(interpreter(model("TANH"), [])), np.tanh(X), rtol=1e-6)


def test_replaced_builtins_may_be_mixed_with_resolvers_in_python(library):
    ops = {op.name: op for op in pylite.load_custom_ops(library, "RegisterOps", register=False)}
    filled = resolver.BuiltinOpResolver()
    filled.add_builtin("TANH", ops["TANH"], 1, 3)
    i = pylite.Interpreter(model_content=model("TANH", "ABS"), op_resolver=filled)
    i.allocate_tensors()
    np.testing.assert_array_equal(run(i), 2 * np.abs(X))


def test_other_libraries_keep_their_own_methods(library):
    """Only AddCustom is a function of the process: AddBuiltin and others would replace those of TensorFlow Lite."""
    script = f"""
import ctypes, pylite
pylite.load_custom_ops({library!r}, "RegisterOps", register=False)
everything = ctypes.CDLL(None)
names = ["10AddBuiltinENS_15BuiltinOperatorEPK18TfLiteRegistrationi",
         "10AddBuiltinENS_15BuiltinOperatorEPK18TfLiteRegistrationii",
         "6AddAllERKS0_"]
print([hasattr(everything, "_ZN6tflite17MutableOpResolver" + name) for name in names])
"""
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[False, False, False]\n"


def test_libraries_that_are_bound_to_another_runtime(tmp_path):
    """Their calls reach the resolver that they were given: pylite's, or the other runtime's.

    The host redirects at most 128 functions of libraries that were loaded before.
    """
    source = PLUGINS / "runtimes.c"
    runtime = build(source, tmp_path / "libruntime.so", "-DRUNTIME")
    bound = build(source, tmp_path / "bound.so", runtime, "-Wl,-z,lazy")
    script = f"""
import ctypes, shutil
runtime = ctypes.CDLL({runtime!r}, ctypes.RTLD_GLOBAL)
copies = [shutil.copy({bound!r}, {str(tmp_path)!r} + f"/bound{{i}}.so") for i in range(66)]
libraries = [ctypes.CDLL(copy) for copy in copies]
from pylite.plugins.host import custom_ops, libraries as host
from pylite.plugins.pointers import _Registration
own = host.support("resolver")
for _ in range(2):
    own.pl_resolver_bind()
added = []
resolver = custom_ops._resolver(added.append, None)
function = ctypes.cast(ctypes.CDLL(None).strlen, ctypes.c_void_p).value
registration = _Registration(prepare=function, invoke=function)
others = ctypes.create_string_buffer(64)
for library, given in (0, ctypes.byref(resolver)), (0, others), (-1, others):
    libraries[library].add_both(given, ctypes.byref(registration))
    print(len(added), runtime.versions_added())
own["{ADD}ii"](others, b"", None, 7, 7)         # no runtime has it
own["{ADD}i"](others, b"", None, 7)
print([(op.name, op.versions) for op in added], runtime.versions_added())
"""
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True)
    assert done.stdout == ("2 0\n2 15\n2 30\n"
                           "[('Range', (1, 2)), ('One', (3, 3))] 30\n"), done.stdout + done.stderr
