/* 8-bit matrix products for dotprod: an instruction multiplies four bytes in each lane, of four columns. */
#define NR 16
enum { WIDE = 4, NARROW = 8, ROWS = NARROW };
#include "neon.h"

PL_INLINE void products(int small, int R, int V, int rows, const pl_a_layout *layout, const int8_t *a, const int8_t *w,
                        const int32_t *bias, const int32_t *row, int32x4_t acc[ROWS][4]) {
  (void)small;
  const ptrdiff_t depth = layout->depth, pitch = layout->pitch;
  const int8_t *x[NARROW];
#pragma GCC unroll 8
  for (int r = 0; r < R; r++) {
    x[r] = a + (r < rows ? r : rows - 1) * layout->step;
#pragma GCC unroll 4
    for (int v = 0; v < V; v++) acc[r][v] = bias ? vld1q_s32(bias + 4 * v) : vdupq_n_s32(0);
  }
  if (row) {
#pragma GCC unroll 8
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
      for (int v = 0; v < V; v++) acc[r][v] = vaddq_s32(acc[r][v], vdupq_n_s32(row[r < rows ? r : 0]));
  }
  for (int line = layout->lines; line > 0; line--) {
    ptrdiff_t k = 0;
    for (; k + 16 <= depth; k += 16) {
      int8x16_t xv[NARROW];
#pragma GCC unroll 8
      for (int r = 0; r < R; r++) xv[r] = vld1q_s8(x[r] + k);
#define STEP(i) \
  _Pragma("GCC unroll 4") for (int v = 0; v < V; v++, w += 16) { \
    const int8x16_t wv = vld1q_s8(w); \
    _Pragma("GCC unroll 8") for (int r = 0; r < R; r++) acc[r][v] = vdotq_laneq_s32(acc[r][v], wv, xv[r], i); \
  }
      STEP(0) STEP(1) STEP(2) STEP(3)
#undef STEP
    }
    for (; k < depth; k += 4) {
      int8x16_t xv[NARROW];
#pragma GCC unroll 8
      for (int r = 0; r < R; r++) xv[r] = vreinterpretq_s8_s32(vld1q_dup_s32((const int32_t *)(x[r] + k)));
#pragma GCC unroll 4
      for (int v = 0; v < V; v++, w += 16) {
        const int8x16_t wv = vld1q_s8(w);
#pragma GCC unroll 8
        for (int r = 0; r < R; r++) acc[r][v] = vdotq_s32(acc[r][v], wv, xv[r]);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; r++) x[r] += pitch;
  }
}

#include "gemm_neon.h"

PL_FILL(gemm_dotprod, s) {
  s->gemm_q8 = gemm_q8;
  s->gemm_s32 = gemm_s32;
  s->gemm_hybrid = gemm_hybrid;
  s->q8 = (pl_tile){NARROW, NR, 8, 4, 4, 1, 0, NULL, 0, 0};
}
