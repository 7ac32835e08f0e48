/* Products of int16, and what becomes of sums other than requantized bytes; included by rows.c alone. */
#include "rounding.h"

/* COLUMNS neighbouring columns of a row: their sums grow side by side. */
#define PRODUCT_S64(COLUMNS) \
  for (; j + COLUMNS <= n; j += COLUMNS) \
    for (ptrdiff_t k0 = 0; k0 < depth; k0 += chunk) { \
      const ptrdiff_t m = chunk < depth - k0 ? chunk : depth - k0; \
      const int16_t *x = a + k0, *c = w + j * ldw + k0; \
      int32_t part[COLUMNS] = {0}; \
      for (ptrdiff_t k = 0; k < m; k++) \
        PL_UNROLL for (int i = 0; i < COLUMNS; i++) part[i] += x[k] * c[i * ldw + k]; \
      for (int i = 0; i < COLUMNS; i++) acc[r * lda + j + i] += part[i]; \
    }
static void gemm_s64(int rows, int n, ptrdiff_t depth, const int16_t *a, const int16_t *w, ptrdiff_t ldw,
                     ptrdiff_t chunk, int64_t *acc, ptrdiff_t lda) {
  for (int r = 0; r < rows; r++, a += depth) {
    int j = 0;
    if (chunk > 1) {
      PRODUCT_S64(4)
      PRODUCT_S64(1)
    }
    for (; j < n; j++) {
      const int16_t *column = w + j * ldw;
      int64_t sum = 0;
      for (ptrdiff_t k = 0; k < depth; k++) sum += (int64_t)a[k] * column[k];
      acc[r * lda + j] += sum;
    }
  }
}

static void finish_mbqm64(int n, const int64_t *acc, const int64_t *bias, const int32_t *mult, const int32_t *shift,
                          int low, int high, int16_t *y) {
  for (int j = 0; j < n; j++) {
    int32_t v = pl_mbqm64(acc[j] + (bias ? bias[j] : 0), pl_multiplier16(mult[j]), shift[j]);
    y[j] = (int16_t)pl_clamp32(v, low, high);
  }
}

static void finish_mbqm32(int n, const int64_t *acc, const int64_t *bias, const int32_t *mult, const int32_t *shift,
                          int low, int high, int16_t *y) {
  for (int j = 0; j < n; j++) {
    int32_t v = pl_mbqm32((int32_t)(acc[j] + (bias ? bias[j] : 0)), mult[j], shift[j]);
    y[j] = (int16_t)pl_clamp32(v, low, high);
  }
}

static void finish_f64(int n, const int64_t *acc, const int64_t *bias, int wrap, const double *scale, int zero_point,
                       int low, int high, int16_t *y) {
  for (int j = 0; j < n; j++) {
    int64_t sum = acc[j] + (bias ? bias[j] : 0);
    __asm__("" : "+r"(sum)); /* eight kilobytes of vectors would be no faster for the few that there are */
    int64_t v = (int64_t)pl_scale_f64(wrap ? (int32_t)sum : sum, scale[j]) + zero_point;
    y[j] = (int16_t)(v < low ? low : v > high ? high : v);
  }
}

static void finish_f64_q8(int n, const int32_t *acc, const int32_t *start, int32_t term, const double *scale,
                          int zero_point, int low, int high, int flip, uint8_t *y) {
  low -= zero_point, high -= zero_point;
  for (int j = 0; j < n; j++) {
    int32_t sum = (int32_t)((uint32_t)acc[j] + (uint32_t)start[j] + (uint32_t)term);
    y[j] = (uint8_t)((pl_clamp32(pl_scale_f64(sum, scale[j]), low, high) + zero_point) ^ flip);
  }
}

/* NaN is passed over */
static void range_f32(ptrdiff_t n, const float *x, float *low, float *high) {
  float least[16] = {0}, most[16] = {0};
  ptrdiff_t i = 0;
#if defined(V_ALL)
  vf l0 = V_ALL(0.0f), l1 = l0, h0 = l0, h1 = l0;
  for (; i + 2 * V_WIDTH <= n; i += 2 * V_WIDTH) {
    const vf a = V(loadu_ps)(x + i), b = V(loadu_ps)(x + i + V_WIDTH);
    l0 = V(min_ps)(a, l0), l1 = V(min_ps)(b, l1);
    h0 = V(max_ps)(a, h0), h1 = V(max_ps)(b, h1);
  }
  V(storeu_ps)(least, V(min_ps)(l0, l1));
  V(storeu_ps)(most, V(max_ps)(h0, h1));
#endif
  for (; i + 16 <= n; i += 16)
    for (int j = 0; j < 16; j++) {
      least[j] = x[i + j] < least[j] ? x[i + j] : least[j];
      most[j] = x[i + j] > most[j] ? x[i + j] : most[j];
    }
  for (; i < n; i++) {
    least[0] = x[i] < least[0] ? x[i] : least[0];
    most[0] = x[i] > most[0] ? x[i] : most[0];
  }
  for (int half = 8; half; half /= 2)
    for (int j = 0; j < half; j++) {
      least[j] = least[j + half] < least[j] ? least[j + half] : least[j];
      most[j] = most[j + half] > most[j] ? most[j + half] : most[j];
    }
  *low = least[0];
  *high = most[0];
}

static void quantize_s8(ptrdiff_t n, const float *x, float inverse, int zero, int low, int high, int8_t *y) {
  for (ptrdiff_t i = 0; i < n; i++) y[i] = (int8_t)pl_clamp32(zero + pl_round_half32(x[i] * inverse), low, high);
}

static void finish_hybrid(int n, const int32_t *acc, int32_t term, const int32_t *sums, const float *scale, float row,
                          int column_first, const float *bias, float low, float high, float *y) {
  if (!bias && !column_first && low == -INFINITY && high == INFINITY) { /* nothing else to do */
    PL_INDEPENDENT
    for (int j = 0; j < n; j++)
      y[j] = (float)(int32_t)((uint32_t)acc[j] - (uint32_t)term * (uint32_t)sums[j]) * (row * scale[j]);
    return;
  }
  PL_INDEPENDENT /* y may be the bias */
  for (int j = 0; j < n; j++) {
    float v = (float)(int32_t)((uint32_t)acc[j] - (uint32_t)term * (uint32_t)sums[j]);
    v = column_first ? v * scale[j] * row : v * (row * scale[j]);
    if (bias) v += bias[j];
    v = v < low ? low : v;
    y[j] = v > high ? high : v;
  }
}

/* n columns, a constant, whose sums stay in registers. */
static inline __attribute__((always_inline)) void scaled_columns(int n, ptrdiff_t depth, const float *a, const float *w,
                                                                 ptrdiff_t wide, const float *scale, float row,
                                                                 int first, float *acc) {
  float s[2 * PL_SCALED], sum[2 * PL_SCALED];
  for (int j = 0; j < n; j++) s[j] = scale[j];
  for (int j = 0; j < n; j++) sum[j] = first ? 0 : acc[j];
  for (ptrdiff_t k = 0; k < depth; k++, w += wide)
    for (int j = 0; j < n; j++) sum[j] += a[k] * w[j] * s[j] * row;
  for (int j = 0; j < n; j++) acc[j] = sum[j];
}

static void scaled_sums(int n, ptrdiff_t depth, const float *a, const float *w, ptrdiff_t wide, const float *scale,
                        float row, int first, float *acc, const float *bias, float low, float high, float *y) {
  int j = 0;
  for (; j + PL_SCALED < n; j += 2 * PL_SCALED)
    scaled_columns(2 * PL_SCALED, depth, a, w + j, wide, scale + j, row, first, acc + j);
  if (j < n) scaled_columns(PL_SCALED, depth, a, w + j, wide, scale + j, row, first, acc + j);
  if (!y) return;
  for (j = 0; j < n; j++) {
    float v = bias ? acc[j] + bias[j] : acc[j];
    v = v < low ? low : v;
    y[j] = v > high ? high : v;
  }
}
