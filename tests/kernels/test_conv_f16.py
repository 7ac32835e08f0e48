"""Convolutions in float16: every ISA level gives the numbers of plain C, in float16 as in float32."""
import itertools

import numpy as np
import pytest

from pylite._core import simd
from pylite._core.kernels import packing
from pylite._core.kernels.conv_float import ConvF32
from pylite._core.kernels.winograd import WinogradF32
from pylite._core.product.layouts import WinogradFloat
from tests.tools.operands import Guarded, draw_filter, output_size, strided, sums, threads


@pytest.mark.parametrize("seed", range(30))
def test_conv_f16(isa_level, seed):
    rng = np.random.default_rng(seed)
    size, filter = draw_filter(rng)
    c, k, groups = int(rng.choice([1, 3, 16, 33])), int(rng.integers(1, 80)), int(rng.choice([1, 2]))
    winograd = seed % 10 == 8
    if winograd:
        c, k, groups, filter = 16 * int(rng.integers(1, 9)), k + 16, 1, (3, 3, 1, 1, 1, 1, 1, 1)
    elif seed % 10 == 9:
        c, size, filter = 2000, (1, 3), (1, 1, 1, 1, 1, 1, 0, 0)
    elif seed == 7:     # more than an A panel holds of a full tile
        c, k, size, filter, groups = 7001, 9, (3, 19), (1, 1, 2, 2, 1, 1, 0, 0), 1
    x = rng.integers(-99, 100, (2 if seed % 3 else 1, *size, c * groups))
    w = rng.integers(-99, 100, (k * groups, *filter[:2], c))
    bias = rng.normal(size=k * groups).astype(np.float32)
    output = output_size(size, filter)
    exact, largest = (sums(a, b, filter, output, groups) / 4096 for a, b in ((x, w), (abs(x), abs(w))))
    x, w = (x / 64).astype(np.float32), (w / 64).astype(np.float32)
    results, rounded = [], (x, x.astype(np.float16))
    for level, pool, gap in [("base", None, 0), *zip([isa_level] * 3, threads(), (0, 1, 12), strict=True)]:
        simd.use(level)
        panels = packing.pack_f16(w, 16, WinogradFloat()) if winograd else packing.pack_f16(w, groups)
        for image, dtype in itertools.product(rounded, (np.float32, np.float16)):
            y = Guarded(exact.shape, dtype, gap)
            arguments = strided(image, gap), y.array, panels, bias
            named = {"filter": filter, "limits": (-50, 400), "half": True}
            kernel = WinogradF32(*arguments, **named) if winograd else ConvF32(*arguments, groups=groups, **named)
            assert kernel.run(pool) == 0
            y.check()
            results.append(y.array.copy())
    assert (abs(results[0] - np.clip(exact + bias, -50, 400)) <= largest * 2.0**(-6 if winograd else -8) + 0.2).all()
    assert panels.dtype == np.float16
    for result in results[1:]:
        np.testing.assert_array_equal(result.astype(np.float32), results[0])
