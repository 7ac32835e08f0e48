"""Float and hybrid LSTM and RNN layers: all optional operands, several steps, and states."""
import numpy as np
import pytest

from pylite._core import simd
from pylite.interpreter import Interpreter
from pylite.schema.builder import ModelBuilder
from tests.ops.layers import FLOAT, TANH, Operands, check_reset, choices, clips, sizes
from tests.tools.oneop import differential, run_pylite


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
    # the peer ignores the activation NONE
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
    """The same with integer weights: a last-bit difference of the state may change its quantization."""
    return lstm(m, rng, kind)


@differential("float32", "int8", count=10, runs=2)
def test_diagonal_lstm(m, rng, kind):
    """Diagonal recurrent weights."""
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


@pytest.mark.parametrize("kind", ["float32", "int8"])
@pytest.mark.parametrize("depth", [0, 3])
def test_diagonals_beside_a_projection(kind, depth):
    """With as many cells as outputs they work, also where no other weights tell their type; else none is possible."""
    def model(cells, outputs):
        m = ModelBuilder()
        q = {} if kind == "float32" else {"scale": 0.1}
        x, y = m.tensor("x", (1, 1, depth)), m.tensor("y", (1, 1, outputs))
        gates = [m.constant("w", np.ones(shape, kind), **q) for shape in [(cells, depth)] * 4 + [(outputs,)] * 4]
        biases = [m.constant("b", np.ones(cells, np.float32)) for _ in range(4)]
        states = [m.tensor("s", (1, n), variable=True) for n in (outputs, cells)]
        m.operator("UNIDIRECTIONAL_SEQUENCE_LSTM",
                   [x, *gates, -1, -1, -1, *biases, m.constant("p", np.ones((outputs, cells), kind), **q), -1, *states,
                    *[-1] * 4], [y], time_major=True, fused_activation_function="TANH")
        m.inputs([x])
        m.outputs([y])
        return Interpreter(model_content=m.build())
    interpreter = model(4, 4)
    interpreter.allocate_tensors()
    interpreter.invoke()
    c = 1 / (1 + np.exp(-1.0)) * np.tanh(1.0)
    wanted = 4 / (1 + np.exp(-1.0)) * np.tanh(c) * (1 if kind == "float32" else 0.1)
    result = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    np.testing.assert_allclose(result, np.full((1, 1, 4), wanted), rtol=1e-5 if kind == "float32" else 0.02)
    with pytest.raises(RuntimeError, match=r"its shape must be \[4, 1\]"):
        model(4, 1).allocate_tensors()


def bidirectional_lstm(m, rng, kind):
    steps, rows, depth, cells = sizes(rng)
    other = cells                           # required by the peer
    merged, major = bool(rng.integers(2)), bool(rng.integers(2))
    if merged and not major:
        rows = 1                            # with more the peer writes past its state
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
    # The peer runs layers with integer weights once per step, and ignores an auxiliary input in batch-major order.
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


@differential("float32", count=15, runs=3)
def test_basic_lstm(m, rng, kind):
    """The kernel of 5 inputs, which overwrites its state."""
    _, rows, depth, cells = sizes(rng)
    add = Operands(m, rng, kind)
    x, h, c = m.tensor("x", (rows, depth)), m.tensor("h", (rows, cells)), m.tensor("c", (rows, cells))
    outputs = [m.tensor(f"y{i}", (rows, n)) for i, n in enumerate((cells, cells, depth + cells, 4 * cells))]
    m.operator("LSTM", [x, h, add.weights(4 * cells, depth + cells), add.vector(4 * cells), c], outputs, version=2,
               kernel_type="BASIC", **TANH)
    m.inputs([x, h, c])
    m.outputs(outputs)
    return [rng.standard_normal(shape).astype(np.float32) for shape in ((rows, depth), (rows, cells), (rows, cells))]


def test_basic_lstm_of_more_cells_than_a_block():
    m, rng = ModelBuilder(), np.random.default_rng(0)
    rows, depth, cells = 2, 3, 300
    shapes = (rows, depth), (rows, cells), (rows, cells), (4 * cells, depth + cells), (4 * cells,)
    x, h, c, w, b = [rng.standard_normal(shape).astype(np.float32) * 0.3 for shape in shapes]
    inputs = [m.tensor("x", x.shape), m.tensor("h", h.shape), m.tensor("c", c.shape)]
    outputs = [m.tensor(f"y{i}", (rows, n)) for i, n in enumerate((cells, cells, depth + cells, 4 * cells))]
    m.operator("LSTM", [*inputs[:2], m.constant("w", w), m.constant("b", b), inputs[2]], outputs, version=2,
               kernel_type="BASIC", **TANH)
    m.inputs(inputs)
    m.outputs(outputs[:2])
    add, new, forget, show = np.split(np.concatenate([x, h], 1) @ w.T + b, 4, 1)
    state = np.tanh(new) / (1 + np.exp(-add)) + c / (1 + np.exp(-forget))
    got = run_pylite(m.build(), [x, h, c])
    np.testing.assert_allclose(got[1], state, atol=1e-5)
    np.testing.assert_allclose(got[0], np.tanh(state) / (1 + np.exp(-show)), atol=1e-5)


def one_or_two_rows(kind, rows, steps):
    """(model of a bidirectional LSTM, its input): all rows are equal, and the weights are the same for any `rows`."""
    rng, m = np.random.default_rng(steps), ModelBuilder()
    add, depth, cells = Operands(m, rng, kind), 9, 37
    choice = dict.fromkeys(("peephole", "cifg", "projection"), False)
    x = m.tensor("x", (steps, rows, depth))
    operands = [x, *lstm_gates(add, depth, cells, cells, choice), *lstm_gates(add, depth, cells, cells, choice),
                *[add.state(rows, cells) for _ in range(4)], *[-1] * 9]
    y = m.tensor("y", (steps, rows, 2 * cells))
    m.operator("BIDIRECTIONAL_SEQUENCE_LSTM", operands, [y], time_major=True, merge_outputs=True,
               fused_activation_function="TANH", asymmetric_quantize_inputs="asymmetric" in kind)
    m.inputs([x])
    m.outputs([y])
    row = rng.standard_normal((steps, 1, depth)).astype(np.float32)
    return m.build(), [np.repeat(row, rows, axis=1)]


@pytest.mark.parametrize("kind", FLOAT[1:])
@pytest.mark.parametrize("steps", [1, 3, 4, 7, 13, 40])
def test_steps_of_one_row_that_are_multiplied_at_once(kind, steps):
    """Several rows are multiplied step by step: results have the same bits."""
    initial = simd.current
    try:
        for level in simd.available():
            simd.use(level)
            one, two = (run_pylite(*one_or_two_rows(kind, rows, steps))[0] for rows in (1, 2))
            assert one[:, 0].tobytes() == two[:, 0].tobytes() == two[:, 1].tobytes(), level
    finally:
        simd.use(initial)


@pytest.mark.parametrize("test", [test_lstm, test_rnn])
def test_state_is_reset(test):
    check_reset(test)
