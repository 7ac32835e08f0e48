/* 8-bit matrix products for NEON, dotprod and i8mm, whose A panels are int8.
 *
 * Defines gemm_q8, gemm_s32, gemm_hybrid and gemm_blocks; fill_blocks() writes the last into a dispatch table.
 *
 * Before including it include neon.h and define
 *   NR: columns of a panel: 8 or 16.  The last panel may have 8 of 16;
 *   KR: kr of the panels, see pl_tile;
 *   NARROW: rows of a tile with 8 columns;
 *   WIDE: rows of a tile with 16 columns, if NR is 16;
 *   ROWS: the larger of both;
 *   products(small, R, V, rows, layout, a, w, bias, terms, acc): sets acc[r][v] to the products of R rows of a, of
 *     which `rows` are in use, and V vectors of four columns of w, plus bias[4 v ..] and terms[r]; either may be NULL.
 *     small: no weight is -128;
 *   row_of_nibbles(V, size, a, w, acc): sets acc[v] to the products of a row of `size` numbers and V vectors of
 *     columns, whose weights have 4 bits, see pl_tile;
 *   PRODUCTS_OF_TERMS(R, V): optional: 1 if products_of_terms(rows, layout, a, w, sums, factors, acc) computes tiles of
 *     this size, with sums[4 v ..] factors[r] added. */

/* How sums become bytes, see pl_columns: by MBQM32 without or with left shifts, or by the float64 rule. */
enum { USUAL, SHIFTS, REAL };
/* The parameters that turn the sums of a panel's columns into bytes. */
typedef struct { scaling scaling[4]; ends ends; const int32_t *bias, *left; const double *real; } finishing;
PL_INLINE finishing finishing_of(int V, int rule, const pl_columns *q, ptrdiff_t j) {
  finishing f = {.ends = ends_of(q), .bias = q->bias + j, .left = q->left ? q->left + j : NULL};
  if (rule == REAL) {
    f.real = q->real + j;
    return f;
  }
#pragma GCC unroll 4
  for (int v = 0; v < V; v++) f.scaling[v] = scaling_of(q, j + 4 * v);
  return f;
}

/* Computes R rows of a, of which `rows` are in use, times n columns of V vectors, and writes the bytes to y. */
PL_INLINE void tile_q8(int R, int V, int small, int rule, int rows, int n, const pl_a_layout *layout, const int8_t *a,
                       const int8_t *w, const int32_t *terms, const finishing *f, uint8_t *y, ptrdiff_t ldy) {
  int32x4_t acc[ROWS][4];
  uint8x16_t bytes[ROWS];
  const int together = R < 8 / V ? R : 8 / V; /* rows that are requantized at once */
  products(small, R, V, rows, layout, a, w, f->bias, terms, acc);
#pragma GCC unroll 8
  for (int r = 0; r < R; r += together) {
#if defined(__aarch64__)
    if (rule == REAL) scale_f64(together, V, acc + r, f->real);
    else
#endif
    if (f->ends.relu && rule == USUAL) requantize(together, V, acc + r, f->scaling, 1, NULL);
    else requantize(together, V, acc + r, f->scaling, 0, rule == SHIFTS ? f->left : NULL);
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

/* The same, adding the sums to y. */
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

/* Computes tiles of `most` rows, and a last one of a single row by `last`: a separate function, because the other
 * tiles need most registers. */
#define PARTS(TILE, last, most, ...) \
  int r = 0; \
  for (; rows - r > 1; r += most) { \
    const int left = rows - r; \
    const int8_t *part = (const int8_t *)a_panel + r * layout->step; \
    TILE(most, __VA_ARGS__); \
  } \
  if (rows - r == 1) last;
#define Q8(R, V, small, rule) \
  tile_q8(R, V, small, rule, left, n, layout, part, panel, terms ? terms + r : NULL, &f, y + r * ldy, ldy)
#define S32(R, V) tile_s32(R, V, left, n, layout, part, panel, acc + r * lda, lda)
#define HYBRID(R, V, small, usual) \
  tile_hybrid(R, V, small, usual, left, n, layout, part, panel, f, r, y + r * ldy, ldy)

#define Q8_ARGUMENTS \
  int rows, int n, const pl_a_layout *layout, const void *a_panel, const void *panel, const int32_t *terms, \
    const pl_columns *q, ptrdiff_t j, uint8_t *y, ptrdiff_t ldy
#define S32_ARGUMENTS \
  int rows, int n, const pl_a_layout *layout, const void *a_panel, const void *panel, int32_t *acc, ptrdiff_t lda
#define HYBRID_ARGUMENTS \
  int rows, int n, const pl_a_layout *layout, const void *a_panel, const void *panel, \
    const hybrid_finishing *f, float *y, ptrdiff_t ldy
/* name(): rows of one panel; name_row(): a single row, which continues with the next panels while these have the same
 * width and, for `small`, no weight of -128; returns the number of columns done. */
#define NEXT_PANEL (panel = (const int8_t *)panel + NR * layout->lines * layout->depth)
#define Q8_KERNEL(name, most, V, is_small, rule) \
  static __attribute__((noinline)) int name##_row(Q8_ARGUMENTS) { \
    const ptrdiff_t first = j; \
    (void)rows; \
    do { \
      const finishing f = finishing_of(V, rule, q, j); \
      tile_q8(1, V, is_small, rule, 1, n < 4 * V ? n : 4 * V, layout, a_panel, panel, terms, &f, y, ldy); \
      n -= 4 * V, j += 4 * V, y += 4 * V; \
      NEXT_PANEL; \
    } while (V == NR / 4 && n > NR - 8 && (!is_small || q->small[j / NR])); \
    return (int)(j - first); \
  } \
  static __attribute__((noinline)) void name(Q8_ARGUMENTS) { \
    const finishing f = finishing_of(V, rule, q, j); \
    PARTS(Q8, name##_row(1, n, layout, (const int8_t *)a_panel + r * layout->step, panel, terms ? terms + r : NULL, q, \
                         j, y + r * ldy, ldy), most, V, is_small, rule) \
  }
#define S32_KERNEL(name, most, V) \
  static __attribute__((noinline)) int name##_row(S32_ARGUMENTS) { \
    int done = 0; \
    (void)rows; \
    do { \
      tile_s32(1, V, 1, n - done < 4 * V ? n - done : 4 * V, layout, a_panel, panel, acc + done, lda); \
      done += 4 * V; \
      NEXT_PANEL; \
    } while (V == NR / 4 && n - done > NR - 8); \
    return done; \
  } \
  static __attribute__((noinline)) void name(S32_ARGUMENTS) { \
    PARTS(S32, name##_row(1, n, layout, (const int8_t *)a_panel + r * layout->step, panel, acc + r * lda, lda), \
          most, V) \
  }
#define HYBRID_KERNEL(name, most, V, small, usual) \
  static __attribute__((noinline)) int name##_row(HYBRID_ARGUMENTS, int r) { \
    hybrid_finishing g = *f; \
    int done = 0; \
    (void)rows; \
    do { \
      tile_hybrid(1, V, small, usual, 1, n - done < 4 * V ? n - done : 4 * V, layout, a_panel, panel, &g, r, y + done, \
                  ldy); \
      done += 4 * V; \
      NEXT_PANEL; \
      g.sums += NR, g.scale += NR; \
      if (g.bias) g.bias += NR; \
    } while (V == NR / 4 && n - done >= NR); \
    return done; \
  } \
  static __attribute__((noinline)) void name(HYBRID_ARGUMENTS) { \
    PARTS(HYBRID, name##_row(1, n, layout, (const int8_t *)a_panel + r * layout->step, panel, f, y + r * ldy, ldy, r), \
          most, V, small, usual) \
  }
/* The first panel that a single row has not been multiplied by yet. */
#define REST ((const int8_t *)panel + done * layout->lines * layout->depth)
/* A function for each width and rule, so that gcc keeps the accumulators in registers. */
#if NR == 16
Q8_KERNEL(q8_wide, WIDE, 4, 0, USUAL)
Q8_KERNEL(q8_wide_shifts, WIDE, 4, 0, SHIFTS)
Q8_KERNEL(q8_wide_real, WIDE, 4, 0, REAL)
S32_KERNEL(s32_wide, WIDE, 4)
HYBRID_KERNEL(hybrid_wide, WIDE, 4, 0, 0)
HYBRID_KERNEL(hybrid_wide_usual, WIDE, 4, 0, 1)
/* Do `call` and return, if `is`: IF_WIDE for more than 8 columns, IF_SMALL unless the depth is 0. */
#define IF_WIDE(is, call) \
  if ((is) && n > 8) { \
    call; \
    return; \
  }
#define IF_SMALL(is, call)
#else
Q8_KERNEL(q8_small, ROWS, 2, 1, USUAL)
HYBRID_KERNEL(hybrid_small, ROWS, 2, 1, 0)
HYBRID_KERNEL(hybrid_small_usual, ROWS, 2, 1, 1)
#if defined(__aarch64__)
Q8_KERNEL(q8_small_real, ROWS, 2, 1, REAL)
#endif
#define IF_WIDE(is, call)
#define IF_SMALL(is, call) \
  if ((is) && layout->depth) { \
    call; \
    return; \
  }
#endif
Q8_KERNEL(q8_narrow, NARROW, 2, 0, USUAL)
Q8_KERNEL(q8_narrow_shifts, NARROW, 2, 0, SHIFTS)
S32_KERNEL(s32_narrow, NARROW, 2)
HYBRID_KERNEL(hybrid_narrow, NARROW, 2, 0, 0)
#if defined(__aarch64__)
Q8_KERNEL(q8_narrow_real, NARROW, 2, 0, REAL)
#endif

static void gemm_q8(Q8_ARGUMENTS) {
#define CALL(name) \
  if (rows == 1) { \
    const int done = name##_row(1, n, layout, a_panel, panel, terms, q, j, y, ldy); \
    if (done < n) gemm_q8(1, n - done, layout, a_panel, REST, terms, q, j + done, y + done, ldy); \
  } else { \
    name(rows, n, layout, a_panel, panel, terms, q, j, y, ldy); \
  }
#if defined(__aarch64__)
  if (q->real) {
    IF_WIDE(1, CALL(q8_wide_real))
    IF_SMALL(q->small[j / NR], CALL(q8_small_real))
    CALL(q8_narrow_real);
    return;
  }
#endif
  if (__builtin_expect(q->left != NULL, 0)) {
    IF_WIDE(1, CALL(q8_wide_shifts))
    CALL(q8_narrow_shifts);
    return;
  }
  IF_WIDE(1, CALL(q8_wide))
  IF_SMALL(q->small[j / NR], CALL(q8_small))
  CALL(q8_narrow);
#undef CALL
}
static void gemm_s32(S32_ARGUMENTS) {
#define CALL(name) \
  if (rows == 1) { \
    const int done = name##_row(1, n, layout, a_panel, panel, acc, lda); \
    if (done < n) gemm_s32(1, n - done, layout, a_panel, REST, acc + done, lda); \
  } else { \
    name(rows, n, layout, a_panel, panel, acc, lda); \
  }
  IF_WIDE(1, CALL(s32_wide))
  CALL(s32_narrow);
#undef CALL
}
static void gemm_hybrid(const pl_slots *table, int rows, int n, const pl_a_layout *layout, const void *a_panel,
                        const void *panel, const int32_t *terms, const float *row_scales, const pl_hybrid *h,
                        ptrdiff_t j, float *y, ptrdiff_t ldy) {
  columns_copy copy;
  const hybrid_finishing f = hybrid_finishing_of(h, n < NR ? n : 0, j, terms, row_scales, &copy);
#define CALL(name) \
  if (rows == 1) { \
    const int done = name##_row(1, n, layout, a_panel, panel, &f, y, ldy, 0); \
    if (done < n) \
      gemm_hybrid(table, 1, n - done, layout, a_panel, REST, terms, row_scales, h, j + done, y + done, ldy); \
  } else { \
    name(rows, n, layout, a_panel, panel, &f, y, ldy); \
  }
  const int usual = f.bias && !f.column_first;
  IF_SMALL(h->small && usual, CALL(hybrid_small_usual))
  IF_SMALL(h->small, CALL(hybrid_small))
  IF_WIDE(usual, CALL(hybrid_wide_usual))
  IF_WIDE(1, CALL(hybrid_wide))
  CALL(hybrid_narrow);
#undef CALL
}

#include "blocks_neon.h"
