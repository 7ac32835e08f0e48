"""The rounding rules of docs/numerics.md, section 2, against their definitions, for all inputs."""
import pytest

z3 = pytest.importorskip("z3")
pytest.importorskip("pycparser")

from tests.proofs.c_source import call, prove  # noqa: E402  they need z3

a, b, x = z3.BitVecs("a b x", 32)
LEAST = -(2**31)


def wide(v, bits=64):
    return z3.SignExt(bits - v.size(), v)


def away(v, k):
    """v / 2^k to nearest, halves away from zero: v has room for the sum."""
    half = (1 << k) >> 1
    return z3.If(v < 0, -((-v + half) >> k), (v + half) >> k)


def product_of(products):
    """The only product of two unknowns, and what is known of it.

    Of two numbers of 32 bits it is 2^62 where both are -2^31, and else 2^62 - 2^31 at most.
    """
    (left, right, p), = products
    corner = z3.And(left == LEAST, right == LEAST)
    return p, z3.And(z3.If(corner, p == 2**62, p <= 2**62 - 2**31), p >= 2**31 - 2**62)


@pytest.mark.parametrize("k", range(32))
def test_rdbpot_rounds_halves_away_from_zero(k):
    prove(wide(call("pl_rdbpot", x, k)) == away(wide(x), k))


@pytest.mark.parametrize("k", range(32))
def test_rdbpot16_is_rdbpot_up_to_15_bits_and_a_sign_beyond(k):
    got = call("pl_rdbpot16", x, k)
    prove(wide(got) == away(wide(x), k) if k <= 15 else got == z3.If(x < 0, z3.BitVecVal(-1, 32), 1),
          x >= -(2**15), x < 2**15)


@pytest.mark.parametrize("k", range(64))
def test_rdbpot_any_takes_counts_as_x86_64_does(k):
    """The value's count modulo 32, the mask's modulo 64: all ones from 32 on."""
    if k < 32:
        prove(call("pl_rdbpot_any", x, k) == call("pl_rdbpot", x, k))
    else:
        prove(call("pl_rdbpot_any", x, k) == (x >> (k - 32)) + z3.If(x >= 0, z3.BitVecVal(1, 32), 0))


def test_srdhm_is_the_definition_of_gemmlowp():
    """(p + nudge) div 2^31, truncated, with the nudge 2^30 or 1 - 2^30; the one product that is too large saturates."""
    products = []
    got = call("pl_srdhm", a, b, products=products)
    p, known = product_of(products)
    nudged = p + z3.If(p >= 0, z3.BitVecVal(2**30, 64), 1 - 2**30)
    defined = z3.If(p == 2**62, z3.BitVecVal(2**31 - 1, 64), nudged / 2**31)
    prove(wide(got) == defined, known)


def test_the_product_without_saturation_is_srdhm():
    """For multipliers above -2^31."""
    products = []
    got = call("pl_mul_high", a, b, products=products)
    p, known = product_of(products)
    prove(wide(got) == (p + 2**30) >> 31, known, p < 2**62)


def test_srdhm16_is_the_same_in_16_bits():
    got = call("pl_srdhm16", a, b)
    p = wide(a, 40) * wide(b, 40)
    nudged = p + z3.If(p >= 0, z3.BitVecVal(2**14, 40), 1 - 2**14)
    small = [z3.And(v >= -(2**15), v < 2**15) for v in (a, b)]
    prove(wide(got, 40) == z3.If(p == 2**30, z3.BitVecVal(2**15 - 1, 40), nudged / 2**15), *small)


def test_multipliers_of_16_bits_round_halves_up_and_saturate():
    got = call("pl_multiplier16", x)
    rounded = (wide(x) + 2**15) >> 16
    prove(wide(got) == z3.If(rounded > 32767, z3.BitVecVal(32767, 64), rounded), x >= 0)


def test_half_sums_round_halves_away_from_zero():
    prove(wide(call("pl_half_sum", a, b)) == away(wide(a) + wide(b), 1))


@pytest.mark.parametrize("bits", [16, 32])
@pytest.mark.parametrize("k", range(7))
def test_shifts_to_fewer_integer_bits_saturate(bits, k):
    most = 2**(bits - 1) - 1
    shifted = wide(x) << k
    want = z3.If(shifted > most, z3.BitVecVal(most, 64), z3.If(shifted < -most - 1, z3.BitVecVal(-most - 1, 64),
                                                               shifted))
    prove(wide(call("pl_fx_shl", x, k, bits)) == want, x >= -most - 1, x <= most)


# ---- what requantization by float32 rests on: neither rule ever falls --------------------------------------------
@pytest.mark.parametrize("k", range(32))
def test_the_second_rounding_never_falls(k):
    prove(call("pl_rdbpot", a, k) <= call("pl_rdbpot", b, k), a <= b)


def test_the_first_rounding_never_falls():
    """In the product, which a multiplier that is not negative keeps in order."""
    p, q = z3.BitVecs("p q", 64)
    prove((p + 2**30) >> 31 <= (q + 2**30) >> 31, p <= q, p > -(2**62), q < 2**62)


# ---- the forms that vectors compute -------------------------------------------------------------------------------
@pytest.mark.parametrize("k", range(32))
def test_avx_rounds_the_second_time_as_the_rule(k):
    """(v + half - (v < 0)) >> k, as avx2.h and gemm_avx512vnni.c have it: a logical shift where v is not negative.

    `sign` shifts by 32 where there is no shift, so that nothing is subtracted.
    """
    negative = z3.LShR(x, 31 if k else 32)
    total = x + ((1 << k) >> 1) - negative
    prove(z3.If(x < 0, total >> k, z3.LShR(total, k)) == call("pl_rdbpot", x, k))


def test_products_in_two_halves_of_vectors_are_those_of_the_rule():
    """Even lanes take the lower half of (p + 2^30) >> 31, odd ones the upper half of (p + 2^30) << 1."""
    p = z3.BitVec("p", 64)
    rule = z3.Extract(31, 0, (p + 2**30) >> 31)
    inside = z3.And(p < 2**62, p > -(2**62))
    even, odd = z3.Extract(31, 0, z3.LShR(p + 2**30, 31)), z3.Extract(63, 32, (p + 2**30) << 1)
    prove(z3.And(even == rule, odd == rule), inside)


def test_sqrdmulh_of_neon_is_srdhm():
    """(2 a b + 2^31) >> 32, saturated, as the instruction is defined."""
    products = []
    got = call("pl_srdhm", a, b, products=products)
    p, known = product_of(products)
    doubled = (2 * wide(p, 66) + 2**31) >> 32
    prove(wide(got, 66) == z3.If(doubled > 2**31 - 1, z3.BitVecVal(2**31 - 1, 66), doubled), known)


@pytest.mark.parametrize("k", range(1, 32))
def test_srshl_of_neon_rounds_as_the_rule_with_negative_numbers_lowered(k):
    """(v + 2^(k-1)) >> k without overflow, as the instruction is defined; v - 1 must exist."""
    lowered = x + (x >> 31)
    prove((wide(lowered) + (1 << (k - 1))) >> k == wide(call("pl_rdbpot", x, k)), x > LEAST)


# ---- real numbers to integers: formulas of IEEE 754 ---------------------------------------------------------------
def test_adding_just_below_a_half_rounds_float64_halves_away_from_zero():
    """pl_round_away64; where its result fits into 32 bits."""
    double, just_below = z3.Float64(), z3.FPVal(0.49999999999999994, z3.Float64())
    v = z3.FP("v", double)
    total = z3.fpAdd(z3.RNE(), v, z3.If(z3.fpIsNegative(v), -just_below, just_below))
    prove(z3.fpEQ(z3.fpRoundToIntegral(z3.RTZ(), total), z3.fpRoundToIntegral(z3.RNA(), v)),
          z3.fpAbs(v) < z3.FPVal(2.0**31, double))


def test_quantize_multiplier_rounds_the_fraction_halves_away_from_zero():
    """f 2^31 + 1/2, cut off, for every f of [1/2, 1): the product is exact."""
    double = z3.Float64()
    f = z3.FP("f", double)
    scaled = z3.fpMul(z3.RNE(), f, z3.FPVal(2.0**31, double))
    cut = z3.fpRoundToIntegral(z3.RTZ(), z3.fpAdd(z3.RNE(), scaled, z3.FPVal(0.5, double)))
    prove(z3.fpEQ(cut, z3.fpRoundToIntegral(z3.RNA(), scaled)), f >= z3.FPVal(0.5, double), f < z3.FPVal(1.0, double))
