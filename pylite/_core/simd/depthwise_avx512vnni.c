/* 8-bit depthwise convolutions for AVX-512 with VNNI: blocks of 64 channels, taps in groups of four. */
#include "avx512vnni.h"

/* gcc is not to load it anew for each use. */
#define IN_REGISTER(v) __asm__("" : "+v"(v))

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

static const pl_tile tile = {16, NR, NR, 4, 4, 1, 128, order, 16, 0};

FORCED void finish(const __m512i acc[4], const scaling scales[4], const pl_columns *q, ptrdiff_t j, const ends *e,
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

/* Any filter, channel blocks that do not wrap.  With a weight zero point, its multiple of the taps' sum is taken off at
 * the end. */
static void any_filter(const pl_dw_window *g, int flip, int w_zero, const int8_t *w, const pl_columns *q, uint8_t *y) {
  const uint8_t *p[PL_MAX_TAPS];
  int16_t taps[4 * PL_MAX_TAPS];
  const int groups = pl_tap_order(&tile, g->fh, g->fw, taps) / 4;
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
      finish(acc, scales, &own, j, &e, n, y + c);
    }
  }
}

/* Every other pixel of c bytes, c being 8, 16 or 32: n vectors of them. */
static void skip_pixels(ptrdiff_t c, ptrdiff_t n, const uint8_t *from, __m512i mask, uint8_t *to) {
  const __m512i i = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7), pixel = _mm512_srl_epi64(i, _mm_cvtsi64_si128(c / 16));
  const __m512i which = _mm512_add_epi64(i, _mm512_mullo_epi64(pixel, _mm512_set1_epi64(c / 8)));
  for (; n > 0; n--, from += 128, to += 64) {
    __m512i v = _mm512_permutex2var_epi64(_mm512_loadu_si512(from), which, _mm512_loadu_si512(from + 64));
    _mm512_storeu_si512(to, _mm512_xor_si512(v, mask));
  }
}

/* Steps of s to n: rounded up. */
FORCED ptrdiff_t steps(ptrdiff_t n, ptrdiff_t s) { return s == 1 ? n : (n + s - 1) / s; }

/* The taps of output lines in lines of their own, as unsigned bytes: pixels that follow one another for a tap do so
 * in memory.  Pixel i of phase p is the input's pixel first + i * stride + p; cc channels of each from c0 on.  The
 * lines of a phase follow one another, and the phases. */
static void pack_lines(const pl_dw_window *g, const uint8_t *const *row, int rows, ptrdiff_t first, ptrdiff_t pixels,
                       ptrdiff_t c0, ptrdiff_t cc, int flip, uint8_t *to) {
  const __m512i mask = _mm512_set1_epi8((char)(flip ^ 0x80));
  const __m512i zero = _mm512_xor_si512(_mm512_set1_epi8((char)g->zero[0]), mask);
  const int joined = g->stride == 1 && cc == g->c;
  const int skip = g->stride == 2 && cc == g->c && (cc == 8 || cc == 16 || cc == 32);
  const ptrdiff_t s = g->stride, line = pixels * cc;
  for (int phase = 0; phase < s; phase++) {
    const ptrdiff_t x = first + phase;
    /* pixels i of begin..end are in the image */
    ptrdiff_t begin = x < 0 ? steps(-x, s) : 0, end = x < g->width ? steps(g->width - x, s) : 0;
    if (end > pixels) end = pixels;
    if (begin > end) begin = end;
    const ptrdiff_t runs = joined ? begin < end : end - begin, bytes = joined ? (end - begin) * cc : cc;
    const ptrdiff_t at = (x + begin * s) * g->c + c0;
    const ptrdiff_t pairs = skip ? (g->width - x) / 2 - begin : 0, skipped = (runs < pairs ? runs : pairs) * cc / 64;
    const __mmask64 rest = first_bytes(bytes % 64);
    for (int y = 0; y < rows; y++, to += line) {
      uint8_t *d = to;
      if (row[y]) {
        for (; d < to + begin * cc; d += 64) _mm512_storeu_si512(d, zero);
        d = to + begin * cc;
        const uint8_t *from = row[y] + at;
        ptrdiff_t run = 0;
        if (skipped > 0) {
          skip_pixels(cc, skipped, from, mask, d);
          from += skipped * 128, d += skipped * 64, run = skipped * 64 / cc;
        }
        for (; run < runs; run++, from += s * g->c, d += bytes) {
          ptrdiff_t b = 0;
          for (; b + 64 <= bytes; b += 64)
            _mm512_storeu_si512(d + b, _mm512_xor_si512(_mm512_loadu_si512(from + b), mask));
          if (rest) _mm512_storeu_si512(d + b, _mm512_xor_si512(_mm512_maskz_loadu_epi8(rest, from + b), mask));
        }
        d = to + end * cc;
      }
      for (; d < to + line; d += 64) _mm512_storeu_si512(d, zero);
    }
  }
}

/* One block of channels over the pixels of a chunk: `n` times 64 bytes, `step` apart in the lines and `y_step` in the
 * output; of the last one `tail`. */
typedef struct { ptrdiff_t n, step, y_step; int tail; } run;

/* tap[i]: where tap i begins, or -1. */
FORCED void block(int groups, int w_zero, const uint8_t *x, const ptrdiff_t *tap, const run *at, const int8_t *w,
                  const pl_columns *q, ptrdiff_t j, const ends *e, uint8_t *y) {
  const __m512i none = _mm512_setzero_si512(), zero = _mm512_set1_epi32(w_zero), ones = _mm512_set1_epi8(1);
  const scaling scales[4] = {scaling_of(q, j), scaling_of(q, j + LANES), scaling_of(q, j + 2 * LANES),
                             scaling_of(q, j + 3 * LANES)};
  for (ptrdiff_t i = 0; i < at->n; i++, x += at->step, y += at->y_step) {
    __m512i acc[4], sum[4];
#pragma GCC unroll 4
    for (int v = 0; v < 4; v++) acc[v] = _mm512_loadu_si512(q->bias + j + LANES * v), sum[v] = none;
    for (int g = 0; g < groups; g++) {
      __m512i t[4], v[4];
#pragma GCC unroll 4
      for (int k = 0; k < 4; k++) t[k] = tap[4 * g + k] < 0 ? none : _mm512_loadu_si512(x + tap[4 * g + k]);
      interleave(t[0], t[1], t[2], t[3], v);
#pragma GCC unroll 4
      for (int k = 0; k < 4; k++) {
        DOT(acc[k], v[k], _mm512_loadu_si512(w + (4 * g + k) * 64));
        if (w_zero) DOT(sum[k], v[k], ones);
      }
    }
    if (w_zero)
#pragma GCC unroll 4
      for (int v = 0; v < 4; v++) acc[v] = _mm512_sub_epi32(acc[v], _mm512_mullo_epi32(sum[v], zero));
    finish(acc, scales, q, j, e, i == at->n - 1 ? at->tail : 64, y);
  }
}

/* 3x3, two output lines at once, y_line apart: the taps of an input line (`pitch` apart) are interleaved once for both.
 * Of further outputs below each other none could begin before the first ones are nearly finished, which takes long. */
FORCED void two_lines(int relu, int stride, int w_zero, const uint8_t *x, const ptrdiff_t *taps, ptrdiff_t pitch,
                      const run *at, const int8_t *w, const pl_columns *q, ptrdiff_t j, const ends *e, uint8_t *y,
                      ptrdiff_t y_line) {
  const scaling scales[4] = {scaling_of(q, j), scaling_of(q, j + LANES), scaling_of(q, j + 2 * LANES),
                             scaling_of(q, j + 3 * LANES)};
  const ptrdiff_t n = at->n, step = at->step, y_step = at->y_step, tap[3] = {taps[0], taps[1], taps[2]};
  const int tail = at->tail;
  const ends own = *e;
  const int32_t *bias = q->bias + j;
  for (ptrdiff_t i = 0; i < n; i++, x += step, y += y_step) {
    const uint8_t *a = x + tap[0], *b = x + tap[1], *c = x + tap[2];
    __m512i acc[2][4], v[4], before[4];
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) {
      __m512i start = _mm512_loadu_si512(bias + LANES * k);
      IN_REGISTER(start);
      acc[0][k] = acc[1][k] = start;
    }
#pragma GCC unroll 5
    for (int row = 0; row < 3 + stride; row++, a += pitch, b += pitch, c += pitch) {
      __m512i first = _mm512_loadu_si512(a), second = _mm512_loadu_si512(b), last = _mm512_loadu_si512(c);
      IN_REGISTER(first);
      IN_REGISTER(second);
      IN_REGISTER(last);
#pragma GCC unroll 4
      for (int k = 0; k < 4; k++) before[k] = v[k];
      interleave(first, second, last, last, v);
#pragma GCC unroll 4
      for (int k = 0; k < 4; k++) {
        if (w_zero) { /* its multiples of the taps' sums, at most 3 * 255: 16 bits */
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
      store(4, y + line * y_line, narrow(relu, v[0], v[1], v[2], v[3], &own), i == n - 1 ? tail : 64);
    }
  }
}

/* Lines without regard to where pixels end (pl_wraps), a chunk of pixels, of channels and of lines at a time.  Where
 * blocks are whole, pixels that a stride skips lie among the others; else each phase has lines of its own. */
static void wrapped(const pl_dw_window *g, int flip, int w_zero, const int8_t *w, const pl_columns *q, uint8_t *y) {
  enum { AT_ONCE = 256, BYTES = 32768 }; /* channels, where blocks are whole; bytes that stay in the cache */
  uint8_t room_for[PL_DW_BYTES + 64] __attribute__((aligned(64)));
  int16_t taps[4 * PL_MOST_WRAPPED];
  ptrdiff_t tap[4 * PL_MOST_WRAPPED], places[PL_MOST_WRAPPED];
  const int groups = pl_tap_order(&tile, g->fh, g->fw, taps) / 4, s = g->stride;
  const int whole = g->c % NR == 0, reach = (s == 1 ? (g->fw - 1) * g->dilation : (g->fw - 1) * g->dilation / s) + 1;
  const int relu = has_relu(q);
  const int twice = g->fh == 3 && g->fw == 3 && g->dilation == 1 && s <= 2 && q->fit;
  const pl_columns own = *q;
  const ends e = ends_of(q);
  ptrdiff_t blocks = 1; /* until they repeat */
  while (!whole && blocks * NR % g->c) blocks++;
  ptrdiff_t cc = whole ? NR : g->c;
  pl_dw_window packed = *g;
  if (whole) packed.stride = 1;
  int lines = g->lines;
  const ptrdiff_t least = reach + (g->pixels < 16 ? g->pixels : 16);
  while (lines > 1 && least * ((lines - 1) * s + g->fh) * s * cc > BYTES) lines -= lines > 2 ? 2 : 1;
  for (int line = 0; line < g->lines; line += lines) {
    if (lines > g->lines - line) lines = g->lines - line;
    const int rows = (lines - 1) * s + g->fh;
    while (whole && cc < g->c && cc < AT_ONCE && (reach + 4) * rows * s * (cc + NR) <= BYTES) cc += NR;
    const ptrdiff_t room = (reach + 4) * rows * s * cc <= BYTES ? BYTES : PL_DW_BYTES;
    ptrdiff_t most = room / (rows * s * cc) - reach;
    if (most < 1) most = 1;
    const ptrdiff_t chunks = most >= g->pixels ? 1 : (g->pixels + most - 1) / most;
    most = steps(g->pixels, chunks);
    for (ptrdiff_t c0 = 0; c0 < g->c; c0 += cc) {
      const ptrdiff_t some = c0 + cc > g->c ? g->c - c0 : cc;
      if (whole) blocks = some / NR;
      for (ptrdiff_t at = 0; at < g->pixels; at += most) {
        const ptrdiff_t pixels = g->pixels - at < most ? g->pixels - at : most, wide = pixels + reach;
        const ptrdiff_t bytes = pixels * some, pitch = (whole ? s * wide : wide) * some;
        pack_lines(&packed, g->row + line * s, rows, at * s - g->pad, whole ? s * wide : wide, c0, some, flip,
                   room_for);
        ptrdiff_t *place = places;
        for (int y = 0; y < g->fh; y++)
          for (int x = 0, phase = 0, pixel = 0; x < g->fw; x++, phase += g->dilation) {
            for (; phase >= packed.stride; phase -= (int)packed.stride) pixel++;
            *place++ = (phase * rows + y) * pitch + pixel * some;
          }
        for (int i = 0; i < 4 * groups; i++) tap[i] = taps[i] < 0 ? -1 : places[taps[i]];
        for (ptrdiff_t b = 0; b < blocks && b * NR < bytes; b++) {
          const ptrdiff_t apart = whole ? some : blocks * NR;
          run of = {.n = whole ? pixels : (bytes - b * NR + apart - 1) / apart, .step = whole ? s * some : apart};
          of.y_step = whole ? g->c : apart;
          const ptrdiff_t j = c0 + b * NR, left = bytes - b * NR - (of.n - 1) * apart;
          of.tail = left < NR ? (int)left : NR;
          const int8_t *wb = w + j * 4 * groups;
          const uint8_t *x = room_for + b * NR;
          uint8_t *to = y + line * g->y_line + at * g->c + j;
#define PAIR(relu, stride, w_zero) \
  two_lines(relu, stride, w_zero, x, tap, pitch, &of, wb, &own, j, &e, to, g->y_line)
#define PAIRS(relu) \
  (s == 1 ? w_zero ? PAIR(relu, 1, w_zero) : PAIR(relu, 1, 0) : w_zero ? PAIR(relu, 2, w_zero) : PAIR(relu, 2, 0))
          int i = 0;
          for (; twice && i + 2 <= lines; i += 2, x += 2 * s * pitch, to += 2 * g->y_line)
            relu ? PAIRS(1) : PAIRS(0);
          for (; i < lines; i++, x += s * pitch, to += g->y_line)
            block(groups, w_zero, x, tap, &of, wb, &own, j, &e, to);
        }
      }
    }
  }
}

static void depthwise_q8(const pl_dw_window *g, int flip, int w_zero, const void *w, const pl_columns *q, uint8_t *y) {
  if ((g->pixels > 2 || (g->c % NR && NR % g->c)) && /* else they are packed alike */
      pl_wraps(&tile, g->c, g->fh, g->fw, g->stride, g->dilation)) {
    wrapped(g, flip, w_zero, w, q, y);
    return;
  }
  pl_dw_window one = *g;
  for (int i = 0; i < g->lines; i++, one.row += g->stride, y += g->y_line) any_filter(&one, flip, w_zero, w, q, y);
}

PL_FILL(depthwise_avx512vnni, s) {
  for (int i = 0; i < NR; i++) order[i] = (uint8_t)(i % 16 / 4 * 16 + i / 16 * 4 + i % 4);
  s->depthwise_q8 = depthwise_q8;
  s->dw8 = tile;
}
