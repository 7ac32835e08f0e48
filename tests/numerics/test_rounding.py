"""The C rounding rules (simd/rounding.h) against exact definitions, compiled as vectorized loops."""
import ctypes
import math
import os
import shutil
import subprocess
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pylite.numerics import fixed_point
from pylite.numerics import quantization as q
from tests.numerics.test_quantization import nearest

HEADERS = Path(__file__).resolve().parents[2] / "pylite" / "_core" / "simd"
COMPILER = os.environ.get("CC", "cc").split()
SOURCE = """
#include "fixed16.h"
#define LOOP(name, type, expression) \\
  void name(long n, const type *a, const int32_t *b, const int32_t *c, int32_t *y) { \\
    for (long i = 0; i < n; i++) y[i] = expression; }
LOOP(srdhm, int32_t, pl_srdhm(a[i], b[i]))
LOOP(mul_high, int32_t, pl_mul_high(a[i], b[i]))
LOOP(srdhm16, int32_t, pl_srdhm16(a[i], b[i]))
LOOP(rdbpot, int32_t, pl_rdbpot(a[i], b[i]))
LOOP(rdbpot_any, int32_t, pl_rdbpot_any(a[i], b[i]))
LOOP(mbqm32, int32_t, pl_mbqm32(a[i], b[i], c[i]))
LOOP(mbqm32_row, int32_t, pl_mbqm32(a[i], b[0], c[0]))
LOOP(mbqm_small, int32_t, pl_mbqm_small(a[i], b[i], c[i]))
LOOP(mbqm64, int64_t, pl_mbqm64(a[i], pl_multiplier16(b[i]), c[i]))
LOOP(round_away64, double, pl_round_away64(a[i]))
LOOP(round_away32, float, pl_round_away32(a[i]))
LOOP(exp_q5, int32_t, pl_exp_q(a[i], 5, 32))
LOOP(exp_q6, int32_t, pl_exp_q(a[i], 6, 32))
LOOP(exp_q3_16, int32_t, pl_exp_q(a[i], 3, 16))
LOOP(tanh_q3_16, int32_t, pl_tanh_q(a[i], 3, 16))
LOOP(tanh_q6_16, int32_t, pl_tanh_q(a[i], 6, 16))
LOOP(logistic_q3_16, int32_t, pl_logistic_q(a[i], 3, 16))
LOOP(fx16_logistic_q3, int32_t, fx16_logistic(a[i], fx16_format(3)))
LOOP(fx16_tanh_q0, int32_t, fx16_tanh(a[i], fx16_format(1)))
LOOP(wide_tanh_q0, int32_t, pl_tanh_q(a[i], 0, 16))
LOOP(fx16_tanh_q3, int32_t, fx16_tanh(a[i], fx16_format(4)))
LOOP(fx16_tanh_q5, int32_t, fx16_tanh(a[i], fx16_format(6)))
LOOP(wide_tanh_q5, int32_t, pl_tanh_q(a[i], 5, 16))
LOOP(fx16_tanh_q6, int32_t, fx16_tanh(a[i], fx16_format(7)))
LOOP(tanh_q4, int32_t, pl_tanh_q(a[i], 4, 32))
LOOP(logistic_q4, int32_t, pl_logistic_q(a[i], 4, 32))
LOOP(recip1p, int32_t, pl_recip1p(a[i], 32))
LOOP(log_q, int32_t, pl_log_q(a[i]))
LOOP(div_q, int32_t, pl_div_q(a[i], b[i], c[0], c[1]))
int32_t reciprocal(int32_t x, int m, int *over) { return pl_reciprocal(x, m, over); }
int32_t inv_sqrt(int32_t v, int *e) { return pl_inv_sqrt(v, e); }
"""
int32 = st.integers(-(2**31), 2**31 - 1) | st.sampled_from([-(2**31), 2**31 - 1, 0, -1, 1])
multipliers = st.integers(2**30, 2**31 - 1)


@pytest.fixture(scope="module", params=["-O3", "-O3 -march=native"])
def c(request, tmp_path_factory):
    """The compiled loops: c("name", a, b, c) -> list of ints."""
    if shutil.which(COMPILER[0]) is None:
        pytest.skip(f"no C compiler ({COMPILER[0]}) to build the rounding rules with")
    folder = tmp_path_factory.mktemp("rounding")
    (folder / "loops.c").write_text(SOURCE)
    command = [*COMPILER, *request.param.split(), "-std=c11", "-Wall", "-Werror", "-ffp-contract=off", "-fwrapv",
               "-shared", "-fPIC", f"-I{HEADERS}", "loops.c", "-o", "loops.so"]
    subprocess.run(command, cwd=folder, check=True)
    library = ctypes.CDLL(str(folder / "loops.so"))

    def run(name, a, b=0, c=0, dtype=np.int32):
        a, b, c = (np.ascontiguousarray(v) for v in np.broadcast_arrays(np.array(a, dtype), np.int32(b), np.int32(c)))
        y = np.empty(a.shape, np.int32)
        pointers = [v.ctypes.data_as(ctypes.c_void_p) for v in (a, b.astype(np.int32), c.astype(np.int32), y)]
        getattr(library, name)(ctypes.c_long(a.size), *pointers)
        return y.tolist()

    run.library = library
    return run


def signed32(x):
    return (x + 2**31) % 2**32 - 2**31


def trunc_div(a, b):
    return abs(a) // b * (1 if a >= 0 else -1)


@given(st.lists(st.tuples(int32, int32), min_size=1, max_size=40))
def test_srdhm(c, pairs):
    a, b = (list(v) for v in zip(*pairs, strict=True))
    expected = [2**31 - 1 if x == y == -(2**31) else trunc_div(x * y + (2**30 if x * y >= 0 else 1 - 2**30), 2**31)
                for x, y in pairs]
    assert c("srdhm", a, b) == expected == [fixed_point.srdhm(x, y) for x, y in pairs]
    b = [max(y, 1 - 2**31) for y in b]
    assert c("mul_high", a, b) == [fixed_point.srdhm(x, y) for x, y in zip(a, b, strict=True)]


def test_srdhm_corners(c):
    corners = [-(2**31), 1 - 2**31, -(2**30), -1, 0, 1, 2**30, 2**31 - 1]
    a, b = (v.ravel().tolist() for v in np.meshgrid(corners, corners))
    assert c("srdhm", a, b) == [fixed_point.srdhm(x, y) for x, y in zip(a, b, strict=True)]


def test_srdhm16(c):
    a = np.arange(-32768, 32768)
    for b in (-32768, -32767, -12345, -1, 0, 1, 16384, 32767):
        assert c("srdhm16", a, b) == np.minimum((a * b + 2**14) >> 15, 32767).tolist()


@given(st.lists(st.tuples(int32, st.integers(0, 31)), min_size=1, max_size=40))
def test_rdbpot(c, pairs):
    a, k = zip(*pairs, strict=True)
    expected = [nearest(Fraction(x, 2**n), "away") for x, n in pairs]
    assert c("rdbpot", a, k) == expected == [fixed_point.rdbpot(x, n) for x, n in pairs]
    assert c("rdbpot_any", a, k) == expected


@given(int32, st.integers(-200, 200))
def test_rdbpot_takes_shift_counts_modulo_the_register_width(c, x, k):
    mask = signed32((1 << (k % 64)) - 1)
    expected = signed32((x >> (k % 32)) + ((x & mask) > (mask >> 1) + (x < 0)))
    assert c("rdbpot_any", [x], k) == [expected]


@given(st.lists(st.tuples(int32, multipliers, st.integers(-31, 31)), min_size=1, max_size=40))
def test_mbqm32(c, triples):
    a, m, e = zip(*triples, strict=True)
    expected = [nearest(Fraction(nearest(Fraction(signed32(x << max(s, 0)) * k, 2**31), "up"), 2 ** max(-s, 0)), "away")
                for x, k, s in triples]
    assert c("mbqm32", a, m, e) == expected
    assert expected == [fixed_point.mbqm32(x, k, s) for x, k, s in triples]
    assert c("mbqm32_row", a, m[0], e[0]) == [fixed_point.mbqm32(x, m[0], e[0]) for x in a]
    assert c("mbqm_small", a, m, [-abs(s) for s in e]) == [fixed_point.mbqm32(x, k, -abs(s)) for x, k, s in triples]


@given(st.lists(st.tuples(st.integers(-(2**46), 2**46), multipliers, st.integers(-31, 7)), min_size=1, max_size=40))
def test_mbqm64(c, triples):
    a, m, e = zip(*triples, strict=True)
    expected = [signed32(nearest(Fraction(x * min((k + 2**15) >> 16, 32767), 2 ** (15 - s)), "up"))
                for x, k, s in triples]
    assert c("mbqm64", a, m, e, dtype=np.int64) == expected == [fixed_point.mbqm64(x, k, s) for x, k, s in triples]


HALVES = st.integers(-(2**31), 2**31 - 2).map(lambda n: n + 0.5)


@given(st.lists(st.floats(-(2.0**31), 2.0**31 - 1) | HALVES | st.sampled_from([0.49999999999999994, -0.0]), min_size=1))
def test_round_away64(c, values):
    assert c("round_away64", values, dtype=np.float64) == [nearest(Fraction(v), "away") for v in values]


@given(st.lists(st.floats(-(2.0**31), 2.0**31 - 128, width=32) | st.integers(-(2**22), 2**22).map(lambda n: n + 0.5) |
                st.sampled_from([float(np.float32(0.49999997))]), min_size=1))
def test_round_away32(c, values):
    assert c("round_away32", values, dtype=np.float32) == [nearest(Fraction(v), "away") for v in values]


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 3e9, -3e9])
def test_rounding_values_out_of_range(c, value):
    assert c("round_away64", [value], dtype=np.float64) == [-(2**31)]
    assert c("round_away32", [value], dtype=np.float32) == [-(2**31)]


class Fixed:
    """The fixed-point functions of docs/numerics.md section 2, one value at a time."""

    def __init__(self, bits):
        self.bits, self.max = bits, 2 ** (bits - 1) - 1

    def wrap(self, x):
        return (x + self.max + 1) % 2**self.bits - self.max - 1

    def clip(self, x):
        return max(min(x, self.max), -self.max - 1)

    def mul(self, a, b):
        return self.clip(nearest(Fraction(a * b, self.max + 1), "up"))

    def const(self, x):
        return x if self.bits == 32 else nearest(Fraction(x, 2**16), "away")

    def shl(self, x, k):
        limit = 2 ** (self.bits - 1 - k) - 1
        return self.max if x > limit else -self.max - 1 if x < -limit else x << k

    def exp(self, a, m):
        if a == 0:
            return self.max
        if m > 5 and a < self.const(-(2 ** (36 - m))):
            return 0
        fraction = self.bits - 1 - m
        quarter = 2 ** (fraction - 2)
        u = a % quarter - quarter
        rem = self.wrap(u - a)
        x = self.shl(u, m) + 2 ** (self.bits - 4)
        x2 = self.mul(x, x)
        x3, x4 = self.mul(x2, x), self.mul(x2, x2)
        t = self.mul(nearest(Fraction(x4, 4), "away") + x3, self.const(715827883)) + x2
        c0 = self.const(1895147668)
        r = c0 + self.mul(c0, x + nearest(Fraction(t, 2), "away"))
        r = self.clip(r) if self.bits == 16 else self.wrap(r)
        steps = [1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242]
        for k, factor in enumerate(steps, -2):
            if m > k and rem >> (fraction + k) & 1:
                r = self.mul(r, self.const(factor))
        return r

    def newton(self, a):
        total = a + self.max
        h = trunc_div(total + (1 if total >= 0 else -1), 2)
        x = self.wrap(self.const(1515870810) + self.mul(h, self.const(-1010580540)))
        for _ in range(3):
            x = self.wrap(x + self.shl(self.mul(x, self.wrap(2 ** (self.bits - 3) - self.mul(h, x))), 2))
        return x

    def recip1p(self, a):
        return self.shl(self.newton(a), 1)

    def tanh(self, a, m):
        if a == 0:
            return 0
        t = self.shl(self.wrap(self.newton(self.exp(-abs(a), m + 1)) - 2 ** (self.bits - 3)), 2)
        return -t if a < 0 else t

    def logistic(self, a, m):
        if a == 0:
            return self.const(2**30)
        p = self.recip1p(self.exp(-abs(a), m))
        return p if a > 0 else self.max - p

    def reciprocal(self, x, m):
        headroom = 32 - x.bit_length()
        return self.recip1p(signed32((x << headroom) - 2**31)), m - headroom


F16, F32 = Fixed(16), Fixed(32)


@given(st.lists(st.integers(-(2**31) + 1, 0), min_size=1, max_size=30))
def test_exp(c, values):
    assert c("exp_q5", values) == [F32.exp(v, 5) for v in values]
    assert c("exp_q6", values) == [F32.exp(v, 6) for v in values]


def test_functions_of_16_bits(c):
    values = [*range(-32767, 32768, 37), 1, -1, 0]
    assert c("exp_q3_16", [-abs(v) for v in values]) == [F16.exp(-abs(v), 3) for v in values]
    assert c("tanh_q3_16", values) == [F16.tanh(v, 3) for v in values]
    assert c("tanh_q6_16", values) == [F16.tanh(v, 6) for v in values]
    assert c("logistic_q3_16", values) == [F16.logistic(v, 3) for v in values]


@given(st.lists(st.integers(-(2**31) + 1, 2**31 - 1), min_size=1, max_size=30))
def test_functions_of_32_bits(c, values):
    assert c("tanh_q4", values) == [F32.tanh(v, 4) for v in values]
    assert c("logistic_q4", values) == [F32.logistic(v, 4) for v in values]
    values = [abs(v) for v in values]
    assert c("recip1p", values) == [F32.recip1p(v) for v in values]


@given(st.integers(1, 2**31 - 1), st.sampled_from([0, 12, 31]))
def test_reciprocal(c, x, m):
    over = ctypes.c_int()
    r = c.library.reciprocal(ctypes.c_int32(x), m, ctypes.byref(over))
    assert (r, over.value) == F32.reciprocal(x, m)
    assert r * 2.0 ** (-31 - over.value) == pytest.approx(1 / (x * 2.0 ** (m - 31)), rel=1e-8)


@given(st.integers(0, 2**31 - 1) | st.integers(0, 300))
def test_inv_sqrt(c, v):
    e = ctypes.c_int()
    m = c.library.inv_sqrt(ctypes.c_int32(v), ctypes.byref(e))
    assert (m, e.value) == fixed_point.inv_sqrt(v)


@given(st.lists(st.integers(2**19, 2**31 - 1), min_size=1, max_size=30))
def test_log(c, values):
    for v, got in zip(values, c("log_q", values), strict=True):
        assert got / 2**26 == pytest.approx(math.log(v / 2**19), abs=1e-6)


@settings(max_examples=300)
@given(st.integers(-255, 255), st.integers(-255, 255).filter(bool), st.floats(2.0**-12, 2.0**6))
def test_div(c, a, b, scale):
    m, e = q.quantize_multiplier(scale)
    x, y = (a, b) if b > 0 else (-a, -b)
    r, over = F32.reciprocal(y, 31)
    head = 31 - x.bit_length() if x >= 0 else 32 - (2 * -x - 1).bit_length()
    u = fixed_point.srdhm(signed32(x << head), r)
    k = -(e - over - head)
    v = fixed_point.srdhm(u, m)
    mask = signed32((1 << (k % 64)) - 1)
    expected = (v >> (k % 32)) + ((v & mask) > (mask >> 1) + (v < 0))
    assert c("div_q", [a, a], [b, b], [m, e]) == [expected, expected]
    if a and 0 <= k <= 31:
        assert abs(expected - a / b * scale) <= 0.51


def test_functions_in_16_bit_lanes(c):
    """All 65,536 values."""
    values = np.arange(-(2**15), 2**15)
    assert c("fx16_logistic_q3", values) == c("logistic_q3_16", values)
    for m, wide in ((0, "wide_tanh_q0"), (3, "tanh_q3_16"), (5, "wide_tanh_q5"), (6, "tanh_q6_16")):
        assert c(f"fx16_tanh_q{m}", values) == c(wide, values), m
