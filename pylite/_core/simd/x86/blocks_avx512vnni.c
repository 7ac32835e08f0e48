/* gemm_blocks for 4-bit weights and AVX-512 with VNNI: products whose weights have a scale for each block of the depth.
 *
 * Rows hold x + 128 as unsigned bytes.  The sums of a block stay in registers, are scaled there as floats, and added to
 * the totals of the tile. */
#include "avx512vnni.h"

enum { ROWS = 8 }; /* of a tile */

/* The portable gemm_blocks, for 8-bit weights. */
void pl_fill_portable_avx512vnni(pl_slots *s);
static void (*portable_blocks)(const struct pl_slots *table, int rows, int n, const pl_blocks *b, ptrdiff_t j,
                               const uint8_t *x, const int32_t *zero_points, const float *row_scales, float *y);

/* Multiplies R rows, of which `rows` are in use, by V vectors of columns, from `column` on, of the panel at column j,
 * which has `width` columns.  A byte holds a weight of each of two steps of four.  Both are multiplied as 16 times
 * their value, which keeps their signs. */
PL_INLINE void tile(int R, int V, int rows, int n, const pl_blocks *b, ptrdiff_t j, ptrdiff_t width, ptrdiff_t column,
                    const uint8_t *x, const int32_t *zero_points, const float *row_scales, float *y) {
  const __m512i upper = _mm512_set1_epi8((char)0xF0);
  const ptrdiff_t size = b->depth / b->blocks;
  const int one_block = b->blocks == 1;
  __m512 total[ROWS][4];
#pragma GCC unroll 8
  for (int r = 0; r < R; r++)
#pragma GCC unroll 4
    for (int v = 0; v < V; v++) total[r][v] = _mm512_setzero_ps();
  for (ptrdiff_t i = 0; i < b->blocks; i++, x += size) {
    const ptrdiff_t offset = pl_block_offset(b, width, i, j) + column;
    const uint8_t *w = b->panels + pl_block_offset(b, width, i, j) * size / 2 + column * 4;
    __m512i acc[ROWS][4];
#pragma GCC unroll 8
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
      for (int v = 0; v < V; v++) acc[r][v] = _mm512_setzero_si512();
    for (ptrdiff_t k = 0; k < size; k += 8, w += width * 4) {
#pragma GCC unroll 4
      for (int v = 0; v < V; v++) {
        const __m512i both = _mm512_loadu_si512(w + 64 * v);
        const __m512i w0 = _mm512_and_si512(_mm512_slli_epi16(both, 4), upper), w1 = _mm512_and_si512(both, upper);
#pragma GCC unroll 8
        for (int r = 0; r < R; r++) {
          const uint8_t *a = x + (r < rows ? r : 0) * b->depth + k;
          DOT(acc[r][v], broadcast32(a), w0);
          DOT(acc[r][v], broadcast32(a + 4), w1);
        }
      }
    }
#pragma GCC unroll 4
    for (int v = 0; v < V; v++) {
      const __m512i sums = _mm512_loadu_si512(b->sums + offset + LANES * v);
      const __m512 scale = _mm512_loadu_ps(b->scale + offset + LANES * v);
#pragma GCC unroll 8
      for (int r = 0; r < R; r++) {
        const __m512i term = _mm512_mullo_epi32(_mm512_set1_epi32(zero_points[r < rows ? r : 0] + 128), sums);
        const __m512 sum = _mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_srai_epi32(acc[r][v], 4), term));
        const __m512 factor = one_block ? _mm512_mul_ps(_mm512_set1_ps(row_scales[r < rows ? r : 0]), scale) : scale;
        total[r][v] = _mm512_add_ps(total[r][v], _mm512_mul_ps(sum, factor));
      }
    }
  }
  const __m512 low = _mm512_set1_ps(b->low), high = _mm512_set1_ps(b->high);
#pragma GCC unroll 4
  for (int v = 0; v < V; v++) {
    const ptrdiff_t c = column + LANES * v;
    const __mmask16 lanes = first_lanes(n - c);
    const __m512 bias = b->bias ? _mm512_maskz_loadu_ps(lanes, b->bias + j + c) : _mm512_setzero_ps();
#pragma GCC unroll 8
    for (int r = 0; r < R; r++)
      if (r < rows) {
        const __m512 row_scale = _mm512_set1_ps(one_block ? 1 : row_scales[r]);
        const __m512 sum = _mm512_add_ps(_mm512_mul_ps(total[r][v], row_scale), bias);
        _mm512_mask_storeu_ps(y + r * b->columns + c, lanes, _mm512_min_ps(high, _mm512_max_ps(low, sum)));
      }
  }
}

static void gemm_blocks(const pl_slots *table, int rows, int n, const pl_blocks *b, ptrdiff_t j, const uint8_t *x,
                        const int32_t *zero_points, const float *row_scales, float *y) {
  const ptrdiff_t width = b->padded_columns - j < NR ? b->padded_columns - j : NR;
  if (!b->nibbles) portable_blocks(table, rows, n, b, j, x, zero_points, row_scales, y);
  else if (rows == 1 && width == NR) tile(1, 4, 1, n, b, j, NR, 0, x, zero_points, row_scales, y);
  else
    for (int r = 0; r < rows; r += ROWS)
      for (int c = 0; c < n; c += LANES)
        tile(ROWS, 1, rows - r, n, b, j, width, c, x + r * b->depth, zero_points + r, row_scales + r,
             y + r * b->columns);
}

PL_FILL(blocks_avx512vnni, s) {
  pl_slots portable;
  pl_fill_portable_avx512vnni(&portable);
  portable_blocks = portable.gemm_blocks;
  s->gemm_blocks = gemm_blocks;
  s->q8.nibbles = s->q8.kr, s->q8.row_offset = s->q8.offset;
}
