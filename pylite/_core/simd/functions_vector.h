/* The most frequent functions of functions.h with intrinsics, within the same error bounds; included by
 * portable_unary.h alone.  Plain C is slower: gcc compiles a minimum to two comparisons and a select, and C cannot
 * express scaling by a power of two, or Arm's approximate division. */
#if defined(__aarch64__)
#include "arm/addend_neon.h"
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#else
#include <immintrin.h>
#endif

#if defined(__ARM_NEON)
typedef float32x4_t vf;
#define V(op) v_##op
#define v_set1_ps vdupq_n_f32
#define v_loadu_ps vld1q_f32
#define v_storeu_ps vst1q_f32
#define v_add_ps vaddq_f32
#define v_sub_ps vsubq_f32
#define v_mul_ps vmulq_f32
#define v_min_ps vminq_f32
#define v_max_ps vmaxq_f32
#define v_fmadd_ps(a, b, c) vfmaq_f32(c, a, b)
#define V_BELOW(x, bound, a, b) vbslq_f32(vcltq_f32(x, vdupq_n_f32(bound)), a, b)
#define V_QUOTIENT(x, bound, below, a, b) V_BELOW(x, bound, below, v_div_ps(a, b))
PL_INLINE vf v_or_ps(vf a, vf b) {
  return vreinterpretq_f32_u32(vorrq_u32(vreinterpretq_u32_f32(a), vreinterpretq_u32_f32(b)));
}
/* a / b by two steps of Newton's method from an 8-bit estimate: a division takes as long as thirty products. */
PL_INLINE vf v_div_ps(vf a, vf b) {
  vf r = vrecpeq_f32(b);
  r = vmulq_f32(r, vrecpsq_f32(b, r));
  return vmulq_f32(a, vmulq_f32(r, vrecpsq_f32(b, r)));
}
PL_INLINE vf v_power(int32x4_t n) {
  return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(n, vdupq_n_s32(127)), 23));
}
PL_INLINE vf v_scaled(vf p, vf n) { /* in two steps: 2^n alone may be out of range */
  const int32x4_t whole = vcvtq_s32_f32(n), half = vshrq_n_s32(whole, 1);
  return vmulq_f32(vmulq_f32(p, v_power(half)), v_power(vsubq_s32(whole, half)));
}
/* 1 / sqrt(x) by two steps of Newton's method, which gives NaN for 0 and infinity: there the estimate is exact. */
PL_INLINE vf v_rsqrt(vf x) {
  const vf y = vrsqrteq_f32(x);
  vf r = vmulq_f32(y, vrsqrtsq_f32(vmulq_f32(x, y), y));
  r = vmulq_f32(r, vrsqrtsq_f32(vmulq_f32(x, r), r));
  return vbslq_f32(vceqq_f32(r, r), r, y);
}
#elif defined(__AVX512F__)
typedef __m512 vf;
#define V(op) _mm512_##op
#define V_BELOW(x, bound, a, b) _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, V(set1_ps)(bound), _CMP_LT_OQ), b, a)
#define V_QUOTIENT(x, bound, below, a, b) \
  _mm512_mask_div_ps(below, _mm512_cmp_ps_mask(x, V(set1_ps)(bound), _CMP_NLT_UQ), a, b)
#else
typedef __m256 vf;
#define V(op) _mm256_##op
#define V_BELOW(x, bound, a, b) _mm256_blendv_ps(b, a, _mm256_cmp_ps(x, V(set1_ps)(bound), _CMP_LT_OQ))
#define V_QUOTIENT(x, bound, below, a, b) V_BELOW(x, bound, below, V(div_ps)(a, b))
#endif
enum { V_WIDTH = sizeof(vf) / 4, V_EXACT = V_WIDTH > 4 }; /* exact: are divisions?  Those of Arm are not */
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

#if defined(__AVX512F__)
/* 2^(i / 32) */
static const float v_powers[32] = {
    1.0f, 1.0218972f, 1.04427373f, 1.06714046f, 1.09050775f, 1.1143868f, 1.13878858f, 1.1637249f, 1.18920708f,
    1.21524739f, 1.24185777f, 1.26905096f, 1.29683959f, 1.32523668f, 1.35425556f, 1.38390994f, 1.41421354f,
    1.44518077f, 1.47682619f, 1.50916445f, 1.54221082f, 1.5759809f, 1.61049032f, 1.64575553f, 1.68179286f,
    1.71861935f, 1.75625217f, 1.79470909f, 1.8340081f, 1.87416768f, 1.91520655f, 1.95714414f};
/* Splits x = (n + i / 32) log(2) + r, and returns 2^(i / 32), looked up; callers multiply by 2^n (scalef). */
PL_INLINE vf v_split(vf x, vf *n, vf *r) {
  const vf magic = V_ALL(393216.0f); /* 1.5 2^18: the sum's low bits are the nearest thirty-second */
  vf t = V_FMA(x, V_ALL(1.44269504f), magic);
  *n = V(sub_ps)(t, magic);
  *r = V_FMA(*n, V_ALL(2.12194440e-4f), V_FMA(*n, V_ALL(-0.693359375f), x));
  return _mm512_permutex2var_ps(V(loadu_ps)(v_powers), _mm512_castps_si512(t), V(loadu_ps)(v_powers + 16));
}
/* exp(x) for x <= 89 */
PL_INLINE vf v_exp_low(vf x) {
  vf n, r, power = v_split(V_MAX(x, PL_LEAST_EXP), &n, &r);
  r = V(mul_ps)(r, V_FMA1(V_ALL(0.500001132f), r, 1.00001526f));
  const __mmask16 normal = _mm512_cmp_ps_mask(x, V_ALL(PL_LEAST_EXP), _CMP_NLT_UQ);
  return _mm512_maskz_scalef_ps(normal, V_FMA(power, r, power), n);
}
/* exp(x) - 1 below 0, else x */
PL_INLINE vf v_elu(vf x) {
  vf n, r, power = v_split(V_MAX(V_MIN(x, 0.0f), -20.0f), &n, &r);
  r = V(mul_ps)(r, V_FMA1(V_FMA1(V_ALL(0.166666667f), r, 0.5f), r, 1.0f));
  power = _mm512_scalef_ps(power, n);
  return V_BELOW(x, 0.0f, V_FMA(power, r, V(sub_ps)(power, V_ALL(1.0f))), x);
}

/* log(m 2^n) with m in [3 / 4, 3 / 2): m = (1 + r) / v_inverses[i], i being the first five bits of its fraction */
static const float v_inverses[32] = {
    1.0f, 0.955223858f, 0.927536249f, 0.901408434f, 0.876712322f, 0.853333354f, 0.83116883f, 0.810126603f,
    0.790123463f, 0.771084309f, 0.752941191f, 0.735632181f, 0.719101131f, 0.703296721f, 0.688172042f, 0.673684239f,
    1.31958759f, 1.29292929f, 1.26732671f, 1.24271846f, 1.21904767f, 1.19626164f, 1.17431188f, 1.15315318f,
    1.13274336f, 1.11304343f, 1.09401715f, 1.07563031f, 1.0578512f, 1.04065037f, 1.02400005f, 1.0f};
static const float v_logs[32] = {
    0.0f, 0.0458095595f, 0.0752234012f, 0.10379681f, 0.131576359f, 0.158605009f, 0.184922338f, 0.210564747f,
    0.235566065f, 0.259957552f, 0.283768147f, 0.307025045f, 0.32975328f, 0.351976395f, 0.373716414f, 0.394993752f,
    -0.277319252f, -0.256910414f, -0.236909732f, -0.217301279f, -0.198069945f, -0.179201394f, -0.160682335f,
    -0.142500088f, -0.124642439f, -0.107098088f, -0.0898563787f, -0.072906822f, -0.0562396757f, -0.0398458727f,
    -0.0237165745f, 0.0f};
PL_INLINE vf v_log(vf x) {
  vf m = _mm512_getmant_ps(x, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_src), n = _mm512_getexp_ps(x);
  n = _mm512_mask_add_ps(n, _mm512_cmp_ps_mask(m, V_ALL(1.0f), _CMP_LT_OQ), n, V_ALL(1.0f));
  const __m512i i = _mm512_srli_epi32(_mm512_castps_si512(m), 18);
  vf inverse = _mm512_permutex2var_ps(V(loadu_ps)(v_inverses), i, V(loadu_ps)(v_inverses + 16));
  vf r = V(fmsub_ps)(m, inverse, V_ALL(1.0f));
  vf p = V_FMA1(V_FMA1(V_ALL(-0.2439529f), r, 0.333365917f), r, -0.500001252f);
  p = V_FMA(p, V(mul_ps)(r, r), r);
  p = V(add_ps)(p, _mm512_permutex2var_ps(V(loadu_ps)(v_logs), i, V(loadu_ps)(v_logs + 16)));
  /* NaN and infinity stay as they are; 0 gives -infinity, a negative number NaN. */
  return _mm512_fixupimm_ps(V_FMA(n, V_ALL(0.693147181f), p), x, _mm512_set1_epi32(0x03530422), 0);
}

/* 1 / sqrt(x) by one step of Newton's method from 14 bits; it gives NaN for 0 and infinity, where the estimate is
 * exact. */
PL_INLINE vf v_rsqrt_normal(vf x) {
  vf y = _mm512_rsqrt14_ps(x), e = V(fnmadd_ps)(V(mul_ps)(x, y), y, V_ALL(1.0f));
  vf r = V_FMA(V(mul_ps)(y, V_ALL(0.5f)), e, y);
  return _mm512_mask_mov_ps(r, _mm512_cmp_ps_mask(r, r, _CMP_UNORD_Q), y);
}
/* Multiplies subnormal numbers, which are slow to compute with, by 2^150; returns which ones these are. */
PL_INLINE __mmask16 v_tiny(vf x, vf *large) {
  const __m512i twice = _mm512_slli_epi32(_mm512_castps_si512(x), 1);
  const __mmask16 tiny = _mm512_fpclass_ps_mask(x, 0x20);
  *large = _mm512_mask_or_ps(x, tiny, _mm512_cvtepi32_ps(twice), _mm512_and_ps(x, V_ALL(-0.0f)));
  return tiny;
}
/* sqrt(x) rounded to nearest, for x >= 2^-100: one step of Newton's method from a 14-bit reciprocal root, then a
 * correction by the remainder.  The result is the same for every estimate within 2^-14.  The division unit would take
 * twice as long.  Zeros and infinity stay as they are; negative numbers give NaN. */
#define LEAST_ROOT 0x0D800000 /* the bits of 2^-100 */
PL_INLINE vf v_root(vf x) {
  const vf y = _mm512_rsqrt14_ps(x), half = V(mul_ps)(y, V_ALL(0.5f)), s = V(mul_ps)(x, y);
  const vf e = V(fnmadd_ps)(s, half, V_ALL(0.5f)), nearer = V_FMA(s, e, s);
  const vf r = V_FMA(V(fnmadd_ps)(nearer, nearer, x), V_FMA(half, e, half), nearer);
  return _mm512_fixupimm_ps(r, x, _mm512_set1_epi32(0x03530122), 0);
}
PL_INLINE __mmask16 v_below_root(vf x) { /* which numbers other than 0 are too small for v_root */
  const __m512i less = _mm512_sub_epi32(_mm512_slli_epi32(_mm512_castps_si512(x), 1), _mm512_set1_epi32(1));
  return _mm512_cmplt_epu32_mask(less, _mm512_set1_epi32(2 * LEAST_ROOT - 1));
}
#define V_ANY(mask) (mask)
#define V_SCALED(mask, r, by) _mm512_mask_mul_ps(r, mask, r, V_ALL(by))
#elif !defined(__ARM_NEON)
/* exp(x) for x <= 88.7: x = r + n log(2), |r| <= log(2) / 2; n is added to the exponent of exp(r) */
PL_INLINE vf v_exp_low(vf x) {
  const vf magic = V_ALL(12582912.0f), normal = V_MAX(x, PL_LEAST_EXP); /* 1.5 2^23 */
  const vf n = V(sub_ps)(V_FMA(normal, V_ALL(1.44269504f), magic), magic);
  const vf r = V_FMA(n, V_ALL(2.12194440e-4f), V_FMA(n, V_ALL(-0.693359375f), normal));
  vf p = V_FMA1(V_ALL(8.290272e-3f), r, 4.189816e-2f);
  p = V_FMA1(p, r, 0.16667639f);
  p = V_FMA1(p, r, 0.49999148f);
  p = V_FMA1(p, r, 0.9999997f);
  p = V_FMA1(p, r, 1.0f);
  const __m256i power = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23); /* 0 for NaN, so that it stays NaN */
  p = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), power));
  return _mm256_andnot_ps(_mm256_cmp_ps(x, V_ALL(PL_LEAST_EXP), _CMP_LT_OQ), p);
}
/* pl_expm1(x) below 0, else x */
PL_INLINE vf v_elu(vf x) {
  const vf magic = V_ALL(12583039.0f), below = V_MAX(V_MIN(x, 0.0f), -20.0f); /* 1.5 2^23 + 127 */
  const vf t = V_FMA(below, V_ALL(1.44269504f), magic), n = V(sub_ps)(t, magic);
  const vf power = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(t), 23));
  const vf r = V_FMA(n, V_ALL(2.12194440e-4f), V_FMA(n, V_ALL(-0.693359375f), below));
  vf p = V_FMA1(V_ALL(1.9875691500e-4f), r, 1.3981999507e-3f);
  p = V_FMA1(p, r, 8.3334519073e-3f);
  p = V_FMA1(p, r, 4.1665795894e-2f);
  p = V_FMA1(p, r, 1.6666665459e-1f);
  p = V_FMA1(p, r, 5.0000001201e-1f);
  p = V_FMA(p, V(mul_ps)(r, r), r);
  return V_BELOW(x, 0.0f, V_FMA(power, p, V(sub_ps)(power, V_ALL(1.0f))), x);
}
/* As above, from a 12-bit estimate, with a relative error below 3e-7. */
PL_INLINE vf v_rsqrt_normal(vf x) {
  vf y = _mm256_rsqrt_ps(x), e = V(fnmadd_ps)(V(mul_ps)(x, y), y, V_ALL(1.0f));
  vf r = V_FMA(V(mul_ps)(y, V_ALL(0.5f)), e, y);
  return _mm256_blendv_ps(r, y, _mm256_cmp_ps(r, r, _CMP_UNORD_Q));
}
PL_INLINE vf v_tiny(vf x, vf *large) {
  const __m256i twice = _mm256_slli_epi32(_mm256_castps_si256(x), 1), most = _mm256_set1_epi32(0xFFFFFD);
  const __m256i less = _mm256_sub_epi32(twice, _mm256_set1_epi32(1));
  const vf tiny = _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_min_epu32(less, most), less));
  *large = _mm256_blendv_ps(x, V(or_ps)(_mm256_cvtepi32_ps(twice), V(and_ps)(x, V_ALL(-0.0f))), tiny);
  return tiny;
}
#define V_ANY(mask) _mm256_movemask_ps(mask)
#define V_SCALED(mask, r, by) V(mul_ps)(r, _mm256_blendv_ps(V_ALL(1.0f), V_ALL(by), mask))
#else
/* exp(x) for x <= 89: x = r + n log(2), |r| <= log(2) / 2 */
PL_INLINE vf v_exp_low(vf x) {
  const vf magic = V_ALL(12582912.0f), normal = V_MAX(x, PL_LEAST_EXP);
  vf n = V(sub_ps)(V_FMA1(V_ALL(1.44269504f), normal, 12582912.0f), magic);
  vf r = V_FMA(n, V_ALL(-0.693359375f), normal);
  r = V_FMA(n, V_ALL(2.12194440e-4f), r);
  vf p = V_FMA1(V_ALL(1.9875691500e-4f), r, 1.3981999507e-3f);
  p = V_FMA1(p, r, 8.3334519073e-3f);
  p = V_FMA1(p, r, 4.1665795894e-2f);
  p = V_FMA1(p, r, 1.6666665459e-1f);
  p = V_FMA1(p, r, 5.0000001201e-1f);
  p = V_FMA(p, V(mul_ps)(r, r), r);
  return V_BELOW(x, PL_LEAST_EXP, V_ALL(0.0f), v_scaled(V(add_ps)(p, V_ALL(1.0f)), n));
}
#endif
#if defined(V_ANY)
PL_INLINE vf v_rsqrt(vf x) {
  vf large;
  const __auto_type tiny = v_tiny(x, &large);
  if (__builtin_expect(!V_ANY(tiny), 1)) return v_rsqrt_normal(x);
  const vf r = v_rsqrt_normal(large);
  return V_SCALED(tiny, r, 0x1p75f);
}
PL_INLINE vf v_sqrt(vf x) {
  vf large;
#if defined(__AVX512F__)
  if (__builtin_expect(!_mm512_cmp_ps_mask(x, V_ALL(0x1p-100f), _CMP_LT_OQ), 1)) return v_root(x);
  const __mmask16 below = v_below_root(x);
  if (!below) return v_root(x); /* zeros and negative numbers */
  const __mmask16 normal = below & (__mmask16)~v_tiny(x, &large); /* multiply these by 2^150, too */
  const __m512i bits = _mm512_castps_si512(large);
  large = _mm512_castsi512_ps(_mm512_mask_add_epi32(bits, normal, bits, _mm512_set1_epi32(150 << 23)));
  const vf r = v_root(large);
  return V_SCALED(below, r, 0x1p-75f);
#else
  const __auto_type tiny = v_tiny(x, &large);
  if (__builtin_expect(!V_ANY(tiny), 1)) return V(sqrt_ps)(x);
  const vf r = V(sqrt_ps)(large);
  return V_SCALED(tiny, r, 0x1p-75f);
#endif
}
#endif
#if defined(__ARM_NEON)
/* exp(-b^2 / 2) for LEAST_GELU <= b <= 0, within 1.3e-7, and 0 instead of subnormal numbers, because the exponent's
 * bits are 0 from LEAST_GELU on.  The polynomial of softmax_neon.c, restated for b^2, which saves a product. */
#define LEAST_GELU (-13.27f)
PL_INLINE vf v_bell(vf b) {
  const vf magic = V_ALL(12583039.0f), z = vmulq_f32(b, b); /* 1.5 2^23 + 127 */
  vf n = V_FMA1(V_ALL(-0.72134752f), z, 12583039.0f);
  const vf power = vreinterpretq_f32_s32(vshlq_n_s32(vreinterpretq_s32_f32(n), 23));
  n = vsubq_f32(n, magic);
  const vf r = V_FMA(n, V_ALL(1.386294361f), z); /* -2 times the reduced argument of exp() */
  vf p = V_FMA1(V_ALL(8.290272e-3f / -32), r, 4.189816e-2f / 16);
  p = V_FMA1(p, r, 0.16667639f / -8);
  p = V_FMA1(p, r, 0.49999148f / 4);
  p = V_FMA1(p, r, 0.9999997f / -2);
  return V_FMA(p, vmulq_f32(r, power), power);
}
/* exp(x) for x <= 0, by the steps of softmax_neon.c: for -88 the exponent's bits are 0, and so is the result. */
PL_INLINE vf v_exp_negative(vf x) {
  const vf magic = V_ALL(12583039.0f), bounded = V_MAX(x, -88.0f);
  vf n = V_FMA1(V_ALL(1.44269504f), bounded, 12583039.0f);
  const vf power = vreinterpretq_f32_s32(vshlq_n_s32(vreinterpretq_s32_f32(n), 23));
  n = vsubq_f32(n, magic);
  const vf r = V_FMA(n, V_ALL(-0.693147181f), bounded);
  vf p = V_FMA1(V_ALL(8.290272e-3f), r, 4.189816e-2f);
  p = V_FMA1(p, r, 0.16667639f);
  p = V_FMA1(p, r, 0.49999148f);
  p = V_FMA1(p, r, 0.9999997f);
  return V_FMA(p, vmulq_f32(r, power), power);
}
/* pl_expm1(x) below 0, else x */
PL_INLINE vf v_elu(vf x) {
  const vf magic = V_ALL(12583039.0f), below = V_MAX(V_MIN(x, 0.0f), -20.0f);
  vf n = V_FMA1(V_ALL(1.44269504f), below, 12583039.0f);
  const vf power = vreinterpretq_f32_s32(vshlq_n_s32(vreinterpretq_s32_f32(n), 23));
  n = vsubq_f32(n, magic);
  const vf r = V_FMA(n, V_ALL(2.12194440e-4f), V_FMA(n, V_ALL(-0.693359375f), below));
  vf p = V_FMA1(V_ALL(1.9875691500e-4f), r, 1.3981999507e-3f);
  p = V_FMA1(p, r, 8.3334519073e-3f);
  p = V_FMA1(p, r, 4.1665795894e-2f);
  p = V_FMA1(p, r, 1.6666665459e-1f);
  p = V_FMA1(p, r, 5.0000001201e-1f);
  p = V_FMA(p, vmulq_f32(r, r), r);
  return V_BELOW(x, 0.0f, V_FMA(power, p, vsubq_f32(power, V_ALL(1.0f))), x);
}
#else
#define v_exp_negative v_exp_low
#define LEAST_GELU (-14.6f)
#if defined(__AVX512F__)
/* v_exp_low(-b^2 / 2), restated for b^2: r is -2 times the reduced argument.  Results below the normal range are
 * subnormal, or 0 if the thread flushes them. */
PL_INLINE vf v_bell(vf b) {
  const vf magic = V_ALL(393216.0f), z = V(mul_ps)(b, b), t = V_FMA(z, V_ALL(-0.72134752f), magic);
  const vf n = V(sub_ps)(t, magic), r = V_FMA(n, V_ALL(1.386294361f), z);
  const vf power = _mm512_permutex2var_ps(V(loadu_ps)(v_powers), _mm512_castps_si512(t), V(loadu_ps)(v_powers + 16));
  const vf rest = V(mul_ps)(r, V_FMA1(V_ALL(0.500001132f / 4), r, 1.00001526f / -2));
  return _mm512_scalef_ps(V_FMA(power, rest, power), n);
}
#else
PL_INLINE vf v_bell(vf b) { return v_exp_low(V(mul_ps)(V(mul_ps)(b, b), V_ALL(-0.5f))); }
#endif
#endif
#if defined(__AVX2__) && !defined(__AVX512F__)
#define MOST_EXP 88.7228f /* just below the largest number whose exp() is finite */
PL_INLINE vf v_exp(vf x) {
  const __m256 beyond = _mm256_cmp_ps(x, V_ALL(MOST_EXP), _CMP_GT_OQ);
  return _mm256_blendv_ps(v_exp_low(V_MIN(x, MOST_EXP)), V_ALL(INFINITY), beyond);
}
#else
PL_INLINE vf v_exp(vf x) { return v_exp_low(V_MIN(x, 89.0f)); }
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
  return V_QUOTIENT(x, -9.0f, e, V_BELOW(x, 0.0f, e, one), V(add_ps)(one, e));
}
/* see pl_gelu */
PL_INLINE vf v_gelu(vf x) {
#if defined(__AVX512F__)
  const vf b = _mm512_range_ps(x, V_ALL(LEAST_GELU), 0xE); /* the smaller magnitude, negative; the bound for NaN */
#else
  vf b = V_MAX(V(or_ps)(x, V_ALL(-0.0f)), LEAST_GELU);
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
  vf gate = V_MAX(V_MIN(V(add_ps)(x, V_ALL(3.0f)), 6.0f), 0.0f);
  return V(mul_ps)(x, V(mul_ps)(gate, V_ALL(1.0f / 6.0f)));
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
#if defined(__AVX512F__)
UNARY_VECTOR(log_f32, v_log, 2)
#endif
#define HAS_ELU
UNARY_VECTOR(elu_f32, v_elu, 3)
#define HAS_RSQRT
UNARY_VECTOR(rsqrt_f32, v_rsqrt, 2)
#if defined(V_ANY)
#define HAS_SQRT
UNARY_VECTOR(sqrt_f32, v_sqrt, 2)
#endif
