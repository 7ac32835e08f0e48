/* 8-bit depthwise convolutions for NEON, 32 and 64 bit.
 *
 * The products of two taps are added up in 16 bits where no weight, less its zero point, is beyond +-127, as all are in
 * models of int8; else 16-bit lanes are multiplied, tap by tap.  Taps outside of the image are left out, and what they
 * would add goes to the bias.  3x3 filters with strides of 1 and 2, whose weights always become bytes: see
 * depthwise_pairs.h. */
#include "depthwise_neon.h"

/* Bytes, ^ flip, as int8. */
PL_INLINE int8x8_t read(int plain, const uint8_t *p, uint8x8_t flip) {
  const uint8x8_t v = vld1_u8(p);
  return vreinterpret_s8_u8(plain ? v : veor_u8(v, flip));
}
PL_INLINE void add(sums *acc, int16x8_t x, int16x8_t w) {
  acc->low = vmlal_s16(acc->low, vget_low_s16(x), vget_low_s16(w));
#if defined(__aarch64__)
  acc->high = vmlal_high_s16(acc->high, x, w);
#else
  acc->high = vmlal_s16(acc->high, vget_high_s16(x), vget_high_s16(w));
#endif
}
PL_INLINE void add_wide(sums *acc, int16x8_t x) {
  acc->low = vaddw_s16(acc->low, vget_low_s16(x));
#if defined(__aarch64__)
  acc->high = vaddw_high_s16(acc->high, x);
#else
  acc->high = vaddw_s16(acc->high, vget_high_s16(x));
#endif
}

/* The taps that an output pixel sees: their number, addresses and places in the filter.  Two more are not used. */
typedef struct {
  int taps;
  const uint8_t *p[PL_MAX_TAPS + 2];
  int16_t tap[PL_MAX_TAPS];
} sight;
static void see(const pl_dw_window *g, ptrdiff_t pixel, sight *s) {
  const uint8_t *all[PL_MAX_TAPS];
  int n = 0;
  pl_taps(g, pixel, 1, all);
  for (int t = 0; t < g->fh * g->fw; t++)
    if (all[t] != g->zero) s->p[n] = all[t], s->tap[n++] = (int16_t)t;
  s->taps = n;
  s->p[n] = s->p[n + 1] = n ? s->p[0] : g->zero;
}

/* The weights of these taps for a block of channels: bytes where they are small enough. */
typedef struct {
  int small;
  int32_t bias[NR];
  int8_t bytes[(PL_MAX_TAPS + 1) * NR];
  int16_t words[PL_MAX_TAPS * NR];
} factors;
static void choose(int taps, const sight *s, const int16_t *w, const uint8_t *zero, const way *f, factors *to) {
  const uint8x8_t flip = vdup_n_u8((uint8_t)f->flip);
  int16x8_t size = vdupq_n_s16(0);
  for (int i = 0; i < s->taps; i++) {
    const int16x8_t v = vld1q_s16(w + s->tap[i] * NR);
    size = vmaxq_s16(size, vabsq_s16(v));
    vst1_s8(to->bytes + i * NR, vmovn_s16(v));
    vst1q_s16(to->words + i * NR, v);
  }
  vst1_s8(to->bytes + s->taps * NR, vdup_n_s8(0));
  int16x4_t most = vmax_s16(vget_low_s16(size), vget_high_s16(size));
  most = vpmax_s16(most, most);
  to->small = vget_lane_s16(vpmax_s16(most, most), 0) <= 127;
  sums bias = load_sums(f->bias);
  if (s->taps < taps) {
    const int16x8_t outside = vmovl_s8(read(0, zero, flip));
    for (int t = 0, i = 0; t < taps; t++)
      if (i < s->taps && s->tap[i] == t) i++;
      else add(&bias, outside, vld1q_s16(w + t * NR));
  }
  vst1q_s32(to->bias, bias.low);
  vst1q_s32(to->bias + 4, bias.high);
}

/* Output pixels `from` to from + N, whose inputs are `step` apart, by pairs of taps or tap by tap.  The next tap is
 * loaded beside the products of this one, for in-order cores. */
PL_INLINE void pixels(int N, int plain, const sight *s, ptrdiff_t c, ptrdiff_t from, ptrdiff_t step, const factors *w,
                      const way *f, uint8_t *y, ptrdiff_t to) {
  const uint8x8_t flip = vdup_n_u8((uint8_t)f->flip);
  const ptrdiff_t taps = s->taps;
  const uint8_t *const *p = s->p;
  ptrdiff_t at[TOGETHER];
  sums acc[TOGETHER];
  int8x8_t x[TOGETHER];
#define EACH _Pragma("GCC unroll 4") for (int i = 0; i < N; i++)
  EACH {
    at[i] = c + (from + i) * step;
    acc[i] = load_sums(w->bias);
    x[i] = read(plain, p[0] + at[i], flip);
  }
  if (w->small) {
    const int8_t *v = w->bytes;
    for (ptrdiff_t t = 0; t < taps; t += 2, v += 2 * NR) {
      const int8x8_t v0 = vld1_s8(v), v1 = vld1_s8(v + NR);
      int16x8_t product[TOGETHER];
      EACH {
        product[i] = vmull_s8(x[i], v0);
        x[i] = read(plain, p[t + 1] + at[i], flip);
      }
      EACH {
        product[i] = vmlal_s8(product[i], x[i], v1);
        x[i] = read(plain, p[t + 2] + at[i], flip);
      }
      EACH add_wide(&acc[i], product[i]);
    }
  } else {
    for (ptrdiff_t t = 0; t < taps; t++) {
      const int16x8_t v = vld1q_s16(w->words + t * NR);
      EACH {
        const int16x8_t wide = vmovl_s8(x[i]);
        x[i] = read(plain, p[t + 1] + at[i], flip);
        add(&acc[i], wide, v);
      }
    }
  }
#undef EACH
  if (f->left) finish(N, acc, f, f->left, y, to);
  else finish(N, acc, f, NULL, y, to);
}

PL_INLINE void any_filter(int plain, const pl_dw_window *g, int flip, const int16_t *w, const pl_columns *q,
                          uint8_t *y) {
  const int taps = g->fh * g->fw;
  const ptrdiff_t channels = g->c, step = g->stride * channels;
  /* Output pixels begin .. end - 1 see no pixel beside the image. */
  const ptrdiff_t last = g->width - 1 + g->pad - (ptrdiff_t)(g->fw - 1) * g->dilation;
  const ptrdiff_t begin = (g->pad + g->stride - 1) / g->stride, end = last < 0 ? 0 : last / g->stride + 1;
  sight s;
  factors v;
  for (ptrdiff_t at = 0, n; at < g->pixels; at += n) {
    n = at >= begin && at < end ? (end < g->pixels ? end : g->pixels) - at : 1;
    see(g, at, &s);
    for (ptrdiff_t b = 0; b * NR < channels; b++) {
      const ptrdiff_t c = pl_block_start(b, NR, channels);
      const way f = way_of(flip, 0, q, b * NR);
      uint8_t *to = y + at * channels + c;
      ptrdiff_t i = 0;
      choose(taps, &s, w + b * NR * taps, g->zero + c, &f, &v);
      for (; i + TOGETHER <= n; i += TOGETHER)
        pixels(TOGETHER, plain, &s, c, i, step, &v, &f, to + i * channels, channels);
      for (; i < n; i++) pixels(1, plain, &s, c, i, step, &v, &f, to + i * channels, channels);
    }
  }
}

/* Pixels with fewer channels than a block. */
static __attribute__((noinline)) void few_channels(const pl_dw_window *g, int flip, const int16_t *w,
                                                   const pl_columns *q, uint8_t *y) {
  const way f = way_of(flip, 0, q, 0);
  uint8_t line[PL_MAX_TAPS][NR] = {{0}}, zero[NR] = {0}, out[NR];
  sight s;
  factors v;
  int chosen = 0; /* for all taps */
  memcpy(zero, g->zero, (size_t)g->c);
  for (ptrdiff_t at = 0; at < g->pixels; at++, y += g->c) {
    see(g, at, &s);
    for (int t = 0; t < s.taps; t++) {
      for (ptrdiff_t i = 0; i < NR && i < g->c; i++) line[t][i] = s.p[t][i];
      s.p[t] = line[t];
    }
    s.p[s.taps] = s.p[s.taps + 1] = zero;
    if (!chosen || s.taps < g->fh * g->fw) choose(g->fh * g->fw, &s, w, zero, &f, &v);
    chosen = s.taps == g->fh * g->fw;
    pixels(1, 0, &s, 0, 0, 0, &v, &f, out, 0);
    memcpy(y, out, (size_t)g->c);
  }
}

/* ---- 3x3 filters, whose weights are bytes ---- */
typedef struct { int8x8_t x[5]; } pair_taps;
/* Bytes w are the weights less `middle`, which is added as middle times the sum of the pixels, where `centred`. */
typedef struct {
  int8x8_t w[9];
  sums bias;
  way way;
  uint8x8_t flip;
  int16x8_t middle;
  int centred;
} block3x3;
PL_INLINE pair_taps see_pair(int stride, int simple, int inside, const block3x3 *b, const uint8_t *p, ptrdiff_t step,
                             unsigned seen, const uint8_t *zero) {
  pair_taps v;
#pragma GCC unroll 5
  for (int i = 0; i < 3 + stride; i++) v.x[i] = read(simple, inside || seen >> i & 1 ? p + i * step : zero, b->flip);
  return v;
}
/* Adds the products of taps t .. t + taps - 1, by pairs in 16 bits.  Each step is done for all of them before the next
 * one, for in-order cores. */
PL_INLINE void add_taps(int taps, int t, int stride, const block3x3 *b, const pair_taps *const *v, sums acc[2]) {
  int16x8_t product[6];
#define EACH _Pragma("GCC unroll 6") for (int i = 0; i < 2 * ((taps + 1) / 2); i++)
#define PIXEL(t) v[(t) / 3]->x[i % 2 * stride + (t) % 3]
  EACH product[i] = vmull_s8(PIXEL(t + i / 2 * 2), b->w[t + i / 2 * 2]);
  EACH if (i / 2 * 2 + 1 < taps) product[i] = vmlal_s8(product[i], PIXEL(t + i / 2 * 2 + 1), b->w[t + i / 2 * 2 + 1]);
  EACH add_wide(&acc[i % 2], product[i]);
#undef PIXEL
#undef EACH
}
/* Adds middle times the sum of the pixels of each output. */
PL_INLINE void add_middle(int stride, const block3x3 *b, const pair_taps *const *v, sums acc[2]) {
  int16x8_t sum[2];
#pragma GCC unroll 3
  for (int i = 0; i < 3; i++) {
    const int8x8_t *x = v[i]->x;
    /* With a stride of 1 both outputs see pixels 1 and 2, else pixel 2. */
    const int16x8_t first = stride == 1 ? vaddl_s8(x[1], x[2]) : vaddl_s8(x[0], x[1]);
    const int16x8_t second = stride == 1 ? first : vaddl_s8(x[3], x[stride + 2]);
    const int16x8_t line[2] = {vaddw_s8(first, x[stride == 1 ? 0 : 2]), vaddw_s8(second, x[stride == 1 ? 3 : 2])};
#pragma GCC unroll 2
    for (int k = 0; k < 2; k++) sum[k] = i ? vaddq_s16(sum[k], line[k]) : line[k];
  }
#pragma GCC unroll 2
  for (int k = 0; k < 2; k++) add(&acc[k], sum[k], b->middle);
}
PL_INLINE void pair3x3(int stride, int simple, const block3x3 *b, const pair_taps *v0, const pair_taps *v1,
                       const pair_taps *v2, sums acc[2]) {
  const pair_taps *const v[3] = {v0, v1, v2};
  acc[0] = acc[1] = b->bias;
  add_taps(4, 0, stride, b, v, acc);
  add_taps(5, 4, stride, b, v, acc);
  if (!simple && b->centred) add_middle(stride, b, v, acc);
}
/* Weights, less their zero point, span 255 at most, so that less their middle they lie within -128 and 127.  Two
 * products of -128 and -128 do not fit into 16 bits: such a block cannot be computed. */
PL_INLINE int load_block(int stride, int flip, int w_zero, const void *weights, const pl_columns *q, ptrdiff_t block,
                         block3x3 *b) {
  const int16_t *w = (const int16_t *)weights + block * 9 * NR;
  int16x8_t tap[9], most = vld1q_s16(w), least = most;
  int8x8_t twice = vdup_n_s8(0);
  (void)stride;
  (void)w_zero; /* already taken off the weights */
#pragma GCC unroll 9
  for (int t = 0; t < 9; t++) {
    tap[t] = vld1q_s16(w + t * NR);
    most = vmaxq_s16(most, tap[t]);
    least = vminq_s16(least, tap[t]);
  }
  const int16x8_t size = vmaxq_s16(most, vnegq_s16(least));
  b->centred = vget_lane_u64(vreinterpret_u64_s8(vqshrn_n_s16(size, 7)), 0) != 0;
  b->middle = b->centred ? vrhaddq_s16(most, least) : vdupq_n_s16(0);
#pragma GCC unroll 9
  for (int t = 0; t < 9; t++) {
    b->w[t] = vmovn_s16(vsubq_s16(tap[t], b->middle));
    if (t % 2) { /* add_taps adds up taps t - 1 and t */
      const uint8x8_t low = vceq_s8(b->w[t], vdup_n_s8(-128)), before = vceq_s8(b->w[t - 1], vdup_n_s8(-128));
      twice = vorr_s8(twice, vreinterpret_s8_u8(vand_u8(low, before)));
    }
  }
  b->way = way_of(flip, 0, q, block * NR);
  b->bias = load_sums(b->way.bias);
  b->flip = vdup_n_u8((uint8_t)flip);
  return vget_lane_u64(vreinterpret_u64_s8(twice), 0) ? -1 : !flip && !b->centred;
}
#include "depthwise_pairs.h"

#define ARGUMENTS const pl_dw_window *g, int flip, const int16_t *w, const pl_columns *q, uint8_t *y
static __attribute__((noinline)) void any_filter_int8(ARGUMENTS) { any_filter(1, g, flip, w, q, y); }
static __attribute__((noinline)) void any_filter_uint8(ARGUMENTS) { any_filter(0, g, flip, w, q, y); }

static void depthwise_q8(const pl_dw_window *g, int flip, int w_zero, const void *w, const pl_columns *q, uint8_t *y) {
  const pl_columns own = *q; /* y may not be taken to overlap it */
  pl_dw_window line = *g;
  if (pairs_q8(g, flip, w_zero, w, &own, y)) return;
  for (int i = 0; i < g->lines; i++, line.row += g->stride, y += g->y_line)
    (g->c < NR ? few_channels : flip ? any_filter_uint8 : any_filter_int8)(&line, flip, w, &own, y);
}

PL_FILL(depthwise_neon, s) {
  s->depthwise_q8 = depthwise_q8;
  s->dw8 = (pl_tile){.mr = LINES, .nr = NR, .nv = NR, .kr = 1, .ka = 1, .bytes = sizeof(int16_t)};
}
