"""float32 convolutions with weights of float16, on every ISA level."""
import numpy as np
import pytest

from pylite._core.kernels import half_weights, packing, winograd
from pylite._core.product.layouts import TapsByChannel
from tests.tools.operands import Guarded, output_size, strided, sums, threads

ONE_PIXEL = (1, 1, 1, 1, 1, 1, 0, 0)


def numbers(rng, size, c, k, filter):
    """(x, w, bias), whose products and sums are exact; w is float16."""
    return (rng.integers(-9, 10, (1, *size, c)).astype(np.float32),
            rng.integers(-9, 10, (k, *filter[:2], c)).astype(np.float16),
            rng.integers(-9, 10, k).astype(np.float32))


@pytest.mark.parametrize(("size", "c", "k", "filter"), [
    ((9, 9), 1024, 400, ONE_PIXEL), ((1, 2), 30, 7, ONE_PIXEL), ((14, 14), 256, 301, (3, 3, 2, 2, 1, 1, 0, 0)),
    ((30, 5), 130, 130, (5, 5, 1, 1, 1, 1, 2, 2)), ((1, 40), 2000, 150, (1, 1, 1, 2, 1, 1, 0, 0)),
    ((7, 7), 40, 33, (7, 7, 1, 1, 1, 1, 0, 0))])
def test_blocks_of_columns(isa_level, size, c, k, filter):
    x, w, bias = numbers(np.random.default_rng(0), size, c, k, filter)
    want = np.clip(sums(x, w, filter, output_size(size, filter)) + bias, -2000, 40000)
    panels = packing.pack_halves(w)
    for pool, gap in zip(threads(), (0, 1, 12), strict=True):
        y = Guarded(want.shape, np.float32, gap)
        scratch = Guarded((half_weights.scratch_size(k, w[0].size),), np.float32)
        kernel = half_weights.ConvHalfWeights(strided(x, gap), y.array, panels, bias, filter=filter,
                                              limits=(-2000, 40000), scratch=scratch.array)
        assert kernel.run(pool) == 0
        y.check()
        scratch.check()
        np.testing.assert_array_equal(y.array, want)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("c", "k"), [(1024, 300), (1, 1), (5000, 33), (63, 64), (64, 65), (257, 7)])
def test_a_single_row(isa_level, c, k, bias):
    x, w, b = numbers(np.random.default_rng(c), (1, 1), c, k, ONE_PIXEL)
    want = np.clip(sums(x, w, ONE_PIXEL, (1, 1)) + (b if bias else 0), -2000, 4000)
    panels = packing.pack_halves(w)
    for pool in threads():
        y = Guarded(want.shape, np.float32)
        kernel = half_weights.ConvHalfWeights(x, y.array, panels, b if bias else None, filter=ONE_PIXEL,
                                              limits=(-2000, 4000))
        assert kernel.run(pool) == 0
        y.check()
        np.testing.assert_array_equal(y.array, want)


@pytest.mark.parametrize(("size", "c", "k"), [((9, 8), 130, 33), ((14, 14), 300, 100), ((5, 7), 49, 16)])
def test_winograd(isa_level, size, c, k):
    rng, filter = np.random.default_rng(c), (3, 3, 1, 1, 1, 1, 1, 1)
    x, w, bias = numbers(rng, size, c, k, filter)
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


@pytest.mark.parametrize("pixels", [1, 2])
def test_every_float16(isa_level, pixels):
    """Each is multiplied by 1, also the subnormal ones, which are normal float32."""
    w = np.arange(1 << 16, dtype=np.uint16).view(np.float16).reshape(-1, 1, 1, 1)
    x, y = np.ones((1, 1, pixels, 1), np.float32), np.empty((1, 1, pixels, len(w)), np.float32)
    scratch = np.empty(half_weights.scratch_size(len(w), 1), np.float32) if pixels > 1 else None
    assert half_weights.ConvHalfWeights(x, y, packing.pack_halves(w), None, filter=ONE_PIXEL,
                                        limits=(-np.inf, np.inf), scratch=scratch).run() == 0
    number = ~np.isnan(w.ravel())
    for row in y[0, 0]:
        np.testing.assert_array_equal(row[number], w.ravel()[number].astype(np.float32))


@pytest.mark.parametrize("scratch", [None, 1])
def test_scratch_that_is_too_small_is_refused(scratch):
    panels = packing.pack_halves(np.zeros((40, 1, 1, 8), np.float16))
    scratch = scratch and np.empty(half_weights.scratch_size(40, 8) - 1, np.float32)
    with pytest.raises(ValueError, match="scratch is too small"):
        half_weights.ConvHalfWeights(np.zeros((1, 2, 1, 8), np.float32), np.zeros((1, 2, 1, 40), np.float32), panels,
                                     None, filter=ONE_PIXEL, limits=(-1, 1), scratch=scratch)
