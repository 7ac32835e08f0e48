"""CONV_3D and CONV_3D_TRANSPOSE."""
import numpy as np
import pytest

from pylite.ir.shapes import window_output
from pylite.schema.builder import ModelBuilder
from tests.ops.draw import activation
from tests.tools.oneop import check, differential, run_pylite


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


@pytest.mark.parametrize("dilation", [2**30, 2**31 - 1])
@pytest.mark.parametrize("taps", [2, 3])
def test_a_dilation_beyond_the_volume(dilation, taps):
    """The same as a dilation that just leaves the volume, of the same parity."""
    def model(dilation):
        m = ModelBuilder()
        w = m.constant("w", np.random.default_rng(taps).standard_normal((taps, taps, taps, 2, 3)).astype(np.float32))
        x, y = m.tensor("x", (1, 4, 5, 6, 2)), m.tensor("y", (1, 4, 5, 6, 3))
        m.operator("CONV_3D", [x, w], [y], padding="SAME", stride_d=1, stride_h=1, stride_w=1,
                   dilation_d_factor=dilation, dilation_h_factor=dilation, dilation_w_factor=dilation)
        m.inputs([x])
        m.outputs([y])
        return m.build()
    x = np.random.default_rng(0).standard_normal((1, 4, 5, 6, 2)).astype(np.float32)
    check(model(dilation), [x], run_pylite(model(20 + dilation % 2), [x]), f"{dilation}, {taps} taps")
