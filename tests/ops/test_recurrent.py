"""LSTM, RNN and SVDF layers: every optional operand, several steps, and a state that outlives a run."""
import numpy as np
import pytest

from pylite.interpreter import Interpreter
from pylite.model import Model
from pylite.quantization import mbqm32, quantize_multiplier
from tests.oneop import assert_equal, differential, draw, run_pylite

FLOAT = ("float32", "int8", "int8 asymmetric", "uint8")
TANH = {"fused_activation_function": "TANH"}


def repeating(values, shape):
    """values(n) as often as it takes to fill `shape`: stored results are to be small."""
    return np.resize(values(min(int(np.prod(shape)), 397)), shape).astype(np.float32)


class Operands:
    """Adds an LSTM's or RNN's operands to a model."""

    def __init__(self, m, rng, kind):
        self.m, self.rng, self.kind = m, rng, kind

    def weights(self, *shape):
        """A matrix of the kind's type, small enough for a layer not to behave chaotically."""
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


def lstm_gates(add, depth, outputs, cells, choice):
    """Inputs 1 to 17 of an LSTM."""
    w = [add.weights(cells, depth) for _ in range(4)]
    r = [add.weights(cells, outputs) for _ in range(4)]
    p = [add.weights(cells) if choice["peephole"] else -1 for _ in range(3)]
    b = [add.vector(cells) for _ in range(4)]
    if choice["cifg"]:
        w[0] = r[0] = p[0] = b[0] = -1
    projection = [add.weights(outputs, cells) if choice["projection"] else -1,
                  add.vector(outputs) if choice["projection"] and add.rng.random() < 0.5 else -1]
    return [*w, *r, *p, *b, *projection]


def choices(rng):
    return {word: bool(rng.random() < 0.4) for word in ("peephole", "cifg", "projection", "norm")}


def clips(rng):
    return {"cell_clip": float(rng.choice([0.0, 0.5, 10.0])), "proj_clip": float(rng.choice([0.0, 0.3]))}


def lstm(m, rng, kind):
    steps, rows, depth, cells = sizes(rng)
    choice = choices(rng)
    outputs = int(rng.choice([3, cells, 9])) if choice["projection"] else cells
    one_step = rng.random() < 0.3
    major = bool(rng.integers(2)) or one_step
    shape = (rows, depth) if one_step else (steps, rows, depth) if major else (rows, steps, depth)
    add = Operands(m, rng, kind)
    x = m.tensor("x", shape)
    operands = [x, *lstm_gates(add, depth, outputs, cells, choice), add.state(rows, outputs), add.state(rows, cells)]
    if choice["norm"]:
        operands += [-1 if choice["cifg"] and k == 0 else add.vector(cells, 1.0) for k in range(4)]
    else:
        operands += [-1] * 4
    y = m.tensor("y", (*shape[:-1], outputs))
    options = clips(rng) | {"asymmetric_quantize_inputs": "asymmetric" in kind}
    # the peer leaves the activation NONE undone
    options["fused_activation_function"] = str(rng.choice(["TANH", "TANH", "RELU", "RELU6"]))
    if one_step:
        m.operator("LSTM", operands, [y], kernel_type="FULL", **options)
    else:
        m.operator("UNIDIRECTIONAL_SEQUENCE_LSTM", operands, [y], time_major=major, **options)
    m.inputs([x])
    m.outputs([y])
    return [rng.standard_normal(shape).astype(np.float32)]


@differential("float32", count=30, runs=2)
def test_lstm(m, rng, kind):
    """UNIDIRECTIONAL_SEQUENCE_LSTM and the full kernel of LSTM."""
    return lstm(m, rng, kind)


@differential(*FLOAT[1:], count=30, runs=2, tolerance=1e-3)
def test_hybrid_lstm(m, rng, kind):
    """The same with integer weights: a last bit of the state may decide how it is quantized for the next step."""
    return lstm(m, rng, kind)


@differential("float32", "int8", count=10, runs=2)
def test_diagonal_lstm(m, rng, kind):
    """Recurrent weights that are diagonals."""
    steps, rows, depth, cells = sizes(rng)
    add = Operands(m, rng, kind)
    gates = lstm_gates(add, depth, cells, cells, dict.fromkeys(("peephole", "cifg", "projection"), False))
    gates[4:8] = [add.vector(cells) for _ in range(4)]
    x, y = m.tensor("x", (steps, rows, depth)), m.tensor("y", (steps, rows, cells))
    m.operator("UNIDIRECTIONAL_SEQUENCE_LSTM", [x, *gates, add.state(rows, cells), add.state(rows, cells), *[-1] * 4],
               [y], time_major=True, diagonal_recurrent_tensors=True, fused_activation_function="TANH")
    m.inputs([x])
    m.outputs([y])
    return [rng.standard_normal((steps, rows, depth)).astype(np.float32)]


def bidirectional_lstm(m, rng, kind):
    steps, rows, depth, cells = sizes(rng)
    other = cells                           # which the peer insists on
    merged, major = bool(rng.integers(2)), bool(rng.integers(2))
    if merged and not major:
        rows = 1                            # with more the peer writes beyond its state
    choice = choices(rng)
    outputs = 5 if choice["projection"] else cells
    other_outputs = 5 if choice["projection"] else other
    stacked = str(rng.choice(["no", "no", "linked", "apart"]))
    add = Operands(m, rng, kind)
    shape = (steps, rows, depth) if major else (rows, steps, depth)
    x = m.tensor("x", shape)
    operands = [x, *lstm_gates(add, depth, outputs, cells, choice),
                *lstm_gates(add, depth, other_outputs, other, choice),
                add.state(rows, outputs), add.state(rows, cells), add.state(rows, other_outputs),
                add.state(rows, other)]
    aux = -1 if stacked == "no" else m.tensor("aux", shape)
    links = [add.weights(n, depth) if stacked == "linked" else -1 for n in [cells] * 4 + [other] * 4]
    if choice["cifg"]:
        links[0] = links[4] = -1
    operands += [aux, *links]
    lead = shape[:-1]
    y = [m.tensor("y", (*lead, outputs + other_outputs))] if merged else \
        [m.tensor("y", (*lead, outputs)), m.tensor("z", (*lead, other_outputs))]
    m.operator("BIDIRECTIONAL_SEQUENCE_LSTM", operands, y, time_major=major, merge_outputs=merged, **clips(rng),
               fused_activation_function="TANH", asymmetric_quantize_inputs="asymmetric" in kind)
    m.inputs([x] if aux == -1 else [x, aux])
    m.outputs(y)
    return [rng.standard_normal(shape).astype(np.float32) for _ in range(1 if aux == -1 else 2)]


@differential("float32", count=20, runs=2)
def test_bidirectional_lstm(m, rng, kind):
    return bidirectional_lstm(m, rng, kind)


@differential(*FLOAT[1:], count=20, runs=2, tolerance=1e-3)
def test_hybrid_bidirectional_lstm(m, rng, kind):
    return bidirectional_lstm(m, rng, kind)


@differential(*FLOAT, count=30, runs=2)
def test_rnn(m, rng, kind):
    """RNN and UNIDIRECTIONAL_SEQUENCE_RNN."""
    steps, rows, depth, cells = sizes(rng)
    one_step, major = rng.random() < 0.3, bool(rng.integers(2))
    shape = (rows, depth) if one_step else (steps, rows, depth) if major else (rows, steps, depth)
    add = Operands(m, rng, kind)
    x, y = m.tensor("x", shape), m.tensor("y", (*shape[:-1], cells))
    operands = [x, add.weights(cells, depth), add.weights(cells, cells), add.vector(cells), add.state(rows, cells)]
    options = {"fused_activation_function": str(rng.choice(["TANH", "RELU", "RELU_N1_TO_1", "RELU6", "NONE"])),
               "asymmetric_quantize_inputs": "asymmetric" in kind}
    if one_step:
        m.operator("RNN", operands, [y], **options)
    else:
        m.operator("UNIDIRECTIONAL_SEQUENCE_RNN", operands, [y], time_major=major, **options)
    m.inputs([x])
    m.outputs([y])
    return [rng.standard_normal(shape).astype(np.float32)]


@differential(*FLOAT, count=20, runs=2)
def test_bidirectional_rnn(m, rng, kind):
    steps, rows, depth, cells = sizes(rng)
    other = int(rng.choice([2, cells, 20]))
    merged, major = bool(rng.integers(2)), bool(rng.integers(2))
    stacked = str(rng.choice(["no", "linked", "apart"]))
    # The peer runs integer weights as often as there are steps, and never sees an input apart in batch-major order.
    major = kind == "float32" and (major or stacked == "apart")
    if stacked == "apart" and not major:
        stacked = "linked"
    add = Operands(m, rng, kind)
    shape = (steps, rows, depth) if major else (rows, steps, depth)
    x = m.tensor("x", shape)
    aux = -1 if stacked == "no" else m.tensor("aux", shape)
    operands = [x]
    for n in (cells, other):
        operands += [add.weights(n, depth), add.weights(n, n), add.vector(n), add.state(rows, n)]
    operands += [aux, *[add.weights(n, depth) if stacked == "linked" else -1 for n in (cells, other)]]
    lead = shape[:-1]
    y = [m.tensor("y", (*lead, cells + other))] if merged else \
        [m.tensor("y", (*lead, cells)), m.tensor("z", (*lead, other))]
    m.operator("BIDIRECTIONAL_SEQUENCE_RNN", operands, y, time_major=major, merge_outputs=merged,
               fused_activation_function="TANH", asymmetric_quantize_inputs="asymmetric" in kind)
    m.inputs([x] if aux == -1 else [x, aux])
    m.outputs(y)
    return [rng.standard_normal(shape).astype(np.float32) for _ in range(1 if aux == -1 else 2)]


@differential(*FLOAT, count=20, runs=3)
def test_svdf(m, rng, kind):
    _, rows, depth, units = sizes(rng)
    rank, steps = int(rng.integers(1, 4)), int(rng.integers(1, 9))
    add = Operands(m, rng, kind)
    x, y = m.tensor("x", (rows, depth)), m.tensor("y", (rows, units))
    bias = add.vector(units) if rng.random() < 0.7 else -1
    m.operator("SVDF", [x, add.weights(units * rank, depth), add.weights(units * rank, steps), bias,
                        add.state(rows, units * rank * steps)], [y], rank=rank,
               fused_activation_function=str(rng.choice(["NONE", "RELU", "TANH"])),
               asymmetric_quantize_inputs="asymmetric" in kind)
    m.inputs([x])
    m.outputs([y])
    return [rng.standard_normal((rows, depth)).astype(np.float32)]


@differential("float32", count=15, runs=3)
def test_basic_lstm(m, rng, kind):
    """The kernel of 5 inputs, which writes over its state."""
    _, rows, depth, cells = sizes(rng)
    add = Operands(m, rng, kind)
    x, h, c = m.tensor("x", (rows, depth)), m.tensor("h", (rows, cells)), m.tensor("c", (rows, cells))
    outputs = [m.tensor(f"y{i}", (rows, n)) for i, n in enumerate((cells, cells, depth + cells, 4 * cells))]
    m.operator("LSTM", [x, h, add.weights(4 * cells, depth + cells), add.vector(4 * cells), c], outputs, version=2,
               kernel_type="BASIC", **TANH)
    m.inputs([x, h, c])
    m.outputs(outputs)
    return [rng.standard_normal(shape).astype(np.float32) for shape in ((rows, depth), (rows, cells), (rows, cells))]


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


def integer_svdf(m, rng, low, state):
    """A layer with time weights of at least `low` and a `state` of these fields."""
    _, rows, depth, units = sizes(rng)
    rank, steps = int(rng.integers(1, 4)), int(rng.integers(1, 9))
    scale = {word: float(rng.random() * 0.01 + 1e-3) for word in ("x", "w", "time", "memory", "y")}
    kind = np.dtype(state["dtype"])
    finer = 100 if kind.itemsize == 2 else 1
    x = m.tensor("x", (rows, depth), "int8", scale["x"], int(rng.integers(-128, 128)))
    y = m.tensor("y", (rows, units), "int8", scale["y"], int(rng.integers(-128, 128)))
    w = m.constant("w", rng.integers(-127, 128, (units * rank, depth)).astype(np.int8), scale["w"])
    time = m.constant("time", rng.integers(low, -low, (units * rank, steps)).astype(kind), scale["time"] / finer)
    bias = m.constant("bias", rng.integers(-10000, 10000, units).astype(np.int32), 1e-4) if rng.random() < 0.7 else -1
    memory = m.tensor("memory", (rows, units * rank * steps), scale=scale["memory"] / finer, variable=True, **state)
    m.operator("SVDF", [x, w, time, bias, memory], [y], rank=rank, fused_activation_function="RELU")
    m.inputs([x])
    m.outputs([y])
    return [rng.integers(-128, 128, (rows, depth)).astype(np.int8)]


@differential("int8", count=30, runs=3)
def test_integer_svdf(m, rng, kind):
    return integer_svdf(m, rng, -32768, {"dtype": "int16"})


def svdf_of_bytes(inputs, contents):
    """Three runs of a layer whose state is int8, by the rules of TensorFlow Lite for Microcontrollers."""
    model = Model(contents)
    subgraph = model.graph.subgraphs[0]
    operator = subgraph.operators[0]
    x, w, time, bias, memory = [subgraph.tensors[i] if i >= 0 else None for i in operator.inputs]
    y = subgraph.tensors[operator.outputs[0]]
    (sx, zx), (sw, _), (st, _), (sm, zm), (sy, zy) = [
        (float(t.quantization.scale[0]), int(t.quantization.zero_point[0])) for t in (x, w, time, memory, y)]
    weights, steps = (model.constant(t).astype(np.int64) for t in (w, time))
    rows, rank = x.shape[0], operator.options.rank
    state, results = np.zeros((rows, *steps.shape), np.int64), []
    for _ in range(3):
        newest = mbqm32((inputs[0].astype(np.int64) - zx) @ weights.T, *quantize_multiplier(sx * sw / sm))
        newest = (np.clip(newest, -128, 127) + zm).astype(np.int8).astype(np.int64) - zm
        state = np.concatenate([state[:, :, 1:], newest[:, :, None]], 2)
        sums = (state * steps).sum(2).reshape(rows, -1, rank).sum(2) + (0 if bias is None else model.constant(bias))
        got = mbqm32(sums, *quantize_multiplier(sm * st / sy)) + zy
        results.append(np.clip(got, -128, 127).astype(np.int8))
    return results


@differential("int8", count=20, runs=3, reference=svdf_of_bytes)
def test_integer_svdf_of_bytes(m, rng, kind):
    """The peer takes the bytes of time weights and state for int16 and reads and writes beyond them."""
    return integer_svdf(m, rng, -127, {"dtype": "int8", "zero_point": int(rng.integers(-20, 20))})


@pytest.mark.parametrize("test", [test_lstm, test_integer_lstm, test_rnn, test_svdf, test_integer_svdf])
def test_state_is_reset(test):
    """reset_all_variables() takes a layer back to where it began."""
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
