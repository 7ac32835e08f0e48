/* 8-bit depthwise convolutions for AVX2: blocks of 16 channels, two taps at a time.
 *
 * Weights are 16-bit numbers less the zero point, packed[block][tap / 2][channel][tap % 2], in the order of channels
 * that unpacking gives.  The pixels of two taps are interleaved; one instruction multiplies them by their weights, and
 * adds both products of each channel.  There are three ways: by_pairs() (depthwise_pairs_avx2.h), wrapped() and
 * any_filter(). */
#include "avx2.h"

/* The channel at each position of a block after unpacking; the packs of narrow() restore the order. */
static const uint8_t order[NR] = {0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15};

/* Loads n < 16 bytes, the counterpart of store_part. */
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
/* The addresses of the taps of an output pixel, two for each pair, whose bytes are read ^ flip. */
typedef struct {
  int pairs, flip;
  const uint8_t **p;
} tap_list;

/* n channels of a tap, ^ flip, as 16-bit numbers. */
PL_INLINE __m256i tap(const uint8_t *p, int flip, ptrdiff_t n) {
  const __m128i v = n == NR ? _mm_loadu_si128((const __m128i *)p) : load_part(p, n);
  return _mm256_cvtepi8_epi16(flip ? _mm_xor_si128(v, _mm_set1_epi8((char)flip)) : v);
}

/* Computes n channels of N <= 2 output pixels, and stores the first `kept` of them; pixels are `to` bytes apart.  The
 * taps of the first pixel are c bytes after the taps in s, and the taps of the second `step` bytes further.  w: the
 * weights of the block; j: its place in the parameters q. */
PL_INLINE void pixels(int rounding, int flip, int N, ptrdiff_t n, ptrdiff_t kept, const tap_list *s, ptrdiff_t c,
                      ptrdiff_t step, const int32_t *w, const pl_columns *q, ptrdiff_t j, uint8_t *y, ptrdiff_t to) {
  const __m256i bias0 = load(q->bias + j), bias1 = load(q->bias + j + LANES);
  __m256i acc[2][2] = {{bias0, bias1}, {bias0, bias1}};
  const ptrdiff_t offset[2] = {c, c + step};
  const uint8_t *const *p = s->p;
  for (int t = s->pairs; t > 0; t--, p += 2, w += NR) {
    const uint8_t *const p0 = p[0], *const p1 = p[1];
    const __m256i w0 = load(w), w1 = load(w + LANES);
#pragma GCC unroll 2
    for (int i = 0; i < N; i++) {
      const __m256i a = tap(p0 + offset[i], flip, n), d = tap(p1 + offset[i], flip, n);
      acc[i][0] = _mm256_add_epi32(acc[i][0], _mm256_madd_epi16(_mm256_unpacklo_epi16(a, d), w0));
      acc[i][1] = _mm256_add_epi32(acc[i][1], _mm256_madd_epi16(_mm256_unpackhi_epi16(a, d), w1));
    }
  }
#pragma GCC unroll 2
  for (int i = 0; i < N; i++)
    acc[i][0] = _mm256_packs_epi32(requantize(rounding, acc[i][0], q, j),
                                   requantize(rounding, acc[i][1], q, j + LANES));
  const __m256i bytes = narrow(acc[0][0], acc[N - 1][0], q);
  store_lines(N, y, to, _mm256_permute4x64_epi64(bytes, 0xD8), kept);
}

/* pixels() for `count` output pixels (or blocks of channels), then for `tail` channels of one more. */
PL_INLINE void row_of_blocks(int rounding, int flip, ptrdiff_t count, ptrdiff_t tail, const tap_list *s, ptrdiff_t c,
                             ptrdiff_t step, const int32_t *w, const pl_columns *q, ptrdiff_t j, uint8_t *y,
                             ptrdiff_t to) {
  for (; count >= 2; count -= 2, c += 2 * step, y += 2 * to)
    pixels(rounding, flip, 2, NR, NR, s, c, step, w, q, j, y, to);
  if (count) {
    pixels(rounding, flip, 1, NR, NR, s, c, step, w, q, j, y, to);
    c += step, y += to;
  }
  if (tail) pixels(rounding, flip, 1, NR, tail, s, c, step, w, q, j, y, to);
}
static __attribute__((noinline)) void blocks_of_row(ptrdiff_t count, ptrdiff_t tail, const tap_list *s, ptrdiff_t c,
                                                    ptrdiff_t step, const int32_t *w, const pl_columns *q,
                                                    ptrdiff_t j, uint8_t *y, ptrdiff_t to) {
  const int rounding = rounding_of(q);
  /* uint8 without a RELU is too rare for special code */
  if (s->flip && rounding == FIT_RELU) row_of_blocks(FIT_RELU, s->flip, count, tail, s, c, step, w, q, j, y, to);
  else if (s->flip) row_of_blocks(BY_RULE, s->flip, count, tail, s, c, step, w, q, j, y, to);
  else if (rounding == FIT_RELU) row_of_blocks(FIT_RELU, 0, count, tail, s, c, step, w, q, j, y, to);
  else if (rounding == FIT) row_of_blocks(FIT, 0, count, tail, s, c, step, w, q, j, y, to);
  else row_of_blocks(BY_RULE, 0, count, tail, s, c, step, w, q, j, y, to);
}

/* Any filter; each block of channels lies within a pixel.  Output pixels at the borders are computed one by one. */
static void any_filter(const pl_dw_lines *g, const tap_list *s, const int32_t *w, const pl_columns *q, uint8_t *y) {
  /* Output pixels begin .. end - 1 read no pixel outside the image. */
  const ptrdiff_t last = g->width - 1 + g->pad - (ptrdiff_t)(g->fw - 1) * g->dilation, c = g->c;
  const ptrdiff_t begin = (g->pad + g->stride - 1) / g->stride, end = last < 0 ? 0 : last / g->stride + 1;
  int inside = 1; /* are all lines in the image? */
  for (int i = 0; i < g->fh; i++) inside &= g->row[i] != NULL;
  for (ptrdiff_t pixel = 0, n; pixel < g->pixels; pixel += n) {
    n = inside && pixel >= begin && pixel < end ? (end < g->pixels ? end : g->pixels) - pixel : 1;
    pl_taps(g, pixel, 1, s->p);
    s->p[g->fh * g->fw] = s->p[0]; /* the weights of the odd tap are zero */
    if (c < NR)
      for (ptrdiff_t i = 0; i < n; i++)
        pixels(BY_RULE, s->flip, 1, c, c, s, i * g->stride * c, 0, w, q, 0, y + (pixel + i) * c, 0);
    else
      for (ptrdiff_t b = 0; b * NR < c; b++) {
        const ptrdiff_t from = pl_block_start(b, NR, c);
        blocks_of_row(n, 0, s, from, c * g->stride, w + b * s->pairs * NR, q, b * NR, y + pixel * c + from, c);
      }
  }
}

/* ---- lines cut into blocks of 16 channels that may span pixels: see pl_wraps ----
 *
 * Input lines are copied, with their padding.  If the number of channels is a multiple of 16 ("whole"), copies also
 * hold the pixels that a stride skips; otherwise each phase of the stride has its own lines. */
enum { MAX_CACHED = 24576 }; /* bytes of copies that stay in the first-level cache */

PL_INLINE ptrdiff_t at_least(ptrdiff_t n, ptrdiff_t least) { return n < least ? least : n; }

PL_INLINE void copy_block(const uint8_t *from, uint8_t *to) {
  _mm_storeu_si128((__m128i *)to, _mm_loadu_si128((const __m128i *)from));
}
/* Copies n pixels of c bytes, `step` bytes apart.  `room` bytes are readable from the first one on; up to 15 bytes
 * past the copy are overwritten. */
static void copy_pixels(const uint8_t *from, ptrdiff_t n, ptrdiff_t c, ptrdiff_t step, ptrdiff_t room, uint8_t *to) {
  for (; n > 0; n--, room -= step, from += step, to += c)
    if (c > NR) {
      for (ptrdiff_t i = 0; i < c - NR; i += NR) copy_block(from + i, to + i);
      copy_block(from + c - NR, to + c - NR);
    } else if (room >= NR) {
      copy_block(from, to);
    } else {
      memcpy(to, from, c);
    }
}

/* n bytes ^ flip; up to 15 more bytes change as well. */
static void flip_bytes(uint8_t *p, ptrdiff_t n, int flip) {
  const __m128i mask = _mm_set1_epi8((char)flip);
  for (ptrdiff_t i = 0; i < n; i += NR)
    _mm_storeu_si128((__m128i *)(p + i), _mm_xor_si128(_mm_loadu_si128((const __m128i *)(p + i)), mask));
}

/* Copies `rows` input lines, phase by phase, as bytes ^ flip.  Pixel i of phase p is the input's pixel
 * first + i * s + p, so that consecutive outputs read consecutive pixels of a phase. */
static void copy_lines(const pl_dw_lines *g, int flip, ptrdiff_t s, const uint8_t *const *row, ptrdiff_t rows,
                       ptrdiff_t first, ptrdiff_t pixels, uint8_t *to) {
  const ptrdiff_t c = g->c, line = pixels * c;
  const int zero = g->zero[0] ^ flip;
  for (ptrdiff_t phase = 0; phase < s; phase++) {
    const ptrdiff_t x = first + phase;
    /* pixels begin .. end - 1 are in the image */
    ptrdiff_t begin = x < 0 ? pl_ceil_div(-x, s) : 0, end = x < g->width ? pl_ceil_div(g->width - x, s) : 0;
    if (end > pixels) end = pixels;
    if (begin > end) begin = end;
    for (ptrdiff_t y = 0; y < rows; y++, to += line) {
      if (!row[y] || begin == end) {
        memset(to, zero, line);
        continue;
      }
      const uint8_t *const from = row[y] + (x + begin * s) * c;
      memset(to, zero, begin * c);
      if (s == 1) memcpy(to + begin * c, from, (end - begin) * c);
      else copy_pixels(from, end - begin, c, s * c, row[y] + g->width * c - from, to + begin * c);
      if (flip) flip_bytes(to + begin * c, (end - begin) * c, flip);
      memset(to + end * c, zero, line - end * c);
    }
  }
}

/* Bytes of copies for `pixels` output pixels of `lines` lines. */
PL_INLINE ptrdiff_t copied(const pl_dw_lines *g, ptrdiff_t pixels, ptrdiff_t lines) {
  const ptrdiff_t s = g->stride, across = (g->fw - 1) * g->dilation;
  const ptrdiff_t width = g->c % NR ? (pixels + across / s + 1) * s : pixels * s + across + 1;
  return width * g->c * ((lines - 1) * s + g->fh);
}

/* Computes all output lines from copies of input lines, a part of the lines and pixels at a time.  blocks: see
 * pl_wraps. */
static void wrapped(const pl_dw_lines *g, ptrdiff_t blocks, const tap_list *s, const int32_t *w, const pl_columns *q,
                    uint8_t *y) {
  uint8_t copies[PL_DW_BYTES + 2 * NR];
  const ptrdiff_t c = g->c, whole = c % NR == 0, phases = whole ? 1 : g->stride, skip = whole ? g->stride : 1;
  const ptrdiff_t reach = (g->fw - 1) * g->dilation / phases + 1; /* additional pixels of a phase under the filter */
  const ptrdiff_t period = blocks * NR;                            /* until blocks repeat */
  const tap_list taps = {s->pairs, 0, s->p};
  ptrdiff_t block = g->lines;
  ptrdiff_t most = g->pixels;
  while (block > 1 && copied(g, most < 16 ? most : 16, block) > MAX_CACHED) block = (block + 1) / 2;
  while (most > 1 && copied(g, most, block) > (block > 1 ? MAX_CACHED : PL_DW_BYTES)) most = (most + 1) / 2;
  for (ptrdiff_t line = 0, lines; line < g->lines; line += lines) {
    lines = g->lines - line < block ? g->lines - line : block;
    const ptrdiff_t rows = (lines - 1) * g->stride + g->fh;
    for (ptrdiff_t pixel = 0, n; pixel < g->pixels; pixel += n) {
      n = g->pixels - pixel < most ? g->pixels - pixel : most;
      const ptrdiff_t width = n * skip + reach, pitch = width * c, bytes = n * c;
      copy_lines(g, s->flip, phases, g->row + line * g->stride, rows, pixel * g->stride - g->pad, width, copies);
      const uint8_t **p = s->p;
      for (int i = 0; i < g->fh; i++)
        for (int k = 0; k < g->fw; k++) {
          const ptrdiff_t x = (ptrdiff_t)k * g->dilation;
          *p++ = copies + (x % phases * rows + i) * pitch + x / phases * c;
        }
      *p = s->p[0]; /* the weights of the odd tap are zero */
      for (ptrdiff_t b = 0; b < blocks && b * NR < bytes; b++)
        for (ptrdiff_t i = 0; i < lines; i++) {
          const ptrdiff_t left = bytes - b * NR, count = (left + period - NR) / period, tail = left - count * period;
          blocks_of_row(count, at_least(tail, 0), &taps, i * g->stride * pitch + b * NR, period * skip,
                        w + b * s->pairs * NR, q, b * NR, y + (line + i) * g->y_line + pixel * c + b * NR, period);
        }
    }
  }
}

#include "depthwise_pairs_avx2.h"

static const pl_tile tile = {.mr = 16, .nr = NR, .nv = NR, .kr = 2, .ka = 2, .bytes = 2, .order = order, .wrap = 16,
                             .strided = 1};

static void depthwise_q8(const pl_dw_lines *g, int flip, int w_zero, const void *w, const pl_columns *q,
                         uint8_t *y) {
  const uint8_t *p[PL_MAX_TAPS + 1];
  const tap_list s = {(g->fh * g->fw + 1) / 2, flip, p};
  const pl_columns local = *q; /* a copy, so that the compiler knows that stores to y do not change it */
  const ptrdiff_t blocks = pl_wraps(&tile, g->c, g->fh, g->fw, g->stride, g->dilation);
  const pair_plan plan = plan_pairs(g);
  (void)w_zero;
  if (plan.lines) {
    by_pairs(g, &plan, blocks != 0, flip, w, &local, y);
    return;
  }
  if (blocks && (g->c % NR || copied(g, 4, 1) <= PL_DW_BYTES)) { /* both functions read the same packed weights */
    wrapped(g, blocks, &s, w, &local, y);
    return;
  }
  pl_dw_lines one = *g;
  for (int i = 0; i < g->lines; i++, one.row += g->stride, y += g->y_line) any_filter(&one, &s, w, &local, y);
}

PL_FILL(depthwise_avx2, s) {
  s->depthwise_q8 = depthwise_q8;
  s->dw8 = tile;
}
