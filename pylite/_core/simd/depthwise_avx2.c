/* 8-bit depthwise convolutions for AVX2: blocks of 16 channels, taps in pairs, weights of 16 bits (less their zero
 * point). */
#include "avx2.h"

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

PL_FILL(depthwise_avx2, s) {
  s->depthwise_q8 = depthwise_q8;
  s->dw8 = (pl_tile){.mr = 1, .nr = NR, .nv = NR, .kr = 2, .ka = 2, .bytes = 2, .order = order};
}
