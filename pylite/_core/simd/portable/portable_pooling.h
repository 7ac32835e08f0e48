/* Pooling; included by portable.c alone.
 *
 * With many channels and strides, each output pixel accumulates up to 64 channels of its window in registers.  With few
 * channels, or stride 1 and more than POOL_TAPS taps, a stretch of the output row is computed at once: the rows of the
 * windows are joined to one line of the input's width, shifted copies of this line are joined for the columns, and
 * every stride-th pixel is taken.  For float sums this choice depends on the shape alone, and so do the results.
 * Maxima and integer sums are the same either way, so their choice may also depend on the strides of pixels. */
#include "joining.h"
#include "rounding.h"
#include <float.h>
#include <string.h>

enum { POOL_LINE = 4096, POOL_SLACK = 16 }; /* elements of a line, and unused ones at its end */
#if defined(__aarch64__)
enum { POOL_TAPS = 9 }; /* with stride 1, up to 9 taps are joined sooner in registers than by lines in memory */
enum { FLOAT_BLOCK = 32 }; /* the channels that fit in registers at a time */
enum { APART = 1 << 20 };
#else
enum { POOL_TAPS = 0, FLOAT_BLOCK = 64 };
enum { APART = 48 }; /* floats from a window to the next, with a stride, for which lines take longer than registers */
#endif

PL_INLINE ptrdiff_t pl_min(ptrdiff_t a, ptrdiff_t b) { return a < b ? a : b; }
/* The number of columns of the window at `position` that are inside the image. */
PL_INLINE ptrdiff_t pool_taps(const pl_window *w, ptrdiff_t position) {
  return pl_min(position + w->cols, w->width) - (position < 0 ? 0 : position);
}
/* Copies n pixels of `bytes` bytes, `step` apart in x, contiguous in y; up to 15 bytes more are overwritten. */
static void copy_pixels(size_t n, size_t bytes, size_t step, const void *x0, void *y0) {
  const char *x = x0;
  char *y = y0;
  for (size_t j = 0; j < n; j++, x += step, y += bytes)
    for (size_t i = 0; i < bytes; i += 16) memcpy(y + i, x + i, 16);
}

/* n pixels of elements of `itemsize` bytes from x on, as one run */
__attribute__((noinline)) static const void *as_run(const pl_window *w, const void *x, ptrdiff_t n, ptrdiff_t itemsize,
                                                    void *apart) {
  const ptrdiff_t bytes = w->channels * itemsize, step = w->x_pixel * itemsize;
  if (step == bytes || n <= 0) return x;
  copy_runs((size_t)n, (size_t)bytes, x, step, apart, bytes);
  return apart;
}
/* Joins v to the accumulator a. */
#define POOL_ADD(a, v) ((a) + (v))
#define POOL_ADD_SQUARE(a, v) ((a) + (v) * (v))

/* y = (acc +- taps/2) div taps, clamped; integers.  The truncated quotient of float32 is exact if both numbers are
 * below 2^24, which `exact_taps` taps guarantee. */
#define FINISH_AVERAGE_INT(name, T, exact_taps) \
  /* one copy for its callers, which spend their time on the sums */ \
  __attribute__((noinline)) static void name##_finish(const pl_window *w, int32_t taps, size_t n, \
                                                      int32_t *restrict acc, T *restrict y) { \
    const int32_t half = taps / 2; \
    const float divisor = (float)taps; \
    for (size_t i = 0; i < n; i++) acc[i] += acc[i] > 0 ? half : -half; \
    if (taps <= exact_taps) \
      for (size_t i = 0; i < n; i++) acc[i] = (int32_t)((float)acc[i] / divisor); \
    else \
      for (size_t i = 0; i < n; i++) acc[i] /= taps; \
    for (size_t i = 0; i < n; i++) y[i] = (T)pl_clamp32(acc[i], w->low, w->high); \
  }
#define FINISH_F32(name, value, clamp) \
  PL_INLINE void name##_finish(const pl_window *w, int32_t taps, size_t n, float *restrict acc, float *restrict y) { \
    const float reciprocal = 1.0f / (float)taps; \
    (void)reciprocal; \
    for (size_t i = 0; i < n; i++) y[i] = clamp(value, w->low_f, w->high_f); \
  }
#define FINISH_MAX_INT(name, T) \
  PL_INLINE void name##_finish(const pl_window *w, int32_t taps, size_t n, T *restrict acc, T *restrict y) { \
    const T low = (T)w->low, high = (T)w->high; \
    (void)taps; \
    for (size_t i = 0; i < n; i++) { \
      T v = acc[i] < low ? low : acc[i]; \
      y[i] = v > high ? high : v; \
    } \
  }

/* add_tap: joins a tap to an accumulator; join: joins accumulators; identity: the initial value of an accumulator. */
#define POOL(name, T, A, identity, add_tap, join) \
  PL_INLINE void name##_block(const pl_window *w, const T *x, size_t m, T *y) { \
    A acc[64]; \
    for (size_t i = 0; i < m; i++) acc[i] = identity; \
    for (ptrdiff_t r = 0; r < w->rows; r++) \
      for (ptrdiff_t k = 0; k < w->cols; k++) { \
        const T *p = x + r * w->row_stride + k * w->x_pixel; \
        for (size_t i = 0; i < m; i++) acc[i] = add_tap(acc[i], p[i]); \
      } \
    name##_finish(w, (int32_t)(w->rows * w->cols), m, acc, y); \
  } \
  PL_INLINE void name##_pixel(const pl_window *w, const T *x, T *y) { \
    ptrdiff_t c = w->channels; \
    enum { BLOCK = sizeof(T) == 4 ? FLOAT_BLOCK : 64 }; \
    for (; c >= BLOCK; c -= BLOCK, x += BLOCK, y += BLOCK) name##_block(w, x, BLOCK, y); \
    for (; sizeof(T) == 4 && c >= 16; c -= 16, x += 16, y += 16) name##_block(w, x, 16, y); \
    for (; sizeof(T) == 4 && w->channels >= 8 && c > 0; c -= 8, x += 8, y += 8) { \
      if (c < 8) x -= 8 - c, y -= 8 - c; /* some channels again */ \
      name##_block(w, x, 8, y); \
    } \
    if (c > 0) name##_block(w, x, (size_t)c, y); \
  } \
  /* m output pixels, starting at `position` in the input row */ \
  static void name##_stretch(const pl_window *w, const T *x, ptrdiff_t position, ptrdiff_t m, T *y) { \
    A line[POOL_LINE], combined[POOL_LINE]; \
    const ptrdiff_t c = w->channels, span = ((m - 1) * w->stride + 1) * c; \
    const ptrdiff_t begin = position < 0 ? 0 : position; \
    const ptrdiff_t end = pl_min(position + (m - 1) * w->stride + w->cols, w->width); \
    const ptrdiff_t left = (begin - position) * c, inside = (end - begin) * c, all = span + (w->cols - 1) * c; \
    for (ptrdiff_t i = 0; i < left; i++) line[i] = identity; \
    for (ptrdiff_t i = left + inside; i < all; i++) line[i] = identity; \
    A *in = line + left; \
    T apart[2][POOL_LINE]; \
    const T *p = as_run(w, x += begin * w->x_pixel, end - begin, sizeof(T), apart[0]), *q; \
    ptrdiff_t k = 1; \
    if (w->rows % 2) \
      for (ptrdiff_t i = 0; i < inside; i++) in[i] = add_tap((A)identity, p[i]); \
    else { \
      q = as_run(w, x + w->row_stride, end - begin, sizeof(T), apart[1]), k = 2; \
      for (ptrdiff_t i = 0; i < inside; i++) in[i] = add_tap(add_tap((A)identity, p[i]), q[i]); \
    } \
    for (; k < w->rows; k += 2) { \
      p = as_run(w, x + k * w->row_stride, end - begin, sizeof(T), apart[0]); \
      q = as_run(w, x + (k + 1) * w->row_stride, end - begin, sizeof(T), apart[1]); \
      for (ptrdiff_t i = 0; i < inside; i++) in[i] = add_tap(add_tap(in[i], p[i]), q[i]); \
    } \
    A *from = line, *spare = combined; \
    k = 2 - w->cols % 2; \
    if (k == 2) { \
      for (ptrdiff_t i = 0; i < span; i++) combined[i] = join(line[i], line[c + i]); \
      from = combined, spare = line; \
    } \
    for (; k < w->cols; k += 2) { \
      const A *s = line + k * c; \
      for (ptrdiff_t i = 0; i < span; i++) combined[i] = join(join(from[i], s[i]), s[c + i]); \
      from = combined, spare = line; \
    } \
    if (w->stride > 1) { \
      copy_pixels((size_t)m, (size_t)c * sizeof(A), (size_t)(w->stride * c) * sizeof(A), from, spare); \
      from = spare; \
    } \
    /* neighbours with the same number of taps at once */ \
    for (ptrdiff_t j = 0; j < m;) { \
      const ptrdiff_t taps = pool_taps(w, position + j * w->stride); \
      for (k = j + 1; k < m && pool_taps(w, position + k * w->stride) == taps;) k++; \
      name##_finish(w, (int32_t)(taps * w->rows), (size_t)((k - j) * c), from + j * c, y + j * c); \
      j = k; \
    } \
  } \
  static void name(const pl_window *w0, const void *x0, ptrdiff_t left, ptrdiff_t n, void *y0) { \
    const T *x = x0; \
    T *y = y0; \
    pl_window w = *w0; \
    const ptrdiff_t c = w.channels; \
    const int apart = (w.rows == 1 && w.stride >= w.cols && w.cols > 2) || (w.stride > 1 && w.stride * c >= APART); \
    const int fits = (w.cols + w.stride) * c <= POOL_LINE - POOL_SLACK; \
    const int slides = w.stride == 1 && w.rows * w.cols > POOL_TAPS; \
    if ((c < 64 || slides) && n > 1 && !(sizeof(T) == 4 && c >= 8 && apart) && fits) { \
      const ptrdiff_t most = ((POOL_LINE - POOL_SLACK) / c - w.cols) / w.stride + 1; \
      for (ptrdiff_t j = 0; j < n; j += most) { \
        const ptrdiff_t m = pl_min(most, n - j); \
        T slice[POOL_LINE], *to = w.y_pixel == c ? y + j * c : slice; \
        name##_stretch(&w, x, j * w.stride - left, m, to); \
        if (to == slice) /* a slice of a CONCATENATION's result */ \
          copy_runs((size_t)m, (size_t)c * sizeof(T), (const uint8_t *)slice, c * (ptrdiff_t)sizeof(T), \
                    (uint8_t *)(y + j * w.y_pixel), w.y_pixel * (ptrdiff_t)sizeof(T)); \
      } \
      return; \
    } \
    for (ptrdiff_t j = 0; j < n; j++) { \
      const ptrdiff_t position = j * w.stride - left, begin = position < 0 ? 0 : position; \
      w.cols = pool_taps(w0, position); \
      name##_pixel(&w, x + begin * w.x_pixel, y + j * w.y_pixel); \
    } \
  }

#define CLAMP_NUMBER(v, low, high) JOIN_MIN_F32(JOIN_MAX_F32(v, low), high) /* not NaN */
FINISH_F32(pool_average_f32_any, acc[i] * reciprocal, pl_clampf)
FINISH_AVERAGE_INT(pool_average_i8, int8_t, 1 << 15)
FINISH_AVERAGE_INT(pool_average_u8, uint8_t, 1 << 15)
FINISH_AVERAGE_INT(pool_average_i16, int16_t, 1 << 8)
FINISH_F32(pool_max_f32_any, acc[i], CLAMP_NUMBER)
PL_INLINE void pool_max_f16_finish(const pl_window *w, int32_t taps, size_t n, float *restrict acc,
                                   uint16_t *restrict y) {
  (void)taps;
  for (size_t i = 0; i < n; i++) y[i] = pl_to_half(CLAMP_NUMBER(acc[i], w->low_f, w->high_f));
}
FINISH_MAX_INT(pool_max_i8_any, int8_t)
FINISH_MAX_INT(pool_max_u8_any, uint8_t)
FINISH_MAX_INT(pool_max_i16, int16_t)
FINISH_F32(pool_l2_f32, sqrtf(acc[i] * reciprocal), pl_clampf)
PL_LOOSE_BEGIN
POOL(pool_average_f32_any, float, float, 0.0f, POOL_ADD, POOL_ADD)
PL_LOOSE_END
/* Windows of 2 x 2 that do not overlap, with few channels: in registers, in the order of a stretch. */
static void pool_average_f32(const pl_window *w0, const void *x0, ptrdiff_t left, ptrdiff_t n, void *y0) {
  enum { STEP = 8 };
  pl_window w = *w0;
  const float *x = x0;
  float *y = y0;
  const ptrdiff_t c = w.channels;
  if (w.rows == 2 && w.cols == 2 && w.stride == 2 && !left && n > 1 && c >= STEP && c < 64 && w.x_pixel == c &&
      w.y_pixel == c) {
    const ptrdiff_t whole = pl_min(n, w.width / 2);
    for (ptrdiff_t j = 0; j < whole; j++, x += 2 * c, y += c)
      for (ptrdiff_t b = 0; b < c; b += STEP) {
        const float *p = x + pl_min(b, c - STEP), *q = p + w.row_stride;
        float acc[STEP];
        for (ptrdiff_t i = 0; i < STEP; i++) acc[i] = (p[i] + q[i]) + (p[c + i] + q[c + i]) + 0.0f; /* not -0 */
        pool_average_f32_any_finish(&w, 4, STEP, acc, y + pl_min(b, c - STEP));
      }
    w.width -= 2 * whole, n -= whole;
  }
  if (n) pool_average_f32_any(&w, x, left, n, y);
}
POOL(pool_average_i8, int8_t, int32_t, 0, POOL_ADD, POOL_ADD)
POOL(pool_average_u8, uint8_t, int32_t, 0, POOL_ADD, POOL_ADD)
POOL(pool_average_i16, int16_t, int32_t, 0, POOL_ADD, POOL_ADD)
PL_LOOSE_BEGIN
POOL(pool_max_f32_any, float, float, -FLT_MAX, JOIN_MAX_F32, JOIN_MAX_F32)
PL_LOOSE_END
#define POOL_MAX_HALF(a, v) JOIN_MAX_F32(a, pl_from_half(v))
PL_EMULATES static void pool_max_f16_stretch(const pl_window *, const uint16_t *, ptrdiff_t, ptrdiff_t, uint16_t *);
PL_EMULATES static void pool_max_f16(const pl_window *, const void *, ptrdiff_t, ptrdiff_t, void *);
POOL(pool_max_f16, uint16_t, float, -INFINITY, POOL_MAX_HALF, JOIN_MAX_F32)
POOL(pool_max_i8_any, int8_t, int8_t, INT8_MIN, JOIN_MAX, JOIN_MAX)
POOL(pool_max_u8_any, uint8_t, uint8_t, 0, JOIN_MAX, JOIN_MAX)
POOL(pool_max_i16, int16_t, int16_t, INT16_MIN, JOIN_MAX, JOIN_MAX)
PL_LOOSE_BEGIN
POOL(pool_l2_f32, float, float, 0.0f, POOL_ADD_SQUARE, POOL_ADD)
PL_LOOSE_END

/* The most frequent cases, but not of int16: windows of 2 x 2 and 3 x 3 with strides of 1 and 2, at least 16 channels.
 * Two neighbouring outputs share the maxima of columns that both cover.  At a side of the image, a tap outside repeats
 * its neighbour inside, which changes no maximum. */
#if defined(__aarch64__) /* where JOIN_MAX_F32 ignores NaN in both operands, not in the second alone */
enum { MAX_SIDE = 3, BYTE_CHANNELS = 16, IGNORES_ANY_NAN = 1 };
#else
enum { MAX_SIDE = 3, BYTE_CHANNELS = 32, IGNORES_ANY_NAN = 0 };
#endif
#define MAX_OF_PAIRS(name, T, identity, join) \
  /* n >= 2 outputs of windows of `side` x `side`, m channels at a time */ \
  PL_INLINE void name##_pairs(const int side, const int stride, const ptrdiff_t m, const pl_window *w0, const T *x, \
                              ptrdiff_t left, ptrdiff_t n, T *y) { \
    const pl_window w = *w0; /* y may not be taken to overlap it */ \
    for (ptrdiff_t j = 0; j < n; j += 2) { \
      ptrdiff_t column[MAX_SIDE + 2]; \
      if (j == n - 1) j--; /* an output again */ \
      const ptrdiff_t first = j * stride - left; \
      _Pragma("GCC unroll 5") for (int t = 0; t < side + stride; t++) column[t] = (first + t) * w.x_pixel; \
      if (first < 0 || first + side + stride > w.width) \
        for (int t = 0; t < side + stride; t++) \
          column[t] = (first + t < 0 ? 0 : pl_min(first + t, w.width - 1)) * w.x_pixel; \
      for (ptrdiff_t b = 0; b < w.channels; b += m) { \
        const ptrdiff_t k = pl_min(b, w.channels - m); \
        const T *const line0 = x + k, *const line1 = line0 + (w.rows > 1 ? w.row_stride : 0); \
        const T *const line2 = w.rows > 2 ? line1 + w.row_stride : line1; \
        T acc[2][32], v[32]; \
        _Pragma("GCC unroll 5") for (int t = 0; t < side + stride; t++) { \
          const T *p = line0 + column[t], *q = line1 + column[t], *s = line2 + column[t]; \
          const int guarded = !IGNORES_ANY_NAN || t == 0 || t == stride; \
          for (ptrdiff_t i = 0; i < m; i++) v[i] = join(guarded ? join(identity, p[i]) : p[i], q[i]); \
          if (side == 3) \
            for (ptrdiff_t i = 0; i < m; i++) v[i] = join(v[i], s[i]); \
          if (t < side) \
            for (ptrdiff_t i = 0; i < m; i++) acc[0][i] = t ? join(acc[0][i], v[i]) : v[i]; \
          if (t >= stride) \
            for (ptrdiff_t i = 0; i < m; i++) acc[1][i] = t > stride ? join(acc[1][i], v[i]) : v[i]; \
        } \
        name##_any_finish(&w, 0, (size_t)m, acc[0], y + j * w.y_pixel + k); \
        name##_any_finish(&w, 0, (size_t)m, acc[1], y + (j + 1) * w.y_pixel + k); \
      } \
    } \
  } \
  static void name(const pl_window *w, const void *x, ptrdiff_t left, ptrdiff_t n, void *y) { \
    const int side = w->rows <= w->cols && w->rows + 1 >= w->cols ? (int)w->cols : 0; \
    enum { CHANNELS = sizeof(T) == 1 ? BYTE_CHANNELS : 16 }; /* at a time */ \
    const int few = n < 2 || w->stride > 2 || w->channels < (w->stride == 1 ? CHANNELS : 16); \
    if (few || (side != 2 && side != 3)) name##_any(w, x, left, n, y); \
    else if (side == 2 && w->stride == 1) name##_pairs(2, 1, CHANNELS, w, x, left, n, y); \
    else if (side == 2 && w->channels < CHANNELS) name##_pairs(2, 2, 16, w, x, left, n, y); \
    else if (side == 2) name##_pairs(2, 2, CHANNELS, w, x, left, n, y); \
    else if (w->stride == 1) name##_pairs(3, 1, CHANNELS, w, x, left, n, y); \
    else if (w->channels < CHANNELS) name##_pairs(3, 2, 16, w, x, left, n, y); \
    else name##_pairs(3, 2, CHANNELS, w, x, left, n, y); \
  }
PL_LOOSE_BEGIN
MAX_OF_PAIRS(pool_max_f32, float, -FLT_MAX, JOIN_MAX_F32)
PL_LOOSE_END
MAX_OF_PAIRS(pool_max_i8, int8_t, (int8_t)INT8_MIN, JOIN_MAX)
MAX_OF_PAIRS(pool_max_u8, uint8_t, p[i], JOIN_MAX)
