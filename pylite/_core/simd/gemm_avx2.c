/* 8-bit matrix products and depthwise convolutions for AVX2, which multiplies pairs of 16-bit numbers; and matrix
 * products for AVX-VNNI, which multiplies four bytes by four. */
#include "rounding.h"
#include "simd.h"
#include <immintrin.h>
#include <string.h>

enum { MR = 6, NR = 16, LANES = 8 };
enum { CHAINS = 4 }; /* independent sums for each column of a single row */

PL_INLINE __m256i load(const int32_t *p) { return _mm256_loadu_si256((const __m256i *)p); }
/* The same four bytes, from any address, in each lane. */
PL_INLINE __m256i spread(const void *from) {
  int32_t four;
  memcpy(&four, from, sizeof four);
  return _mm256_set1_epi32(four);
}

#if defined(__AVXVNNI__)
/* A panels hold x + 128, unsigned. */
typedef uint8_t element;
enum { KR = 4 };
#define DOT(acc, u, s) __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(acc) : "x"(u), "x"(s))
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
/* A panels are int16. */
typedef int16_t element;
enum { KR = 2 };
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
#endif

/* 8 accumulators to results: by MBQM32, whose second rounding is (v + half - (v < 0)) >> right, or in float32 (fit). */
PL_INLINE __m256i requantize(int fit, __m256i acc, const pl_columns *q, ptrdiff_t j) {
  if (fit) {
    const __m256 x = _mm256_cvtepi32_ps(acc), sign = _mm256_and_ps(x, _mm256_set1_ps(-0.0f));
    return _mm256_cvttps_epi32(_mm256_fmadd_ps(x, _mm256_loadu_ps(q->scale + j),
                                               _mm256_or_ps(sign, _mm256_loadu_ps(q->start + j))));
  }
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

/* Results of two lines, each packed to 16 bits, to bytes; the pack interleaves their 128-bit lanes. */
PL_INLINE __m256i narrow(__m256i a, __m256i b, const pl_columns *q) {
  const __m256i zero_point = _mm256_set1_epi16((short)q->zero_point);
  __m256i y = _mm256_packs_epi16(_mm256_adds_epi16(a, zero_point), _mm256_adds_epi16(b, zero_point));
  y = _mm256_max_epi8(_mm256_min_epi8(y, _mm256_set1_epi8((char)q->high)), _mm256_set1_epi8((char)q->low));
  return _mm256_xor_si256(y, _mm256_set1_epi8((char)q->flip));
}

/* Stores the first n bytes, less than 16, as two words that overlap. */
static __attribute__((noinline)) void store_part(uint8_t *y, __m128i v, ptrdiff_t n) {
  const uint64_t low = (uint64_t)_mm_cvtsi128_si64(v), high = (uint64_t)_mm_extract_epi64(v, 1);
  if (n >= 8) {
    const uint64_t last = n > 8 ? low >> 8 * (n - 8) | high << (128 - 8 * n) : low;
    memcpy(y, &low, 8);
    memcpy(y + n - 8, &last, 8);
  } else if (n >= 4) {
    const uint64_t last = low >> 8 * (n - 4);
    memcpy(y, &low, 4);
    memcpy(y + n - 4, &last, 4);
  } else {
    for (ptrdiff_t i = 0; i < n; i++) y[i] = (uint8_t)(low >> 8 * i);
  }
}
PL_INLINE void store(uint8_t *y, __m128i v, ptrdiff_t n) {
  if (n >= 16) _mm_storeu_si128((__m128i *)y, v);
  else store_part(y, v, n);
}
/* Stores N lines of n bytes; N is 1 or 2. */
PL_INLINE void store_lines(int N, uint8_t *y, ptrdiff_t next, __m256i v, ptrdiff_t n) {
  store(y, _mm256_castsi256_si128(v), n);
  if (N > 1) store(y + next, _mm256_extracti128_si256(v, 1), n);
}

/* R rows of an A panel times V vectors of columns, plus `start`, to lines of NR sums. */
PL_INLINE void multiply(int R, int V, const pl_a_layout *layout, const element *a, const int8_t *w,
                        const int32_t *start, int32_t *lines) {
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
        const __m256i x = spread(a + k + i * KR);
#pragma GCC unroll 2
        for (int v = 0; v < V; v++) DOT(acc[i][v], x, weights(w + (i * V + v) * LANES * KR));
      }
    for (; k < depth; k += KR, w += LANES * KR * V) {
      const __m256i w0 = weights(w), w1 = V == 2 ? weights(w + LANES * KR) : w0;
#pragma GCC unroll 6
      for (int r = 0; r < R; r++) {
        const __m256i x = spread((r < 3 ? a : upper) + r % 3 * step + k);
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
    for (int v = 0; v < V; v++) _mm256_storeu_si256((__m256i *)(lines + r * NR + v * LANES), acc[r][v]);
}
#define PART(R, V) \
  static __attribute__((noinline)) void part_##R##_##V(const pl_a_layout *layout, const element *a, const int8_t *w, \
                                                       const int32_t *start, int32_t *lines) { \
    multiply(R, V, layout, a, w, start, lines); \
  }
PART(3, 1)
PART(3, 2)
PART(6, 1)
PART(6, 2)
/* Sums of up to MR rows, n columns; returns the number of rows. */
static int sums(int rows, int n, const pl_a_layout *layout, const element *a, const int8_t *w, const int32_t *start,
                int32_t *lines) {
  static void (*const part[])(const pl_a_layout *, const element *, const int8_t *, const int32_t *, int32_t *) = {
    part_3_1, part_3_2, part_6_1, part_6_2};
  const int full = rows <= 3 ? 3 : 6;
  part[2 * (full > 3) + (n > LANES)](layout, a, w, start, lines);
  return rows < full ? rows : full;
}
/* The same for a single row. */
PL_INLINE void row_sums(int n, const pl_a_layout *layout, const element *a, const int8_t *w, const int32_t *start,
                        int32_t *line) {
  if (n > LANES) multiply(1, 2, layout, a, w, start, line);
  else multiply(1, 1, layout, a, w, start, line);
}

/* Lines of sums to bytes; terms: of each row, or NULL. */
PL_INLINE void finish(int fit, int N, int n, const int32_t *lines, const int32_t *terms, const pl_columns *q,
                      ptrdiff_t j, uint8_t *y, ptrdiff_t ldy) {
  __m256i v[2][2];
#pragma GCC unroll 2
  for (int i = 0; i < N; i++) {
    v[i][0] = load(lines + i * NR), v[i][1] = n > LANES ? load(lines + i * NR + LANES) : v[i][0];
    if (terms)
      for (int k = 0; k < 2; k++) v[i][k] = _mm256_add_epi32(v[i][k], _mm256_set1_epi32(terms[i]));
    v[i][0] = requantize(fit, v[i][0], q, j);
    v[i][1] = n > LANES ? requantize(fit, v[i][1], q, j + LANES) : v[i][0]; /* the parameters may end before */
    v[i][0] = _mm256_packs_epi32(v[i][0], v[i][1]);
  }
  const __m256i bytes = narrow(v[0][0], v[N - 1][0], q);
  store_lines(N, y, ldy, _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)), n);
}
PL_INLINE void finish_all(int fit, int rows, int n, const int32_t *lines, const int32_t *terms, const pl_columns *q,
                          ptrdiff_t j, uint8_t *y, ptrdiff_t ldy) {
  int r = 0;
  for (; r + 2 <= rows; r += 2) finish(fit, 2, n, lines + r * NR, terms ? terms + r : NULL, q, j, y + r * ldy, ldy);
  if (r < rows) finish(fit, 1, n, lines + r * NR, terms ? terms + r : NULL, q, j, y + r * ldy, ldy);
}

static void row_q8(int n, const pl_a_layout *layout, const element *a, const int8_t *w, const int32_t *term,
                   const pl_columns *q, ptrdiff_t j, uint8_t *y) {
  const ptrdiff_t deep = layout->lines * layout->depth;
  int32_t line[NR];
  for (; n > 0; n -= NR, j += NR, y += NR, w += NR * deep) {
    row_sums(n, layout, a, w, q->bias + j, line);
    if (q->fit) finish(1, 1, n, line, term, q, j, y, 0);
    else finish(0, 1, n, line, term, q, j, y, 0);
  }
}

static void gemm_q8(int rows, int n, const pl_a_layout *layout, const void *a_panel, const void *panel,
                    const int32_t *row, const pl_columns *q, ptrdiff_t j, uint8_t *y, ptrdiff_t ldy) {
  int32_t lines[MR * NR];
  const pl_columns own = *q; /* a copy, which y cannot overlap */
  if (rows == 1) {
    row_q8(n, layout, a_panel, panel, row, &own, j, y);
    return;
  }
  for (int r = 0, m; r < rows; r += m) {
    m = sums(rows - r, n, layout, (const element *)a_panel + r * layout->step, panel, own.bias + j, lines);
    const int32_t *terms = row ? row + r : NULL;
    if (own.fit) finish_all(1, m, n, lines, terms, &own, j, y + r * ldy, ldy);
    else finish_all(0, m, n, lines, terms, &own, j, y + r * ldy, ldy);
  }
}

static void gemm_s32(int rows, int n, const pl_a_layout *layout, const void *a_panel, const void *panel, int32_t *acc,
                     ptrdiff_t lda) {
  static const int32_t none[NR];
  int32_t lines[MR * NR];
  if (rows == 1) {
    const int8_t *w = panel;
    for (; n > 0; n -= NR, acc += NR, w += NR * layout->lines * layout->depth) {
      row_sums(n, layout, a_panel, w, none, lines);
      for (int k = 0; k < n && k < NR; k++) acc[k] += lines[k];
    }
    return;
  }
  for (int r = 0, m; r < rows; r += m) {
    m = sums(rows - r, n, layout, (const element *)a_panel + r * layout->step, panel, none, lines);
    for (int i = 0; i < m; i++)
      for (int k = 0; k < n; k++) acc[(r + i) * lda + k] += lines[i * NR + k];
  }
}

#if defined(__AVXVNNI__)
PL_FILL(gemm_avx2, s) {
  s->pack_a_q8 = pack_a_q8;
  s->sums_q8 = sums_q8;
  s->gemm_q8 = gemm_q8;
  s->gemm_s32 = gemm_s32;
  s->q8 = (pl_tile){.mr = MR, .nr = NR, .nv = LANES, .kr = KR, .ka = KR, .bytes = 1, .offset = 128, .any_n = 1};
}
#else
/* ---- depthwise: blocks of 16 channels, taps in pairs, weights of 16 bits (less their zero point) ---- */

/* The channel in each place of a block: unpacking changes the order, the packs of narrow() restore it. */
static const uint8_t order[NR] = {0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15};

/* Loads the first n bytes, as store_part stores them. */
static __attribute__((noinline)) __m128i load_part(const uint8_t *p, ptrdiff_t n) {
  uint64_t low = 0, high = 0;
  if (n >= 8) {
    memcpy(&low, p, 8);
    if (n > 8) {
      memcpy(&high, p + n - 8, 8);
      high >>= 128 - 8 * n;
    }
  } else if (n >= 4) {
    memcpy(&low, p, 4);
    memcpy(&high, p + n - 4, 4);
    low |= high << 8 * (n - 4);
    high = 0;
  } else {
    for (ptrdiff_t i = 0; i < n; i++) low |= (uint64_t)p[i] << 8 * i;
  }
  return _mm_set_epi64x((int64_t)high, (int64_t)low);
}
PL_INLINE __m256i tap(const uint8_t *p, __m128i mask, ptrdiff_t n) {
  const __m128i v = n == NR ? _mm_loadu_si128((const __m128i *)p) : load_part(p, n);
  return _mm256_cvtepi8_epi16(_mm_xor_si128(v, mask));
}

/* The taps that output pixels see, in pairs, as bytes ^ mask. */
typedef struct {
  int pairs;
  const uint8_t **p;
  __m128i mask;
} sight;

/* N output pixels, `to` apart: n channels from j on.  The taps of the first are c bytes behind those of s, and `step`
 * further for each one. */
PL_INLINE void pixels(int fit, int N, ptrdiff_t n, const sight *s, ptrdiff_t c, ptrdiff_t step, const int32_t *w,
                      const pl_columns *q, ptrdiff_t j, uint8_t *y, ptrdiff_t to) {
  const __m256i bias0 = load(q->bias + j), bias1 = load(q->bias + j + LANES);
  __m256i acc[2][2] = {{bias0, bias1}, {bias0, bias1}};
  const ptrdiff_t at[2] = {c, c + step};
  const uint8_t *const *p = s->p;
  for (int t = s->pairs; t > 0; t--, p += 2, w += NR) {
    const uint8_t *const p0 = p[0], *const p1 = p[1];
    const __m256i w0 = load(w), w1 = load(w + LANES);
#pragma GCC unroll 2
    for (int i = 0; i < N; i++) {
      const __m256i a = tap(p0 + at[i], s->mask, n), d = tap(p1 + at[i], s->mask, n);
      acc[i][0] = _mm256_add_epi32(acc[i][0], _mm256_madd_epi16(_mm256_unpacklo_epi16(a, d), w0));
      acc[i][1] = _mm256_add_epi32(acc[i][1], _mm256_madd_epi16(_mm256_unpackhi_epi16(a, d), w1));
    }
  }
#pragma GCC unroll 2
  for (int i = 0; i < N; i++)
    acc[i][0] = _mm256_packs_epi32(requantize(fit, acc[i][0], q, j), requantize(fit, acc[i][1], q, j + LANES));
  const __m256i bytes = narrow(acc[0][0], acc[N - 1][0], q);
  store_lines(N, y, to, _mm256_permute4x64_epi64(bytes, 0xD8), n);
}

/* Few channels: weights and parameters are repeated so that several neighbouring pixels fill a block. */
enum { MOST_WIDE = 32 }; /* taps */
typedef struct { int32_t w[MOST_WIDE / 2 * NR], rows[9][NR]; } widened;
static void widen(ptrdiff_t c, int pairs, const int32_t *w, pl_columns *q, widened *s) {
  const void *from[] = {q->bias, q->mult, q->odd, q->left, q->right, q->half, q->sign, q->scale, q->start};
  for (int k = 0; k < NR; k++) {
    const int place = order[order[k] % c];
    for (int t = 0; t < pairs; t++) s->w[t * NR + k] = w[t * NR + place];
    for (int i = 0; i < 9; i++)
      if (from[i]) s->rows[i][k] = ((const int32_t *)from[i])[place];
  }
  for (int k = 0; k < NR; k++) s->rows[2][k] = s->rows[1][k | 1];
  q->bias = s->rows[0], q->mult = s->rows[1], q->odd = s->rows[2], q->left = q->left ? s->rows[3] : NULL;
  q->right = s->rows[4], q->half = s->rows[5], q->sign = s->rows[6];
  q->scale = (const float *)s->rows[7], q->start = (const float *)s->rows[8];
}

static void depthwise_q8(const pl_dw_window *g, int flip, int w_zero, const void *w0, const pl_columns *q,
                         uint8_t *y) {
  const uint8_t *p[PL_MAX_TAPS + 1];
  const int32_t *w = w0;
  const int taps = g->fh * g->fw, pairs = (taps + 1) / 2;
  /* Output pixels begin .. end - 1 see no pixel beside the image. */
  const ptrdiff_t last = g->width - 1 + g->pad - (ptrdiff_t)(g->fw - 1) * g->dilation;
  const ptrdiff_t begin = (g->pad + g->stride - 1) / g->stride, end = last < 0 ? 0 : last / g->stride + 1;
  const ptrdiff_t c = g->c, together = c < NR && NR % c == 0 && g->stride == 1 && taps <= MOST_WIDE ? NR / c : 1;
  pl_columns own = *q;
  widened wide;
  int inside = 1; /* are all lines in the image? */
  const sight s = {pairs, p, _mm_set1_epi8((char)flip)};
  (void)w_zero;
  if (together > 1) {
    widen(c, pairs, w, &own, &wide);
    w = wide.w;
  }
  for (int i = 0; i < g->fh; i++) inside &= g->row[i] != NULL;
  for (ptrdiff_t at = 0, n; at < g->pixels; at += n) {
    ptrdiff_t size = c;
    n = inside && at >= begin && at < end ? (end < g->pixels ? end : g->pixels) - at : 1;
    pl_taps(g, at, 1, p);
    p[taps] = p[0]; /* the weights of the odd tap are zero */
    if (n >= together) size *= together, n -= n % together;
    for (ptrdiff_t b = 0; b * NR < c; b++) {
      const ptrdiff_t from = pl_block_start(b, NR, c), step = size * g->stride, count = n * c / size;
      uint8_t *const to = y + at * c + from;
      ptrdiff_t i = 0;
#define PIXELS(fit, N, n) \
  pixels(fit, N, n, &s, from + i * step, step, w + b * pairs * NR, &own, b * NR, to + i * size, size)
      for (; own.fit && size >= NR && i + 2 <= count; i += 2) PIXELS(1, 2, NR);
      for (; i < count; i++)
        if (size >= NR) PIXELS(0, 1, NR);
        else PIXELS(0, 1, size);
#undef PIXELS
    }
  }
}

PL_FILL(gemm_avx2, s) {
  s->pack_a_q8 = pack_a_q8;
  s->gemm_q8 = gemm_q8;
  s->gemm_s32 = gemm_s32;
  s->depthwise_q8 = depthwise_q8;
  s->q8 = (pl_tile){.mr = MR, .nr = NR, .nv = LANES, .kr = KR, .ka = KR, .bytes = sizeof(element), .any_n = 1};
  s->dw8 = (pl_tile){.mr = 1, .nr = NR, .nv = NR, .kr = 2, .ka = 2, .bytes = 2, .order = order};
}
#endif
