/* 8-bit matrix products and depthwise convolutions for AVX2: pairs of 16-bit products. */
#include "simd.h"
#include <immintrin.h>
#include <string.h>

#define FORCED static inline __attribute__((always_inline))
enum { MR = 6, NR = 16, LANES = 8 };

FORCED __m256i load(const int32_t *p) { return _mm256_loadu_si256((const __m256i *)p); }
FORCED __m256i widen(const void *p) { return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)p)); }

/* Strips are int16. */
static void strip_q8(int rows, int segments, ptrdiff_t length, const uint8_t *const *src, int flip, void *strip,
                     ptrdiff_t depth) {
  const __m128i mask = _mm_set1_epi8((char)flip);
  for (int r = 0; r < rows; r++) {
    int16_t *to = (int16_t *)strip + r * depth;
    ptrdiff_t k = 0;
    for (int s = 0; s < segments; s++, k += length) {
      const uint8_t *from = *src++;
      ptrdiff_t i = 0;
      for (; i + 16 <= length; i += 16) {
        __m128i v = _mm_xor_si128(_mm_loadu_si128((const __m128i *)(from + i)), mask);
        _mm256_storeu_si256((__m256i *)(to + k + i), _mm256_cvtepi8_epi16(v));
      }
      for (; i < length; i++) to[k + i] = (int8_t)(from[i] ^ flip);
    }
    for (; k < depth; k++) to[k] = 0;
  }
}

/* MBQM32 of 8 accumulators, with the second rounding as (v + half - (v < 0)) >> right. */
FORCED __m256i requantize(__m256i acc, const pl_columns *q, ptrdiff_t j) {
  const __m256i nudge = _mm256_set1_epi64x(1 << 30);
  if (q->left) acc = _mm256_sllv_epi32(acc, load(q->left + j));
  __m256i even = _mm256_mul_epi32(acc, load(q->mult + j));
  __m256i odd = _mm256_mul_epi32(_mm256_srli_epi64(acc, 32), load(q->odd + j));
  even = _mm256_srli_epi64(_mm256_add_epi64(even, nudge), 31);
  odd = _mm256_slli_epi64(_mm256_add_epi64(odd, nudge), 1);
  __m256i v = _mm256_blend_epi32(even, odd, 0xAA);
  __m256i negative = _mm256_srlv_epi32(v, load(q->sign + j));
  v = _mm256_sub_epi32(_mm256_add_epi32(v, load(q->half + j)), negative);
  return _mm256_srav_epi32(v, load(q->right + j));
}

/* Two vectors of results, whose 128-bit lanes interleave, to 16 bytes in order. */
FORCED __m128i narrow(__m256i packed, const pl_columns *q) {
  __m256i v = _mm256_adds_epi16(packed, _mm256_set1_epi16((short)q->zero_point));
  __m128i y = _mm_packs_epi16(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  y = _mm_max_epi8(_mm_min_epi8(y, _mm_set1_epi8((char)q->high)), _mm_set1_epi8((char)q->low));
  return _mm_xor_si128(y, _mm_set1_epi8((char)q->flip));
}

FORCED void store(uint8_t *y, __m128i v, ptrdiff_t n) {
  uint8_t buffer[16];
  if (n >= 16) {
    _mm_storeu_si128((__m128i *)y, v);
  } else {
    _mm_storeu_si128((__m128i *)buffer, v);
    memcpy(y, buffer, n);
  }
}

/* acc[r][v] += R rows of the strip times V vectors of columns */
FORCED void multiply(int R, int V, const pl_rows *shape, const int16_t *a, const int8_t *w, __m256i acc[MR][2]) {
  const ptrdiff_t depth = shape->depth, step = shape->step, pitch = shape->pitch;
  for (int line = shape->lines; line > 0; line--, a += pitch) {
    const int16_t *upper = a + 3 * step;
    for (ptrdiff_t k = 0; k < depth; k += 2, w += 16 * V) {
      __m256i w0 = widen(w), w1 = V == 2 ? widen(w + 16) : w0;
#pragma GCC unroll 6
      for (int r = 0; r < R; r++) {
        const int16_t *at = (r < 3 ? a : upper) + r % 3 * step + k;
        __m256i x = _mm256_set1_epi32(*(const int32_t *)at);
        acc[r][0] = _mm256_add_epi32(acc[r][0], _mm256_madd_epi16(x, w0));
        if (V == 2) acc[r][1] = _mm256_add_epi32(acc[r][1], _mm256_madd_epi16(x, w1));
      }
    }
  }
}

FORCED void tile_q8(int R, int V, int rows, int n, const pl_rows *shape, const int16_t *a, const int8_t *w,
                    const int32_t *row, const pl_columns *q, ptrdiff_t j, uint8_t *y, ptrdiff_t ldy) {
  __m256i acc[MR][2];
  const pl_columns own = *q; /* y may not be taken to overlap it */
#pragma GCC unroll 6
  for (int r = 0; r < R; r++)
#pragma GCC unroll 2
    for (int v = 0; v < V; v++) acc[r][v] = load(q->bias + j + LANES * v);
  if (row)
#pragma GCC unroll 6
    for (int r = 0; r < R; r++)
#pragma GCC unroll 2
      for (int v = 0; v < V; v++) acc[r][v] = _mm256_add_epi32(acc[r][v], _mm256_set1_epi32(row[r < rows ? r : 0]));
  multiply(R, V, shape, a, w, acc);
#pragma GCC unroll 6
  for (int r = 0; r < R; r++)
    if (r < rows) {
      __m256i v0 = requantize(acc[r][0], &own, j), v1 = V == 2 ? requantize(acc[r][1], &own, j + LANES) : v0;
      __m256i packed = _mm256_permute4x64_epi64(_mm256_packs_epi32(v0, v1), 0xD8);
      store(y + r * ldy, narrow(packed, &own), n);
    }
}

FORCED void tile_s32(int R, int V, int rows, int n, const pl_rows *shape, const int16_t *a, const int8_t *w, int32_t *y,
                     ptrdiff_t ldy) {
  __m256i acc[MR][2];
#pragma GCC unroll 6
  for (int r = 0; r < R; r++) acc[r][0] = acc[r][1] = _mm256_setzero_si256();
  multiply(R, V, shape, a, w, acc);
#pragma GCC unroll 6
  for (int r = 0; r < R; r++)
    if (r < rows) {
      int32_t sums[NR];
#pragma GCC unroll 2
      for (int v = 0; v < V; v++) _mm256_storeu_si256((__m256i *)(sums + LANES * v), acc[r][v]);
      for (int i = 0; i < n; i++) y[r * ldy + i] += sums[i];
    }
}

#define PARTS(TILE, ...) \
  for (int r = 0; r < rows;) { \
    const int left = rows - r; \
    const int16_t *part = (const int16_t *)strip + r * shape->step; \
    if (left == 1) { TILE(1, __VA_ARGS__); r++; } \
    else if (left <= 3) { TILE(3, __VA_ARGS__); r += 3; } \
    else { TILE(6, __VA_ARGS__); r += 6; } \
  }
#define Q8(R, V) tile_q8(R, V, left, n, shape, part, panel, row ? row + r : NULL, q, j, y + r * ldy, ldy)
#define S32(R, V) tile_s32(R, V, left, n, shape, part, panel, acc + r * lda, lda)

static void gemm_q8(int rows, int n, const pl_rows *shape, const void *strip, const void *panel, const int32_t *row,
                    const pl_columns *q, ptrdiff_t j, uint8_t *y, ptrdiff_t ldy) {
  if (n > LANES) PARTS(Q8, 2) else PARTS(Q8, 1)
}

static void gemm_s32(int rows, int n, const pl_rows *shape, const void *strip, const void *panel, int32_t *acc,
                     ptrdiff_t lda) {
  if (n > LANES) PARTS(S32, 2) else PARTS(S32, 1)
}

/* ---- depthwise: blocks of 16 channels, taps in pairs, weights of 16 bits (less their zero point) ---- */

/* The channel in each place of a block, as unpacking leaves them; the packs of narrow() undo it. */
static const uint8_t order[NR] = {0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15};

FORCED __m256i tap(const uint8_t *p, __m128i mask, ptrdiff_t n) {
  uint8_t buffer[16] = {0};
  if (n < 16) p = memcpy(buffer, p, n);
  return _mm256_cvtepi8_epi16(_mm_xor_si128(_mm_loadu_si128((const __m128i *)p), mask));
}

static void depthwise_q8(const pl_dw_window *g, int flip, int w_zero, const void *w, const pl_columns *q, uint8_t *y) {
  const uint8_t *p[PL_MAX_TAPS + 1];
  const int taps = g->fh * g->fw, pairs = (taps + 1) / 2;
  const ptrdiff_t blocks = (g->c + NR - 1) / NR;
  const __m128i mask = _mm_set1_epi8((char)flip);
  const pl_columns own = *q;
  (void)w_zero;
  for (ptrdiff_t at = 0; at < g->pixels; at++, y += g->c) {
    pl_taps(g, at, 1, p);
    p[taps] = p[0]; /* its weights are zero */
    for (ptrdiff_t b = 0; b < blocks; b++) {
      const ptrdiff_t c = pl_block_start(b, NR, g->c), j = b * NR;
      const int32_t *wb = (const int32_t *)w + b * pairs * NR;
      __m256i acc0 = load(own.bias + j), acc1 = load(own.bias + j + LANES);
      for (int t = 0; t < pairs; t++, wb += NR) {
        __m256i a = tap(p[2 * t] + c, mask, g->c), d = tap(p[2 * t + 1] + c, mask, g->c);
        acc0 = _mm256_add_epi32(acc0, _mm256_madd_epi16(_mm256_unpacklo_epi16(a, d), load(wb)));
        acc1 = _mm256_add_epi32(acc1, _mm256_madd_epi16(_mm256_unpackhi_epi16(a, d), load(wb + LANES)));
      }
      acc0 = requantize(acc0, &own, j);
      acc1 = requantize(acc1, &own, j + LANES);
      store(y + c, narrow(_mm256_packs_epi32(acc0, acc1), &own), g->c);
    }
  }
}

void pl_fill_gemm_avx2(pl_slots *s);
void pl_fill_gemm_avx2(pl_slots *s) {
  s->strip_q8 = strip_q8;
  s->gemm_q8 = gemm_q8;
  s->gemm_s32 = gemm_s32;
  s->depthwise_q8 = depthwise_q8;
  s->q8 = (pl_tile){MR, NR, LANES, 2, 2, 2, 0, NULL, 0, 0};
  s->dw8 = (pl_tile){1, NR, NR, 2, 2, 2, 0, order, 0, 0};
}
