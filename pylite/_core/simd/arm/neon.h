/* Shared by the 8-bit micro-kernels for NEON, dotprod and i8mm: accumulators to bytes.
 *
 * requantize() or scale_f64() round accumulators, narrow() clamps the results and turns them into bytes, store_half()
 * or store() write these.  Tiles are R rows by V vectors of four columns, acc[row][vector]. */
#ifndef PYLITE_NEON_H
#define PYLITE_NEON_H
#include "rounding.h"
#include "simd.h"
#include <arm_neon.h>
#include <math.h>
#include <string.h>

/* The parameters of requantize() for 4 columns; shift: to the right, as a negative number. */
typedef struct { int32x4_t mult, shift; } scaling;
PL_INLINE scaling scaling_of(const pl_columns *q, ptrdiff_t j) {
  return (scaling){vld1q_s32(q->mult + j), vnegq_s32(vld1q_s32(q->right + j))};
}
/* MBQM32 of a tile, in REQUANTIZE_STEPS steps.  Each step is done for all vectors before the next one, so that in-order
 * cores do not wait for results; callers may put other work between steps.  The rounding shift rounds halves up, so
 * negative numbers are lowered by one before, unless all of them are clamped (`relu`).  left: of pl_columns, for these
 * columns.  If it is NULL, lowering cannot overflow, and every column shifts to the right. */
enum { REQUANTIZE_STEPS = 3 };
PL_INLINE void requantize_step(int step, int R, int V, int32x4_t acc[][4], const scaling *c, int relu,
                               const int32_t *left) {
#define EACH \
  _Pragma("GCC unroll 4") for (int r = 0; r < R; r++) \
    _Pragma("GCC unroll 4") for (int v = 0; v < V; v++)
  if (step == 0) {
    if (left)
      EACH acc[r][v] = vshlq_s32(acc[r][v], vld1q_s32(left + 4 * v));
    EACH acc[r][v] = vqrdmulhq_s32(acc[r][v], c[v].mult);
  } else if (step == 1) {
    if (left) EACH acc[r][v] = vqaddq_s32(acc[r][v], vshrq_n_s32(vandq_s32(acc[r][v], c[v].shift), 31));
    else if (!relu) EACH acc[r][v] = vsraq_n_s32(acc[r][v], acc[r][v], 31);
  } else {
    EACH acc[r][v] = vrshlq_s32(acc[r][v], c[v].shift);
  }
#undef EACH
}
PL_INLINE void requantize(int R, int V, int32x4_t acc[][4], const scaling *c, int relu, const int32_t *left) {
#pragma GCC unroll 3
  for (int step = 0; step < REQUANTIZE_STEPS; step++) requantize_step(step, R, V, acc, c, relu, left);
}

#if defined(__aarch64__)
/* The float64 rule for a tile; scales (`real`) are below 1, so results fit 32 bits. */
PL_INLINE void scale_f64(int R, int V, int32x4_t acc[][4], const double *real) {
#pragma GCC unroll 4
  for (int v = 0; v < V; v++) {
    const float64x2_t low = vld1q_f64(real + 4 * v), high = vld1q_f64(real + 4 * v + 2);
    float64x2_t a[8], b[8];
#define EACH _Pragma("GCC unroll 8") for (int r = 0; r < R; r++)
    EACH a[r] = vcvtq_f64_s64(vmovl_s32(vget_low_s32(acc[r][v]))), b[r] = vcvtq_f64_s64(vmovl_high_s32(acc[r][v]));
    EACH a[r] = vmulq_f64(a[r], low), b[r] = vmulq_f64(b[r], high);
    EACH acc[r][v] = vuzp1q_s32(vreinterpretq_s32_s64(vcvtaq_s64_f64(a[r])),
                                vreinterpretq_s32_s64(vcvtaq_s64_f64(b[r])));
#undef EACH
  }
}
#endif

/* How results become bytes: of pl_columns, in all lanes.  relu: no result is below the zero point, as after a RELU. */
typedef struct { int16x8_t zero_point; int8x16_t low, high; uint8x16_t flip; int relu; } ends;
PL_INLINE ends ends_of(const pl_columns *q) {
  return (ends){vdupq_n_s16((int16_t)q->zero_point), vdupq_n_s8((int8_t)q->low), vdupq_n_s8((int8_t)q->high),
                vdupq_n_u8((uint8_t)q->flip), q->low >= q->zero_point};
}
/* Narrows a tile of results to bytes, row after row, in NARROW_STEPS steps; if they fill half of a vector, the rest is
 * 0. */
enum { NARROW_STEPS = 6 };
typedef struct { int16x4_t low[8]; int16x8_t half[8]; uint8x16_t bytes[4]; } narrowed;
PL_INLINE void narrow_step(int step, int R, int V, int32x4_t acc[][4], const ends *e, narrowed *to) {
  const int n = R * V / 2, pairs = (n + 1) / 2;
#define EACH(n) _Pragma("GCC unroll 8") for (int i = 0; i < n; i++)
#define BYTES(f, other) to->bytes[i] = vreinterpretq_u8_s8(f(vreinterpretq_s8_u8(to->bytes[i]), other))
  if (step == 0)
    EACH(n) to->low[i] = vqmovn_s32(acc[2 * i / V][2 * i % V]);
  else if (step == 1)
#if defined(__aarch64__)
    EACH(n) to->half[i] = vqmovn_high_s32(to->low[i], acc[2 * i / V][2 * i % V + 1]);
#else
    EACH(n) to->half[i] = vcombine_s16(to->low[i], vqmovn_s32(acc[2 * i / V][2 * i % V + 1]));
#endif
  else if (step == 2)
    EACH(n) to->half[i] = vqaddq_s16(to->half[i], e->zero_point);
  else if (step == 3)
    EACH(pairs)
      to->bytes[i] = vreinterpretq_u8_s8(vcombine_s8(
          vqmovn_s16(to->half[2 * i]), 2 * i + 1 < n ? vqmovn_s16(to->half[2 * i + 1]) : vdup_n_s8(0)));
  else if (step == 4)
    EACH(pairs) BYTES(vminq_s8, e->high);
  else
    EACH(pairs) {
      BYTES(vmaxq_s8, e->low);
      to->bytes[i] = veorq_u8(to->bytes[i], e->flip);
    }
#undef BYTES
#undef EACH
}
PL_INLINE void narrow(int R, int V, int32x4_t acc[][4], const ends *e, uint8x16_t bytes[]) {
  narrowed to;
#pragma GCC unroll 6
  for (int step = 0; step < NARROW_STEPS; step++) narrow_step(step, R, V, acc, e, &to);
#pragma GCC unroll 4
  for (int i = 0; i < (R * V + 3) / 4; i++) bytes[i] = to.bytes[i];
}
/* Stores eight bytes: the i-th half of these vectors. */
PL_INLINE void store_half(uint8_t *y, const uint8x16_t bytes[], int i) {
  vst1_u8(y, i % 2 ? vget_high_u8(bytes[i / 2]) : vget_low_u8(bytes[i / 2]));
}

/* Stores the first n <= 8 bytes. */
PL_INLINE void store(uint8_t *y, uint8x8_t v, ptrdiff_t n) {
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
