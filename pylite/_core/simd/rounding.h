/* The rounding rules and fixed-point functions of docs/numerics.md, for all kernels.
 *
 * They have no branches, so that compilers can vectorise loops that call them.  pylite/numerics/fixed_point.py has the
 * same rules in Python.  Signed arithmetic wraps (-fwrapv), and >> of a negative number is arithmetic. */
#ifndef PYLITE_ROUNDING_H
#define PYLITE_ROUNDING_H
#include <math.h>
#include <stdint.h>

#define PL_INLINE static inline __attribute__((always_inline))

PL_INLINE int32_t pl_min32(int32_t a, int32_t b) { return a < b ? a : b; }
PL_INLINE int32_t pl_max32(int32_t a, int32_t b) { return a > b ? a : b; }
PL_INLINE int32_t pl_clamp32(int32_t v, int32_t low, int32_t high) { return pl_min32(pl_max32(v, low), high); }
/* NaN stays NaN, as in std::min(std::max(v, low), high). */
PL_INLINE float pl_clampf(float v, float low, float high) {
#if defined(__aarch64__) /* for comparisons gcc takes up to seven instructions for a bound */
  return v != v ? v : __builtin_fminf(__builtin_fmaxf(v, low), high);
#else
  v = v < low ? low : v;
  return high < v ? high : v;
#endif
}
PL_INLINE int32_t pl_sat16(int32_t v) { return pl_clamp32(v, -32768, 32767); }
PL_INLINE int32_t pl_shl32(int32_t x, int left) { return (int32_t)((uint32_t)x << (left & 31)); } /* wraps */
PL_INLINE int pl_clz32(uint32_t x) { return x ? __builtin_clz(x) : 32; }

/* ---- section 2: multiply and round ---- */

/* SRDHM.  (ab + 2^30) >> 31 equals its definition for both signs of ab. */
PL_INLINE int32_t pl_srdhm(int32_t a, int32_t b) {
  int32_t r = (int32_t)((uint64_t)((int64_t)a * b + (1 << 30)) >> 31);
  return (a == b) & (a == INT32_MIN) ? INT32_MAX : r;
}
/* SRDHM for a multiplier m > -2^31, which cannot saturate.  It shifts logically, because AVX2 has no arithmetic shift
 * of 64 bits; the low 32 bits of both are equal. */
PL_INLINE int32_t pl_mul_high(int32_t x, int32_t m) {
  return (int32_t)((uint64_t)((int64_t)x * m + (1 << 30)) >> 31);
}
PL_INLINE int32_t pl_srdhm16(int32_t a, int32_t b) { return pl_min32((a * b + (1 << 14)) >> 15, 32767); }

/* RDBPOT, 0 <= k <= 31 */
PL_INLINE int32_t pl_rdbpot(int32_t x, int k) {
  int32_t mask = (int32_t)((1u << k) - 1);
  return (x >> k) + ((x & mask) > (mask >> 1) + (x < 0));
}
/* RDBPOT in 16 bits, 0 <= k <= 31.  For k > 15 the mask overflows to 0 in 16 bits. */
PL_INLINE int32_t pl_rdbpot16(int32_t x, int k) { return k > 15 ? (x < 0 ? -1 : 1) : pl_rdbpot(x, k); }
/* RDBPOT with any k, as in DIV: k counts modulo 32 for the value and modulo 64 for the mask (section 5). */
PL_INLINE int32_t pl_rdbpot_any(int32_t x, int k) {
  int32_t mask = k & 32 ? -1 : (int32_t)((1u << (k & 31)) - 1);
  return (x >> (k & 31)) + ((x & mask) > (mask >> 1) + (x < 0));
}

/* A shift that rounds halves up, 0 <= k <= 31. */
PL_INLINE int32_t pl_shift_up(int32_t x, int k) { return k ? (x >> k) + (x >> (k - 1) & 1) : x; }

/* QuantizeMultiplier: (m, e) with d ~ m * 2^(e - 31); returns 0 if d is infinite or NaN. */
PL_INLINE int pl_quantize_multiplier(double d, int32_t *m, int32_t *e) {
  int exponent;
  double fraction = frexp(d, &exponent);
  int64_t rounded;
  if (!isfinite(d)) return 0;
  rounded = (int64_t)(fraction * 2147483648. + (fraction > 0 ? .5 : -.5));
  if (rounded == INT64_C(1) << 31) {
    rounded >>= 1;
    exponent++;
  }
  if (!rounded || exponent < -31) rounded = exponent = 0;
  *m = (int32_t)rounded;
  *e = exponent;
  return 1;
}

/* MBQM32 */
PL_INLINE int32_t pl_mbqm32(int32_t x, int32_t m, int e) {
  int left = e > 0 ? e : 0, right = e < 0 ? -e : 0;
  return pl_rdbpot(pl_mul_high(pl_shl32(x, left), m), right);
}
/* RUY: MBQM32, but for halves, which it rounds up */
PL_INLINE int32_t pl_ruy(int32_t x, int32_t m, int e) {
  return pl_shift_up(pl_mul_high(pl_shl32(x, e > 0 ? e : 0), m), e < 0 ? -e : 0);
}
PL_INLINE int32_t pl_mbqm_small(int32_t x, int32_t m, int e) { return pl_rdbpot(pl_mul_high(x, m), -e); } /* e <= 0 */

/* MBQM64, -31 <= e <= 14: call pl_multiplier16(m) once, then pl_mbqm64 for each accumulator. */
PL_INLINE int32_t pl_multiplier16(int32_t m) { return m < 0x7FFF0000 ? (m + (1 << 15)) >> 16 : 0x7FFF; }
PL_INLINE int32_t pl_mbqm64(int64_t x, int32_t m16, int e) {
  return (int32_t)((x * m16 + ((int64_t)1 << (14 - e))) >> (15 - e));
}

/* ---- real numbers to integers, halves away from zero ----
 * Adding the largest number below one half, then truncating, rounds exactly (0.49999999999999994, too) and vectorises.
 * A value out of range becomes INT32_MIN on all CPUs, as x86-64's conversion gives. */
PL_INLINE int32_t pl_round_away64(double v) {
  v = v + copysign(0.49999999999999994, v);
  return v > -2147483649.0 && v < 2147483648.0 ? (int32_t)v : INT32_MIN;
}
PL_INLINE int32_t pl_round_away32(float v) {
  v = v + copysignf(0.49999997f, v);
  return v >= -2147483648.0f && v < 2147483648.0f ? (int32_t)v : INT32_MIN;
}
/* QUANTIZE of float32 (section 9). */
typedef struct { float scale; int32_t zero, low, high; } pl_quantize_p;
PL_INLINE int32_t pl_quantize(float x, pl_quantize_p p) {
  return pl_clamp32(pl_round_away32(x / p.scale) + p.zero, p.low, p.high);
}
/* The rounding of hybrid operators (section 4): one half is added in float32, so 0.49999997 becomes 1. */
PL_INLINE int32_t pl_round_half32(float v) { return (int32_t)(v + copysignf(0.5f, v)); }
/* The activations of LSTMs with 8-bit gates (section 10): the C library's float32 functions, truncated to Q15. */
PL_INLINE int32_t pl_logistic_q12(int32_t q) {
  return pl_min32((int32_t)(1.0f / (1.0f + expf((float)q * -0x1p-12f)) * 32768.0f), 32767);
}
PL_INLINE int32_t pl_tanh_scaled(int32_t q, float scale) {
  return pl_min32((int32_t)(tanhf((float)q * scale) * 32768.0f), 32767);
}
/* The quantization of hybrid operators for numbers from low <= 0 to high >= 0 (section 4): returns the zero point, and
 * sets the scale and the number by which real numbers are multiplied to quantize them (inverse). */
PL_INLINE int32_t pl_quantization(float low, float high, int asymmetric, float *scale, float *inverse) {
  const float most = -low > high ? -low : high, span = asymmetric ? high - low : most;
  const int none = (low == 0) & (high == 0);
  const double step = ((double)high - (double)low) / 255.0, a = low / step, b = high / step;
  const double from_low = -128 - a, from_high = 127 - b;
  double zero = 128 + fabs(a) < 127 + fabs(b) ? from_low : from_high;
  zero = zero > -128 ? zero : -128;
  zero = zero < 127 ? zero : 127;
  const int32_t rounded = (int32_t)(zero + copysign(0.49999999999999994, zero));
  const float s = span / (asymmetric ? 255.0f : 127.0f), i = (asymmetric ? 1.0f : 127.0f) / (asymmetric ? s : most);
  *scale = none ? 1 : s;
  *inverse = none ? 0 : i;
  return none | !asymmetric ? 0 : rounded;
}
/* FULLY_CONNECTED's rule: the float64 product of the accumulator and the quotient of scales (section 4). */
PL_INLINE int32_t pl_scale_f64(int64_t acc, double scale) { return pl_round_away64((double)acc * scale); }

/* ---- section 2: fixed-point functions.  bits: 16 or 32, a constant in each call; values of both are in int32 ---- */

PL_INLINE int32_t pl_fx_max(int bits) { return (int32_t)((1u << (bits - 1)) - 1); }
PL_INLINE int32_t pl_fx_wrap(int32_t v, int bits) { return bits == 16 ? (int16_t)v : v; }
PL_INLINE int32_t pl_fx_mul(int32_t a, int32_t b, int bits) { return bits == 16 ? pl_srdhm16(a, b) : pl_srdhm(a, b); }
PL_INLINE int32_t pl_fx_add(int32_t a, int32_t b, int bits) {
  return pl_fx_wrap((int32_t)((uint32_t)a + (uint32_t)b), bits);
}
PL_INLINE int32_t pl_fx_sub(int32_t a, int32_t b, int bits) {
  return pl_fx_wrap((int32_t)((uint32_t)a - (uint32_t)b), bits);
}
PL_INLINE int32_t pl_fx_const(int32_t c, int bits) { return bits == 16 ? pl_rdbpot(c, 16) : c; }
PL_INLINE int32_t pl_fx_one(int m, int bits) { return m == 0 ? pl_fx_max(bits) : (int32_t)1 << (bits - 1 - m); }
/* x times 2^k, saturated: converts x to k fewer integer bits */
PL_INLINE int32_t pl_fx_shl(int32_t x, int k, int bits) {
  int32_t limit = pl_fx_max(bits) >> k;
  return x > limit ? pl_fx_max(bits) : x < -limit ? -pl_fx_max(bits) - 1 : (int32_t)((uint32_t)x << k);
}
/* (a + b) / 2, halves away from zero */
PL_INLINE int32_t pl_half_sum(int32_t a, int32_t b) {
  const int32_t below = (a & b) + ((a ^ b) >> 1);
  return below + ((a ^ b) & ~(below >> 31) & 1);
}

/* exp(a), a <= 0 in Qm, result in Q0 */
PL_INLINE int32_t pl_exp_q(int32_t a, int m, int bits) {
  static const int32_t factors[7] = {1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242};
  const int fraction = bits - 1 - m;
  const int32_t quarter = (int32_t)1 << (fraction - 2);
  const int32_t c0 = pl_fx_const(1895147668, bits), c1 = pl_fx_const(715827883, bits);
  int32_t u = (a & (quarter - 1)) - quarter;
  int32_t rem = pl_fx_sub(u, a, bits);
  int32_t x = pl_fx_add(pl_fx_shl(u, m, bits), (int32_t)1 << (bits - 4), bits);
  int32_t x2 = pl_fx_mul(x, x, bits), x3 = pl_fx_mul(x2, x, bits), x4 = pl_fx_mul(x2, x2, bits);
  int32_t t = pl_fx_mul(pl_fx_add(pl_rdbpot(x4, 2), x3, bits), c1, bits);
  t = pl_rdbpot(pl_fx_add(t, x2, bits), 1);
  int32_t r = pl_fx_mul(c0, pl_fx_add(x, t, bits), bits);
  r = bits == 16 ? pl_sat16(c0 + r) : pl_fx_add(c0, r, bits);
  for (int k = -2; k <= 4; k++)
    if (m > k) {
      int32_t scaled = pl_fx_mul(r, pl_fx_const(factors[k + 2], bits), bits);
      r = (rem >> (fraction + k)) & 1 ? scaled : r;
    }
  if (m > 5) r = a < pl_fx_const(-((int32_t)1 << (36 - m)), bits) ? 0 : r;
  return a == 0 ? pl_fx_max(bits) : r;
}

/* 2 / (1 + a) in Q2, a in (0, 1) in Q0 */
PL_INLINE int32_t pl_newton(int32_t a, int bits) {
  int32_t h = pl_half_sum(a, pl_fx_max(bits));
  int32_t x = pl_fx_add(pl_fx_const(1515870810, bits), pl_fx_mul(h, pl_fx_const(-1010580540, bits), bits), bits);
  for (int i = 0; i < 3; i++) {
    int32_t d = pl_fx_sub(pl_fx_one(2, bits), pl_fx_mul(h, x, bits), bits);
    x = pl_fx_add(x, pl_fx_shl(pl_fx_mul(x, d, bits), 2, bits), bits);
  }
  return x;
}
/* 1 / (1 + a) in Q0 */
PL_INLINE int32_t pl_recip1p(int32_t a, int bits) { return pl_fx_shl(pl_newton(a, bits), 1, bits); }
/* (1 - a) / (1 + a) in Q0 */
PL_INLINE int32_t pl_ratio(int32_t a, int bits) {
  return pl_fx_shl(pl_fx_sub(pl_newton(a, bits), pl_fx_one(2, bits), bits), 2, bits);
}
/* tanh(a), a in Qm, result in Q0 */
PL_INLINE int32_t pl_tanh_q(int32_t a, int m, int bits) {
  int32_t n = a < 0 ? a : pl_fx_sub(0, a, bits);
  int32_t t = pl_ratio(pl_exp_q(n, m + 1, bits), bits);
  return a == 0 ? 0 : a < 0 ? pl_fx_sub(0, t, bits) : t;
}
/* 1 / (1 + exp(-a)), a in Qm, result in Q0 */
PL_INLINE int32_t pl_logistic_q(int32_t a, int m, int bits) {
  int32_t n = a > 0 ? pl_fx_sub(0, a, bits) : a;
  int32_t p = pl_recip1p(pl_exp_q(n, m, bits), bits);
  return a == 0 ? pl_fx_const(1 << 30, bits) : a > 0 ? p : pl_fx_sub(pl_fx_max(bits), p, bits);
}

/* Returns r in Q0, with 1 / x ~ r 2^-over, for x > 0 in Qm */
PL_INLINE int32_t pl_reciprocal(int32_t x, int m, int *over) {
  int headroom = pl_clz32((uint32_t)x);
  *over = m - headroom;
  return pl_recip1p((int32_t)(((uint32_t)x << (headroom & 31)) - 0x80000000u), 32);
}

/* Returns m, with 1 / sqrt(v) ~ m 2^(e-31) and e <= 0, for v >= 0 */
PL_INLINE int32_t pl_inv_sqrt(int32_t v, int *e) {
  int shift = 11;
  if (v <= 1) {
    *e = 0;
    return INT32_MAX;
  }
  for (; v >= 1 << 29; v /= 4) shift++;
  int pairs = (pl_clz32((uint32_t)v) - 1) / 2 - 1;
  shift -= pairs;
  v = (int32_t)((uint32_t)v << (2 * pairs));
  int32_t f = v >> 1, half = pl_rdbpot(f, 1), x = 1 << 28;
  for (int i = 0; i < 5; i++) {
    int32_t x3 = pl_fx_shl(pl_srdhm(pl_srdhm(x, x), x), 6, 32);
    x = pl_fx_shl(pl_fx_sub(pl_srdhm((1 << 28) + (1 << 27), x), pl_srdhm(half, x3), 32), 3, 32);
  }
  int32_t m = pl_srdhm(x, 1518500250);
  if (shift < 0) {
    m = (int32_t)((uint32_t)m << -shift);
    shift = 0;
  }
  *e = -shift;
  return m;
}

/* ---- ln(v), v >= 1 in Q12, result in Q5: pl_log_q.  It is k ln(2) plus a function of r, in steps that vectorise.
 * ---- */

PL_INLINE int32_t pl_times_root_half(int32_t v) { return pl_mul_high(v, 1518500250); }
/* Returns r, and sets k; head, root_head: leading zeros of v and of v sqrt(1/2), at least 1 */
PL_INLINE int32_t pl_log_split(int32_t v, int head, int root_head, int32_t *k) {
  const int32_t quarter = 1 << 23;
  int32_t ra = pl_fx_shl(pl_times_root_half(pl_shl32(v, head - 1)), 1, 32);
  int32_t rb = pl_fx_shl(v, root_head - 1, 32);
  *k = pl_max32(pl_shl32(12 - head, 25) + quarter, pl_shl32(13 - root_head, 25) - quarter);
  return pl_min32(ra, rb);
}
/* Returns the numerator of a rational function of r, and sets its denominator less 1 */
PL_INLINE int32_t pl_log_ratio(int32_t r, int32_t *denominator) {
  const int32_t fourth_root_half = 1805811301;
  const int32_t an = 117049297, ad = 127690142, ai = 1057819769, af = 638450708;
  int32_t p = pl_half_sum(r, fourth_root_half);
  int32_t q = pl_fx_sub(r, fourth_root_half, 32);
  q = pl_fx_add(q, q, 32);
  int32_t c = pl_srdhm(q, q);
  int32_t num = pl_fx_add(pl_srdhm(q, r), pl_srdhm(pl_srdhm(q, c), an), 32);
  int32_t sum = pl_fx_add(pl_fx_add(ai, q, 32), pl_srdhm(ad, c), 32);
  *denominator = pl_fx_add(pl_srdhm(p, sum), pl_srdhm(af, q), 32);
  return pl_rdbpot(num, 6);
}
/* reciprocal: 1 / (1 + denominator) */
PL_INLINE int32_t pl_log_joined(int32_t k, int32_t numerator, int32_t reciprocal) {
  return pl_fx_shl(pl_fx_add(pl_srdhm(k, 1488522236), pl_srdhm(numerator, reciprocal), 32), 1, 32); /* k ln(2) */
}
PL_INLINE int32_t pl_log_q(int32_t v) {
  const int head = pl_clz32((uint32_t)v), root_head = pl_clz32((uint32_t)pl_times_root_half(v));
  int32_t k, denominator, r = pl_log_split(v, pl_max32(head, 1), pl_max32(root_head, 1), &k);
  int32_t numerator = pl_log_ratio(r, &denominator);
  return pl_log_joined(k, numerator, pl_recip1p(denominator, 32));
}

/* ---- section 5: DIV of a by b, both less their zero points; b != 0; (m, e) the multiplier ---- */
PL_INLINE int32_t pl_div_q(int32_t a, int32_t b, int32_t m, int e) {
  int over;
  if (b < 0) {
    a = -a;
    b = -b;
  }
  int32_t r = pl_reciprocal(b, 31, &over);
  int head = a >= 0 ? pl_clz32((uint32_t)a) - 1 : pl_clz32(2u * (uint32_t)-a - 1);
  int32_t u = pl_srdhm(pl_shl32(a, head), r);
  return pl_rdbpot_any(pl_mul_high(u, m), -(e - over - head));
}
#endif
