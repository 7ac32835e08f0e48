/* 8-bit depthwise convolutions for 32-bit and 64-bit NEON.
 *
 * If every weight less its zero point lies within +-127, as in all int8 models, the products of two taps are summed
 * in 16 bits.  Otherwise pixels and weights are multiplied as 16 bits, tap by tap. */
#include "depthwise_neon.h"

enum { GROUP = 1, GROUP_BYTES = NR, MAX_TOGETHER = 2 * TOGETHER, WEIGHT_TAPS = 1024 };

/* The filter of a block of channels.  words: its packed weights, less the zero point; small: none is beyond +-127;
 * bytes: the same as int8, and a tap of 0. */
typedef struct {
  finish_params finish;
  sums bias;
  int height, width, small;
  const int16_t *words;
  int8_t bytes[(WEIGHT_TAPS + 1) * NR];
} filter;
static int fits_filter(const pl_dw_lines *g) { return g->fh * g->fw <= WEIGHT_TAPS; }
static void load_filter(const pl_dw_lines *g, int stride, const parameters *p, ptrdiff_t block, filter *to) {
  const int taps = g->fh * g->fw;
  int left = taps;
  const int16_t *words = (const int16_t *)p->w + block * taps * NR;
  int8_t *bytes = to->bytes;
  int16x8_t v[4], size[2] = {vdupq_n_s16(0), vdupq_n_s16(0)}; /* magnitudes; two chains, for in-order cores */
  (void)stride;
  to->finish = finish_params_of(p->flip, 0, p->q, block * NR); /* w_zero is already subtracted from the weights */
  to->bias = load_sums(to->finish.bias);
  to->height = g->fh, to->width = g->fw;
  to->words = words;
#define EACH _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++)
  for (; left >= 4; left -= 4, words += 4 * NR, bytes += 4 * NR) {
    EACH v[i] = vld1q_s16(words + i * NR);
    EACH vst1_s8(bytes + i * NR, vmovn_s16(v[i]));
    EACH size[i % 2] = vmaxq_s16(size[i % 2], vabsq_s16(v[i]));
  }
#undef EACH
  for (; left > 0; left--, words += NR, bytes += NR) {
    v[0] = vld1q_s16(words);
    vst1_s8(bytes, vmovn_s16(v[0]));
    size[0] = vmaxq_s16(size[0], vabsq_s16(v[0]));
  }
  size[0] = vmaxq_s16(size[0], size[1]);
  vst1_s8(bytes, vdup_n_s8(0));
  int16x4_t most = vmax_s16(vget_low_s16(size[0]), vget_high_s16(size[0]));
  most = vpmax_s16(most, most);
  to->small = vget_lane_s16(vpmax_s16(most, most), 0) <= 127;
}
PL_INLINE int weight_of(const pl_dw_lines *g, int w_zero, const void *w, ptrdiff_t block, int tap, int channel) {
  (void)w_zero;
  return ((const int16_t *)w)[(block * g->fh * g->fw + tap) * NR + channel];
}

PL_INLINE void copy_group(const filter *f, const uint8_t *const *x, uint32_t keep, uint8_t *to) {
  (void)keep;
  vst1_u8(to, veor_u8(vld1_u8(x[0]), vdup_n_u8((uint8_t)f->finish.flip)));
}

#if defined(__aarch64__)
#define PAIRED 1
/* lower = the lower halves of a and b, upper = the upper ones.  gcc would use zip1 and zip2, which take a Cortex-A72
 * three times as long. */
#define HALVES(a, b, lower, upper) \
  __asm__("trn1 %0.2d, %2.2d, %3.2d\n\ttrn2 %1.2d, %2.2d, %3.2d" : "=&w"(lower), "=w"(upper) : "w"(a), "w"(b))
/* The same for a[0] and a[1], and for a[2] and a[3]. */
#define TWO_HALVES(a, lower, upper) \
  __asm__("trn1 %0.2d, %4.2d, %5.2d\n\ttrn1 %1.2d, %6.2d, %7.2d\n\t" \
          "trn2 %2.2d, %4.2d, %5.2d\n\ttrn2 %3.2d, %6.2d, %7.2d" \
          : "=&w"((lower)[0]), "=&w"((lower)[1]), "=&w"((upper)[0]), "=w"((upper)[1]) \
          : "w"((a)[0]), "w"((a)[1]), "w"((a)[2]), "w"((a)[3]))
/* Copies n pixels of two blocks of channels, see copy_pair: two pixels of a block fill a vector, and an odd last pixel
 * is copied with the one before it.  plain: flip is 0. */
PL_INLINE void copy_pixels(int plain, uint8x16_t flip, const uint8_t *from, ptrdiff_t step, ptrdiff_t n, uint8_t *to,
                           uint8_t *other) {
  uint8x16_t pixel[4], lower[2], upper[2];
#define EACH(n) _Pragma("GCC unroll 4") for (int i = 0; i < (n); i++)
#define PIXELS(n) \
  EACH(n) pixel[i] = vld1q_u8(from), from += step; \
  if (!plain) EACH(n) pixel[i] = veorq_u8(pixel[i], flip);
#define STORE(n) \
  EACH(n) vst1q_u8(to, lower[i]), to += 2 * NR; \
  EACH(n) vst1q_u8(other, upper[i]), other += 2 * NR;
  if (n == 1) {
    PIXELS(1)
    vst1_u8(to, vget_low_u8(pixel[0])), vst1_u8(other, vget_high_u8(pixel[0]));
    return;
  }
  for (; n >= 4; n -= 4) {
    PIXELS(4)
    TWO_HALVES(pixel, lower, upper);
    STORE(2)
  }
  for (; n > 0; n -= 2) {
    if (n == 1) from -= step, to -= NR, other -= NR;
    PIXELS(2)
    HALVES(pixel[0], pixel[1], lower[0], upper[0]);
    STORE(1)
  }
#undef STORE
#undef PIXELS
#undef EACH
}
PL_INLINE void copy_pair(const filter *f, const uint8_t *from, ptrdiff_t step, ptrdiff_t n, uint8_t *to,
                         uint8_t *other) {
  const int flip = f->finish.flip;
  if (flip) copy_pixels(0, vdupq_n_u8((uint8_t)flip), from, step, n, to, other);
  else copy_pixels(1, vdupq_n_u8(0), from, step, n, to, other);
}
#endif

/* acc += x w */
PL_INLINE void add(sums *acc, int16x8_t x, int16x8_t w) {
  acc->low = vmlal_s16(acc->low, vget_low_s16(x), vget_low_s16(w));
#if defined(__aarch64__)
  acc->high = vmlal_high_s16(acc->high, x, w);
#else
  acc->high = vmlal_s16(acc->high, vget_high_s16(x), vget_high_s16(w));
#endif
}
/* acc += x */
PL_INLINE void add_wide(sums *acc, int16x8_t x) {
  acc->low = vaddw_s16(acc->low, vget_low_s16(x));
#if defined(__aarch64__)
  acc->high = vaddw_high_s16(acc->high, x);
#else
  acc->high = vaddw_s16(acc->high, vget_high_s16(x));
#endif
}

/* Adds the products of a filter of any width to N outputs, two taps at a time.  Each step is done for four outputs
 * before the next step begins, so that in-order cores do not wait for results; registers suffice for no more. */
#define EACH _Pragma("GCC unroll 8") for (int i = 0; i < N; i++)
#define EACH_OF_FOUR _Pragma("GCC unroll 4") for (int i = first; i < first + TOGETHER; i++)
#define PIXEL(t) vld1_s8(x + ((t) + i * stride) * NR)
PL_INLINE void add_pairs(int N, int stride, const filter *f, const uint8_t *const *lines, ptrdiff_t offset, sums *acc) {
  const int8_t *w = f->bytes;
  for (int y = 0; y < f->height; y++) {
    const int8_t *x = (const int8_t *)lines[y] + offset;
    int t = 0;
    for (; t + 2 <= f->width; t += 2, x += 2 * NR, w += 2 * NR) {
      const int8x8_t w0 = vld1_s8(w), w1 = vld1_s8(w + NR);
#pragma GCC unroll 2
      for (int first = 0; first < N; first += TOGETHER) {
        int16x8_t product[MAX_TOGETHER];
        EACH_OF_FOUR product[i] = vmull_s8(PIXEL(0), w0);
        EACH_OF_FOUR product[i] = vmlal_s8(product[i], PIXEL(1), w1);
        EACH_OF_FOUR add_wide(&acc[i], product[i]);
      }
    }
    if (t < f->width) {
      const int8x8_t w0 = vld1_s8(w);
#pragma GCC unroll 2
      for (int first = 0; first < N; first += TOGETHER) {
        int16x8_t product[MAX_TOGETHER];
        EACH_OF_FOUR product[i] = vmull_s8(PIXEL(0), w0);
        EACH_OF_FOUR add_wide(&acc[i], product[i]);
      }
      w += NR;
    }
  }
}
#undef EACH_OF_FOUR
#undef PIXEL

/* Widths for which all taps are unrolled.  In a loop over taps, gcc would keep the pixels that the next pair reads
 * again, and move them from register to register. */
#define WIDTHS(X) X(block_3_1, 0, 1, 3) X(block_3_2, 0, 2, 3) X(block_5_1, 0, 1, 5) X(block_5_2, 0, 2, 5)
/* Adds the products of `taps` taps, in pairs: of one line of the filter, or of two if they exceed the width. */
PL_INLINE void add_taps_of(int N, int width, int taps, int stride, const uint8_t *const *lines, ptrdiff_t offset,
                           const int8_t *w, sums *acc) {
  const int8_t *const line[2] = {(const int8_t *)lines[0] + offset,
                                 taps > width ? (const int8_t *)lines[1] + offset : NULL};
#define PIXEL(t) vld1_s8(line[(t) / width] + ((t) % width + i * stride) * NR)
#pragma GCC unroll 5
  for (int t = 0; t < taps; t += 2) {
    const int8x8_t w0 = vld1_s8(w + t * NR), w1 = vld1_s8(w + (t + 1) * NR);
    int16x8_t product[TOGETHER];
    EACH product[i] = vmull_s8(PIXEL(t), w0);
    if (t + 1 < taps) EACH product[i] = vmlal_s8(product[i], PIXEL(t + 1), w1);
    EACH add_wide(&acc[i], product[i]);
  }
#undef PIXEL
}
/* Adds the products of a filter of a constant width, two lines at a time. */
PL_INLINE void add_lines(int N, int width, int stride, const filter *f, const uint8_t *const *lines, ptrdiff_t offset,
                         sums *acc) {
  const int8_t *w = f->bytes;
  int y = 0;
  for (; y + 2 <= f->height; y += 2, w += 2 * width * NR)
    add_taps_of(N, width, 2 * width, stride, lines + y, offset, w, acc);
  if (y < f->height) add_taps_of(N, width, width, stride, lines + y, offset, w, acc);
}
PL_INLINE void outputs(int N, int stride, int width, const filter *f, const uint8_t *const *lines, ptrdiff_t offset,
                       sums *acc) {
  EACH acc[i] = f->bias;
  if (f->small && width) {
    add_lines(N, width, stride, f, lines, offset, acc);
    return;
  }
  if (f->small) {
    add_pairs(N, stride, f, lines, offset, acc);
    return;
  }
  const int16_t *w = f->words;
  for (int y = 0; y < f->height; y++) {
    const int8_t *x = (const int8_t *)lines[y] + offset;
    for (int t = 0; t < f->width; t++, x += NR, w += NR) {
      const int16x8_t v = vld1q_s16(w);
      EACH add(&acc[i], vmovl_s8(vld1_s8(x + i * stride * NR)), v);
    }
  }
}
#undef EACH
static void add_all_taps(const pl_dw_lines *g, const parameters *p, ptrdiff_t block, ptrdiff_t c,
                         const uint8_t *const *taps, sums *acc) {
  const int n = g->fh * g->fw;
  const int16_t *w = (const int16_t *)p->w + block * n * NR;
  const uint8x8_t flip = vdup_n_u8((uint8_t)p->flip);
  sums sum[2] = {*acc, {vdupq_n_s32(0), vdupq_n_s32(0)}};
#define PIXEL(t) vmovl_s8(vreinterpret_s8_u8(veor_u8(vld1_u8(taps[t] + c), flip)))
  for (int t = 0; t + 2 <= n; t += 2)
#pragma GCC unroll 2
    for (int k = 0; k < 2; k++) add(&sum[k], PIXEL(t + k), vld1q_s16(w + (t + k) * NR));
  if (n % 2) add(&sum[0], PIXEL(n - 1), vld1q_s16(w + (n - 1) * NR));
#undef PIXEL
  acc->low = vaddq_s32(sum[0].low, sum[1].low);
  acc->high = vaddq_s32(sum[0].high, sum[1].high);
}
#include "depthwise_bytes.h"

/* ---- 3x3 filters, whose weights are bytes ---- */
/* Eight bytes ^ flip, as int8; plain: flip is 0. */
PL_INLINE int8x8_t read(int plain, const uint8_t *p, uint8x8_t flip) {
  const uint8x8_t v = vld1_u8(p);
  return vreinterpret_s8_u8(plain ? v : veor_u8(v, flip));
}
/* Two outputs of a line read 3 + stride pixels; outputs of two lines read 6, as with a stride of 3. */
typedef struct { int8x8_t x[6]; } pair_taps;
/* w: the weights, less `middle` if `centred`; then middle times the sum of the pixels is added to the sums. */
typedef struct {
  int8x8_t w[9];
  sums bias;
  finish_params finish;
  uint8x8_t flip;
  int16x8_t middle;
  int centred;
} block3x3;
PL_INLINE pair_taps load_pair(int stride, int simple, int inside, const block3x3 *b, const uint8_t *p, ptrdiff_t step,
                             unsigned inside_bits, const uint8_t *zero) {
  pair_taps v;
#pragma GCC unroll 5
  for (int i = 0; i < 3 + stride; i++)
    v.x[i] = read(simple, inside || inside_bits >> i & 1 ? p + i * step : zero, b->flip);
  return v;
}
/* Adds the products of taps t .. t + taps - 1 of the filter to two outputs; two products are added up in 16 bits first.
 * Each step is done for all taps before the next step begins, and pending outputs are finished in between, from `step`
 * on: an in-order core would wait for the products. */
PL_INLINE void add_taps(int taps, int t, int stride, int relu, const block3x3 *b, const pair_taps *const *v,
                        sums acc[2], int step, pending *before) {
  int16x8_t product[6];
  const int pairs = (taps + 1) / 2;
#define EACH _Pragma("GCC unroll 6") for (int i = 0; i < 2 * pairs; i++)
#define PIXEL(t) v[(t) / 3]->x[i % 2 * stride + (t) % 3]
#define FINISH(n) finish_steps(step, step + (n), relu, &b->finish, before), step += (n)
  FINISH(1);
  EACH product[i] = vmull_s8(PIXEL(t + i / 2 * 2), b->w[t + i / 2 * 2]);
  FINISH(1);
  EACH if (i / 2 * 2 + 1 < taps) product[i] = vmlal_s8(product[i], PIXEL(t + i / 2 * 2 + 1), b->w[t + i / 2 * 2 + 1]);
#pragma GCC unroll 3
  for (int k = 0; k < pairs; k++) {
    FINISH(1);
    add_wide(&acc[0], product[2 * k]);
    add_wide(&acc[1], product[2 * k + 1]);
  }
#undef FINISH
#undef PIXEL
#undef EACH
}
/* Adds middle times the sum of the pixels of each output. */
PL_INLINE void add_middle(int stride, const block3x3 *b, const pair_taps *const *v, sums acc[2]) {
  int16x8_t sum[2];
#pragma GCC unroll 3
  for (int i = 0; i < 3; i++) {
    const int8x8_t *x = v[i]->x;
    /* Both outputs read pixel 2 if the stride is less than 3, and pixel 1 if it is 1. */
    const int16x8_t first = stride == 1 ? vaddl_s8(x[1], x[2]) : vaddl_s8(x[0], x[1]);
    const int16x8_t second = stride == 1 ? first : vaddl_s8(x[3], x[stride + 2]);
    const int8x8_t others[2] = {x[stride == 1 ? 0 : 2], x[stride == 1 ? 3 : stride == 2 ? 2 : 4]};
    const int16x8_t line[2] = {vaddw_s8(first, others[0]), vaddw_s8(second, others[1])};
#pragma GCC unroll 2
    for (int k = 0; k < 2; k++) sum[k] = i ? vaddq_s16(sum[k], line[k]) : line[k];
  }
#pragma GCC unroll 2
  for (int k = 0; k < 2; k++) add(&acc[k], sum[k], b->middle);
}
PL_INLINE void start_pair(int stride, int relu, const block3x3 *b, const pair_taps *v0, const pair_taps *v1,
                          sums acc[2], pending *before) {
  const pair_taps *const v[3] = {v0, v1, NULL};
  acc[0] = acc[1] = b->bias;
  add_taps(4, 0, stride, relu, b, v, acc, 0, before);
}
PL_INLINE void end_pair(int stride, int simple, int relu, const block3x3 *b, const pair_taps *v0, const pair_taps *v1,
                        const pair_taps *v2, sums acc[2], pending *before) {
  const pair_taps *const v[3] = {v0, v1, v2};
  add_taps(5, 4, stride, relu, b, v, acc, 4, before);
  finish_steps(9, FINISH_STEPS, relu, &b->finish, before);
  if (!simple && b->centred) add_middle(stride, b, v, acc);
}
/* Weights less their zero point span 255 at most, so weights less their middle lie between -128 and 127.  Fails if both
 * weights of a pair are -128: with pixels of -128, the sum of their products does not fit into 16 bits.  A block is
 * simple if it is not centred and flip is 0. */
PL_INLINE int load_block(int stride, int flip, int w_zero, const void *weights, const pl_columns *q, ptrdiff_t block,
                         block3x3 *b) {
  const int16_t *w = (const int16_t *)weights + block * 9 * NR;
  int16x8_t tap[9], most = vld1q_s16(w), least = most;
  int8x8_t twice = vdup_n_s8(0); /* are both weights of a pair -128? */
  (void)stride;
  (void)w_zero; /* already subtracted from the weights */
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
  b->finish = finish_params_of(flip, 0, q, block * NR);
  b->bias = load_sums(b->finish.bias);
  b->flip = vdup_n_u8((uint8_t)flip);
  return vget_lane_u64(vreinterpret_u64_s8(twice), 0) ? -1 : !flip && !b->centred;
}
PL_INLINE pair_taps load_column(int simple, int inside, const block3x3 *b, const uint8_t *p0, ptrdiff_t step0,
                                const uint8_t *p1, ptrdiff_t step1, unsigned inside_bits, const uint8_t *zero) {
  pair_taps v;
#pragma GCC unroll 3
  for (int i = 0; i < 3; i++) {
    const int read_it = inside || inside_bits >> i & 1;
    v.x[i] = read(simple, read_it ? p0 + i * step0 : zero, b->flip);
    v.x[3 + i] = read(simple, read_it ? p1 + i * step1 : zero, b->flip);
  }
  return v;
}
#define SINGLE_COLUMNS
#define TILE_BYTES 24576
#define DEFER 1
#include "depthwise_pairs.h"

static void depthwise_q8(const pl_dw_lines *g, int flip, int w_zero, const void *w, const pl_columns *q, uint8_t *y) {
  const pl_columns local = *q; /* y may not be taken to overlap it */
  if (!pairs_q8(g, flip, w_zero, w, &local, y)) lines_q8(g, flip, w_zero, w, &local, y);
}

PL_FILL(depthwise_neon, s) {
  s->depthwise_q8 = depthwise_q8;
  s->dw8 = (pl_tile){.mr = LINES, .nr = NR, .nv = NR, .kr = 1, .ka = 1, .bytes = sizeof(int16_t)};
}
