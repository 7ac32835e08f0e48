"""Products of float32 with weights that are stored as float16, on every ISA level."""
import numpy as np
import pytest

from pylite._core.kernels import half_weights, packing, winograd
from pylite._core.product.layouts import TapsByChannel
from tests.tools.operands import Guarded, strided, sums, threads

ONE_PIXEL = (1, 1, 1, 1, 1, 1, 0, 0)


def numbers(rng, size, c, k, taps=1):
    """(x, w, bias), whose products and sums are exact; w is float16."""
    return (rng.integers(-9, 10, (1, *size, c)).astype(np.float32),
            rng.integers(-9, 10, (k, taps, taps, c)).astype(np.float16),
            rng.integers(-9, 10, k).astype(np.float32))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("size", "c", "k"), [
    ((1, 1), 1024, 300), ((1, 1), 1, 1), ((1, 1), 5000, 33), ((1, 1), 63, 64), ((1, 1), 257, 7), ((9, 9), 1024, 400),
    ((1, 2), 30, 7), ((40, 30), 300, 65), ((1, 13), 2000, 150)])
def test_products(isa_level, size, c, k, bias):
    x, w, b = numbers(np.random.default_rng(c), size, c, k)
    want = np.clip(sums(x, w, ONE_PIXEL, size) + (b if bias else 0), -2000, 40000)
    panels = packing.pack_halves(w)
    for pool, gap in zip(threads(), (0, 1, 12), strict=True):
        y = Guarded(want.shape, np.float32, gap)
        kernel = half_weights.HalfWeights(strided(x, gap), y.array, panels, b if bias else None, filter=ONE_PIXEL,
                                          limits=(-2000, 40000))
        assert kernel.run(pool) == 0
        y.check()
        np.testing.assert_array_equal(y.array, want)


@pytest.mark.parametrize(("size", "c", "k"), [((9, 8), 130, 33), ((14, 14), 300, 100), ((5, 7), 49, 16)])
def test_winograd(isa_level, size, c, k):
    rng, filter = np.random.default_rng(c), (3, 3, 1, 1, 1, 1, 1, 1)
    x, w, bias = numbers(rng, size, c, k, 3)
    w = 4 * rng.integers(-3, 4, w.shape).astype(np.float16)         # their transforms are whole numbers
    want = np.clip(sums(x, w, filter, size) + bias, -500, 4000)
    panels = packing.pack_halves(w, 1, TapsByChannel())
    tiles = -(-size[0] // 2) * -(-size[1] // 2)
    for pool in threads():
        y, scratch = Guarded(want.shape, np.float32), Guarded((winograd.scratch_size(c, k, tiles),), np.float32)
        kernel = winograd.WinogradF32(x, y.array, panels, bias, filter=filter, limits=(-500, 4000),
                                      scratch=scratch.array)
        assert kernel.run(pool) == 0
        y.check()
        scratch.check()
        np.testing.assert_array_equal(y.array, want)


def test_every_float16(isa_level):
    """Each is multiplied by 1, also the subnormal ones, which are normal float32."""
    w = np.arange(1 << 16, dtype=np.uint16).view(np.float16).reshape(-1, 1, 1, 1)
    x, y = np.ones((1, 1, 2, 1), np.float32), np.empty((1, 1, 2, len(w)), np.float32)
    assert half_weights.HalfWeights(x, y, packing.pack_halves(w), None, filter=ONE_PIXEL,
                                    limits=(-np.inf, np.inf)).run() == 0
    number = ~np.isnan(w.ravel())
    for row in y[0, 0]:
        np.testing.assert_array_equal(row[number], w.ravel()[number].astype(np.float32))


@pytest.mark.parametrize(("x", "filter"), [(np.zeros((1, 2, 3, 8), np.float32)[:, :, :2], (1, 1, 1, 1, 1, 1, 0, 0)),
                                           (np.zeros((1, 2, 3, 8), np.float32), (1, 2, 1, 1, 1, 1, 0, 0)),
                                           (np.zeros((1, 4, 4, 8), np.float32), (1, 1, 2, 2, 1, 1, 0, 0))])
def test_windows_of_other_pixels_are_refused(x, filter):
    panels = packing.pack_halves(np.zeros((40, *filter[:2], 8), np.float16))
    with pytest.raises(ValueError, match="the filter is not one tap, or the lines of x have gaps"):
        half_weights.HalfWeights(x, np.zeros((1, 2, 2, 40), np.float32), panels, None, filter=filter, limits=(-1, 1))
