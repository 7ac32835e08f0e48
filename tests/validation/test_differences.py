"""Faults that the two graphs show are named."""
import numpy as np
import pytest

from pylite.schema.builder import ModelBuilder
from tests.validation.planted import Editor
from tests.validation.test_causes import CHANNELS, compared, layers


def flipped(values):
    values[3, 5] ^= 0x40


def negated(values):
    values[3] *= -1


def mirrored(values):
    values[:] = values[:, ::-1].copy()


@pytest.mark.parametrize(("spoil", "cause", "says"), [
    (flipped, "wrong constant", "1 of the 256 numbers of 'w0' is off the reference's by more than a step, up to 64"),
    (mirrored, "wrong constant", "numbers of 'w0' are off the reference's"),
    (negated, "channel scale", "the weights of channel 3 are -1 times the reference's")])
def test_weights_that_no_rounding_makes_are_not_called_coarse_or_scaled(spoil, cause, says):
    editor = Editor(layers("int8", "FULLY_CONNECTED"))
    index = editor.own(0, 1)
    values = editor.values(index).copy()
    spoil(values)
    editor.set_values(index, values)
    found = compared(editor.written(), layers("float32", "FULLY_CONNECTED")).by_node(0)
    assert found.cause == cause and says in found.detail


def test_a_bias_in_another_scale_than_kernels_take_is_named():
    editor = Editor(layers("int8", "FULLY_CONNECTED"))
    index = editor.own(1, 2)
    editor.set_values(index, editor.values(index) // 4)
    editor.set_scale(index, editor.scale(index) * 4)
    report = compared(editor.written(), layers("float32", "FULLY_CONNECTED"))
    found = report.by_node(1)
    assert found.cause == "bias scale" and "4 times the input's" in found.detail and report.ranking[0] == 1


def test_a_reshape_between_two_scales_is_named():
    editor = Editor(layers("int8", "RESHAPE"))
    index = editor.subgraph.operators[1].outputs[0]
    editor.set_scale(index, editor.scale(index) * 2)
    report = compared(editor.written(), layers("float32", "RESHAPE"))
    assert report.ranking[0] == 1 and report.by_node(1).cause == "scales differ"
    assert "copies integers of scale 0.04 and zero point 0 to a tensor of 0.08 and 0" in report.by_node(1).detail


def chain(dtype, *, order=(0, 1), beta=1.0, large=1.0):
    """Two layers of one input, joined, and a softmax.  large: times which the range of the first is too wide."""
    rng, m, whole = np.random.default_rng(0), ModelBuilder(), dtype == "int8"
    x = m.tensor("x", (1, CHANNELS), dtype, **({"scale": 1 / 127} if whole else {}))
    parts = []
    for k in range(2):
        weights = rng.normal(0, 0.3, (CHANNELS, CHANNELS)).astype(np.float32)
        step = float(np.abs(weights).max()) / 127
        y = m.tensor(f"y{k}", (1, CHANNELS), dtype, **({"scale": 0.02 * large} if whole else {}))
        w = m.constant(f"w{k}", np.rint(weights / step).astype(np.int8) if whole else weights,
                       **({"scale": step} if whole else {}))
        m.operator("FULLY_CONNECTED", [x, w], [y])
        parts.append(y)
    joined = m.tensor("joined", (1, 2 * CHANNELS), dtype, **({"scale": 0.02 * large} if whole else {}))
    m.operator("CONCATENATION", [parts[i] for i in order], [joined], axis=1)
    z = m.tensor("z", (1, 2 * CHANNELS), dtype, **({"scale": 1 / 256, "zero_point": -128} if whole else {}))
    m.operator("SOFTMAX", [joined], [z], beta=beta)
    m.inputs([x])
    m.outputs([z])
    return m.build()


def test_an_option_that_differs_is_named():
    report = compared(chain("int8", beta=3.0), chain("float32"))
    assert report.by_node(3).cause == "wrong option"
    assert report.by_node(3).detail == "beta is 3.0, and the reference's 1.0"


def test_exchanged_operands_are_not_blamed_on_the_ranges_that_are_read():
    report = compared(chain("int8", order=(1, 0), large=4.0), chain("float32"))
    assert report.ranking[0] == 2 and report.by_node(2).cause == "wrong operand"
    assert "reads 'y1', 'y0' in this order, and the reference's node 'y0', 'y1'" in report.by_node(2).detail
