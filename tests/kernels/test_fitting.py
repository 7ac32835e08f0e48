"""Micro-kernels with numbers that are looked for when a kernel is made: sums, products and functions of all bytes."""
import platform
import struct

import numpy as np
import pytest

from pylite._core import simd
from pylite._core.kernels import elementwise
from pylite.numerics import quantization


def scaled(v, m, e):
    """MBQM_small of section 2 of docs/numerics.md for arrays of int64."""
    high, k = v * m + (1 << 30) >> 31, -e
    rest = high & (1 << k) - 1
    return (high >> k) + (rest > ((1 << k) - 1 >> 1) + (high < 0))


CORRECTED = {1000: (0.2, 0.25, 0.2), 1001: (0.25, 0.2, 0.2), 1002: (0.02, 0.03, 0.02), 1003: (0.03, 0.01, 0.1)}


@pytest.mark.parametrize("seed", [*range(40), 67, 616, *CORRECTED])
def test_sums_of_all_bytes(isa_level, seed):
    """Each pair of bytes, for scales of any kind, those with many sums halfway between two integers among them.

    On x86, the ratios of seeds 67 and 616 have three digits, with corrections and without; the sums of CORRECTED have
    corrections of either operand.
    """
    rng = np.random.default_rng(seed)
    scales = [rng.random(3) + 0.05, rng.integers(1, 50, 3) / 100, 2.0 ** rng.integers(-3, 3, 3) * rng.choice([1, 3], 3)]
    a, b, y = np.asarray(CORRECTED.get(seed, scales[seed % 3]), np.float32)
    left, *factors = quantization.add_parameters(a, b, y, "int8")
    if factors[2][1] > 0:
        pytest.skip("the rule needs a larger scale of the output")
    zeros, sign, flip = rng.integers(-128, 128, 3).tolist(), int(rng.choice([0, -1])), int(rng.choice([0, 0x80]))
    low, high = sorted(rng.integers(-128, 128, 2).tolist()) if seed % 4 == 0 else (-128, 127)
    p = struct.pack("14i", *zeros, low, high, flip, left, sign, *(n for pair in factors for n in pair))
    x = np.arange(-128, 128, dtype=np.int64)
    left_sum = scaled(x[:, None] - zeros[0] << 20, *factors[0])
    right_sum = scaled(x[None] - zeros[1] << 20, *factors[1]) * (-1 if sign else 1)
    want = np.clip(scaled(left_sum + right_sum, *factors[2]) + zeros[2], low, high).astype(np.int8).view(np.uint8)
    bytes_, got = x.astype(np.int8).view(np.uint8) ^ flip, np.zeros(65536, np.uint8)
    elementwise.Binary("sum_q8", (65536,), np.repeat(bytes_, 256), np.tile(bytes_, 256), got, a_strides=(1,),
                       b_strides=(1,), p=p).run()
    np.testing.assert_array_equal(got.reshape(256, 256), want ^ flip)
    check_single_operands("sum_q8", want, bytes_, flip, p)


def check_single_operands(name, want, bytes_, flip, p):
    """A single operand on either side, and lengths that no vectors fill."""
    for one in (0, 100, 255):
        for n in (1, 31, 96, 255):
            got, single = np.zeros(n, np.uint8), bytes_[one:one + 1]
            elementwise.Binary(name, (n,), bytes_[:n], single, got, a_strides=(1,), b_strides=(0,), p=p).run()
            np.testing.assert_array_equal(got, want[:n, one] ^ flip)
            elementwise.Binary(name, (n,), single, bytes_[:n], got, a_strides=(0,), b_strides=(1,), p=p).run()
            np.testing.assert_array_equal(got, want[one, :n] ^ flip)


def test_sums_of_usual_scales_do_without_the_rule():
    """The numbers that replace it are found for nearly all scales that trained models have."""
    found = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        a, b = (rng.random(2) + 0.5).astype(np.float32)
        left, *factors = quantization.add_parameters(a, b, np.float32(max(a, b) * (0.9 + rng.random())), "int8")
        p = struct.pack("14i", *rng.integers(-128, 128, 3).tolist(), -128, 127, 0, left, 0,
                        *(n for pair in factors for n in pair))
        fraction, = struct.unpack_from("i", simd.kernel_parameters("sum_q8", p), len(p))
        found += fraction > 0
    assert found >= 18


def two_lines(seed, x_type, y_type):
    """A table of bytes: operands below a zero point times one ratio and others times another one, rounded; as bytes."""
    rng, ends = np.random.default_rng(seed), np.iinfo(y_type)
    x = np.arange(256).astype(np.uint8).view(x_type).astype(np.int64)
    zeros = rng.integers(x.min(), x.max() + 1), rng.integers(ends.min, ends.max + 1)
    ratio = np.exp(rng.uniform(-3, 1))
    left = ratio * rng.choice([1, 1, 0, 0.1, 0.3, -1])
    y = np.clip(np.round((x - zeros[0]) * np.where(x < zeros[0], left, ratio)) + zeros[1], ends.min, ends.max)
    return y.astype(y_type).view(np.uint8)


def rescaled(seed, x_type, y_type):
    """A table of bytes: operands times a ratio that gives many halves, which are rounded away from the zero point."""
    rng, ends = np.random.default_rng(seed), np.iinfo(y_type)
    x = np.arange(256).astype(np.uint8).view(x_type).astype(np.int64)
    zeros = rng.integers(x.min(), x.max() + 1), rng.integers(ends.min, ends.max + 1)
    y = (x - zeros[0]) * rng.choice([0.5, 0.625, 0.75, 1.25, 1.5, 2.5])
    y = np.clip(np.trunc(y + np.copysign(0.5, y)) + zeros[1], ends.min, ends.max)
    return y.astype(y_type).view(np.uint8)


@pytest.mark.skipif(platform.machine() == "aarch64", reason="products follow the rule on 64-bit Arm")
def test_products_of_usual_scales_do_without_the_rule():
    found = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        a, b, y = np.exp(rng.uniform(-6, -2, 3)).astype(np.float32)
        p = struct.pack("8i", *rng.integers(-128, 128, 3).tolist(), -128, 127, 0,
                        *quantization.quantize_multiplier(float(a) * float(b) / float(y)))
        scale, = struct.unpack_from("f", simd.kernel_parameters("mul_q8", p), len(p))
        found += scale > 0
    assert found >= 18


@pytest.mark.parametrize("seed", range(45))
@pytest.mark.parametrize("types", [(np.int8, np.int8), (np.uint8, np.int8), (np.uint8, np.uint8), (np.int8, np.uint8)])
def test_long_rows_of_tables(isa_level, types, seed):
    """Tables which lines give, where the ISA level has these; lengths that leave some bytes over."""
    n, table = 4096 + seed, (two_lines if seed < 30 else rescaled)(seed, *types)
    x = np.resize(np.random.default_rng(seed).permutation(256).astype(np.uint8), n)
    y = np.full(n + 1, 77, np.uint8)
    elementwise.Unary("lut8", n, x, y[:n], table).run()
    np.testing.assert_array_equal(y[:n], table[x])
    assert y[n] == 77


def test_lines_are_found_for_rescaled_numbers_and_none_for_curves():
    found = [simd.kernel_parameters("lines8", two_lines(seed, np.int8, np.int8).tobytes()) for seed in range(100)]
    assert sum(p is not None for p in found) > 85
    if platform.machine() == "x86_64":
        assert all(simd.kernel_parameters("lines8", rescaled(seed, np.int8, np.int8).tobytes()) for seed in range(100))
    x = np.arange(256).astype(np.int8).astype(float)
    for curve in (127 * np.tanh(x / 50), x * x / 130, np.random.default_rng(0).integers(-128, 128, 256)):
        assert simd.kernel_parameters("lines8", np.round(curve).astype(np.int8).tobytes()) is None


@pytest.mark.parametrize("seed", range(20))
def test_products_of_all_bytes(isa_level, seed):
    rng = np.random.default_rng(seed)
    scale = float(rng.random()) ** 3 if seed % 2 else 2.0 ** -int(rng.integers(0, 12)) * int(rng.choice([1, 3]))
    if seed < 2:        # of which no float32 is looked for
        scale = (17.0, 2.0**-30)[seed]
    m, e = quantization.quantize_multiplier(scale)
    a_zero, b_zero, y_zero = rng.integers(-128, 128, 3).tolist()
    flip, x = int(rng.choice([0, 0x80])), np.arange(-128, 128, dtype=np.int64)
    p = struct.pack("8i", a_zero, b_zero, y_zero, -128, 127, flip, m, e)
    products = (x[:, None] - a_zero) * (x[None] - b_zero) << max(e, 0)
    want = np.clip(scaled(products, m, min(e, 0)) + y_zero, -128, 127).astype(np.int8).view(np.uint8)
    bytes_, got = x.astype(np.int8).view(np.uint8) ^ flip, np.zeros(65536, np.uint8)
    elementwise.Binary("mul_q8", (65536,), np.repeat(bytes_, 256), np.tile(bytes_, 256), got, a_strides=(1,),
                       b_strides=(1,), p=p).run()
    np.testing.assert_array_equal(got.reshape(256, 256), want ^ flip)
    check_single_operands("mul_q8", want, bytes_, flip, p)
