/* 8-bit depthwise convolutions for AVX-512 with VNNI: blocks of 64 channels, four taps (a group) at a time.
 *
 * Weights are int8, packed[block][group][channel][tap of the group], in the orders of `order` and of pl_tap_order().
 * The pixels of a group are interleaved, so that a 32-bit lane holds four taps of one channel; one instruction adds
 * their products to its sum.  wrapped() copies input lines, any_filter() reads them in place. */
#include "avx512vnni.h"

/* Prevents gcc from loading v again for each use. */
#define IN_REGISTER(v) __asm__("" : "+v"(v))

/* Interleaves the bytes of four taps, so that each 32-bit lane holds the four taps of one channel. */
PL_INLINE void interleave(__m512i a, __m512i b, __m512i c, __m512i d, __m512i out[4]) {
  __m512i ab0 = _mm512_unpacklo_epi8(a, b), ab1 = _mm512_unpackhi_epi8(a, b);
  __m512i cd0 = _mm512_unpacklo_epi8(c, d), cd1 = _mm512_unpackhi_epi8(c, d);
  out[0] = _mm512_unpacklo_epi16(ab0, cd0);
  out[1] = _mm512_unpackhi_epi16(ab0, cd0);
  out[2] = _mm512_unpacklo_epi16(ab1, cd1);
  out[3] = _mm512_unpackhi_epi16(ab1, cd1);
}

/* The channel at each position of a block after unpacking; the packs of narrow() restore the order. */
static uint8_t order[NR];

static const pl_tile tile = {.mr = 16, .nr = NR, .nv = NR, .kr = 4, .ka = 4, .bytes = 1, .offset = 128, .order = order,
                             .wrap = 16};

/* Requantizes the sums of a block to its first n bytes. */
PL_INLINE void finish(const __m512i acc[4], const scaling scales[4], const pl_columns *q, ptrdiff_t j, const ends *e,
                      int n, uint8_t *y) {
  __m512i v[4];
  if (__builtin_expect(!q->fit, 0)) {
    int32_t line[NR];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) _mm512_storeu_si512(line + LANES * i, acc[i]);
    pl_requantize_lines(1, n, line, 0, 0, q, j, y, 0);
    return;
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) v[i] = requantize(0, acc[i], &scales[i]);
  store(4, y, narrow(0, v[0], v[1], v[2], v[3], e), n);
}

/* Computes a line of outputs with any filter; each block of channels lies within a pixel.  The weights' zero point
 * times the sum of the pixels is subtracted at the end. */
static void any_filter(const pl_dw_lines *g, int flip, int w_zero, const int8_t *w, const pl_columns *q, uint8_t *y) {
  const uint8_t *p[PL_MAX_TAPS];
  int16_t taps[4 * PL_MAX_TAPS];
  const int groups = pl_tap_order(&tile, g->fh, g->fw, taps) / 4;
  const ptrdiff_t blocks = (g->c + NR - 1) / NR;
  const int n = g->c < NR ? (int)g->c : NR;
  const __mmask64 m = first_bytes(n);
  const __m512i mask = _mm512_set1_epi8((char)(flip ^ 0x80)), ones = _mm512_set1_epi8(1);
  const __m512i zero = _mm512_set1_epi32(w_zero), padding = _mm512_setzero_si512();
  const pl_columns local = *q; /* a copy, so that the compiler knows that stores to y do not change it */
  const ends e = ends_of(q);
  for (ptrdiff_t pixel = 0; pixel < g->pixels; pixel++, y += g->c) {
    pl_taps(g, pixel, 1, p);
    for (ptrdiff_t b = 0; b < blocks; b++) {
      const ptrdiff_t c = pl_block_start(b, NR, g->c), j = b * NR;
      const int8_t *wb = w + b * groups * 4 * NR;
      const scaling scales[4] = {scaling_of(q, j), scaling_of(q, j + LANES), scaling_of(q, j + 2 * LANES),
                                 scaling_of(q, j + 3 * LANES)};
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
      finish(acc, scales, &local, j, &e, n, y + c);
    }
  }
}

/* Copies every other pixel of c bytes, each byte ^ mask: n vectors of them; c is 8, 16 or 32. */
static void skip_pixels(ptrdiff_t c, ptrdiff_t n, const uint8_t *from, __m512i mask, uint8_t *to) {
  const __m512i i = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7), pixel = _mm512_srl_epi64(i, _mm_cvtsi64_si128(c / 16));
  const __m512i which = _mm512_add_epi64(i, _mm512_mullo_epi64(pixel, _mm512_set1_epi64(c / 8)));
  for (; n > 0; n--, from += 128, to += 64) {
    __m512i v = _mm512_permutex2var_epi64(_mm512_loadu_si512(from), which, _mm512_loadu_si512(from + 64));
    _mm512_storeu_si512(to, _mm512_xor_si512(v, mask));
  }
}

/* Copies `count` channels from c_begin on of `rows` input lines, as x + 128 in unsigned bytes, to line buffers without
 * gaps.  Pixel i of phase p is the input's pixel first + i * stride + p, so that consecutive outputs read consecutive
 * pixels of a phase.  All lines of a phase come before the lines of the next phase. */
static void pack_lines(const pl_dw_lines *g, const uint8_t *const *row, int rows, ptrdiff_t first, ptrdiff_t pixels,
                       ptrdiff_t c_begin, ptrdiff_t count, int flip, uint8_t *to) {
  const __m512i mask = _mm512_set1_epi8((char)(flip ^ 0x80));
  const __m512i zero = _mm512_xor_si512(_mm512_set1_epi8((char)g->zero[0]), mask);
  const int joined = g->stride == 1 && count == g->c;
  const int skip = g->stride == 2 && count == g->c && (count == 8 || count == 16 || count == 32);
  const ptrdiff_t s = g->stride, line = pixels * count;
  for (int phase = 0; phase < s; phase++) {
    const ptrdiff_t x = first + phase;
    /* pixels begin .. end - 1 of the phase are in the image */
    ptrdiff_t begin = x < 0 ? pl_ceil_div(-x, s) : 0, end = x < g->width ? pl_ceil_div(g->width - x, s) : 0;
    if (end > pixels) end = pixels;
    if (begin > end) begin = end;
    const ptrdiff_t runs = joined ? begin < end : end - begin, bytes = joined ? (end - begin) * count : count;
    const ptrdiff_t offset = (x + begin * s) * g->c + c_begin;
    const ptrdiff_t pairs = skip ? (g->width - x) / 2 - begin : 0, vectors = (runs < pairs ? runs : pairs) * count / 64;
    const __mmask64 rest = first_bytes(bytes % 64);
    for (int y = 0; y < rows; y++, to += line) {
      uint8_t *d = to;
      if (row[y]) {
        for (; d < to + begin * count; d += 64) _mm512_storeu_si512(d, zero);
        d = to + begin * count;
        const uint8_t *from = row[y] + offset;
        ptrdiff_t run = 0;
        if (vectors > 0) {
          skip_pixels(count, vectors, from, mask, d);
          from += vectors * 128, d += vectors * 64, run = vectors * 64 / count;
        }
        for (; run < runs; run++, from += s * g->c, d += bytes) {
          ptrdiff_t b = 0;
          for (; b + 64 <= bytes; b += 64)
            _mm512_storeu_si512(d + b, _mm512_xor_si512(_mm512_loadu_si512(from + b), mask));
          if (rest) _mm512_storeu_si512(d + b, _mm512_xor_si512(_mm512_maskz_loadu_epi8(rest, from + b), mask));
        }
        d = to + end * count;
      }
      for (; d < to + line; d += 64) _mm512_storeu_si512(d, zero);
    }
  }
}

/* 64 channels with the same weights, which lie in n places of a line: `step` bytes apart in the line buffer, `y_step`
 * in the output.  The last place has only `tail` channels. */
typedef struct {
  ptrdiff_t n, step, y_step;
  int tail;
  const ptrdiff_t *tap; /* offsets of the taps in the line buffers, or -1 for the padding of a group */
  const int8_t *w;
  const pl_columns *q;
  ptrdiff_t j; /* the block's place in q */
  const ends *e;
} block;

/* Computes b in one output line. */
PL_INLINE void one_line(int groups, int w_zero, const uint8_t *x, const block *b, uint8_t *y) {
  const pl_columns *q = b->q;
  const ptrdiff_t j = b->j;
  const __m512i none = _mm512_setzero_si512(), zero = _mm512_set1_epi32(w_zero), ones = _mm512_set1_epi8(1);
  const scaling scales[4] = {scaling_of(q, j), scaling_of(q, j + LANES), scaling_of(q, j + 2 * LANES),
                             scaling_of(q, j + 3 * LANES)};
  for (ptrdiff_t i = 0; i < b->n; i++, x += b->step, y += b->y_step) {
    __m512i acc[4], sum[4];
#pragma GCC unroll 4
    for (int v = 0; v < 4; v++) acc[v] = _mm512_loadu_si512(q->bias + j + LANES * v), sum[v] = none;
    for (int g = 0; g < groups; g++) {
      __m512i t[4], v[4];
#pragma GCC unroll 4
      for (int k = 0; k < 4; k++) t[k] = b->tap[4 * g + k] < 0 ? none : _mm512_loadu_si512(x + b->tap[4 * g + k]);
      interleave(t[0], t[1], t[2], t[3], v);
#pragma GCC unroll 4
      for (int k = 0; k < 4; k++) {
        DOT(acc[k], v[k], _mm512_loadu_si512(b->w + (4 * g + k) * 64));
        if (w_zero) DOT(sum[k], v[k], ones);
      }
    }
    if (w_zero)
#pragma GCC unroll 4
      for (int v = 0; v < 4; v++) acc[v] = _mm512_sub_epi32(acc[v], _mm512_mullo_epi32(sum[v], zero));
    finish(acc, scales, q, j, b->e, i == b->n - 1 ? b->tail : 64, y);
  }
}

/* one_line() for 3 x 3 filters and two output lines, y_line apart: the pixels of an input line (lines are `pitch`
 * apart) are interleaved once for both.  More lines would gain little, because the third begins when the first is
 * almost done. */
PL_INLINE void two_lines(int relu, int stride, int w_zero, const uint8_t *x, ptrdiff_t pitch, const block *b,
                         uint8_t *y, ptrdiff_t y_line) {
  const pl_columns *q = b->q;
  const ptrdiff_t j = b->j;
  const scaling scales[4] = {scaling_of(q, j), scaling_of(q, j + LANES), scaling_of(q, j + 2 * LANES),
                             scaling_of(q, j + 3 * LANES)};
  const ptrdiff_t n = b->n, step = b->step, y_step = b->y_step, tap[3] = {b->tap[0], b->tap[1], b->tap[2]};
  const int tail = b->tail;
  const ends local = *b->e;
  const int8_t *w = b->w;
  const int32_t *bias = q->bias + j;
  for (ptrdiff_t i = 0; i < n; i++, x += step, y += y_step) {
    const uint8_t *left = x + tap[0], *middle = x + tap[1], *right = x + tap[2];
    __m512i acc[2][4], v[4], before[4];
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) {
      __m512i start = _mm512_loadu_si512(bias + LANES * k);
      IN_REGISTER(start);
      acc[0][k] = acc[1][k] = start;
    }
#pragma GCC unroll 5
    for (int row = 0; row < 3 + stride; row++, left += pitch, middle += pitch, right += pitch) {
      __m512i first = _mm512_loadu_si512(left), second = _mm512_loadu_si512(middle), last = _mm512_loadu_si512(right);
      IN_REGISTER(first);
      IN_REGISTER(second);
      IN_REGISTER(last);
#pragma GCC unroll 4
      for (int k = 0; k < 4; k++) before[k] = v[k];
      interleave(first, second, last, last, v);
#pragma GCC unroll 4
      for (int k = 0; k < 4; k++) {
        if (w_zero) { /* subtract it times the sum of three taps, which fits in 16 bits */
          __m512i less = _mm512_setzero_si512();
          DOT(less, v[k], _mm512_set1_epi32(0x00010101));
          less = _mm512_madd_epi16(less, _mm512_set1_epi32(w_zero));
          if (row < 3) acc[0][k] = _mm512_sub_epi32(acc[0][k], less);
          if (row >= stride) acc[1][k] = _mm512_sub_epi32(acc[1][k], less);
        }
        if (stride == 1 && row > 0) { /* the same weights for both lines */
          __m512i weights = _mm512_loadu_si512(w + 256 * (row - 1) + 64 * k);
          IN_REGISTER(weights);
          DOT(acc[0][k], before[k], weights);
          DOT(acc[1][k], v[k], weights);
        } else if (stride > 1) {
          if (row < 3) DOT(acc[0][k], v[k], _mm512_loadu_si512(w + 256 * row + 64 * k));
          if (row >= stride) DOT(acc[1][k], v[k], _mm512_loadu_si512(w + 256 * (row - stride) + 64 * k));
        }
      }
    }
#pragma GCC unroll 2
    for (int line = 0; line < 2; line++) {
#pragma GCC unroll 4
      for (int k = 0; k < 4; k++) v[k] = requantize(relu, acc[line][k], &scales[k]);
      store(4, y + line * y_line, narrow(relu, v[0], v[1], v[2], v[3], &local), i == n - 1 ? tail : 64);
    }
  }
}

/* ---- lines cut into blocks of 64 channels that may span pixels: see pl_wraps ----
 *
 * A chunk of pixels, channels and output lines is computed from one copy of its input.  If the number of channels is a
 * multiple of 64 ("whole"), line buffers also hold the pixels that a stride skips; otherwise each phase of the stride
 * has its own line buffers. */
enum {
  MAX_CHANNELS = 256, /* of a chunk, if `whole` */
  MAX_CACHED = 32768  /* bytes of line buffers that stay in the first-level cache */
};

typedef struct {
  int groups, stride, w_zero; /* groups: of taps */
  int whole, relu;            /* relu: see requantize() */
  int pairs;                  /* does two_lines() compute it? */
  ptrdiff_t reach;            /* pixels from the first to the last one that an output reads in a line buffer */
  int lines, rows;            /* output lines of the chunk, and the input lines that they read */
  ptrdiff_t pitch;            /* bytes from one line buffer to the next */
} chunk;

/* A chunk with the fields that all chunks share. */
static chunk new_chunk(const pl_dw_lines *g, int groups, int w_zero, const pl_columns *q) {
  const int s = g->stride;
  chunk k = {.groups = groups, .stride = s, .w_zero = w_zero, .whole = g->c % NR == 0, .relu = has_relu(q)};
  k.pairs = g->fh == 3 && g->fw == 3 && g->dilation == 1 && s <= 2 && q->fit;
  k.reach = (s == 1 ? (g->fw - 1) * g->dilation : (g->fw - 1) * g->dilation / s) + 1;
  return k;
}

/* The output lines of a chunk: as many as fit into the cache with 16 pixels each. */
static int lines_at_once(const pl_dw_lines *g, ptrdiff_t reach, ptrdiff_t channels) {
  const ptrdiff_t s = g->stride, least = reach + (g->pixels < 16 ? g->pixels : 16);
  int lines = g->lines;
  while (lines > 1 && least * ((lines - 1) * s + g->fh) * s * channels > MAX_CACHED) lines -= lines > 2 ? 2 : 1;
  return lines;
}

/* The output pixels of a chunk; all chunks of a line have about the same length. */
static ptrdiff_t pixels_at_once(const pl_dw_lines *g, const chunk *k, ptrdiff_t channels) {
  const ptrdiff_t each = k->rows * g->stride * channels;
  const ptrdiff_t capacity = (k->reach + 4) * each <= MAX_CACHED ? MAX_CACHED : PL_DW_BYTES;
  ptrdiff_t most = capacity / each - k->reach;
  if (most < 1) most = 1;
  return pl_ceil_div(g->pixels, most >= g->pixels ? 1 : (g->pixels + most - 1) / most);
}

/* tap[i] = the offset in the line buffers of tap number taps[i] of the filter, or -1 for padding. */
static void place_taps(const pl_dw_lines *g, const chunk *k, ptrdiff_t channels, const int16_t *taps,
                       ptrdiff_t *tap) {
  const int phases = k->whole ? 1 : k->stride;
  ptrdiff_t places[PL_MAX_WRAPPED_TAPS], *place = places;
  for (int y = 0; y < g->fh; y++)
    for (int x = 0, phase = 0, pixel = 0; x < g->fw; x++, phase += g->dilation) {
      for (; phase >= phases; phase -= phases) pixel++;
      *place++ = (phase * k->rows + y) * k->pitch + pixel * channels;
    }
  for (int i = 0; i < 4 * k->groups; i++) tap[i] = taps[i] < 0 ? -1 : places[taps[i]];
}

/* Computes all output lines of a chunk for one block of channels. */
PL_INLINE void block_lines(const chunk *k, const uint8_t *x, const block *b, uint8_t *y, ptrdiff_t y_line) {
  const int s = k->stride, w_zero = k->w_zero, relu = k->relu;
  const ptrdiff_t pitch = k->pitch;
  int i = 0;
#define PAIR(relu, stride, w_zero) two_lines(relu, stride, w_zero, x, pitch, b, y, y_line)
#define PAIRS(relu) \
  (s == 1 ? w_zero ? PAIR(relu, 1, w_zero) : PAIR(relu, 1, 0) : w_zero ? PAIR(relu, 2, w_zero) : PAIR(relu, 2, 0))
  for (; k->pairs && i + 2 <= k->lines; i += 2, x += 2 * s * pitch, y += 2 * y_line) relu ? PAIRS(1) : PAIRS(0);
#undef PAIRS
#undef PAIR
  for (; i < k->lines; i++, x += s * pitch, y += y_line) one_line(k->groups, w_zero, x, b, y);
}

/* Computes all output lines, chunk by chunk. */
static void wrapped(const pl_dw_lines *g, int flip, int w_zero, const int8_t *w, const pl_columns *q, uint8_t *y) {
  uint8_t buffers[PL_DW_BYTES + 64] __attribute__((aligned(64)));
  int16_t taps[4 * PL_MAX_WRAPPED_TAPS];
  ptrdiff_t tap[4 * PL_MAX_WRAPPED_TAPS];
  const pl_columns local = *q; /* a copy, so that the compiler knows that stores to y do not change it */
  const ends e = ends_of(q);
  const ptrdiff_t s = g->stride;
  chunk k = new_chunk(g, pl_tap_order(&tile, g->fh, g->fw, taps) / 4, w_zero, q);
  const int whole = k.whole;
  pl_dw_lines packed = *g;
  if (whole) packed.stride = 1;
  ptrdiff_t blocks = 1; /* until they repeat */
  while (!whole && blocks * NR % g->c) blocks++;
  ptrdiff_t channels = whole ? NR : g->c;
  k.lines = lines_at_once(g, k.reach, channels);
  for (int line = 0; line < g->lines; line += k.lines) {
    if (k.lines > g->lines - line) k.lines = g->lines - line;
    k.rows = (k.lines - 1) * (int)s + g->fh;
    while (whole && channels < g->c && channels < MAX_CHANNELS &&
           (k.reach + 4) * k.rows * s * (channels + NR) <= MAX_CACHED)
      channels += NR;
    const ptrdiff_t most = pixels_at_once(g, &k, channels);
    for (ptrdiff_t c_begin = 0; c_begin < g->c; c_begin += channels) {
      const ptrdiff_t part = c_begin + channels > g->c ? g->c - c_begin : channels, period = whole ? part : blocks * NR;
      if (whole) blocks = part / NR;
      for (ptrdiff_t pixel = 0; pixel < g->pixels; pixel += most) {
        const ptrdiff_t pixels = g->pixels - pixel < most ? g->pixels - pixel : most, bytes = pixels * part;
        const ptrdiff_t width = (whole ? s : 1) * (pixels + k.reach);
        k.pitch = width * part;
        pack_lines(&packed, g->row + line * s, k.rows, pixel * s - g->pad, width, c_begin, part, flip, buffers);
        place_taps(g, &k, part, taps, tap);
        for (ptrdiff_t i = 0; i < blocks && i * NR < bytes; i++) {
          block b = {.n = whole ? pixels : (bytes - i * NR + period - 1) / period, .tap = tap, .q = &local, .e = &e};
          b.step = whole ? s * part : period;
          b.y_step = whole ? g->c : period;
          b.j = c_begin + i * NR;
          const ptrdiff_t left = bytes - i * NR - (b.n - 1) * period;
          b.tail = left < NR ? (int)left : NR;
          b.w = w + b.j * 4 * k.groups;
          block_lines(&k, buffers + i * NR, &b, y + line * g->y_line + pixel * g->c + b.j, g->y_line);
        }
      }
    }
  }
}

static void depthwise_q8(const pl_dw_lines *g, int flip, int w_zero, const void *w, const pl_columns *q, uint8_t *y) {
  if ((g->pixels > 2 || (g->c % NR && NR % g->c)) && /* both functions read the same packed weights then */
      pl_wraps(&tile, g->c, g->fh, g->fw, g->stride, g->dilation)) {
    wrapped(g, flip, w_zero, w, q, y);
    return;
  }
  pl_dw_lines one = *g;
  for (int i = 0; i < g->lines; i++, one.row += g->stride, y += g->y_line) any_filter(&one, flip, w_zero, w, q, y);
}

PL_FILL(depthwise_avx512vnni, s) {
  for (int i = 0; i < NR; i++) order[i] = (uint8_t)(i % 16 / 4 * 16 + i / 16 * 4 + i % 4);
  s->depthwise_q8 = depthwise_q8;
  s->dw8 = tile;
}
