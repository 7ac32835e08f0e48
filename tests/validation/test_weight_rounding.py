"""Weights rounded together: what they are multiplied with, and errors that cancel."""
import numpy as np
import pytest

from pylite import Model
from pylite.interpreter import Interpreter
from pylite.ir.graph import replace
from pylite.schema.builder import ModelBuilder
from pylite.validation import weight_rounding
from pylite.validation.requantizing import RealWeights

CONVOLUTIONS = [(kind, padding, stride, dilation) for kind in ("CONV_2D", "DEPTHWISE_CONV_2D")
                for padding in ("SAME", "VALID") for stride, dilation in ((1, 1), (2, 1), (1, 2))]


def layer(kind, padding="SAME", stride=1, dilation=1):
    """(model of one node in float32, its weights)"""
    rng, m = np.random.default_rng(0), ModelBuilder()
    if kind == "FULLY_CONNECTED":
        w, shape, out, options = rng.normal(size=(5, 7)), (3, 7), (3, 5), {}
    else:
        many = kind == "DEPTHWISE_CONV_2D"
        w = rng.normal(size=(1, 3, 2, 8) if many else (5, 3, 2, 4))
        shape, out = (2, 9, 8, 4), (2, 9, 8, 8 if many else 5)
        options = {"padding": padding, "stride_h": stride, "stride_w": stride, "dilation_h_factor": dilation,
                   "dilation_w_factor": dilation, **({"depth_multiplier": 2} if many else {})}
    w = w.astype(np.float32)
    x, y = m.tensor("x", shape), m.tensor("y", out)
    m.operator(kind, [x, m.constant("w", w)], [y], **options)
    m.inputs([x])
    m.outputs([y])
    return m.build(), w


def rows_and_results(contents, w):
    """(what rounding multiplies the weights with, the node's results: a row for each place)"""
    interpreter = Interpreter(model_content=contents)
    detail = interpreter.get_input_details()[0]
    interpreter.allocate_tensors()
    x = np.random.default_rng(1).normal(size=detail["shape"]).astype(np.float32)
    interpreter.set_tensor(detail["index"], x)
    interpreter.invoke()
    y = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    operator = Model(contents).graph.subgraphs[0].operators[0]
    return operator, weight_rounding._rows(operator, w.shape, x), y.reshape(-1, y.shape[-1])


@pytest.mark.parametrize("arguments", [("FULLY_CONNECTED",), *CONVOLUTIONS], ids=str)
def test_rows_times_weights_are_the_results(arguments):
    contents, w = layer(*arguments)
    _, rows, y = rows_and_results(contents, w)
    if arguments[0] == "DEPTHWISE_CONV_2D":
        matrices = w.reshape(6, 4, 2).transpose(1, 0, 2)        # of each channel: taps, two results
        found = np.concatenate(list(rows @ matrices), axis=1)
    else:
        found = rows[0] @ w.reshape(len(w), -1).T
    np.testing.assert_allclose(found, y, rtol=1e-4, atol=1e-4)


def test_rows_are_spread_over_a_large_sample():
    rows = np.arange(3000.0)[:, None]
    some = weight_rounding._spread(rows, 1)
    assert len(some) == 250 and np.ptp(some) > 2900 and weight_rounding._spread(rows[:256], 1) is not None
    assert len(weight_rounding._spread(rows[:256], 1)) == 256


@pytest.mark.parametrize("kind", ["FULLY_CONNECTED", "CONV_2D", "DEPTHWISE_CONV_2D"])
def test_errors_cancel(kind):
    """Of correlated inputs, less error than each weight's nearest step gives; on the steps, within the limits."""
    contents, w = layer(kind)
    operator, rows, _ = rows_and_results(contents, w)
    axis = {"DEPTHWISE_CONV_2D": 3}.get(kind, 0)
    rows = rows + 3 * rows.mean(axis=2, keepdims=True)         # correlates them
    second = np.matmul(rows.transpose(0, 2, 1), rows) / rows.shape[1]
    weights = RealWeights.fitted(w.astype(np.float64), axis, "int8", True)
    weights = RealWeights(weights.values, weights.scale * 20)       # few steps
    found = weight_rounding.rounded(operator, weights, axis, second, (-127, 127))
    steps = found.values / found.along(axis)
    np.testing.assert_allclose(steps, np.rint(steps), atol=1e-9)
    assert found.scale is weights.scale and np.abs(steps).max() <= 127

    def error(values):
        left = (values - w).reshape(6, 4, 2).transpose(1, 2, 0) if axis else (values - w).reshape(1, len(w), -1)
        return float(np.einsum("grd,gde,gre->", left, second, left))
    assert error(found.values) < 0.7 * error(weights.rounded(axis))


def test_independent_inputs_leave_each_weight_the_nearest_step():
    weights = RealWeights(np.random.default_rng(0).normal(size=(4, 6)), np.full(1, 0.25))
    operator = Model(layer("FULLY_CONNECTED")[0]).graph.subgraphs[0].operators[0]
    found = weight_rounding.rounded(operator, weights, 0, np.eye(6)[None], (-127, 127))
    np.testing.assert_array_equal(found.values, weights.rounded(0))
    limited = weight_rounding.rounded(operator, weights, 0, np.eye(6)[None], (-1, 2))
    np.testing.assert_array_equal(limited.values, np.clip(np.rint(weights.values / 0.25), -1, 2) * 0.25)


def test_inputs_that_are_always_zero_do_no_harm():
    weights = RealWeights(np.ones((2, 3)) * 0.3, np.full(1, 0.25))
    operator = Model(layer("FULLY_CONNECTED")[0]).graph.subgraphs[0].operators[0]
    found = weight_rounding.rounded(operator, weights, 0, np.zeros((1, 3, 3)), (-127, 127))
    np.testing.assert_array_equal(found.values, 0.25)


def test_large_and_other_nodes_are_left_out():
    operator = Model(layer("FULLY_CONNECTED")[0]).graph.subgraphs[0].operators[0]
    assert weight_rounding.moment_count(operator, (10, weight_rounding.DEEPEST)) == weight_rounding.DEEPEST ** 2
    assert not weight_rounding.moment_count(operator, (10, weight_rounding.DEEPEST + 1))
    assert not weight_rounding.moment_count(operator, (10, 1))
    assert not weight_rounding.moment_count(replace(operator, name="TRANSPOSE_CONV"), (4, 2, 2, 4))


def test_moments_come_in_pieces(monkeypatch):
    """With room for one node at a time, the moments are the same."""
    rng, m = np.random.default_rng(0), ModelBuilder()
    tensors = [m.tensor(name, (2, 5)) for name in "xyz"]
    for name, x, y in zip("vw", tensors, tensors[1:], strict=False):
        m.operator("FULLY_CONNECTED", [x, m.constant(name, rng.normal(size=(5, 5)).astype(np.float32))], [y])
    m.inputs(tensors[:1])
    m.outputs(tensors[2:])
    model, samples = Model(m.build()), [[rng.normal(size=(2, 5)).astype(np.float32)] for _ in range(4)]
    at_once = dict(weight_rounding.moments(model, {0: (5, 5), 1: (5, 5)}, samples, 1))
    monkeypatch.setattr(weight_rounding, "ROOM", 25)
    in_turn = dict(weight_rounding.moments(model, {0: (5, 5), 1: (5, 5)}, samples, 1))
    assert list(at_once) == list(in_turn) == [0, 1]
    for node in (0, 1):
        np.testing.assert_array_equal(at_once[node], in_turn[node])
    x = np.concatenate([sample[0] for sample in samples]).astype(np.float64)
    np.testing.assert_allclose(at_once[0][0], x.T @ x / len(x))
