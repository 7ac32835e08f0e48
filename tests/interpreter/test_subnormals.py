"""Subnormal floats: arithmetic takes them for 0 on x86, other functions do not, and the caller's setting stays."""
import ctypes
import platform

import numpy as np
import pytest

from pylite.interpreter import Interpreter
from pylite.schema.builder import ModelBuilder

TINY = np.float32(3e-40)
x86 = pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="others compute them as fast")


def model(*ops, shape=(1 << 18,)):
    """Operators that all read x.  MUL has a factor of 1; GATHER, the last one, takes the element of index `at`."""
    m = ModelBuilder()
    x, outputs = m.tensor("x", shape), []
    for i, op in enumerate(ops):
        outputs.append(m.tensor(f"y{i}", (1,) if op == "GATHER" else shape))
        inputs = [x]
        if op == "MUL":
            inputs.append(m.constant(f"c{i}", np.ones(1, np.float32)))
        elif op == "GATHER":
            inputs.append(m.tensor("at", (1,), "int32"))
        m.operator(op, inputs, [outputs[-1]])
    m.inputs([x] + (inputs[1:] if ops[-1] == "GATHER" else []))
    m.outputs(outputs)
    return m.build()


def ready(content, threads=1, value=TINY):
    i = Interpreter(model_content=content, num_threads=threads)
    i.allocate_tensors()
    x = i.get_input_details()[0]
    i.set_tensor(x["index"], np.full(x["shape"], value))
    return i


def results(i):
    i.invoke()
    return [i.get_tensor(d["index"]) for d in i.get_output_details()]


@x86
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_steps_of_arithmetic_take_them_for_zero_and_others_do_not(threads):
    """On every thread, also where steps of both kinds follow one another."""
    i = ready(model("MUL", "CEIL", "TANH", "ABS", "MUL"), threads)
    for _ in range(3):
        mul, ceil, tanh, abs_, again = results(i)
        assert not mul.any() and not tanh.any() and not again.any()
        assert (ceil == 1).all() and (abs_ == TINY).all()


@pytest.mark.parametrize("value", [1e-37, -2.0**-126])
def test_the_least_normal_numbers_are_kept(value):
    assert (results(ready(model("MUL"), 2, np.float32(value)))[0] == np.float32(value)).all()


def test_the_caller_has_subnormals_after_a_run():
    i = ready(model("MUL", shape=(8,)))
    i.invoke()
    assert TINY * np.float32(0.5) > 0


def test_the_caller_has_subnormals_after_a_failure():
    i = ready(model("MUL", "GATHER", shape=(8,)))
    i.set_tensor(i.get_input_details()[1]["index"], np.array([99], np.int32))
    with pytest.raises(RuntimeError, match="GATHER"):
        i.invoke()
    assert TINY * np.float32(0.5) > 0


@x86
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="reads glibc's fenv_t")
def test_the_setting_of_the_caller_stays():
    libm, environment = ctypes.CDLL("libm.so.6"), (ctypes.c_uint32 * 8)()
    i = ready(model("MUL", shape=(8,)))
    i.invoke()
    libm.fegetenv(environment)
    before = environment[7]                     # MXCSR
    try:
        environment[7] = before | 0x8040
        libm.fesetenv(environment)
        i.invoke()
        libm.fegetenv(environment)
        assert environment[7] & 0x8040 == 0x8040
    finally:
        environment[7] = before
        libm.fesetenv(environment)
    assert TINY * np.float32(0.5) > 0
