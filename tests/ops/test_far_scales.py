"""Scales so far apart that multipliers exceed 2^31 and quotients an int32: shifts and conversions as on x86-64."""
import numpy as np

from tests.tools.oneop import differential

TABLES = {"RELU": {}, "RELU6": {}, "RELU_N1_TO_1": {}, "LEAKY_RELU": {"alpha": 0.5}, "GELU": {}, "SQRT": {},
          "ABS": {}, "EXP": {}}


def scale(rng, low, high):
    return float(np.float32(10.0 ** rng.uniform(low, high)))


@differential(*TABLES, count=12)
def test_tables(m, rng, name):
    dtype = "uint8" if name in ("RELU", "RELU6", "GELU") and rng.random() < 0.5 else "int8"
    zero, y_zero = (int(v) - 128 * (dtype == "int8") for v in rng.integers(0, 256, 2))
    x = m.tensor("x", (256,), dtype, scale(rng, 1, 4), zero)
    y = m.tensor("y", (256,), dtype, scale(rng, -8, -5), y_zero)
    m.operator(name, [x], [y], **TABLES[name])
    m.inputs([x])
    m.outputs([y])
    values = np.arange(256).astype(np.uint8).view(dtype)
    return [np.maximum(values, values.dtype.type(zero)) if name == "SQRT" else values]


@differential("CONV_2D", "FULLY_CONNECTED", count=12)
def test_products(m, rng, name):
    """Each channel has its own multiplier, far below 1 or far above."""
    n, depth = int(rng.integers(1, 40)), int(rng.integers(1, 40))
    scales = np.array([scale(rng, -8, 4) for _ in range(n)], np.float32)
    x_scale, zero, y_zero = np.float32(scale(rng, -4, 4)), *rng.integers(-128, 128, 2).tolist()
    image = name == "CONV_2D"
    x = m.tensor("x", (1, 1, 2, depth) if image else (2, depth), "int8", x_scale, zero)
    w = m.constant("w", rng.integers(-127, 128, (n, 1, 1, depth) if image else (n, depth)).astype(np.int8), scales)
    b = m.constant("b", rng.integers(-999, 999, n).astype(np.int32), scales * x_scale)
    y = m.tensor("y", (1, 1, 2, n) if image else (2, n), "int8", scale(rng, -8, 0), y_zero)
    m.operator(name, [x, w, b], [y], **({"padding": "VALID", "stride_h": 1, "stride_w": 1} if image else {}))
    m.inputs([x])
    m.outputs([y])
    return [rng.integers(-128, 128, (1, 1, 2, depth) if image else (2, depth)).astype(np.int8)]
