/* Element-wise micro-kernels (elementwise.h) for 64-bit NEON, where gcc's code is slow: clamped floats, whose
 * comparisons it guards against NaN, multiplications by a quantized multiplier, which it computes in 64 bits, and
 * float16. */
#include "elementwise.h"
#include "neon.h"
#include <float.h>

#define EACH(n) _Pragma("GCC unroll 4") for (int k = 0; k < (n); k++)

/* ---- float32; NaN stays NaN where results are clamped ---- */
typedef struct { float low, high; } range_f_p;

/* Four elements of operand p from i on, and its single element in all lanes. */
#define LINE(p, i) vld1q_f32((p) + (i))
#define SAME(p, i) p##_all
#define CLAMPED(v) vminq_f32(vmaxq_f32(v, low), high)

static void clamp_f32(size_t n, const void *vx, void *vy, const void *vp) {
  const float *x = vx;
  float *y = vy;
  range_f_p p;
  memcpy(&p, vp, sizeof p);
  const float32x4_t low = vdupq_n_f32(p.low), high = vdupq_n_f32(p.high);
  size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    float32x4_t r[4];
    EACH(4) r[k] = vld1q_f32(x + i + 4 * k);
    EACH(4) r[k] = CLAMPED(r[k]);
    EACH(4) vst1q_f32(y + i + 4 * k, r[k]);
  }
  for (; i + 4 <= n; i += 4) vst1q_f32(y + i, CLAMPED(vld1q_f32(x + i)));
  for (; i < n; i++) vst1q_lane_f32(y + i, CLAMPED(vld1q_dup_f32(x + i)), 0);
}

/* Sixteen elements at a time, all loaded first.  A, B: LINE or SAME; END: changes or checks the results r. */
#define SIXTEEN(OPERATION, A, B, END) \
  for (; i + 16 <= n; i += 16) { \
    float32x4_t first[4], second[4], r[4]; \
    EACH(4) first[k] = A(a, i + 4 * k); \
    EACH(4) second[k] = B(b, i + 4 * k); \
    EACH(4) r[k] = OPERATION(first[k], second[k]); \
    END; \
    EACH(4) vst1q_f32(y + i + 4 * k, r[k]); \
  }
/* The remaining elements, four at a time, then one by one.  END(v): the element that is stored for v. */
#define REST(OPERATION, A, B, END) \
  for (; i + 4 <= n; i += 4) vst1q_f32(y + i, END(OPERATION(A(a, i), B(b, i)))); \
  for (; i < n; i++) { \
    const float32x4_t last_a = vld1q_dup_f32(a + i * (size_t)a_step), last_b = vld1q_dup_f32(b + i * (size_t)b_step); \
    vst1q_lane_f32(y + i, END(OPERATION(last_a, last_b)), 0); \
  }
/* A slot of two operands, with a loop for each of their forms.  PREPARE: statements before the loop. */
#define KERNEL(name, LOOP, OPERATION, PREPARE) \
  static void name(size_t n, const void *va, int a_step, const void *vb, int b_step, void *vy, const void *vp) { \
    const float *a = va, *b = vb; \
    float *y = vy; \
    const float32x4_t a_all = vdupq_n_f32(*a), b_all = vdupq_n_f32(*b); \
    size_t i = 0; \
    PREPARE \
    if (a_step && b_step) { \
      LOOP(OPERATION, LINE, LINE) \
    } else if (a_step) { \
      LOOP(OPERATION, LINE, SAME) \
    } else { \
      LOOP(OPERATION, SAME, LINE) \
    } \
  }

/* Without an activation, results are clamped to finite numbers (only_finite).  Results are rarely infinite, so all are
 * clamped at the end, if any is infinite. */
#define CLAMPED_LOOP(OPERATION, A, B) \
  if (only_finite) { \
    SIXTEEN(OPERATION, A, B, MARK_NON_FINITE(r)) \
    EACH(2) non_finite[k] = vsubq_f32(non_finite[k], non_finite[k]); \
    if (vaddvq_f32(vaddq_f32(non_finite[0], non_finite[1])) != 0) clamp_f32(i, y, y, vp); \
  } else { \
    SIXTEEN(OPERATION, A, B, EACH(4) r[k] = CLAMPED(r[k])) \
  } \
  REST(OPERATION, A, B, CLAMPED)
/* non_finite becomes infinite or NaN with any of r. */
#define MARK_NON_FINITE(r) EACH(2) non_finite[k] = vfmaq_f32(non_finite[k], r[2 * k], r[2 * k + 1])
#define RANGE \
  range_f_p p; \
  memcpy(&p, vp, sizeof p); \
  const int only_finite = p.low == -FLT_MAX && p.high == FLT_MAX; \
  const float32x4_t low = vdupq_n_f32(p.low), high = vdupq_n_f32(p.high); \
  float32x4_t non_finite[2] = {vdupq_n_f32(0), vdupq_n_f32(0)};
KERNEL(add_f32, CLAMPED_LOOP, vaddq_f32, RANGE)
KERNEL(sub_f32, CLAMPED_LOOP, vsubq_f32, RANGE)
KERNEL(mul_f32, CLAMPED_LOOP, vmulq_f32, RANGE)
KERNEL(div_f32, CLAMPED_LOOP, vdivq_f32, RANGE)

#define PLAIN_LOOP(OPERATION, A, B) \
  SIXTEEN(OPERATION, A, B, (void)0) \
  REST(OPERATION, A, B, )
#define LARGER(a, b) vbslq_f32(vcgtq_f32(a, b), a, b) /* b if one is NaN, as in the reference */
#define SMALLER(a, b) vbslq_f32(vcltq_f32(a, b), a, b)
#define PRELU(a, b) vbslq_f32(vcgezq_f32(a), a, vmulq_f32(a, b))
#define SQUARED_DIFFERENCE(a, b) vmulq_f32(vsubq_f32(a, b), vsubq_f32(a, b))
KERNEL(maximum_f32, PLAIN_LOOP, LARGER, (void)vp;)
KERNEL(minimum_f32, PLAIN_LOOP, SMALLER, (void)vp;)
KERNEL(prelu_f32, PLAIN_LOOP, PRELU, (void)vp;)
KERNEL(squared_difference_f32, PLAIN_LOOP, SQUARED_DIFFERENCE, (void)vp;)

/* ---- sums and products of quantized numbers, sixteen at a time ----
 * MBQM32 of numbers so far from the ends of 32 bits that lowering them cannot overflow, see requantize_step(). */
typedef struct { int32x4_t mult, right; } rescaling;
PL_INLINE rescaling rescaling_of(int32_t m, int e) { return (rescaling){vdupq_n_s32(m), vdupq_n_s32(e < 0 ? e : 0)}; }
PL_INLINE void rescale(int32x4_t v[4], const rescaling *c) {
  int32x4_t negative[4];
  EACH(4) v[k] = vqrdmulhq_s32(v[k], c->mult);
  EACH(4) negative[k] = vandq_s32(v[k], c->right); /* lowered where there is a shift */
  EACH(4) v[k] = vsraq_n_s32(v[k], negative[k], 31);
  EACH(4) v[k] = vrshlq_s32(v[k], c->right);
}

/* How results become numbers of 8 or 16 bits (BITS). */
typedef struct { int32x4_t zero, low, high; ends bytes; } result_ends;
PL_INLINE result_ends result_ends_of(int32_t zero, int32_t low, int32_t high, int32_t flip) {
  return (result_ends){vdupq_n_s32(zero), vdupq_n_s32(low), vdupq_n_s32(high),
                       {vdupq_n_s16((int16_t)zero), vdupq_n_s8((int8_t)low), vdupq_n_s8((int8_t)high),
                        vdupq_n_u8((uint8_t)flip)}};
}
/* Stores 16 results, less their zero point, at y. */
PL_INLINE void put(int BITS, int32x4_t v[4], const result_ends *e, void *y) {
  int16x8_t pair[2];
  if (BITS == 16) {
    EACH(4) v[k] = vminq_s32(vmaxq_s32(vaddq_s32(v[k], e->zero), e->low), e->high);
    EACH(2) pair[k] = vmovn_high_s32(vmovn_s32(v[2 * k]), v[2 * k + 1]);
    EACH(2) vst1q_s16((int16_t *)y + 8 * k, pair[k]);
    return;
  }
  uint8x16_t bytes[1];
  narrow(1, 4, (int32x4_t(*)[4])v, &e->bytes, bytes);
  vst1q_u8(y, bytes[0]);
}

/* How an operand is read.  flip: bytes are read ^ flip; numbers of 16 bits have a zero point of 0. */
typedef struct { int16x8_t zero; uint8x16_t flip; } operand;
PL_INLINE operand operand_of(int32_t zero, int32_t flip) {
  return (operand){vdupq_n_s16((int16_t)-zero), vdupq_n_u8((uint8_t)flip)};
}
/* v = 16 elements; bytes less the zero point. */
PL_INLINE void centered(int BITS, const void *x, const operand *o, int16x8_t v[2]) {
  if (BITS == 16) {
    EACH(2) v[k] = vld1q_s16((const int16_t *)x + 8 * k);
    return;
  }
  const int8x16_t bytes = vreinterpretq_s8_u8(veorq_u8(vld1q_u8(x), o->flip));
  v[0] = vaddw_s8(o->zero, vget_low_s8(bytes)), v[1] = vaddw_high_s8(o->zero, bytes);
}

/* A slot of two operands whose STEP(prepared, a, b, y) computes WIDTH elements.  A single element of an operand fills a
 * copy, and so do the last ones.  P_TYPE: the parameters; PREPARED, PREPARE: their form for STEP. */
#define QUANTIZED_KERNEL(name, WIDTH, TYPE, P_TYPE, PREPARED, PREPARE, STEP) \
  static void name(size_t n, const void *va, int a_step, const void *vb, int b_step, void *vy, const void *vp) { \
    const TYPE *a = va, *b = vb; \
    TYPE *y = vy, a_line[WIDTH] = {0}, b_line[WIDTH] = {0}, y_line[WIDTH]; \
    P_TYPE p; \
    memcpy(&p, vp, sizeof p); \
    const PREPARED prepared = PREPARE(p); \
    for (int k = 0; !a_step && k < WIDTH; k++) a_line[k] = *a; \
    for (int k = 0; !b_step && k < WIDTH; k++) b_line[k] = *b; \
    if (!a_step) a = a_line; \
    if (!b_step) b = b_line; \
    for (; n >= WIDTH; n -= WIDTH, a += WIDTH * a_step, b += WIDTH * b_step, y += WIDTH) STEP(&prepared, a, b, y); \
    if (n) { \
      if (a_step) a = memcpy(a_line, a, n * sizeof *a); \
      if (b_step) b = memcpy(b_line, b, n * sizeof *b); \
      STEP(&prepared, a, b, y_line); \
      memcpy(y, y_line, n * sizeof *y); \
    } \
  }

typedef struct { operand a, b; rescaling a_scale, b_scale, y_scale; int32x4_t sign; result_ends ends; } summing;
PL_INLINE summing summing_of(sum_q_p p) {
  return (summing){operand_of(p.a_zero, p.flip), operand_of(p.b_zero, p.flip), rescaling_of(p.a_m, p.a_e),
                   rescaling_of(p.b_m, p.b_e), rescaling_of(p.y_m, p.y_e), vdupq_n_s32(p.sign),
                   result_ends_of(p.y_zero, p.low, p.high, p.flip)};
}
/* An operand shifted to the left, by 20 bits for bytes and 15 for int16 (`left` of sum_q_p), and rescaled. */
PL_INLINE void scaled_operand(int BITS, const void *x, const operand *o, const rescaling *c, int32x4_t v[4]) {
  int16x8_t half[2];
  centered(BITS, x, o, half);
  if (BITS == 8) EACH(2) half[k] = vshlq_n_s16(half[k], 5);
  EACH(2) v[2 * k] = vshll_n_s16(vget_low_s16(half[k]), 15), v[2 * k + 1] = vshll_high_n_s16(half[k], 15);
  rescale(v, c);
}
PL_INLINE void sum(int BITS, const summing *s, const void *a, const void *b, void *y) {
  int32x4_t va[4], vb[4];
  scaled_operand(BITS, a, &s->a, &s->a_scale, va);
  scaled_operand(BITS, b, &s->b, &s->b_scale, vb);
  EACH(4) va[k] = vaddq_s32(va[k], vsubq_s32(veorq_s32(vb[k], s->sign), s->sign));
  rescale(va, &s->y_scale);
  put(BITS, va, &s->ends, y);
}
#define SUM_8(s, a, b, y) sum(8, s, a, b, y)
#define SUM_16(s, a, b, y) sum(16, s, a, b, y)
QUANTIZED_KERNEL(sum_by_rule_q8, 16, uint8_t, sum_q_p, summing, summing_of, SUM_8)
QUANTIZED_KERNEL(sum_q16, 16, int16_t, sum_q_p, summing, summing_of, SUM_16)

/* Sums of bytes with the numbers of fitted.h, in a third of the rule's instructions. */
typedef struct { int8x16_t low, high, a_low, b_low; int16x8_t a, b; int32x4_t start; uint8x16_t flip; } fitted;
PL_INLINE fitted fitted_of(pl_fitted_sum p) {
  return (fitted){vdupq_n_s8((int8_t)p.rule.low), vdupq_n_s8((int8_t)p.rule.high), vdupq_n_s8((int8_t)p.a[1]),
                  vdupq_n_s8((int8_t)p.b[1]), vdupq_n_s16(p.a[0]), vdupq_n_s16(p.b[0]), vdupq_n_s32(p.start),
                  vdupq_n_u8((uint8_t)p.rule.flip)};
}
/* 32 elements.  Each step is done for all of them before the next one: an in-order core would wait for the four
 * products of each sum. */
PL_INLINE void sum_fitted(int fraction, const fitted *f, const uint8_t *pa, const uint8_t *pb, uint8_t *y) {
  const int8x16_t none = vdupq_n_s8(0);
  int8x16_t a[2], b[2], r[2];
  int16x8_t a_high[4], b_high[4], low[4], whole[4];
  int32x4_t v[8];
  EACH(2) a[k] = vreinterpretq_s8_u8(veorq_u8(vld1q_u8(pa + 16 * k), f->flip));
  EACH(2) b[k] = vreinterpretq_s8_u8(veorq_u8(vld1q_u8(pb + 16 * k), f->flip));
  EACH(2)
    low[2 * k] = vmull_s8(vget_low_s8(a[k]), vget_low_s8(f->a_low)), low[2 * k + 1] = vmull_high_s8(a[k], f->a_low);
  EACH(2) a_high[2 * k] = vreinterpretq_s16_s8(vzip1q_s8(none, a[k]));
  EACH(2) a_high[2 * k + 1] = vreinterpretq_s16_s8(vzip2q_s8(none, a[k]));
  EACH(2) low[2 * k] = vmlal_s8(low[2 * k], vget_low_s8(b[k]), vget_low_s8(f->b_low));
  EACH(2) low[2 * k + 1] = vmlal_high_s8(low[2 * k + 1], b[k], f->b_low);
  EACH(2) b_high[2 * k] = vreinterpretq_s16_s8(vzip1q_s8(none, b[k]));
  EACH(2) b_high[2 * k + 1] = vreinterpretq_s16_s8(vzip2q_s8(none, b[k]));
  EACH(4) v[2 * k] = vaddw_s16(f->start, vget_low_s16(low[k])), v[2 * k + 1] = vaddw_high_s16(f->start, low[k]);
  EACH(4) v[2 * k] = vmlal_s16(v[2 * k], vget_low_s16(a_high[k]), vget_low_s16(f->a));
  EACH(4) v[2 * k + 1] = vmlal_high_s16(v[2 * k + 1], a_high[k], f->a);
  EACH(4) v[2 * k] = vmlal_s16(v[2 * k], vget_low_s16(b_high[k]), vget_low_s16(f->b));
  EACH(4) v[2 * k + 1] = vmlal_high_s16(v[2 * k + 1], b_high[k], f->b);
  EACH(4) whole[k] = vuzp2q_s16(vreinterpretq_s16_s32(v[2 * k]), vreinterpretq_s16_s32(v[2 * k + 1]));
  EACH(2) r[k] = vqshrn_high_n_s16(vqshrn_n_s16(whole[2 * k], fraction - 16), whole[2 * k + 1], fraction - 16);
  EACH(2) r[k] = vmaxq_s8(vminq_s8(r[k], f->high), f->low);
  EACH(2) vst1q_u8(y + 16 * k, veorq_u8(vreinterpretq_u8_s8(r[k]), f->flip));
}
#define SUM_FITTED(s, a, b, y) sum_fitted(PL_FRACTION, s, a, b, y)
#define LARGE_SUM(s, a, b, y) sum_fitted(PL_FRACTION - 1, s, a, b, y)
QUANTIZED_KERNEL(sum_fitted_q8, 32, uint8_t, pl_fitted_sum, fitted, fitted_of, SUM_FITTED)
QUANTIZED_KERNEL(large_sum_q8, 32, uint8_t, pl_fitted_sum, fitted, fitted_of, LARGE_SUM)
static void sum_q8(size_t n, const void *a, int a_step, const void *b, int b_step, void *y, const void *p) {
  const int fraction = ((const pl_fitted_sum *)p)->fraction;
  (!fraction ? sum_by_rule_q8 : fraction == PL_FRACTION ? sum_fitted_q8 : large_sum_q8)(n, a, a_step, b, b_step, y, p);
}

typedef struct { operand a, b; int32x4_t left, a_zero, b_zero; rescaling scale; result_ends ends; } multiplying;
PL_INLINE multiplying multiplying_of(product_q_p p) {
  return (multiplying){operand_of(p.a_zero, p.flip), operand_of(p.b_zero, p.flip), vdupq_n_s32(p.e > 0 ? p.e : 0),
                       vdupq_n_s32(p.a_zero), vdupq_n_s32(p.b_zero), rescaling_of(p.m, p.e),
                       result_ends_of(p.y_zero, p.low, p.high, p.flip)};
}
/* mul_q8 for 16 elements.  plain: operands are int8, and the multiplier shifts to the right; then every negative number
 * is lowered before, and results fit 16 bits.  whole: results may be any int8. */
PL_INLINE void multiply_bytes(int plain, int whole, const multiplying *s, const void *a, const void *b, void *y) {
  int16x8_t va[2], vb[2];
  int32x4_t v[4];
  if (plain) {
    const int8x16_t x = vld1q_s8(a), w = vld1q_s8(b);
    va[0] = vaddw_s8(s->a.zero, vget_low_s8(x)), va[1] = vaddw_high_s8(s->a.zero, x);
    vb[0] = vaddw_s8(s->b.zero, vget_low_s8(w)), vb[1] = vaddw_high_s8(s->b.zero, w);
  } else {
    centered(8, a, &s->a, va);
    centered(8, b, &s->b, vb);
  }
  EACH(2) v[2 * k] = vmull_s16(vget_low_s16(va[k]), vget_low_s16(vb[k])), v[2 * k + 1] = vmull_high_s16(va[k], vb[k]);
  if (plain) {
    EACH(4) v[k] = vqrdmulhq_s32(v[k], s->scale.mult);
    EACH(4) v[k] = vsraq_n_s32(v[k], v[k], 31);
    EACH(4) v[k] = vrshlq_s32(v[k], s->scale.right);
    EACH(2) va[k] = vuzp1q_s16(vreinterpretq_s16_s32(v[2 * k]), vreinterpretq_s16_s32(v[2 * k + 1]));
    EACH(2) va[k] = vqaddq_s16(va[k], s->ends.bytes.zero_point);
    int8x16_t bytes = vqmovn_high_s16(vqmovn_s16(va[0]), va[1]);
    if (!whole) bytes = vmaxq_s8(vminq_s8(bytes, s->ends.bytes.high), s->ends.bytes.low);
    vst1q_s8(y, bytes);
    return;
  }
  EACH(4) v[k] = vshlq_s32(v[k], s->left);
  rescale(v, &s->scale);
  put(8, v, &s->ends, y);
}
#define MULTIPLY_8(s, a, b, y) multiply_bytes(0, 0, s, a, b, y)
#define MULTIPLY_PLAIN_8(s, a, b, y) multiply_bytes(1, 0, s, a, b, y)
#define MULTIPLY_WHOLE_8(s, a, b, y) multiply_bytes(1, 1, s, a, b, y)
PL_INLINE void multiply_16(const multiplying *s, const void *a, const void *b, void *y) {
  int16x8_t va[2], vb[2];
  int32x4_t v[4], w[4];
  centered(16, a, &s->a, va);
  centered(16, b, &s->b, vb);
  EACH(2) v[2 * k + 1] = vmovl_high_s16(va[k]);
  EACH(2) v[2 * k] = vmovl_s16(vget_low_s16(va[k])), w[2 * k] = vmovl_s16(vget_low_s16(vb[k]));
  EACH(2) w[2 * k + 1] = vmovl_high_s16(vb[k]);
  EACH(4) v[k] = vmulq_s32(vsubq_s32(v[k], s->a_zero), vsubq_s32(w[k], s->b_zero));
  EACH(4) v[k] = vshlq_s32(v[k], s->left);
  rescale(v, &s->scale);
  put(16, v, &s->ends, y);
}
QUANTIZED_KERNEL(mul_any_q8, 16, uint8_t, product_q_p, multiplying, multiplying_of, MULTIPLY_8)
QUANTIZED_KERNEL(mul_plain_q8, 16, uint8_t, product_q_p, multiplying, multiplying_of, MULTIPLY_PLAIN_8)
QUANTIZED_KERNEL(mul_whole_q8, 16, uint8_t, product_q_p, multiplying, multiplying_of, MULTIPLY_WHOLE_8)
static void mul_q8(size_t n, const void *a, int a_step, const void *b, int b_step, void *y, const void *vp) {
  product_q_p p;
  memcpy(&p, vp, sizeof p);
  const int whole = p.low == INT8_MIN && p.high == INT8_MAX;
  (p.flip || p.e >= 0 ? mul_any_q8 : whole ? mul_whole_q8 : mul_plain_q8)(n, a, a_step, b, b_step, y, vp);
}
QUANTIZED_KERNEL(mul_q16, 16, int16_t, product_q_p, multiplying, multiplying_of, multiply_16)

static void float_to_half(size_t n, const void *x, void *y, const void *p) {
  const float *from = x;
  uint16_t *to = y;
  size_t i = 0;
  (void)p;
  for (; i + 8 <= n; i += 8)
    vst1q_u16(to + i, vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(vld1q_f32(from + i)),
                                                              vld1q_f32(from + i + 4))));
  for (; i < n; i++) vst1_lane_u16(to + i, vreinterpret_u16_f16(vcvt_f16_f32(vld1q_dup_f32(from + i))), 0);
}

static void half_to_float(size_t n, const void *x, void *y, const void *p) {
  const uint16_t *from = x;
  float *to = y;
  size_t i = 0;
  (void)p;
  for (; i + 8 <= n; i += 8) {
    const float16x8_t v = vreinterpretq_f16_u16(vld1q_u16(from + i));
    vst1q_f32(to + i, vcvt_f32_f16(vget_low_f16(v)));
    vst1q_f32(to + i + 4, vcvt_high_f32_f16(v));
  }
  for (; i < n; i++) vst1q_lane_f32(to + i, vcvt_f32_f16(vreinterpret_f16_u16(vld1_dup_u16(from + i))), 0);
}

PL_FILL(elementwise_neon, s) {
  s->float_to_half = float_to_half;
  s->half_to_float = half_to_float;
  s->add_f32 = add_f32;
  s->sub_f32 = sub_f32;
  s->mul_f32 = mul_f32;
  s->div_f32 = div_f32;
  s->clamp_f32 = clamp_f32;
  s->sum_q8 = sum_q8;
  s->sum_q16 = sum_q16;
  s->maximum_f32 = maximum_f32, s->minimum_f32 = minimum_f32, s->prelu_f32 = prelu_f32;
  s->squared_difference_f32 = squared_difference_f32;
  s->mul_q8 = mul_q8;
  s->mul_q16 = mul_q16;
}
