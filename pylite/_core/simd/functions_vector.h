/* The most frequent functions of functions.h with intrinsics, within the same error bounds; included by
 * portable_unary.h alone.  Plain C is slower: gcc compiles a minimum to two comparisons and a select, and C cannot
 * express scaling by a power of two, or Arm's approximate division.
 *
 * The file of an instruction set, which is included below, defines
 *   vf: the type of a vector of floats;
 *   V(op): the operation of Intel's name `op` on such vectors, such as V(add_ps);
 *   V_BELOW(x, bound, a, b): a where x is below a number, else b;
 *   V_NEGATIVE(x, a, b): a where x is negative, else b; either where x is -0 or NaN;
 *   v_over_sum(x, a, e): a / (1 + e), but e where x < -9;
 *   v_rsqrt(x): 1 / sqrt(x);
 *   v_sqrt(x), v_exp(x): except for NEON, whose exp() is below;
 *   v_bell(x), v_exp_negative(x), v_elu(x), v_log(x), MIN_GELU: only for AVX-512; for the others they are below.
 * And except for AVX-512
 *   V_POWER(t): 2^n, if t is n + 127 + 1.5 2^23: the last bits of t become the exponent;
 *   v_normal(v): are all numbers of four vectors positive and normal?
 *   v_rsqrt_normal(x): v_rsqrt() of such numbers; only for AVX2;
 *   v_scaled(p, n): p 2^n; only for NEON.
 * And optionally
 *   V_GATE(x, bound): x, at least 0 and at most the positive bound. */
#define V_ALL(f) V(set1_ps)(f)
#define V_FMA(a, b, c) V(fmadd_ps)(a, b, c)
/* a b + c for one number c; b must not be a constant */
#if defined(__aarch64__)
#define V_FMA1(a, b, c) V_FMA(a, b, PL_ADDEND(c, b))
#else
#define V_FMA1(a, b, c) V_FMA(a, b, V_ALL(c))
#endif
/* NaN stays NaN */
#define V_MIN(x, bound) V(min_ps)(V_ALL(bound), x)
#define V_MAX(x, bound) V(max_ps)(V_ALL(bound), x)
#if defined(__ARM_NEON)
#include "arm/functions_neon.h"
#elif defined(__AVX512F__)
#include "x86/functions_avx512.h"
#else
#include "x86/functions_avx2.h"
#endif
#ifndef V_GATE
#define V_GATE(x, bound) V_MAX(V_MIN(x, bound), 0.0f)
#endif
enum { V_WIDTH = sizeof(vf) / 4, V_EXACT = V_WIDTH > 4 }; /* V_EXACT: are divisions exact?  On Arm they are not */

#if !defined(__AVX512F__)
/* exp(-b^2 / 2) for MIN_GELU <= b <= 0, within 1.3e-7, by the polynomial of softmax_neon.c, restated for b^2, which
 * saves a product.  At MIN_GELU the exponent's bits are 0, and so is the result; the largest results below the normal
 * range are subnormal, or 0 if the thread flushes them. */
#define MIN_GELU (-13.27f)
PL_INLINE vf v_bell(vf b) {
  const vf magic = V_ALL(12583039.0f), z = V(mul_ps)(b, b); /* 1.5 2^23 + 127 */
  vf n = V_FMA1(V_ALL(-0.72134752f), z, 12583039.0f);
  const vf power = V_POWER(n);
  n = V(sub_ps)(n, magic);
  const vf r = V_FMA(n, V_ALL(1.386294361f), z); /* -2 times the reduced argument of exp() */
  vf p = V_FMA1(V_ALL(8.290272e-3f / -32), r, 4.189816e-2f / 16);
  p = V_FMA1(p, r, 0.16667639f / -8);
  p = V_FMA1(p, r, 0.49999148f / 4);
  p = V_FMA1(p, r, 0.9999997f / -2);
  return V(mul_ps)(V_FMA1(p, r, 1.0f), power); /* not p (r power) + power, whose first product may be subnormal */
}
/* exp(x) for x <= 0, by the steps of softmax_neon.c, with results below the normal range as in v_bell(). */
PL_INLINE vf v_exp_negative(vf x) {
  const vf magic = V_ALL(12583039.0f), bounded = V_MAX(x, -88.0f);
  vf n = V_FMA1(V_ALL(1.44269504f), bounded, 12583039.0f);
  const vf power = V_POWER(n);
  n = V(sub_ps)(n, magic);
  const vf r = V_FMA(n, V_ALL(-0.693147181f), bounded);
  vf p = V_FMA1(V_ALL(8.290272e-3f), r, 4.189816e-2f);
  p = V_FMA1(p, r, 0.16667639f);
  p = V_FMA1(p, r, 0.49999148f);
  p = V_FMA1(p, r, 0.9999997f);
  return V(mul_ps)(V_FMA1(p, r, 1.0f), power);
}
/* exp(r) - 1 for |r| <= log(2) / 2 */
PL_INLINE vf v_expm1_reduced(vf r) {
  vf p = V_FMA1(V_ALL(1.9875691500e-4f), r, 1.3981999507e-3f);
  p = V_FMA1(p, r, 8.3334519073e-3f);
  p = V_FMA1(p, r, 4.1665795894e-2f);
  p = V_FMA1(p, r, 1.6666665459e-1f);
  p = V_FMA1(p, r, 5.0000001201e-1f);
  return V_FMA(p, V(mul_ps)(r, r), r);
}
/* pl_expm1(x) below 0, else x */
PL_INLINE vf v_elu(vf x) {
  const vf magic = V_ALL(12583039.0f), below = V_MAX(V_MIN(x, 0.0f), -20.0f);
  vf n = V_FMA1(V_ALL(1.44269504f), below, 12583039.0f);
  const vf power = V_POWER(n);
  n = V(sub_ps)(n, magic);
  const vf p = v_expm1_reduced(V_FMA(n, V_ALL(2.12194440e-4f), V_FMA(n, V_ALL(-0.693359375f), below)));
  return V_BELOW(x, 0.0f, V_FMA(power, p, V(sub_ps)(power, V_ALL(1.0f))), x);
}
#if defined(__ARM_NEON)
/* exp(x): x = r + n log(2), |r| <= log(2) / 2 */
PL_INLINE vf v_exp(vf x) {
  const vf magic = V_ALL(12582912.0f), normal = V_MAX(V_MIN(x, 89.0f), PL_MIN_EXP); /* 1.5 2^23 */
  const vf n = V(sub_ps)(V_FMA1(V_ALL(1.44269504f), normal, 12582912.0f), magic);
  const vf p = v_expm1_reduced(V_FMA(n, V_ALL(2.12194440e-4f), V_FMA(n, V_ALL(-0.693359375f), normal)));
  return V_BELOW(x, PL_MIN_EXP, V_ALL(0.0f), v_scaled(V(add_ps)(p, V_ALL(1.0f)), n));
}
#endif

/* log(x) = n log(2) + f + f^2 P(f), where x = 2^n (1 + f) and 1 + f is in [sqrt(1/2), sqrt(2)); relative error below
 * 2.5e-7. */
typedef int32_t v_ints __attribute__((vector_size(sizeof(vf))));
PL_INLINE vf v_log_of(v_ints bits, v_ints subtracted) { /* bits: of x; subtracted: from n */
  const v_ints n = (bits - 0x3F3504F3) >> 23;
  const vf f = V(sub_ps)((vf)(bits - n * (1 << 23)), V_ALL(1.0f));
  vf p = V_FMA1(V_ALL(-0.100823775f), f, 0.161805004f);
  p = V_FMA1(p, f, -0.172432244f);
  p = V_FMA1(p, f, 0.199068829f);
  p = V_FMA1(p, f, -0.249712288f);
  p = V_FMA1(p, f, 0.333347142f);
  p = V_FMA1(p, f, -0.500003219f);
  return V_FMA(__builtin_convertvector(n - subtracted, vf), V_ALL(0.693147181f), V_FMA(p, V(mul_ps)(f, f), f));
}
PL_INLINE vf v_log_normal(vf x) { return v_log_of((v_ints)x, (v_ints){0}); }
PL_INLINE vf v_select(v_ints mask, vf a, vf b) { return (vf)(((v_ints)a & mask) | ((v_ints)b & ~mask)); }
PL_INLINE vf v_log(vf x) {
  /* Bits are compared, because CPUs may compare subnormal numbers as 0.  Those of negative numbers are negative. */
  const v_ints bits = (v_ints)x, tiny = bits < 0x00800000; /* subnormal, in units of 2^-149; or not positive */
  const vf counted = __builtin_convertvector(bits, vf);
  const vf r = v_log_of((v_ints)v_select(tiny, counted, x), tiny & 149);
  const vf other = v_select((bits & 0x7FFFFFFF) == 0, V_ALL(-INFINITY), V_ALL(NAN));
  return v_select(bits < 0x7F800000, v_select(bits > 0, r, other), x); /* infinity and NaN stay */
}
#endif
/* see pl_tanh; with exact divisions, results exceed 1 only from 8.16014 on */
PL_INLINE vf v_tanh(vf x) {
  x = V_MAX(V_MIN(x, V_EXACT ? 8.16f : 8.44f), V_EXACT ? -8.16f : -8.44f);
  vf z = V(mul_ps)(x, x);
  vf p = V_FMA1(V_ALL(1.43838488e-8f), z, 2.13295534e-5f), q = V_FMA1(V_ALL(8.19068987e-7f), z, 3.35653574e-4f);
  p = V_FMA1(p, z, 3.53866583e-3f);
  q = V_FMA1(q, z, 2.60402933e-2f);
  p = V_FMA1(p, z, 0.134171203f);
  q = V_FMA1(q, z, 0.467504442f);
  const vf y = V(div_ps)(V(mul_ps)(x, V_FMA1(p, z, 1.0f)), V_FMA1(q, z, 1.0f));
  return V_EXACT ? y : V_MAX(V_MIN(y, 1.0f), -1.0f);
}
/* see pl_logistic */
PL_INLINE vf v_logistic(vf x) {
  vf e = v_exp_negative(V(or_ps)(x, V_ALL(-0.0f))), one = V_ALL(1.0f);
  return v_over_sum(x, V_NEGATIVE(x, e, one), e);
}
/* see pl_gelu */
PL_INLINE vf v_gelu(vf x) {
#if defined(__AVX512F__)
  const vf b = _mm512_range_ps(x, V_ALL(MIN_GELU), 0xE); /* the smaller magnitude, negative; the bound for NaN */
#else
  vf b = V_MAX(V(or_ps)(x, V_ALL(-0.0f)), MIN_GELU);
#endif
  vf e = V(mul_ps)(V(min_ps)(b, x), v_bell(b));
  vf p = V_FMA1(V_ALL(-0.0171928573f), b, 0.120143488f), q = V_FMA1(V_ALL(0.0431007743f), b, -0.300961733f);
  p = V_FMA1(p, b, -0.363035142f);
  q = V_FMA1(q, b, 0.956367552f);
  p = V_FMA1(p, b, 0.499999791f);
  q = V_FMA1(V_FMA1(q, b, -1.52393508f), b, 1.0f);
  return V_FMA(e, V(div_ps)(p, q), V_MAX(x, 0.0f));
}
/* x / 2 (1 + tanh(u)) as x logistic(2 u) */
PL_INLINE vf v_gelu_tanh(vf x) {
  vf cube = V(mul_ps)(V(mul_ps)(x, x), V(mul_ps)(x, V_ALL(0.044715f)));
  return V(mul_ps)(x, v_logistic(V(mul_ps)(V_ALL(1.595769122f), V(add_ps)(x, cube))));
}
PL_INLINE vf v_hard_swish(vf x) {
  return V(mul_ps)(x, V(mul_ps)(V_GATE(V(add_ps)(x, V_ALL(3.0f)), 6.0f), V_ALL(1.0f / 6.0f)));
}

#if defined(__aarch64__) /* computes `count` independent vectors at once */
#define SEVERAL_VECTORS(function, count) \
  for (; i + (count) * V_WIDTH <= n; i += (count) * V_WIDTH) { \
    vf v[count]; \
    for (int k = 0; k < (count); k++) v[k] = function(V(loadu_ps)(x + i + k * V_WIDTH)); \
    for (int k = 0; k < (count); k++) V(storeu_ps)(y + i + k * V_WIDTH, v[k]); \
  }
#else
#define SEVERAL_VECTORS(function, count)
#endif
#define UNARY_VECTOR(name, function, count) \
  static void name(size_t n, const void *vx, void *vy, const void *vp) { \
    const float *x = vx; \
    float *y = vy; \
    size_t i = 0; \
    (void)vp; \
    SEVERAL_VECTORS(function, count) \
    for (; i + V_WIDTH <= n; i += V_WIDTH) V(storeu_ps)(y + i, function(V(loadu_ps)(x + i))); \
    if (i < n) { \
      float last[V_WIDTH] = {0}; \
      memcpy(last, x + i, (n - i) * sizeof(float)); \
      V(storeu_ps)(last, function(V(loadu_ps)(last))); \
      memcpy(y + i, last, (n - i) * sizeof(float)); \
    } \
  }
UNARY_VECTOR(logistic_f32, v_logistic, 3)
UNARY_VECTOR(tanh_f32, v_tanh, 3)
UNARY_VECTOR(exp_f32, v_exp, 3)
UNARY_VECTOR(gelu_f32, v_gelu, 2)
UNARY_VECTOR(gelu_tanh_f32, v_gelu_tanh, 2)
UNARY_VECTOR(hard_swish_f32, v_hard_swish, 4)
UNARY_VECTOR(elu_f32, v_elu, 3)
#if defined(__AVX512F__)
UNARY_VECTOR(log_f32, v_log, 2)
UNARY_VECTOR(rsqrt_f32, v_rsqrt, 2)
#else
/* Four vectors at a time, by `normal` if all numbers are positive and normal. */
#define UNARY_NORMAL(name, normal, function) \
  __attribute__((noinline)) UNARY_VECTOR(name##_any, function, 1) \
  static void name(size_t n, const void *vx, void *vy, const void *vp) { \
    const float *x = vx; \
    float *y = vy; \
    for (; n >= 4 * V_WIDTH; n -= 4 * V_WIDTH, x += 4 * V_WIDTH, y += 4 * V_WIDTH) { \
      const vf v[4] = {V(loadu_ps)(x), V(loadu_ps)(x + V_WIDTH), V(loadu_ps)(x + 2 * V_WIDTH), \
                       V(loadu_ps)(x + 3 * V_WIDTH)}; \
      if (__builtin_expect(v_normal(v), 1)) \
        for (int k = 0; k < 4; k++) V(storeu_ps)(y + k * V_WIDTH, normal(v[k])); \
      else name##_any(4 * V_WIDTH, x, y, vp); \
    } \
    name##_any(n, x, y, vp); \
  }
UNARY_NORMAL(log_f32, v_log_normal, v_log)
#if defined(__ARM_NEON)
UNARY_VECTOR(rsqrt_f32, v_rsqrt, 2)
#else
UNARY_NORMAL(rsqrt_f32, v_rsqrt_normal, v_rsqrt)
#endif
#endif
#if !defined(__ARM_NEON)
UNARY_VECTOR(sqrt_f32, v_sqrt, 2)
#endif
