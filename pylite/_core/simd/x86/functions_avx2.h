/* functions_vector.h with vectors of eight floats: AVX2. */
#include <immintrin.h>

typedef __m256 vf;
#define V(op) _mm256_##op
#define V_BELOW(x, bound, a, b) _mm256_blendv_ps(b, a, _mm256_cmp_ps(x, V(set1_ps)(bound), _CMP_LT_OQ))
#define V_NEGATIVE(x, a, b) _mm256_blendv_ps(b, a, x) /* by the sign alone */
#define V_POWER(t) _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(t), 23))
/* a / (1 + e); e if x < -9, where a is e */
PL_INLINE vf v_over_sum(vf x, vf a, vf e) {
  const vf added = V(and_ps)(_mm256_cmp_ps(x, V_ALL(-9.0f), _CMP_NLT_UQ), e);
  return V(div_ps)(a, V(add_ps)(V_ALL(1.0f), added));
}
/* Are all numbers positive and normal? */
PL_INLINE int v_normal(const vf v[4]) {
  __m256i most = _mm256_set1_epi32(INT32_MIN); /* the largest bits, less the smallest normal ones and 2^31 */
  for (int k = 0; k < 4; k++)
    most = _mm256_max_epi32(most, _mm256_add_epi32(_mm256_castps_si256(v[k]), _mm256_set1_epi32(0x7F800000)));
  return !_mm256_movemask_epi8(_mm256_cmpgt_epi32(most, _mm256_set1_epi32(-0x01000001)));
}

/* exp(x) for x <= 88.7: x = r + n log(2), |r| <= log(2) / 2; n is added to the exponent of exp(r) */
PL_INLINE vf v_exp_low(vf x) {
  const vf magic = V_ALL(12582912.0f), normal = V_MAX(x, PL_MIN_EXP); /* 1.5 2^23 */
  const vf n = V(sub_ps)(V_FMA(normal, V_ALL(1.44269504f), magic), magic);
  const vf r = V_FMA(n, V_ALL(2.12194440e-4f), V_FMA(n, V_ALL(-0.693359375f), normal));
  vf p = V_FMA1(V_ALL(8.290272e-3f), r, 4.189816e-2f);
  p = V_FMA1(p, r, 0.16667639f);
  p = V_FMA1(p, r, 0.49999148f);
  p = V_FMA1(p, r, 0.9999997f);
  p = V_FMA1(p, r, 1.0f);
  const __m256i power = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23); /* 0 for NaN, so that it stays NaN */
  p = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), power));
  return _mm256_andnot_ps(_mm256_cmp_ps(x, V_ALL(PL_MIN_EXP), _CMP_LT_OQ), p);
}
#define MAX_EXP 88.7228f /* just below the largest number whose exp() is finite */
PL_INLINE vf v_exp(vf x) {
  const vf beyond = _mm256_cmp_ps(x, V_ALL(MAX_EXP), _CMP_GT_OQ);
  return _mm256_blendv_ps(v_exp_low(V_MIN(x, MAX_EXP)), V_ALL(INFINITY), beyond);
}
/* 1 / sqrt(x) by one step of Newton's method from 12 bits, with a relative error below 3e-7. */
PL_INLINE vf v_rsqrt_normal(vf x) {
  const vf y = _mm256_rsqrt_ps(x), e = V(fnmadd_ps)(V(mul_ps)(x, y), y, V_ALL(1.0f));
  return V_FMA(V(mul_ps)(y, V_ALL(0.5f)), e, y);
}
/* *large = x, but subnormal numbers, which are slow to compute with, become x 2^150; returns which ones these are. */
PL_INLINE vf v_tiny(vf x, vf *large) {
  const __m256i twice = _mm256_slli_epi32(_mm256_castps_si256(x), 1), most = _mm256_set1_epi32(0xFFFFFD);
  const __m256i less = _mm256_sub_epi32(twice, _mm256_set1_epi32(1));
  const vf tiny = _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_min_epu32(less, most), less));
  *large = _mm256_blendv_ps(x, V(or_ps)(_mm256_cvtepi32_ps(twice), V(and_ps)(x, V_ALL(-0.0f))), tiny);
  return tiny;
}
/* r, multiplied by a number in the lanes of `which`. */
PL_INLINE vf v_scaled(vf which, vf r, float by) {
  return V(mul_ps)(r, _mm256_blendv_ps(V_ALL(1.0f), V_ALL(by), which));
}
PL_INLINE vf v_rsqrt(vf x) {
  vf large;
  const vf tiny = v_tiny(x, &large), r = v_rsqrt_normal(large);
  const vf exact = _mm256_blendv_ps(r, _mm256_rsqrt_ps(large), _mm256_cmp_ps(r, r, _CMP_UNORD_Q)); /* of 0, infinity */
  return v_scaled(tiny, exact, 0x1p75f);
}
PL_INLINE vf v_sqrt(vf x) {
  vf large;
  const vf tiny = v_tiny(x, &large);
  if (__builtin_expect(!_mm256_movemask_ps(tiny), 1)) return V(sqrt_ps)(x);
  return v_scaled(tiny, V(sqrt_ps)(large), 0x1p-75f);
}
