"""Plug-ins that are not supported raise an error with the reason, and the process continues."""
import ctypes
import faulthandler
import os
import re
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

import pylite
from pylite.plugins import resolver
from tests.capi.chains import model
from tests.capi.compiling import build

PLUGINS = Path(__file__).parent / "plugins"
STATUS = Path("/proc/self/status")
IMPL = "it uses context->impl_, which is a tflite::Subgraph in TensorFlow Lite"
NOWHERE = "it accessed unmapped memory at .* with TensorFlow before 2.5 or for microcontrollers"

pytestmark = pytest.mark.skipif(ctypes.sizeof(ctypes.c_void_p) != 8, reason="the plug-in knows 64-bit layouts")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """built(*flags) -> path of the library compiled with these flags."""
    made = {}

    def library(*flags):
        if flags not in made:
            made[flags] = build(PLUGINS / "unhosted.c", tmp_path_factory.mktemp("unhosted") / "unhosted.so",
                                "-fno-sanitize=all", *flags)      # a sanitizer would catch the faults first
        return made[flags]
    return library


def interpreter(library, option, names=("Old",)):
    ctypes.CDLL(library).set_option(option.encode())
    known = resolver.BuiltinOpResolver()
    known.add_custom("Old", pylite.load_custom_ops(library, ["Register_OLD"], register=False)[0])
    return pylite.Interpreter(model_content=model(*names), op_resolver=known)


def run(i):
    i.allocate_tensors()
    i.set_tensor(0, np.zeros((1, 4), np.float32))
    i.invoke()


@pytest.mark.parametrize("stage", ["prepare", "invoke"])
@pytest.mark.parametrize(("what", "words"), [("impl", IMPL), ("micro", NOWHERE)])
def test_ops_that_use_runtime_internals_are_refused(built, stage, what, words):
    i = interpreter(built(), f"{stage}-{what}")
    for _ in range(2):
        with pytest.raises(RuntimeError, match=f"{words}(.|\n)*Old|Old.*{words}"):
            run(i)
    i = interpreter(built(), "")
    run(i)


def caught():
    """The signals that this process has handlers for, as bits."""
    if not STATUS.exists():
        pytest.skip("only Linux lists the signals that are caught")
    return re.search(r"SigCgt:\s*(\w+)", STATUS.read_text())[1]


@pytest.mark.parametrize("option", ["prepare-impl", "invoke-impl", ""])
def test_signal_handlers_are_restored(built, option):
    enabled = faulthandler.is_enabled()
    faulthandler.disable()
    try:
        before = caught()
        with pytest.raises(RuntimeError, match=IMPL) if option else nullcontext():
            run(interpreter(built(), option))
        assert caught() == before
    finally:
        if enabled:
            faulthandler.enable(sys.__stderr__)


def test_ops_that_fail_in_init(built):
    with pytest.raises(RuntimeError, match=f"node 0 Old failed to initialize: {IMPL}"):
        interpreter(built(), "init-impl")


def test_delegates(built):
    content = model("RELU")
    with pytest.raises(RuntimeError, match=IMPL):
        pylite.Interpreter(model_content=content,
                           experimental_delegates=[pylite.load_delegate(built(), {"option": "delegate-impl"})])
    with pytest.raises(ValueError, match="did not return a TfLiteDelegate"):
        pylite.load_delegate(built(), {"option": "bad"})


@pytest.mark.parametrize("stride", [96, 104])
def test_tensors_of_another_size(built, stride):
    library = built(f"-DSTRIDE={stride}")
    with pytest.raises(RuntimeError, match=r"built with TensorFlow before 2.5, when tensors were smaller"):
        run(interpreter(library, ""))
    with pytest.raises(RuntimeError, match=NOWHERE):
        run(interpreter(library, "", ("RELU", "Old")))


@pytest.mark.parametrize(("stride", "words"), [(96, NOWHERE), (104, NOWHERE), (112, None)])
def test_delegates_with_tensors_of_another_size(built, stride, words):
    delegate = pylite.load_delegate(built(f"-DSTRIDE={stride}"), {"option": "shapes"})
    with pytest.raises(RuntimeError, match=words) if words else nullcontext():
        pylite.Interpreter(model_content=model("RELU"), experimental_delegates=[delegate])


def test_nodes_of_another_layout(built):
    with pytest.raises(RuntimeError, match="it wrote to node->intermediates"):
        run(interpreter(built("-DOLD_NODE"), "temporaries"))


def test_results_that_are_no_registrations_are_refused(built):
    with pytest.raises(pylite.PluginError, match=r"NoRegistration of .* did not return a .*TfLiteRegistration"):
        pylite.load_custom_ops(built(), ["NoRegistration"])
    with pytest.raises(pylite.PluginError, match=r"Register_OLD of .* did not return a TfLiteOperator"):
        pylite.load_custom_ops(built(), ["Register_OLD"], "opaque")


def test_libraries_need_function_names(built):
    with pytest.raises(pylite.PluginError, match=r"name the functions .*; it exports NoRegistration, Register_OLD"):
        pylite.load_custom_ops(built())


@pytest.mark.parametrize(("option", "code", "traps"), [
    ("prepare-wild", "", ""), ("invoke-wild", "", ""), ("prepare-impl", "ctypes.string_at(0)", ""),
    ("prepare-impl", "os.kill(os.getpid(), signal.SIGSEGV)", ""), ("prepare-impl", "", "0")])
def test_other_faults_are_not_handled(built, option, code, traps):
    """Faults at other addresses or outside of plug-ins, and all faults with PYLITE_TRAP=0."""
    script = f"""
import ctypes, os, signal, sys
sys.path += {[*sys.path, str(Path(__file__).parents[2])]!r}
from tests.capi import test_unhosted as t
i = t.interpreter({built()!r}, {option!r})
print("ready", flush=True)
try:
    t.run(i)
except RuntimeError:
    {code or "pass"}
print("survived")
"""
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True,
                          env={**os.environ, "PYLITE_TRAP": traps})
    assert done.stdout.split() == ["ready"] and done.returncode
