/* Resizing of one output row; included by portable.c alone. */
#include "functions.h"
#include "rounding.h"
#include <string.h>

/* y[j] = x[sources[j]] for pixels of `bytes` bytes, copied in words; the last word may overlap the one before. */
#define GATHER(word) \
  for (size_t j = 0; j < n; j++) { \
    const uint8_t *p = x + bytes * (size_t)sources[j]; \
    uint8_t *q = y + step * j; \
    for (size_t i = 0; i + word < bytes; i += word) memcpy(q + i, p + i, word); \
    memcpy(q + bytes - word, p + bytes - word, word); \
  }
static void gather_pixels(size_t n, size_t bytes, const int32_t *sources, const uint8_t *x, uint8_t *y,
                          size_t step) {
  if (bytes == 1 && step == 1)
    for (size_t j = 0; j < n; j++) y[j] = x[sources[j]];
  else if (bytes == 1)
    GATHER(1)
  else if (bytes < 4)
    GATHER(2)
  else if (bytes < 8)
    GATHER(4)
  else if (bytes < 16)
    GATHER(8)
  else if (bytes < 32)
    GATHER(16)
  else if (bytes < PL_LONG_PIXEL)
    GATHER(32)
  else
    for (size_t j = 0; j < n; j++) memcpy(y + step * j, x + bytes * (size_t)sources[j], bytes);
}

/* Blends four pixels: a and b of the left column, p and q of the right one; b and q are of the bottom row.  Pixels of
 * few channels are gathered first, so that one loop blends many of them; then `fraction` has one entry per element. */
enum { BLEND_LINE = 512 };
#define BILINEAR(name, type, weight, one, blend, lines, pixels) \
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
                   const int32_t *high, const void *fraction0, const void *dy0, void *y0, size_t step) { \
    const type *top = top0, *bottom = bottom0; \
    const weight *fraction = fraction0, dy = *(const weight *)dy0; \
    type *y = y0; \
    const size_t done = lines; \
    if (!gather) { \
      for (size_t j = done; j < n; j++) { \
        const size_t left = (size_t)low[j] * c, right = (size_t)high[j] * c; \
        if (c == 8 && sizeof(type) == sizeof(float)) /* a vector, without loops */ \
          name##_blend(8, top + left, bottom + left, top + right, bottom + right, fraction + j, 0, dy, y + j * step); \
        else \
          name##_blend(c, top + left, bottom + left, top + right, bottom + right, fraction + j, 0, dy, y + j * step); \
      } \
      return; \
    } \
    if (done || (pixels)) return; \
    type a[BLEND_LINE], b[BLEND_LINE], p[BLEND_LINE], q[BLEND_LINE]; \
    for (size_t m; n; n -= m, low += m, high += m, fraction += m * c, y += m * c) { \
      m = n < BLEND_LINE / c ? n : BLEND_LINE / c; \
      gather_pixels(m, c * sizeof(type), low, (const uint8_t *)top, (uint8_t *)a, c * sizeof(type)); \
      gather_pixels(m, c * sizeof(type), low, (const uint8_t *)bottom, (uint8_t *)b, c * sizeof(type)); \
      gather_pixels(m, c * sizeof(type), high, (const uint8_t *)top, (uint8_t *)p, c * sizeof(type)); \
      gather_pixels(m, c * sizeof(type), high, (const uint8_t *)bottom, (uint8_t *)q, c * sizeof(type)); \
      name##_blend(m * c, a, b, p, q, fraction, 1, dy, y); \
    } \
  }

/* For images that become wider, whose pixels are read more than once: blends the rows first, into one line or two, then
 * the columns, by blocks of channels.  The last block of a pixel overlaps the one before; if pixels have fewer,
 * but at least `fewest`, the next one overwrites the excess.  by: the step between the weights of two columns.  Returns
 * the number of finished columns, all or none. */
#if defined(__AVX2__)
enum { BLEND_ROW = 2048, BLEND_BLOCK = 8, FEWEST_WIDE = 2, FEWEST_NARROW = 2 };
#elif defined(__aarch64__)
enum { BLEND_ROW = 2048, BLEND_BLOCK = 16, FEWEST_WIDE = 8, FEWEST_NARROW = 3 };
#else
enum { BLEND_ROW = 2048, BLEND_BLOCK = 4, FEWEST_WIDE = 2, FEWEST_NARROW = 2 };
#endif
typedef float blend_f32 __attribute__((vector_size(4 * BLEND_BLOCK)));
typedef int32_t blend_s32 __attribute__((vector_size(4 * BLEND_BLOCK)));
typedef int16_t blend_s16 __attribute__((vector_size(2 * BLEND_BLOCK)));
typedef int8_t blend_s8 __attribute__((vector_size(BLEND_BLOCK)));
typedef uint8_t blend_u8 __attribute__((vector_size(BLEND_BLOCK)));
#if defined(__aarch64__)
#include "arm/blending_neon.h"
#endif
#define LINES(name, block, fewest, type, line, weight, one, count, down, vector, out, across) \
  static size_t name(size_t n, size_t c, const type *top, const type *bottom, const int32_t *low, \
                     const int32_t *high, const weight *fraction, size_t by, weight dy, type *y, size_t step) { \
    const weight ey = one - dy; \
    size_t done = 0, columns = BLEND_ROW / c; \
    const size_t last = c < block ? block / c : 0, whole = n > last ? n - last : 0; \
    type ragged[2 * block]; /* the last columns, whose excess nothing overwrites */ \
    (void)ey; \
    if ((c < block && (step != c || c < fewest)) || columns < 2 || (size_t)(high[n - 1] - low[0]) >= n) return 0; \
    while (done < n) { \
      const int32_t first = low[done], remaining = high[n - 1] + 1 - first; \
      const int32_t end = first + (remaining < (int32_t)columns ? remaining : (int32_t)columns); \
      line s[count][BLEND_ROW + block]; \
      for (int k = 0; k < count; k++) { \
        const type *a = top + (size_t)first * c, *b = bottom + (size_t)first * c; \
        for (size_t i = 0; i < (size_t)(end - first) * c; i++) s[k][i] = down; \
        memset(s[k] + (size_t)(end - first) * c, 0, block * sizeof(line)); /* read, but not used */ \
      } \
      for (; done < n && high[done] < end; done++) { \
        const weight dx = fraction[done * by], ex = one - dx; \
        const line *l = s[0] + (size_t)(low[done] - first) * c, *r = s[0] + (size_t)(high[done] - first) * c; \
        type *to = done < whole ? y + done * step : ragged + (done - whole) * c; \
        (void)ex; \
        for (size_t i = 0; i < c; i += block) { \
          if (i > c - block) i = c - block; \
          vector left[count], right[count]; \
          for (int k = 0; k < count; k++) { \
            memcpy(&left[k], l + k * (BLEND_ROW + block) + i, sizeof left[k]); \
            memcpy(&right[k], r + k * (BLEND_ROW + block) + i, sizeof right[k]); \
          } \
          const out v = across; \
          memcpy(to + i, &v, sizeof v); \
        } \
      } \
    } \
    if (whole < n) memcpy(y + whole * c, ragged, (n - whole) * c * sizeof *y); \
    return done; \
  }
#define TO(vector, x) __builtin_convertvector(x, vector)

/* Floats in the order of the reference, each product left to right (docs/numerics.md section 9). */
#define BLEND_F32 a[i] * ey * ex + b[i] * dy * ex + p[i] * ey * dx + q[i] * dy * dx
#define LINES_F32(name, type, out, across) \
  LINES(name, BLEND_BLOCK, FEWEST_WIDE, type, float, float, 1.0f, 2, k ? b[i] * dy : a[i] * ey, blend_f32, out, across)
#define ACROSS_F32 left[0] * ex + left[1] * ex + right[0] * dx + right[1] * dx
#if !defined(__aarch64__)
LINES_F32(lines_f32, float, blend_f32, ACROSS_F32)
typedef blend_u8 blended_u8;
PL_INLINE blended_u8 across_u8(const blend_f32 *left, const blend_f32 *right, float ex, float dx) {
  return TO(blend_u8, TO(blend_s16, TO(blend_s32, ACROSS_F32 + 0.5f)));
}
#endif
LINES_F32(lines_u8, uint8_t, blended_u8, across_u8(left, right, ex, dx))
#define WITH_LINES(name) name(n, c, top, bottom, low, high, fraction, gather ? c : 1, dy, y, step)

/* Images of three or four channels: a pixel is a vector of four, whose last element is overwritten by the next pixel if
 * there are three. */
typedef float four __attribute__((vector_size(16)));
/* Reads pixels where they lie; the last one may end the image. */
static void far_pixels_f32(size_t n, size_t c, const float *top, const float *bottom, const int32_t *low,
                           const int32_t *high, const float *fraction, float dy, float *y) {
  const float ey = 1 - dy;
  for (size_t j = 0; j < n; j++) {
    const float dx = fraction[c * j], ex = 1 - dx;
    const float *const l = top + c * (size_t)low[j], *const r = top + c * (size_t)high[j], *const x[4] = {
      l, bottom + (l - top), r, bottom + (r - top)};
    four v[4] = {0};
    PL_UNROLL for (int i = 0; i < 4; i++)
      if (c == 4 || high[j] < high[n - 1]) memcpy(&v[i], x[i], sizeof v[i]);
      else memcpy(&v[i], x[i], 3 * sizeof(float));
    const four blended = v[0] * ey * ex + v[1] * dy * ex + v[2] * ey * dx + v[3] * dy * dx;
    memcpy(y + c * j, &blended, j + 1 < n ? sizeof blended : c * sizeof *y);
  }
}
static int pixels_f32(size_t n, size_t c, const float *top, const float *bottom, const int32_t *low,
                      const int32_t *high, const float *fraction, float dy, float *y) {
  const float ey = 1 - dy;
  const int32_t first = low[0];
  const size_t columns = (size_t)(high[n - 1] + 1 - first);
  float s[2][BLEND_ROW + 1]; /* wider images: the rows are blended once */
  if (columns > n || columns * c > BLEND_ROW) {
    far_pixels_f32(n, c, top, bottom, low, high, fraction, dy, y);
    return 1;
  }
  for (int k = 0; k < 2; k++) {
    const float *a = top + c * (size_t)first, *b = bottom + c * (size_t)first;
    for (size_t i = 0; i < columns * c; i++) s[k][i] = k ? b[i] * dy : a[i] * ey;
    s[k][columns * c] = 0;
  }
  for (size_t j = 0; j < n; j++) {
    const float dx = fraction[c * j], ex = 1 - dx;
    four left[2], right[2];
    for (int k = 0; k < 2; k++) {
      memcpy(&left[k], s[k] + c * (size_t)(low[j] - first), sizeof left[k]);
      memcpy(&right[k], s[k] + c * (size_t)(high[j] - first), sizeof right[k]);
    }
    const four v = ACROSS_F32;
    memcpy(y + c * j, &v, j + 1 < n ? sizeof v : c * sizeof *y);
  }
  return 1;
}
#if defined(__aarch64__) /* in four operations instead of eleven; results may differ in the last bit */
#define BLEND_FUSED PL_FMA(q[i], dy * dx, PL_FMA(p[i], ey * dx, PL_FMA(b[i], dy * ex, a[i] * (ey * ex))))
#define COLUMNS_F32 WITH_LINES(fused_f32)
#define PIXELS_F32 (c == 3)
#else
#define BLEND_FUSED BLEND_F32
#define PIXELS_F32 (c == 3 || c == 4)
#define COLUMNS_F32 (c > 4 && c % 8 ? WITH_LINES(lines_f32) : 0) /* else lines are slower */
#endif
BILINEAR(bilinear_f32, float, float, 1.0f, BLEND_FUSED, COLUMNS_F32,
         PIXELS_F32 && pixels_f32(n, c, top, bottom, low, high, fraction, dy, y))
BILINEAR(bilinear_u8, uint8_t, float, 1.0f, (int32_t)(BLEND_F32 + 0.5f), WITH_LINES(lines_u8), 0)

/* Integers need one product instead of two: v (1024 - d) + w d = 1024 v + (w - v) d, exactly.  So rows may be blended
 * before columns. */
#define BLEND(v, w, d) ((v) * 1024 + ((w) - (v)) * (d))
#define BLEND_INT(name, wide) \
  PL_INLINE wide name(int32_t a, int32_t b, int32_t p, int32_t q, int32_t dy, int32_t dx) { \
    const int32_t low = BLEND(a, p, dx), high = BLEND(b, q, dx); \
    const wide v = BLEND((wide)low, high, dy); \
    return (v + (1 << 19) - (v < 0)) >> 20; /* to the nearest, halves away from zero */ \
  }
BLEND_INT(blend_32, int32_t)
BLEND_INT(blend_64, int64_t)
#if !defined(__aarch64__)
PL_INLINE blend_s8 across_s8(blend_s32 left, blend_s32 right, int32_t dx) {
  const blend_s32 v = BLEND(left, right, dx);
  return TO(blend_s8, TO(blend_s16, (v + (1 << 19) + (v < 0)) >> 20)); /* true is -1 */
}
typedef blend_s8 blended_s8;
#endif
LINES(lines_s8, BLEND_BLOCK, FEWEST_WIDE, int8_t, int32_t, int32_t, 1024, 1, BLEND(a[i], b[i], dy), blend_s32,
      blended_s8, across_s8(left[0], right[0], dx))
BILINEAR(bilinear_i8, int8_t, int32_t, 1024, blend_32(a[i], b[i], p[i], q[i], dy, dx), WITH_LINES(lines_s8), 0)
BILINEAR(bilinear_i16, int16_t, int32_t, 1024, blend_64(a[i], b[i], p[i], q[i], dy, dx), 0, 0)

/* Weights in units of 1/16: sums fit into 16 bits, and differences may wrap. */
#define BLEND_NARROW(v, w, d) ((v) * 16 + ((w) - (v)) * (d))
PL_INLINE int32_t blend_narrow(int32_t a, int32_t b, int32_t p, int32_t q, int32_t dy, int32_t dx) {
  const int32_t v = BLEND_NARROW(BLEND_NARROW(a, p, dx), BLEND_NARROW(b, q, dx), dy);
  return (v + 128 - (v < 0)) >> 8;
}
enum { NARROW_BLOCK = 16 };
#if !defined(__aarch64__)
typedef uint16_t narrow_u16 __attribute__((vector_size(2 * NARROW_BLOCK)));
typedef int16_t narrow_s16 __attribute__((vector_size(2 * NARROW_BLOCK)));
typedef int8_t narrow_s8 __attribute__((vector_size(NARROW_BLOCK)));
typedef uint8_t narrow_u8 __attribute__((vector_size(NARROW_BLOCK)));
PL_INLINE narrow_s8 across_s8_narrow(narrow_u16 left, narrow_u16 right, uint16_t dx) {
  const narrow_s16 v = (narrow_s16)BLEND_NARROW(left, right, dx);
  return TO(narrow_s8, (v + 128 + (v < 0)) >> 8); /* true is -1 */
}
PL_INLINE narrow_u8 across_u8_narrow(narrow_u16 left, narrow_u16 right, uint16_t dx) {
  return TO(narrow_u8, (BLEND_NARROW(left, right, dx) + 128) >> 8);
}
#endif
#define NARROW(name, type, out, across) \
  LINES(lines_##name, NARROW_BLOCK, FEWEST_NARROW, type, uint16_t, int32_t, 16, 1, \
        (uint16_t)BLEND_NARROW(a[i], b[i], dy), narrow_u16, out, across(left[0], right[0], (uint16_t)dx)) \
  BILINEAR(name, type, int32_t, 16, blend_narrow(a[i], b[i], p[i], q[i], dy, dx), WITH_LINES(lines_##name), 0)
NARROW(bilinear_i8_narrow, int8_t, narrow_s8, across_s8_narrow)
NARROW(bilinear_u8_narrow, uint8_t, narrow_u8, across_u8_narrow)
