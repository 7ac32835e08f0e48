/* functions_vector.h with vectors of 16 floats: AVX-512.  Functions look up values where polynomials would take
 * longer. */
#include <immintrin.h>

typedef __m512 vf;
#define V(op) _mm512_##op
#define V_BELOW(x, bound, a, b) _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, V(set1_ps)(bound), _CMP_LT_OQ), b, a)
#define V_NEGATIVE(x, a, b) V_BELOW(x, 0.0f, a, b)
/* a / (1 + e); e if x < -9 */
PL_INLINE vf v_over_sum(vf x, vf a, vf e) {
  return _mm512_mask_div_ps(e, _mm512_cmp_ps_mask(x, V_ALL(-9.0f), _CMP_NLT_UQ), a, V(add_ps)(V_ALL(1.0f), e));
}

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
  vf n, r, power = v_split(V_MAX(x, PL_MIN_EXP), &n, &r);
  r = V(mul_ps)(r, V_FMA1(V_ALL(0.500001132f), r, 1.00001526f));
  const __mmask16 normal = _mm512_cmp_ps_mask(x, V_ALL(PL_MIN_EXP), _CMP_NLT_UQ);
  return _mm512_maskz_scalef_ps(normal, V_FMA(power, r, power), n);
}
#define v_exp_negative v_exp_low
PL_INLINE vf v_exp(vf x) { return v_exp_low(V_MIN(x, 89.0f)); }
#define MIN_GELU (-14.6f)
/* v_exp_low(-b^2 / 2), restated for b^2: r is -2 times the reduced argument.  Results below the normal range are
 * subnormal, or 0 if the thread flushes them. */
PL_INLINE vf v_bell(vf b) {
  const vf magic = V_ALL(393216.0f), z = V(mul_ps)(b, b), t = V_FMA(z, V_ALL(-0.72134752f), magic);
  const vf n = V(sub_ps)(t, magic), r = V_FMA(n, V_ALL(1.386294361f), z);
  const vf power = _mm512_permutex2var_ps(V(loadu_ps)(v_powers), _mm512_castps_si512(t), V(loadu_ps)(v_powers + 16));
  const vf rest = V(mul_ps)(r, V_FMA1(V_ALL(0.500001132f / 4), r, 1.00001526f / -2));
  return _mm512_scalef_ps(V_FMA(power, rest, power), n);
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
PL_INLINE vf v_rsqrt_not_tiny(vf x) {
  vf y = _mm512_rsqrt14_ps(x), e = V(fnmadd_ps)(V(mul_ps)(x, y), y, V_ALL(1.0f));
  vf r = V_FMA(V(mul_ps)(y, V_ALL(0.5f)), e, y);
  return _mm512_mask_mov_ps(r, _mm512_cmp_ps_mask(r, r, _CMP_UNORD_Q), y);
}
/* *large = x, but subnormal numbers, which are slow to compute with, become x 2^150; returns which ones these are. */
PL_INLINE __mmask16 v_tiny(vf x, vf *large) {
  const __m512i twice = _mm512_slli_epi32(_mm512_castps_si512(x), 1);
  const __mmask16 tiny = _mm512_fpclass_ps_mask(x, 0x20);
  *large = _mm512_mask_or_ps(x, tiny, _mm512_cvtepi32_ps(twice), _mm512_and_ps(x, V_ALL(-0.0f)));
  return tiny;
}
/* r, multiplied by a number in the lanes of `which`. */
PL_INLINE vf v_scaled(__mmask16 which, vf r, float by) { return _mm512_mask_mul_ps(r, which, r, V_ALL(by)); }
/* sqrt(x) rounded to nearest, for x >= 2^-100: one step of Newton's method from a 14-bit reciprocal root, then a
 * correction by the remainder.  The result is the same for every estimate within 2^-14.  The division unit would take
 * twice as long.  Zeros and infinity stay as they are; negative numbers give NaN. */
#define MIN_ROOT_BITS 0x0D800000 /* the bits of 2^-100 */
PL_INLINE vf v_root(vf x) {
  const vf y = _mm512_rsqrt14_ps(x), half = V(mul_ps)(y, V_ALL(0.5f)), s = V(mul_ps)(x, y);
  const vf e = V(fnmadd_ps)(s, half, V_ALL(0.5f)), nearer = V_FMA(s, e, s);
  const vf r = V_FMA(V(fnmadd_ps)(nearer, nearer, x), V_FMA(half, e, half), nearer);
  return _mm512_fixupimm_ps(r, x, _mm512_set1_epi32(0x03530122), 0);
}
PL_INLINE __mmask16 v_below_root(vf x) { /* which numbers other than 0 are too small for v_root */
  const __m512i less = _mm512_sub_epi32(_mm512_slli_epi32(_mm512_castps_si512(x), 1), _mm512_set1_epi32(1));
  return _mm512_cmplt_epu32_mask(less, _mm512_set1_epi32(2 * MIN_ROOT_BITS - 1));
}
PL_INLINE vf v_rsqrt(vf x) {
  vf large;
  const __mmask16 tiny = v_tiny(x, &large);
  if (__builtin_expect(!tiny, 1)) return v_rsqrt_not_tiny(x);
  return v_scaled(tiny, v_rsqrt_not_tiny(large), 0x1p75f);
}
PL_INLINE vf v_sqrt(vf x) {
  vf large;
  if (__builtin_expect(!_mm512_cmp_ps_mask(x, V_ALL(0x1p-100f), _CMP_LT_OQ), 1)) return v_root(x);
  const __mmask16 below = v_below_root(x);
  if (!below) return v_root(x); /* zeros and negative numbers */
  const __mmask16 normal = below & (__mmask16)~v_tiny(x, &large); /* multiply these by 2^150, too */
  const __m512i bits = _mm512_castps_si512(large);
  large = _mm512_castsi512_ps(_mm512_mask_add_epi32(bits, normal, bits, _mm512_set1_epi32(150 << 23)));
  return v_scaled(below, v_root(large), 0x1p-75f);
}
