/* Short forms of sums and products of bytes that give the same results as the rule, if fitting.c finds parameters. */
#ifndef PYLITE_FITTED_H
#define PYLITE_FITTED_H
#include "elementwise.h"
#include "rounding.h"

#if defined(__aarch64__)
/* The sum with p->fraction bits of fraction, which is truncated.  Ratios have two digits; the lower one has 8 bits.
 * elementwise_neon.c multiplies the upper digits in 16 bits, and the lower ones in 8. */
PL_INLINE int32_t pl_sum_fitted(int32_t a, int32_t b, const pl_fitted_sum *p) {
  const int32_t upper = (int32_t)((uint32_t)(a * p->a[0] + b * p->b[0]) << 8), lower = a * p->a[1] + b * p->b[1];
  return pl_clamp32((int32_t)((uint32_t)upper + (uint32_t)lower + (uint32_t)p->start) >> p->fraction, p->rule.low,
                    p->rule.high);
}
#else
/* The sum with ratios of PL_FRACTION bits of fraction, in two digits, the lower one of PL_LOW_DIGIT bits.  All steps
 * are exact, except that the fraction is truncated at the end. */
#define PL_LOW_DIGIT 12
PL_INLINE int32_t pl_short_sum(int32_t a, int32_t b, const pl_fitted_sum *p) {
  const int32_t low = (a * p->a[1] + b * p->b[1]) * 256 + p->start_low;
  const int32_t t = (low >> PL_LOW_DIGIT) + (a * p->a[0] + b * p->b[0]) * 256;
  return pl_clamp32((t >> (PL_FRACTION + 8 - PL_LOW_DIGIT)) + p->start, p->rule.low, p->rule.high);
}
/* What the rule's rounding adds to an operand, with PL_CORRECTION bits more than the sum's fraction.  It is a sawtooth
 * over the distance from the zero point: `phase` is the fraction that is rounded, in 16 bits that wrap around.  It is
 * one less for negative distances, because the rule's first step rounds all halves up. */
#define PL_CORRECTION 11
PL_INLINE int32_t pl_sum_correction(int32_t x, const pl_fitted_sum *p) {
  const int32_t d = x - p->zero, sign = d >> 31;
  const int32_t phase = (int16_t)(((d ^ sign) - sign) * p->step + p->offset + sign);
  const int32_t correction = p->mean - (phase * p->gain >> 16);
  return (correction ^ sign) - sign;
}
/* The sum with p->fraction bits of fraction, plus `above`, or `below` if it is negative; then the fraction is
 * truncated.  Ratios have 22 bits more, in three digits of 15 bits. */
PL_INLINE int32_t pl_sum_fitted(int32_t a, int32_t b, const pl_fitted_sum *p) {
  const int32_t correction = p->corrected ? pl_sum_correction(p->corrected == 2 ? b : a, p) : 0;
  const int32_t low = (a * p->a[2] + b * p->b[2]) >> 7;
  const int32_t middle =
      ((a * p->a[1] + b * p->b[1]) * 256 + low + correction * (1 << (15 - PL_CORRECTION)) + p->start_low) >> 15;
  const int32_t t = p->start + middle + (int32_t)((uint32_t)(a * p->a[0] + b * p->b[0]) << 8);
  return pl_clamp32(((t + (t < 0 ? p->below : p->above)) >> p->fraction) + p->rule.y_zero, p->rule.low, p->rule.high);
}
#endif
PL_INLINE int32_t pl_product_fitted(int32_t a, int32_t b, const pl_fitted_product *p) {
  const float v = (float)((a - p->a_zero) * (b - p->b_zero)) * p->scale;
  return pl_clamp32((int32_t)(v + copysignf(p->half, v)) + p->y_zero, p->low, p->high);
}
#endif
