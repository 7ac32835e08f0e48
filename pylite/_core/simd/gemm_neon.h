/* 8-bit matrix products for NEON, dotprod and i8mm, whose A panels are int8.
 *
 * Before including it include neon.h and define NR (columns of a panel, 8 or 16), WIDE and NARROW (rows of a tile with
 * 16 columns and with 8), ROWS (the most rows of a tile) and products(small, R, V, rows, layout, a, w, bias, row, acc),
 * which sets acc[r][v] to R rows times V vectors of columns, plus bias[4 v ..] and row[r], either of which may be NULL.
 * Rows from `rows` on are not used; small: no weight is -128. */

/* What the columns of a panel need in the end. */
typedef struct { scaling scaling[4]; ends ends; const int32_t *bias, *left; } finishing;
PL_INLINE finishing finishing_of(int V, const pl_columns *q, ptrdiff_t j) {
  finishing f = {.ends = ends_of(q), .bias = q->bias + j, .left = q->left ? q->left + j : NULL};
#pragma GCC unroll 4
  for (int v = 0; v < V; v++) f.scaling[v] = scaling_of(q, j + 4 * v);
  return f;
}

PL_INLINE void tile_q8(int R, int V, int small, int shifts, int rows, int n, const pl_a_layout *layout, const int8_t *a,
                       const int8_t *w, const int32_t *row, const finishing *f, uint8_t *y, ptrdiff_t ldy) {
  int32x4_t acc[ROWS][4];
  uint8x16_t bytes[ROWS];
  const int together = R < 8 / V ? R : 8 / V;
  products(small, R, V, rows, layout, a, w, f->bias, row, acc);
#pragma GCC unroll 8
  for (int r = 0; r < R; r += together) {
    if (f->ends.relu && !shifts) requantize(together, V, acc + r, f->scaling, 1, NULL);
    else requantize(together, V, acc + r, f->scaling, 0, shifts ? f->left : NULL);
    narrow(together, V, acc + r, &f->ends, bytes + r * V / 4);
  }
  if (__builtin_expect(rows >= R && n == 4 * V, 1)) {
#pragma GCC unroll 8
    for (int r = 0; r < R; r++) {
      if (V == 4) vst1q_u8(y + r * ldy, bytes[r]);
      else store_half(y + r * ldy, bytes, r);
    }
    return;
  }
  uint8_t out[ROWS * 16] = {0};
#pragma GCC unroll 8
  for (int i = 0; i < (R * V + 3) / 4; i++) vst1q_u8(out + 16 * i, bytes[i]);
  for (int r = 0; r < R && r < rows; r++) {
    store(y + r * ldy, vld1_u8(out + 4 * V * r), n);
    if (n > 8) store(y + r * ldy + 8, vld1_u8(out + 4 * V * r + 8), n - 8);
  }
}

PL_INLINE void tile_s32(int R, int V, int rows, int n, const pl_a_layout *layout, const int8_t *a, const int8_t *w,
                        int32_t *y, ptrdiff_t ldy) {
  int32x4_t acc[ROWS][4];
  products(0, R, V, rows, layout, a, w, NULL, NULL, acc);
#pragma GCC unroll 8
  for (int r = 0; r < R; r++)
    if (r < rows) {
      if (n == 4 * V) {
#pragma GCC unroll 4
        for (int v = 0; v < V; v++) {
          int32_t *to = y + r * ldy + 4 * v;
          vst1q_s32(to, vaddq_s32(vld1q_s32(to), acc[r][v]));
        }
      } else {
        int32_t sums[16] = {0};
#pragma GCC unroll 4
        for (int v = 0; v < V; v++) vst1q_s32(sums + 4 * v, acc[r][v]);
        for (int i = 0; i < n && i < 4 * V; i++) y[r * ldy + i] += sums[i];
      }
    }
}

#include "hybrid_neon.h"

#define PARTS(TILE, most, ...) \
  for (int r = 0; r < rows;) { \
    const int left = rows - r; \
    const int8_t *part = (const int8_t *)a_panel + r * layout->step; \
    if (left == 1) { TILE(1, __VA_ARGS__); r++; } \
    else { TILE(most, __VA_ARGS__); r += most; } \
  }
#define Q8(R, V, small, shifts) \
  tile_q8(R, V, small, shifts, left, n, layout, part, panel, row ? row + r : NULL, &f, y + r * ldy, ldy)
#define S32(R, V) tile_s32(R, V, left, n, layout, part, panel, acc + r * lda, lda)
#define HYBRID(R, V, small, usual) \
  tile_hybrid(R, V, small, usual, left, n, layout, part, panel, f, r, y + r * ldy, ldy)

#define Q8_ARGUMENTS \
  int rows, int n, const pl_a_layout *layout, const void *a_panel, const void *panel, const int32_t *row, \
    const pl_columns *q, ptrdiff_t j, uint8_t *y, ptrdiff_t ldy
#define S32_ARGUMENTS \
  int rows, int n, const pl_a_layout *layout, const void *a_panel, const void *panel, int32_t *acc, ptrdiff_t lda
#define HYBRID_ARGUMENTS \
  int rows, int n, const pl_a_layout *layout, const void *a_panel, const void *panel, \
    const hybrid_finishing *f, float *y, ptrdiff_t ldy
#define Q8_KERNEL(name, most, V, small, shifts) \
  static __attribute__((noinline)) void name(Q8_ARGUMENTS) { \
    const finishing f = finishing_of(V, q, j); \
    PARTS(Q8, most, V, small, shifts) \
  }
#define HYBRID_KERNEL(name, most, V, small, usual) \
  static __attribute__((noinline)) void name(HYBRID_ARGUMENTS) { PARTS(HYBRID, most, V, small, usual) }
/* A function for each width: gcc keeps the accumulators in registers. */
#if NR == 16
Q8_KERNEL(q8_wide, WIDE, 4, 0, 0)
Q8_KERNEL(q8_wide_shifts, WIDE, 4, 0, 1)
static __attribute__((noinline)) void s32_wide(S32_ARGUMENTS) { PARTS(S32, WIDE, 4) }
HYBRID_KERNEL(hybrid_wide, WIDE, 4, 0, 0)
HYBRID_KERNEL(hybrid_wide_usual, WIDE, 4, 0, 1)
#define IF_WIDE(call) \
  if (n > 8) { \
    call; \
    return; \
  }
#else
Q8_KERNEL(q8_small, ROWS, 2, 1, 0)
#define IF_WIDE(call)
#endif
Q8_KERNEL(q8_narrow, NARROW, 2, 0, 0)
Q8_KERNEL(q8_narrow_shifts, NARROW, 2, 0, 1)
HYBRID_KERNEL(hybrid_narrow, NARROW, 2, 0, 0)
#if NR == 8
HYBRID_KERNEL(hybrid_small, NARROW, 2, 1, 0)
HYBRID_KERNEL(hybrid_small_usual, NARROW, 2, 1, 1)
#endif

static void gemm_q8(Q8_ARGUMENTS) {
#define CALL(name) name(rows, n, layout, a_panel, panel, row, q, j, y, ldy)
  if (__builtin_expect(q->left != NULL, 0)) {
    IF_WIDE(CALL(q8_wide_shifts))
    CALL(q8_narrow_shifts);
    return;
  }
  IF_WIDE(CALL(q8_wide))
#if NR == 8
  if (q->fit && layout->depth) {
    CALL(q8_small);
    return;
  }
#endif
  CALL(q8_narrow);
#undef CALL
}
static void gemm_s32(S32_ARGUMENTS) {
  IF_WIDE(s32_wide(rows, n, layout, a_panel, panel, acc, lda))
  PARTS(S32, NARROW, 2)
}
static void gemm_hybrid(const pl_slots *own, int rows, int n, const pl_a_layout *layout, const void *a_panel,
                        const void *panel, const int32_t *terms, const float *row_scales, const pl_hybrid *h,
                        ptrdiff_t j, float *y, ptrdiff_t ldy) {
  columns_copy copy;
  const hybrid_finishing f = hybrid_finishing_of(h, n, j, terms, row_scales, &copy);
  (void)own;
#define CALL(name) name(rows, n, layout, a_panel, panel, &f, y, ldy)
  const int usual = f.bias && !f.column_first;
#if NR == 8
  if (h->fit && layout->depth) {
    if (usual) CALL(hybrid_small_usual);
    else CALL(hybrid_small);
    return;
  }
#else
  if (usual) IF_WIDE(CALL(hybrid_wide_usual))
  IF_WIDE(CALL(hybrid_wide))
#endif
  CALL(hybrid_narrow);
#undef CALL
}
