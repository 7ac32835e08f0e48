/* Reduction micro-kernels in plain C: a run of neighbouring outputs; included by rows.c alone.
 *
 * When the outputs are neighbours in memory too (step 1), up to 64 of them are accumulated together, in the order of
 * memory.  Otherwise each output reduces its own runs of consecutive elements in 16 interleaved parts, joined
 * pairwise.  Both orders depend on nothing but the shape, so that any split over threads gives the same floats. */
#include "rounding.h"
#include <float.h>

#define REDUCE_OUTER(base) \
  for (ptrdiff_t i0 = 0; i0 < g->n[0]; i0++) \
    for (ptrdiff_t i1 = 0; i1 < g->n[1]; i1++) \
      for (ptrdiff_t i2 = 0; i2 < g->n[2]; i2++) { \
        const T *p = base + i0 * g->stride[0] + i1 * g->stride[1] + i2 * g->stride[2];

/* A run of n elements: integers in any order, floats in 16 interleaved parts joined pairwise. */
#define RUN_ANY(name, type, acctype, first) \
  PL_INLINE acctype name##_run(const pl_reduction *g, const type *x) { \
    typedef type T; \
    acctype acc = first; \
    REDUCE_OUTER(x) \
        for (ptrdiff_t j = 0; j < g->run; j++) acc = name##_two(acc, p[j]); \
      } \
    return acc; \
  }
#define RUN_FIXED(name, type, acctype, first) \
  PL_INLINE acctype name##_run(const pl_reduction *g, const type *x) { \
    typedef type T; \
    acctype part[16]; \
    for (int i = 0; i < 16; i++) part[i] = first; \
    REDUCE_OUTER(x) \
        ptrdiff_t j = 0; \
        for (; j + 16 <= g->run; j += 16) \
          for (int i = 0; i < 16; i++) part[i] = name##_two(part[i], p[j + i]); \
        for (int i = 0; j < g->run; i++, j++) part[i] = name##_two(part[i], p[j]); \
      } \
    for (int width = 8; width; width /= 2) \
      for (int i = 0; i < width; i++) part[i] = name##_two(part[i], part[i + width]); \
    return part[0]; \
  }
#define REDUCE(name, RUN, type, acctype, first, combine, finish) \
  PL_INLINE type name##_finish(const pl_reduction *g, acctype a) { \
    (void)g; \
    return (type)(finish); \
  } \
  PL_INLINE acctype name##_two(acctype a, acctype b) { return combine; } \
  RUN(name, type, acctype, first) \
  PL_INLINE void name##_block(const pl_reduction *g, const type *x, size_t m, type *y) { \
    typedef type T; \
    acctype acc[64]; \
    for (size_t i = 0; i < m; i++) acc[i] = first; \
    REDUCE_OUTER(x) \
        for (size_t i = 0; i < m; i++) acc[i] = name##_two(acc[i], p[i]); \
      } \
    for (size_t i = 0; i < m; i++) y[i] = name##_finish(g, acc[i]); \
  } \
  static void name(const pl_reduction *g, const void *x0, size_t c, void *y0) { \
    const type *x = x0; \
    type *y = y0; \
    if (g->run) { \
      for (; c; c--, x += g->step, y++) *y = name##_finish(g, name##_run(g, x)); \
      return; \
    } \
    for (; c >= 64; c -= 64, x += 64, y += 64) name##_block(g, x, 64, y); \
    if (c) name##_block(g, x, c, y); \
  }
#define REQUANTIZED \
  pl_clamp32(pl_mbqm32(a - g->x_zero_sum, g->multiplier, g->exponent) + g->y_zero, g->low, g->high)
REDUCE(sum_f32, RUN_FIXED, float, float, 0.0f, a + b, a / g->divisor_f)
REDUCE(sum_s8, RUN_ANY, int8_t, int32_t, 0, a + b, REQUANTIZED)
REDUCE(sum_u8, RUN_ANY, uint8_t, int32_t, 0, a + b, REQUANTIZED)
REDUCE(sum_s16, RUN_ANY, int16_t, int32_t, 0, a + b, REQUANTIZED)
REDUCE(sum_s32, RUN_ANY, int32_t, int64_t, 0, a + b, a / g->divisor)
REDUCE(sum_s64, RUN_ANY, int64_t, int64_t, 0, a + b, a / g->divisor)
REDUCE(greatest_f32, RUN_FIXED, float, float, -FLT_MAX, b > a ? b : a, a)
REDUCE(greatest_s8, RUN_ANY, int8_t, int8_t, INT8_MIN, b > a ? b : a, a)
REDUCE(greatest_u8, RUN_ANY, uint8_t, uint8_t, 0, b > a ? b : a, a)
REDUCE(greatest_s16, RUN_ANY, int16_t, int16_t, INT16_MIN, b > a ? b : a, a)
REDUCE(greatest_s32, RUN_ANY, int32_t, int32_t, INT32_MIN, b > a ? b : a, a)
REDUCE(greatest_s64, RUN_ANY, int64_t, int64_t, INT64_MIN, b > a ? b : a, a)
REDUCE(least_f32, RUN_FIXED, float, float, FLT_MAX, b < a ? b : a, a)
REDUCE(least_s8, RUN_ANY, int8_t, int8_t, INT8_MAX, b < a ? b : a, a)
REDUCE(least_u8, RUN_ANY, uint8_t, uint8_t, UINT8_MAX, b < a ? b : a, a)
REDUCE(least_s16, RUN_ANY, int16_t, int16_t, INT16_MAX, b < a ? b : a, a)
REDUCE(least_s32, RUN_ANY, int32_t, int32_t, INT32_MAX, b < a ? b : a, a)
REDUCE(least_s64, RUN_ANY, int64_t, int64_t, INT64_MAX, b < a ? b : a, a)

static void reduce(int kind, const pl_reduction *g, const void *x, size_t c, void *y) {
  static void (*const table[])(const pl_reduction *, const void *, size_t, void *) = {
    sum_f32, sum_s8, sum_u8, sum_s16, sum_s32, sum_s64,
    greatest_f32, greatest_s8, greatest_u8, greatest_s16, greatest_s32, greatest_s64,
    least_f32, least_s8, least_u8, least_s16, least_s32, least_s64};
  table[kind](g, x, c, y);
}
