"""Models for tests of the plan cache, and what compares interpreters with a plan and without."""
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
    return [sys.executable, "-P", "-c", f"import sys\nsys.path.append({str(Path(__file__).parents[2])!r})\n{code}"]


def outcome(function):
    try:
        return function()
    except (ValueError, RuntimeError, IndexError) as error:
        return f"{type(error).__name__}: {error}"


def differences(model, folder):
    """What differs with a plan and without: results, state, details, every tensor, other shapes.

    Returns (was there a plan?, [what differs, ...]).
    """
    def interpreter(where):
        return pylite.Interpreter(model_content=model, cache_dir=where)
    found = []

    def compare(what, action):
        answers = [outcome(lambda i=i: action(i)) for i in pair]
        if not _equal(*answers):
            found.append((what, *answers))
        return answers[0]
    interpreter(folder).allocate_tensors()
    pair = interpreter(""), interpreter(folder)
    used = planned(pair[1])
    compare("allocate", lambda i: i.allocate_tensors())
    for seed in range(3):
        compare(f"run {seed}", lambda i, seed=seed: _answers(i, seed))
    compare("reset", lambda i: i.reset_all_variables())
    compare("run after reset", lambda i: _answers(i, 3))
    used = used and type(pair[1]._main.current).__name__ == "PlannedProgram"
    for subgraph in range(pair[0].num_subgraphs()):
        details = compare(f"details of {subgraph}", lambda i, s=subgraph: i.get_tensor_details(s))
        compare(f"tensors of {subgraph}", lambda i, s=subgraph, details=details: [
            outcome(lambda index=detail["index"]: i.get_tensor(index, s)) for detail in details])
    compare("run after all were read", lambda i: _answers(i, 4))
    inputs = pair[0].get_input_details()
    shape = inputs[0]["shape"].tolist() if inputs else []
    if shape:
        for turn in range(2):       # the second one finds plans for the shapes of the first
            pair = interpreter(""), interpreter(folder)
            for size in ([shape[0] + 1, *shape[1:]], shape, [shape[0] + 1, *shape[1:]]):
                compare(f"resize to {size}, {turn}", lambda i, size=size: (
                    i.resize_tensor_input(inputs[0]["index"], size), i.allocate_tensors()))
                compare(f"run of {size}, {turn}", lambda i: _answers(i, 5))
                compare(f"another of {size}, {turn}", lambda i: _answers(i, 6))
    return used, found


def _answers(interpreter, seed):
    """The outcome of a run on random inputs, and the outputs."""
    rng = np.random.default_rng(seed)
    for detail in interpreter.get_input_details():
        numbers = rng.random(detail["shape"]) * (2 if detail["dtype"] == np.float32 else 40)
        given = numbers.astype(detail["dtype"]) if detail["dtype"] != np.bytes_ else np.array(
            [b"%d" % n for n in numbers.reshape(-1)] + [None], object)[:-1].reshape(numbers.shape)
        interpreter.set_tensor(detail["index"], given)
    return [outcome(interpreter.invoke)] + [
        outcome(lambda index=detail["index"]: interpreter.get_tensor(index))
        for detail in interpreter.get_output_details()]


def _equal(a, b):
    """Are two answers the same, arrays to the bit?"""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        same = a.dtype == b.dtype and a.shape == b.shape
        return same and (a.tolist() == b.tolist() if a.dtype.hasobject else a.tobytes() == b.tobytes())
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_equal, a, b))
    return repr(a) == repr(b)
