/* Element-wise micro-kernels that gain little from vectors: compiled once, for all ISA levels. */
#include "common.h"
#include "functions.h"
#include <math.h>
#include <string.h>

void pow_f32(size_t n, const void *va, int a_step, const void *vb, int b_step, void *vy, const void *vp) {
  const float *a = va, *b = vb;
  float *y = vy;
  (void)vp;
  for (; n; n--, a += a_step, b += b_step) *y++ = powf(*a, *b);
}

typedef struct { float re, im; } complex64;
void mul_c64(size_t n, const void *va, int a_step, const void *vb, int b_step, void *vy, const void *vp) {
  const complex64 *a = va, *b = vb;
  complex64 *y = vy;
  (void)vp;
  for (size_t i = 0; i < n; i++, a += a_step, b += b_step)
    y[i] = (complex64){a->re * b->re - a->im * b->im, a->re * b->im + a->im * b->re};
}

/* y = table[x + 32768]: any function of int16 */
void table16(size_t n, const void *vx, void *vy, const void *table) {
  const int16_t *x = vx, *t = (const int16_t *)table + 32768;
  int16_t *y = vy;
  for (size_t i = 0; i < n; i++) y[i] = t[x[i]];
}

/* ---- quantized operands (docs/numerics.md section 5) ----
 * y = a < b or a == b on the common scale; inverted: 1 to negate it. */
/* a, b: the 256 values of each operand on the common scale. */
typedef struct { int32_t inverted, a[256], b[256]; } compare_q8_p;
#define COMPARE_Q8(name, operator) \
  void name(size_t n, const void *va, int a_step, const void *vb, int b_step, void *vy, const void *vp) { \
    const compare_q8_p *p = vp; \
    const uint8_t *a = va, *b = vb, inverted = (uint8_t)p->inverted; \
    uint8_t *y = vy; \
    for (size_t i = 0; i < n; i++, a += a_step, b += b_step) y[i] = (p->a[*a] operator p->b[*b]) ^ inverted; \
  }
COMPARE_Q8(less_q8, <)
COMPARE_Q8(equal_q8, ==)

typedef struct { int32_t m, e, y_zero, a[256], b[256]; } difference_q8_p; /* m, e: the multiplier */
void squared_difference_q8(size_t n, const void *va, int a_step, const void *vb, int b_step, void *vy,
                           const void *vp) {
  const difference_q8_p *p = vp;
  const uint8_t *a = va, *b = vb;
  int8_t *y = vy;
  for (size_t i = 0; i < n; i++, a += a_step, b += b_step) {
    int32_t d = p->a[*a] - p->b[*b];
    y[i] = (int8_t)pl_clamp32(pl_rdbpot_any(pl_mul_high(d * d, p->m), -p->e) + p->y_zero, -128, 127);
  }
}

/* ---- sums and squared differences by their definition on real numbers, rounded once ----
 * Products of a stored integer (17 bits) and a scale (24 bits) are exact in double, as is a half step; a sum of two is
 * hi + lo.  A quotient near a half is compared with it by parts, so that it is rounded as the real one, halves away
 * from zero. */
typedef struct {
  double a_scale, b_scale, y_scale; /* the second operand is added: its scale is negative for differences */
  int32_t a_zero, b_zero, y_zero, low, high, squared, type; /* 0: int8, 1: uint8, 2: int16 */
} real_q_p;
static int32_t real_sum(double a, double b, const real_q_p *p) {
  const double sum = a + b, part = sum - a, rest = (a - (sum - part)) + (b - part);
  const double sign = sum < 0 && !p->squared ? -1.0 : 1.0;
  const double hi = p->squared ? sum * sum : sign * sum;
  const double lo = p->squared ? fma(sum, sum, -hi) + rest * (2 * sum + rest) : sign * rest;
  const double steps = hi / p->y_scale;
  if (!(steps < 131072.0)) return sign < 0 ? -131072 : 131072;
  const double whole = floor(steps), half = (whole + 0.5) * p->y_scale;
  const int up = fabs(steps - whole - 0.5) > 1e-6 ? steps - whole > 0.5 : (hi - half) + lo >= 0;
  return (int32_t)(sign * (whole + up));
}
void real_q(size_t n, const void *va, int a_step, const void *vb, int b_step, void *vy, const void *vp) {
  real_q_p p;
  memcpy(&p, vp, 3 * sizeof(double) + 7 * sizeof(int32_t)); /* without the padding at its end */
#define REAL(T) { \
    const T *a = va, *b = vb; \
    T *y = vy; \
    for (size_t i = 0; i < n; i++, a += a_step, b += b_step) { \
      const int32_t r = real_sum((*a - p.a_zero) * p.a_scale, (*b - p.b_zero) * p.b_scale, &p); \
      y[i] = (T)pl_clamp32(r + p.y_zero, p.low, p.high); \
    } \
  }
  switch (p.type) {
    case 0: REAL(int8_t) break;
    case 1: REAL(uint8_t) break;
    default: REAL(int16_t)
  }
#undef REAL
}

/* ---- REDUCE_PROD (section 8) ----
 * y = a b; a: an int64 accumulator, INT64_MIN while it is empty; b: the next element. */
typedef struct { int32_t zero, m16, e; } product_p;
typedef struct { int32_t m16, e, y_zero, low, high; } product_end_p;
#define PRODUCT(name, TYPE) \
  void product_##name(size_t n, const void *va, int a_step, const void *vb, int b_step, void *vy, const void *vp) { \
    const int64_t *a = va; \
    const TYPE *b = vb; \
    int64_t *y = vy; \
    product_p p; \
    memcpy(&p, vp, sizeof p); \
    for (size_t i = 0; i < n; i++, a += a_step, b += b_step) { \
      const int32_t v = *b - p.zero; \
      y[i] = *a == INT64_MIN ? v : pl_mbqm64((int64_t)(int32_t)*a * v, p.m16, p.e); \
    } \
  } \
  void finish_product_##name(size_t n, const void *vx, void *vy, const void *vp) { \
    const int64_t *x = vx; \
    TYPE *y = vy; \
    product_end_p p; \
    memcpy(&p, vp, sizeof p); \
    for (size_t i = 0; i < n; i++) y[i] = (TYPE)pl_clamp32(pl_mbqm64(x[i], p.m16, p.e) + p.y_zero, p.low, p.high); \
  }
PRODUCT(q8, int8_t)
PRODUCT(q16, int16_t)

/* ---- FAKE_QUANT, BUCKETIZE ---- */
typedef struct { float low, high, scale, inverse; } fake_quant_p;
void fake_quant(size_t n, const void *vx, void *vy, const void *vp) {
  const float *x = vx;
  float *y = vy;
  fake_quant_p p;
  memcpy(&p, vp, sizeof p);
  for (size_t i = 0; i < n; i++) {
    const float above = x[i] > p.low ? x[i] : p.low, inside = above < p.high ? above : p.high; /* NaN: low */
    y[i] = (float)pl_round_away32((inside - p.low) * p.inverse) * p.scale + p.low;
  }
}

/* y = how many boundaries are not above x, which is compared as WIDE.  p: their number, then float32 boundaries. */
#define BUCKETIZE(name, TYPE, WIDE) \
  void name(size_t n, const void *vx, void *vy, const void *vp) { \
    const int32_t count = *(const int32_t *)vp; \
    const float *boundaries = (const float *)vp + 1; \
    const TYPE *x = vx; \
    int32_t *y = vy; \
    for (size_t i = 0; i < n; i++) { \
      const WIDE value = (WIDE)x[i]; \
      int32_t low = 0, high = count; \
      while (low < high) { \
        const int32_t middle = low + (high - low) / 2; \
        if (value < boundaries[middle]) high = middle; \
        else low = middle + 1; \
      } \
      y[i] = low; \
    } \
  }
BUCKETIZE(bucketize_f32, float, float)
BUCKETIZE(bucketize_f64, double, double)
BUCKETIZE(bucketize_i32, int32_t, float)
BUCKETIZE(bucketize_i64, int64_t, float)
