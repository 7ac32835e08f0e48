"""LSTM layers of integers: int8 with cells of int16, the older cell of bytes, and what is refused."""
import numpy as np
import pytest

from pylite.interpreter import Interpreter
from pylite.schema.builder import ModelBuilder
from tests.oneop import differential
from tests.ops.layers import TANH, check_reset, choices, clips, repeating, sizes


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


@differential("int8", count=60, runs=2)
def test_integer_lstm(m, rng, kind):
    """int8 with cells of int16, and 5 intermediate tensors."""
    steps, rows, depth, cells = sizes(rng)
    choice = choices(rng)
    one_step = rng.random() < 0.2
    major = bool(rng.integers(2)) or one_step
    outputs = int(rng.choice([max(1, cells - 3), cells])) if choice["projection"] else cells
    if choice["projection"] and outputs == cells and not choice["peephole"]:
        outputs = cells + 2
    shape = (rows, depth) if one_step else (steps, rows, depth) if major else (rows, steps, depth)
    names = iter(range(100))

    def weights(*shape):
        return m.constant(f"w{next(names)}", repeating(lambda n: rng.integers(-127, 128, n), shape).astype(np.int8),
                          float(rng.random() * 0.02 + 1e-3))

    def words(n, scale, low=-32768):
        return m.constant(f"w{next(names)}", rng.integers(low, 32768, n).astype(np.int16), scale)

    def bias(n, most=3000):
        return m.constant(f"b{next(names)}", rng.integers(-most, most, n).astype(np.int32), 1e-4)

    x_q = {"scale": float(rng.random() * 0.03 + 1e-3), "zero_point": int(rng.integers(-128, 128))}
    h_q = {"scale": float(rng.random() * 0.01 + 2e-3), "zero_point": int(rng.integers(-128, 128))}
    hidden_q = {"scale": float(rng.random() * 0.01 + 2e-3), "zero_point": int(rng.integers(-128, 128))} \
        if choice["projection"] else h_q
    x = m.tensor("x", shape, "int8", **x_q)
    w, r = [weights(cells, depth) for _ in range(4)], [weights(cells, outputs) for _ in range(4)]
    p = [words(cells, float(rng.random() * 1e-4)) if choice["peephole"] else -1 for _ in range(3)]
    b = [bias(cells, 30000 if choice["norm"] else 3000) for _ in range(4)]
    norm = [words(cells, float(rng.random() * 1e-4 + 1e-6), 0) if choice["norm"] else -1 for _ in range(4)]
    if choice["cifg"]:
        w[0] = r[0] = p[0] = b[0] = norm[0] = -1
    projection = [weights(outputs, cells), bias(outputs) if rng.random() < 0.5 else -1] if choice["projection"] \
        else [-1, -1]
    h = m.tensor("h", (rows, outputs), "int8", **h_q, variable=True)
    c = m.tensor("c", (rows, cells), "int16", 2.0 ** -int(rng.integers(9, 16)), variable=True)
    middle = [m.tensor(f"m{i}", (0,), "int16", float(rng.random() * 1e-3 + 1e-4)) for i in range(4)]
    middle.append(m.tensor("hidden", (0,), "int8", **hidden_q))
    y = m.tensor("y", (*shape[:-1], outputs), "int8", **h_q)
    operands = [x, *w, *r, *p, *b, *projection, h, c, *norm]
    if one_step:
        m.operator("LSTM", operands, [y], intermediates=middle, kernel_type="FULL", **clips(rng), **TANH)
    else:
        m.operator("UNIDIRECTIONAL_SEQUENCE_LSTM", operands, [y], intermediates=middle, time_major=major, **clips(rng),
                   **TANH)
    m.inputs([x])
    m.outputs([y])
    return [rng.integers(-128, 128, shape).astype(np.int8)]


def test_state_is_reset():
    check_reset(test_integer_lstm)


def integer_lstm(middle=5, peepholes=False):
    """A model of one layer with 2 cells and 3 outputs, and so many intermediate tensors."""
    m, q = ModelBuilder(), {"scale": 0.01}

    def weights(*shape):
        return m.constant("w", np.ones(shape, np.int8), **q)
    x, y = m.tensor("x", (1, 1, 4), "int8", **q), m.tensor("y", (1, 1, 3), "int8", **q)
    peephole = [m.constant("p", np.ones(2, np.int16), **q) if peepholes else -1 for _ in range(3)]
    biases = [m.constant("b", np.ones(2, np.int32), **q) for _ in range(4)]
    h, c = m.tensor("h", (1, 3), "int8", variable=True, **q), m.tensor("c", (1, 2), "int16", 2.0**-10, variable=True)
    m.operator("UNIDIRECTIONAL_SEQUENCE_LSTM",
               [x, *[weights(2, 4) for _ in range(4)], *[weights(2, 3) for _ in range(4)], *peephole, *biases,
                weights(3, 2), -1, h, c, *[-1] * 4], [y],
               intermediates=[m.tensor("m", (0,), "int8" if i == 4 else "int16", **q) for i in range(middle)],
               time_major=True, **TANH)
    m.inputs([x])
    m.outputs([y])
    return Interpreter(model_content=m.build())


def test_gates_normalised_in_8_bits():
    with pytest.raises(RuntimeError, match=r"5 intermediate tensors.*has 12. Convert the model"):
        integer_lstm(middle=12).allocate_tensors()


def test_peepholes_with_more_outputs_than_cells():
    """The reference reads weights out of bounds there."""
    integer_lstm().allocate_tensors()
    with pytest.raises(RuntimeError, match=r"more outputs \(3\) than cells \(2\).*Leave the peepholes out"):
        integer_lstm(peepholes=True).allocate_tensors()
