"""Integer LSTM layers: int8 with int16 cells, the basic 8-bit cell, and refused models."""
import numpy as np
import pytest

from pylite.interpreter import Interpreter
from pylite.schema.builder import ModelBuilder
from tests.ops.layers import TANH, check_reset, choices, clips, repeating, sizes
from tests.tools.oneop import differential


@differential("uint8", count=30, runs=2)
def test_basic_lstm_of_bytes(m, rng, kind):
    _, rows, depth, cells = sizes(rng)
    q = {"scale": 1 / 128, "zero_point": 128}
    w_scale, w_zero = float(rng.random() * 0.01 + 1e-3), int(rng.integers(0, 256))
    x, h = m.tensor("x", (rows, depth), "uint8", **q), m.tensor("h", (rows, cells), "uint8", **q)
    c = m.tensor("c", (rows, cells), "int16", scale=2.0**-11)
    w = m.constant("w", rng.integers(0, 256, (4 * cells, depth + cells)).astype(np.uint8), w_scale, w_zero)
    b = m.constant("b", rng.integers(-20000, 20000, 4 * cells).astype(np.int32), w_scale / 128)
    outputs = [m.tensor("y", (rows, cells), "uint8", **q), m.tensor("d", (rows, cells), "int16", scale=2.0**-11),
               m.tensor("both", (rows, depth + cells), "uint8", **q),
               m.tensor("gates", (rows, 4 * cells), "int16", scale=2.0**-12)]
    m.operator("LSTM", [x, h, w, b, c], outputs, version=2, kernel_type="BASIC", **TANH)
    m.inputs([x, h, c])
    m.outputs(outputs)
    return [rng.integers(0, 256, (rows, depth)).astype(np.uint8), rng.integers(0, 256, (rows, cells)).astype(np.uint8),
            rng.integers(-32768, 32768, (rows, cells)).astype(np.int16)]


class Operands:
    """Adds the operands of an integer LSTM layer to a model."""

    def __init__(self, m, rng):
        self.m, self.rng, self.count = m, rng, 0

    def add(self, letter, array, scale):
        self.count += 1
        return self.m.constant(f"{letter}{self.count - 1}", array, scale)

    def weights(self, *shape):
        values = repeating(lambda n: self.rng.integers(-127, 128, n), shape).astype(np.int8)
        return self.add("w", values, float(self.rng.random() * 0.02 + 1e-3))

    def vector(self, n, scale, low=-32768):
        return self.add("w", self.rng.integers(low, 32768, n).astype(np.int16), scale)

    def bias(self, n, most=3000):
        return self.add("b", self.rng.integers(-most, most, n).astype(np.int32), 1e-4)

    def quantization(self, width=0.01, least=2e-3):
        return {"scale": float(self.rng.random() * width + least), "zero_point": int(self.rng.integers(-128, 128))}


def gates(add, choice, depth, cells, outputs):
    """(weights, recurrent weights, peepholes, biases, scales of the normalization) of all gates: -1 where absent"""
    w, r = [add.weights(cells, depth) for _ in range(4)], [add.weights(cells, outputs) for _ in range(4)]
    p = [add.vector(cells, float(add.rng.random() * choice.get("peephole_scale", 1e-4))) if choice["peephole"] else -1
         for _ in range(3)]
    b = [add.bias(cells, 30000 if choice["norm"] else 3000) for _ in range(4)]
    norm = [add.vector(cells, float(add.rng.random() * 1e-4 + 1e-6), 0) if choice["norm"] else -1 for _ in range(4)]
    if choice["cifg"]:
        w[0] = r[0] = p[0] = b[0] = norm[0] = -1
    return w, r, p, b, norm


def projected(add, choice, cells):
    """The number of outputs of a layer with `cells` cells."""
    if not choice["projection"]:
        return cells
    outputs = int(add.rng.choice([max(1, cells - 3), cells]))
    return cells + 2 if outputs == cells and not choice["peephole"] else outputs


def projection(add, choice, cells, outputs):
    if not choice["projection"]:
        return [-1, -1]
    return [add.weights(outputs, cells), add.bias(outputs) if add.rng.random() < 0.5 else -1]


@differential("int8", count=60, runs=2)
def test_integer_lstm(m, rng, kind):
    """int8 with cells of int16, and 5 intermediate tensors."""
    return layer(m, rng, choices(rng), 2.0 ** -int(rng.integers(9, 16)))


@differential("int8", count=40, runs=12)
def test_halves_of_peepholes(m, rng, kind):
    """Scales with which many products of cells and peepholes end in a half."""
    choice = choices(rng) | {"peephole": True, "peephole_scale": .2, "cells": int(rng.integers(1, 68))}
    return layer(m, rng, choice, 2.0**-11)


@differential("int8", count=24, runs=2)
def test_cells_of_a_smaller_scale(m, rng, kind):
    """Below 2^-15 the reference has no tanh: it multiplies by the contents of its scratch memory, the input gate."""
    return layer(m, rng, choices(rng) | {"cifg": False}, 2.0 ** -int(rng.integers(16, 23)))


def layer(m, rng, choice, cell_scale):
    """Adds a layer to the model m; returns the values of its input."""
    steps, rows, depth, cells = sizes(rng)
    cells = choice.get("cells", cells)
    add = Operands(m, rng)
    one_step = rng.random() < 0.2
    major = bool(rng.integers(2)) or one_step
    outputs = projected(add, choice, cells)
    shape = (rows, depth) if one_step else (steps, rows, depth) if major else (rows, steps, depth)
    x_q, h_q = add.quantization(0.03, 1e-3), add.quantization()
    hidden_q = add.quantization() if choice["projection"] else h_q
    x = m.tensor("x", shape, "int8", **x_q)
    w, r, p, b, norm = gates(add, choice, depth, cells, outputs)
    to_outputs = projection(add, choice, cells, outputs)
    h = m.tensor("h", (rows, outputs), "int8", **h_q, variable=True)
    c = m.tensor("c", (rows, cells), "int16", cell_scale, variable=True)
    middle = [m.tensor(f"m{i}", (0,), "int16", float(rng.random() * 1e-3 + 1e-4)) for i in range(4)]
    middle.append(m.tensor("hidden", (0,), "int8", **hidden_q))
    y = m.tensor("y", (*shape[:-1], outputs), "int8", **h_q)
    name, options = ("LSTM", {"kernel_type": "FULL"}) if one_step else (
        "UNIDIRECTIONAL_SEQUENCE_LSTM", {"time_major": major})
    m.operator(name, [x, *w, *r, *p, *b, *to_outputs, h, c, *norm], [y], intermediates=middle, **options,
               **clips(rng), **TANH)
    m.inputs([x])
    m.outputs([y])
    return [rng.integers(-128, 128, shape).astype(np.int8)]


def test_state_is_reset():
    check_reset(test_integer_lstm)


def integer_lstm(middle=5, peepholes=(), cell_scale=2.0**-10, cifg=False, missing=(), norms=(), diagonal=False):
    """A model of one layer with 2 cells, 3 outputs and `middle` intermediate tensors, without the inputs `missing`.

    peepholes, norms: the gates that have a peephole, or layer normalization.
    """
    m, q = ModelBuilder(), {"scale": 0.01}

    def weights(*shape):
        return m.constant("w", np.ones(shape, np.int8), **q)
    x, y = m.tensor("x", (1, 1, 4), "int8", **q), m.tensor("y", (1, 1, 3), "int8", **q)
    peephole = [m.constant("p", np.ones(2, np.int16), **q) if k in peepholes else -1 for k in range(3)]
    norm = [m.constant("n", np.ones(2, np.int16), **q) if k in norms else -1 for k in range(4)]
    biases = [m.constant("b", np.ones(2, np.int32), **q) for _ in range(4)]
    h, c = m.tensor("h", (1, 3), "int8", variable=True, **q), m.tensor("c", (1, 2), "int16", cell_scale, variable=True)
    gates = [[weights(*shape) if k or not cifg else -1 for k in range(4)]
             for shape in ((2, 4), (3,) if diagonal else (2, 3))]
    if cifg:
        biases[0] = -1
    inputs = [x, *gates[0], *gates[1], *peephole, *biases, weights(3, 2), -1, h, c, *norm]
    for i in missing:
        inputs[i] = -1
    m.operator("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [y],
               intermediates=[m.tensor("m", (0,), "int8" if i == 4 else "int16", **q) for i in range(middle)],
               time_major=True, **TANH)
    m.inputs([x])
    m.outputs([y])
    return Interpreter(model_content=m.build())


def test_twelve_intermediate_tensors_are_refused():
    with pytest.raises(RuntimeError, match=r"5 intermediate tensors.*has 12. Convert the model"):
        integer_lstm(middle=12).allocate_tensors()


@pytest.mark.parametrize(("missing", "what"), [
    ((2,), "weights of its forget"), ((3,), "weights of its cell"), ((5,), "weights of its input"),
    ((6,), "weights of its forget"), ((7,), "weights of its cell"), ((2, 6), "weights of its forget"),
    ((3, 7), "weights of its cell"), ((13,), "the bias of its forget")])
def test_gates_without_weights_are_refused(missing, what):
    with pytest.raises(RuntimeError, match=f"node 0 UNIDIRECTIONAL_SEQUENCE_LSTM: lacks {what} gate"):
        integer_lstm(missing=missing).allocate_tensors()


@pytest.mark.parametrize("peepholes", [(0, 1, 2), (0,), (1,), (2,)])
def test_peepholes_with_more_outputs_than_cells_are_refused(peepholes):
    """The reference reads weights out of bounds."""
    integer_lstm().allocate_tensors()
    with pytest.raises(RuntimeError, match=r"more outputs \(3\) than cells \(2\).*Leave the peepholes out"):
        integer_lstm(peepholes=peepholes).allocate_tensors()


@pytest.mark.parametrize("norms", [(0,), (1,), (3,), (0, 2), (1, 2, 3)])
def test_layer_normalization_of_some_gates_is_refused(norms):
    integer_lstm(norms=(0, 1, 2, 3)).allocate_tensors()
    with pytest.raises(RuntimeError, match=r"layer normalization for some of its gates; give all of them or none"):
        integer_lstm(norms=norms).allocate_tensors()


def test_diagonal_weights_of_bytes_are_refused():
    with pytest.raises(RuntimeError, match=r"\(int8 \[3\]\): .* \[2, 3\]"):
        integer_lstm(diagonal=True).allocate_tensors()
    m, q = ModelBuilder(), {"scale": 0.01}
    x, y = m.tensor("x", (1, 1, 4), "int8", **q), m.tensor("y", (1, 1, 3), "int8", **q)
    biases = [m.constant("b", np.ones(3, np.int32), **q) for _ in range(4)]
    h, c = m.tensor("h", (1, 3), "int8", variable=True, **q), m.tensor("c", (1, 3), "int16", 2.0**-10, variable=True)
    gates = [m.constant("w", np.ones(shape, np.int8), **q) for shape in [(3, 4)] * 4 + [(3,)] * 4]
    m.operator("UNIDIRECTIONAL_SEQUENCE_LSTM", [x, *gates, -1, -1, -1, *biases, -1, -1, h, c, *[-1] * 4], [y],
               intermediates=[m.tensor("m", (0,), "int8" if i == 4 else "int16", **q) for i in range(5)],
               time_major=True, **TANH)
    m.inputs([x])
    m.outputs([y])
    with pytest.raises(RuntimeError, match="must be a matrix; a diagonal is possible with float activations"):
        Interpreter(model_content=m.build()).allocate_tensors()


@pytest.mark.parametrize(("changes", "words"), [
    ({"cell_scale": 2.0**-16, "cifg": True}, "takes the input gate in place of tanh"),
    ({"cell_scale": 2.0**-31}, "a power of two from 2"), ({"cell_scale": 2.0**-8}, "a power of two from 2"),
    ({"cell_scale": 0.003}, "a power of two from 2")])
def test_scales_of_cells_that_are_refused(changes, words):
    with pytest.raises(RuntimeError, match=words):
        integer_lstm(**changes).allocate_tensors()
