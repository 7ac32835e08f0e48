/* 8-bit matrix products for AVX2, whose instruction adds the products of two 16-bit numbers in each lane, and for
 * AVX-VNNI, whose instruction adds the products of four bytes.
 *
 * A panels, row after row, are int16 for AVX2, and x + 128 as unsigned bytes for AVX-VNNI; panels are
 * packed[k / KR][column][k % KR], of int8, with 16 columns, or 8 in the last one.  A step broadcasts KR elements of a
 * row, and multiplies them by those of each column.  The sums of a tile of up to six rows are stored, as
 * acc_rows[row][NR], and then finished by functions for any number of rows. */
#include "avx2.h"
#include "store_floats.h"

enum {
  MR = 6,    /* most rows of a tile */
  CHAINS = 4 /* independent sums for each column of a single row, so that none waits for the one before */
};

#if defined(__AVXVNNI__)
typedef uint8_t element; /* of an A panel */
enum { KR = 4, OFFSET = 128 };
PL_INLINE __m256i weights(const int8_t *w) { return _mm256_loadu_si256((const __m256i *)w); }

static void pack_a_q8(int rows, int segments, ptrdiff_t length, const uint8_t *const *src, int flip, void *a_panel,
                      ptrdiff_t depth) {
  const __m256i mask = _mm256_set1_epi8((char)(flip ^ 0x80));
  uint8_t *to = a_panel;
  for (int r = 0; r < rows; r++, to += depth) {
    uint8_t *d = to;
    for (int s = 0; s < segments; s++, d += length) {
      const uint8_t *from = *src++;
      ptrdiff_t i = 0;
      for (; i + 32 <= length; i += 32)
        _mm256_storeu_si256((__m256i *)(d + i),
                            _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)(from + i)), mask));
      for (; i + 4 <= length; i += 4) {
        uint32_t four;
        memcpy(&four, from + i, 4);
        four ^= 0x01010101u * (uint32_t)(flip ^ 0x80);
        memcpy(d + i, &four, 4);
      }
      for (; i < length; i++) d[i] = from[i] ^ (uint8_t)(flip ^ 0x80);
    }
    for (ptrdiff_t k = d - to; k < depth; k++) to[k] = 0;
  }
}

static void sums_q8(int rows, const pl_a_layout *layout, ptrdiff_t length, const void *a_panel, int32_t *sums) {
  for (int r = 0; r < rows; r++) {
    const uint8_t *a = (const uint8_t *)a_panel + r * layout->step;
    __m256i total = _mm256_setzero_si256();
    uint64_t lanes[4], sum = 0;
    for (int line = 0; line < layout->lines; line++, a += layout->pitch) {
      ptrdiff_t k = 0;
      for (; k + 32 <= length; k += 32)
        total = _mm256_add_epi64(total, _mm256_sad_epu8(_mm256_loadu_si256((const __m256i *)(a + k)),
                                                        _mm256_setzero_si256()));
      for (; k < length; k++) sum += a[k];
    }
    _mm256_storeu_si256((__m256i *)lanes, total);
    sums[r] = (int32_t)(sum + lanes[0] + lanes[1] + lanes[2] + lanes[3]);
  }
}
#else
typedef int16_t element; /* of an A panel */
enum { KR = 2, OFFSET = 0 };
/* acc += two numbers of x times two of w, in each lane. */
#define DOT(acc, x, w) acc = _mm256_add_epi32(acc, _mm256_madd_epi16(x, w))
PL_INLINE __m256i weights(const int8_t *w) { return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)w)); }

static void pack_a_q8(int rows, int segments, ptrdiff_t length, const uint8_t *const *src, int flip, void *a_panel,
                      ptrdiff_t depth) {
  const __m128i mask = _mm_set1_epi8((char)flip);
  for (int r = 0; r < rows; r++) {
    int16_t *to = (int16_t *)a_panel + r * depth;
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

static void sums_q8(int rows, const pl_a_layout *layout, ptrdiff_t length, const void *a_panel, int32_t *sums) {
  const __m256i ones = _mm256_set1_epi16(1);
  for (int r = 0; r < rows; r++) {
    const int16_t *a = (const int16_t *)a_panel + r * layout->step;
    __m256i total = _mm256_setzero_si256();
    int32_t sum = 0;
    for (int line = 0; line < layout->lines; line++, a += layout->pitch) {
      ptrdiff_t k = 0;
      for (; k + 16 <= length; k += 16)
        total = _mm256_add_epi32(total, _mm256_madd_epi16(_mm256_loadu_si256((const __m256i *)(a + k)), ones));
      if (k + 8 <= length) {
        const __m256i half = _mm256_zextsi128_si256(_mm_loadu_si128((const __m128i *)(a + k)));
        total = _mm256_add_epi32(total, _mm256_madd_epi16(half, ones));
        k += 8;
      }
      for (; k < length; k++) sum += a[k];
    }
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(total), _mm256_extracti128_si256(total, 1));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4E));
    sums[r] = sum + _mm_cvtsi128_si32(four) + _mm_extract_epi32(four, 1);
  }
}
#endif

/* Sets acc_rows to `start` plus R rows of an A panel times V vectors of columns. */
PL_INLINE void multiply(int R, int V, const pl_a_layout *layout, const element *a, const int8_t *w,
                        const int32_t *start, int32_t *acc_rows) {
  const ptrdiff_t depth = layout->depth, step = layout->step, pitch = layout->pitch;
  __m256i acc[MR][2];
#pragma GCC unroll 6
  for (int r = 0; r < R; r++)
#pragma GCC unroll 2
    for (int v = 0; v < V; v++) acc[r][v] = load(start + v * LANES);
#pragma GCC unroll 3
  for (int i = 1; R == 1 && i < CHAINS; i++) acc[i][0] = acc[i][1] = _mm256_setzero_si256();
  for (int line = layout->lines; line > 0; line--, a += pitch) {
    const element *upper = a + 3 * step;
    ptrdiff_t k = 0;
    for (; R == 1 && k + CHAINS * KR <= depth; k += CHAINS * KR, w += CHAINS * LANES * KR * V)
#pragma GCC unroll 4
      for (int i = 0; i < CHAINS; i++) {
        const __m256i x = broadcast32(a + k + i * KR);
#pragma GCC unroll 2
        for (int v = 0; v < V; v++) DOT(acc[i][v], x, weights(w + (i * V + v) * LANES * KR));
      }
    for (; k < depth; k += KR, w += LANES * KR * V) {
      const __m256i w0 = weights(w), w1 = V == 2 ? weights(w + LANES * KR) : w0;
#pragma GCC unroll 6
      for (int r = 0; r < R; r++) {
        const __m256i x = broadcast32((r < 3 ? a : upper) + r % 3 * step + k);
        DOT(acc[r][0], x, w0);
        if (V == 2) DOT(acc[r][1], x, w1);
      }
    }
  }
#pragma GCC unroll 3
  for (int i = 1; R == 1 && i < CHAINS; i++)
#pragma GCC unroll 2
    for (int v = 0; v < V; v++) acc[0][v] = _mm256_add_epi32(acc[0][v], acc[i][v]);
#pragma GCC unroll 6
  for (int r = 0; r < R; r++)
#pragma GCC unroll 2
    for (int v = 0; v < V; v++) _mm256_storeu_si256((__m256i *)(acc_rows + r * NR + v * LANES), acc[r][v]);
}
#define PART(R, V) \
  static __attribute__((noinline)) void part_##R##_##V(const pl_a_layout *layout, const element *a, const int8_t *w, \
                                                       const int32_t *start, int32_t *acc_rows) { \
    multiply(R, V, layout, a, w, start, acc_rows); \
  }
PART(3, 1)
PART(3, 2)
PART(6, 1)
PART(6, 2)
/* Sets acc_rows to the sums of up to MR rows and n columns; returns the number of rows done. */
static int tile_sums(int rows, int n, const pl_a_layout *layout, const element *a, const int8_t *w,
                     const int32_t *start, int32_t *acc_rows) {
  static void (*const part[])(const pl_a_layout *, const element *, const int8_t *, const int32_t *, int32_t *) = {
    part_3_1, part_3_2, part_6_1, part_6_2};
  const int full = rows <= 3 ? 3 : 6;
  part[2 * (full > 3) + (n > LANES)](layout, a, w, start, acc_rows);
  return rows < full ? rows : full;
}
/* tile_sums() for a single row. */
PL_INLINE void row_sums(int n, const pl_a_layout *layout, const element *a, const int8_t *w, const int32_t *start,
                        int32_t *acc_row) {
  if (n > LANES) multiply(1, 2, layout, a, w, start, acc_row);
  else multiply(1, 1, layout, a, w, start, acc_row);
}

/* Requantizes N <= 2 rows of sums to n bytes each; terms: a number for each row, added to its sums, or NULL. */
PL_INLINE void finish(int rounding, int N, int n, const int32_t *acc_rows, const int32_t *terms,
                      const pl_columns *q, ptrdiff_t j, uint8_t *y, ptrdiff_t ldy) {
  __m256i v[2][2];
#pragma GCC unroll 2
  for (int i = 0; i < N; i++) {
    v[i][0] = load(acc_rows + i * NR), v[i][1] = n > LANES ? load(acc_rows + i * NR + LANES) : v[i][0];
    if (terms)
      for (int k = 0; k < 2; k++) v[i][k] = _mm256_add_epi32(v[i][k], _mm256_set1_epi32(terms[i]));
    v[i][0] = requantize(rounding, v[i][0], q, j);
    v[i][1] = n > LANES ? requantize(rounding, v[i][1], q, j + LANES) : v[i][0]; /* may have no parameters */
    v[i][0] = _mm256_packs_epi32(v[i][0], v[i][1]);
  }
  const __m256i bytes = narrow(v[0][0], v[N - 1][0], q);
  store_lines(N, y, ldy, _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)), n);
}
/* finish() for any number of rows. */
PL_INLINE void finish_all(int rounding, int rows, int n, const int32_t *acc_rows, const int32_t *terms,
                          const pl_columns *q, ptrdiff_t j, uint8_t *y, ptrdiff_t ldy) {
  int r = 0;
  for (; r + 2 <= rows; r += 2)
    finish(rounding, 2, n, acc_rows + r * NR, terms ? terms + r : NULL, q, j, y + r * ldy, ldy);
  if (r < rows) finish(rounding, 1, n, acc_rows + r * NR, terms ? terms + r : NULL, q, j, y + r * ldy, ldy);
}

/* gemm_q8 for a single row and any number of columns. */
static void row_q8(int n, const pl_a_layout *layout, const element *a, const int8_t *w, const int32_t *terms,
                   const pl_columns *q, ptrdiff_t j, uint8_t *y) {
  const ptrdiff_t panel_depth = layout->lines * layout->depth;
  int32_t acc_row[NR];
  for (; n > 0; n -= NR, j += NR, y += NR, w += NR * panel_depth) {
    row_sums(n, layout, a, w, q->bias + j, acc_row);
    if (q->fit) finish(FIT, 1, n, acc_row, terms, q, j, y, 0);
    else finish(BY_RULE, 1, n, acc_row, terms, q, j, y, 0);
  }
}

static void gemm_q8(int rows, int n, const pl_a_layout *layout, const void *a_panel, const void *panel,
                    const int32_t *terms, const pl_columns *q, ptrdiff_t j, uint8_t *y, ptrdiff_t ldy) {
  int32_t acc_rows[MR * NR];
  const pl_columns local = *q; /* a copy, so that the compiler knows that stores to y do not change it */
  const int rounding = rounding_of(&local);
  if (rows == 1) {
    row_q8(n, layout, a_panel, panel, terms, &local, j, y);
    return;
  }
  for (int r = 0, m; r < rows; r += m) {
    m = tile_sums(rows - r, n, layout, (const element *)a_panel + r * layout->step, panel, local.bias + j, acc_rows);
    const int32_t *own_terms = terms ? terms + r : NULL;
    if (rounding == FIT_RELU) finish_all(FIT_RELU, m, n, acc_rows, own_terms, &local, j, y + r * ldy, ldy);
    else if (rounding == FIT) finish_all(FIT, m, n, acc_rows, own_terms, &local, j, y + r * ldy, ldy);
    else finish_all(BY_RULE, m, n, acc_rows, own_terms, &local, j, y + r * ldy, ldy);
  }
}

/* acc += acc_row, for n columns. */
PL_INLINE void add_row(int n, const int32_t *acc_row, int32_t *acc) {
  int k = 0;
  for (; k + LANES <= n; k += LANES)
    _mm256_storeu_si256((__m256i *)(acc + k), _mm256_add_epi32(load(acc + k), load(acc_row + k)));
  for (; k < n; k++) acc[k] += acc_row[k];
}

static const int32_t zeros[NR];

static void gemm_s32(int rows, int n, const pl_a_layout *layout, const void *a_panel, const void *panel, int32_t *acc,
                     ptrdiff_t lda) {
  int32_t acc_rows[MR * NR];
  if (rows == 1) {
    const int8_t *w = panel;
    for (; n > 0; n -= NR, acc += NR, w += NR * layout->lines * layout->depth) {
      row_sums(n, layout, a_panel, w, zeros, acc_rows);
      add_row(n < NR ? n : NR, acc_rows, acc);
    }
    return;
  }
  for (int r = 0, m; r < rows; r += m) {
    m = tile_sums(rows - r, n, layout, (const element *)a_panel + r * layout->step, panel, zeros, acc_rows);
    for (int i = 0; i < m; i++) add_row(n, acc_rows + i * NR, acc + (r + i) * lda);
  }
}

/* A mask of the first n lanes. */
PL_INLINE __m256i first_lanes(int n) {
  static const int32_t lanes[2 * LANES] = {-1, -1, -1, -1, -1, -1, -1, -1};
  return load(lanes + LANES - (n < LANES ? n : LANES));
}

/* Finishes rows of sums as finish_hybrid does. */
PL_INLINE void finish_floats(int rows, int n, const int32_t *acc_rows, const int32_t *terms, const float *row_scales,
                             const pl_hybrid *h, ptrdiff_t j, float *y, ptrdiff_t ldy) {
  const __m256 low = _mm256_set1_ps(h->low), high = _mm256_set1_ps(h->high), one = _mm256_set1_ps(1);
  for (int c = 0; c < n; c += LANES) {
    const __m256i part = first_lanes(n - c), sums = _mm256_maskload_epi32(h->sums + j + c, part);
    const __m256 scale = _mm256_maskload_ps(h->scale + j + c, part);
    const __m256 bias = h->bias ? _mm256_maskload_ps(h->bias + j + c, part) : _mm256_setzero_ps();
    for (int r = 0; r < rows; r++) {
      const __m256i term = _mm256_mullo_epi32(_mm256_set1_epi32(terms[r]), sums);
      const __m256 row_scale = _mm256_set1_ps(row_scales[r]);
      const __m256 first = _mm256_mul_ps(h->column_first ? one : row_scale, scale);
      const __m256 then = h->column_first ? row_scale : one;
      __m256 x = _mm256_cvtepi32_ps(_mm256_sub_epi32(load(acc_rows + r * NR + c), term));
      x = _mm256_add_ps(_mm256_mul_ps(_mm256_mul_ps(x, first), then), bias);
      x = _mm256_min_ps(high, _mm256_max_ps(low, x));
      store_floats(y + r * ldy + c, x, n - c);
    }
  }
}

static void gemm_hybrid(const pl_slots *table, int rows, int n, const pl_a_layout *layout, const void *a_panel,
                        const void *panel, const int32_t *terms, const float *row_scales, const pl_hybrid *h,
                        ptrdiff_t j, float *y, ptrdiff_t ldy) {
  const pl_hybrid results = *h; /* a copy, so that the compiler knows that stores to y do not change it */
  const int8_t *w = panel;
  int32_t acc_rows[MR * NR];
  (void)table;
  if (rows == 1) {
    for (; n > 0; n -= NR, j += NR, y += NR, w += NR * layout->lines * layout->depth) {
      row_sums(n, layout, a_panel, w, zeros, acc_rows);
      finish_floats(1, n < NR ? n : NR, acc_rows, terms, row_scales, &results, j, y, ldy);
    }
    return;
  }
  for (int r = 0, m; r < rows; r += m) {
    m = tile_sums(rows - r, n, layout, (const element *)a_panel + r * layout->step, w, zeros, acc_rows);
    finish_floats(m, n, acc_rows, terms + r, row_scales + r, &results, j, y + r * ldy, ldy);
  }
}

/* The portable gemm_blocks, for blocks of any depth. */
void pl_fill_portable_avx2(pl_slots *s);
static void (*portable_blocks)(const pl_slots *table, int rows, int n, const pl_blocks *b, ptrdiff_t j,
                               const uint8_t *x, const int32_t *zero_points, const float *row_scales, float *y);

/* Adds the sums of one block of the depth to total[row][NR].  The share of the zero points is subtracted; the rest is
 * multiplied by the scales of the block and the factors of the rows. */
PL_INLINE void add_block(int rows, int V, const int32_t *acc_rows, const int32_t *zero_points, const float *factors,
                         const int32_t *sums, const float *scale, float *total) {
#pragma GCC unroll 2
  for (int v = 0; v < V; v++) {
    const __m256i all = load(sums + v * LANES);
    const __m256 scales = _mm256_loadu_ps(scale + v * LANES);
    for (int r = 0; r < rows; r++) {
      float *to = total + r * NR + v * LANES;
      const __m256i term = _mm256_mullo_epi32(_mm256_set1_epi32(zero_points[r] + OFFSET), all);
      const __m256 sum = _mm256_cvtepi32_ps(_mm256_sub_epi32(load(acc_rows + r * NR + v * LANES), term));
      const __m256 factor = _mm256_mul_ps(_mm256_set1_ps(factors[r]), scales);
      _mm256_storeu_ps(to, _mm256_add_ps(_mm256_loadu_ps(to), _mm256_mul_ps(sum, factor)));
    }
  }
}

static const float ones[PL_BLOCK_ROWS] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

static void gemm_blocks(const pl_slots *table, int rows, int n, const pl_blocks *b, ptrdiff_t j, const uint8_t *x,
                        const int32_t *zero_points, const float *row_scales, float *y) {
  element packed[PL_BLOCK_ROWS * PL_DEPTH + PL_SLACK];
  const uint8_t *src[PL_BLOCK_ROWS];
  int32_t acc_rows[MR * NR];
  float total[PL_BLOCK_ROWS * NR];
  const ptrdiff_t width = b->padded_columns - j < NR ? b->padded_columns - j : NR, size = b->depth / b->blocks;
  const pl_a_layout layout = pl_packed_layout(b->padded_depth);
  if (b->padded_depth > PL_DEPTH) {
    portable_blocks(table, rows, n, b, j, x, zero_points, row_scales, y);
    return;
  }
  const float *factors = b->blocks == 1 ? row_scales : ones;
  for (int k = 0; k < rows * NR; k++) total[k] = 0;
  for (ptrdiff_t i = 0; i < b->blocks; i++) {
    const ptrdiff_t offset = pl_block_offset(b, width, i, j);
    const int8_t *w = (const int8_t *)b->panels + offset * b->padded_depth;
    for (int r = 0; r < rows; r++) src[r] = x + r * b->depth + i * size;
    pack_a_q8(rows, 1, size, src, table->q8.row_offset, packed, b->padded_depth);
    for (int r = 0, m; r < rows; r += m) {
      m = rows == 1 ? 1 : tile_sums(rows - r, n, &layout, packed + r * b->padded_depth, w, zeros, acc_rows);
      if (rows == 1) row_sums(n, &layout, packed, w, zeros, acc_rows);
      float *to = total + r * NR;
      if (n > LANES) add_block(m, 2, acc_rows, zero_points + r, factors + r, b->sums + offset, b->scale + offset, to);
      else add_block(m, 1, acc_rows, zero_points + r, factors + r, b->sums + offset, b->scale + offset, to);
    }
  }
  const __m256 low = _mm256_set1_ps(b->low), high = _mm256_set1_ps(b->high);
  if (b->blocks == 1) row_scales = ones;
  for (int c = 0; c < n; c += LANES) {
    const __m256i part = first_lanes(n - c);
    const __m256 bias = b->bias ? _mm256_maskload_ps(b->bias + j + c, part) : _mm256_setzero_ps();
    for (int r = 0; r < rows; r++) {
      const __m256 sum = _mm256_mul_ps(_mm256_loadu_ps(total + r * NR + c), _mm256_set1_ps(row_scales[r]));
      store_floats(y + r * b->columns + c, _mm256_min_ps(high, _mm256_max_ps(low, _mm256_add_ps(sum, bias))), n - c);
    }
  }
}

PL_FILL(gemm_avx2, s) {
  pl_slots portable;
  pl_fill_portable_avx2(&portable);
  portable_blocks = portable.gemm_blocks;
  s->pack_a_q8 = pack_a_q8;
  s->gemm_q8 = gemm_q8;
  s->gemm_s32 = gemm_s32;
  s->gemm_hybrid = gemm_hybrid;
  s->gemm_blocks = gemm_blocks;
  s->sums_q8 = sums_q8;
  s->q8 = (pl_tile){.mr = MR, .nr = NR, .nv = LANES, .kr = KR, .ka = KR, .bytes = sizeof(element), .offset = OFFSET,
                    .any_n = 1};
}
