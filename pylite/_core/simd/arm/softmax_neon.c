/* Softmax of float32 for 64-bit NEON.  Three passes over a row find its maximum, compute exponentials and their sum,
 * and divide by the sum.  Each takes 16 elements at a time, so that in-order cores do not wait for results. */
#include "addend_neon.h"
#include "neon.h"

#define EACH _Pragma("GCC unroll 4") for (int k = 0; k < 4; k++)

/* The largest element (the smallest where `least`), without regard to NaN. */
PL_INLINE float extreme(int least, size_t n, const float *x) {
#define JOINED(a, b) (least ? vminnmq_f32(a, b) : vmaxnmq_f32(a, b))
  const float32x4_t start = vdupq_n_f32(least ? 0x1.fffffep127f : -0x1.fffffep127f);
  float32x4_t top[4] = {start, start, start, start};
  size_t i = 0;
  for (; i + 16 <= n; i += 16) EACH top[k] = JOINED(top[k], vld1q_f32(x + i + 4 * k));
  for (; i + 4 <= n; i += 4) top[0] = JOINED(top[0], vld1q_f32(x + i));
  for (; i < n; i++) top[1] = JOINED(top[1], vld1q_dup_f32(x + i));
  top[0] = JOINED(JOINED(top[0], top[1]), JOINED(top[2], top[3]));
  return least ? vminnmvq_f32(top[0]) : vmaxnmvq_f32(top[0]);
#undef JOINED
}

/* x = exp((x - top) beta) of four vectors; no exponent is above 0.  It is 2^n exp(r), with a polynomial of degree 5 for
 * exp(r); the relative error is below 1.3e-7 plus 1.9e-9 for each unit of n.  Below -87.7 the result is 0, because its
 * exponent bits are.  The low bits of a sum with MAGIC are the nearest integer, plus 127. */
typedef struct { float32x4_t top, beta; } softmax_scale;
PL_INLINE void exponentials(const softmax_scale *s, float32x4_t x[4]) {
#define MAGIC (0x1.8p23f + 127)
  const float32x4_t magic = vdupq_n_f32(MAGIC), factors = {8.290272e-3f, 1.44269504f, -0.693147181f, -88.0f};
  float32x4_t n[4], power[4], p[4];
  EACH x[k] = vmulq_f32(vsubq_f32(x[k], s->top), s->beta);
  EACH x[k] = vmaxq_f32(x[k], vdupq_laneq_f32(factors, 3));
  EACH n[k] = vfmaq_laneq_f32(PL_ADDEND(MAGIC, x[k]), x[k], factors, 1);
  EACH power[k] = vreinterpretq_f32_s32(vshlq_n_s32(vreinterpretq_s32_f32(n[k]), 23));
  EACH n[k] = vsubq_f32(n[k], magic);
  EACH x[k] = vfmaq_laneq_f32(x[k], n[k], factors, 2);
  EACH p[k] = vfmaq_laneq_f32(PL_ADDEND(4.189816e-2f, x[k]), x[k], factors, 0);
  EACH p[k] = vfmaq_f32(PL_ADDEND(0.16667639f, x[k]), p[k], x[k]);
  EACH p[k] = vfmaq_f32(PL_ADDEND(0.49999148f, x[k]), p[k], x[k]);
  EACH p[k] = vfmaq_f32(PL_ADDEND(0.9999997f, x[k]), p[k], x[k]);
  EACH x[k] = vmulq_f32(x[k], power[k]);
  EACH x[k] = vfmaq_f32(power[k], p[k], x[k]);
#undef MAGIC
}

/* One row; y may be x. */
static void softmax_row(size_t n, float beta, const float *x, float *y) {
  const float top = beta < 0 ? extreme(1, n, x) : extreme(0, n, x);
  const softmax_scale s = {vdupq_n_f32(top), vdupq_n_f32(beta)};
  float32x4_t sum[4], v[4];
  size_t i = 0;
  EACH sum[k] = vdupq_n_f32(0);
  for (; i + 16 <= n; i += 16) {
    EACH v[k] = vld1q_f32(x + i + 4 * k);
    exponentials(&s, v);
    EACH vst1q_f32(y + i + 4 * k, v[k]);
    EACH sum[k] = vaddq_f32(sum[k], v[k]);
  }
  if (i < n) {
    float last[16];
    /* padding whose exponential is 0, or 1 if beta is 0: `added` corrects the sum then */
    for (int k = 0; k < 16; k++) last[k] = beta == 0 ? top : beta < 0 ? INFINITY : -INFINITY;
    memcpy(last, x + i, (n - i) * sizeof *x);
    EACH v[k] = vld1q_f32(last + 4 * k);
    exponentials(&s, v);
    EACH vst1q_f32(last + 4 * k, v[k]);
    memcpy(y + i, last, (n - i) * sizeof *y);
    EACH sum[k] = vaddq_f32(sum[k], v[k]);
  }
  const float added = beta == 0 ? (float)(-n % 16) : 0;
  const float share = 1.0f / (vaddvq_f32(vaddq_f32(vaddq_f32(sum[0], sum[1]), vaddq_f32(sum[2], sum[3]))) - added);
  for (i = 0; i + 16 <= n; i += 16) {
    EACH v[k] = vld1q_f32(y + i + 4 * k);
    EACH vst1q_f32(y + i + 4 * k, vmulq_n_f32(v[k], share));
  }
  for (; i < n; i++) y[i] *= share;
}

/* Rows of 1 to SHORT elements: the exponentials of many rows are computed as if these were one. */
enum { SHORT = 8, BLOCK = 512 };
static void softmax_short(size_t rows, size_t n, float beta, const float *x, float *y) {
  const softmax_scale s = {vdupq_n_f32(0), vdupq_n_f32(1)};
  float e[BLOCK];
  for (size_t m; rows; rows -= m, x += m * n, y += m * n) {
    m = rows < BLOCK / n ? rows : BLOCK / n;
    for (size_t r = 0; r < m; r++) {
      const float *row = x + r * n;
      float top = row[0];
      for (size_t i = 1; i < n; i++) top = beta < 0 ? fminf(top, row[i]) : fmaxf(top, row[i]);
      for (size_t i = 0; i < n; i++) e[r * n + i] = (row[i] - top) * beta;
    }
    for (size_t i = m * n; i % 16; i++) e[i] = 0;
    for (size_t i = 0; i < m * n; i += 16) {
      float32x4_t v[4];
      EACH v[k] = vld1q_f32(e + i + 4 * k);
      exponentials(&s, v);
      EACH vst1q_f32(e + i + 4 * k, v[k]);
    }
    for (size_t r = 0; r < m; r++) {
      float sum = 0;
      for (size_t i = 0; i < n; i++) sum += e[r * n + i];
      const float share = 1.0f / sum;
      for (size_t i = 0; i < n; i++) y[r * n + i] = e[r * n + i] * share;
    }
  }
}

static void softmax_f32(size_t rows, size_t n, float beta, const float *x, float *y) {
  if (n && n <= SHORT) softmax_short(rows, n, beta, x, y);
  else
    for (size_t r = 0; r < rows; r++) softmax_row(n, beta, x + r * n, y + r * n);
}

PL_FILL(softmax_neon, s) { s->softmax_f32 = softmax_f32; }
