"""The micro-kernels of every ISA level against plain numpy: odd shapes, extremes, and guard bytes around results."""
import struct
import sys

import numpy as np
import pytest

from pylite._core import simd
from pylite._core.kernels import (
    blockwise,
    conv,
    conv16,
    conv_float,
    depthwise,
    depthwise_packing,
    elementwise,
    packing,
    pooling,
    softmax,
)
from pylite._core.product.layouts import PixelPacking
from pylite.numerics import fixed_point, quantization
from tests.tools.operands import (
    Guarded,
    draw_bytes,
    draw_columns,
    draw_ends,
    draw_filter,
    in_reach,
    output_size,
    requantized,
    stored,
    strided,
    sums,
    threads,
)


def bytes_of(ends, flip=0, x_zero=0, w_zero=0):
    """The arguments of an 8-bit kernel for ends = (zero point, low, high), x and y having the same flip."""
    return {"quantization": (flip, x_zero, 0, w_zero), "finish": (*ends, flip)}


@pytest.mark.parametrize("seed", range(30))
def test_conv_q8(isa_level, seed):
    rng = np.random.default_rng(seed)
    size, filter = draw_filter(rng)
    groups = int(rng.choice([1, 1, 2, 3]))
    c, k = int(rng.choice([1, 2, 3, 4, 17, 40])), int(rng.integers(1, 150))
    if seed % 10 == 9:
        groups, c, size, filter = 1, 9000, (2, 2), (1, 1, 1, 1, 1, 1, 0, 0)      # deeper than a packed A panel
    flip = int(rng.choice([0, 0x80]))
    x, w = draw_bytes(rng, (2, *size, c * groups)), draw_bytes(rng, (k * groups, *filter[:2], c))
    x_zero = int(rng.choice([-128, 127, rng.integers(-128, 128)]))
    w_zero = int(rng.choice([0, -128, 127, rng.integers(-128, 128)])) if flip else 0
    bias, m, e = draw_columns(rng, k * groups)
    own = slice(1) if seed % 4 == 1 else slice(None)
    m, e = (np.broadcast_to(a[own], a.shape) for a in (m, e))
    if seed % 3 == 0:
        w[rng.random(k * groups) < 0.2] = 0
    ends = draw_ends(rng)
    out = output_size(size, filter)
    want = requantized(sums(x, w, filter, out, groups, x_zero, w_zero) + bias, m, e, *ends)
    weights = stored(w, flip) if flip else w.astype(np.int8)
    packed = packing.pack_q8(weights, bias, m[own], e[own], x_zero, w_zero, groups, None, filter[5],
                            in_reach(ends, seed))
    zero = np.full(filter[1] * c * groups, (x_zero & 0xFF) ^ flip, np.uint8)
    for pool, gap in zip(threads(), (0, 3, 20), strict=True):
        y = Guarded(want.shape, np.uint8, gap)
        kernel = conv.ConvQ8(strided(stored(x, flip), gap), y.array, packed, filter=filter, groups=groups, zero=zero,
                             **bytes_of(ends, flip, w_zero=w_zero))
        assert kernel.run(pool) == 0
        y.check()
        np.testing.assert_array_equal(y.array, stored(want, flip))


@pytest.mark.parametrize("seed", range(40))
def test_conv_q8_packed_pixels(isa_level, seed):
    """Few columns, images of many lines: pixel packing and line buffers."""
    rng = np.random.default_rng(seed)
    fh, fw = (1, 1) if seed % 5 == 0 else rng.integers(1, 6, 2).tolist()
    strides = (1, 1) if seed % 5 == 0 and seed % 2 else tuple(rng.integers(1, 4, 2).tolist())
    size = int(rng.integers(fh, 50)), int(rng.choice([4, 8, 12, 30, 64, 95])) + fw
    filter = fh, fw, *strides, 1, 1, int(rng.integers(0, fh)), int(rng.integers(0, fw))
    c, k = int(rng.choice([1, 2, 3, 4, 8, 16, 17])), int(rng.choice([1, 2, 3, 4, 5, 7, 8, 12, 16]))
    flip = int(rng.choice([0, 0x80]))
    x, w = draw_bytes(rng, (2, *size, c)), draw_bytes(rng, (k, fh, fw, c))
    x_zero = int(rng.choice([-128, 127, rng.integers(-128, 128)]))
    w_zero = int(rng.choice([0, -128, 127, rng.integers(-128, 128)])) if flip else 0
    bias, m, e = draw_columns(rng, k)
    own = slice(1) if seed % 4 == 1 else slice(None)
    m, e = (np.broadcast_to(a[own], a.shape) for a in (m, e))
    ends, out = draw_ends(rng), output_size(size, filter)
    out = out[0], max(out[1] // 4 * 4, 1)           # windows cover a part of the image only
    bias = None if seed % 7 == 0 else bias
    want = requantized(sums(x, w, filter, out, 1, x_zero, w_zero) + (0 if bias is None else bias), m, e, *ends)
    most = int(np.gcd(out[1], 4))
    weights = stored(w, flip) if flip else w.astype(np.int8)
    packed = packing.pack_q8(weights, bias, m[own], e[own], x_zero, w_zero, 1, PixelPacking(None, strides[1], most), 1,
                            in_reach(ends, seed))
    zero = np.full((fw + (most - 1) * strides[1]) * c, (x_zero & 0xFF) ^ flip, np.uint8)
    for pool in threads():
        y = Guarded(want.shape, np.uint8)
        kernel = conv.ConvQ8(stored(x, flip), y.array, packed, filter=filter, groups=1, zero=zero,
                             **bytes_of(ends, flip, w_zero=w_zero))
        assert kernel.run(pool) == 0
        y.check()
        np.testing.assert_array_equal(y.array, stored(want, flip))


@pytest.mark.parametrize("pad", [0, 1])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("width", [4, 5, 7, 10, 14, 15])
def test_conv_q8_lines_that_leave_tiles_partly_empty(isa_level, width, stride, pad):
    """Images whose lines are read in place or packed ahead; the last pixels of a line are multiplied line by line."""
    rng = np.random.default_rng([width, stride, pad])
    for size, c, k in ((1, 64, 20), (3, 8, 33), (3, 128, 16), (2, 40, 5)):
        filter = size, size, stride, stride, 1, 1, pad, pad
        x = draw_bytes(rng, (2, *((n - 1) * stride + size - 2 * pad + rng.integers(2) for n in (13, width)), c))
        w = draw_bytes(rng, (k, size, size, c))
        bias, m, e = draw_columns(rng, k)
        ends, out = draw_ends(rng), output_size(x.shape[1:3], filter)
        x_zero = int(rng.integers(-128, 128))
        want = requantized(sums(x, w, filter, out, 1, x_zero) + bias, m, e, *ends)
        packed = packing.pack_q8(w.astype(np.int8), bias, m, e, x_zero, 0, 1, None, 1, in_reach(ends, width))
        zero = np.full(size * c, x_zero & 0xFF, np.uint8)
        for pool in threads():
            y = Guarded(want.shape, np.uint8, 3)
            kernel = conv.ConvQ8(stored(x, 0), y.array, packed, filter=filter, zero=zero, **bytes_of(ends))
            assert kernel.run(pool) == 0
            y.check()
            np.testing.assert_array_equal(y.array, stored(want, 0))


@pytest.mark.parametrize("seed", range(8))
def test_requantization_near_rounding_steps(isa_level, seed):
    """Accumulators on both sides of each rounding step, which float32 might not distinguish."""
    rng = np.random.default_rng(seed)
    n = 300
    m, e = rng.integers(2**30, 2**31, n).astype(np.int32), -rng.integers(5, 11, n).astype(np.int32)
    if seed % 4 == 3:
        m[:] = 2**30
    zero_point, low, high = -128, -128 if seed % 2 else 0, 127
    results = rng.integers(low - zero_point if low else -127, high - zero_point + 1, (9, n))
    steps = np.sign(results) * (np.abs(results) - 0.5) * 2.0 ** (31 - e) / m
    bias = steps.astype(np.int32) + rng.integers(-1, 3, (9, n)).astype(np.int32)
    w = np.ones((n, 1, 1, 1), np.int8)
    zero, filter = np.zeros(1, np.uint8), (1, 1, 1, 1, 1, 1, 0, 0)
    x = np.arange(-2, 3).astype(np.int8).reshape(1, 1, 5, 1)
    for b in bias:
        packed = packing.pack_q8(w, b, m, e, 0, 0, 1, None, 1, (low - zero_point, high - zero_point))
        y = np.zeros((1, 1, 5, n), np.uint8)
        kernel = conv.ConvQ8(x.view(np.uint8), y, packed, filter=filter, groups=1, zero=zero,
                             **bytes_of((zero_point, low, high)))
        assert kernel.run() == 0
        want = requantized(x.astype(np.int64) + b, m, e, zero_point, low, high)
        np.testing.assert_array_equal(y.view(np.int8), want)


def test_columns_that_are_always_clamped(isa_level):
    """The products are too small to change these results, which are below the clamp of RELU, or above."""
    bias = np.array([-1 << 24, -1, 0, 1 << 24] * 5, np.int32)
    m, e = np.full(20, 2**30, np.int32), np.full(20, -20, np.int32)
    for low, want in ((7, [7, 7, 7, 15]), (-128, [-1, 7, 7, 15])):
        packed = packing.pack_q8(np.ones((20, 1, 1, 1), np.int8), bias, m, e, 0, 0, 1, None, 1, (low - 7, 120))
        y = np.zeros((1, 1, 5, 20), np.uint8)
        x, zero, filter = np.ones((1, 1, 5, 1), np.uint8), np.zeros(1, np.uint8), (1, 1, 1, 1, 1, 1, 0, 0)
        kernel = conv.ConvQ8(x, y, packed, filter=filter, groups=1, zero=zero, **bytes_of((7, low, 127)))
        assert kernel.run() == 0
        np.testing.assert_array_equal(y.view(np.int8), np.broadcast_to(want * 5, y.shape))


@pytest.mark.parametrize("seed", range(40))
def test_depthwise_q8(isa_level, seed):
    rng = np.random.default_rng(seed)
    size, filter = draw_filter(rng, 6)
    if seed % 3 == 0:
        filter = (3, 3, *(1, 1) * 3) if seed % 2 else (3, 3, 2, 2, 1, 1, 1, 1)
    c = int(rng.choice([1, 5, 8, 15, 16, 17, 24, 40, 64, 65, 96, 100, 144, 200, 320]))
    flip = int(rng.choice([0, 0x80]))
    x, w = draw_bytes(rng, (2, *size, c)), draw_bytes(rng, (c, *filter[:2], 1))
    x_zero = int(rng.choice([-128, 127, rng.integers(-128, 128)]))
    w_zero = int(rng.choice([0, -128, 127, rng.integers(-128, 128)])) if flip else 0
    bias, m, e = draw_columns(rng, c)
    own = slice(1) if seed % 4 == 1 else slice(None)
    m, e = (np.broadcast_to(a[own], a.shape) for a in (m, e))
    ends = draw_ends(rng)
    want = requantized(sums(x, w, filter, output_size(size, filter), c, x_zero, w_zero) + bias, m, e, *ends)
    w = w.transpose(3, 1, 2, 0)
    packed = depthwise_packing.pack_depthwise_q8(stored(w, flip) if flip else w.astype(np.int8), bias, m[own], e[own],
                                                 x_zero, w_zero, filter, in_reach(ends, seed))
    zero = np.full(c, (x_zero & 0xFF) ^ flip, np.uint8)
    for pool in threads():
        y = Guarded(want.shape, np.uint8)
        kernel = depthwise.DepthwiseQ8(stored(x, flip), y.array, packed, filter=filter, zero=zero,
                                       **bytes_of(ends, flip, w_zero=w_zero))
        assert kernel.run(pool) == 0
        y.check()
        np.testing.assert_array_equal(y.array, stored(want, flip))


@pytest.mark.parametrize("seed", range(15))
def test_fully_connected_q8(isa_level, seed):
    """Sums in 32 bits, finished by the float64 rule."""
    rng = np.random.default_rng(seed)
    m, n, k = (int(rng.integers(1, top)) for top in (15, 150, 6000 if seed % 5 == 0 else 300))
    x, w = draw_bytes(rng, (m, k)), draw_bytes(rng, (n, k))
    x_zero, w_zero = map(int, rng.integers(-128, 128, 2))
    bias = rng.integers(-1000, 1000, n).astype(np.int32)
    scales = rng.random(n) * 2.0 ** -int(rng.integers(4, 14))
    acc = (x.astype(np.int64) - x_zero) @ (w.astype(np.int64) - w_zero).T + bias
    want = np.clip([[quantization.round_away(float(a) * s) + 3 for a, s in zip(row, scales, strict=True)]
                    for row in acc], -120, 110)
    packed = packing.pack_weights(w.astype(np.int8))
    for pool, gap in zip(threads(), (0, 3, 20), strict=True):
        y = Guarded((m, 1, 1, n), np.uint8, gap)
        kernel = conv.ConvQ8(strided(stored(x, 0).reshape(m, 1, 1, k), gap), y.array, packed, filter=(1,) * 6 + (0, 0),
                             **bytes_of((3, -120, 110), 0, x_zero, w_zero), scales=scales, bias=bias)
        assert kernel.run(pool) == 0
        y.check()
        np.testing.assert_array_equal(y.array.reshape(m, n), stored(want, 0))


@pytest.mark.parametrize("seed", range(20))
def test_conv_f32(isa_level, seed):
    rng = np.random.default_rng(seed)
    size, filter = draw_filter(rng)
    c, k, groups = int(rng.choice([1, 3, 16, 33])), int(rng.integers(1, 80)), int(rng.choice([1, 2]))
    if seed % 10 == 9:
        c, size, filter = 2000, (1, 3), (1, 1, 1, 1, 1, 1, 0, 0)
    x = rng.integers(-9, 10, (2, *size, c * groups)).astype(np.float32)     # sums of these are exact
    w = rng.integers(-9, 10, (k * groups, *filter[:2], c)).astype(np.float32)
    bias = rng.integers(-9, 10, k * groups).astype(np.float32)
    want = np.clip(sums(x, w, filter, output_size(size, filter), groups) + bias, -50, 400)
    panels = packing.pack_f32(w, groups)
    for pool, gap in zip(threads(), (0, 1, 12), strict=True):
        y = Guarded(want.shape, np.float32, gap)
        kernel = conv_float.ConvF32(strided(x, gap), y.array, panels, bias, filter=filter, groups=groups,
                                    limits=(-50, 400))
        assert kernel.run(pool) == 0
        y.check()
        np.testing.assert_array_equal(y.array, want)


@pytest.mark.parametrize("seed", range(40))
def test_depthwise_f32(isa_level, seed):
    """With a multiplier, patches have slices of many channels, and zeros for the lines outside the image."""
    rng = np.random.default_rng(seed)
    size, filter = draw_filter(rng)
    c, times = int(rng.choice([1, 3, 4, 8, 16, 33, 64])), int(rng.choice([1, 1, 2, 3, 8, 20]))
    x = rng.integers(-9, 10, (2, *size, c)).astype(np.float32)
    w, bias = (rng.integers(-9, 10, s).astype(np.float32) for s in ((c * times, *filter[:2], 1), c * times))
    want = np.clip(sums(np.repeat(x, times, 3), w, filter, output_size(size, filter), c * times) + bias, -50, 100)
    y = Guarded(want.shape, np.float32)
    weights = np.ascontiguousarray(w.transpose(3, 1, 2, 0))
    assert depthwise.DepthwiseF32(x, y.array, weights, bias, filter=filter, limits=(-50, 100)).run(simd.Pool(2)) == 0
    y.check()
    np.testing.assert_array_equal(y.array, want)


def test_depthwise_f32_tall():
    """Many more lines at a time than a filter may have taps."""
    x, y = np.ones((1, 100_000, 1, 1), np.float32), Guarded((1, 100_000, 1, 1), np.float32)
    filter = (3, 1, 1, 1, 1, 1, 1, 0)
    assert depthwise.DepthwiseF32(x, y.array, x[:, :3], None, filter=filter, limits=(-50, 100)).run(simd.Pool(1)) == 0
    y.check()
    np.testing.assert_array_equal(y.array.ravel(), [2] + [3] * 99_998 + [2])


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("rule", ["MBQM64", "MBQM32"])
def test_conv16(isa_level, rule, seed):
    rng = np.random.default_rng(seed)
    size, filter = draw_filter(rng)
    c, k = int(rng.choice([1, 3, 16, 33, 2000 if seed % 5 == 0 else 8])), int(rng.integers(1, 80))
    x = rng.choice([-32768, 32767], (2, *size, c)) if seed % 3 == 0 else rng.integers(-32768, 32768, (2, *size, c))
    w = draw_bytes(rng, (k, *filter[:2], c)).astype(np.int8)
    bias, m, _ = draw_columns(rng, k)
    e = rng.integers(-14, -6, k).astype(np.int32)
    bias = bias.astype(np.int64)
    acc = sums(x, w, filter, output_size(size, filter)) + bias
    if rule == "MBQM32":
        want = requantized(acc, m, e, 0, -30000, 32767)
    else:
        want = np.clip(np.stack([fixed_point.mbqm64(acc[..., i], int(m[i]), int(e[i])) for i in range(k)], -1),
                       -30000, 32767)
    gap = seed % 4
    y = Guarded(want.shape, np.int16, gap)
    kernel = conv16.Conv16(strided(x.astype(np.int16), gap), y.array, conv16.pack_s16(w), filter=filter,
                           finish=(rule, bias, (m, e), -30000, 32767))
    assert kernel.run(simd.Pool(3)) == 0
    y.check()
    np.testing.assert_array_equal(y.array, want)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("operation", ["max", "average"])
def test_pooling_of_strided_pixels(isa_level, operation, seed):
    rng = np.random.default_rng(seed)
    (h, w), c = rng.integers(1, 20, 2).tolist(), int(rng.choice([1, 3, 16, 17, 32, 64, 70]))
    dtype = "int8" if seed % 2 or operation == "average" else "float32"
    window, stride = (rng.integers(low, 5, 2).tolist() for low in (1, 1)) if seed % 3 else ((2, 2), (2, 2))
    before = [int(rng.integers(0, n)) for n in window]
    size = [max((n + 2 * b - f) // s, 0) + 1 for n, b, f, s in zip((h, w), before, window, stride, strict=True)]
    size = [min(m, (n + b - 1) // s + 1) for m, n, b, s in zip(size, (h, w), before, stride, strict=True)]
    x = rng.integers(-128, 128, (2, h, w, c)).astype(dtype)
    arguments = operation, dtype, window, stride, before, (-100, 100)
    want, y = np.zeros((2, *size, c), dtype), Guarded((2, *size, c), dtype, 5)
    assert pooling.Pooling(x.view(np.uint8), want.view(np.uint8), *arguments).run() == 0
    assert pooling.Pooling(strided(x, 3).view(np.uint8), y.array.view(np.uint8), *arguments).run(simd.Pool(2)) == 0
    y.check()
    np.testing.assert_array_equal(y.array, want)


@pytest.mark.parametrize("n", [1, 2, 5, 17, 64, 65])
@pytest.mark.parametrize("bits", [8, 16])
def test_softmax_8_of_many_rows_equals_single_rows(isa_level, n, bits):
    """Many short rows give the results of each row alone, in place too."""
    rng = np.random.default_rng(n)
    x = rng.integers(0, 256, (37, n)).astype(np.uint8)
    arguments = bits, 0x80, (1 << 30, 22, -240)
    y, alone = Guarded((37, n * bits // 8), np.uint8), np.zeros((37, n * bits // 8), np.uint8)
    assert softmax.Softmax8(x, y.array, *arguments).run(simd.Pool(2)) == 0
    y.check()
    for row in range(37):
        assert softmax.Softmax8(x[row:row + 1], alone[row:row + 1], *arguments).run() == 0
    np.testing.assert_array_equal(y.array, alone)
    if bits == 8:
        assert softmax.Softmax8(x, x, *arguments).run() == 0
        np.testing.assert_array_equal(x, alone)


@pytest.mark.parametrize("seed", range(6))
def test_blockwise(isa_level, seed):
    """Weights with a scale for each block of the depth; x is exactly representable in 8 bits."""
    rng = np.random.default_rng(seed)
    m, n, blocks = int(rng.integers(1, 20)), int(rng.integers(1, 150)), int(rng.integers(1, 6))
    size = int(rng.choice([32, 32, 64, 1100]))      # the last in pieces
    x = rng.integers(-128, 128, (m, blocks * size)).astype(np.float32)
    x[:, :2] = -128, 127
    w = rng.integers(-8, 8, (n, blocks * size)).astype(np.int8)
    scales = rng.random((n, blocks)).astype(np.float32)
    dense = (w.reshape(n, blocks, size) * scales[:, :, None].astype(np.float64)).reshape(n, -1)
    y = Guarded((m, n), np.float32)
    want = x @ dense.T
    for narrow in (False, True):
        packed = blockwise.pack_blocks(w, scales.reshape(-1), blocks, narrow)
        kernel = blockwise.BlockwiseHybrid(x, y.array, packed, None, q=np.zeros(x.shape, np.uint8),
                                        row_scales=np.zeros(m, np.float32), zero_points=np.zeros(m, np.int32),
                                        blocks=blocks, asymmetric=True, limits=(-1e9, 1e9))
        assert kernel.run(simd.Pool(2)) == 0
        y.check()
        np.testing.assert_allclose(y.array, want, atol=1e-5 * np.abs(want).max())


@pytest.mark.skipif(sys.maxsize < 2**32, reason="vectors of 32-bit Arm take subnormal numbers for 0")
def test_square_roots_are_rounded_to_nearest(isa_level):
    """Every fraction with even and odd exponents, and numbers of all magnitudes, subnormal ones among them."""
    one, tiny, end = (int(np.float32(v).view(np.uint32)) for v in (1, 1e-45, np.inf))
    spread = np.linspace(tiny, end, 100003).astype(np.uint32)
    x = np.concatenate([np.arange(one, one + 2**24, dtype=np.uint32), spread, [0, 1 << 31]]).astype(np.uint32)
    y = np.empty_like(x)
    elementwise.Unary("sqrt_f32", x.size, x.view(np.uint8), y.view(np.uint8)).run()
    np.testing.assert_array_equal(y, np.sqrt(x.view(np.float32)).view(np.uint32))


def test_sines_beside_zeros_and_small_numbers(isa_level):
    """Blocks of 64 with a number of another kind, and a shorter one."""
    x = np.random.default_rng(3).uniform(-50, 50, 64 * 9 + 7).astype(np.float32)
    x[70:80], x[130], x[200], x[300], x[-1] = 0, -0.0, 1e-40, 1e-25, 1e-39
    for quarter, exact in ((0, np.sin), (1, np.cos)):
        y = np.empty_like(x)
        p = struct.pack("i", quarter)
        elementwise.Unary("sin_f32", x.size, x.view(np.uint8), y.view(np.uint8), p).run()
        np.testing.assert_allclose(y, exact(x.astype(np.float64)), rtol=1e-6, atol=1e-8 if quarter else 1e-45)


def test_sines_are_relatively_exact_beside_their_zeros(isa_level):
    """Multiples of a quarter turn, of small and of large angles, and the sign of zeros."""
    turns = np.concatenate([np.arange(-6000, 6000), np.geomspace(1e4, 1e30, 4000)]) * (np.pi / 2)
    x = np.concatenate([turns.astype(np.float32), np.zeros(64, np.float32), np.full(64, -0.0, np.float32)])
    for quarter, exact in ((0, np.sin), (1, np.cos)):
        y = np.empty_like(x)
        elementwise.Unary("sin_f32", x.size, x.view(np.uint8), y.view(np.uint8), struct.pack("i", quarter)).run()
        np.testing.assert_allclose(y, exact(x.astype(np.float64)), rtol=1e-6, atol=0)
        assert np.signbit(y[-128:]).tolist() == [False] * 64 + [not quarter] * 64


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_casts_to_uint64_saturate(dtype):
    """C does not define the conversion of 2^64 and more: what an infinity became depended on the compiler."""
    most = 2**64 - 1
    cases = {np.inf: most, -np.inf: 0, np.nan: most, -1: 0, -0.5: 0, 1.75: 1, 60000: 60000}
    if dtype != "float16":
        below = int(np.nextafter(np.array(2**64, dtype), np.array(0, dtype)))
        cases |= {2**64: most, 2**65: most, 1e30: most, below: below, 2**63: 2**63, -2**64: 0}
    x = np.resize(np.array(list(cases), dtype), 9 * len(cases))
    y = np.empty(x.size, np.uint64)
    elementwise.Unary("wide_unary", x.size, x.view(np.uint8), y.view(np.uint8), f"cast {dtype} uint64".encode()).run()
    assert y.tolist() == 9 * list(cases.values())
