/* Elementary float functions that compilers can vectorise.  Relative error below 1e-6; all lanes compute the same bits.
 *
 * Infinities and NaN give the results of the C library.  exp() well below the normal range is 0: on some CPUs a
 * subnormal number takes as long as a hundred others, and masked attention would have whole rows of them. */
#ifndef PYLITE_FUNCTIONS_H
#define PYLITE_FUNCTIONS_H
#include "rounding.h"
#include <string.h>

/* ab + c, fused if the ISA level can.  Float results may thus differ in their last bits between levels, but never
 * between thread counts. */
#if defined(__FMA__) || defined(__aarch64__) || defined(__ARM_FEATURE_FMA)
#define PL_FMA(a, b, c) __builtin_fmaf(a, b, c)
/* a / b without the division unit: the nearest float, unless it is below the normal range.  a is not -0; inverse is
 * 1 / b. */
PL_INLINE float pl_quotient(float a, float b, float inverse) {
  const float q = a * inverse, nearest = PL_FMA(PL_FMA(-q, b, a), inverse, q);
  return nearest == nearest ? nearest : q; /* infinities */
}
#else
#define PL_FMA(a, b, c) ((a) * (b) + (c))
PL_INLINE float pl_quotient(float a, float b, float inverse) { return (void)inverse, a / b; }
#endif

PL_INLINE float pl_float_of(uint32_t bits) {
  float f;
  memcpy(&f, &bits, 4);
  return f;
}
PL_INLINE uint32_t pl_bits_of(float f) {
  uint32_t bits;
  memcpy(&bits, &f, 4);
  return bits;
}

/* exp(r) - 1, where x = r + n log(2) and |r| <= log(2) / 2; |x| < 150 */
PL_INLINE float pl_expm1_reduced(float x, int32_t *n) {
  float t = PL_FMA(x, 1.44269504f, 12582912.0f); /* 1.5 2^23: the sum's low bits are the nearest integer */
  float f = t - 12582912.0f;
  float r = PL_FMA(f, -0.693359375f, x);
  *n = (int32_t)(pl_bits_of(t) - pl_bits_of(12582912.0f));
  r = PL_FMA(f, 2.12194440e-4f, r);
  float p = 1.9875691500e-4f;
  p = PL_FMA(p, r, 1.3981999507e-3f);
  p = PL_FMA(p, r, 8.3334519073e-3f);
  p = PL_FMA(p, r, 4.1665795894e-2f);
  p = PL_FMA(p, r, 1.6666665459e-1f);
  p = PL_FMA(p, r, 5.0000001201e-1f);
  return PL_FMA(p, r * r, r);
}
#define PL_MIN_EXP -87.33654f /* the smallest number whose exp() is in the normal range */
/* exp(x) for x <= 89 */
PL_INLINE float pl_exp_low(float x) {
  int32_t n;
  float p = 1.0f + pl_expm1_reduced(x < PL_MIN_EXP ? PL_MIN_EXP : x, &n); /* NaN passes */
  int32_t half = n >> 1; /* in two steps: 2^n alone may be out of range */
  p = p * pl_float_of((uint32_t)(half + 127) << 23) * pl_float_of((uint32_t)(n - half + 127) << 23);
  return x < PL_MIN_EXP ? 0.0f : p;
}
PL_INLINE float pl_exp(float x) { return pl_exp_low(x > 89.0f ? 89.0f : x); }
/* exp(x) - 1 for x <= 80 */
PL_INLINE float pl_expm1(float x) {
  int32_t n;
  x = x < -20.0f ? -20.0f : x;
  float p = pl_expm1_reduced(x, &n);
  float power = pl_float_of((uint32_t)(n + 127) << 23);
  return PL_FMA(power, p, power - 1.0f);
}
/* x P(x^2) / Q(x^2), fitted on [-8.44, 8.44]; rounding may exceed 1, so it is clamped */
PL_INLINE float pl_tanh(float x) {
  x = pl_clampf(x, -8.44f, 8.44f);
  float z = x * x, p = 1.43838488e-8f, q = 8.19068987e-7f;
  p = PL_FMA(p, z, 2.13295534e-5f);
  q = PL_FMA(q, z, 3.35653574e-4f);
  p = PL_FMA(p, z, 3.53866583e-3f);
  q = PL_FMA(q, z, 2.60402933e-2f);
  p = PL_FMA(p, z, 0.134171203f);
  q = PL_FMA(q, z, 0.467504442f);
  return pl_clampf(x * PL_FMA(p, z, 1.0f) / PL_FMA(q, z, 1.0f), -1.0f, 1.0f);
}
/* 1 / (1 + exp(-x)); below -9 exp(x), as in the reference, with a relative error of up to 1.2e-4. */
PL_INLINE float pl_logistic(float x) {
  float e = pl_exp_low(pl_float_of(pl_bits_of(x) | 0x80000000u));
  return (x < 0.0f ? e : 1.0f) / (x < -9.0f ? 1.0f : 1.0f + e);
}
/* x Phi(x) = max(x, 0) + b Phi(b) with b = -|x|.  Phi(b) exp(b^2 / 2) is approximated by a quotient of polynomials,
 * fitted on [-14.6, 0]; below, exp() gives 0.  -infinity times 0 is NaN, as in the reference. */
PL_INLINE float pl_gelu(float x) {
  float below = pl_float_of(pl_bits_of(x) | 0x80000000u), b = below < -14.6f ? -14.6f : below;
  float p = -0.0171928573f, q = 0.0431007743f;
  p = PL_FMA(p, b, 0.120143488f);
  q = PL_FMA(q, b, -0.300961733f);
  p = PL_FMA(p, b, -0.363035142f);
  q = PL_FMA(q, b, 0.956367552f);
  p = PL_FMA(p, b, 0.499999791f);
  q = PL_FMA(PL_FMA(q, b, -1.52393508f), b, 1.0f);
  return (x > 0.0f ? x : 0.0f) + (x < b ? x : b) * pl_exp_low(b * b * -0.5f) * (p / q);
}

/* log(x): x = 2^n (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)) */
PL_INLINE float pl_log(float x) {
  int tiny = x < 0x1p-126f;
  uint32_t bits = pl_bits_of(x);
  bits = tiny ? pl_bits_of((float)(int32_t)bits) : bits; /* a subnormal number, in units of 2^-149 */
  int32_t n = (int32_t)(bits - 0x3F3504F3u) >> 23;
  float f = pl_float_of(bits - ((uint32_t)n << 23)) - 1.0f;
  float e = (float)(n - (tiny ? 149 : 0)), z = f * f;
  float p = 7.0376836292e-2f;
  p = PL_FMA(p, f, -1.1514610310e-1f);
  p = PL_FMA(p, f, 1.1676998740e-1f);
  p = PL_FMA(p, f, -1.2420140846e-1f);
  p = PL_FMA(p, f, 1.4249322787e-1f);
  p = PL_FMA(p, f, -1.6668057665e-1f);
  p = PL_FMA(p, f, 2.0000714765e-1f);
  p = PL_FMA(p, f, -2.4999993993e-1f);
  p = PL_FMA(p, f, 3.3333331174e-1f);
  float r = PL_FMA(e, -2.12194440e-4f, p * f * z);
  r = PL_FMA(-0.5f, z, r);
  r = PL_FMA(e, 0.693359375f, f + r);
  r = x > 0.0f ? r : x == 0.0f ? -INFINITY : NAN;
  return x <= 3.402823466e38f ? r : x; /* infinity and NaN */
}
/* The bits of 2 / pi: each word has 32 of them and begins 8 bits after the one before, the first at the bit of 2^15.
 * For any x, x / (pi / 2) modulo 4 is the product of x and 96 of these bits. */
static const uint32_t pl_two_over_pi[] = {
    0x0000a2f9u, 0x00a2f983u, 0xa2f9836eu, 0xf9836e4eu, 0x836e4e44u, 0x6e4e4415u, 0x4e441529u, 0x441529fcu,
    0x1529fc27u, 0x29fc2757u, 0xfc2757d1u, 0x2757d1f5u, 0x57d1f534u, 0xd1f534ddu, 0xf534ddc0u, 0x34ddc0dbu,
    0xddc0db62u, 0xc0db6295u, 0xdb629599u, 0x6295993cu, 0x95993c43u, 0x993c4390u, 0x3c439041u};
/* sin(r + half_turns pi) for |r| < 1.5735, with the sign of r if it is 0 */
PL_INLINE float pl_sin_turned(float r, uint32_t half_turns) {
  const float z = r * r;
  float p = PL_FMA(2.6052655e-6f, z, -1.9809383e-4f);
  p = PL_FMA(p, z, 8.333064e-3f);
  p = PL_FMA(p, z, -0.1666666f);
  return pl_float_of(pl_bits_of(r * PL_FMA(p, z, 1.0f)) ^ half_turns << 31);
}
/* sin(x + quarter pi / 2) for |x| < PL_TURNS_MAX.  pi is a sum, so that subtracting each part's product with the half
 * turns is exact; the parts are positive, so that -0 stays. */
#if defined(__FMA__) || defined(__aarch64__) || defined(__ARM_FEATURE_FMA)
#define PL_TURNS_MAX 8192.0f
PL_INLINE float pl_sin_shifted(float x, int quarter) {
  const float shift = 0.5f * (float)quarter;
  const float t = PL_FMA(x, 0.318309886f, shift) + 12582912.0f; /* 1.5 2^23: the sum's low bits are the half turns */
  const float q = t - 12582912.0f - shift;
  const float r = PL_FMA(q, -1.50995788e-7f, PL_FMA(q, -3.1415925f, x));
  return pl_sin_turned(PL_FMA(q, -1.07806051e-14f, r), pl_bits_of(t));
}
#else
#define PL_TURNS_MAX 1048576.0f
PL_INLINE float pl_sin_shifted(float x, int quarter) {
  const double shift = 0.5 * quarter;
  const double t = (double)x * 0.31830988618379067154 + shift + 6755399441055744.0; /* 1.5 2^52 */
  const double q = t - 6755399441055744.0 - shift;
  uint64_t half_turns;
  memcpy(&half_turns, &t, 8);
  return pl_sin_turned((float)((double)x - q * 3.1415926218032837 - q * 3.178650954705639e-8), (uint32_t)half_turns);
}
#endif

/* IEEE half precision, rounding to nearest even.  No step has a subnormal float, which some kernels flush to 0. */
PL_INLINE float pl_from_half(uint16_t h) {
  const uint32_t magnitude = (uint32_t)(h & 0x7FFF) << 13;
  const float normal = pl_float_of(magnitude + (magnitude >= 0x0F800000u ? 224u << 23 : 112u << 23));
  const float subnormal = pl_float_of(magnitude + (113u << 23)) - 0x1p-14f;
  return pl_float_of(pl_bits_of(magnitude < 0x00800000u ? subnormal : normal) | (uint32_t)(h & 0x8000) << 16);
}
PL_INLINE uint16_t pl_to_half(float f) {
  uint32_t bits = pl_bits_of(f), sign = bits & 0x80000000u, u = bits ^ sign;
  uint32_t normal = u + ((uint32_t)(15 - 127) << 23) + 0xFFF + (u >> 13 & 1);
  uint32_t tiny = pl_bits_of(pl_float_of(u) + 0.5f) - pl_bits_of(0.5f); /* the sum rounds to a multiple of 2^-24 */
  uint32_t h = u < 0x38800000u ? tiny : normal >> 13;
  h = u >= 0x47800000u ? (u > 0x7F800000u ? 0x7E00u : 0x7C00u) : h;
  return (uint16_t)(h | sign >> 16);
}
#endif
