"""TRANSPOSE_CONV."""
import numpy as np
import pytest

from pylite.interpreter import Interpreter
from pylite.schema.builder import ModelBuilder
from tests.ops.convolving import channels, finish, operands, window
from tests.tools.oneop import differential


@differential("float32", "int8", "int8 per tensor", "uint8", "int16", "int16 int32", "hybrid", count=40)
def test_transpose_conv(m, rng, kind):
    small, taps, _, options = window(rng, dilations=(1,))
    step = options["stride_h"], options["stride_w"]
    if options["padding"] == "SAME":
        size = [n * s - int(rng.integers(0, s)) for n, s in zip(small, step, strict=True)]
    else:
        size = [(n - 1) * s + max(f, s) for n, s, f in zip(small, step, taps, strict=True)]
    n, c, k = int(rng.integers(1, 3)), channels(rng), channels(rng)
    if "hybrid" in kind:
        k = 1 if rng.random() < 0.3 else k
    for name in ("dilation_h_factor", "dilation_w_factor"):
        del options[name]
    if "int32" in kind:
        options["quantized_bias_type"] = "int32"
    (x, w, b, y), data = operands(m, rng, kind, (n, *small, c), (k, *taps, c), 0, (n, *size, k), rng.random() < 0.7)
    shape = m.constant("shape", np.array([n, *size, k], np.int32))
    return finish(m, "TRANSPOSE_CONV", [shape, w, x] + ([] if b is None else [b]), y, x, data, version=4, **options)


def test_a_batch_other_than_the_constant_shapes_is_refused():
    """The output's shape is a constant, so the batch cannot change."""
    m = ModelBuilder()
    x, y = m.tensor("x", (1, 4, 4, 2)), m.tensor("y", (1, 8, 8, 3))
    shape = m.constant("shape", np.array([1, 8, 8, 3], np.int32))
    w = m.constant("w", np.ones((3, 2, 2, 2), np.float32))
    m.operator("TRANSPOSE_CONV", [shape, w, x], [y], padding="SAME", stride_h=2, stride_w=2)
    m.inputs([x])
    m.outputs([y])
    interpreter = Interpreter(model_content=m.build())
    for batch in (0, 2):
        interpreter.resize_tensor_input(x, [batch, 4, 4, 2])
        with pytest.raises(RuntimeError, match=f"TRANSPOSE_CONV.*for a batch of 1, but .* a batch of {batch}"):
            interpreter.allocate_tensors()
