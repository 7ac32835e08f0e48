/* Resizing micro-kernels in plain C: one output row; included by rows.c alone. */
#include "rounding.h"
#include <string.h>

/* y[j] = x[at[j]], pixels of `bytes`: whole words, the last of which may overlap the one before */
#define GATHER(word) \
  for (size_t j = 0; j < n; j++) { \
    const uint8_t *p = x + bytes * (size_t)at[j]; \
    uint8_t *q = y + bytes * j; \
    for (size_t i = 0; i + word < bytes; i += word) memcpy(q + i, p + i, word); \
    memcpy(q + bytes - word, p + bytes - word, word); \
  }
static void gather_pixels(size_t n, size_t bytes, const int32_t *at, const uint8_t *x, uint8_t *y) {
  if (bytes == 1)
    for (size_t j = 0; j < n; j++) y[j] = x[at[j]];
  else if (bytes < 4)
    GATHER(2)
  else if (bytes < 8)
    GATHER(4)
  else if (bytes < 16)
    GATHER(8)
  else
    GATHER(16)
}

/* The four corners (a, b: of the lower column, p, q: of the higher one; b, q: of the lower row), blended.  Pixels of
 * few channels are gathered first, so that the blending runs over many; they have a fraction for each element. */
enum { BLEND_LINE = 512 };
#define BILINEAR(name, type, weight, one, blend) \
  PL_INLINE void name##_blend(size_t n, const type *restrict a, const type *restrict b, const type *restrict p, \
                              const type *restrict q, const weight *restrict fraction, size_t step, weight dy, \
                              type *restrict y) { \
    const weight ey = one - dy; \
    for (size_t i = 0; i < n; i++) { \
      const weight dx = fraction[i * step], ex = one - dx; \
      (void)ex, (void)ey; \
      y[i] = (type)(blend); \
    } \
  } \
  static void name(size_t n, size_t c, int gather, const void *top0, const void *bottom0, const int32_t *low, \
                   const int32_t *high, const void *fraction0, const void *dy0, void *y0) { \
    const type *top = top0, *bottom = bottom0; \
    const weight *fraction = fraction0, dy = *(const weight *)dy0; \
    type *y = y0; \
    if (!gather) { \
      for (size_t j = 0; j < n; j++) { \
        const size_t at = (size_t)low[j] * c, next = (size_t)high[j] * c; \
        name##_blend(c, top + at, bottom + at, top + next, bottom + next, fraction + j, 0, dy, y + j * c); \
      } \
      return; \
    } \
    type a[BLEND_LINE], b[BLEND_LINE], p[BLEND_LINE], q[BLEND_LINE]; \
    for (size_t m; n; n -= m, low += m, high += m, fraction += m * c, y += m * c) { \
      m = n < BLEND_LINE / c ? n : BLEND_LINE / c; \
      gather_pixels(m, c * sizeof(type), low, (const uint8_t *)top, (uint8_t *)a); \
      gather_pixels(m, c * sizeof(type), low, (const uint8_t *)bottom, (uint8_t *)b); \
      gather_pixels(m, c * sizeof(type), high, (const uint8_t *)top, (uint8_t *)p); \
      gather_pixels(m, c * sizeof(type), high, (const uint8_t *)bottom, (uint8_t *)q); \
      name##_blend(m * c, a, b, p, q, fraction, 1, dy, y); \
    } \
  }
/* Floats in the order of the reference, each product left to right (docs/numerics.md section 9). */
#define BLEND_F32 a[i] * ey * ex + b[i] * dy * ex + p[i] * ey * dx + q[i] * dy * dx
BILINEAR(bilinear_f32, float, float, 1.0f, BLEND_F32)
BILINEAR(bilinear_u8, uint8_t, float, 1.0f, (int32_t)(BLEND_F32 + 0.5f))
/* Integers with one product instead of two: v (1024 - d) + w d = 1024 v + (w - v) d, exactly. */
#define BLEND(v, w, d) ((v) * 1024 + ((w) - (v)) * (d))
#define BLEND_INT(name, wide) \
  PL_INLINE wide name(int32_t a, int32_t b, int32_t p, int32_t q, int32_t dy, int32_t dx) { \
    const int32_t low = BLEND(a, p, dx), high = BLEND(b, q, dx); \
    const wide v = BLEND((wide)low, high, dy); \
    return (v + (1 << 19) - (v < 0)) >> 20; /* to the nearest, halves away from zero */ \
  }
BLEND_INT(blend_32, int32_t)
BLEND_INT(blend_64, int64_t)
BILINEAR(bilinear_s8, int8_t, int32_t, 1024, blend_32(a[i], b[i], p[i], q[i], dy, dx))
BILINEAR(bilinear_s16, int16_t, int32_t, 1024, blend_64(a[i], b[i], p[i], q[i], dy, dx))

static void bilinear(int type, size_t n, size_t c, int gather, const void *top, const void *bottom, const int32_t *low,
                     const int32_t *high, const void *fraction, const void *dy, void *y) {
  static void (*const table[])(size_t, size_t, int, const void *, const void *, const int32_t *, const int32_t *,
                               const void *, const void *, void *) = {
    bilinear_f32, bilinear_u8, bilinear_s8, bilinear_s16};
  table[type](n, c, gather, top, bottom, low, high, fraction, dy, y);
}
