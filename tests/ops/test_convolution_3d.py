"""CONV_3D and CONV_3D_TRANSPOSE."""
import numpy as np

from pylite.ir.shapes import window_output
from tests.ops.draw import activation
from tests.tools.oneop import differential


def draw_options(rng):
    words = {f"stride_{a}": int(rng.integers(1, 4)) for a in "dhw"}
    words |= {f"dilation_{a}_factor": int(rng.integers(1, 3)) for a in "dhw"}
    return words | {"padding": str(rng.choice(["SAME", "VALID"])), "fused_activation_function": activation(rng)}


@differential("float32", count=30)
def test_conv_3d(m, rng, dtype):
    o = draw_options(rng)
    n, c, k = int(rng.integers(1, 3)), int(rng.choice([1, 3, 17, 40])), int(rng.choice([1, 5, 16, 33]))
    taps = [int(i) for i in rng.integers(1, 4, 3)]
    size = [int(i) for i in rng.integers(7, 10, 2)] + [int(rng.integers(7, 20))]
    out = [window_output(s, t, o[f"stride_{a}"], o[f"dilation_{a}_factor"], o["padding"])
           for s, t, a in zip(size, taps, "dhw", strict=True)]
    x, y = m.tensor("x", (n, *size, c)), m.tensor("y", (n, *out, k))
    w = m.constant("w", np.resize(rng.standard_normal(499) * 0.2, (*taps, c, k)).astype(np.float32))
    b = [m.constant("b", rng.standard_normal(k).astype(np.float32))] if rng.random() < 0.6 else []
    m.operator("CONV_3D", [x, w, *b], [y], **o)
    m.inputs([x])
    m.outputs([y])
    return [np.resize(rng.standard_normal(997), (n, *size, c)).astype(np.float32)]


@differential("float32", count=60)
def test_conv_3d_transpose(m, rng, dtype):
    o = draw_options(rng)
    n, c, k = int(rng.integers(1, 3)), int(rng.choice([1, 3, 17])), int(rng.choice([1, 5, 16]))
    taps = [int(i) for i in rng.integers(1, 4, 3)]
    out = [int(i) for i in rng.integers(5, 9, 2)] + [int(rng.integers(5, 30))]
    size = [window_output(s, t, o[f"stride_{a}"], o[f"dilation_{a}_factor"], o["padding"])
            for s, t, a in zip(out, taps, "dhw", strict=True)]
    x, y = m.tensor("x", (n, *size, c)), m.tensor("y", (n, *out, k))
    w = m.constant("w", np.resize(rng.standard_normal(499) * 0.2, (*taps, k, c)).astype(np.float32))
    b = [m.constant("b", rng.standard_normal(k).astype(np.float32))] if rng.random() < 0.6 else []
    m.operator("CONV_3D_TRANSPOSE", [m.constant("shape", np.array((n, *out, k), np.int32)), w, x, *b], [y], **o)
    m.inputs([x])
    m.outputs([y])
    return [np.resize(rng.standard_normal(997), (n, *size, c)).astype(np.float32)]
