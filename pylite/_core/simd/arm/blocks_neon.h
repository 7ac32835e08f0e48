/* gemm_blocks: products whose weights have a scale for each block of the depth; included by gemm_neon.h alone.
 *
 * Weights of 4 bits, two to a byte, become bytes first: for a single row in registers, by row_of_nibbles(); for several
 * rows in memory, once for all of them. */

/* The portable gemm_blocks, for blocks that had to be padded. */
void pl_fill_portable_neon(pl_slots *s);
static void (*portable_blocks)(const pl_slots *table, int rows, int n, const pl_blocks *b, ptrdiff_t j,
                               const uint8_t *x, const int32_t *zero_points, const float *row_scales, float *y);

enum { DEEPEST = 256 }; /* depth of the 4-bit weights that are unpacked in memory at once */

/* The contribution of one block to the results of one row, without the row's scale.  A single block has that scale
 * here, as in other hybrid products. */
PL_INLINE float32x4_t scaled(const pl_blocks *b, int32x4_t acc, float32x4_t scale, float row_scale) {
  return vmulq_f32(vcvtq_f32_s32(acc), b->blocks == 1 ? vmulq_n_f32(scale, row_scale) : scale);
}

/* Turns the sum of all blocks into the results of one row and n columns, from column j on. */
PL_INLINE void finish_blocks(int V, int n, const pl_blocks *b, ptrdiff_t j, float row_scale, const float32x4_t *total,
                             float *y) {
  if (b->blocks == 1) row_scale = 1; /* see scaled() */
  float biases[16] = {0}, results[16];
  const float *bias = b->bias ? b->bias + j : biases;
  const int whole = n >= 4 * V;
  if (!whole && b->bias) bias = memcpy(biases, bias, n * sizeof *bias);
  float *to = whole ? y : results;
#pragma GCC unroll 4
  for (int v = 0; v < V; v++) {
    float32x4_t sum = vmulq_n_f32(total[v], row_scale);
    if (b->bias) sum = vaddq_f32(sum, vld1q_f32(bias + 4 * v));
    vst1q_f32(to + 4 * v, vminq_f32(vmaxq_f32(sum, vdupq_n_f32(b->low)), vdupq_n_f32(b->high)));
  }
  if (!whole) memcpy(y, results, n * sizeof *y);
}

/* Turns a block of 4-bit weights into bytes, for V vectors of columns. */
PL_INLINE void unpack_nibbles(int V, ptrdiff_t size, const uint8_t *w, int8_t *to) {
  const ptrdiff_t step = 4 * V * KR;
  for (ptrdiff_t k = 0; k < size; k += 2 * KR, w += step, to += 2 * step)
    for (ptrdiff_t i = 0; i < step; i += 16) {
      const int8x16_t both = vreinterpretq_s8_u8(vld1q_u8(w + i));
      vst1q_s8(to + i, vshrq_n_s8(vshlq_n_s8(both, 4), 4));
      vst1q_s8(to + step + i, vshrq_n_s8(both, 4));
    }
}

/* One row times a panel of V vectors of columns.  narrow: do weights have 4 bits? */
PL_INLINE void blocks_of_row(int V, int narrow, int n, const pl_blocks *b, ptrdiff_t j, const int8_t *a,
                             int32_t zero_point, float row_scale, float *y) {
  const ptrdiff_t size = b->depth / b->blocks;
  const pl_a_layout layout = pl_packed_layout(size);
  float32x4_t total[4];
#pragma GCC unroll 4
  for (int v = 0; v < V; v++) total[v] = vdupq_n_f32(0);
  for (ptrdiff_t i = 0; i < b->blocks; i++, a += size) {
    const ptrdiff_t offset = pl_block_offset(b, 4 * V, i, j);
    const uint8_t *w = b->panels + (offset * size >> narrow);
    int32x4_t acc[ROWS][4];
    if (narrow) row_of_nibbles(V, size, a, w, acc[0]);
    else products(0, 1, V, 1, &layout, a, (const int8_t *)w, NULL, NULL, acc);
#pragma GCC unroll 4
    for (int v = 0; v < V; v++) {
      const int32x4_t sum = vmlsq_n_s32(acc[0][v], vld1q_s32(b->sums + offset + 4 * v), zero_point);
      total[v] = vaddq_f32(total[v], scaled(b, sum, vld1q_f32(b->scale + offset + 4 * v), row_scale));
    }
  }
  finish_blocks(V, n, b, j, row_scale, total, y);
}

/* The results of several rows, while they are computed. */
typedef struct {
  const pl_blocks *b;
  const int8_t *a;
  const int32_t *zero_points;
  const float *row_scales;
  int32x4_t sum[PL_BLOCK_ROWS][4]; /* of a block that is multiplied in parts */
  float32x4_t total[PL_BLOCK_ROWS][4];
} block_rows;

/* Multiplies R rows from row r on, of which `rows` are in use, by a part of block i: `depth` steps from step k on. */
PL_INLINE void add_part(int R, int V, int narrow, block_rows *f, int r, int rows, ptrdiff_t i, ptrdiff_t k,
                        ptrdiff_t depth, ptrdiff_t j, const int8_t *w) {
  const pl_blocks *b = f->b;
  const ptrdiff_t size = b->depth / b->blocks, offset = pl_block_offset(b, 4 * V, i, j);
  const pl_a_layout layout = {1, depth, b->depth, 0};
  const int8_t *a = f->a + r * b->depth + i * size + k;
  int32x4_t acc[ROWS][4];
#if defined(PRODUCTS_OF_TERMS) /* see tile_hybrid */
  const int started = PRODUCTS_OF_TERMS(R, V);
  if (started) {
    int32_t factors[4];
    for (int q = 0; q < 4; q++) factors[q] = k ? 0 : (int32_t)(0u - (uint32_t)f->zero_points[r + (q < rows ? q : 0)]);
    products_of_terms(rows, &layout, a, w, b->sums + offset, factors, acc);
  }
#else
  const int started = 0;
#endif
  if (!started) products(narrow, R, V, rows, &layout, a, w, NULL, NULL, acc);
#pragma GCC unroll 4
  for (int v = 0; v < V; v++) {
    const int32x4_t sums = vld1q_s32(b->sums + offset + 4 * v);
    const float32x4_t scale = vld1q_f32(b->scale + offset + 4 * v);
#pragma GCC unroll 8
    for (int q = 0; q < R; q++)
      if (q < rows) {
        int32x4_t *sum = &f->sum[r + q][v];
        float32x4_t *total = &f->total[r + q][v];
        if (k) acc[q][v] = vaddq_s32(acc[q][v], *sum);
        if (k + depth < size) *sum = acc[q][v];
        else {
          if (!started) acc[q][v] = vmlsq_n_s32(acc[q][v], sums, f->zero_points[r + q]);
          *total = vaddq_f32(*total, scaled(b, acc[q][v], scale, f->row_scales[r + q]));
        }
      }
  }
}

/* Rows, R at a time, times a panel of V vectors of columns. */
PL_INLINE void blocks_of_rows(int R, int V, int narrow, int rows, int n, const pl_blocks *b, ptrdiff_t j,
                              const int8_t *a, const int32_t *zero_points, const float *row_scales, float *y) {
  const ptrdiff_t size = b->depth / b->blocks, most = narrow ? DEEPEST : size;
  block_rows f;
  int8_t unpacked[DEEPEST * NR];
  f.b = b, f.a = a, f.zero_points = zero_points, f.row_scales = row_scales;
  for (int r = 0; r < rows; r++)
    for (int v = 0; v < V; v++) f.total[r][v] = vdupq_n_f32(0);
  const uint8_t *panel = b->panels + (pl_block_offset(b, 4 * V, 0, j) * size >> narrow);
  for (ptrdiff_t i = 0; i < b->blocks; i++)
    for (ptrdiff_t k = 0, depth; k < size; k += depth, panel += 4 * V * depth >> narrow) {
      depth = size - k < most ? size - k : most;
      if (narrow) unpack_nibbles(V, depth, panel, unpacked);
      const int8_t *w = narrow ? unpacked : (const int8_t *)panel;
      int r = 0;
      for (; rows - r > 1; r += R) add_part(R, V, narrow, &f, r, rows - r, i, k, depth, j, w);
      if (rows - r == 1) add_part(1, V, narrow, &f, r, 1, i, k, depth, j, w);
    }
  for (int r = 0; r < rows; r++) finish_blocks(V, n, b, j, row_scales[r], f.total[r], y + r * b->columns);
}

/* A function for each width of a panel and of weights. */
#define BLOCKS_KERNEL(name, R, V, narrow) \
  static __attribute__((noinline)) void name##_row(int n, const pl_blocks *b, ptrdiff_t j, const int8_t *a, \
                                                   int32_t zero_point, float row_scale, float *y) { \
    blocks_of_row(V, narrow, n, b, j, a, zero_point, row_scale, y); \
  } \
  static __attribute__((noinline)) void name(int rows, int n, const pl_blocks *b, ptrdiff_t j, const int8_t *a, \
                                             const int32_t *zero_points, const float *row_scales, float *y) { \
    if (rows == 1) name##_row(n, b, j, a, *zero_points, *row_scales, y); \
    else blocks_of_rows(R, V, narrow, rows, n, b, j, a, zero_points, row_scales, y); \
  }
#if NR == 16
BLOCKS_KERNEL(blocks_wide, WIDE, 4, 0)
BLOCKS_KERNEL(nibbles, WIDE, 4, 1)
#else
BLOCKS_KERNEL(nibbles, NARROW, 2, 1)
#endif
BLOCKS_KERNEL(blocks_narrow, NARROW, 2, 0)

static void gemm_blocks(const pl_slots *table, int rows, int n, const pl_blocks *b, ptrdiff_t j, const uint8_t *x,
                        const int32_t *zero_points, const float *row_scales, float *y) {
  if (b->padded_depth * b->blocks != b->depth) {
    portable_blocks(table, rows, n, b, j, x, zero_points, row_scales, y);
    return;
  }
  const int8_t *a = (const int8_t *)x;
  if (b->nibbles) nibbles(rows, n, b, j, a, zero_points, row_scales, y);
#if NR == 16
  else if (b->padded_columns - j >= NR) blocks_wide(rows, n, b, j, a, zero_points, row_scales, y);
#endif
  else blocks_narrow(rows, n, b, j, a, zero_points, row_scales, y);
}

/* Writes gemm_blocks into a dispatch table. */
static void fill_blocks(pl_slots *s) {
  pl_slots portable;
  pl_fill_portable_neon(&portable);
  portable_blocks = portable.gemm_blocks;
  s->gemm_blocks = gemm_blocks;
  s->q8.nibbles = KR;
}
