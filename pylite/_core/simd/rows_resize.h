/* Resizing micro-kernels in plain C: one output row; included by rows.c alone. */
#include "rounding.h"
#include <string.h>

/* The four corners in the order of the reference, each product left to right (docs/numerics.md section 9). */
#define BILINEAR(name, type, weight, one, blend) \
  static void name(size_t n, size_t c, const type *top, const type *bottom, const int32_t *low, const int32_t *high, \
                   const weight *fraction, weight dy, type *y) { \
    const weight ey = one - dy; \
    for (size_t j = 0; j < n; j++, y += c) { \
      const type *a = top + low[j] * c, *b = bottom + low[j] * c, *p = top + high[j] * c, *q = bottom + high[j] * c; \
      const weight dx = fraction[j], ex = one - dx; \
      for (size_t i = 0; i < c; i++) y[i] = (type)(blend); \
    } \
  }
PL_INLINE int32_t bilinear_round(int32_t v) { return (v + (v > 0 ? 1 << 19 : -(1 << 19))) / (1 << 20); }
PL_INLINE int64_t bilinear_round_wide(int64_t v) { return (v + (v > 0 ? 1 << 19 : -(1 << 19))) / (1 << 20); }
BILINEAR(bilinear_f32, float, float, 1.0f, a[i] * ey * ex + b[i] * dy * ex + p[i] * ey * dx + q[i] * dy * dx)
BILINEAR(bilinear_u8, uint8_t, float, 1.0f,
         (int32_t)(a[i] * ey * ex + b[i] * dy * ex + p[i] * ey * dx + q[i] * dy * dx + 0.5f))
BILINEAR(bilinear_s8, int8_t, int32_t, 1024,
         bilinear_round((a[i] * ey + b[i] * dy) * ex + (p[i] * ey + q[i] * dy) * dx))
BILINEAR(bilinear_s16, int16_t, int32_t, 1024,
         bilinear_round_wide((int64_t)(a[i] * ey + b[i] * dy) * ex + (int64_t)(p[i] * ey + q[i] * dy) * dx))

/* y[j] = x[at[j]], pixels of `bytes` */
#define GATHER(type) \
  { \
    const type *p = (const type *)x; \
    type *q = (type *)y; \
    for (size_t j = 0; j < n; j++) q[j] = p[at[j]]; \
    return; \
  }
static void gather_pixels(size_t n, size_t bytes, const int32_t *at, const uint8_t *x, uint8_t *y) {
  if (bytes == 1) GATHER(uint8_t)
  if (bytes == 2) GATHER(uint16_t)
  if (bytes == 4) GATHER(uint32_t)
  if (bytes == 3)
    for (size_t j = 0; j < n; j++) memcpy(y + 3 * j, x + 3 * (size_t)at[j], 3);
  else
    for (size_t j = 0; j < n; j++) memcpy(y + bytes * j, x + bytes * at[j], bytes);
}
