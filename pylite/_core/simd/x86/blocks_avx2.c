/* gemm_blocks for 4-bit weights, AVX2 and AVX-VNNI: products whose weights have a scale for each block of the depth.
 *
 * Rows hold x + 128 as unsigned bytes; a vector has the weights of eight columns, four deep.  AVX-VNNI multiplies by 16
 * times the weights, which keeps their signs. */
#include "avx2.h"
#include "store_floats.h"

enum {
  KR = 4,
  ROWS = 4,  /* of a tile */
  V = 2,     /* vectors of a panel */
  CHUNK = 32 /* most products whose sum fits in 16 bits, for AVX2 */
};

/* gemm_blocks for 8-bit weights. */
static void (*blocks_of_bytes)(const pl_slots *table, int rows, int n, const pl_blocks *b, ptrdiff_t j,
                               const uint8_t *x, const int32_t *zero_points, const float *row_scales, float *y);

/* block_sums() sets acc to the products of R rows, of which `rows` are in use, and a panel, `size` deep. */
#define EACH_VECTOR _Pragma("GCC unroll 2") for (int v = 0; v < V; v++)
#define EACH_ROW _Pragma("GCC unroll 4") for (int r = 0; r < R; r++)
#define ROW(r) (x + ((r) < rows ? (r) : 0) * step)
#if defined(__AVXVNNI__)
PL_INLINE void block_sums(int R, int rows, ptrdiff_t size, const uint8_t *x, ptrdiff_t step, const uint8_t *w,
                          __m256i acc[ROWS][2]) {
  const __m256i upper = _mm256_set1_epi8((char)0xF0);
  EACH_ROW EACH_VECTOR acc[r][v] = _mm256_setzero_si256();
  for (ptrdiff_t k = 0; k < size; k += 2 * KR, w += 32 * V)
    EACH_VECTOR {
      const __m256i both = _mm256_loadu_si256((const __m256i *)(w + 32 * v));
      const __m256i first = _mm256_and_si256(_mm256_slli_epi16(both, 4), upper), then = _mm256_and_si256(both, upper);
      EACH_ROW {
        DOT(acc[r][v], broadcast32(ROW(r) + k), first);
        DOT(acc[r][v], broadcast32(ROW(r) + k + KR), then);
      }
    }
  EACH_ROW EACH_VECTOR acc[r][v] = _mm256_srai_epi32(acc[r][v], 4);
}
#else
PL_INLINE void block_sums(int R, int rows, ptrdiff_t size, const uint8_t *x, ptrdiff_t step, const uint8_t *w,
                          __m256i acc[ROWS][2]) {
  const __m256i lower = _mm256_set1_epi8(15), ones = _mm256_set1_epi16(1);
  const __m128i signed_weights = _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1);
  const __m256i weights = _mm256_broadcastsi128_si256(signed_weights);
  EACH_ROW EACH_VECTOR acc[r][v] = _mm256_setzero_si256();
  for (ptrdiff_t k = 0; k < size;) {
    const ptrdiff_t end = size - k < CHUNK ? size : k + CHUNK;
    __m256i sum[ROWS][2];
    EACH_ROW EACH_VECTOR sum[r][v] = _mm256_setzero_si256();
    for (; k < end; k += 2 * KR, w += 32 * V) {
      __m256i both[2];
      EACH_VECTOR both[v] = _mm256_loadu_si256((const __m256i *)(w + 32 * v));
#pragma GCC unroll 2
      for (int half = 0; half < 2; half++) {
        __m256i some[2];
        EACH_VECTOR some[v] = half ? _mm256_srli_epi16(both[v], 4) : both[v];
        EACH_VECTOR some[v] = _mm256_shuffle_epi8(weights, _mm256_and_si256(some[v], lower));
        EACH_ROW {
          const __m256i four = broadcast32(ROW(r) + k + KR * half);
          EACH_VECTOR sum[r][v] = _mm256_add_epi16(sum[r][v], _mm256_maddubs_epi16(four, some[v]));
        }
      }
    }
    EACH_ROW EACH_VECTOR acc[r][v] = _mm256_add_epi32(acc[r][v], _mm256_madd_epi16(sum[r][v], ones));
  }
}
#endif

/* R rows, of which `rows` are in use, times n columns of the panel at column j. */
PL_INLINE void tile(int R, int rows, int n, const pl_blocks *b, ptrdiff_t j, const uint8_t *x,
                    const int32_t *zero_points, const float *row_scales, float *y) {
  const ptrdiff_t size = b->depth / b->blocks;
  __m256 total[ROWS][2], factor[ROWS], row_scale[ROWS];
  EACH_ROW {
    const __m256 scale = _mm256_set1_ps(row_scales[r < rows ? r : 0]), one = _mm256_set1_ps(1);
    factor[r] = b->blocks == 1 ? scale : one, row_scale[r] = b->blocks == 1 ? one : scale;
    EACH_VECTOR total[r][v] = _mm256_setzero_ps();
  }
  for (ptrdiff_t i = 0; i < b->blocks; i++, x += size) {
    const ptrdiff_t offset = pl_block_offset(b, LANES * V, i, j);
    __m256i acc[ROWS][2];
    block_sums(R, rows, size, x, b->depth, b->panels + offset * size / 2, acc);
    EACH_VECTOR {
      const __m256i sums = load(b->sums + offset + LANES * v);
      const __m256 scale = _mm256_loadu_ps(b->scale + offset + LANES * v);
      EACH_ROW {
        const __m256i term = _mm256_mullo_epi32(_mm256_set1_epi32(zero_points[r < rows ? r : 0] + 128), sums);
        const __m256 sum = _mm256_cvtepi32_ps(_mm256_sub_epi32(acc[r][v], term));
        total[r][v] = _mm256_add_ps(total[r][v], _mm256_mul_ps(sum, _mm256_mul_ps(factor[r], scale)));
      }
    }
  }
  const __m256 low = _mm256_set1_ps(b->low), high = _mm256_set1_ps(b->high);
  for (int r = 0; r < R && r < rows; r++, y += b->columns)
    for (int v = 0, c = 0; v < V && c < n; v++, c += LANES) {
      float bias[LANES] = {0};
      if (b->bias) memcpy(bias, b->bias + j + c, (n - c < LANES ? n - c : LANES) * sizeof *bias);
      const __m256 sum = _mm256_add_ps(_mm256_mul_ps(total[r][v], row_scale[r]), _mm256_loadu_ps(bias));
      store_floats(y + c, _mm256_min_ps(high, _mm256_max_ps(low, sum)), n - c);
    }
}
#undef EACH_VECTOR
#undef EACH_ROW
#undef ROW

#define TILE(R) \
  static __attribute__((noinline)) void tile_##R(int rows, int n, const pl_blocks *b, ptrdiff_t j, const uint8_t *x, \
                                                 const int32_t *zero_points, const float *row_scales, float *y) { \
    tile(R, rows, n, b, j, x, zero_points, row_scales, y); \
  }
TILE(1)
TILE(4)

static void gemm_blocks(const pl_slots *table, int rows, int n, const pl_blocks *b, ptrdiff_t j, const uint8_t *x,
                        const int32_t *zero_points, const float *row_scales, float *y) {
  if (!b->nibbles) {
    blocks_of_bytes(table, rows, n, b, j, x, zero_points, row_scales, y);
    return;
  }
  int r = 0;
  for (; rows - r > 1; r += ROWS)
    tile_4(rows - r, n, b, j, x + r * b->depth, zero_points + r, row_scales + r, y + r * b->columns);
  if (rows - r == 1) tile_1(1, n, b, j, x + r * b->depth, zero_points + r, row_scales + r, y + r * b->columns);
}

PL_FILL(blocks_avx2, s) {
  blocks_of_bytes = s->gemm_blocks;
  s->gemm_blocks = gemm_blocks;
  s->q8.nibbles = KR, s->q8.row_offset = 128;
}
