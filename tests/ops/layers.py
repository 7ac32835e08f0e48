"""Shared by the tests of recurrent layers: random operands, sizes and options, and the reset of states."""
import numpy as np

from pylite.interpreter import Interpreter
from tests.tools.oneop import assert_equal, draw, run_pylite

FLOAT = ("float32", "int8", "int8 asymmetric", "uint8")
TANH = {"fused_activation_function": "TANH"}


def repeating(values, shape):
    """values(n), repeated to fill `shape`, so that stored results are small."""
    return np.resize(values(min(int(np.prod(shape)), 397)), shape).astype(np.float32)


class Operands:
    """Adds an LSTM's or RNN's operands to a model."""

    def __init__(self, m, rng, kind):
        self.m, self.rng, self.kind = m, rng, kind

    def weights(self, *shape):
        """A matrix of the kind's type, of values small enough for a stable layer."""
        name, size = f"w{self.rng.integers(1 << 30)}", 0.7 / np.sqrt(shape[-1])
        if self.kind == "float32":
            return self.m.constant(name, repeating(self.rng.standard_normal, shape) * np.float32(size))
        q = repeating(lambda n: self.rng.integers(-127, 128, n), shape)
        dtype = self.kind.split()[0]
        return self.m.constant(name, q.astype(np.int8).view(dtype), scale=size / 90 * (0.5 + self.rng.random()))

    def vector(self, n, shift=0.0):
        return self.m.constant(f"v{self.rng.integers(1 << 30)}",
                               (self.rng.standard_normal(n) * 0.5 + shift).astype(np.float32))

    def state(self, *shape):
        return self.m.tensor(f"s{self.rng.integers(1 << 30)}", shape, variable=True)


def sizes(rng):
    """(steps, rows, depth, cells)"""
    return (int(rng.integers(1, 7)), int(rng.choice([1, 1, 2, 3, 17])), int(rng.choice([1, 3, 8, 30])),
            int(rng.choice([1, 4, 7, 32, 70])))


def choices(rng):
    return {word: bool(rng.random() < 0.4) for word in ("peephole", "cifg", "projection", "norm")}


def clips(rng):
    return {"cell_clip": float(rng.choice([0.0, 0.5, 10.0])), "proj_clip": float(rng.choice([0.0, 0.3]))}


def check_reset(test):
    """Assert that reset_all_variables() restores the initial state of the layers of a differential test."""
    function, kinds, _, _ = test.drawn
    model, inputs = draw(function, kinds[0], 1)
    interpreter = Interpreter(model_content=model)
    interpreter.allocate_tensors()
    first = run_pylite(model, inputs)
    for _ in range(2):
        for _ in range(2):
            interpreter.set_tensor(interpreter.get_input_details()[0]["index"], inputs[0])
            interpreter.invoke()
        interpreter.reset_all_variables()
    interpreter.invoke()
    assert_equal([interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()], first, "after reset")
