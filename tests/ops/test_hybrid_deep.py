"""Hybrid products whose rows are deeper than a packed A panel, with several rows."""
import numpy as np
import pytest

from pylite.interpreter import Interpreter
from pylite.schema.builder import ModelBuilder

pytestmark = pytest.mark.usefixtures("isa_level")


def run(content, x):
    interpreter = Interpreter(model_content=content)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


def fully_connected(rows, w):
    m = ModelBuilder()
    x, y = m.tensor("x", (rows, w.shape[1])), m.tensor("y", (rows, len(w)))
    m.operator("FULLY_CONNECTED", [x, m.constant("w", w, scale=0.01), -1], [y], asymmetric_quantize_inputs=True)
    m.inputs([x])
    m.outputs([y])
    return m.build()


@pytest.mark.parametrize(("rows", "depth", "columns"), [(16, 16384, 8), (40, 6000, 20), (5, 70000, 3)])
def test_several_rows_equal_single_rows(rows, depth, columns):
    rng = np.random.default_rng(0)
    w = rng.integers(-127, 128, (columns, depth), np.int8)
    x = rng.standard_normal((rows, depth), np.float32)
    single = fully_connected(1, w)
    want = np.concatenate([run(single, row[None]) for row in x])
    np.testing.assert_array_equal(run(fully_connected(rows, w), x), want)


def convolution(w, shape, stride, hybrid):
    m = ModelBuilder()
    size = [-(-n // stride) for n in shape[1:3]]
    x, y = m.tensor("x", shape), m.tensor("y", (shape[0], *size, len(w)))
    filters = m.constant("w", w, scale=0.01) if hybrid else m.constant("w", w.astype(np.float32) * np.float32(0.01))
    m.operator("CONV_2D", [x, filters, -1], [y], padding="SAME", stride_h=stride, stride_w=stride)
    m.inputs([x])
    m.outputs([y])
    return m.build()


@pytest.mark.parametrize(("shape", "taps", "stride"), [
    ((1, 8, 20, 2048), 3, 1), ((1, 8, 40, 1024), 3, 2), ((1, 9, 40, 640), 5, 3)])
def test_hybrid_convolutions_are_near_float_ones(shape, taps, stride):
    rng = np.random.default_rng(0)
    w = rng.integers(-127, 128, (4, taps, taps, shape[3]), np.int8)
    x = rng.standard_normal(shape, np.float32)
    want = run(convolution(w, shape, stride, False), x)
    np.testing.assert_allclose(run(convolution(w, shape, stride, True), x), want, atol=0.03 * np.abs(want).max())
