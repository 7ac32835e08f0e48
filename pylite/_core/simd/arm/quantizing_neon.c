/* Quantization of floats for 64-bit NEON, and look-up tables that two lines replace.  gcc's code multiplies, adds a
 * half and truncates, in five steps; the rounding conversion used here takes three.  A division takes ten times as long
 * as a product. */
#include "elementwise.h"
#include "neon.h"

#define EACH(n) _Pragma("GCC unroll 4") for (int k = 0; k < (n); k++)

/* ---- the quantization of hybrid operators ---- */
static void range_f32(ptrdiff_t n, const float *x, float *low, float *high) {
  float32x4_t least[4], most[4];
  ptrdiff_t i = 0;
  EACH(4) least[k] = most[k] = vdupq_n_f32(0);
  for (; i + 16 <= n; i += 16) {
    float32x4_t v[4];
    EACH(4) v[k] = vld1q_f32(x + i + 4 * k);
    EACH(4) least[k] = vminnmq_f32(least[k], v[k]);
    EACH(4) most[k] = vmaxnmq_f32(most[k], v[k]);
  }
  for (; i < n; i++) {
    const float32x4_t v = vld1q_dup_f32(x + i);
    least[0] = vminnmq_f32(least[0], v), most[0] = vmaxnmq_f32(most[0], v);
  }
  EACH(2) least[k] = vminnmq_f32(least[k], least[k + 2]), most[k] = vmaxnmq_f32(most[k], most[k + 2]);
  *low = vminnmvq_f32(vminnmq_f32(least[0], least[1])) + 0.0f; /* not -0 */
  *high = vmaxnmvq_f32(vmaxnmq_f32(most[0], most[1])) + 0.0f;
}

/* v = x * inverse for 16 elements, changed such that rounding v equals truncating the sum of x * inverse and a half of
 * the same sign, as the rule does.  They differ only for 0.5 - 2^-25, whose sum with a half is 1 in float32.  Adding
 * `part` times a number to it moves it only if all bits of its significand are set: to the next power of two. */
PL_INLINE void scaled_to_round(const float *x, float inverse, float32x4_t v[4]) {
  const float32x4_t part = vdupq_n_f32(0x1.000002p-25f);
  EACH(4) v[k] = vmulq_n_f32(vld1q_f32(x + 4 * k), inverse);
  EACH(4) v[k] = vfmaq_f32(v[k], v[k], part);
}
/* The arguments of quantize_s8; low: the lowest result. */
typedef struct { float inverse; int16x8_t zero; int8x16_t low; uint8x16_t flip; } quantizing;
PL_INLINE uint8x16_t quantized(const float *x, const quantizing *q) {
  float32x4_t v[4];
  int32x4_t whole[4];
  int16x8_t pair[2];
  scaled_to_round(x, q->inverse, v);
  EACH(4) whole[k] = vcvtaq_s32_f32(v[k]);
  EACH(2) pair[k] = vqmovn_high_s32(vqmovn_s32(whole[2 * k]), whole[2 * k + 1]);
  EACH(2) pair[k] = vqaddq_s16(pair[k], q->zero);
  const int8x16_t bytes = vqmovn_high_s16(vqmovn_s16(pair[0]), pair[1]);
  return veorq_u8(vreinterpretq_u8_s8(vmaxq_s8(bytes, q->low)), q->flip);
}
static void quantize_s8(ptrdiff_t n, const float *x, float inverse, int zero, int asymmetric, int flip, uint8_t *y) {
  const quantizing q = {inverse, vdupq_n_s16((int16_t)zero), vdupq_n_s8(asymmetric ? -128 : -127),
                        vdupq_n_u8((uint8_t)flip)};
  ptrdiff_t i = 0;
  for (; i + 16 <= n; i += 16) vst1q_u8(y + i, quantized(x + i, &q));
  if (i < n) {
    float last[16] = {0};
    uint8_t bytes[16];
    memcpy(last, x + i, (size_t)(n - i) * sizeof *x);
    vst1q_u8(bytes, quantized(last, &q));
    memcpy(y + i, bytes, (size_t)(n - i));
  }
}
static void quantize_whole(ptrdiff_t n, const float *x, float inverse, int zero, float *y) {
  const float32x4_t low = vdupq_n_f32((float)(-128 - zero)), high = vdupq_n_f32((float)(127 - zero));
  float some[2][16] = {{0}};
  for (ptrdiff_t i = 0; i < n; i += 16) {
    const int last = n - i < 16;
    float *const to = last ? some[1] : y + i;
    float32x4_t v[4];
    if (last) memcpy(some[0], x + i, (size_t)(n - i) * sizeof *x);
    scaled_to_round(last ? some[0] : x + i, inverse, v);
    EACH(4) v[k] = vminnmq_f32(vmaxnmq_f32(vrndaq_f32(v[k]), low), high);
    EACH(4) vst1q_f32(to + 4 * k, v[k]);
    if (last) memcpy(y + i, to, (size_t)(n - i) * sizeof *y);
  }
}
static void quantize_rows(ptrdiff_t rows, ptrdiff_t n, const float *x, ptrdiff_t step, int asymmetric, int flip,
                          uint8_t *y, float *scales, int32_t *zeros) {
  for (ptrdiff_t r = 0; r < rows; r++, x += step, y += n) {
    float low, high, inverse;
    range_f32(n, x, &low, &high);
    zeros[r] = pl_quantization(low, high, asymmetric, scales + r, &inverse);
    quantize_s8(n, x, inverse, zeros[r], asymmetric, flip, y);
  }
}

/* QUANTIZE divides by the scale.  A product with its inverse differs from the quotient by less than 2^-13 where the
 * magnitude is below 512, so both round to the same number unless they are that close to a half; larger results are
 * clamped.  Elements near a half are divided, and so are NaN and those beyond 16 bits.
 *
 * Products become fixed-point numbers with 16 bits of fraction: narrowing rounds eight of them with two instructions,
 * and one more gathers their fractions, which tell whether they are near a half. */
enum { NEAR_HALF = 9 }; /* 2^-13 in units of 2^-16, and one for the conversion, which truncates */
typedef struct { float32x4_t inverse; int16x8_t zero, low, high; } by_inverse;
/* 16 results; most: their largest products, NaN if one is; fraction: above 2 * NEAR_HALF where none is near a half. */
PL_INLINE int8x16_t quantized_by_inverse(const float *x, const by_inverse *q, float32x4_t *most, uint16x8_t *fraction) {
  float32x4_t v[4];
  int32x4_t fixed[4];
  uint16x8_t part[2];
  int16x8_t whole[2];
  EACH(4) v[k] = vmulq_f32(vld1q_f32(x + 4 * k), q->inverse);
  EACH(4) fixed[k] = vcvtq_n_s32_f32(v[k], 16);
  EACH(2) v[k] = vmaxq_f32(v[k], v[k + 2]); /* NaN if one is */
  EACH(2) part[k] = vuzp1q_u16(vreinterpretq_u16_s32(fixed[2 * k]), vreinterpretq_u16_s32(fixed[2 * k + 1]));
  EACH(2) part[k] = vaddq_u16(part[k], vdupq_n_u16(0x8000 + NEAR_HALF));
  EACH(2) whole[k] = vqrshrn_high_n_s32(vqrshrn_n_s32(fixed[2 * k], 16), fixed[2 * k + 1], 16);
  *most = vmaxq_f32(v[0], v[1]), *fraction = vminq_u16(part[0], part[1]);
  EACH(2) whole[k] = vminq_s16(vmaxq_s16(vqaddq_s16(whole[k], q->zero), q->low), q->high);
  int8x16_t bytes = vcombine_s8(vmovn_s16(whole[0]), vmovn_s16(whole[1]));
  __asm__("" : "+w"(bytes)); /* computed here: later, the sixteen numbers would need registers */
  return bytes;
}
static void quantize_f32_i8(size_t n, const void *vx, void *vy, const void *vp) {
  const float *x = vx;
  uint8_t *y = vy;
  pl_quantize_p p;
  memcpy(&p, vp, sizeof p);
  const int plain = p.scale >= 0x1p-100f && p.scale <= 0x1p+100f && p.zero >= -128 && p.zero <= 255;
  const by_inverse q = {vdupq_n_f32(1.0f / p.scale), vdupq_n_s16((int16_t)p.zero), vdupq_n_s16((int16_t)p.low),
                        vdupq_n_s16((int16_t)p.high)};
  size_t i = 0;
  while (plain && i + 32 <= n) {
    float32x4_t most[2];
    uint16x8_t part[2];
    int8x16_t bytes[2];
    EACH(2) bytes[k] = quantized_by_inverse(x + i + 16 * k, &q, &most[k], &part[k]);
    const uint32x4_t small = vcltq_f32(vmaxq_f32(most[0], most[1]), vdupq_n_f32(INT16_MAX));
    const uint16x8_t far = vcgtq_u16(vminq_u16(part[0], part[1]), vdupq_n_u16(2 * NEAR_HALF));
    const int sure = vminvq_u32(vandq_u32(small, vreinterpretq_u32_u16(far))) == UINT32_MAX;
    if (sure) {
      EACH(2) vst1q_s8((int8_t *)y + i + 16 * k, bytes[k]);
      i += 32;
    } else {
      for (const size_t end = i + 32; i < end; i++) y[i] = (uint8_t)pl_quantize(x[i], p);
    }
  }
  for (; i < n; i++) y[i] = (uint8_t)pl_quantize(x[i], p);
}

/* ---- lines8: tables of bytes whose values are the larger ones of two lines, or one line (elementwise.h) ----
 * Looking up in a table of four registers takes a Cortex-A72 three times as long as computing two lines. */
typedef struct { int16x8_t slope[2], start[2], shift; uint8x16_t x_flip, y_flip; int8x16_t low, high; } line_vectors;
/* 32 bytes.  lines: 1 or 2; plain: see PL_LINES8. */
PL_INLINE void larger_lines(const int lines, const int plain, const uint8_t *x, const line_vectors *p, uint8_t *y) {
  int8x16_t v[2];
  int16x8_t wide[4], r[4], second[4];
  EACH(2) v[k] = vreinterpretq_s8_u8(plain ? vld1q_u8(x + 16 * k) : veorq_u8(vld1q_u8(x + 16 * k), p->x_flip));
  EACH(2) wide[2 * k] = vshll_n_s8(vget_low_s8(v[k]), 7), wide[2 * k + 1] = vshll_high_n_s8(v[k], 7);
  EACH(4) r[k] = vqdmulhq_s16(wide[k], p->slope[0]); /* the upper half of twice the product; wide = 128 x */
  EACH(4) r[k] = vqaddq_s16(r[k], p->start[0]);
  if (lines == 2) {
    EACH(4) second[k] = vqdmulhq_s16(wide[k], p->slope[1]);
    EACH(4) second[k] = vqaddq_s16(second[k], p->start[1]);
    EACH(4) r[k] = vmaxq_s16(r[k], second[k]);
  }
  EACH(4) r[k] = vshlq_s16(r[k], p->shift);
  EACH(2) v[k] = vqmovn_high_s16(vqmovn_s16(r[2 * k]), r[2 * k + 1]);
  if (!plain) EACH(2) v[k] = vminq_s8(vmaxq_s8(v[k], p->low), p->high);
  EACH(2) vst1q_u8(y + 16 * k, plain ? vreinterpretq_u8_s8(v[k]) : veorq_u8(vreinterpretq_u8_s8(v[k]), p->y_flip));
}
PL_INLINE void lines8_of(size_t n, const uint8_t *x, uint8_t *y, const int lines, const int plain,
                         const pl_lines8 *p) {
  const line_vectors v = {{vdupq_n_s16(p->slope[0]), vdupq_n_s16(p->slope[1])},
                          {vdupq_n_s16(p->start[0]), vdupq_n_s16(p->start[1])}, vdupq_n_s16((int16_t)-p->shift),
                          vdupq_n_u8(p->x_flip), vdupq_n_u8(p->y_flip), vdupq_n_s8(p->low), vdupq_n_s8(p->high)};
  uint8_t last[32] = {0};
  for (; n >= 32; n -= 32, x += 32, y += 32) larger_lines(lines, plain, x, &v, y);
  memcpy(last, x, n);
  larger_lines(lines, plain, last, &v, last);
  memcpy(y, last, n);
}
PL_LINES8(lines8_of)

PL_FILL(quantizing_neon, s) {
  s->lines8 = lines8;
  s->range_f32 = range_f32;
  s->quantize_s8 = quantize_s8;
  s->quantize_f32_i8 = quantize_f32_i8;
  s->quantize_whole = quantize_whole;
  s->quantize_rows = quantize_rows;
}
