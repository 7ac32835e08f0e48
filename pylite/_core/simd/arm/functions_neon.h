/* functions_vector.h with vectors of four floats: NEON. */
#if defined(__aarch64__)
#include "arm/addend_neon.h"
#else
#include <arm_neon.h>
#endif

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
#define V_NEGATIVE(x, a, b) V_BELOW(x, 0.0f, a, b)
/* x, at least 0 and at most the positive bound, by comparing bits: a Cortex-A72 takes twice as long for floats.  NaN
 * becomes a number. */
PL_INLINE vf v_gate(vf x, float bound) {
  const int32x4_t positive = vmaxq_s32(vreinterpretq_s32_f32(x), vdupq_n_s32(0));
  return vreinterpretq_f32_s32(vminq_s32(positive, vreinterpretq_s32_f32(vdupq_n_f32(bound))));
}
#define V_GATE v_gate
PL_INLINE vf v_or_ps(vf a, vf b) {
  return vreinterpretq_f32_u32(vorrq_u32(vreinterpretq_u32_f32(a), vreinterpretq_u32_f32(b)));
}
/* a / b by two steps of Newton's method from an 8-bit estimate: a division takes as long as thirty products. */
PL_INLINE vf v_div_ps(vf a, vf b) {
  vf r = vrecpeq_f32(b);
  r = vmulq_f32(r, vrecpsq_f32(b, r));
  return vmulq_f32(a, vmulq_f32(r, vrecpsq_f32(b, r)));
}
/* a / (1 + e); e if x < -9 */
PL_INLINE vf v_over_sum(vf x, vf a, vf e) { return V_BELOW(x, -9.0f, e, v_div_ps(a, vaddq_f32(V_ALL(1.0f), e))); }
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
/* Are all numbers positive and normal? */
PL_INLINE int v_normal(const vf v[4]) {
  uint32x4_t most = vdupq_n_u32(0); /* the largest bits, less the bits of the smallest normal number */
  for (int k = 0; k < 4; k++) most = vmaxq_u32(most, vsubq_u32(vreinterpretq_u32_f32(v[k]), vdupq_n_u32(0x00800000)));
#if defined(__aarch64__)
  return vmaxvq_u32(most) < 0x7F000000;
#else
  const uint32x2_t two = vpmax_u32(vget_low_u32(most), vget_high_u32(most));
  return vget_lane_u32(vpmax_u32(two, two), 0) < 0x7F000000;
#endif
}
#define V_POWER(t) vreinterpretq_f32_s32(vshlq_n_s32(vreinterpretq_s32_f32(t), 23))
