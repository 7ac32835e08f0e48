"""Fixed-point arithmetic: the rules of rounding, and the functions computed by them (docs/numerics.md section 2).

They work alike on Python ints and on int64 arrays; the same rules at run time are in `_core/simd/rounding.h`.
"""
from functools import cache

import numpy as np

from pylite.numerics.quantization import INT32_MAX, INT32_MIN, f32, power_of_two, quantize_multiplier


def wrap32(x):
    """x modulo 2**32 as an int32 value."""
    return ((x + 2**31) & 0xFFFFFFFF) - 2**31


def srdhm(a, b):
    """SRDHM: the high half of 2ab, rounded to nearest (halves up), saturated.  docs/numerics.md section 2."""
    r = (a * b + 2**30) >> 31
    return r - (r == 2**31)


def srdhm16(a, b):
    """SRDHM in 16 bits."""
    r = (a * b + 2**14) >> 15
    return r - (r == 2**15)


def rdbpot(x, k):
    """RDBPOT: x / 2**k to the nearest integer, halves away from zero; 0 <= k <= 31."""
    mask = (1 << k) - 1
    return (x >> k) + ((x & mask) > (mask >> 1) + (x < 0))


def rdbpot_any(x, k):
    """RDBPOT with any k, for which it is not made: counts are taken as x86-64 and AArch64 take them, as in DIV."""
    return (x >> (k & 31)) + (x >= 0) if k & 32 else rdbpot(x, k & 31)


def rdbpot16(x, k):
    """RDBPOT in 16 bits, 0 <= k <= 31: beyond 15 bits nothing is left of its mask, so that x < 0 gives -1, else 1."""
    return np.where(x < 0, -1, 1) if k > 15 else rdbpot(x, k)


def mbqm32(x, m, e):
    """MBQM32: x * m * 2**(e-31), the left shift wrapping and then two roundings.  m and e are ints.

    Left shifts beyond 31 are counted as x86-64 and AArch64 count them, modulo 32.
    """
    return rdbpot_any(srdhm(wrap32(x << (e & 31)) if e > 0 else x, m), -e if e < 0 else 0)


def multiplier16(m):
    """The multiplier m cut to the 16 bits that mbqm64 takes."""
    return (m + 2**15) >> 16 if m < 0x7FFF0000 else 0x7FFF


def mbqm64(x, m, e):
    """MBQM64: x * m * 2**(e-31) with m cut to 16 bits and one rounding, halves up, wrapped to int32."""
    r = multiplier16(m)
    return wrap32((x * r + (1 << (14 - e))) >> (15 - e))


@cache
def inv_sqrt(v):
    """1 / sqrt(v) of an int v >= 0 as (m, e), e <= 0.  Section 2."""
    if v <= 1:
        return INT32_MAX, 0
    e = 11
    while v >= 2**29:
        v //= 4
        e += 1
    pairs = (32 - v.bit_length() - 1) // 2 - 1
    e -= pairs
    v <<= 2 * pairs
    f = v >> 1                                       # Q3, as are half_f, three_halves and x
    half_f, three_halves, x = rdbpot(f, 1), 2**28 + 2**27, 2**28
    for _ in range(5):
        x3 = _saturating_shift(srdhm(srdhm(x, x), x), 6)
        x = _saturating_shift(wrap32(srdhm(three_halves, x) - srdhm(half_f, x3)), 3)
    m = srdhm(x, 1518500250)                         # sqrt(2) / 2
    if e < 0:
        m, e = m << -e, 0
    return m, -e


def _saturating_shift(x, k):
    limit = (1 << (31 - k)) - 1
    return INT32_MAX if x > limit else INT32_MIN if x < -limit else x << k


# ---- sections 5 and 6: functions that some ops share ---------------------------------------------------------
def common_scale(x, left, m, e):
    """x * 2**left times the multiplier (int64 array), as comparisons and SQUARED_DIFFERENCE take it.  Section 5.

    Multipliers of 1 and more have e > 0.
    """
    return rdbpot_any(srdhm(x << left, m), -e)


def sigmoid16_multiplier(scale, shifts):
    """int16 LOGISTIC and TANH: (M, S), which take q to 12 fraction bits of 3x.  Section 6.

    shifts: the powers of two above 2**-12 that are multiplied exactly, (0,) for LOGISTIC and (0, 1) for TANH.
    """
    exponent = power_of_two(scale)
    if exponent is not None and 12 + exponent in shifts:
        return 3 << (12 + exponent), 0
    multiplier, shift = float(scale) * 4096.0 * 3.0, 0
    while multiplier <= 32767.0 / 2.0 and shift <= 30:
        multiplier, shift = multiplier * 2.0, shift + 1
    return int(multiplier), shift


def hard_swish(x, x_scale, y_scale):
    """HARD_SWISH of x = q - z_x (int64 array), before the output's zero point and clamp.  Section 6."""
    fine = f32(1 / 128) * f32(x_scale)
    my, ey = quantize_multiplier(fine / f32(y_scale))
    mr, er = quantize_multiplier(fine / (f32(3) / f32(32768)))
    if ey > 0:
        raise ValueError(f"the output scale {y_scale:.4g} is less than a 128th of the input scale {x_scale:.4g}: "
                         "quantize the model again, with a wider range for this output")
    my, mr = (32767 if m >= INT32_MAX - 2**15 else (m + 2**15) >> 16 for m in (my, mr))
    h = x * 128
    p = srdhm16(h, my)
    r = h
    if er > 0:
        r = np.clip(r << (er - 1), -32768, 32767)
    r = srdhm16(r, mr)
    if er > 0:
        r = np.clip(r << 1, -32768, 32767)
    elif er < 0:
        r = rdbpot16(r, min(-er, 31))
    r = (r + 32768) >> 1
    product = r * p
    v = np.where(product < 0, -(-product >> 15), product >> 15)     # truncates; -32768 squared saturates below
    return rdbpot16(np.minimum(v, 32767), min(-ey, 31))
