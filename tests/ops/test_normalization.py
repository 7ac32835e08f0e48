"""L2 normalization."""
from tests.ops import draw
from tests.tools.oneop import differential


@differential("float32", "int8", "uint8", count=50)
def test_l2_normalization(m, rng, dtype):
    rank = int(rng.integers(1, 5))
    shape = (*(int(n) for n in rng.integers(0 if rng.random() < 0.1 else 1, 4, rank - 1)),
             int(rng.choice([1, 2, 3, 10, 17, 100, 257])))
    x = m.tensor("x", shape, dtype, **draw.quantization(rng, dtype))
    y = m.tensor("y", shape, dtype, *{"int8": (1 / 128, 0), "uint8": (1 / 128, 128)}.get(dtype, ()))
    m.operator("L2_NORMALIZATION", [x], [y])
    m.inputs([x])
    m.outputs([y])
    return [draw.values(rng, shape, dtype)]
