/* Pooling micro-kernels in plain C: one output pixel from its window; included by rows.c alone. */
#include "rounding.h"
#include <float.h>

/* acc[i] over the window, in the order of memory, for up to 64 channels */
#define POOL_ACCUMULATE(start, update) \
  for (size_t i = 0; i < m; i++) acc[i] = start; \
  for (ptrdiff_t r = 0; r < w->rows; r++) \
    for (ptrdiff_t k = 0; k < w->cols; k++) { \
      const T *p = x + r * w->row_stride + k * w->col_stride; \
      for (size_t i = 0; i < m; i++) acc[i] = update; \
    }
/* Blocks of a constant size keep their accumulators in registers. */
#define POOL_BLOCKS(block) \
  const T *x = x0; \
  T *y = y0; \
  size_t c = w->channels; \
  for (; c >= 64; c -= 64, x += 64, y += 64) block(w, x, 64, y); \
  if (c) block(w, x, c, y);

/* (acc +- n/2) div n.  The float32 quotient of whole numbers truncates exactly while both stay below 2^24. */
#define AVERAGE_INT(name, type, taps) \
  PL_INLINE void name##_block(const pl_window *w, const type *x, size_t m, type *y) { \
    typedef type T; \
    int32_t acc[64]; \
    POOL_ACCUMULATE(0, acc[i] + p[i]) \
    const int32_t n = (int32_t)(w->rows * w->cols), half = n / 2; \
    const float divisor = (float)n; \
    for (size_t i = 0; i < m; i++) acc[i] += acc[i] > 0 ? half : -half; \
    if (n <= taps) \
      for (size_t i = 0; i < m; i++) acc[i] = (int32_t)((float)acc[i] / divisor); \
    else \
      for (size_t i = 0; i < m; i++) acc[i] /= n; \
    for (size_t i = 0; i < m; i++) y[i] = (type)pl_clamp32(acc[i], w->low, w->high); \
  } \
  static void name(const pl_window *w, const void *x0, void *y0) { \
    typedef type T; \
    POOL_BLOCKS(name##_block) \
  }
AVERAGE_INT(average_s8, int8_t, 1 << 15)
AVERAGE_INT(average_u8, uint8_t, 1 << 15)
AVERAGE_INT(average_s16, int16_t, 1 << 8)

#define POOL_F32(name, start, update, finish) \
  PL_INLINE void name##_block(const pl_window *w, const float *x, size_t m, float *y) { \
    typedef float T; \
    float acc[64]; \
    POOL_ACCUMULATE(start, update) \
    const float n = (float)(w->rows * w->cols); \
    (void)n; \
    for (size_t i = 0; i < m; i++) { \
      float v = finish; \
      v = v < w->low_f ? w->low_f : v; \
      y[i] = v > w->high_f ? w->high_f : v; \
    } \
  } \
  static void name(const pl_window *w, const void *x0, void *y0) { \
    typedef float T; \
    POOL_BLOCKS(name##_block) \
  }
POOL_F32(average_f32, 0.0f, acc[i] + p[i], acc[i] / n)
POOL_F32(l2_f32, 0.0f, acc[i] + p[i] * p[i], sqrtf(acc[i] / n))
POOL_F32(max_f32, -FLT_MAX, acc[i] < p[i] ? p[i] : acc[i], acc[i])

#define MAX_INT(name, type) \
  PL_INLINE void name##_block(const pl_window *w, const type *x, size_t m, type *y) { \
    typedef type T; \
    type acc[64]; \
    POOL_ACCUMULATE(x[i], acc[i] < p[i] ? p[i] : acc[i]) \
    const type low = (type)w->low, high = (type)w->high; \
    for (size_t i = 0; i < m; i++) { \
      type v = acc[i] < low ? low : acc[i]; \
      y[i] = v > high ? high : v; \
    } \
  } \
  static void name(const pl_window *w, const void *x0, void *y0) { \
    typedef type T; \
    POOL_BLOCKS(name##_block) \
  }
MAX_INT(max_s8, int8_t)
MAX_INT(max_u8, uint8_t)
MAX_INT(max_s16, int16_t)

static void pool_pixel(int kind, const pl_window *w, const void *x, void *y) {
  static void (*const table[])(const pl_window *, const void *, void *) = {
    average_f32, average_s8, average_u8, average_s16, max_f32, max_s8, max_u8, max_s16, l2_f32};
  table[kind](w, x, y);
}
