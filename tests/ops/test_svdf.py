"""Float, hybrid and integer SVDF layers."""
import numpy as np
import pytest

from pylite import Model
from pylite.numerics.fixed_point import mbqm32
from pylite.numerics.quantization import quantize_multiplier
from pylite.schema.builder import ModelBuilder
from tests.ops.layers import FLOAT, Operands, check_reset, sizes
from tests.tools.oneop import differential, run_pylite


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


@differential("int8", count=20, runs=2)
def test_the_state_of_integers(m, rng, kind):
    """Large features, whose rounding depends on the last bit of the multiplier.  The state is an output."""
    filters, depth = 700, 40
    scale = {word: float(rng.random() * 0.01 + 1e-3) for word in ("x", "w", "time", "y")}
    memory_scale = scale["x"] * scale["w"] * float(rng.uniform(5, 20))
    x, y = m.tensor("x", (1, depth), "int8", scale["x"], 3), m.tensor("y", (1, filters), "int8", scale["y"], -3)
    w = m.constant("w", rng.integers(-127, 128, (filters, depth)).astype(np.int8), scale["w"])
    time = m.constant("time", rng.integers(-300, 301, (filters, 2)).astype(np.int16), scale["time"])
    memory = m.tensor("memory", (1, filters * 2), "int16", memory_scale, variable=True)
    m.operator("SVDF", [x, w, time, -1, memory], [y], rank=1, fused_activation_function="RELU")
    m.inputs([x])
    m.outputs([y, memory])
    return [rng.integers(-128, 128, (1, depth)).astype(np.int8)]


def svdf_of_bytes(inputs, contents):
    """Three runs of a layer with int8 state, by the rules of TensorFlow Lite for Microcontrollers."""
    model = Model(contents)
    subgraph = model.graph.subgraphs[0]
    operator = subgraph.operators[0]
    x, w, time, bias, memory = [subgraph.tensors[i] if i >= 0 else None for i in operator.inputs]
    y = subgraph.tensors[operator.outputs[0]]
    (sx, zx), (sw, _), (st, _), (sm, zm), (sy, zy) = [
        (t.quantization.scale[0], int(t.quantization.zero_point[0])) for t in (x, w, time, memory, y)]
    weights, steps = (model.weights.constant(t).astype(np.int64) for t in (w, time))
    rows, rank = x.shape[0], operator.options.rank
    state, results = np.zeros((rows, *steps.shape), np.int64), []
    for _ in range(3):
        newest = mbqm32((inputs[0].astype(np.int64) - zx) @ weights.T, *quantize_multiplier(sx * sw / sm))
        newest = (np.clip(newest, -128, 127) + zm).astype(np.int8).astype(np.int64) - zm
        state = np.concatenate([state[:, :, 1:], newest[:, :, None]], 2)
        sums = (state * steps).sum(2).reshape(rows, -1, rank).sum(2)
        sums += 0 if bias is None else model.weights.constant(bias)
        got = mbqm32(sums, *quantize_multiplier(sm * st / sy)) + zy
        results.append(np.clip(got, -128, 127).astype(np.int8))
    return results


@differential("int8", count=20, runs=3, reference=svdf_of_bytes)
def test_integer_svdf_of_bytes(m, rng, kind):
    """The peer treats int8 time weights and state as int16, and accesses memory beyond them."""
    return integer_svdf(m, rng, -127, {"dtype": "int8", "zero_point": int(rng.integers(-20, 20))})


@pytest.mark.parametrize("test", [test_svdf, test_integer_svdf])
def test_state_is_reset(test):
    check_reset(test)


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_rows_of_no_elements(dtype):
    """The features are then 0, and the results the bias."""
    m, scale = ModelBuilder(), None if dtype == "float32" else 0.1
    x, y = m.tensor("x", (3, 0)), m.tensor("y", (3, 2))
    weights = [m.constant(name, np.ones(shape, dtype), scale) for name, shape in (("w", (4, 0)), ("time", (4, 5)))]
    bias = m.constant("bias", np.array([1.5, -2], np.float32))
    m.operator("SVDF", [x, *weights, bias, m.tensor("memory", (3, 20), variable=True)], [y], rank=2)
    m.inputs([x])
    m.outputs([y])
    results, = run_pylite(m.build(), [np.zeros((3, 0), np.float32)])
    assert results.tolist() == [[1.5, -2]] * 3
