/* The slots of pooling, reductions, softmax, normalization and resizing, and their parameters. */
#ifndef PYLITE_REDUCING_H
#define PYLITE_REDUCING_H
#include <stddef.h>
#include <stdint.h>

/* The windows of one output row.  Their `rows` lie inside the image, row_stride elements apart; some of their `cols`
 * may lie outside.  Windows start `stride` pixels apart.  The image is `width` pixels wide.  Its pixels are x_pixel
 * elements apart; pixels of the output are y_pixel elements apart.  Results are clamped to [low, high]. */
typedef struct pl_window {
  ptrdiff_t channels, width, rows, row_stride, cols, stride, x_pixel, y_pixel;
  int32_t low, high;
  float low_f, high_f;
} pl_window;

/* The elements that one output reduces: up to three loops of n[k] steps of stride[k] elements, and inside them, where
 * run > 0, runs of `run` consecutive elements.  The elements of neighbouring outputs start `step` apart; run = 0
 * requires step = 1. */
typedef struct pl_reduction {
  ptrdiff_t n[3], stride[3], run, step;
  float divisor, sign; /* float32: a mean's number of elements, else 1; -1 for a minimum */
  int whole;           /* float32: the extreme of a full tensor */
  int32_t flip;        /* integers: ^ flip makes bytes signed for a sum and unsigned for a maximum, and reverses the
                        * order for a minimum */
  int32_t x_zero_sum, multiplier, exponent, y_zero, low, high; /* of an integer sum */
} pl_reduction;

/* 8-bit softmax.  Tables are indexed by d, the difference between the maximum of a row and an element.
 * value: exp(-d) in Q0 for softmax, -d in Q5 for its logarithm, at least -16; scaled: exp(-d) in Q12, 0 where the sum
 * leaves it out; flip: bytes ^ flip are unsigned. */
typedef struct pl_softmax8 {
  int32_t value[256], scaled[256];
  uint8_t flip;
} pl_softmax8;

typedef struct pl_softmax16 {
  const int16_t *exp, *reciprocal; /* 513 entries each */
  int32_t multiplier, exponent;
} pl_softmax16;

/* Where a tensor saturates: values are from `lowest` to `highest`, and a reference below `low` or above `high` is
 * beyond what they represent. */
typedef struct pl_range {
  float low, high, lowest, highest;
} pl_range;

/* Statistics of up to 256 columns of values compared with references: the sums of error, error^2 and reference^2; the
 * largest error, the highest and the lowest reference.  count: elements that are finite on both sides; low, high:
 * elements that saturate at either end. */
typedef struct pl_error_sums {
  double error[256], error2[256], reference2[256];
  float largest[256], highest[256], lowest[256];
  int32_t count[256], low[256], high[256];
} pl_error_sums;

/* n output pixels; x: the first row of the windows; the first window begins `left` pixels before it */
#define PL_POOLING (const pl_window *w, const void *x, ptrdiff_t left, ptrdiff_t n, void *y)
#define PL_POOLING_SLOTS(X) \
  X(pool_average_f32, PL_POOLING) X(pool_average_i8, PL_POOLING) X(pool_average_u8, PL_POOLING) \
  X(pool_average_i16, PL_POOLING) X(pool_max_f32, PL_POOLING) X(pool_max_f16, PL_POOLING) \
  X(pool_max_i8, PL_POOLING) X(pool_max_u8, PL_POOLING) X(pool_max_i16, PL_POOLING) X(pool_l2_f32, PL_POOLING)

/* Rows of c neighbouring outputs, at most 1024 in all, of a reduction of float32, 8-bit or 16-bit integers; apart:
 * elements of x from one row to the next. */
#define PL_REDUCTION (const pl_reduction *g, const void *x, size_t rows, ptrdiff_t apart, size_t c, void *y)
#define PL_REDUCTION_SLOTS(X) \
  X(reduce_sum_f32, PL_REDUCTION) X(reduce_sum_8, PL_REDUCTION) X(reduce_sum_16, PL_REDUCTION) \
  X(reduce_max_f32, PL_REDUCTION) X(reduce_max_8, PL_REDUCTION) X(reduce_max_16, PL_REDUCTION)

/* Each of c accumulators joined with n elements `stride` apart, which start `step` apart.  acc: floats for float32,
 * else int64 */
#define PL_JOIN (size_t c, ptrdiff_t step, size_t n, ptrdiff_t stride, const void *x, void *acc)
#define PL_JOIN_SLOTS(X) \
  X(join_sum_i32, PL_JOIN) X(join_max_i32, PL_JOIN) X(join_min_i32, PL_JOIN) X(join_product_i32, PL_JOIN) \
  X(join_sum_i64, PL_JOIN) X(join_max_i64, PL_JOIN) X(join_min_i64, PL_JOIN) X(join_product_i64, PL_JOIN) \
  X(join_product_f32, PL_JOIN)

/* n output pixels of c channels between the input rows top and bottom.
 * low, high: the two columns of each pixel; fraction: the weight of `high`: float32 for float32 and uint8, int32 in
 * units of 1/1024 for int8 and int16, and of 1/16 for `narrow`; dy: points to the weight of `bottom`; step: elements
 * from one pixel of y to the next.
 * gather: c <= 512, step is c, and there is a fraction for each element instead of each pixel. */
#define PL_BILINEAR \
  (size_t n, size_t c, int gather, const void *top, const void *bottom, const int32_t *low, const int32_t *high, \
   const void *fraction, const void *dy, void *y, size_t step)
#define PL_BILINEAR_SLOTS(X) \
  X(bilinear_f32, PL_BILINEAR) X(bilinear_u8, PL_BILINEAR) X(bilinear_u8_narrow, PL_BILINEAR) \
  X(bilinear_i8, PL_BILINEAR) X(bilinear_i8_narrow, PL_BILINEAR) X(bilinear_i16, PL_BILINEAR)

#define PL_LONG_PIXEL 512 /* bytes from which gather_pixels copies a pixel as fast as the memory allows */

#define PL_SLOTS_REDUCING(X) \
  PL_POOLING_SLOTS(X) \
  PL_REDUCTION_SLOTS(X) \
  PL_JOIN_SLOTS(X) \
  PL_BILINEAR_SLOTS(X) \
  /* rows of n > 0 elements; y may be x */ \
  X(softmax_f32, (size_t rows, size_t n, float beta, const float *x, float *y)) \
  X(softmax_8, (size_t rows, size_t n, const pl_softmax8 *s, const uint8_t *x, void *y)) \
  X(softmax_8_to_16, (size_t rows, size_t n, const pl_softmax8 *s, const uint8_t *x, void *y)) \
  X(softmax_s16, (size_t n, const pl_softmax16 *s, const int16_t *x, int16_t *y)) \
  X(log_softmax_f32, (size_t rows, size_t n, const float *x, float *y)) \
  X(log_softmax_8, (size_t rows, size_t n, const pl_softmax8 *s, const uint8_t *x, void *y)) \
  X(l2_normalize_f32, (size_t rows, size_t n, const float *x, float *y)) \
  /* zero: the zero point of x ^ flip */ \
  X(l2_normalize_8, (size_t n, int32_t zero, uint8_t flip, const uint8_t *x, uint8_t *y)) \
  /* sums joined with up to 32 rows of n <= 256 columns, which are x_step and r_step elements apart */ \
  X(observe_f32, (size_t rows, size_t n, const float *x, ptrdiff_t x_step, const float *reference, ptrdiff_t r_step, \
                  const pl_range *range, pl_error_sums *sums)) \
  /* y[j] = x[sources[j]]: n pixels of `bytes` bytes; pixels of y are `step` bytes apart */ \
  X(gather_pixels, (size_t n, size_t bytes, const int32_t *sources, const uint8_t *x, uint8_t *y, size_t step))
#endif
