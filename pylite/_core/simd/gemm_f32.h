/* The float matrix product, written once over a rung's vectors.
 *
 * Before including it define VECTOR, LANES, MR (rows of a full tile), NV (vectors in a panel), LOAD,
 * STORE, SPLAT, MULTIPLY_ADD(acc, a, b), ADD, MIN and MAX(bound, value), which give the value where it is not a
 * number.  Every tile sums in the order of k, so results do not depend on its shape. */
#include "simd.h"
#include <string.h>

static inline __attribute__((always_inline)) void tile_f32(int R, int V, int n, const pl_rows *shape,
                                                           const float *a, const float *w, int first, int last,
                                                           const float *bias, float low, float high, float *y,
                                                           ptrdiff_t ldy) {
  const ptrdiff_t depth = shape->depth, step = shape->step, pitch = shape->pitch;
  VECTOR acc[MR][NV], shift[NV];
  float line[NV * LANES];
  const int whole = n == V * LANES;
#pragma GCC unroll 16
  for (int r = 0; r < R; r++) {
    const float *from = y + r * ldy;
    if (!first && !whole) from = memcpy(line, from, n * sizeof(float));
#pragma GCC unroll 4
    for (int v = 0; v < V; v++) acc[r][v] = first ? SPLAT(0.0f) : LOAD(from + v * LANES);
  }
  for (int line = shape->lines; line > 0; line--, a += pitch) {
    const float *base[4] = {a, a + 3 * step, a + 6 * step, a + 9 * step};
    for (ptrdiff_t k = 0; k < depth; k++, w += V * LANES) {
      VECTOR wv[NV];
#pragma GCC unroll 4
      for (int v = 0; v < V; v++) wv[v] = LOAD(w + v * LANES);
#pragma GCC unroll 16
      for (int r = 0; r < R; r++) {
        VECTOR x = SPLAT(base[r / 3][r % 3 * step + k]);
#pragma GCC unroll 4
        for (int v = 0; v < V; v++) acc[r][v] = MULTIPLY_ADD(acc[r][v], x, wv[v]);
      }
    }
  }
  if (last) {
    memset(line, 0, sizeof line);
    if (bias) memcpy(line, bias, n * sizeof(float));
#pragma GCC unroll 4
    for (int v = 0; v < V; v++) shift[v] = LOAD(line + v * LANES);
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; r++) {
    float *to = whole ? y + r * ldy : line;
#pragma GCC unroll 4
    for (int v = 0; v < V; v++) {
      VECTOR x = acc[r][v];
      if (last) x = MIN(SPLAT(high), MAX(SPLAT(low), ADD(x, shift[v])));
      STORE(to + v * LANES, x);
    }
    if (!whole) memcpy(y + r * ldy, line, n * sizeof(float));
  }
}

#define TILE_F32(R, V) \
  tile_f32(R, V, n, shape, a + r * shape->step, panel, first, last, bias, low, high, y + r * ldy, ldy), r += R
#define ROWS_F32(V) \
  for (int r = 0; r < rows;) { \
    if (rows - r >= MR) TILE_F32(MR, V); \
    else if (rows - r >= 4) TILE_F32(4, V); \
    else TILE_F32(1, V); \
  }

static void gemm_f32(int rows, int n, const pl_rows *shape, const float *a, const float *panel, int first, int last,
                     const float *bias, float low, float high, float *y, ptrdiff_t ldy) {
  if (NV == 1 || n <= LANES) ROWS_F32(1) else ROWS_F32(NV)
}
