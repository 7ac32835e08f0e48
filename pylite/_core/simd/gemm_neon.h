/* 8-bit matrix products for NEON, dotprod and i8mm, whose A panels are int8.
 *
 * Before including it include neon.h and define NR (columns of a panel, 8 or 16), WIDE and NARROW (rows of a tile with
 * 16 columns and with 8) and products(small, R, V, rows, layout, a, w, acc), which sets acc[r][v] to R rows times V
 * vectors of columns.  Rows from `rows` on are not used; small: no weight is -128. */
PL_INLINE void tile_q8(int R, int V, int small, int rows, int n, const pl_a_layout *layout, const int8_t *a,
                       const int8_t *w, const int32_t *row, const pl_columns *q, ptrdiff_t j, uint8_t *y,
                       ptrdiff_t ldy) {
  int32x4_t acc[NARROW][4];
  products(small, R, V, rows, layout, a, w, acc);
  if (row)
#pragma GCC unroll 8
    for (int r = 0; r < R; r++) {
      const int32x4_t term = vdupq_n_s32(row[r < rows ? r : 0]);
#pragma GCC unroll 4
      for (int v = 0; v < V; v++) acc[r][v] = vaddq_s32(acc[r][v], term);
    }
  scaling c[4];
#pragma GCC unroll 4
  for (int v = 0; v < V; v++) {
    const int32x4_t bias = vld1q_s32(q->bias + j + 4 * v);
    c[v] = scaling_of(q, j + 4 * v);
#pragma GCC unroll 8
    for (int r = 0; r < R; r++) acc[r][v] = vaddq_s32(acc[r][v], bias);
  }
  const ends e = ends_of(q);
  const int together = R < 8 / V ? R : 8 / V;
#pragma GCC unroll 8
  for (int r = 0; r < R; r += together) {
    uint8x8_t bytes[4];
    if (__builtin_expect(q->left != NULL, 0)) requantize(together, V, acc + r, c, q->left + j);
    else requantize(together, V, acc + r, c, NULL);
    narrow(together, V, acc + r, &e, bytes);
#pragma GCC unroll 4
    for (int i = r; i < r + together; i++)
      if (i < rows) {
#pragma GCC unroll 2
        for (int v = 0; v < V; v += 2) store(y + i * ldy + 4 * v, bytes[((i - r) * V + v) / 2], n - 4 * v);
      }
  }
}

PL_INLINE void tile_s32(int R, int V, int rows, int n, const pl_a_layout *layout, const int8_t *a, const int8_t *w,
                        int32_t *y, ptrdiff_t ldy) {
  int32x4_t acc[NARROW][4];
  products(0, R, V, rows, layout, a, w, acc);
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

#define PARTS(TILE, most, ...) \
  for (int r = 0; r < rows;) { \
    const int left = rows - r; \
    const int8_t *part = (const int8_t *)a_panel + r * layout->step; \
    if (left == 1) { TILE(1, __VA_ARGS__); r++; } \
    else { TILE(most, __VA_ARGS__); r += most; } \
  }
#define Q8(R, V, small) \
  tile_q8(R, V, small, left, n, layout, part, panel, row ? row + r : NULL, q, j, y + r * ldy, ldy)
#define S32(R, V) tile_s32(R, V, left, n, layout, part, panel, acc + r * lda, lda)

#define Q8_ARGUMENTS \
  int rows, int n, const pl_a_layout *layout, const void *a_panel, const void *panel, const int32_t *row, \
    const pl_columns *q, ptrdiff_t j, uint8_t *y, ptrdiff_t ldy
#define S32_ARGUMENTS \
  int rows, int n, const pl_a_layout *layout, const void *a_panel, const void *panel, int32_t *acc, ptrdiff_t lda
#if NR == 16 /* a function for each width: gcc then keeps the accumulators in registers */
static __attribute__((noinline)) void q8_wide(Q8_ARGUMENTS) { PARTS(Q8, WIDE, 4, 0) }
static __attribute__((noinline)) void s32_wide(S32_ARGUMENTS) { PARTS(S32, WIDE, 4) }
#define IF_WIDE(call) \
  if (n > 8) { \
    call; \
    return; \
  }
#else /* and one for small weights */
static __attribute__((noinline)) void q8_small(Q8_ARGUMENTS) { PARTS(Q8, NARROW, 2, 1) }
#define IF_WIDE(call)
#endif
static void gemm_q8(Q8_ARGUMENTS) {
  IF_WIDE(q8_wide(rows, n, layout, a_panel, panel, row, q, j, y, ldy))
#if NR == 8
  if (q->fit) {
    q8_small(rows, n, layout, a_panel, panel, row, q, j, y, ldy);
    return;
  }
#endif
  PARTS(Q8, NARROW, 2, 0)
}
static void gemm_s32(S32_ARGUMENTS) {
  IF_WIDE(s32_wide(rows, n, layout, a_panel, panel, acc, lda))
  PARTS(S32, NARROW, 2)
}
