/* 8-bit matrix products for i8mm: an instruction multiplies two rows by two columns, eight deep.
 *
 * A panels are int8, row after row; panels are packed[k / 8][column][k % 8], so that a vector has two columns.  A
 * vector of sums is a block of two rows by two columns; at the end, blocks become rows of four columns. */
#define NR 16
#define KR 8
enum { WIDE = 4, NARROW = 8, ROWS = NARROW };
#include "neon.h"

/* A single row, by dotprod: a vector has two lanes for the sum of each of two columns. */
PL_INLINE void product_row(int V, const pl_a_layout *layout, const int8_t *a, const int8_t *w, int32x4_t acc[4]) {
  int32x4_t half[8];
#pragma GCC unroll 8
  for (int c = 0; c < 2 * V; c++) half[c] = vdupq_n_s32(0);
  for (int line = layout->lines; line > 0; line--, a += layout->pitch)
    for (ptrdiff_t k = 0; k < layout->depth; k += 8) {
      const int8x16_t x = vreinterpretq_s8_s64(vld1q_dup_s64((const int64_t *)(a + k)));
#pragma GCC unroll 8
      for (int c = 0; c < 2 * V; c++, w += 16) half[c] = vdotq_s32(half[c], vld1q_s8(w), x);
    }
#pragma GCC unroll 4
  for (int v = 0; v < V; v++) acc[v] = vpaddq_s32(half[2 * v], half[2 * v + 1]);
}

/* acc += two rows x times two columns w.  gcc 12 copies a register for some uses of the intrinsic. */
#define DOT2(acc, x, w) __asm__("smmla %0.4s, %1.16b, %2.16b" : "+w"(acc) : "w"(x), "w"(w))
/* Multiplies the pairs of rows x by all columns, eight deep. */
#define MULTIPLY(x, w) \
  _Pragma("GCC unroll 8") for (int c = 0; c < 2 * V; c++, w += 16) { \
    const int8x16_t wv = vld1q_s8(w); \
    _Pragma("GCC unroll 4") for (int p = 0; p < R / 2; p++) DOT2(block[p][c], x[p], wv); \
  }
PL_INLINE void products(int small, int R, int V, int rows, const pl_a_layout *layout, const int8_t *a, const int8_t *w,
                        const int32_t *bias, const int32_t *terms, int32x4_t acc[ROWS][4]) {
  (void)small;
  const ptrdiff_t depth = layout->depth, pitch = layout->pitch;
  const int8_t *x[NARROW];
  int32x4_t block[NARROW / 2][8]; /* two rows by two columns each */
  if (R == 1) {
    product_row(V, layout, a, w, acc[0]);
#pragma GCC unroll 4
    for (int v = 0; v < V; v++) {
      if (bias) acc[0][v] = vaddq_s32(acc[0][v], vld1q_s32(bias + 4 * v));
      if (terms) acc[0][v] = vaddq_s32(acc[0][v], vdupq_n_s32(*terms));
    }
    return;
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; r++) x[r] = a + (r < rows ? r : rows - 1) * layout->step;
#pragma GCC unroll 4
  for (int p = 0; p < R / 2; p++)
#pragma GCC unroll 8
    for (int c = 0; c < 2 * V; c++)
      block[p][c] = bias ? vreinterpretq_s32_s64(vld1q_dup_s64((const int64_t *)(bias + 2 * c))) : vdupq_n_s32(0);
  if (terms) {
#pragma GCC unroll 4
    for (int p = 0; p < R / 2; p++) {
      const int32x4_t four = vcombine_s32(vdup_n_s32(terms[2 * p < rows ? 2 * p : 0]),
                                          vdup_n_s32(terms[2 * p + 1 < rows ? 2 * p + 1 : 0]));
#pragma GCC unroll 8
      for (int c = 0; c < 2 * V; c++) block[p][c] = vaddq_s32(block[p][c], four);
    }
  }
  for (int line = layout->lines; line > 0; line--) {
    ptrdiff_t k = 0;
    for (; k + 16 <= depth; k += 16) {
      int8x16_t first[NARROW / 2], second[NARROW / 2];
#pragma GCC unroll 4
      for (int p = 0; p < R / 2; p++) {
        const int64x2_t x0 = vreinterpretq_s64_s8(vld1q_s8(x[2 * p] + k));
        const int64x2_t x1 = vreinterpretq_s64_s8(vld1q_s8(x[2 * p + 1] + k));
        first[p] = vreinterpretq_s8_s64(vzip1q_s64(x0, x1));
        second[p] = vreinterpretq_s8_s64(vzip2q_s64(x0, x1));
      }
      MULTIPLY(first, w)
      MULTIPLY(second, w)
    }
    if (k < depth) {
      int8x16_t last[NARROW / 2];
#pragma GCC unroll 4
      for (int p = 0; p < R / 2; p++) last[p] = vcombine_s8(vld1_s8(x[2 * p] + k), vld1_s8(x[2 * p + 1] + k));
      MULTIPLY(last, w)
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; r++) x[r] += pitch;
  }
#pragma GCC unroll 4
  for (int p = 0; p < R / 2; p++)
#pragma GCC unroll 4
    for (int v = 0; v < V; v++) {
      const int64x2_t left = vreinterpretq_s64_s32(block[p][2 * v]), right = vreinterpretq_s64_s32(block[p][2 * v + 1]);
      acc[2 * p][v] = vreinterpretq_s32_s64(vzip1q_s64(left, right));
      acc[2 * p + 1][v] = vreinterpretq_s32_s64(vzip2q_s64(left, right));
    }
}

/* A byte holds a weight of each of two steps of eight.  Both are multiplied as 16 times their value, which keeps their
 * signs. */
PL_INLINE void row_of_nibbles(int V, ptrdiff_t size, const int8_t *a, const uint8_t *w, int32x4_t acc[4]) {
  const uint8x16_t upper = vdupq_n_u8(0xF0);
  int32x4_t half[8];
#pragma GCC unroll 8
  for (int c = 0; c < 2 * V; c++) half[c] = vdupq_n_s32(0);
  for (ptrdiff_t k = 0; k < size; k += 16) {
    const int8x16_t x0 = vreinterpretq_s8_s64(vld1q_dup_s64((const int64_t *)(a + k)));
    const int8x16_t x1 = vreinterpretq_s8_s64(vld1q_dup_s64((const int64_t *)(a + k + 8)));
#pragma GCC unroll 8
    for (int c = 0; c < 2 * V; c++, w += 16) {
      const uint8x16_t both = vld1q_u8(w);
      half[c] = vdotq_s32(half[c], vreinterpretq_s8_u8(vshlq_n_u8(both, 4)), x0);
      half[c] = vdotq_s32(half[c], vreinterpretq_s8_u8(vandq_u8(both, upper)), x1);
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < V; v++) acc[v] = vshrq_n_s32(vpaddq_s32(half[2 * v], half[2 * v + 1]), 4);
}

#include "gemm_neon.h"

PL_FILL(gemm_i8mm, s) {
  s->gemm_q8 = gemm_q8;
  s->gemm_s32 = gemm_s32;
  s->gemm_hybrid = gemm_hybrid;
  s->q8 = (pl_tile){.mr = NARROW, .nr = NR, .nv = 8, .kr = KR, .ka = KR, .bytes = 1, .real = 1, .any_n = 1,
                    .rows = WIDE};
  fill_blocks(s);
}
