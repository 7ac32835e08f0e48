"""int8 LSTM with 12 intermediate tensors: gates in 8 bits, normalized in float32."""
import ctypes
import functools

import numpy as np
import pytest

from pylite.interpreter import Interpreter
from pylite.numerics.fixed_point import mbqm32, mbqm64, rdbpot
from pylite.numerics.quantization import f32, quantize_multiplier
from pylite.schema.builder import ModelBuilder
from tests.ops.layers import TANH, check_reset, repeating
from tests.tools.oneop import differential, run_pylite

FORGET, CELL, OUTPUT = 1, 2, 3
WORDS = np.arange(-32768, 32768)


class Layer:
    """A random layer: its operands, and its reference result."""

    def __init__(self, rng, rows=None, cells=None, outputs=None):
        def scale(least, most):
            return f32(rng.uniform(least, most))

        def weights(*shape):
            return repeating(lambda n: rng.integers(-127, 128, n), shape).astype(np.int8), scale(1e-3, 0.02)
        self.rows, self.cells = rows or int(rng.choice([1, 1, 2, 3, 17])), cells or int(rng.choice([1, 2, 7, 32, 70]))
        self.depth = int(rng.choice([1, 3, 8, 30]))
        self.outputs = outputs or int(rng.choice([1, self.cells, self.cells + 2]))
        self.x = rng.integers(-128, 128, (self.rows, self.depth)).astype(np.int8)
        self.x_scale, self.x_zero = scale(1e-3, 0.03), int(rng.integers(-128, 128))
        self.h_scale, self.h_zero = scale(2e-3, 0.01), int(rng.integers(-128, 128))
        self.w = [weights(self.cells, self.depth) for _ in range(4)]
        self.r = [weights(self.cells, self.outputs) for _ in range(4)]
        self.bias = [rng.integers(-30000, 30000, self.cells).astype(np.int32) for _ in range(4)]
        least = 0 if rng.random() < 0.8 else -32768
        self.norm = [(rng.integers(least, 32768, self.cells).astype(np.int16), scale(1e-6, 1e-4)) for _ in range(4)]
        if rng.random() < 0.1:          # equal cells: the variance is 0, or a rounding error
            self.w[CELL] = (np.full_like(self.w[CELL][0], 100), self.w[CELL][1])
            self.r[CELL] = (np.full_like(self.r[CELL][0], 3), self.r[CELL][1])
        if rng.random() < 0.1:          # far out of range
            self.norm[FORGET] = (self.norm[FORGET][0], f32(1000))
        self.projection, self.projection_scale = weights(self.outputs, self.cells)
        self.projection_bias = rng.integers(-300000, 300000, self.outputs).astype(np.int32)
        self.middle = [scale(2.0**-12, 2.0**-11) if k % 3 == 0 else scale(5e-3, 0.05) for k in range(12)]
        self.zeros = [int(rng.integers(-400, 400)) for _ in range(12)]
        self.c_scale = 2.0**-11 if rng.random() < 0.1 else 2.0**-15
        self.cell_clip, self.proj_clip = float(rng.choice([0, 0.1, 0.5, 1])), float(rng.choice([0, 0.1, 0.3]))
        self.input_gate, self.peephole = rng.random() < 0.5, rng.random() < 0.3

    def add_to(self, m, name="LSTM", without=(), unknown=()):
        """Add it to a model; without: positions of omitted operands; unknown: of intermediate tensors without scale."""
        names = iter(range(100))

        def constant(array, scale=1e-4):
            return m.constant(f"w{next(names)}", array, float(scale))
        h_q = {"scale": float(self.h_scale), "zero_point": self.h_zero}
        x = m.tensor("x", self.x.shape, "int8", float(self.x_scale), self.x_zero)
        y = m.tensor("y", (self.rows, self.outputs), "int8", **h_q)
        h = m.tensor("h", (self.rows, self.outputs), "int8", variable=True, **h_q)
        self.state = m.tensor("c", (self.rows, self.cells), "int16", self.c_scale, variable=True)
        operands = [x, *[constant(*w) for w in self.w], *[constant(*r) for r in self.r],
                    *[constant(self.norm[k][0]) if self.peephole else -1 for k in range(3)],
                    *[constant(b) for b in self.bias], constant(self.projection, self.projection_scale),
                    constant(self.projection_bias), h, self.state, *[constant(*n) for n in self.norm]]
        for i in (*without, *(() if self.input_gate else (1, 5, 9, 12, 20))):
            operands[i] = -1
        middle = [m.tensor(f"m{i}", (0,), "int16", float(s), z)
                  for i, (s, z) in enumerate(zip(self.middle, self.zeros, strict=True))]
        for i in unknown:
            middle[i] = -1
        options = {"kernel_type": "FULL"} if name == "LSTM" else {"time_major": True}
        m.operator(name, operands, [y], intermediates=middle, cell_clip=self.cell_clip, proj_clip=self.proj_clip,
                   **options, **TANH)
        m.inputs([x])
        m.outputs([y])

    def sums(self, k, h):
        """A gate before its normalization."""
        whole, x_scale, h_scale = self.middle[3 * k:3 * k + 3]
        to_x, to_h = quantize_multiplier(x_scale / whole), quantize_multiplier(h_scale / whole)
        x_zero, h_zero = self.zeros[3 * k + 1], self.zeros[3 * k + 2]
        if k == OUTPUT:     # the reference reads another gate's exponent, which gives about 0
            h_zero, to_h = self.zeros[7], (quantize_multiplier(self.middle[5] / self.middle[3])[1], to_h[1])
        x = product(self.x, self.x_zero, *self.w[k], self.x_scale, x_scale, x_zero)
        h = product(h, self.h_zero, *self.r[k], self.h_scale, h_scale, h_zero)
        return np.clip(mbqm32(x, *to_x) + mbqm32(h, *to_h), -32768, 32767)

    def run(self, runs=1):
        """The output of each run."""
        h, c = np.full((self.rows, self.outputs), self.h_zero), np.zeros((self.rows, self.cells), np.int64)
        clipped, found = self.c_scale == 2.0**-15, []
        for _ in range(runs):
            gates = [normalized(self.sums(k, h), *self.norm[k], self.bias[k]) for k in range(4)]
            forget, out = logistic()[gates[FORGET]], logistic()[gates[OUTPUT]]
            c = rdbpot(forget * c, 15) + rdbpot((32767 - forget) * tanh(-12)[gates[CELL]], 15)
            c = np.clip(c, -32768, 32767)
            if clipped and 0 < self.cell_clip < 1:
                c = np.clip(c, *limits(self.cell_clip, f32(self.c_scale)))
            hidden = rdbpot(out * tanh(-15)[c], 15)
            total = hidden @ self.projection.astype(np.int64).T + self.projection_bias
            total = mbqm64(total, *quantize_multiplier(f32(float(self.projection_scale) * 2.0**-15
                                                           / float(self.h_scale))))
            h = np.clip(total + self.h_zero, -128, 127)
            if clipped and self.proj_clip > 0:
                h = np.clip(h, *limits(self.proj_clip, self.h_scale))
            found.append(h.astype(np.int8))
        return found


def product(x, x_zero, w, w_scale, x_scale, scale, zero):
    """An 8-bit product, less its zero point."""
    zero = (zero + 128) % 256 - 128
    m, e = quantize_multiplier(w_scale * x_scale / scale)
    return np.clip(mbqm32((x.astype(np.int64) - x_zero) @ w.astype(np.int64).T, m, e) + zero, -128, 127) - zero


def limits(clip, scale):
    return -int(f32(clip) / scale), int(f32(clip) / scale)


def normalized(gates, weights, scale, bias):
    """Layer normalization, all in float32."""
    found = []
    for row in gates.astype(f32):
        mean, squares = (np.cumsum(v, dtype=f32)[-1] / f32(row.size) for v in (row, row * row))
        variance = squares - mean * mean
        with np.errstate(invalid="ignore"):
            inverse = f32(10000) if variance == 0 else f32(1) / np.sqrt(variance)
            y = (row - mean) * inverse * weights.astype(f32) * scale + bias.astype(f32) * (scale / f32(1024))
        y = np.clip(y.astype(np.float64) * 4096, -32768, 32767)
        found.append(np.where(np.isnan(y), 0, np.copysign(np.floor(np.abs(y) + 0.5), y)))
    return np.array(found).astype(np.int64)


def table(function, scale):
    """A table of all 16-bit numbers, clipped to Q15; negative indices are for negative numbers."""
    values = (f32(function(x)) * f32(32768) for x in (WORDS * scale).tolist())
    return np.roll(np.array([min(int(v), 32767) for v in values]), 32768)


def libm(name):
    """A float32 function of the C library, which the reference's gates use."""
    function = getattr(ctypes.CDLL(None), name)
    function.restype, function.argtypes = ctypes.c_float, [ctypes.c_float]
    return function


@functools.cache
def logistic():
    exp = libm("expf")
    return table(lambda x: f32(1) / (f32(1) + f32(exp(-x))), 2.0**-12)


@functools.cache
def tanh(log2):
    return table(libm("tanhf"), 2.0**log2)


@differential("int8", count=60, runs=3)
def test_narrow_lstm(m, rng, kind):
    layer = Layer(rng)
    layer.add_to(m)
    return [layer.x]


def test_state_is_reset():
    check_reset(test_narrow_lstm)


@pytest.mark.parametrize("case", range(40))
def test_kernel_equals_this_arithmetic(case):
    """The kernel computes as above; a missing projection bias (a crash in tf.lite) counts as 0."""
    rng, m = np.random.default_rng(case), ModelBuilder()
    layer = Layer(rng, *((17, 300) if case == 0 else ()))
    if case % 4 == 0:
        layer.projection_bias[:] = 0
    layer.add_to(m, without=(17,) if case % 4 == 0 else ())
    for got, want in zip(run_pylite(m.build(), [layer.x], runs=4), layer.run(4), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("gate", [FORGET, CELL])
def test_every_input_of_the_gates(gate):
    """Gates equal to their bias: all 16-bit inputs of the gates' functions, observed in the cells."""
    rng, m = np.random.default_rng(1), ModelBuilder()
    layer = Layer(rng, 1, WORDS.size, 1)
    layer.cell_clip = 0.0
    layer.norm = [(np.zeros(layer.cells, np.int16), f32(0.25))] * 4
    layer.bias = [np.full(layer.cells, 0 if k == CELL else -32768, np.int32) for k in range(4)]
    layer.bias[gate] = WORDS.astype(np.int32)
    layer.add_to(m)
    interpreter = Interpreter(model_content=m.build())
    interpreter.allocate_tensors()
    interpreter.tensor(layer.state)()[:] = 32767 if gate == FORGET else 0
    interpreter.invoke()
    forget = logistic()[layer.bias[FORGET]]
    want = rdbpot(forget * (32767 if gate == FORGET else 0), 15) + rdbpot(
        (32767 - forget) * tanh(-12)[layer.bias[CELL]], 15)
    np.testing.assert_array_equal(interpreter.get_tensor(layer.state)[0], want)


@pytest.mark.parametrize(("name", "without", "message"), [
    ("LSTM", (), r"node 0 LSTM: lacks a tensor that holds a scale"),
    ("LSTM", (20, 21, 22, 23), r"node 0 LSTM: has 12 intermediate.*only with layer normalization. Convert the model"),
    ("LSTM", (16, 17), r"only with a projection. Convert the model"),
    ("UNIDIRECTIONAL_SEQUENCE_LSTM", (), r"needs 5 intermediate tensors, which hold scales; it has 12. Convert"),
])
def test_unsupported_layers_are_refused(name, without, message):
    rng, m = np.random.default_rng(3), ModelBuilder()
    Layer(rng, 2, 5, 5).add_to(m, name, without, unknown=() if without else (4,))
    with pytest.raises(RuntimeError, match=message):
        Interpreter(model_content=m.build()).allocate_tensors()
