"""QUANTIZE of float32 to 8 bits: quotients at and next to a half, and numbers that no integer holds, among others."""
import itertools
import struct

import numpy as np
import pytest

from tests.checkasm import ISA_LEVELS

N = 4096        # elements: the blocks with and without a number close to a half follow each other
FAR = [np.inf, -np.inf, np.nan, 3e38, -3e38, 2.2e9, -2.2e9, 4e4, -4e4, 1e-45, -0.0]


def quantized(isa_level, x, scale, zero, dtype):
    y, limits = np.empty(len(x), dtype), np.iinfo(dtype)
    parameters = struct.pack("f3i", scale, zero, limits.min, limits.max)
    ISA_LEVELS[isa_level].quantize_f32_i8(len(x), x.ctypes.data, y.ctypes.data, parameters)
    return y


def expected(x, scale, zero, dtype):
    """The quotient in float32, rounded halves away from zero; what is no int32 is the least one, and sums wrap."""
    with np.errstate(all="ignore"):
        q = (x / np.float32(scale)).astype(np.float64)
        q = np.trunc(q + np.copysign(0.5, q))
    q[~((q >= -(2.0**31)) & (q < 2.0**31))] = -(2.0**31)
    sums = (q.astype(np.int64) + zero).astype(np.int32)
    return np.clip(sums, np.iinfo(dtype).min, np.iinfo(dtype).max).astype(dtype)


@pytest.mark.parametrize("every", [1, 7, 97, 1021])
@pytest.mark.parametrize("scale", [0.0078125, 0.003921569, 0.1, 1.0, 3.7e-5, 250.0, 1e-20, 2e25])
def test_quotients_close_to_halves(isa_level, scale, every):
    rng = np.random.default_rng(every)
    x = (rng.uniform(-140, 140, N) * scale).astype(np.float32)
    halves = ((rng.integers(-140, 140, len(x[::every])) + 0.5) * scale).astype(np.float32)
    x[::every] = (halves.view(np.int32) + rng.integers(-4, 5, len(halves), np.int32)).view(np.float32)
    with np.errstate(over="ignore"):
        far = (rng.choice(FAR, N) * scale).astype(np.float32)
    for zero, dtype in itertools.product((-128, -1, 0, 127, 255, -70000, 70000, 2**31 - 1), (np.int8, np.uint8)):
        for numbers in (x, np.where(rng.random(N) < 1 / (8 * every), far, x)):
            np.testing.assert_array_equal(quantized(isa_level, numbers, scale, zero, dtype),
                                          expected(numbers, scale, zero, dtype))
