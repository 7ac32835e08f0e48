"""DENSIFY, and operators with sparse weights."""
import numpy as np

from tests.schema.sparse_models import sparse_constant
from tests.tools.oneop import differential


@differential("float32", "float16", "int8", count=10)
def test_densify(m, rng, dtype):
    shape = (int(rng.integers(1, 6)), 4 * int(rng.integers(1, 6)))
    share = rng.choice([0, 0.4])        # without any, the buffer is empty
    dense = (rng.integers(-9, 10, shape) * (rng.random(shape) < share)).astype(dtype)
    blocks = rng.random() < 0.5
    x = sparse_constant(m, "x", dense, *(((0, 1, 2), (1,), (1,), (4,)) if blocks else ((0, 1), (1,))))
    other, y, z = m.tensor("other", shape, dtype), m.tensor("y", shape, dtype), m.tensor("z", shape, dtype)
    m.operator("DENSIFY", [x], [y])
    m.operator("CONCATENATION", [y, other], [z], axis=0)
    m.inputs([other])
    m.outputs([z])
    return [np.ones(shape, dtype)]


@differential("float32", "int8", count=15)
def test_fully_connected(m, rng, dtype):
    rows, columns, depth = int(rng.integers(1, 5)), 4 * int(rng.integers(1, 5)), 16 * int(rng.integers(1, 4))
    dense = (rng.integers(-127, 128, (columns, depth)) * (rng.random((columns, depth)) < 0.4)).astype(dtype)
    layout = ((0, 1, 2), (1,), (1,), (16,) if dtype == "int8" else (4,))
    q = dtype == "int8"
    if q or rng.random() < 0.5:
        layout = ((0, 1), (1,)) if not q else layout
    x = m.tensor("x", (rows, depth), dtype, **({"scale": 0.1, "zero_point": 3} if q else {}))
    w = sparse_constant(m, "w", dense, *layout, **({"scale": 0.02} if q else {}))
    b = m.constant("b", np.arange(columns, dtype=np.int32 if q else np.float32), *([0.002] if q else []))
    y = m.tensor("y", (rows, columns), dtype, **({"scale": 20.0, "zero_point": -5} if q else {}))
    m.operator("FULLY_CONNECTED", [x, w, b], [y], fused_activation_function="RELU")
    m.inputs([x])
    m.outputs([y])
    return [(rng.integers(-128, 128, (rows, depth)) if q else rng.standard_normal((rows, depth))).astype(dtype)]
