"""Operands of micro-kernels: random ones, arrays between guard bands; and convolutions in plain numpy."""
import numpy as np

from pylite._core import simd
from pylite.numerics import fixed_point

GUARD = 64


class Guarded:
    """An array between two guard bands, with `gap` guard elements between neighbouring pixels."""

    def __init__(self, shape, dtype, gap=0):
        *lines, c = shape
        size = (int(np.prod(lines)) * (c + gap) - gap) * np.dtype(dtype).itemsize
        self.raw = np.full(size + 2 * GUARD, 0xA5, np.uint8)
        self.array = spaced(self.raw[GUARD:GUARD + size].view(dtype), shape, gap)

    def check(self):
        seen = self.array.copy()
        self.array.view(np.uint8)[...] = 0xA5
        assert (self.raw == 0xA5).all(), "wrote out of bounds"
        self.array[...] = seen


def spaced(flat, shape, gap):
    """A view of `flat` as an array of `shape` with `gap` elements between neighbouring pixels."""
    pixels, strides = int(np.prod(shape[:-1])), (flat.itemsize * (shape[-1] + gap), flat.itemsize)
    return np.lib.stride_tricks.as_strided(flat, (pixels, shape[-1]), strides).reshape(shape)


def strided(array, gap):
    """The same array with `gap` elements between neighbouring pixels, and none after the last one."""
    pixels = int(np.prod(array.shape[:-1]))
    copy = spaced(np.zeros(array.size + (pixels - 1) * gap, array.dtype), array.shape, gap)
    copy[...] = array
    return copy


def output_size(size, filter):
    fh, fw, sh, sw, dh, dw, ph, pw = filter
    return ((size[0] + 2 * ph - (fh - 1) * dh - 1) // sh + 1, (size[1] + 2 * pw - (fw - 1) * dw - 1) // sw + 1)


def sums(x, w, filter, size, groups=1, x_zero=0, w_zero=0):
    """Accumulators of a convolution, exact: x (n, h, w, c), w (k, fh, fw, c / groups)."""
    fh, fw, sh, sw, dh, dw, ph, pw = filter
    c, k = w.shape[3], len(w) // groups
    reach = (size[0] - 1) * sh + (fh - 1) * dh + 1, (size[1] - 1) * sw + (fw - 1) * dw + 1
    seen = x[:, :max(reach[0] - ph, 0), :max(reach[1] - pw, 0)]         # windows may cover a part of the image
    image = np.zeros((groups, len(x), *reach, c))       # doubles hold integers below 2**53
    image[:, :, ph:ph + seen.shape[1], pw:pw + seen.shape[2]] = np.moveaxis(
        seen.reshape(*seen.shape[:3], groups, c), 3, 0) - float(x_zero)
    taps = np.moveaxis(w.reshape(groups, k, fh, fw, c), 1, 4) - float(w_zero)           # (groups, fh, fw, c, k)
    acc = np.zeros((groups, len(x) * size[0] * size[1], k))
    for i, j in np.ndindex(fh, fw):
        pixels = image[:, :, i * dh:i * dh + (size[0] - 1) * sh + 1:sh, j * dw:j * dw + (size[1] - 1) * sw + 1:sw]
        acc += pixels.reshape(groups, -1, c) @ taps[:, i, j]
    assert np.abs(acc).max(initial=0) < 2**53
    return np.moveaxis(acc, 0, 1).reshape(len(x), *size, len(w)).astype(np.int64)


def requantized(acc, m, e, zero_point, low, high):
    v = [fixed_point.mbqm32(fixed_point.wrap32(acc[..., c]), int(m[c]), int(e[c])) for c in range(acc.shape[-1])]
    return np.clip(np.stack(v, -1), low - zero_point, high - zero_point) + zero_point


def draw_filter(rng, most=4):
    while True:
        fh, fw = rng.integers(1, most, 2) if rng.random() < 0.7 else (3, 3)
        size = tuple(map(int, rng.integers(1, 12, 2)))
        if rng.random() < 0.4:      # lines that fill tiles, and more than one chunk of them
            size = int(rng.integers(1, 5)), int(rng.choice([20, 33, 50, 150]))
        filter = (fh, fw, *rng.integers(1, 3, 4), rng.integers(0, fh), rng.integers(0, fw))
        if min(output_size(size, filter)) > 0:
            return size, tuple(map(int, filter))


def draw_bytes(rng, shape):
    """Values of int8: all, the two extremes, or the minimum alone."""
    kind = rng.integers(4)
    return np.full(shape, -128) if kind == 0 else rng.choice([-128, 127], shape) if kind == 1 else \
        rng.integers(-128, 128, shape)


def draw_columns(rng, n):
    """Bias, multipliers and shifts; sometimes of the full range of shifts, often of the range of real models."""
    e = rng.integers(-31, 20, n) if rng.random() < 0.2 else -rng.integers(0, 12, n)
    if rng.random() < 0.5:
        e = -rng.integers(6, 11, n)
    m = rng.integers(2**30, 2**31, n)
    m[rng.random(n) < 0.05] = 0
    m[rng.random(n) < 0.05] = 2**31 - 1
    return rng.integers(-10**5, 10**5, n).astype(np.int32), m.astype(np.int32), e.astype(np.int32)


def draw_ends(rng):
    """Zero point and limits, often those of RELU."""
    low, high = sorted(rng.integers(-128, 128, 2).tolist())
    return low if rng.random() < 0.4 else int(rng.integers(-128, 128)), low, high


def in_reach(ends, seed):
    """The clamping range for which packing checks requantization in float32; sometimes None: no check."""
    zero_point, low, high = ends
    return None if seed % 4 == 0 else (low - zero_point, high - zero_point)


def stored(values, flip):
    """Values of int8 as the bytes of int8 (flip 0) or uint8 (0x80)."""
    return np.ascontiguousarray(values.astype(np.int8).view(np.uint8) ^ np.uint8(flip))


def threads():
    return [None, simd.Pool(2), simd.Pool(3)]
