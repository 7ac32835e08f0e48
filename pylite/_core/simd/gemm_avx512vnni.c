/* 8-bit matrix products and depthwise convolutions for AVX-512 with VNNI. */
#include "rounding.h"
#include "simd.h"
#include <immintrin.h>

#define FORCED static inline __attribute__((always_inline))
enum { MR = 12, NR = 64, LANES = 16 };

/* acc += four unsigned bytes of u times four signed bytes of s, in each lane.  gcc 12 copies a register for each use
 * of the intrinsic. */
#define DOT(acc, u, s) __asm__("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(u), "v"(s))

FORCED __mmask64 first_bytes(ptrdiff_t n) { return n >= 64 ? ~0ull : (1ull << n) - 1; }
FORCED __mmask16 first_lanes(ptrdiff_t n) { return n >= 16 ? 0xffff : (__mmask16)((1u << n) - 1); }

/* Strips hold x + 128, unsigned.  Whole vectors are stored: what comes next overwrites what is too much. */
static void strip_q8(int rows, int segments, ptrdiff_t length, const uint8_t *const *src, int flip, void *strip,
                     ptrdiff_t depth) {
  const __m512i mask = _mm512_set1_epi8((char)(flip ^ 0x80));
  const ptrdiff_t whole = length & ~(ptrdiff_t)63;
  const __mmask64 rest = first_bytes(length - whole);
  uint8_t *to = strip;
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

/* Sums of the lanes of four vectors. */
FORCED __m128i four_sums(__m512i a, __m512i b, __m512i c, __m512i d) {
  __m512i ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
  __m512i cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
  __m512i v = _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
  __m256i w = _mm256_add_epi32(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64(v, 1));
  return _mm_add_epi32(_mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1));
}

static void sums_q8(int rows, const pl_rows *shape, ptrdiff_t length, const void *strip, int32_t *sums) {
  const ptrdiff_t whole = length & ~(ptrdiff_t)63;
  const __mmask64 rest = first_bytes(length - whole);
  const __m512i ones = _mm512_set1_epi8(1);
  for (int r0 = 0; r0 < rows; r0 += 4) {
    const int n = rows - r0 < 4 ? rows - r0 : 4;
    __m512i sum[4];
#pragma GCC unroll 4
    for (int r = 0; r < 4; r++) {
      const uint8_t *a = (const uint8_t *)strip + (r0 + (r < n ? r : 0)) * shape->step;
      sum[r] = _mm512_setzero_si512();
      for (int line = 0; line < shape->lines; line++, a += shape->pitch) {
        for (ptrdiff_t k = 0; k < whole; k += 64) DOT(sum[r], _mm512_loadu_si512(a + k), ones);
        if (rest) DOT(sum[r], _mm512_maskz_loadu_epi8(rest, a + whole), ones);
      }
    }
    _mm_mask_storeu_epi32(sums + r0, (__mmask8)((1 << n) - 1), four_sums(sum[0], sum[1], sum[2], sum[3]));
  }
}

/* What requantize() needs to know of 16 columns. */
typedef struct { __m512i mult, odd, even_round, odd_round, sign, right; } scaling;
FORCED scaling scaling_of(const pl_columns *q, ptrdiff_t j) {
  const __m512i half = _mm512_loadu_si512(q->half + j), one = _mm512_set1_epi64(1ll << 31);
  return (scaling){_mm512_loadu_si512(q->mult + j), _mm512_loadu_si512(q->odd + j),
                   _mm512_or_si512(_mm512_slli_epi64(half, 32), one),
                   _mm512_mask_mov_epi32(one, 0xAAAA, half),
                   _mm512_loadu_si512(q->sign + j), _mm512_loadu_si512(q->right + j)};
}
/* 16 accumulators, less than 2^30 in size, to 32-bit results before the zero point: MBQM32 with its two roundings as
 * (((2 acc mult + 2^31) >> 32) + half - (acc < 0)) >> right.  Where a product's sign differs from that of its
 * accumulator it rounds to 0, and to 0 as well with one less. */
FORCED __m512i requantize(__m512i acc, const scaling *c) {
  __m512i twice = _mm512_add_epi32(acc, acc);
  __m512i even = _mm512_add_epi64(_mm512_mul_epi32(twice, c->mult), c->even_round);
  __m512i odd = _mm512_add_epi64(_mm512_mul_epi32(_mm512_srli_epi64(twice, 32), c->odd), c->odd_round);
  __m512i v = _mm512_castps_si512(_mm512_mask_movehdup_ps(_mm512_castsi512_ps(odd), 0x5555, _mm512_castsi512_ps(even)));
  return _mm512_srav_epi32(_mm512_sub_epi32(v, _mm512_srlv_epi32(acc, c->sign)), c->right);
}

/* The same for accumulators of any size that may be shifted left, to bytes: lines of NR, their bias added. */
static __attribute__((noinline)) void requantize_lines(int rows, int n, const int32_t *acc, const pl_columns *q,
                                                       ptrdiff_t j, uint8_t *y, ptrdiff_t ldy) {
  for (int r = 0; r < rows; r++)
    for (int i = 0; i < n; i++) {
      int32_t v = pl_mul_high(pl_shl32(acc[r * NR + i], q->left[j + i]), q->mult[j + i]);
      v = pl_clamp32(pl_rdbpot(v, q->right[j + i]), q->low - q->zero_point, q->high - q->zero_point);
      y[r * ldy + i] = (uint8_t)((v + q->zero_point) ^ q->flip);
    }
}

typedef struct { __m512i zero_point, low, high, flip; } ends;
FORCED ends ends_of(const pl_columns *q) {
  return (ends){_mm512_set1_epi16((short)q->zero_point), _mm512_set1_epi8((char)q->low),
                _mm512_set1_epi8((char)q->high), _mm512_set1_epi8((char)q->flip)};
}
/* Four vectors of results to 64 bytes; the packs interleave their 128-bit lanes. */
FORCED __m512i narrow(__m512i v0, __m512i v1, __m512i v2, __m512i v3, const ends *e) {
  __m512i a = _mm512_adds_epi16(_mm512_packs_epi32(v0, v1), e->zero_point);
  __m512i b = _mm512_adds_epi16(_mm512_packs_epi32(v2, v3), e->zero_point);
  __m512i y = _mm512_max_epi8(_mm512_min_epi8(_mm512_packs_epi16(a, b), e->high), e->low);
  return _mm512_xor_si512(y, e->flip);
}

/* The first n of 16 V bytes, V at least n / 16. */
FORCED void store(int V, uint8_t *y, __m512i v, int n) {
  if (V >= 3) {
    if (n == 64) _mm512_storeu_si512(y, v);
    else _mm512_mask_storeu_epi8(y, first_bytes(n), v);
  } else if (V == 2) {
    if (n == 32) _mm256_storeu_si256((__m256i *)y, _mm512_castsi512_si256(v));
    else _mm256_mask_storeu_epi8(y, (__mmask32)first_bytes(n), _mm512_castsi512_si256(v));
  } else {
    if (n == 16) _mm_storeu_si128((__m128i *)y, _mm512_castsi512_si128(v));
    else _mm_mask_storeu_epi8(y, (__mmask16)first_bytes(n), _mm512_castsi512_si128(v));
  }
}

/* acc[r][v] += R rows of the strip times V vectors of columns */
FORCED void multiply(int R, int V, const pl_rows *shape, const uint8_t *a, const int8_t *w, __m512i acc[12][4]) {
  const ptrdiff_t depth = shape->depth, step = shape->step, pitch = shape->pitch;
  for (int line = shape->lines; line > 0; line--, a += pitch) {
    const uint8_t *base[4] = {a, a + 3 * step, a + 6 * step, a + 9 * step};
    for (ptrdiff_t k = 0; k < depth; k += 4, w += 64 * V) {
      __m512i wv[4];
#pragma GCC unroll 4
      for (int v = 0; v < V; v++) wv[v] = _mm512_loadu_si512(w + 64 * v);
#pragma GCC unroll 12
      for (int r = 0; r < R; r++) {
        __m512i x = _mm512_set1_epi32(*(const int32_t *)(base[r / 3] + r % 3 * step + k));
#pragma GCC unroll 4
        for (int v = 0; v < V; v++) DOT(acc[r][v], x, wv[v]);
      }
    }
  }
}

/* The same for a single row, whose products would wait for one another: even and odd steps have their own sums. */
FORCED void multiply_row(int V, const pl_rows *shape, const uint8_t *a, const int8_t *w, __m512i acc[4]) {
  __m512i other[4];
#pragma GCC unroll 4
  for (int v = 0; v < V; v++) other[v] = _mm512_setzero_si512();
  for (int line = shape->lines; line > 0; line--, a += shape->pitch) {
    ptrdiff_t k = 0;
    for (; k + 8 <= shape->depth; k += 8, w += 128 * V) {
      __m512i x0 = _mm512_set1_epi32(*(const int32_t *)(a + k)), x1 = _mm512_set1_epi32(*(const int32_t *)(a + k + 4));
#pragma GCC unroll 4
      for (int v = 0; v < V; v++) {
        DOT(acc[v], x0, _mm512_loadu_si512(w + 64 * v));
        DOT(other[v], x1, _mm512_loadu_si512(w + 64 * (V + v)));
      }
    }
    if (k < shape->depth) {
      __m512i x = _mm512_set1_epi32(*(const int32_t *)(a + k));
#pragma GCC unroll 4
      for (int v = 0; v < V; v++) DOT(acc[v], x, _mm512_loadu_si512(w + 64 * v));
      w += 64 * V;
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < V; v++) acc[v] = _mm512_add_epi32(acc[v], other[v]);
}

FORCED void tile_q8(int R, int V, int rows, int n, const pl_rows *shape, const uint8_t *a, const int8_t *w,
                    const int32_t *row, const pl_columns *q, ptrdiff_t j, uint8_t *y, ptrdiff_t ldy) {
  __m512i acc[12][4];
#pragma GCC unroll 4
  for (int v = 0; v < V; v++) {
    __m512i bias = _mm512_loadu_si512(q->bias + j + LANES * v);
#pragma GCC unroll 12
    for (int r = 0; r < R; r++) acc[r][v] = bias;
  }
  if (row) {
#pragma GCC unroll 12
    for (int r = 0; r < R; r++) {
      __m512i term = _mm512_set1_epi32(row[r < rows ? r : 0]);
#pragma GCC unroll 4
      for (int v = 0; v < V; v++) acc[r][v] = _mm512_add_epi32(acc[r][v], term);
    }
  }
  if (R == 1) multiply_row(V, shape, a, w, acc[0]);
  else multiply(R, V, shape, a, w, acc);
  if (__builtin_expect(q->left != NULL, 0)) {
    int32_t lines[12 * NR];
#pragma GCC unroll 12
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
      for (int v = 0; v < V; v++) _mm512_storeu_si512(lines + r * NR + v * LANES, acc[r][v]);
    requantize_lines(R < rows ? R : rows, n, lines, q, j, y, ldy);
    return;
  }
#pragma GCC unroll 4
  for (int v = 0; v < V; v++) {
    const scaling c = scaling_of(q, j + LANES * v);
#pragma GCC unroll 12
    for (int r = 0; r < R; r++) acc[r][v] = requantize(acc[r][v], &c);
  }
  const ends e = ends_of(q);
  const __m512i in_order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const int step = V == 3 ? 1 : 4 / V; /* rows that are narrowed to bytes at once */
#pragma GCC unroll 12
  for (int r = 0; r < R; r += step)
    if (r < rows) {
      __m512i v[4];
#pragma GCC unroll 4
      for (int i = 0; i < 4; i++) v[i] = i < V || (V < 3 && r + i / V < R) ? acc[r + i / V][i % V] : acc[r][0];
      __m512i bytes = _mm512_permutexvar_epi32(in_order, narrow(v[0], v[1], v[2], v[3], &e));
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

FORCED void tile_s32(int R, int V, int rows, int n, const pl_rows *shape, const uint8_t *a, const int8_t *w,
                     int32_t *y, ptrdiff_t ldy) {
  __m512i acc[12][4];
#pragma GCC unroll 12
  for (int r = 0; r < R; r++)
#pragma GCC unroll 4
    for (int v = 0; v < V; v++)
      acc[r][v] = r < rows ? _mm512_maskz_loadu_epi32(first_lanes(n - LANES * v), y + r * ldy + LANES * v)
                           : _mm512_setzero_si512();
  if (R == 1) multiply_row(V, shape, a, w, acc[0]);
  else multiply(R, V, shape, a, w, acc);
#pragma GCC unroll 12
  for (int r = 0; r < R; r++)
    if (r < rows)
#pragma GCC unroll 4
      for (int v = 0; v < V; v++)
        _mm512_mask_storeu_epi32(y + r * ldy + LANES * v, first_lanes(n - LANES * v), acc[r][v]);
}

/* The rows in parts of 12 (narrow panels), 6 or 1: what the registers hold. */
#define PARTS(TILE, ...) \
  for (int r = 0; r < rows;) { \
    const int left = rows - r; \
    const uint8_t *part = (const uint8_t *)strip + r * shape->step; \
    if (left == 1) { TILE(1, __VA_ARGS__); r++; } \
    else if (left > 7 && V <= 2) { TILE(12, __VA_ARGS__); r += 12; } \
    else { TILE(6, __VA_ARGS__); r += 6; } \
  }

#define Q8(R, V) tile_q8(R, V, left, n, shape, part, panel, row ? row + r : NULL, q, j, y + r * ldy, ldy)
#define S32(R, V) tile_s32(R, V, left, n, shape, part, panel, acc + r * lda, lda)
#define WIDTH(v, TILE) \
  case v: { enum { V = v }; PARTS(TILE, V) break; }

static void gemm_q8(int rows, int n, const pl_rows *shape, const void *strip, const void *panel, const int32_t *row,
                    const pl_columns *q, ptrdiff_t j, uint8_t *y, ptrdiff_t ldy) {
  switch ((n + LANES - 1) / LANES) {
    WIDTH(1, Q8)
    WIDTH(2, Q8)
    WIDTH(3, Q8)
    WIDTH(4, Q8)
  }
}

static void gemm_s32(int rows, int n, const pl_rows *shape, const void *strip, const void *panel, int32_t *acc,
                     ptrdiff_t lda) {
  switch ((n + LANES - 1) / LANES) {
    WIDTH(1, S32)
    WIDTH(2, S32)
    WIDTH(3, S32)
    WIDTH(4, S32)
  }
}

/* ---- depthwise: blocks of 64 channels, taps in groups of four ---- */

/* Bytes of four taps, interleaved so that each 32-bit lane holds the four taps of one channel. */
FORCED void interleave(__m512i a, __m512i b, __m512i c, __m512i d, __m512i out[4]) {
  __m512i ab0 = _mm512_unpacklo_epi8(a, b), ab1 = _mm512_unpackhi_epi8(a, b);
  __m512i cd0 = _mm512_unpacklo_epi8(c, d), cd1 = _mm512_unpackhi_epi8(c, d);
  out[0] = _mm512_unpacklo_epi16(ab0, cd0);
  out[1] = _mm512_unpackhi_epi16(ab0, cd0);
  out[2] = _mm512_unpacklo_epi16(ab1, cd1);
  out[3] = _mm512_unpackhi_epi16(ab1, cd1);
}

/* The channel in each place of a block, as unpacking leaves them; the packs of narrow() undo it. */
static uint8_t order[NR];

FORCED void finish(const __m512i acc[4], const pl_columns *q, ptrdiff_t j, const ends *e, int n, uint8_t *y) {
  if (__builtin_expect(q->left != NULL, 0)) {
    int32_t line[NR];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) _mm512_storeu_si512(line + LANES * i, acc[i]);
    uint8_t bytes[NR];
    requantize_lines(1, NR, line, q, j, bytes, NR);
    for (int i = 0; i < NR; i++)
      if (order[i] < n) y[order[i]] = bytes[i];
    return;
  }
  __m512i v[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    const scaling c = scaling_of(q, j + LANES * i);
    v[i] = requantize(acc[i], &c);
  }
  store(4, y, narrow(v[0], v[1], v[2], v[3], e), n);
}

/* Any filter.  With a weight zero point, its multiple of the taps' sum is taken off at the end. */
static void any_filter(const pl_dw_window *g, int flip, int w_zero, const int8_t *w, const pl_columns *q, uint8_t *y) {
  const uint8_t *p[PL_MAX_TAPS];
  int16_t taps[4 * PL_MAX_TAPS];
  const pl_tile shape = {.kr = 4};
  const int groups = pl_tap_order(&shape, g->fh, g->fw, taps) / 4;
  const ptrdiff_t blocks = (g->c + NR - 1) / NR;
  const int n = g->c < NR ? (int)g->c : NR;
  const __mmask64 m = first_bytes(n);
  const __m512i mask = _mm512_set1_epi8((char)(flip ^ 0x80)), ones = _mm512_set1_epi8(1);
  const __m512i zero = _mm512_set1_epi32(w_zero), padding = _mm512_set1_epi8((char)(0));
  const pl_columns own = *q;
  const ends e = ends_of(q);
  for (ptrdiff_t at = 0; at < g->pixels; at++, y += g->c) {
    pl_taps(g, at, 1, p);
    for (ptrdiff_t b = 0; b < blocks; b++) {
      const ptrdiff_t c = pl_block_start(b, NR, g->c), j = b * NR;
      const int8_t *wb = w + b * groups * 4 * NR;
      __m512i acc[4], sum[4];
#pragma GCC unroll 4
      for (int i = 0; i < 4; i++) acc[i] = _mm512_loadu_si512(q->bias + j + LANES * i), sum[i] = padding;
      for (int group = 0; group < groups; group++, wb += 4 * NR) {
        __m512i x[4], t[4];
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
          int tap = taps[group * 4 + i];
          t[i] = tap < 0 ? padding : _mm512_xor_si512(_mm512_maskz_loadu_epi8(m, p[tap] + c), mask);
        }
        interleave(t[0], t[1], t[2], t[3], x);
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
          DOT(acc[i], x[i], _mm512_loadu_si512(wb + 64 * i));
          if (w_zero) DOT(sum[i], x[i], ones);
        }
      }
      if (w_zero)
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) acc[i] = _mm512_sub_epi32(acc[i], _mm512_mullo_epi32(sum[i], zero));
      finish(acc, &own, j, &e, n, y + c);
    }
  }
}

/* 3x3, stride 1: each column of three taps is loaded once, for the three outputs that it touches.  With a weight zero
 * point, its multiple of the taps' sum is taken off each column. */
FORCED void slide3x3(const pl_dw_window *g, int flip, int w_zero, const int8_t *w, const pl_columns *q, uint8_t *y) {
  const ptrdiff_t blocks = (g->c + NR - 1) / NR;
  const int n = g->c < NR ? (int)g->c : NR;
  const __mmask64 m = first_bytes(n);
  const __m512i mask = _mm512_set1_epi8((char)(flip ^ 0x80)), zero = _mm512_set1_epi32(w_zero);
  const __m512i three_ones = _mm512_set1_epi32(0x00010101);
  const pl_columns own = *q;
  const ends e = ends_of(q);
  for (ptrdiff_t b = 0; b < blocks; b++) {
    const ptrdiff_t c = pl_block_start(b, NR, g->c), j = b * NR;
    const uint8_t *row[3];
    ptrdiff_t step[3];
    for (int i = 0; i < 3; i++) {
      row[i] = (g->row[i] ? g->row[i] : g->zero) + c;
      step[i] = g->row[i] ? g->c : 0;
    }
    const int8_t *wb = w + b * 12 * 64;
    __m512i one[4], two[4], bias[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) one[i] = two[i] = bias[i] = _mm512_loadu_si512(q->bias + j + LANES * i);
    /* columns -pad .. pixels + 1 - pad; output x is complete after column x + 2 - pad */
    for (ptrdiff_t x = -2; x < g->pixels; x++) {
      const ptrdiff_t column = x + 2 - g->pad;
      const int inside = column >= 0 && column < g->width;
      __m512i t[3], v[4], three[4];
#pragma GCC unroll 3
      for (int i = 0; i < 3; i++) {
        const uint8_t *from = inside ? row[i] + column * step[i] : g->zero + c;
        t[i] = _mm512_xor_si512(_mm512_maskz_loadu_epi8(m, from), mask);
      }
      interleave(t[0], t[1], t[2], t[2], v);
#pragma GCC unroll 4
      for (int i = 0; i < 4; i++) {
        three[i] = bias[i];
        DOT(one[i], v[i], _mm512_loadu_si512(wb + 64 * (8 + i)));
        DOT(two[i], v[i], _mm512_loadu_si512(wb + 64 * (4 + i)));
        DOT(three[i], v[i], _mm512_loadu_si512(wb + 64 * i));
        if (w_zero) { /* at most 3 * 255, so 16-bit products of its low half suffice */
          __m512i sum = _mm512_setzero_si512();
          DOT(sum, v[i], three_ones);
          sum = _mm512_madd_epi16(sum, zero);
          one[i] = _mm512_sub_epi32(one[i], sum);
          two[i] = _mm512_sub_epi32(two[i], sum);
          three[i] = _mm512_sub_epi32(three[i], sum);
        }
      }
      if (x >= 0) finish(one, &own, j, &e, n, y + x * g->c + c);
#pragma GCC unroll 4
      for (int i = 0; i < 4; i++) one[i] = two[i], two[i] = three[i];
    }
  }
}

static void depthwise_q8(const pl_dw_window *g, int flip, int w_zero, const void *w, const pl_columns *q, uint8_t *y) {
  if (g->fh != 3 || g->fw != 3 || g->stride != 1 || g->dilation != 1)
    any_filter(g, flip, w_zero, w, q, y);
  else if (w_zero)
    slide3x3(g, flip, w_zero, w, q, y);
  else
    slide3x3(g, flip, 0, w, q, y);
}

void pl_fill_gemm_avx512vnni(pl_slots *s);
void pl_fill_gemm_avx512vnni(pl_slots *s) {
  for (int i = 0; i < NR; i++) order[i] = (uint8_t)(i % 16 / 4 * 16 + i / 16 * 4 + i % 4);
  s->strip_q8 = strip_q8;
  s->sums_q8 = sums_q8;
  s->gemm_q8 = gemm_q8;
  s->gemm_s32 = gemm_s32;
  s->depthwise_q8 = depthwise_q8;
  s->q8 = (pl_tile){MR, NR, LANES, 4, 4, 1, 128, NULL};
  s->dw8 = (pl_tile){1, NR, NR, 4, 4, 1, 128, order};
}
