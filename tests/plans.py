"""A model and a folder for tests of the plan cache."""
import sys
from pathlib import Path

import numpy as np

import pylite
from pylite.runtime.planned_executor import PlannedExecutor
from pylite.schema.builder import ModelBuilder


def network(channels=8, shape=(1, 6, 6, 3), signature=None):
    """CONV_2D of int8, per channel, ADD with a constant, and a DEQUANTIZE."""
    rng = np.random.default_rng(0)
    m = ModelBuilder()
    x = m.tensor("x", shape, "int8", scale=0.5, zero_point=3, shape_signature=signature)
    w = m.constant("w", rng.integers(-127, 128, (channels, 3, 3, shape[3])).astype(np.int8),
                   scale=rng.random(channels).astype(np.float32) / 100 + .001, axis=0)
    b = m.constant("b", rng.integers(-99, 99, channels).astype(np.int32))
    out = (*shape[:3], channels)
    y = m.tensor("y", out, "int8", scale=0.25, zero_point=-5)
    z = m.tensor("z", out, "int8", scale=0.5, zero_point=1)
    r = m.tensor("r", out)
    m.operator("CONV_2D", [x, w, b], [y], padding="SAME", stride_w=1, stride_h=1)
    m.operator("ADD", [y, m.constant("c", rng.integers(-127, 128, (channels,)).astype(np.int8), scale=0.1)], [z])
    m.operator("DEQUANTIZE", [z], [r])
    m.inputs([x])
    m.outputs([r, z])
    m.signature("run", {"x": x}, {"r": r, "z": z})
    return m.build()


def run(interpreter, seed=1):
    """Outputs for random inputs."""
    rng = np.random.default_rng(seed)
    interpreter.allocate_tensors()
    for detail in interpreter.get_input_details():
        interpreter.set_tensor(detail["index"], (rng.random(detail["shape"]) * 100).astype(detail["dtype"]))
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]


def assert_same(found, wanted):
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def planned(interpreter):
    return type(interpreter._main) is PlannedExecutor


def filled(folder, model, **options):
    """The outputs of `model` without a cache; the folder has its plan."""
    wanted = run(pylite.Interpreter(model_content=model, cache_dir="", **options))
    first = pylite.Interpreter(model_content=model, cache_dir=folder, **options)
    assert_same(run(first), wanted)
    assert not first._main.plans.problem
    return wanted


def plan_file(folder):
    return next(folder.glob("*.plan"))


def command(code):
    """What runs `code` in a new process, which finds the tests, but no sources of pylite before the installed one."""
    return [sys.executable, "-P", "-c", f"import sys\nsys.path.append({str(Path(__file__).parents[1])!r})\n{code}"]


def outcome(function):
    try:
        return function()
    except (ValueError, RuntimeError, IndexError) as error:
        return f"{type(error).__name__}: {error}"
