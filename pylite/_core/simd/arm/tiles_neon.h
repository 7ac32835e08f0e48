/* gemm_f32 for full tiles whose rows are single runs, with less overhead than the tiles of gemm_f32.h: for products of
 * small depth.  some_tiles_f32() chooses between both.  Included by gemm_neon.c alone, after gemm_f32.h. */

/* Multiplies step k + i of a tile: weights by lane i of the vector x[r] of each row. */
#define LANES_OF(i) \
  { \
    const VECTOR w0 = LOAD(w + (i) * 2 * LANES), w1 = LOAD(w + ((i) * 2 + 1) * LANES); \
    EACH_ROW { \
      acc[r][0] = ADD_BY_LANE(acc[r][0], w0, x[r], i); \
      acc[r][1] = ADD_BY_LANE(acc[r][1], w1, x[r], i); \
    } \
  }
#define EACH_ROW _Pragma("GCC unroll 8") for (int r = 0; r < MR; r++)
#define EACH EACH_ROW _Pragma("GCC unroll 2") for (int v = 0; v < 2; v++)

/* Computes the rows that fill tiles; returns their number.  The depth is a multiple of LANES; bias may be NULL. */
static int tiles_f32(int rows, const pl_a_layout *layout, const float *a, const float *panel, const float *bias,
                     float low, float high, float *y, ptrdiff_t ldy) {
  static const float zeros[2 * LANES];
  const ptrdiff_t depth = layout->depth, step = layout->step;
  const int below = low != -INFINITY, above = high != INFINITY;
  const float *row[MR];
  int done = 0;
  EACH_ROW row[r] = a + r * step;
  for (; done + MR <= rows; done += MR) {
    const float *w = panel;
    VECTOR acc[MR][2], x[MR];
    const float *start = bias ? bias : zeros;
    EACH_ROW {
      acc[r][0] = LOAD(start), acc[r][1] = LOAD(start + LANES);
      __asm__ volatile("" : "+r"(start)); /* loaded again: a copy takes half as long as a product */
    }
    EACH_ROW x[r] = LOAD(row[r]); /* before the loop: gcc would copy registers in a loop over all steps */
    LANES_OF(0) LANES_OF(1) LANES_OF(2) LANES_OF(3)
    for (ptrdiff_t k = LANES; k < depth; k += LANES) {
      w += 2 * LANES * LANES;
      EACH_ROW x[r] = LOAD(row[r] + k);
      LANES_OF(0) LANES_OF(1) LANES_OF(2) LANES_OF(3)
    }
    if (below) EACH acc[r][v] = MAX(SPLAT(low), acc[r][v]);
    if (above) EACH acc[r][v] = MIN(SPLAT(high), acc[r][v]);
    EACH_ROW {
      row[r] += MR * step;
      STORE(y, acc[r][0]);
      STORE(y + LANES, acc[r][1]);
      NEXT_LINE(y);
    }
  }
  return done;
}
#undef LANES_OF
#undef EACH_ROW
#undef EACH

#if defined(__aarch64__)
/* gemm_f32 for one or two columns: a vector holds four steps of k of one column, instead of one step of four
 * columns. */
static __attribute__((noinline)) void two_columns_f32(int rows, int n, const pl_a_layout *layout, const float *a,
                                                      const float *panel, const float *bias, float low, float high,
                                                      float *y, ptrdiff_t ldy) {
#define EACH(n) _Pragma("GCC unroll 8") for (int r = 0; r < (n); r++)
  const VECTOR first = SPLAT(bias ? bias[0] : 0), shift = vtrn1q_f32(first, SPLAT(bias ? bias[n - 1] : 0));
  const ptrdiff_t depth = layout->depth;
  for (; rows > 0; rows -= MR, a += MR * layout->step) {
    const float *row[MR], *w = panel;
    VECTOR acc[MR][2];
    float results[MR][2], *to = results[0];
    EACH(MR) row[r] = a + (r < rows ? r * layout->step : 0);
    EACH(MR) acc[r][0] = acc[r][1] = SPLAT(0);
    for (ptrdiff_t k = 0; k < depth; k += LANES, w += LANES * LANES) {
      const float32x4x4_t column = vld4q_f32(w);
      EACH(MR) {
        const VECTOR x = LOAD(row[r] + k);
        acc[r][0] = MULTIPLY_ADD(acc[r][0], x, column.val[0]);
        acc[r][1] = MULTIPLY_ADD(acc[r][1], x, column.val[1]);
      }
    }
    const int whole = n == 2 && ldy == 2 && rows >= MR;
    if (whole) to = y;
    EACH(MR) acc[r][0] = vpaddq_f32(acc[r][0], acc[r][1]);
    EACH(MR / 2) {
      const VECTOR sum = ADD(vpaddq_f32(acc[2 * r][0], acc[2 * r + 1][0]), shift);
      STORE(to + LANES * r, MIN(SPLAT(high), MAX(SPLAT(low), sum)));
    }
    if (!whole) for (int r = 0; r < rows && r < MR; r++) memcpy(y + r * ldy, results[r], (size_t)n * sizeof *y);
    y += MR * ldy;
  }
#undef EACH
}
#endif

/* tiles_f32() for the rows that fill tiles, gemm_f32() for the rest. */
static __attribute__((noinline)) void tiles_and_rest_f32(int rows, int n, const pl_a_layout *layout, const float *a,
                                                         const float *panel, int last, const float *bias, float low,
                                                         float high, float *y, ptrdiff_t ldy) {
  const int rest = rows % MR, separate = PARTED && (rest == 1 || rest == 2 || rest == 3); /* see NEXT_ROWS */
  const int done = tiles_f32(separate ? rows - MR : rows, layout, a, panel, last ? bias : NULL, last ? low : -INFINITY,
                             last ? high : INFINITY, y, ldy);
  if (done < rows)
    gemm_f32(rows - done, n, layout, a + done * layout->step, panel, 1, last, bias, low, high, y + done * ldy, ldy);
}
static void some_tiles_f32(int rows, int n, const pl_a_layout *layout, const float *a, const float *panel, int first,
                           int last, const float *bias, float low, float high, float *y, ptrdiff_t ldy) {
  const int plain = first == 1 && layout->lines == 1 && layout->depth && layout->depth % LANES == 0;
#if defined(__aarch64__)
  if (plain && last && n <= 2) { /* for any number of rows, so that results do not depend on it */
    two_columns_f32(rows, n, layout, a, panel, bias, low, high, y, ldy);
    return;
  }
#endif
  if (plain && rows >= MR && n == NV * LANES)
    tiles_and_rest_f32(rows, n, layout, a, panel, last, bias, low, high, y, ldy);
  else
    gemm_f32(rows, n, layout, a, panel, first, last, bias, low, high, y, ldy);
}
