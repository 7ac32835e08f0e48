/* The rarer products; included by portable.c alone: sums of int16 (gemm_s64) and how sums become int16 (finish_mbqm64,
 * finish_mbqm32, finish_f64); quantization of float rows and products with integer weights (quantize_rows, gemm_hybrid,
 * gemm_blocks, scaled_sums).  gemm.h describes each slot. */
#include "rounding.h"

/* COLUMNS neighbouring columns at once, whose sums are independent. */
#define PRODUCT_S64(COLUMNS) \
  for (; n >= COLUMNS; n -= COLUMNS, w += COLUMNS * ldw, acc += COLUMNS) \
    for (ptrdiff_t k0 = 0; k0 < depth; k0 += chunk) { \
      const ptrdiff_t m = chunk < depth - k0 ? chunk : depth - k0; \
      int32_t part[COLUMNS] = {0}; \
      for (ptrdiff_t k = k0; k < k0 + m; k++) \
        PL_UNROLL for (int i = 0; i < COLUMNS; i++) part[i] += x[k] * w[i * ldw + k]; \
      for (int i = 0; i < COLUMNS; i++) acc[i] += part[i]; \
    }
#if defined(__AVX2__)
#if defined(__AVX512VNNI__)
#define ADD_PAIRS(sum, x, y) _mm256_dpwssd_epi32(sum, x, y)
#else
#define ADD_PAIRS(sum, x, y) _mm256_add_epi32(sum, _mm256_madd_epi16(x, y))
#endif
/* Four columns at once. */
#define FOUR_PRODUCTS_S64 \
  for (; n >= 4; n -= 4, w += 4 * ldw, acc += 4) { \
    __m256i total = _mm256_loadu_si256((const __m256i *)acc); \
    for (ptrdiff_t k0 = 0; k0 < depth; k0 += chunk) { \
      const int16_t *p = x + k0, *c = w + k0, *d = c + 2 * ldw, *end = x + (chunk < depth - k0 ? k0 + chunk : depth); \
      __m256i part[4] = {0}; \
      for (; p < end; p += 16, c += 16, d += 16) { \
        const __m256i row = _mm256_loadu_si256((const __m256i *)p); \
        part[0] = ADD_PAIRS(part[0], row, _mm256_loadu_si256((const __m256i *)c)); \
        part[1] = ADD_PAIRS(part[1], row, _mm256_loadu_si256((const __m256i *)(c + ldw))); \
        part[2] = ADD_PAIRS(part[2], row, _mm256_loadu_si256((const __m256i *)d)); \
        part[3] = ADD_PAIRS(part[3], row, _mm256_loadu_si256((const __m256i *)(d + ldw))); \
      } \
      const __m256i low = _mm256_hadd_epi32(part[0], part[1]), high = _mm256_hadd_epi32(part[2], part[3]); \
      const __m256i sums = _mm256_hadd_epi32(low, high); \
      const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1)); \
      total = _mm256_add_epi64(total, _mm256_cvtepi32_epi64(four)); \
    } \
    _mm256_storeu_si256((__m256i *)acc, total); \
  }
#else
#define FOUR_PRODUCTS_S64 PRODUCT_S64(4)
#endif
static void row_s64(int n, ptrdiff_t depth, const int16_t *x, const int16_t *w, ptrdiff_t ldw, ptrdiff_t chunk,
                    int64_t *acc) {
  FOUR_PRODUCTS_S64
  PRODUCT_S64(1)
}
static void gemm_s64(int rows, int n, ptrdiff_t depth, const int16_t *a, const int16_t *w, ptrdiff_t ldw,
                     ptrdiff_t chunk, int64_t *acc, ptrdiff_t lda) {
  for (int r = 0; r < rows; r++, a += depth, acc += lda) {
    if (chunk > 1) row_s64(n, depth, a, w, ldw, chunk, acc);
    for (int j = 0; j < n && chunk == 1; j++) {
      const int16_t *column = w + j * ldw;
      int64_t sum = 0;
      for (ptrdiff_t k = 0; k < depth; k++) sum += (int64_t)a[k] * column[k];
      acc[j] += sum;
    }
  }
}

static void finish_mbqm64(int n, const int64_t *acc, const int64_t *bias, const int32_t *mult, const int32_t *shift,
                          int low, int high, int16_t *y) {
  for (int j = 0; j < n; j++) {
    int32_t v = pl_mbqm64(acc[j] + (bias ? bias[j] : 0), pl_multiplier16(mult[j]), shift[j]);
    y[j] = (int16_t)pl_clamp32(v, low, high);
  }
}

static void finish_mbqm32(int n, const int64_t *acc, const int64_t *bias, const int32_t *mult, const int32_t *shift,
                          int low, int high, int16_t *y) {
  for (int j = 0; j < n; j++) {
    int32_t v = pl_mbqm32((int32_t)(acc[j] + (bias ? bias[j] : 0)), mult[j], shift[j]);
    y[j] = (int16_t)pl_clamp32(v, low, high);
  }
}

#if defined(__AVX2__)
/* pl_round_away64() of four sums times their scales. */
PL_INLINE __m128i scaled_f64(__m256d sums, const double *scale) {
  const __m256d v = _mm256_mul_pd(sums, _mm256_loadu_pd(scale)), sign = _mm256_and_pd(v, _mm256_set1_pd(-0.0));
  return _mm256_cvttpd_epi32(_mm256_add_pd(v, _mm256_or_pd(sign, _mm256_set1_pd(0.49999999999999994))));
}
PL_INLINE __m128i clamp_four(__m128i v, int low, int high) {
  return _mm_min_epi32(_mm_max_epi32(v, _mm_set1_epi32(low)), _mm_set1_epi32(high));
}

/* finish_f64() of the first columns, as many as it returns: all fours of them if sums have at most 52 bits. */
static int fours_f64(int n, const int64_t *acc, const int64_t *bias, int wrap, const double *scale, int zero_point,
                     int low, int high, int16_t *y) {
  const __m256i even = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
  int j = 0;
  for (; j + 4 <= n; j += 4) {
    __m256i sum = _mm256_loadu_si256((const __m256i *)(acc + j));
    if (bias) sum = _mm256_add_epi64(sum, _mm256_loadu_si256((const __m256i *)(bias + j)));
    __m256d real = _mm256_cvtepi32_pd(_mm256_castsi256_si128(_mm256_permutevar8x32_epi32(sum, even)));
    if (!wrap) { /* 2^52 + 2^51 + sum, whose last bits are those of the sum */
      sum = _mm256_add_epi64(sum, _mm256_set1_epi64x(1ll << 51));
      if (!_mm256_testz_si256(sum, _mm256_set1_epi64x(-1ll << 52))) break;
      sum = _mm256_or_si256(sum, _mm256_castpd_si256(_mm256_set1_pd(0x1p52)));
      real = _mm256_sub_pd(_mm256_castsi256_pd(sum), _mm256_set1_pd(0x1.8p52));
    }
    const __m128i v = clamp_four(scaled_f64(real, scale + j), low - zero_point, high - zero_point);
    _mm_storel_epi64((__m128i *)(y + j), _mm_packs_epi32(_mm_add_epi32(v, _mm_set1_epi32(zero_point)), v));
  }
  return j;
}
#endif
static void finish_f64(int n, const int64_t *acc, const int64_t *bias, int wrap, const double *scale, int zero_point,
                       int low, int high, int16_t *y) {
  int j = 0;
#if defined(__AVX2__)
  j = fours_f64(n, acc, bias, wrap, scale, zero_point, low, high, y);
#endif
  for (; j < n; j++) {
    int64_t sum = acc[j] + (bias ? bias[j] : 0);
    __asm__("" : "+r"(sum)); /* not vectorised: eight kilobytes of code would be no faster for a few columns */
    int64_t v = (int64_t)pl_scale_f64(wrap ? (int32_t)sum : sum, scale[j]) + zero_point;
    y[j] = (int16_t)(v < low ? low : v > high ? high : v);
  }
}

static void finish_f64_q8(int n, const int32_t *acc, const int32_t *start, int32_t term, const double *scale,
                          int zero_point, int low, int high, int flip, uint8_t *y) {
  int j = 0;
#if defined(__AVX2__)
  for (; j + 4 <= n; j += 4) {
    const __m128i a = _mm_loadu_si128((const __m128i *)(acc + j)), b = _mm_loadu_si128((const __m128i *)(start + j));
    const __m128i sum = _mm_add_epi32(_mm_add_epi32(a, b), _mm_set1_epi32(term));
    const __m128i v = scaled_f64(_mm256_cvtepi32_pd(sum), scale + j);
    const __m128i r = clamp_four(_mm_add_epi32(v, _mm_set1_epi32(zero_point)), low, high);
    const __m128i bytes = _mm_shuffle_epi8(r, _mm_set1_epi32(0x0c080400));
    const int32_t four = _mm_cvtsi128_si32(bytes) ^ flip * 0x01010101;
    memcpy(y + j, &four, sizeof four);
  }
#endif
  for (; j < n; j++) {
    int32_t sum = (int32_t)((uint32_t)acc[j] + (uint32_t)start[j] + (uint32_t)term);
    int32_t v = (int32_t)((uint32_t)pl_scale_f64(sum, scale[j]) + (uint32_t)zero_point); /* INT32_MIN may wrap */
    y[j] = (uint8_t)(pl_clamp32(v, low, high) ^ flip);
  }
}

PL_LOOSE_BEGIN
/* Ignores NaN. */
static __attribute__((noinline)) void range_f32(ptrdiff_t n, const float *x, float *low, float *high) {
  float least[16] = {0}, most[16] = {0};
  ptrdiff_t i = 0;
#if defined(__AVX2__) && defined(__FMA__)
  vf l0 = V_ALL(0.0f), l1 = l0, h0 = l0, h1 = l0;
  for (; i + 2 * V_WIDTH <= n; i += 2 * V_WIDTH) {
    const vf a = V(loadu_ps)(x + i), b = V(loadu_ps)(x + i + V_WIDTH);
    l0 = V(min_ps)(a, l0), l1 = V(min_ps)(b, l1);
    h0 = V(max_ps)(a, h0), h1 = V(max_ps)(b, h1);
  }
  V(storeu_ps)(least, V(min_ps)(l0, l1));
  V(storeu_ps)(most, V(max_ps)(h0, h1));
#endif
  for (; i + 16 <= n; i += 16)
    for (int j = 0; j < 16; j++) {
      least[j] = x[i + j] < least[j] ? x[i + j] : least[j];
      most[j] = x[i + j] > most[j] ? x[i + j] : most[j];
    }
  for (; i < n; i++) {
    least[0] = x[i] < least[0] ? x[i] : least[0];
    most[0] = x[i] > most[0] ? x[i] : most[0];
  }
#define HALVE(half) \
  for (int j = 0; j < half; j++) { \
    least[j] = least[j + half] < least[j] ? least[j + half] : least[j]; \
    most[j] = most[j + half] > most[j] ? most[j + half] : most[j]; \
  }
  HALVE(8) HALVE(4) HALVE(2) HALVE(1)
#undef HALVE
  *low = least[0];
  *high = most[0];
}

#if !(defined(__AVX2__) && defined(__FMA__))
static __attribute__((noinline)) void quantize_s8(ptrdiff_t n, const float *x, float inverse, int zero, int asymmetric,
                                                  int flip, uint8_t *y) {
  const int low = asymmetric ? -128 : -127;
  for (ptrdiff_t i = 0; i < n; i++)
    y[i] = (uint8_t)(pl_clamp32(zero + pl_round_half32(x[i] * inverse), low, 127) ^ flip);
}
#endif
static void quantize_whole(ptrdiff_t n, const float *x, float inverse, int zero, float *restrict y) {
  const int low = -128 - zero, high = 127 - zero;
  for (ptrdiff_t i = 0; i < n; i++) y[i] = (float)pl_clamp32(pl_round_half32(x[i] * inverse), low, high);
}

PL_LOOSE_END
/* On AVX-512 the parameters of 16 rows are computed at once, because of their divisions. */
static void quantize_rows(ptrdiff_t rows, ptrdiff_t n, const float *x, ptrdiff_t step, int asymmetric, int flip,
                          uint8_t *y, float *scales, int32_t *zeros) {
#if defined(__AVX512F__)
  enum { ROWS = 16 };
#else
  enum { ROWS = 1 };
#endif
  float low[ROWS] = {0}, high[ROWS] = {0}, scale[ROWS], inverse[ROWS];
  int32_t zero[ROWS];
  for (; rows > 0; rows -= ROWS, x += ROWS * step, scales += ROWS, zeros += ROWS) {
    const int m = rows < ROWS ? (int)rows : ROWS;
    for (int r = 0; r < m; r++) range_f32(n, x + r * step, low + r, high + r);
    if (m == 1) zero[0] = pl_quantization(low[0], high[0], asymmetric, scale, inverse);
    else
      for (int r = 0; r < ROWS; r++) zero[r] = pl_quantization(low[r], high[r], asymmetric, scale + r, inverse + r);
    memcpy(scales, scale, m * sizeof *scale);
    memcpy(zeros, zero, m * sizeof *zero);
    for (int r = 0; r < m; r++, y += n) quantize_s8(n, x + r * step, inverse[r], zero[r], asymmetric, flip, y);
  }
}

PL_LOOSE_BEGIN
static void finish_hybrid(int n, const int32_t *acc, int32_t term, const int32_t *sums, const float *scale,
                          float row_scale, int column_first, const float *bias, float low, float high, float *y) {
  const float first = column_first ? 1 : row_scale, then = column_first ? row_scale : 1; /* multiplying by 1 is exact */
  PL_INDEPENDENT /* y may be the bias */
  for (int j = 0; j < n; j++) {
    float v = (float)(int32_t)((uint32_t)acc[j] - (uint32_t)term * (uint32_t)sums[j]) * (first * scale[j]) * then;
    if (bias) v += bias[j];
    y[j] = pl_clampf(v, low, high);
  }
}

/* Computes sums on the stack, then finishes them row by row. */
static void gemm_hybrid(const pl_slots *table, int rows, int n, const pl_a_layout *layout, const void *a_panel,
                        const void *panel, const int32_t *terms, const float *row_scales, const pl_hybrid *h,
                        ptrdiff_t j, float *y, ptrdiff_t ldy) {
  enum { ROWS = 16, COLUMNS = 64 }; /* most of these at a time */
  int32_t acc[ROWS * COLUMNS];
  const int together = ROWS / table->q8.mr * table->q8.mr;
  for (; n > COLUMNS; n -= COLUMNS, j += COLUMNS, y += COLUMNS) { /* only a single row has so many columns */
    gemm_hybrid(table, 1, COLUMNS, layout, a_panel, panel, terms, row_scales, h, j, y, ldy);
    panel = (const char *)panel + COLUMNS * layout->lines * layout->depth;
  }
  for (int r = 0; r < rows; r += together) {
    const int m = rows - r < together ? rows - r : together;
    memset(acc, 0, m * COLUMNS * sizeof *acc);
    table->gemm_s32(m, n, layout, (const char *)a_panel + r * layout->step * table->q8.bytes, panel, acc, COLUMNS);
    for (int i = r; i < r + m; i++)
      finish_hybrid(n, acc + (i - r) * COLUMNS, terms[i], h->sums + j, h->scale + j, row_scales[i], h->column_first,
                    h->bias ? h->bias + j : NULL, h->low, h->high, y + i * ldy);
  }
}

static void gemm_blocks(const pl_slots *table, int rows, int n, const pl_blocks *b, ptrdiff_t j, const uint8_t *x,
                        const int32_t *zero_points, const float *row_scales, float *y) {
  enum { COLUMNS = 64, EXTRA_ROWS = 15 }; /* EXTRA_ROWS: rows beyond the last one that products may read */
  const pl_tile *t = &table->q8;
  int32_t acc[PL_BLOCK_ROWS * COLUMNS];
  float total[PL_BLOCK_ROWS * COLUMNS] = {0};
  uint8_t a_panel[2 * (PL_BLOCK_ROWS + EXTRA_ROWS) * PL_DEPTH + 2 * PL_SLACK];
  const uint8_t *src[PL_BLOCK_ROWS];
  const ptrdiff_t width = b->padded_columns - j < t->nr ? b->padded_columns - j : t->nr, size = b->depth / b->blocks;
  const int one_block = b->blocks == 1;
  for (ptrdiff_t i = 0; i < b->blocks; i++) {
    const ptrdiff_t offset = pl_block_offset(b, width, i, j);
    for (int r = 0; r < rows; r++) memset(acc + r * COLUMNS, 0, n * sizeof *acc);
    for (ptrdiff_t k = 0; k < size; k += PL_DEPTH) {
      const ptrdiff_t piece = size - k < PL_DEPTH ? size - k : PL_DEPTH;
      const pl_a_layout layout = pl_packed_layout((piece + t->ka - 1) / t->ka * t->ka);
      for (int r = 0; r < rows; r++) src[r] = x + r * b->depth + i * size + k;
      table->pack_a_q8(rows, 1, piece, src, t->row_offset, a_panel, layout.depth);
      table->gemm_s32(rows, n, &layout, a_panel, b->panels + offset * b->padded_depth + k * width, acc, COLUMNS);
    }
    for (int r = 0; r < rows; r++)
      finish_hybrid(n, acc + r * COLUMNS, zero_points[r] + t->offset, b->sums + offset, b->scale + offset,
                    one_block ? row_scales[r] : 1, 0, total + r * COLUMNS, -INFINITY, INFINITY, total + r * COLUMNS);
  }
  for (int r = 0; r < rows; r++, y += b->columns)
    for (int c = 0; c < n; c++) {
      float v = total[r * COLUMNS + c] * (one_block ? 1 : row_scales[r]);
      if (b->bias) v += b->bias[j + c];
      v = v < b->low ? b->low : v;
      y[c] = v > b->high ? b->high : v;
    }
}

/* Sets a to the elements of x that differ from `zero`, less `zero`, and places to their indices; returns how many. */
static inline int nonzero(int n, const uint8_t *x, int zero, float *a, int32_t *places) {
  int count = 0, k = 0;
#if defined(__AVX512F__)
  const __m512i z = _mm512_set1_epi32(zero);
  __m512i place = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  for (; k + 16 <= n; k += 16, place = _mm512_add_epi32(place, _mm512_set1_epi32(16))) {
    const __m512i v = _mm512_sub_epi32(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(x + k))), z);
    const __mmask16 some = _mm512_test_epi32_mask(v, v);
    _mm512_storeu_ps(a + count, _mm512_maskz_compress_ps(some, _mm512_cvtepi32_ps(v)));
    _mm512_storeu_si512(places + count, _mm512_maskz_compress_epi32(some, place));
    count += __builtin_popcount(some);
  }
#endif
  for (; k < n; k++) {
    const int v = (int8_t)x[k] - zero;
    a[count] = (float)v, places[count] = k;
    count += v != 0;
  }
  return count;
}

typedef struct { /* of scaled_sums */
  int count, first, last;
  const float *a;
  const int32_t *places;
  float row_scale, low, high;
  ptrdiff_t ldw;
} scaled_row;

/* scaled_sums for N columns, a constant, of which n are in use; sums stay in registers. */
PL_INLINE void scaled_columns(int N, int n, const scaled_row *c, const float *w, const float *scale, const float *bias,
                              float *y) {
  const float row_scale = c->row_scale, low = c->low, high = c->high;
  float s[2 * PL_SCALED], sum[2 * PL_SCALED] = {0};
  for (int j = 0; j < N; j++) s[j] = scale[j];
  if (!c->first) memcpy(sum, y, n * sizeof *y);
  for (int i = 0; i < c->count; i++) {
    const float a = c->a[i], *v = w + c->places[i] * c->ldw;
    for (int j = 0; j < N; j++) sum[j] += a * v[j] * s[j] * row_scale;
  }
  if (c->last)
    for (int j = 0; j < N; j++) sum[j] = pl_clampf(sum[j] + bias[j], low, high);
  if (n == N) memcpy(y, sum, N * sizeof *y);
  else memcpy(y, sum, n * sizeof *y);
}

/* Skips elements equal to the zero point: half of all elements, after a RELU. */
static void scaled_sums(int n, int depth, const uint8_t *x, int zero, const float *w, ptrdiff_t ldw,
                        const float *scale, float row_scale, int first, int last, const float *bias, float low,
                        float high, float *y) {
  enum { N = PL_SCALED };
  float a[PL_DEPTH + 16];
  int32_t places[PL_DEPTH + 16];
  const scaled_row c = {nonzero(depth, x, zero, a, places), first, last, a, places, row_scale, low, high, ldw};
  int j = 0;
  for (; n - j > N; j += 2 * N)
    scaled_columns(2 * N, n - j < 2 * N ? n - j : 2 * N, &c, w + j, scale + j, bias + j, y + j);
  if (j < n) scaled_columns(N, n - j, &c, w + j, scale + j, bias + j, y + j);
}
PL_LOOSE_END
