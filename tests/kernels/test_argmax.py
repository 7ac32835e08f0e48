"""The arg-max kernel on plain arrays: all memory layouts, with equal elements."""
import numpy as np
import pytest

from pylite._core import simd
from pylite._core.kernels.argmax import ArgMax

REVERSED_ORDER = {"float32": 0x80000000, "int32": 0xFFFFFFFF, "int8": 0xFF, "uint8": 0xFF}


@pytest.mark.parametrize("dtype", REVERSED_ORDER)
@pytest.mark.parametrize("isa_level", simd.available())
def test_first_of_equal_elements_is_returned(dtype, isa_level):
    rng = np.random.default_rng(0)
    chosen = simd.current
    simd.use(isa_level)
    try:
        for outer in (1, 3, 16, 35):
            for size in (1, 15, 16, 17, 64, 128, 129, 300):
                for inner in (1, 2, 15, 16, 17, 40):
                    check(rng, (outer, size, inner), dtype)
    finally:
        simd.use(chosen)


def check(rng, shape, dtype):
    levels = int(rng.choice([1, 3, 100]))
    x = rng.integers(0, levels, shape).astype(np.float64) - (0 if dtype == "uint8" else levels // 2)
    if rng.random() < 0.3:
        x[:] = -np.inf if dtype == "float32" else np.iinfo(dtype).min     # the identity of the maximum
    x = x.astype(dtype)
    largest = rng.random() < 0.5
    flip = (0x80 if dtype == "uint8" else 0) ^ (0 if largest else REVERSED_ORDER[dtype])
    y = np.zeros((shape[0], shape[2]), rng.choice(["int32", "int64"]))
    kind = {"float32": "f", "int32": "i"}.get(dtype, "b")
    kernel = ArgMax(x.reshape(-1).view(np.uint8), y.reshape(-1).view(np.uint8), kind, flip, *shape)
    assert kernel.run(simd.Pool(2)) == 0
    np.testing.assert_array_equal(y, (np.argmax if largest else np.argmin)(x, 1), err_msg=f"{shape} {largest}")
