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
  const pl_tile shape = {.mr = LINES, .kr = 4};
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

/* ---- 3x3 filters ---- */
/* Pixels of a line that two outputs see: interleaved for the first one, and for the second where strides are 2.  With a
 * stride of 1 it sees the upper three bytes of the same lanes. */
typedef struct { four_taps one, two; } pair_taps;
typedef struct {
  pair_taps w[3], ones;
  sums bias;
  way way;
  int16x8_t flip;
} block3x3;
PL_INLINE pair_taps see_pair(int stride, int simple, int inside, const block3x3 *b, const uint8_t *p, ptrdiff_t step,
                             unsigned seen, const uint8_t *zero) {
  int8x8_t x[5];
  (void)simple;
#pragma GCC unroll 5
  for (int i = 0; i < 3 + stride; i++)
    x[i] = vreinterpret_s8_u8(vld1_u8(inside || seen >> i & 1 ? p + i * step : zero));
  const int16x8_t ab = veorq_s16(vreinterpretq_s16_s8(zipped(x[0], x[1])), b->flip);
  const int16x8_t cd = veorq_s16(vreinterpretq_s16_s8(zipped(x[2], x[3])), b->flip);
  const four_taps one = {vreinterpretq_s8_s16(vzip1q_s16(ab, cd)), vreinterpretq_s8_s16(vzip2q_s16(ab, cd))};
  if (stride == 1) return (pair_taps){one, one};
  const int16x8_t ee = veorq_s16(vreinterpretq_s16_s8(zipped(x[4], x[4])), b->flip); /* the fourth has a weight of 0 */
  return (pair_taps){one, {vreinterpretq_s8_s16(vzip1q_s16(cd, ee)), vreinterpretq_s8_s16(vzip2q_s16(cd, ee))}};
}
/* w: of a line of the filter, for each output */
PL_INLINE void add_pair(sums acc[2], const pair_taps *v, const pair_taps *w) {
  add(&acc[0], v->one, w->one.low, w->one.high);
  add(&acc[1], v->two, w->two.low, w->two.high);
}
/* simple: the weights hold their zero point already. */
PL_INLINE void pair3x3(int stride, int simple, const block3x3 *b, const pair_taps *v0, const pair_taps *v1,
                       const pair_taps *v2, sums acc[2]) {
  (void)stride;
  acc[0] = acc[1] = b->bias;
  add_pair(acc, v0, &b->w[0]);
  add_pair(acc, v1, &b->w[1]);
  add_pair(acc, v2, &b->w[2]);
  if (simple) return;
  sums all[2] = {{vdupq_n_s32(0), vdupq_n_s32(0)}, {vdupq_n_s32(0), vdupq_n_s32(0)}};
  add_pair(all, v0, &b->ones);
  add_pair(all, v1, &b->ones);
  add_pair(all, v2, &b->ones);
#pragma GCC unroll 2
  for (int i = 0; i < 2; i++) {
    acc[i].low = vmlsq_n_s32(acc[i].low, all[i].low, b->way.w_zero);
    acc[i].high = vmlsq_n_s32(acc[i].high, all[i].high, b->way.w_zero);
  }
}
PL_INLINE int load_block(int stride, int flip, int w_zero, const void *weights, const pl_columns *q, ptrdiff_t block,
                         block3x3 *b) {
  const int8_t *w = (const int8_t *)weights + block * 12 * NR;
  const int8x16_t all = vreinterpretq_s8_u32(vdupq_n_u32(0x00010101)), zero = vmulq_s8(all, vdupq_n_s8((int8_t)w_zero));
  int8x16_t v[6];
  uint8x16_t same = vdupq_n_u8(255);
#define MOVED(v) (stride == 2 ? (v) : vreinterpretq_s8_u32(vshlq_n_u32(vreinterpretq_u32_s8(v), 8)))
#pragma GCC unroll 6
  for (int i = 0; i < 6; i++) {
    v[i] = vld1q_s8(w + 16 * i);
    same = vandq_u8(same, vceqq_s8(vqsubq_s8(v[i], zero), vsubq_s8(v[i], zero)));
  }
  const int simple = vminvq_u8(same) == 255;
#pragma GCC unroll 3
  for (int i = 0; i < 3; i++) {
    const four_taps one = {simple ? vsubq_s8(v[2 * i], zero) : v[2 * i],
                           simple ? vsubq_s8(v[2 * i + 1], zero) : v[2 * i + 1]};
    b->w[i] = (pair_taps){one, {MOVED(one.low), MOVED(one.high)}};
  }
  b->ones = (pair_taps){{all, all}, {MOVED(all), MOVED(all)}};
#undef MOVED
  b->way = way_of(flip, w_zero, q, block * NR);
  b->bias = load_sums(b->way.bias);
  b->flip = vreinterpretq_s16_u8(vdupq_n_u8((uint8_t)flip));
  return simple;
}
#include "depthwise_pairs.h"

#define ARGUMENTS const pl_dw_window *g, int flip, int w_zero, const int8_t *w, const pl_columns *q, uint8_t *y
#define BOTH(name) \
  static __attribute__((noinline)) void name##_int8(ARGUMENTS) { name(1, g, flip, w_zero, w, q, y); } \
  static __attribute__((noinline)) void name##_uint8(ARGUMENTS) { name(0, g, flip, w_zero, w, q, y); }
BOTH(any_filter)

static void depthwise_q8(const pl_dw_window *g, int flip, int w_zero, const void *w, const pl_columns *q, uint8_t *y) {
  const pl_columns own = *q; /* a copy, which y cannot overlap */
  const int plain = !flip && !w_zero;
  if (pairs_q8(g, flip, w_zero, w, &own, y)) return;
  pl_dw_window line = *g;
  for (int i = 0; i < g->lines; i++, line.row += g->stride, y += g->y_line) {
    if (g->c < NR) few_channels(plain, &line, flip, w_zero, w, &own, y);
    else (plain ? any_filter_int8 : any_filter_uint8)(&line, flip, w_zero, w, &own, y);
  }
}

PL_FILL(depthwise_dotprod, s) {
  s->depthwise_q8 = depthwise_q8;
  s->dw8 = (pl_tile){.mr = LINES, .nr = NR, .nv = NR, .kr = 4, .ka = 4, .bytes = 1};
}
