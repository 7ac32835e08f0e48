/* The slots that move elements, whatever their type, and those that find the largest. */
#ifndef PYLITE_MOVING_H
#define PYLITE_MOVING_H
#include <stddef.h>
#include <stdint.h>

/* x: the elements, with their bits XORed by `flip`; see portable_argmax.h */
#define PL_ARG_MAX_ARGS                                                                                    \
  (size_t n, size_t cols, ptrdiff_t stride, ptrdiff_t next, const void *x, uint32_t flip, int32_t *at)

#define PL_SLOTS_MOVING(X) \
  /* rows of consecutive bytes from one stride to another */ \
  X(copy_runs, (size_t rows, size_t bytes, const uint8_t *x, ptrdiff_t xrow, uint8_t *y, ptrdiff_t yrow)) \
  /* elements of `item` bytes, any strides (in bytes); 0 repeats */ \
  X(copy_strided, (size_t item, size_t rows, size_t cols, const uint8_t *x, ptrdiff_t xrow, ptrdiff_t xcol, \
                   uint8_t *y, ptrdiff_t yrow, ptrdiff_t ycol)) \
  /* the same where y's columns and x's rows are consecutive */ \
  X(copy_transposed, (size_t item, size_t rows, size_t cols, const uint8_t *x, ptrdiff_t xcol, \
                      uint8_t *y, ptrdiff_t yrow)) \
  /* at[j] = first of n rows in which column j (of cols <= 16) is largest; stride or next is 1 */ \
  X(arg_max_f32, PL_ARG_MAX_ARGS) X(arg_max_s32, PL_ARG_MAX_ARGS) X(arg_max_s8, PL_ARG_MAX_ARGS)
#endif
