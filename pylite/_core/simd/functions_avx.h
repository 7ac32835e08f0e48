/* The functions of functions.h that are met most, by hand: gcc makes two comparisons and a choice of each minimum, and has
 * no word for multiplying by a power of two.  The same error bounds; included by rows_unary.h alone. */
#include <immintrin.h>

#if defined(__AVX512F__)
typedef __m512 vf;
#define V(op) _mm512_##op
#define V_SIGN_FROM(magnitude, sign) _mm512_or_ps(magnitude, _mm512_and_ps(sign, V(set1_ps)(-0.0f)))
#define V_BELOW(x, bound, a, b) _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, V(set1_ps)(bound), _CMP_LT_OQ), b, a)
/* p 2^n, n a whole number */
PL_INLINE vf v_scaled(vf p, vf n) { return _mm512_scalef_ps(p, n); }
#else
typedef __m256 vf;
#define V(op) _mm256_##op
#define V_SIGN_FROM(magnitude, sign) _mm256_or_ps(magnitude, _mm256_and_ps(sign, V(set1_ps)(-0.0f)))
#define V_BELOW(x, bound, a, b) _mm256_blendv_ps(b, a, _mm256_cmp_ps(x, V(set1_ps)(bound), _CMP_LT_OQ))
PL_INLINE vf v_power(__m256i n) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}
PL_INLINE vf v_scaled(vf p, vf n) { /* in two steps: 2^n alone may be out of range */
  const __m256i whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1);
  return _mm256_mul_ps(_mm256_mul_ps(p, v_power(half)), v_power(_mm256_sub_epi32(whole, half)));
}
#endif
enum { V_WIDTH = sizeof(vf) / 4 };
#define V_ALL(f) V(set1_ps)(f)
#define V_FMA(a, b, c) V(fmadd_ps)(a, b, c)
#define V_FMA1(a, b, c) V(fmadd_ps)(a, b, V_ALL(c)) /* c: one number */
/* NaN stays NaN */
#define V_MIN(x, bound) V(min_ps)(V_ALL(bound), x)
#define V_MAX(x, bound) V(max_ps)(V_ALL(bound), x)

/* exp(r) - 1 for |r| <= log(2) / 2, and x = r + n log(2) before it */
PL_INLINE vf v_expm1_reduced(vf x, vf *n) {
  const vf magic = V_ALL(12582912.0f);
  *n = V(sub_ps)(V_FMA(x, V_ALL(1.44269504f), magic), magic);
  vf r = V_FMA(*n, V_ALL(-0.693359375f), x);
  r = V_FMA(*n, V_ALL(2.12194440e-4f), r);
  vf p = V_FMA1(V_ALL(1.9875691500e-4f), r, 1.3981999507e-3f);
  p = V_FMA1(p, r, 8.3334519073e-3f);
  p = V_FMA1(p, r, 4.1665795894e-2f);
  p = V_FMA1(p, r, 1.6666665459e-1f);
  p = V_FMA1(p, r, 5.0000001201e-1f);
  return V_FMA(p, V(mul_ps)(r, r), r);
}
PL_INLINE vf v_exp(vf x) {
  vf n, p = v_expm1_reduced(V_MAX(V_MIN(x, 89.0f), -104.0f), &n);
  return v_scaled(V(add_ps)(p, V_ALL(1.0f)), n);
}
/* exp(x) - 1 for x <= 80 */
PL_INLINE vf v_expm1(vf x) {
  vf n, p = v_expm1_reduced(V_MAX(x, -20.0f), &n), power = v_scaled(V_ALL(1.0f), n);
  return V_FMA(power, p, V(sub_ps)(power, V_ALL(1.0f)));
}
#define V_MAGNITUDE(x) V(andnot_ps)(V_ALL(-0.0f), x)
PL_INLINE vf v_tanh(vf x) {
  vf t = V_MIN(V_MAGNITUDE(x), 10.0f), e = v_expm1(V(add_ps)(t, t));
  return V_SIGN_FROM(V(div_ps)(e, V(add_ps)(e, V_ALL(2.0f))), x);
}
/* below -9 as pl_logistic */
PL_INLINE vf v_logistic(vf x) {
  vf e = v_exp(V(or_ps)(x, V_ALL(-0.0f))), one = V_ALL(1.0f);
  return V_BELOW(x, -9.0f, e, V(div_ps)(V_BELOW(x, 0.0f, e, one), V(add_ps)(one, e)));
}
/* x / 2 erfc(-x / sqrt(2)), with the polynomial of pl_erfc */
PL_INLINE vf v_gelu(vf x) {
  vf z = V(mul_ps)(x, V_ALL(-0.70710678f)), a = V_MIN(V_MAGNITUDE(z), 10.2f);
  vf t = V(div_ps)(V_ALL(1.0f), V_FMA1(a, V_ALL(0.5f), 1.0f));
  vf p = V_FMA1(V_ALL(0.144930214f), t, -0.6808272f);
  p = V_FMA1(p, t, 1.15673375f);
  p = V_FMA1(p, t, -0.696251929f);
  p = V_FMA1(p, t, -0.0802804306f);
  p = V_FMA1(p, t, 0.00126758602f);
  p = V_FMA1(p, t, 0.0346027985f);
  p = V_FMA1(p, t, 0.3866404f);
  p = V_FMA1(p, t, 0.998632789f);
  p = V_FMA1(p, t, -1.26544797f);
  vf r = V(mul_ps)(t, v_exp(V(fnmadd_ps)(a, a, p)));
  r = V_BELOW(z, 0.0f, V(sub_ps)(V_ALL(2.0f), r), r);
  return V(mul_ps)(V(mul_ps)(x, V_ALL(0.5f)), r);
}
PL_INLINE vf v_hard_swish(vf x) {
  vf gate = V_MAX(V_MIN(V(add_ps)(x, V_ALL(3.0f)), 6.0f), 0.0f);
  return V(mul_ps)(x, V(mul_ps)(gate, V_ALL(1.0f / 6.0f)));
}

#define UNARY_VECTOR(name, function) \
  static void name(size_t n, const void *vx, void *vy, const void *vp) { \
    const float *x = vx; \
    float *y = vy; \
    size_t i = 0; \
    (void)vp; \
    for (; i + V_WIDTH <= n; i += V_WIDTH) V(storeu_ps)(y + i, function(V(loadu_ps)(x + i))); \
    if (i < n) { \
      float last[V_WIDTH] = {0}; \
      memcpy(last, x + i, (n - i) * sizeof(float)); \
      V(storeu_ps)(last, function(V(loadu_ps)(last))); \
      memcpy(y + i, last, (n - i) * sizeof(float)); \
    } \
  }
UNARY_VECTOR(logistic_f32, v_logistic)
UNARY_VECTOR(tanh_f32, v_tanh)
UNARY_VECTOR(exp_f32, v_exp)
UNARY_VECTOR(gelu_f32, v_gelu)
UNARY_VECTOR(hard_swish_f32, v_hard_swish)
