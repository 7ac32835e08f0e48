/* What the 8-bit micro-kernels for NEON, dotprod and i8mm share: strips of bytes, and the way from sums to bytes.
 *
 * Before including gemm_neon.h, which makes the slots, a file defines products(). */
#ifndef PYLITE_NEON_H
#define PYLITE_NEON_H
#include "simd.h"
#include <arm_neon.h>
#include <string.h>

#define FORCED static inline __attribute__((always_inline))

/* What requantize() needs to know of 4 columns. */
typedef struct { int32x4_t mult, shift; } scaling;
FORCED scaling scaling_of(const pl_columns *q, ptrdiff_t j) {
  return (scaling){vld1q_s32(q->mult + j), vnegq_s32(vld1q_s32(q->right + j))};
}
/* MBQM32 of 4 accumulators below 2^30 in size: the rounding shift rounds halves up, so negatives are lowered by one
 * before. */
FORCED int32x4_t requantize(int32x4_t acc, const scaling *c) {
  int32x4_t v = vqrdmulhq_s32(acc, c->mult);
  return vrshlq_s32(vsraq_n_s32(v, vandq_s32(v, c->shift), 31), c->shift);
}
/* The same for any, which may be shifted left. */
FORCED int32x4_t requantize_any(int32x4_t acc, const scaling *c, const int32_t *left) {
  int32x4_t v = vqrdmulhq_s32(vshlq_s32(acc, vld1q_s32(left)), c->mult);
  return vrshlq_s32(vqaddq_s32(v, vshrq_n_s32(vandq_s32(v, c->shift), 31)), c->shift);
}

typedef struct { int16x8_t zero_point; int8x8_t low, high; uint8x8_t flip; } ends;
FORCED ends ends_of(const pl_columns *q) {
  return (ends){vdupq_n_s16((int16_t)q->zero_point), vdup_n_s8((int8_t)q->low), vdup_n_s8((int8_t)q->high),
                vdup_n_u8((uint8_t)q->flip)};
}
/* Two vectors of results to 8 bytes. */
FORCED uint8x8_t narrow(int32x4_t v0, int32x4_t v1, const ends *e) {
  int16x8_t v = vqaddq_s16(vcombine_s16(vqmovn_s32(v0), vqmovn_s32(v1)), e->zero_point);
  return veor_u8(vreinterpret_u8_s8(vmax_s8(vmin_s8(vqmovn_s16(v), e->high), e->low)), e->flip);
}

/* The first n <= 8 bytes. */
FORCED void store(uint8_t *y, uint8x8_t v, ptrdiff_t n) {
  if (__builtin_expect(n >= 8, 1)) {
    vst1_u8(y, v);
    return;
  }
  if (n & 4) {
    vst1_lane_u32((uint32_t *)y, vreinterpret_u32_u8(v), 0);
    v = vext_u8(v, v, 4);
    y += 4;
  }
  if (n & 2) {
    vst1_lane_u16((uint16_t *)y, vreinterpret_u16_u8(v), 0);
    v = vext_u8(v, v, 2);
    y += 2;
  }
  if (n & 1) vst1_lane_u8(y, v, 0);
}
#endif
