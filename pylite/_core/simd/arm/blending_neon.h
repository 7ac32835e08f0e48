/* RESIZE_BILINEAR for 64-bit NEON: blends sixteen channels of two neighbouring columns of an image, or for float32,
 * four channels of four pixels.  Included by portable_resize.h alone.  gcc would keep a weight for sixteen elements in
 * memory, and narrow results in more steps. */
#ifndef PYLITE_BLENDING_NEON_H
#define PYLITE_BLENDING_NEON_H
#include <arm_neon.h>
#include <string.h>

typedef uint8x16_t blended_u8;
typedef int8x16_t blended_s8;

/* Blends n output pixels of c floats, each from four pixels: of the lines `top` and `bottom`, in columns low[j] and
 * high[j].  Returns the number of finished pixels: 0 if c < 4.  A vector waits for each of its four products, so four
 * vectors are blended side by side. */
#define FUSED(V, i) \
  { \
    float32x4_t v[V]; \
    _Pragma("GCC unroll 4") for (int k = 0; k < V; k++) v[k] = vmulq_n_f32(vld1q_f32(from[0] + i + 4 * k), w[0]); \
    _Pragma("GCC unroll 3") for (int t = 1; t < 4; t++) \
      _Pragma("GCC unroll 4") for (int k = 0; k < V; k++) \
        v[k] = vfmaq_n_f32(v[k], vld1q_f32(from[t] + i + 4 * k), w[t]); \
    _Pragma("GCC unroll 4") for (int k = 0; k < V; k++) vst1q_f32(to + i + 4 * k, v[k]); \
  }
static size_t fused_f32(size_t n, size_t c, const float *top, const float *bottom, const int32_t *low,
                        const int32_t *high, const float *fraction, size_t by, float dy, float *y, size_t step) {
  if (c < 4) return 0;
  for (size_t j = 0; j < n; j++) {
    const float dx = fraction[j * by], ex = 1 - dx, ey = 1 - dy, w[4] = {ey * ex, dy * ex, ey * dx, dy * dx};
    const size_t left = (size_t)low[j] * c, right = (size_t)high[j] * c;
    const float *const from[4] = {top + left, bottom + left, top + right, bottom + right};
    float *to = y + j * step;
    size_t i = 0;
    for (; i + 16 <= c; i += 16) FUSED(4, i)
    for (; i + 4 <= c; i += 4) FUSED(1, i)
    if (i < c) FUSED(1, c - 4)
  }
  return n;
}
/* left0, right0: the pixels of a column in two lines, multiplied by the lines' weights; ex, dx: the columns' weights */
PL_INLINE blended_u8 across_u8(const blend_f32 *left0, const blend_f32 *right0, float ex, float dx) {
  float32x4_t left[2][4], right[2][4], v[4];
  uint16x4_t half[4];
  memcpy(left, left0, sizeof left);
  memcpy(right, right0, sizeof right);
  for (int k = 0; k < 4; k++) v[k] = vaddq_f32(vmulq_n_f32(left[0][k], ex), vmulq_n_f32(left[1][k], ex));
  for (int k = 0; k < 4; k++) v[k] = vaddq_f32(v[k], vmulq_n_f32(right[0][k], dx));
  for (int k = 0; k < 4; k++) v[k] = vaddq_f32(v[k], vmulq_n_f32(right[1][k], dx));
  for (int k = 0; k < 4; k++) half[k] = vmovn_u32(vcvtq_u32_f32(vaddq_f32(v[k], vdupq_n_f32(0.5f))));
  return vcombine_u8(vmovn_u16(vcombine_u16(half[0], half[1])), vmovn_u16(vcombine_u16(half[2], half[3])));
}
/* left, right: the columns, blended from two lines, in units of 1 / 1024; dx: the right column's weight */
PL_INLINE void across(blend_s32 left, blend_s32 right, int32_t dx, int32x4_t v[4]) {
  int32x4_t a[4], b[4];
  memcpy(a, &left, sizeof a);
  memcpy(b, &right, sizeof b);
  for (int k = 0; k < 4; k++) v[k] = vmlaq_n_s32(vshlq_n_s32(a[k], 10), vsubq_s32(b[k], a[k]), dx);
}
PL_INLINE int8x16_t narrowed(const int32x4_t v[4]) {
  return vmovn_high_s16(vmovn_s16(vmovn_high_s32(vmovn_s32(v[0]), v[1])), vmovn_high_s32(vmovn_s32(v[2]), v[3]));
}
PL_INLINE blended_s8 across_s8(blend_s32 left, blend_s32 right, int32_t dx) {
  int32x4_t v[4];
  across(left, right, dx, v);
  for (int k = 0; k < 4; k++) v[k] = vrshrq_n_s32(vsraq_n_s32(v[k], v[k], 31), 20);
  return narrowed(v);
}
/* ---- the same in 16 bits: left, right and dx are in units of 1 / 16 ---- */
typedef uint16_t narrow_u16 __attribute__((vector_size(32)));
typedef int8x16_t narrow_s8;
typedef uint8x16_t narrow_u8;
PL_INLINE void across_narrow(narrow_u16 left, narrow_u16 right, uint16_t dx, uint16x8_t v[2]) {
  uint16x8_t a[2], b[2];
  memcpy(a, &left, sizeof a);
  memcpy(b, &right, sizeof b);
  for (int k = 0; k < 2; k++) v[k] = vmlaq_n_u16(vmulq_n_u16(a[k], (uint16_t)(16 - dx)), b[k], dx);
}
PL_INLINE narrow_s8 across_s8_narrow(narrow_u16 left, narrow_u16 right, uint16_t dx) {
  uint16x8_t v[2];
  int16x8_t s[2];
  across_narrow(left, right, dx, v);
  for (int k = 0; k < 2; k++) s[k] = vreinterpretq_s16_u16(v[k]), s[k] = vsraq_n_s16(s[k], s[k], 15);
  return vrshrn_high_n_s16(vrshrn_n_s16(s[0], 8), s[1], 8);
}
PL_INLINE narrow_u8 across_u8_narrow(narrow_u16 left, narrow_u16 right, uint16_t dx) {
  uint16x8_t v[2];
  across_narrow(left, right, dx, v);
  return vrshrn_high_n_u16(vrshrn_n_u16(v[0], 8), v[1], 8);
}
#endif
