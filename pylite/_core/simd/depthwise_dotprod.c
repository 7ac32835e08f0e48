/* 8-bit depthwise convolutions for dotprod.  The bytes of four taps are interleaved, so that a lane holds those of one
 * channel.  A weight zero point times the sum of the taps is subtracted at the end. */
#include "depthwise_neon.h"

PL_INLINE int8x16_t zipped(int8x8_t a, int8x8_t b) {
  int8x16_t r; /* with the intrinsic, gcc widens the operands first */
  __asm__("zip1 %0.16b, %1.16b, %2.16b" : "=w"(r) : "w"(a), "w"(b));
  return r;
}
/* Four taps of channels 0 to 3, and of 4 to 7. */
typedef struct { int8x16_t low, high; } four_taps;
PL_INLINE four_taps interleave(int plain, const way *f, const uint8_t *a, const uint8_t *b, const uint8_t *c,
                               const uint8_t *d) {
  const uint8x8_t mask = vdup_n_u8((uint8_t)f->flip);
#define READ(p) vreinterpret_s8_u8(plain ? vld1_u8(p) : veor_u8(vld1_u8(p), mask))
  const int16x8_t ab = vreinterpretq_s16_s8(zipped(READ(a), READ(b)));
  const int16x8_t cd = vreinterpretq_s16_s8(zipped(READ(c), READ(d)));
#undef READ
  return (four_taps){vreinterpretq_s8_s16(vzip1q_s16(ab, cd)), vreinterpretq_s8_s16(vzip2q_s16(ab, cd))};
}
PL_INLINE void add(sums *acc, four_taps x, int8x16_t low, int8x16_t high) {
  acc->low = vdotq_s32(acc->low, x.low, low);
  acc->high = vdotq_s32(acc->high, x.high, high);
}

/* N neighbouring output pixels.  Tap t of the first one is at p[t], that of each further one step[t] behind it.  There
 * is one more tap, which is not used.  plain: int8, and no zero point of the weights. */
PL_INLINE void pixels(int N, int plain, int taps, const uint8_t *const *p, const ptrdiff_t *step, ptrdiff_t from,
                      const int8_t *w, const way *f, uint8_t *y, ptrdiff_t c) {
  sums acc[TOGETHER];
#pragma GCC unroll 4
  for (int i = 0; i < N; i++) acc[i] = load_sums(f->bias);
  const int8x16_t ones = vdupq_n_s8(1);
  sums sum[TOGETHER];
#pragma GCC unroll 4
  for (int i = 0; i < N; i++) sum[i] = (sums){vdupq_n_s32(0), vdupq_n_s32(0)};
  for (int t = 0; t < taps; t += 4, w += 4 * NR) {
    const int8x16_t low = vld1q_s8(w), high = vld1q_s8(w + 16);
#pragma GCC unroll 4
    for (int i = 0; i < N; i++) {
      const ptrdiff_t at = from + i;
      const four_taps x = interleave(plain, f, p[t] + at * step[t], p[t + 1] + at * step[t + 1],
                                     p[t + 2] + at * step[t + 2], p[t + 3] + at * step[t + 3]);
      add(&acc[i], x, low, high);
      if (!plain) add(&sum[i], x, ones, ones);
    }
  }
  if (!plain)
#pragma GCC unroll 4
    for (int i = 0; i < N; i++) {
      acc[i].low = vmlsq_n_s32(acc[i].low, sum[i].low, f->w_zero);
      acc[i].high = vmlsq_n_s32(acc[i].high, sum[i].high, f->w_zero);
    }
  if (f->left) finish(N, acc, f, f->left, y, c);
  else finish(N, acc, f, NULL, y, c);
}

/* The taps in the order of packing, and one more. */
typedef struct { int taps; int16_t order[4 * PL_MAX_TAPS]; } filter;
static void filter_of(const pl_dw_window *g, filter *s) {
  const pl_tile shape = {.kr = 4};
  s->taps = pl_tap_order(&shape, g->fh, g->fw, s->order);
}
static void see(const pl_dw_window *g, const filter *s, ptrdiff_t pixel, const uint8_t *none, const uint8_t **p) {
  const uint8_t *seen[PL_MAX_TAPS];
  pl_taps(g, pixel, 1, seen);
  for (int t = 0; t < s->taps; t++) p[t] = s->order[t] < 0 ? none : seen[s->order[t]];
  p[s->taps] = p[0];
}

/* Pixels with fewer channels than a block. */
static void few_channels(int plain, const pl_dw_window *g, int flip, int w_zero, const int8_t *w, const pl_columns *q,
                         uint8_t *y) {
  const uint8_t *p[4 * PL_MAX_TAPS + 1];
  static const ptrdiff_t step[4 * PL_MAX_TAPS + 1];
  uint8_t line[4 * PL_MAX_TAPS][NR], out[NR];
  const way f = way_of(flip, w_zero, q, 0);
  filter s;
  filter_of(g, &s);
  memset(line, flip, (size_t)s.taps * NR);
  for (ptrdiff_t at = 0; at < g->pixels; at++, y += g->c) {
    see(g, &s, at, line[0], p);
    for (int t = 0; t < s.taps; t++) {
      for (ptrdiff_t i = 0; i < NR && i < g->c && s.order[t] >= 0; i++) line[t][i] = p[t][i];
      p[t] = line[t];
    }
    p[s.taps] = line[0];
    if (plain) pixels(1, 1, s.taps, p, step, 0, w, &f, out, 0);
    else pixels(1, 0, s.taps, p, step, 0, w, &f, out, 0);
    memcpy(y, out, (size_t)g->c);
  }
}

PL_INLINE void any_filter(int plain, const pl_dw_window *g, int flip, int w_zero, const int8_t *w, const pl_columns *q,
                          uint8_t *y) {
  const uint8_t *p[4 * PL_MAX_TAPS + 1], *at_block[4 * PL_MAX_TAPS + 1];
  ptrdiff_t step[4 * PL_MAX_TAPS + 1];
  uint8_t none[NR];
  filter s;
  /* Output pixels begin .. end - 1 see no pixel beside the image. */
  const ptrdiff_t last = g->width - 1 + g->pad - (ptrdiff_t)(g->fw - 1) * g->dilation;
  const ptrdiff_t begin = (g->pad + g->stride - 1) / g->stride, end = last < 0 ? 0 : last / g->stride + 1;
  filter_of(g, &s);
  memset(none, flip, sizeof none);
  for (int t = 0; t < s.taps; t++)
    step[t] = s.order[t] >= 0 && g->row[s.order[t] / g->fw] ? g->stride * g->c : 0;
  step[s.taps] = 0;
  for (ptrdiff_t at = 0, n; at < g->pixels; at += n) {
    n = at >= begin && at < end ? (end < g->pixels ? end : g->pixels) - at : 1;
    see(g, &s, at, none, p);
    for (ptrdiff_t b = 0; b * NR < g->c; b++) {
      const ptrdiff_t c = pl_block_start(b, NR, g->c);
      const int8_t *wb = w + b * NR * s.taps;
      const way f = way_of(flip, w_zero, q, b * NR);
      uint8_t *to = y + at * g->c + c;
      ptrdiff_t i = 0;
      for (int t = 0; t <= s.taps; t++) at_block[t] = p[t] == none ? none : p[t] + c;
      for (; i + TOGETHER <= n; i += TOGETHER)
        pixels(TOGETHER, plain, s.taps, at_block, step, i, wb, &f, to + i * g->c, g->c);
      for (; i < n; i++) pixels(1, plain, s.taps, at_block, step, i, wb, &f, to + i * g->c, g->c);
    }
  }
}

/* 3x3, stride 1: each column of three pixels is interleaved once, for the three outputs that read it. */
PL_INLINE void slide3x3(int plain, const pl_dw_window *g, int flip, int w_zero, const int8_t *w, const pl_columns *q,
                        uint8_t *y) {
  const int8x16_t ones = vreinterpretq_s8_s32(vdupq_n_s32(0x00010101));
  const ptrdiff_t channels = g->c, width = g->width, count = g->pixels, pad = g->pad;
  for (ptrdiff_t b = 0; b * NR < channels; b++) {
    const ptrdiff_t c = pl_block_start(b, NR, channels);
    const way f = way_of(flip, w_zero, q, b * NR);
    const sums bias = load_sums(f.bias);
    const uint8_t *row[3], *const zero = g->zero + c;
    int8x16_t wv[6];
    sums acc[3] = {bias, bias, bias};
    uint8_t *to = y + c;
#pragma GCC unroll 6
    for (int i = 0; i < 6; i++) wv[i] = vld1q_s8(w + b * 12 * NR + 16 * i);
    for (int i = 0; i < 3; i++) row[i] = g->row[i] ? g->row[i] + c : NULL;
    /* Columns -pad .. pixels + 1 - pad; output x is complete after column x + 2 - pad.  Three sums are open at a time;
     * each column completes one. */
    ptrdiff_t x = -2, column = -pad;
#define COLUMN(one, two, three) \
    { \
      const int inside = column >= 0 && column < width; \
      const ptrdiff_t at = column * channels; \
      const uint8_t *const r0 = inside && row[0] ? row[0] + at : zero; \
      const uint8_t *const r1 = inside && row[1] ? row[1] + at : zero; \
      const uint8_t *const r2 = inside && row[2] ? row[2] + at : zero; \
      const four_taps v = interleave(plain, &f, r0, r1, r2, r2); \
      add(&acc[one], v, wv[4], wv[5]); \
      add(&acc[two], v, wv[2], wv[3]); \
      add(&acc[three], v, wv[0], wv[1]); \
      if (!plain) { \
        sums sum = {vdupq_n_s32(0), vdupq_n_s32(0)}; \
        add(&sum, v, ones, ones); \
        sum.low = vmulq_n_s32(sum.low, w_zero), sum.high = vmulq_n_s32(sum.high, w_zero); \
        _Pragma("GCC unroll 3") for (int i = 0; i < 3; i++) \
          acc[i] = (sums){vsubq_s32(acc[i].low, sum.low), vsubq_s32(acc[i].high, sum.high)}; \
      } \
      if (x >= 0) { \
        finish(1, &acc[one], &f, NULL, to, 0); \
        to += channels; \
      } \
      acc[one] = bias; \
      column++; \
      if (++x >= count) break; \
    }
    for (;;) {
      COLUMN(0, 1, 2)
      COLUMN(1, 2, 0)
      COLUMN(2, 0, 1)
    }
#undef COLUMN
  }
}

#define ARGUMENTS const pl_dw_window *g, int flip, int w_zero, const int8_t *w, const pl_columns *q, uint8_t *y
#define BOTH(name) \
  static __attribute__((noinline)) void name##_int8(ARGUMENTS) { name(1, g, flip, w_zero, w, q, y); } \
  static __attribute__((noinline)) void name##_uint8(ARGUMENTS) { name(0, g, flip, w_zero, w, q, y); }
BOTH(any_filter)
BOTH(slide3x3)

static void depthwise_q8(const pl_dw_window *g, int flip, int w_zero, const void *w, const pl_columns *q, uint8_t *y) {
  const pl_columns own = *q; /* a copy, which y cannot overlap */
  const int plain = !flip && !w_zero;
  if (g->c < NR) {
    few_channels(plain, g, flip, w_zero, w, &own, y);
    return;
  }
  if (g->fh == 3 && g->fw == 3 && g->stride == 1 && g->dilation == 1 && !q->left) {
    (plain ? slide3x3_int8 : slide3x3_uint8)(g, flip, w_zero, w, &own, y);
    return;
  }
  (plain ? any_filter_int8 : any_filter_uint8)(g, flip, w_zero, w, &own, y);
}

PL_FILL(depthwise_dotprod, s) {
  s->depthwise_q8 = depthwise_q8;
  s->dw8 = (pl_tile){1, NR, NR, 4, 4, 1, 0, NULL, 0, 0};
}
