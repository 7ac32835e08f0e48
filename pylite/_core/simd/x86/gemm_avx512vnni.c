/* 8-bit matrix products for AVX-512 with VNNI: an instruction adds the products of four bytes in each of 16 lanes.
 *
 * A panels hold x + 128 as unsigned bytes, row after row; panels are packed[k / 4][column][k % 4], of int8, with up to
 * 64 columns.  A step broadcasts four bytes of a row, and multiplies them by those of each column.  Tiles have as
 * many rows as registers can hold sums of, see PARTS.  The bias makes up for the offset of 128. */
#include "avx512vnni.h"

enum { MR = 12 }; /* most rows of a tile */

/* Full vectors are stored: the next segment or row overwrites the excess. */
static void pack_a_q8(int rows, int segments, ptrdiff_t length, const uint8_t *const *src, int flip, void *a_panel,
                      ptrdiff_t depth) {
  const __m512i mask = _mm512_set1_epi8((char)(flip ^ 0x80));
  const ptrdiff_t whole = length & ~(ptrdiff_t)63;
  const __mmask64 rest = first_bytes(length - whole);
  uint8_t *to = a_panel;
  for (int r = 0; r < rows; r++, to += depth) {
    uint8_t *d = to;
    for (int s = 0; s < segments; s++, d += length) {
      const uint8_t *from = *src++;
      for (ptrdiff_t i = 0; i < whole; i += 64)
        _mm512_storeu_si512(d + i, _mm512_xor_si512(_mm512_loadu_si512(from + i), mask));
      const __m512i v = _mm512_xor_si512(_mm512_maskz_loadu_epi8(rest, from + whole), mask);
      if (length - whole > 32) _mm512_storeu_si512(d + whole, v);
      else if (length - whole > 16) _mm256_storeu_si256((__m256i *)(d + whole), _mm512_castsi512_si256(v));
      else if (rest) _mm_storeu_si128((__m128i *)(d + whole), _mm512_castsi512_si128(v));
    }
    for (ptrdiff_t k = d - to; k < depth; k++) to[k] = 0;
  }
}

void pl_requantize_lines(int rows, int n, const int32_t *acc, ptrdiff_t step, int linear, const pl_columns *q,
                         ptrdiff_t j, uint8_t *y, ptrdiff_t ldy) {
  const ends e = ends_of(q);
  const __m512i nudge = _mm512_set1_epi64(1 << 30);
  for (int r = 0; r < rows; r++, acc += step, y += ldy) {
    __m512i v[4];
    for (int i = 0; i < 4; i++) {
      const ptrdiff_t column = j + i * LANES;
      if (i * LANES >= n && linear) { /* there may be no parameters for these columns */
        v[i] = nudge;
        continue;
      }
      __m512i x = _mm512_loadu_si512(acc + i * LANES);
      if (q->left) x = _mm512_sllv_epi32(x, _mm512_loadu_si512(q->left + column));
      __m512i even = _mm512_mul_epi32(x, _mm512_loadu_si512(q->mult + column));
      __m512i odd = _mm512_mul_epi32(_mm512_srli_epi64(x, 32), _mm512_loadu_si512(q->odd + column));
      even = _mm512_srli_epi64(_mm512_add_epi64(even, nudge), 31);
      odd = _mm512_slli_epi64(_mm512_add_epi64(odd, nudge), 1);
      x = _mm512_mask_mov_epi32(even, 0xAAAA, odd);
      __m512i negative = _mm512_srlv_epi32(x, _mm512_loadu_si512(q->sign + column));
      const __m512i right = _mm512_loadu_si512(q->right + column);
      const __m512i sum = _mm512_sub_epi32(_mm512_add_epi32(x, _mm512_loadu_si512(q->half + column)), negative);
      /* if x is not negative, the sum may reach 2^31: it is unsigned */
      v[i] = _mm512_mask_srav_epi32(_mm512_srlv_epi32(sum, right), _mm512_movepi32_mask(x), sum, right);
    }
    __m512i bytes = narrow(0, v[0], v[1], v[2], v[3], &e);
    store(4, y, linear ? in_order(bytes) : bytes, n);
  }
}

/* The sum of all lanes of each of four vectors. */
PL_INLINE __m128i four_sums(__m512i a, __m512i b, __m512i c, __m512i d) {
  __m512i ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
  __m512i cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
  __m512i v = _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
  __m256i w = _mm256_add_epi32(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64(v, 1));
  return _mm_add_epi32(_mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1));
}

static void sums_q8(int rows, const pl_a_layout *layout, ptrdiff_t length, const void *a_panel, int32_t *sums) {
  const ptrdiff_t whole = length & ~(ptrdiff_t)63;
  const __mmask64 rest = first_bytes(length - whole);
  const __m512i ones = _mm512_set1_epi8(1);
  for (int r0 = 0; r0 < rows; r0 += 4) {
    const int n = rows - r0 < 4 ? rows - r0 : 4;
    __m512i sum[4];
#pragma GCC unroll 4
    for (int r = 0; r < 4; r++) {
      const uint8_t *a = (const uint8_t *)a_panel + (r0 + (r < n ? r : 0)) * layout->step;
      sum[r] = _mm512_setzero_si512();
      for (int line = 0; line < layout->lines; line++, a += layout->pitch) {
        for (ptrdiff_t k = 0; k < whole; k += 64) DOT(sum[r], _mm512_loadu_si512(a + k), ones);
        if (rest) DOT(sum[r], _mm512_maskz_loadu_epi8(rest, a + whole), ones);
      }
    }
    _mm_mask_storeu_epi32(sums + r0, (__mmask8)((1 << n) - 1), four_sums(sum[0], sum[1], sum[2], sum[3]));
  }
}

PL_INLINE __m512i broadcast64(const uint8_t *from) {
  int64_t eight;
  memcpy(&eight, from, sizeof eight);
  return _mm512_set1_epi64(eight);
}

/* acc[r][v] += terms[r].  There are `rows` terms, which may be fewer than R; terms may be NULL. */
PL_INLINE void add_terms(int R, int V, const int32_t *terms, int rows, __m512i acc[MR][4]) {
  if (terms)
#pragma GCC unroll 12
    for (int r = 0; r < R; r++) {
      __m512i term = _mm512_set1_epi32(terms[r < rows ? r : 0]);
#pragma GCC unroll 4
      for (int v = 0; v < V; v++) acc[r][v] = _mm512_add_epi32(acc[r][v], term);
    }
}

/* acc[r][v] = start[v] + terms[r] + R rows of the A panel times V vectors of columns. */
PL_INLINE void multiply(int R, int V, const pl_a_layout *layout, const uint8_t *a, const int8_t *w,
                        const __m512i start[4], const int32_t *terms, int rows, __m512i acc[MR][4]) {
  const ptrdiff_t depth = layout->depth, step = layout->step, pitch = layout->pitch;
#pragma GCC unroll 12
  for (int r = 0; r < R; r++)
#pragma GCC unroll 4
    for (int v = 0; v < V; v++) acc[r][v] = start[v];
  add_terms(R, V, terms, rows, acc);
  for (int line = layout->lines; line > 0; line--, a += pitch) {
    const uint8_t *base[4] = {a, a + 3 * step, a + 6 * step, a + 9 * step};
    for (ptrdiff_t k = 0; k < depth; k += 4, w += 64 * V) {
      __m512i wv[4];
#pragma GCC unroll 4
      for (int v = 0; v < V; v++) wv[v] = _mm512_loadu_si512(w + 64 * v);
#pragma GCC unroll 12
      for (int r = 0; r < R; r++) {
        const __m512i x = broadcast32(base[r / 3] + r % 3 * step + k);
#pragma GCC unroll 4
        for (int v = 0; v < V; v++) DOT(acc[r][v], x, wv[v]);
      }
    }
  }
}

/* multiply() for one vector of columns, eight deep, without terms: if each broadcast is used for a single product,
 * loads are the bottleneck.  Even lanes sum the first four elements, odd lanes the last four. */
PL_INLINE void multiply_pairs(int R, const pl_a_layout *layout, const uint8_t *a, const int8_t *w, __m512i start,
                              __m512i acc[MR][4]) {
  const ptrdiff_t depth = layout->depth, step = layout->step, pitch = layout->pitch;
  __m512i low[MR], high[MR];
#pragma GCC unroll 12
  for (int r = 0; r < R; r++) low[r] = high[r] = _mm512_setzero_si512();
  for (int line = layout->lines; line > 0; line--, a += pitch) {
    const uint8_t *base[4] = {a, a + 3 * step, a + 6 * step, a + 9 * step};
    for (ptrdiff_t k = 0; k < depth; k += 8, w += 128) {
      const __m512i w0 = _mm512_loadu_si512(w), w1 = _mm512_loadu_si512(w + 64);
      const __m512i wl = _mm512_unpacklo_epi32(w0, w1), wh = _mm512_unpackhi_epi32(w0, w1);
#pragma GCC unroll 12
      for (int r = 0; r < R; r++) {
        const __m512i x = broadcast64(base[r / 3] + r % 3 * step + k);
        DOT(low[r], x, wl);
        DOT(high[r], x, wh);
      }
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < R; r++) {
    const __m512 l = _mm512_castsi512_ps(low[r]), h = _mm512_castsi512_ps(high[r]);
    __m512i sum = _mm512_add_epi32(_mm512_castps_si512(_mm512_shuffle_ps(l, h, 0x88)),
                                   _mm512_castps_si512(_mm512_shuffle_ps(l, h, 0xDD)));
    acc[r][0] = _mm512_add_epi32(start, sum);
  }
}

/* multiply() for a single row, without terms.  Even and odd steps have separate sums, so that neither waits for the
 * other. */
PL_INLINE void multiply_row(int V, const pl_a_layout *layout, const uint8_t *a, const int8_t *w, const __m512i start[4],
                            __m512i acc[4]) {
  __m512i other[4];
#pragma GCC unroll 4
  for (int v = 0; v < V; v++) acc[v] = start[v], other[v] = _mm512_setzero_si512();
  for (int line = layout->lines; line > 0; line--, a += layout->pitch) {
    ptrdiff_t k = 0;
    for (; k + 8 <= layout->depth; k += 8, w += 128 * V) {
      const __m512i x0 = broadcast32(a + k), x1 = broadcast32(a + k + 4);
#pragma GCC unroll 4
      for (int v = 0; v < V; v++) {
        if (V == 4) { /* the panel may not be in the first-level cache */
          _mm_prefetch((const char *)w + 2048 + 128 * v, _MM_HINT_T0);
          _mm_prefetch((const char *)w + 2112 + 128 * v, _MM_HINT_T0);
        }
        DOT(acc[v], x0, _mm512_loadu_si512(w + 64 * v));
        DOT(other[v], x1, _mm512_loadu_si512(w + 64 * (V + v)));
      }
    }
    if (k < layout->depth) {
      const __m512i x = broadcast32(a + k);
#pragma GCC unroll 4
      for (int v = 0; v < V; v++) DOT(acc[v], x, _mm512_loadu_si512(w + 64 * v));
      w += 64 * V;
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < V; v++) acc[v] = _mm512_add_epi32(acc[v], other[v]);
}

/* multiply(), or the faster form that fits the tile. */
PL_INLINE void product(int R, int V, const pl_a_layout *layout, const uint8_t *a, const int8_t *w,
                       const __m512i start[4], const int32_t *terms, int rows, __m512i acc[MR][4]) {
  const int pairs = V == 1 && R > 1 && layout->depth % 8 == 0 && layout->depth * layout->lines >= 32;
  if (R == 1) multiply_row(V, layout, a, w, start, acc[0]);
  else if (pairs) multiply_pairs(R, layout, a, w, start[0], acc);
  else multiply(R, V, layout, a, w, start, terms, rows, acc);
  if (R == 1 || pairs) add_terms(R, V, terms, rows, acc);
}

/* Requantizes the sums of a tile in float32, and writes the bytes of `rows` rows; relu: see requantize(). */
PL_INLINE void finish(int relu, int R, int V, int rows, int n, __m512i acc[MR][4], const pl_columns *q, ptrdiff_t j,
                      uint8_t *y, ptrdiff_t ldy) {
#pragma GCC unroll 4
  for (int v = 0; v < V; v++) {
    const scaling c = scaling_of(q, j + LANES * v);
#pragma GCC unroll 12
    for (int r = 0; r < R; r++) acc[r][v] = requantize(relu, acc[r][v], &c);
  }
  const ends e = ends_of(q);
  const int step = V == 3 ? 1 : 4 / V; /* rows that are narrowed to bytes at once */
#pragma GCC unroll 12
  for (int r = 0; r < R; r += step)
    if (r < rows) {
      __m512i v[4];
#pragma GCC unroll 4
      for (int i = 0; i < 4; i++) v[i] = i < V || (V < 3 && r + i / V < R) ? acc[r + i / V][i % V] : acc[r][0];
      __m512i bytes = in_order(narrow(relu, v[0], v[1], v[2], v[3], &e));
      store(V, y + r * ldy, bytes, n);
      if (V == 2) {
        if (r + 1 < rows) store(V, y + (r + 1) * ldy, _mm512_shuffle_i64x2(bytes, bytes, 0xEE), n);
      } else if (V == 1) {
        if (r + 1 < rows) store(V, y + (r + 1) * ldy, _mm512_shuffle_i64x2(bytes, bytes, 0x55), n);
        if (r + 2 < rows) store(V, y + (r + 2) * ldy, _mm512_shuffle_i64x2(bytes, bytes, 0xAA), n);
        if (r + 3 < rows) store(V, y + (r + 3) * ldy, _mm512_shuffle_i64x2(bytes, bytes, 0xFF), n);
      }
    }
}

/* Computes a tile of R rows, of which `rows` are in use, and writes its bytes. */
PL_INLINE void tile_q8(int R, int V, int rows, int n, const pl_a_layout *layout, const uint8_t *a, const int8_t *w,
                       const int32_t *terms, const pl_columns *q, ptrdiff_t j, uint8_t *y, ptrdiff_t ldy) {
  __m512i acc[MR][4], bias[4];
#pragma GCC unroll 4
  for (int v = 0; v < V; v++) bias[v] = _mm512_loadu_si512(q->bias + j + LANES * v);
  product(R, V, layout, a, w, bias, terms, rows, acc);
  if (__builtin_expect(!q->fit, 0)) {
    int32_t acc_rows[MR * NR];
#pragma GCC unroll 12
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
      for (int v = 0; v < V; v++) _mm512_storeu_si512(acc_rows + r * NR + v * LANES, acc[r][v]);
    pl_requantize_lines(R < rows ? R : rows, n, acc_rows, NR, 1, q, j, y, ldy);
    return;
  }
  if (has_relu(q)) finish(1, R, V, rows, n, acc, q, j, y, ldy);
  else finish(0, R, V, rows, n, acc, q, j, y, ldy);
}

/* Finishes rows of NR sums as finish_hybrid does or, if h is NULL, adds them to y, which is int32 then.  Not inlined,
 * because callers are compiled for each tile size. */
static __attribute__((noinline, noclone)) void finish_rows(int rows, int n, const int32_t *acc, const int32_t *terms,
                                                   const float *row_scales, const pl_hybrid *h, ptrdiff_t j, float *y,
                                                   ptrdiff_t ldy) {
  for (int c = 0; c < n; c += LANES) {
    const __mmask16 lanes = first_lanes(n - c);
    const int32_t *from = acc + c;
    float *to = y + c;
    if (!h) {
      for (int r = 0; r < rows; r++, from += NR, to += ldy)
        _mm512_mask_storeu_epi32(to, lanes, _mm512_add_epi32(_mm512_maskz_loadu_epi32(lanes, to),
                                                             _mm512_loadu_si512(from)));
      continue;
    }
    const __m512i sums = _mm512_maskz_loadu_epi32(lanes, h->sums + j + c);
    const __m512 scale = _mm512_maskz_loadu_ps(lanes, h->scale + j + c), one = _mm512_set1_ps(1);
    const __m512 bias = h->bias ? _mm512_maskz_loadu_ps(lanes, h->bias + j + c) : _mm512_setzero_ps();
    const __m512 low = _mm512_set1_ps(h->low), high = _mm512_set1_ps(h->high);
    const __mmask16 column_first = h->column_first ? 0xffff : 0;
    for (int r = 0; r < rows; r++, from += NR, to += ldy) {
      const __m512 row_scale = _mm512_set1_ps(row_scales[r]);
      const __m512 first = _mm512_mask_mul_ps(scale, (__mmask16)~column_first, row_scale, scale);
      __m512 x = _mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_loadu_si512(from),
                                                     _mm512_mullo_epi32(_mm512_set1_epi32(terms[r]), sums)));
      x = _mm512_mul_ps(_mm512_mul_ps(x, first), _mm512_mask_blend_ps(column_first, one, row_scale));
      x = _mm512_min_ps(high, _mm512_max_ps(low, _mm512_add_ps(x, bias)));
      _mm512_mask_storeu_ps(to, lanes, x);
    }
  }
}

/* Computes a tile of R rows, of which `rows` are in use, and finishes it by finish_rows(). */
PL_INLINE void tile_sums(int R, int V, int rows, int n, const pl_a_layout *layout, const uint8_t *a, const int8_t *w,
                         const int32_t *terms, const float *row_scales, const pl_hybrid *h, ptrdiff_t j, float *y,
                         ptrdiff_t ldy) {
  const __m512i none = _mm512_setzero_si512(), zeros[4] = {none, none, none, none};
  __m512i acc[MR][4];
  int32_t acc_rows[MR * NR];
  product(R, V, layout, a, w, zeros, NULL, rows, acc);
#pragma GCC unroll 12
  for (int r = 0; r < R; r++)
#pragma GCC unroll 4
    for (int v = 0; v < V; v++) _mm512_storeu_si512(acc_rows + r * NR + v * LANES, acc[r][v]);
  finish_rows(R < rows ? R : rows, n, acc_rows, terms, row_scales, h, j, y, ldy);
}

/* Divides rows into tiles whose accumulators fit the registers: of 12, 8, 4 or 1 rows, or of 6, 4 or 1 if V > 2. */
#define PARTS(TILE, ...) \
  for (int r = 0; r < rows;) { \
    const int left = rows - r; \
    const uint8_t *part = (const uint8_t *)a_panel + r * layout->step; \
    if (left == 1) { TILE(1, __VA_ARGS__); r++; } \
    else if (left <= 4 || (V > 2 && left == 8)) { TILE(4, __VA_ARGS__); r += 4; } \
    else if (V > 2) { TILE(6, __VA_ARGS__); r += 6; } \
    else if (left <= 8) { TILE(8, __VA_ARGS__); r += 8; } \
    else { TILE(12, __VA_ARGS__); r += 12; } \
  }

#define Q8(R, V) tile_q8(R, V, left, n, layout, part, panel, terms ? terms + r : NULL, q, j, y + r * ldy, ldy)
#define SUMS(R, V) \
  tile_sums(R, V, left, n, layout, part, panel, h ? terms + r : NULL, h ? row_scales + r : NULL, h, j, y + r * ldy, \
            ldy)

/* One function for each width, so that gcc keeps the accumulators of narrow ones in registers. */
#define Q8_ARGUMENTS \
  int rows, int n, const pl_a_layout *layout, const void *a_panel, const void *panel, const int32_t *terms, \
    const pl_columns *q, ptrdiff_t j, uint8_t *y, ptrdiff_t ldy
#define SUMS_ARGUMENTS \
  int rows, int n, const pl_a_layout *layout, const void *a_panel, const void *panel, const int32_t *terms, \
    const float *row_scales, const pl_hybrid *h, ptrdiff_t j, float *y, ptrdiff_t ldy
#define WIDTH(v) \
  static __attribute__((noinline)) void q8_##v(Q8_ARGUMENTS) { enum { V = v }; PARTS(Q8, V) } \
  static __attribute__((noinline)) void sums_##v(SUMS_ARGUMENTS) { enum { V = v }; PARTS(SUMS, V) }
WIDTH(1)
WIDTH(2)
WIDTH(3)
WIDTH(4)

static void gemm_q8(Q8_ARGUMENTS) {
  static void (*const widths[])(Q8_ARGUMENTS) = {q8_1, q8_2, q8_3, q8_4};
  widths[(n - 1) / LANES](rows, n, layout, a_panel, panel, terms, q, j, y, ldy);
}

static void (*const sums_by_width[])(SUMS_ARGUMENTS) = {sums_1, sums_2, sums_3, sums_4};

static void gemm_s32(int rows, int n, const pl_a_layout *layout, const void *a_panel, const void *panel, int32_t *acc,
                     ptrdiff_t lda) {
  sums_by_width[(n - 1) / LANES](rows, n, layout, a_panel, panel, NULL, NULL, NULL, 0, (float *)acc, lda);
}

static void gemm_hybrid(const pl_slots *table, SUMS_ARGUMENTS) {
  (void)table;
  sums_by_width[(n - 1) / LANES](rows, n, layout, a_panel, panel, terms, row_scales, h, j, y, ldy);
}

PL_FILL(gemm_avx512vnni, s) {
  s->pack_a_q8 = pack_a_q8;
  s->sums_q8 = sums_q8;
  s->gemm_q8 = gemm_q8;
  s->gemm_s32 = gemm_s32;
  s->gemm_hybrid = gemm_hybrid;
  s->q8 = (pl_tile){.mr = MR, .nr = NR, .nv = LANES, .kr = 4, .ka = 4, .bytes = 1, .offset = 128};
}
