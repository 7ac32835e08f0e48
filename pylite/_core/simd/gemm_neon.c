/* 8-bit and float matrix products and 8-bit depthwise convolutions for NEON, 32 and 64 bit: products of 16-bit lanes. */
#include "simd.h"
#include <arm_neon.h>
#include <string.h>

#define FORCED static inline __attribute__((always_inline))
#if defined(__aarch64__)
enum { ROWS = 6 };
#else
enum { ROWS = 4 }; /* half as many registers */
#endif
enum { NR = 8 };

/* Strips are int16. */
static void strip_q8(int rows, int segments, ptrdiff_t length, const uint8_t *const *src, int flip, void *strip,
                     ptrdiff_t depth) {
  const uint8x8_t mask = vdup_n_u8((uint8_t)flip);
  for (int r = 0; r < rows; r++) {
    int16_t *to = (int16_t *)strip + r * depth;
    ptrdiff_t k = 0;
    for (int s = 0; s < segments; s++, k += length) {
      const uint8_t *from = *src++;
      ptrdiff_t i = 0;
      for (; i + 8 <= length; i += 8)
        vst1q_s16(to + k + i, vmovl_s8(vreinterpret_s8_u8(veor_u8(vld1_u8(from + i), mask))));
      for (; i < length; i++) to[k + i] = (int8_t)(from[i] ^ flip);
    }
    for (; k < depth; k++) to[k] = 0;
  }
}

/* MBQM32 of 4 accumulators: the rounding shift rounds halves up, so negatives are lowered by one before. */
FORCED int32x4_t requantize(int32x4_t acc, const pl_columns *q, ptrdiff_t j) {
  if (q->left) acc = vshlq_s32(acc, vld1q_s32(q->left + j));
  int32x4_t v = vqrdmulhq_s32(acc, vld1q_s32(q->mult + j));
  int32x4_t shift = vnegq_s32(vld1q_s32(q->right + j));
  return vrshlq_s32(vqaddq_s32(v, vshrq_n_s32(vandq_s32(v, shift), 31)), shift);
}

FORCED void store8(uint8_t *y, int32x4_t v0, int32x4_t v1, const pl_columns *q, ptrdiff_t n) {
  int16x8_t v = vcombine_s16(vqmovn_s32(v0), vqmovn_s32(v1));
  v = vqaddq_s16(v, vdupq_n_s16((int16_t)q->zero_point));
  int8x8_t b = vmax_s8(vmin_s8(vqmovn_s16(v), vdup_n_s8((int8_t)q->high)), vdup_n_s8((int8_t)q->low));
  uint8x8_t u = veor_u8(vreinterpret_u8_s8(b), vdup_n_u8((uint8_t)q->flip));
  if (n >= 8) {
    vst1_u8(y, u);
  } else {
    uint8_t buffer[8];
    vst1_u8(buffer, u);
    memcpy(y, buffer, n);
  }
}

/* acc[r] += R rows of the strip times 8 columns; depth is a multiple of 4 */
FORCED void multiply(int R, const pl_rows *shape, const int16_t *a, const int8_t *w, int32x4_t acc[ROWS][2]) {
  const ptrdiff_t depth = shape->depth, step = shape->step, pitch = shape->pitch;
  for (int line = shape->lines; line > 0; line--, a += pitch)
    for (ptrdiff_t k = 0; k < depth; k += 4, w += 4 * NR) {
      int16x4_t x[ROWS];
#pragma GCC unroll 8
      for (int r = 0; r < R; r++) x[r] = vld1_s16(a + r * step + k);
#define STEP(i) { \
      int16x8_t wv = vmovl_s8(vld1_s8(w + i * NR)); \
      _Pragma("GCC unroll 8") for (int r = 0; r < R; r++) { \
        acc[r][0] = vmlal_lane_s16(acc[r][0], vget_low_s16(wv), x[r], i); \
        acc[r][1] = vmlal_lane_s16(acc[r][1], vget_high_s16(wv), x[r], i); \
      } }
      STEP(0) STEP(1) STEP(2) STEP(3)
#undef STEP
    }
}

FORCED void tile_q8(int R, int n, const pl_rows *shape, const int16_t *a, const int8_t *w, const int32_t *row,
                    const pl_columns *q, ptrdiff_t j, uint8_t *y, ptrdiff_t ldy) {
  int32x4_t acc[ROWS][2];
  const pl_columns own = *q; /* y may not be taken to overlap it */
#pragma GCC unroll 8
  for (int r = 0; r < R; r++) {
    int32x4_t term = vdupq_n_s32(row ? row[r] : 0);
    acc[r][0] = vaddq_s32(vld1q_s32(q->bias + j), term);
    acc[r][1] = vaddq_s32(vld1q_s32(q->bias + j + 4), term);
  }
  multiply(R, shape, a, w, acc);
#pragma GCC unroll 8
  for (int r = 0; r < R; r++)
    store8(y + r * ldy, requantize(acc[r][0], &own, j), requantize(acc[r][1], &own, j + 4), &own, n);
}

FORCED void tile_s32(int R, int n, const pl_rows *shape, const int16_t *a, const int8_t *w, int32_t *y, ptrdiff_t ldy) {
  int32x4_t acc[ROWS][2];
#pragma GCC unroll 8
  for (int r = 0; r < R; r++) acc[r][0] = acc[r][1] = vdupq_n_s32(0);
  multiply(R, shape, a, w, acc);
  for (int r = 0; r < R; r++) {
    int32_t sums[NR];
    vst1q_s32(sums, acc[r][0]);
    vst1q_s32(sums + 4, acc[r][1]);
    for (int i = 0; i < n; i++) y[r * ldy + i] += sums[i];
  }
}

#define PARTS(TILE) \
  for (int r = 0; r < rows;) { \
    const int left = rows - r; \
    const int16_t *part = (const int16_t *)strip + r * shape->step; \
    if (left >= ROWS) { TILE(ROWS); r += ROWS; } \
    else if (left >= 2) { TILE(2); r += 2; } \
    else { TILE(1); r++; } \
  }

static void gemm_q8(int rows, int n, const pl_rows *shape, const void *strip, const void *panel, const int32_t *row,
                    const pl_columns *q, ptrdiff_t j, uint8_t *y, ptrdiff_t ldy) {
#define TILE(R) tile_q8(R, n, shape, part, panel, row ? row + r : NULL, q, j, y + r * ldy, ldy)
  PARTS(TILE)
#undef TILE
}

static void gemm_s32(int rows, int n, const pl_rows *shape, const void *strip, const void *panel, int32_t *acc,
                     ptrdiff_t lda) {
#define TILE(R) tile_s32(R, n, shape, part, panel, acc + r * lda, lda)
  PARTS(TILE)
#undef TILE
}

/* ---- depthwise: blocks of 8 channels, weights of 16 bits (less their zero point) ---- */
static void depthwise_q8(const pl_dw_window *g, int flip, int w_zero, const void *w, const pl_columns *q, uint8_t *y) {
  const uint8_t *p[PL_MAX_TAPS];
  const int taps = g->fh * g->fw;
  const ptrdiff_t blocks = (g->c + NR - 1) / NR;
  const uint8x8_t mask = vdup_n_u8((uint8_t)flip);
  const pl_columns own = *q;
  uint8_t buffer[8] = {0};
  (void)w_zero;
  for (ptrdiff_t at = 0; at < g->pixels; at++, y += g->c) {
    pl_taps(g, at, 1, p);
    for (ptrdiff_t b = 0; b < blocks; b++) {
      const ptrdiff_t c = pl_block_start(b, NR, g->c), j = b * NR;
      const int16_t *wb = (const int16_t *)w + b * taps * NR;
      int32x4_t acc0 = vld1q_s32(own.bias + j), acc1 = vld1q_s32(own.bias + j + 4);
      for (int t = 0; t < taps; t++, wb += NR) {
        const uint8_t *from = g->c < NR ? memcpy(buffer, p[t], g->c) : p[t] + c;
        int16x8_t x = vmovl_s8(vreinterpret_s8_u8(veor_u8(vld1_u8(from), mask))), wv = vld1q_s16(wb);
        acc0 = vmlal_s16(acc0, vget_low_s16(x), vget_low_s16(wv));
        acc1 = vmlal_s16(acc1, vget_high_s16(x), vget_high_s16(wv));
      }
      store8(y + c, requantize(acc0, &own, j), requantize(acc1, &own, j + 4), &own, g->c);
    }
  }
}

/* ---- float ---- */
#if defined(__aarch64__)
#define VECTOR float32x4_t
enum { LANES = 4, MR = 8, NV = 2 };
#define LOAD vld1q_f32
#define STORE vst1q_f32
#define SPLAT vdupq_n_f32
#define MULTIPLY_ADD(acc, a, b) vfmaq_f32(acc, a, b)
#define ADD vaddq_f32
#define MIN vminq_f32
#define MAX vmaxq_f32
#include "gemm_f32.h"
#include "depthwise_f32.h"
#endif

void pl_fill_gemm_neon(pl_slots *s);
void pl_fill_gemm_neon(pl_slots *s) {
  s->strip_q8 = strip_q8;
  s->gemm_q8 = gemm_q8;
  s->gemm_s32 = gemm_s32;
  s->depthwise_q8 = depthwise_q8;
  s->q8 = (pl_tile){ROWS, NR, NR, 1, 4, 2, 0, NULL, 0};
  s->dw8 = (pl_tile){1, NR, NR, 1, 1, 2, 0, NULL, 0};
#if defined(__aarch64__)
  s->gemm_f32 = gemm_f32;
  s->depthwise_f32 = depthwise_f32;
  s->f32 = (pl_tile){MR, NV * LANES, LANES, 1, 1, sizeof(float), 0, NULL, 0};
#endif
}
