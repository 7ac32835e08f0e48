/* Tiles of hybrid products (gemm_hybrid), finished as finish_hybrid does; included by gemm_neon.h alone. */

/* The parameters that turn sums into floats, for the columns of a panel and for all rows; see finish_hybrid. */
typedef struct {
  const int32_t *sums, *terms;
  const float *scale, *bias, *row_scales;
  float low, high;
  int column_first, clamped;
} hybrid_finishing;
typedef struct { int32_t sums[16]; float scale[16], bias[16]; } columns_copy;

/* The parameters of n columns from j on (0: whole panels).  If n leaves a vector partly unused, `copy` holds them,
 * padded. */
static hybrid_finishing hybrid_finishing_of(const pl_hybrid *h, int n, ptrdiff_t j, const int32_t *terms,
                                            const float *row_scales, columns_copy *copy) {
  hybrid_finishing f = {h->sums + j, terms, h->scale + j, h->bias ? h->bias + j : NULL, row_scales, h->low, h->high,
                        h->column_first, h->low != -INFINITY || h->high != INFINITY};
  if (n % 8) {
    memset(copy, 0, sizeof *copy);
    f.sums = memcpy(copy->sums, f.sums, n * sizeof *f.sums);
    f.scale = memcpy(copy->scale, f.scale, n * sizeof *f.scale);
    if (f.bias) f.bias = memcpy(copy->bias, f.bias, n * sizeof *f.bias);
  }
  return f;
}

/* Copies results that do not fill a tile.  Inlined, gcc would compute the addresses of all elements first. */
static __attribute__((noinline)) void copy_results(int rows, int n, const float *results, int step, float *y,
                                                   ptrdiff_t ldy) {
  for (int r = 0; r < rows; r++) memcpy(y + r * ldy, results + r * step, n * sizeof *y);
}

/* Computes R rows of a, of which `rows` are in use, times n columns of V vectors; the first one has term and scale
 * number `first`.  usual: there is a bias, and column_first is 0. */
PL_INLINE void tile_hybrid(int R, int V, int small, int usual, int rows, int n, const pl_a_layout *layout,
                           const int8_t *a, const int8_t *w, const hybrid_finishing *f, int first, float *y,
                           ptrdiff_t ldy) {
  int32x4_t acc[ROWS][4];
  int32_t some_terms[8] = {0};
  float some_scales[8] = {0};
  const int32_t *terms = f->terms + first;
  const float *row_scales = f->row_scales + first;
  if (rows < R) {
    for (int r = 0; r < R && r < rows; r++) some_terms[r] = terms[r], some_scales[r] = row_scales[r];
    terms = some_terms, row_scales = some_scales;
  }
#define EACH _Pragma("GCC unroll 8") for (int r = 0; r < R; r++)
#if defined(PRODUCTS_OF_TERMS) /* beginning with the terms takes no longer than with 0 */
  const int started = PRODUCTS_OF_TERMS(R, V);
  if (started) {
    int32_t factors[4];
    for (int r = 0; r < 4; r++) factors[r] = (int32_t)(0u - (uint32_t)terms[r]);
    products_of_terms(rows, layout, a, w, f->sums, factors, acc);
  }
#else
  const int started = 0;
#endif
  if (!started) products(small, R, V, rows, layout, a, w, NULL, NULL, acc);
  const float32x4_t low = vdupq_n_f32(f->low), high = vdupq_n_f32(f->high);
  const int whole = rows >= R && n >= 4 * V;
  float results[8 * 16], *to = whole ? y : results;
  const ptrdiff_t step = whole ? ldy : 4 * V;
#pragma GCC unroll 4
  for (int v = 0; v < V; v++) {
    const float32x4_t scale = vld1q_f32(f->scale + 4 * v);
    float32x4_t result[8], factor[8];
    if (!started) {
      const int32x4_t sums = vld1q_s32(f->sums + 4 * v);
      EACH acc[r][v] = vmlsq_n_s32(acc[r][v], sums, terms[r]);
    }
    if (!usual && f->column_first) EACH factor[r] = scale;
    else EACH factor[r] = vmulq_n_f32(scale, row_scales[r]);
    EACH result[r] = vcvtq_f32_s32(acc[r][v]);
    EACH result[r] = vmulq_f32(result[r], factor[r]);
    if (!usual && f->column_first) EACH result[r] = vmulq_n_f32(result[r], row_scales[r]);
    if (usual || f->bias) {
      const float32x4_t bias = vld1q_f32(f->bias + 4 * v);
      EACH result[r] = vaddq_f32(result[r], bias);
    }
    if (f->clamped) EACH result[r] = vminq_f32(vmaxq_f32(result[r], low), high);
    EACH vst1q_f32(to + r * step + 4 * v, result[r]);
  }
  if (!whole) copy_results(rows < R ? rows : R, n < 4 * V ? n : 4 * V, results, 4 * V, y, ldy);
#undef EACH
}
