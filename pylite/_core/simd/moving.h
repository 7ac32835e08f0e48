/* The slots that move elements of any type, and the slots that find the largest element. */
#ifndef PYLITE_MOVING_H
#define PYLITE_MOVING_H
#include <stddef.h>
#include <stdint.h>

/* x: the elements, ^ flip; see portable_argmax.h */
#define PL_ARG_MAX_ARGS \
  (size_t n, size_t cols, ptrdiff_t stride, ptrdiff_t next, const void *x, uint32_t flip, int32_t *argmax)

#define PL_REPEAT_SLACK 32 /* bytes past its result that repeat_items may write */

#define PL_SLOTS_MOVING(X) \
  /* rows of consecutive bytes; xrow, yrow: from one row to the next */ \
  X(copy_runs, (size_t rows, size_t bytes, const uint8_t *x, ptrdiff_t xrow, uint8_t *y, ptrdiff_t yrow)) \
  /* elements of `item` bytes at any strides, in bytes; stride 0 repeats an element */ \
  X(copy_strided, (size_t item, size_t rows, size_t cols, const uint8_t *x, ptrdiff_t xrow, ptrdiff_t xcol, \
                   uint8_t *y, ptrdiff_t yrow, ptrdiff_t ycol)) \
  /* the same where y's columns and x's rows are consecutive */ \
  X(copy_transposed, (size_t item, size_t rows, size_t cols, const uint8_t *x, ptrdiff_t xcol, \
                      uint8_t *y, ptrdiff_t yrow)) \
  /* n elements of `item` <= 8 bytes, each m times */ \
  X(repeat_items, (size_t item, size_t n, size_t m, const uint8_t *x, uint8_t *y)) \
  /* out[i] = c[i] ? x[i] : y[i] of n elements of `item` bytes; x_step, y_step: 1, or 0 for a single element */ \
  X(choose, (size_t item, size_t n, const uint8_t *c, const uint8_t *x, size_t x_step, const uint8_t *y, \
             size_t y_step, uint8_t *out)) \
  /* argmax[j] = first of n rows in which column j (of cols <= 16) is largest; stride or next is 1 */ \
  X(arg_max_f32, PL_ARG_MAX_ARGS) X(arg_max_s32, PL_ARG_MAX_ARGS) X(arg_max_s8, PL_ARG_MAX_ARGS)
#endif
