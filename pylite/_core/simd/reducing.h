/* The slots of pooling, reductions, softmax, normalization and resizing, and what they take. */
#ifndef PYLITE_REDUCING_H
#define PYLITE_REDUCING_H
#include <stddef.h>
#include <stdint.h>

/* One pooling window: its taps that lie inside the image, and the clamp; strides count elements. */
typedef struct pl_window {
  ptrdiff_t channels, rows, cols, row_stride, col_stride;
  int32_t low, high;
  float low_f, high_f;
} pl_window;

/* Types of elements. */
enum { PL_F32, PL_S8, PL_U8, PL_S16, PL_S32, PL_S64 };

/* The kind of a pooling is 4 * operation + type; PL_L2 exists for PL_F32 alone. */
enum { PL_AVERAGE, PL_MAX, PL_L2 };

/* What one output reduces: up to three loops of n[k] steps of stride[k] elements, and inside, where run > 0, that
 * many consecutive elements.  Neighbouring outputs start `step` elements apart; run = 0 requires step = 1. */
typedef struct pl_reduction {
  ptrdiff_t n[3], stride[3], run, step;
  float divisor_f;   /* of a float sum: 1 or, for a mean, the number of elements */
  int64_t divisor;   /* of an integer sum */
  int32_t x_zero_sum, multiplier, exponent, y_zero, low, high; /* of a quantized sum */
} pl_reduction;

/* The kind of a reduction is 6 * operation + type. */
enum { PL_SUM, PL_GREATEST, PL_LEAST };

/* 8-bit softmax; index d of a table is how far an element lies below its row's maximum.
 * value: exp(-d) in Q0 for softmax, -d in Q5 for its logarithm; scaled: exp(-d) in Q12, 0 where it is left out;
 * flip: turns bytes into unsigned ones.
 * multiplier, exponent, least: the reverse scaling of the logarithm and the smallest difference it keeps. */
typedef struct pl_softmax8 {
  int32_t value[256], scaled[256];
  int32_t multiplier, exponent, least;
  uint8_t flip;
} pl_softmax8;

typedef struct pl_softmax16 {
  const int16_t *exp, *reciprocal; /* 513 entries each */
  int32_t multiplier, exponent;
} pl_softmax16;

#define PL_SLOTS_REDUCING(X) \
  /* all channels of one output pixel */ \
  X(pool_pixel, (int kind, const pl_window *w, const void *x, void *y)) \
  /* c neighbouring outputs of a reduction */ \
  X(reduce, (int kind, const pl_reduction *g, const void *x, size_t c, void *y)) \
  /* one row of n > 0 elements; y may be x */ \
  X(softmax_f32, (size_t n, float beta, const float *x, float *y)) \
  X(softmax_8, (size_t n, const pl_softmax8 *s, const uint8_t *x, void *y)) \
  X(softmax_8_to_16, (size_t n, const pl_softmax8 *s, const uint8_t *x, void *y)) \
  X(softmax_s16, (size_t n, const pl_softmax16 *s, const int16_t *x, int16_t *y)) \
  X(log_softmax_f32, (size_t n, const float *x, float *y)) \
  X(log_softmax_8, (size_t n, const pl_softmax8 *s, const uint8_t *x, void *y)) \
  X(l2_normalize_f32, (size_t n, const float *x, float *y)) \
  /* zero: x's zero point among the flipped bytes */ \
  X(l2_normalize_8, (size_t n, int32_t zero, uint8_t flip, const uint8_t *x, uint8_t *y)) \
  /* n output pixels of c channels between two input rows; low and high index pixels */ \
  X(bilinear_f32, (size_t n, size_t c, const float *top, const float *bottom, const int32_t *low, \
                   const int32_t *high, const float *fraction, float dy, float *y)) \
  X(bilinear_u8, (size_t n, size_t c, const uint8_t *top, const uint8_t *bottom, const int32_t *low, \
                  const int32_t *high, const float *fraction, float dy, uint8_t *y)) \
  X(bilinear_s8, (size_t n, size_t c, const int8_t *top, const int8_t *bottom, const int32_t *low, \
                  const int32_t *high, const int32_t *fraction, int32_t dy, int8_t *y)) \
  X(bilinear_s16, (size_t n, size_t c, const int16_t *top, const int16_t *bottom, const int32_t *low, \
                   const int32_t *high, const int32_t *fraction, int32_t dy, int16_t *y)) \
  /* y[j] = x[at[j]], n pixels of `bytes` */ \
  X(gather_pixels, (size_t n, size_t bytes, const int32_t *at, const uint8_t *x, uint8_t *y))
#endif
