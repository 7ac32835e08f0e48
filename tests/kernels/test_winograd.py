"""Winograd's 3 x 3 convolutions of float32, on every ISA level."""
import numpy as np
import pytest

from pylite._core.kernels import packing, winograd
from pylite._core.product.layouts import TapsByChannel, WinogradFloat
from tests.tools.operands import Guarded, strided, sums, threads


@pytest.mark.parametrize("seed", range(20))
def test_winograd_f32(isa_level, seed):
    """Filters that are transformed when they are packed, or at run time, by one thread or several."""
    rng = np.random.default_rng(seed)
    size, pad = [int(v) for v in rng.integers(3, 22, 2)], int(rng.integers(2))
    n, c, k = int(rng.integers(1, 3)), int(rng.choice([16, 40, 49, 130, 300])), int(rng.choice([16, 33, 100, 300]))
    filter, packed = (3, 3, 1, 1, 1, 1, pad, pad), seed % 3 == 0
    out = [v + 2 * pad - 2 for v in size]
    x = rng.integers(-9, 10, (n, *size, c)).astype(np.float32)
    w = 4 * rng.integers(-3, 4, (k, 3, 3, c)).astype(np.float32)        # their transforms are whole numbers
    bias = rng.integers(-9, 10, k).astype(np.float32)
    want = np.clip(sums(x, w, filter, out) + bias, -500, 4000)
    panels = packing.pack_f32(w, 16, WinogradFloat()) if packed else packing.pack_f32(w, 1, TapsByChannel())
    tiles = n * -(-out[0] // 2) * -(-out[1] // 2)
    for pool, gap in zip(threads(), (0, 1, 12), strict=True):
        y, scratch = Guarded(want.shape, np.float32, gap), Guarded((winograd.scratch_size(c, k, tiles),), np.float32)
        kernel = winograd.WinogradF32(strided(x, gap), y.array, panels, bias, filter=filter, limits=(-500, 4000),
                                      scratch=None if packed else scratch.array)
        assert kernel.run(pool) == 0
        y.check()
        scratch.check()
        np.testing.assert_array_equal(y.array, want)


def test_scratch_that_is_too_small_is_refused():
    x, w = np.zeros((1, 8, 8, 200), np.float32), np.zeros((40, 3, 3, 200), np.float32)
    scratch = np.zeros(winograd.scratch_size(200, 40, 16) - 1, np.float32)
    with pytest.raises(ValueError, match="scratch is too small"):
        winograd.WinogradF32(x, np.zeros((1, 8, 8, 40), np.float32), packing.pack_f32(w, 1, TapsByChannel()), None,
                             filter=(3, 3, 1, 1, 1, 1, 1, 1), limits=(-1, 1), scratch=scratch)
