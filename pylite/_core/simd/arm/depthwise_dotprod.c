/* 8-bit depthwise convolutions for dotprod.
 *
 * A group is four neighbouring pixels of a copied line, interleaved so that a 32-bit lane holds those of one channel.
 * A window may begin at any of the four pixels of a group.  For each pixel there is a copy of the weights, moved by as
 * many bytes, so that four neighbouring outputs read the same groups.  The zero point is subtracted from the weights if
 * the differences are int8; otherwise its product with the sum of the pixels is subtracted from the sums. */
#include "depthwise_neon.h"

enum { GROUP = 4, GROUP_BYTES = GROUP * NR, MAX_TOGETHER = 2 * TOGETHER, WEIGHT_BYTES = 16384 };

/* The filter of a block of channels.
 * w: [line][group][pixel 0 to 3 of a group at which a window begins][channels 0 to 3, 4 to 7][channel][tap].
 * groups: of a line of the filter; tail: only windows that begin at pixel 2 or 3 reach the last one.
 * simple: the zero point is already subtracted from the weights.
 * ones: 1 for each tap of a line and 0 elsewhere, moved as w is: [group][pixel]. */
typedef struct {
  finish_params finish;
  sums bias;
  int height, groups, tail, simple;
  int8x16_t border;
  int8x16_t ones[WEIGHT_BYTES / (4 * GROUP_BYTES)][GROUP];
  int8_t w[WEIGHT_BYTES] __attribute__((aligned(64)));
} filter;
static int groups_of(const pl_dw_lines *g) { return (g->fw + 2 * (GROUP - 1)) / GROUP; }
static int fits_filter(const pl_dw_lines *g) { return g->fh * groups_of(g) * 4 * GROUP_BYTES <= WEIGHT_BYTES; }

/* The place of tap (y, x) in the order of pl_tap_order(), and the number of places. */
PL_INLINE int place_of(int fh, int fw, int y, int x) {
  return fw == 3 || fw == 4 ? 4 * y + x : fh == 3 || fh == 4 ? 4 * x + y : y * fw + x;
}
PL_INLINE int places_of(int fh, int fw) {
  return fw == 3 || fw == 4 ? 4 * fh : fh == 3 || fh == 4 ? 4 * fw : (fh * fw + 3) / 4 * 4;
}
PL_INLINE int weight_of(const pl_dw_lines *g, int w_zero, const void *w, ptrdiff_t block, int tap, int channel) {
  const int place = place_of(g->fh, g->fw, tap / g->fw, tap % g->fw);
  const int8_t *from = (const int8_t *)w + block * places_of(g->fh, g->fw) * NR;
  return from[place / 4 * GROUP_BYTES + channel * 4 + place % 4] - w_zero;
}
/* Taps x to x + 3 of line y of the filter for four channels, from their packed weights w; those beyond the line are any
 * number. */
PL_INLINE int8x16_t line_taps(int fh, int fw, const int8_t *w, int y, int x) {
  const int place = place_of(fh, fw, y, x), last = places_of(fh, fw) / 4 - 1;
#define PLACES(i) vreinterpretq_u32_s8(vld1q_s8(w + ((i) < last ? (i) : last) * GROUP_BYTES))
  uint32x4_t v = PLACES(place / 4);
  if (place_of(fh, fw, 0, 1) == 4) { /* a lane holds a column of the filter: take the byte of line y from four lanes */
    v = vdupq_n_u32(0);
    for (int i = 0; i < 4; i++) {
      const uint32x4_t byte = vandq_u32(vshlq_u32(PLACES(x + i), vdupq_n_s32(-8 * y)), vdupq_n_u32(255));
      v = vorrq_u32(v, vshlq_u32(byte, vdupq_n_s32(8 * i)));
    }
  } else if (place % 4) {
    const int32x4_t down = vdupq_n_s32(-8 * (place % 4)), up = vdupq_n_s32(32 - 8 * (place % 4));
    v = vorrq_u32(vshlq_u32(v, down), vshlq_u32(PLACES(place / 4 + 1), up));
  }
#undef PLACES
  return vreinterpretq_s8_u32(v);
}

/* A group of weights, moved up by `by` taps; the last taps of the group before it come first. */
PL_INLINE int8x16_t moved(int by, int8x16_t before, int8x16_t group) {
  const uint32x4_t v = vreinterpretq_u32_s8(group), u = vreinterpretq_u32_s8(before);
  return vreinterpretq_s8_u32(by == 0 ? v : by == 1 ? vsriq_n_u32(vshlq_n_u32(v, 8), u, 24) :
                              by == 2 ? vsriq_n_u32(vshlq_n_u32(v, 16), u, 16) : vsriq_n_u32(vshlq_n_u32(v, 24), u, 8));
}
static void load_filter(const pl_dw_lines *g, int stride, const parameters *p, ptrdiff_t block, filter *to) {
  const int groups = groups_of(g), places = places_of(g->fh, g->fw);
  const int8_t *w = (const int8_t *)p->w + block * places * NR;
  const int w_zero = p->w_zero;
  const int8x16_t zero = vdupq_n_s8((int8_t)w_zero), none = vdupq_n_s8(0);
  uint8x16_t same = vdupq_n_u8(255); /* where all weights less the zero point are int8 */
  to->finish = finish_params_of(p->flip, w_zero, p->q, block * NR);
  to->bias = load_sums(to->finish.bias);
  to->border = vdupq_n_s8((int8_t)(*g->zero ^ p->flip));
  to->height = g->fh, to->groups = groups, to->tail = g->fw + 1 <= 4 * (groups - 1);
  for (int i = 0; w_zero && i < places / 2; i++) {
    const int8x16_t v = vld1q_s8(w + 16 * i);
    same = vandq_u8(same, vceqq_s8(vqsubq_s8(v, zero), vsubq_s8(v, zero)));
  }
  to->simple = vminvq_u8(same) == 255;
  const int8x16_t less = to->simple ? zero : none;
  int8x16_t tap_before = none; /* 1 where there is a tap */
  for (int k = 0; k < groups; k++) {
    const int taps = g->fw - 4 * k;
    const uint32_t all = taps >= 4 ? 0x01010101 : taps > 0 ? 0x01010101u >> (32 - 8 * taps) : 0;
    const int8x16_t tap = vreinterpretq_s8_u32(vdupq_n_u32(all));
#pragma GCC unroll 4
    for (int i = 0; i < GROUP; i++) to->ones[k][i] = moved(i, tap_before, tap);
    tap_before = tap;
  }
  int8_t *out = to->w;
  for (int y = 0; y < g->fh; y++) {
    int8x16_t low = none, high = none;
    for (int k = 0; k < groups; k++, out += 4 * GROUP_BYTES) {
      const int8x16_t low_before = low, high_before = high;
      low = high = none;
      if (4 * k < g->fw) {
        const int8x16_t taps_inside = to->ones[k][0];
        low = vmulq_s8(vsubq_s8(line_taps(g->fh, g->fw, w, y, 4 * k), less), taps_inside);
        high = vmulq_s8(vsubq_s8(line_taps(g->fh, g->fw, w + 16, y, 4 * k), less), taps_inside);
      }
#pragma GCC unroll 4
      for (int i = 0; i < GROUP; i++)
        if (stride != 2 || i % 2 == 0) {
          vst1q_s8(out + i * GROUP_BYTES, moved(i, low_before, low));
          vst1q_s8(out + i * GROUP_BYTES + 16, moved(i, high_before, high));
        }
    }
  }
}

PL_INLINE int8x16_t zipped(int8x8_t a, int8x8_t b) {
  int8x16_t r; /* with the intrinsic, gcc widens the operands first */
  __asm__("zip1 %0.16b, %1.16b, %2.16b" : "=w"(r) : "w"(a), "w"(b));
  return r;
}
/* Interleaves four pixels, each ^ flip, so that a lane holds those of one channel; low: channels 0 to 3, high: 4 to
 * 7. */
PL_INLINE void interleave(int8x8_t a, int8x8_t b, int8x8_t c, int8x8_t d, int8x16_t flip, int8x16_t *low,
                          int8x16_t *high) {
  const int16x8_t ab = vreinterpretq_s16_s8(veorq_s8(zipped(a, b), flip));
  const int16x8_t cd = vreinterpretq_s16_s8(veorq_s8(zipped(c, d), flip));
  *low = vreinterpretq_s8_s16(vzip1q_s16(ab, cd));
  *high = vreinterpretq_s8_s16(vzip2q_s16(ab, cd));
}
PL_INLINE void copy_group(const filter *f, const uint8_t *const *x, uint32_t keep, uint8_t *to) {
  int8x16_t low, high;
#define READ(i) vreinterpret_s8_u8(vld1_u8(x[i]))
  interleave(READ(0), READ(1), READ(2), READ(3), vdupq_n_s8((int8_t)f->finish.flip), &low, &high);
#undef READ
  if (keep != ~(uint32_t)0) {
    const uint8x16_t inside = vreinterpretq_u8_u32(vdupq_n_u32(keep));
    low = vbslq_s8(inside, low, f->border), high = vbslq_s8(inside, high, f->border);
  }
  vst1q_s8((int8_t *)to, low);
  vst1q_s8((int8_t *)to + 16, high);
}

/* Adds the products with a group of weights w to N outputs; tail: only to those whose windows begin at pixel 2 or 3. */
#define EACH _Pragma("GCC unroll 8") for (int i = 0; i < N; i++)
#define PLACE(i) ((i) * stride % GROUP)
PL_INLINE void add_group(int N, int stride, int tail, const uint8_t *line, const int8_t *w, sums *acc) {
  EACH if (!tail || PLACE(i) >= 2) {
    const int8_t *x = (const int8_t *)line + i * stride / GROUP * GROUP_BYTES, *v = w + PLACE(i) * GROUP_BYTES;
    acc[i].low = vdotq_s32(acc[i].low, vld1q_s8(x), vld1q_s8(v));
    acc[i].high = vdotq_s32(acc[i].high, vld1q_s8(x + 16), vld1q_s8(v + 16));
  }
}
/* Subtracts, for each output, the zero point of the weights times the sum of its pixels. */
static __attribute__((noinline)) void subtract_zero(int N, int stride, const filter *f, const uint8_t *const *lines,
                                                    ptrdiff_t offset, sums *acc) {
  for (int i = 0; i < N; i++) {
    sums all = {vdupq_n_s32(0), vdupq_n_s32(0)};
    for (int y = 0; y < f->height; y++)
      for (int k = 0; k < f->groups; k++) {
        const int8_t *x = (const int8_t *)lines[y] + offset + (i * stride / GROUP + k) * GROUP_BYTES;
        if (k + 1 == f->groups && f->tail && PLACE(i) < 2) continue;
        all.low = vdotq_s32(all.low, vld1q_s8(x), f->ones[k][PLACE(i)]);
        all.high = vdotq_s32(all.high, vld1q_s8(x + 16), f->ones[k][PLACE(i)]);
      }
    acc[i].low = vmlsq_n_s32(acc[i].low, all.low, f->finish.w_zero);
    acc[i].high = vmlsq_n_s32(acc[i].high, all.high, f->finish.w_zero);
  }
}
#define WIDTHS(X) /* none: whole groups of pixels are multiplied, for any width */
PL_INLINE void outputs(int N, int stride, int width, const filter *f, const uint8_t *const *lines, ptrdiff_t offset,
                       sums *acc) {
  const int8_t *w = f->w;
  (void)width;
  EACH acc[i] = f->bias;
  for (int y = 0; y < f->height; y++) {
    const uint8_t *x = lines[y] + offset;
    for (int k = f->tail; k < f->groups; k++, x += GROUP_BYTES, w += 4 * GROUP_BYTES)
      add_group(N, stride, 0, x, w, acc);
    if (f->tail) {
      add_group(N, stride, 1, x, w, acc);
      w += 4 * GROUP_BYTES;
    }
  }
  if (!f->simple) {
    sums copy[MAX_TOGETHER]; /* a copy: `acc` leaves its registers if its address is taken */
    EACH copy[i] = acc[i];
    subtract_zero(N, stride, f, lines, offset, copy);
    EACH acc[i] = copy[i];
  }
}
#undef PLACE
#undef EACH
static void add_all_taps(const pl_dw_lines *g, const parameters *p, ptrdiff_t block, ptrdiff_t c,
                         const uint8_t *const *taps, sums *acc) {
  const pl_tile tile = {.mr = LINES, .kr = GROUP};
  const int8x16_t flip = vdupq_n_s8((int8_t)p->flip);
  int16_t order[GROUP * PL_MAX_TAPS];
  uint8_t none[NR]; /* 0 ^ flip, for the padding of groups */
  const int n = pl_tap_order(&tile, g->fh, g->fw, order);
  const int8_t *w = (const int8_t *)p->w + block * n * NR;
  sums all = {vdupq_n_s32(0), vdupq_n_s32(0)}; /* of the pixels */
  memset(none, p->flip, sizeof none);
  for (int i = 0; i < n; i += GROUP, w += GROUP_BYTES) {
    int8x16_t low, high;
#define READ(k) vreinterpret_s8_u8(vld1_u8(order[i + (k)] < 0 ? none : taps[order[i + (k)]] + c))
    interleave(READ(0), READ(1), READ(2), READ(3), flip, &low, &high);
#undef READ
    acc->low = vdotq_s32(acc->low, low, vld1q_s8(w));
    acc->high = vdotq_s32(acc->high, high, vld1q_s8(w + 16));
    if (p->w_zero) {
      all.low = vdotq_s32(all.low, low, vdupq_n_s8(1));
      all.high = vdotq_s32(all.high, high, vdupq_n_s8(1));
    }
  }
  acc->low = vmlsq_n_s32(acc->low, all.low, p->w_zero);
  acc->high = vmlsq_n_s32(acc->high, all.high, p->w_zero);
}
#include "depthwise_bytes.h"

/* ---- 3x3 filters ---- */
/* Four taps of channels 0 to 3, and of 4 to 7. */
typedef struct { int8x16_t low, high; } four_taps;
PL_INLINE void add(sums *acc, four_taps x, int8x16_t low, int8x16_t high) {
  acc->low = vdotq_s32(acc->low, x.low, low);
  acc->high = vdotq_s32(acc->high, x.high, high);
}
/* The pixels of a line that two outputs read, interleaved for each of them.  With a stride of 1 both are the same: the
 * first output multiplies the lower three bytes of each lane, the second one the upper three. */
typedef struct { four_taps one, two; } pair_taps;
typedef struct {
  pair_taps w[3], ones; /* w: of each line; ones: 1 for each of its taps */
  sums bias;
  finish_params finish;
  int16x8_t flip;
} block3x3;
PL_INLINE pair_taps load_pair(int stride, int simple, int inside, const block3x3 *b, const uint8_t *p, ptrdiff_t step,
                             unsigned inside_bits, const uint8_t *zero) {
  int8x8_t x[5];
  (void)simple;
#pragma GCC unroll 5
  for (int i = 0; i < 3 + stride; i++)
    x[i] = vreinterpret_s8_u8(vld1_u8(inside || inside_bits >> i & 1 ? p + i * step : zero));
  const int16x8_t ab = veorq_s16(vreinterpretq_s16_s8(zipped(x[0], x[1])), b->flip);
  const int16x8_t cd = veorq_s16(vreinterpretq_s16_s8(zipped(x[2], x[3])), b->flip);
  const four_taps one = {vreinterpretq_s8_s16(vzip1q_s16(ab, cd)), vreinterpretq_s8_s16(vzip2q_s16(ab, cd))};
  if (stride == 1) return (pair_taps){one, one};
  const int16x8_t ee = veorq_s16(vreinterpretq_s16_s8(zipped(x[4], x[4])), b->flip); /* the fourth has a weight of 0 */
  return (pair_taps){one, {vreinterpretq_s8_s16(vzip1q_s16(cd, ee)), vreinterpretq_s8_s16(vzip2q_s16(cd, ee))}};
}
/* Adds the products of an input line v and a line w of the filter to both outputs. */
PL_INLINE void add_pair(sums acc[2], const pair_taps *v, const pair_taps *w) {
  add(&acc[0], v->one, w->one.low, w->one.high);
  add(&acc[1], v->two, w->two.low, w->two.high);
}
PL_INLINE void start_pair(int stride, int relu, const block3x3 *b, const pair_taps *v0, const pair_taps *v1,
                          sums acc[2], pending *before) {
  (void)stride, (void)relu, (void)before;
  acc[0] = acc[1] = b->bias;
  add_pair(acc, v0, &b->w[0]);
  add_pair(acc, v1, &b->w[1]);
}
PL_INLINE void end_pair(int stride, int simple, int relu, const block3x3 *b, const pair_taps *v0, const pair_taps *v1,
                        const pair_taps *v2, sums acc[2], pending *before) {
  (void)stride, (void)relu, (void)before;
  add_pair(acc, v2, &b->w[2]);
  if (simple) return;
  sums all[2] = {{vdupq_n_s32(0), vdupq_n_s32(0)}, {vdupq_n_s32(0), vdupq_n_s32(0)}};
  add_pair(all, v0, &b->ones);
  add_pair(all, v1, &b->ones);
  add_pair(all, v2, &b->ones);
#pragma GCC unroll 2
  for (int i = 0; i < 2; i++) {
    acc[i].low = vmlsq_n_s32(acc[i].low, all[i].low, b->finish.w_zero);
    acc[i].high = vmlsq_n_s32(acc[i].high, all[i].high, b->finish.w_zero);
  }
}
/* A block is simple if its weights less the zero point are int8. */
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
  b->finish = finish_params_of(flip, w_zero, q, block * NR);
  b->bias = load_sums(b->finish.bias);
  b->flip = vreinterpretq_s16_u8(vdupq_n_u8((uint8_t)flip));
  return simple;
}
#define TILE_BYTES 0
#define DEFER 0
#include "depthwise_pairs.h"

static void depthwise_q8(const pl_dw_lines *g, int flip, int w_zero, const void *w, const pl_columns *q, uint8_t *y) {
  const pl_columns local = *q; /* y may not be taken to overlap it */
  if (!pairs_q8(g, flip, w_zero, w, &local, y)) lines_q8(g, flip, w_zero, w, &local, y);
}

PL_FILL(depthwise_dotprod, s) {
  s->depthwise_q8 = depthwise_q8;
  s->dw8 = (pl_tile){.mr = LINES, .nr = NR, .nv = NR, .kr = 4, .ka = 4, .bytes = 1};
}
