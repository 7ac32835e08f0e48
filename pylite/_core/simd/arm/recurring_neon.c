/* Slots of recurrent layers of integers (recurring.h) for 64-bit NEON.  The instruction sqrdmulh is the multiplication
 * of fixed16.h, which gcc computes in 32 bits, and the first step of MBQM32, which it computes in 64. */
#include "fixed16.h"
#include "neon.h"

/* A step computes several independent vectors: within a vector, each instruction waits for the one before. */
enum { VECTORS = 2, STEP = 8 * VECTORS };
#define EACH _Pragma("GCC unroll 4") for (int k = 0; k < VECTORS; k++)
#define EACH_32 _Pragma("GCC unroll 8") for (int k = 0; k < 2 * VECTORS; k++)
#define ALL(v) vdupq_n_s16(v)

/* Loads and stores of the first n of STEP elements. */
PL_INLINE void get(const int16_t *x, int n, int16x8_t v[VECTORS]) {
  int16_t last[STEP] = {0};
  if (n < STEP) x = memcpy(last, x, (size_t)n * sizeof *x);
  EACH v[k] = vld1q_s16(x + 8 * k);
}
PL_INLINE void put(int16_t *y, int n, const int16x8_t v[VECTORS]) {
  int16_t last[STEP], *to = n < STEP ? last : y;
  EACH vst1q_s16(to + 8 * k, v[k]);
  if (n < STEP) memcpy(y, last, (size_t)n * sizeof *y);
}
PL_INLINE void get_32(const int32_t *x, int n, int32x4_t v[2 * VECTORS]) {
  int32_t last[STEP] = {0};
  if (n < STEP) x = memcpy(last, x, (size_t)n * sizeof *x);
  EACH_32 v[k] = vld1q_s32(x + 4 * k);
}

/* ---- the functions of fixed16.h ---- */
/* Multiplies r by a factor, in lanes whose `rem` has this bit. */
#define FACTOR(bit, factor) \
  if (bit) EACH { \
    const int16x8_t scaled = vqrdmulhq_s16(r[k], ALL(factor)); \
    r[k] = vbslq_s16(vtstq_s16(rem[k], ALL(bit)), scaled, r[k]); \
  }
/* r = exp(a) for a <= 0 in format q, result in Q0; as fx16_exp() computes it. */
PL_INLINE void exponential(const int16x8_t a[VECTORS], fx16_q q, int16x8_t r[VECTORS]) {
  int16x8_t u[VECTORS], rem[VECTORS], x[VECTORS], x2[VECTORS], x3[VECTORS], x4[VECTORS], t[VECTORS];
  EACH u[k] = vsubq_s16(vandq_s16(a[k], ALL((int16_t)(q.quarter - 1))), ALL(q.quarter));
  EACH rem[k] = vsubq_s16(u[k], a[k]);
  EACH x[k] = vmlaq_s16(ALL(4096), u[k], ALL(q.scale));
  EACH x2[k] = vqrdmulhq_s16(x[k], x[k]);
  EACH x3[k] = vqrdmulhq_s16(x2[k], x[k]);
  EACH x4[k] = vqrdmulhq_s16(x2[k], x2[k]);
  EACH t[k] = vrsraq_n_s16(x3[k], x4[k], 2);
  EACH t[k] = vaddq_s16(vqrdmulhq_s16(t[k], ALL(10923)), x2[k]);
  EACH t[k] = vsraq_n_s16(t[k], t[k], 15);
  EACH t[k] = vrsraq_n_s16(x[k], t[k], 1);
  EACH r[k] = vqaddq_s16(ALL(28918), vqrdmulhq_s16(t[k], ALL(28918)));
  FACTOR(q.b0, 25520)
  FACTOR(q.b1, 19875)
  FACTOR(q.b2, 12055)
  FACTOR(q.b3, 4435)
  FACTOR(q.b4, 600)
  FACTOR(q.b5, 11)
  if (q.b6) EACH r[k] = vbicq_s16(r[k], vreinterpretq_s16_u16(vtstq_s16(rem[k], ALL(q.b6))));
  EACH r[k] = vbicq_s16(r[k], vreinterpretq_s16_u16(vcltq_s16(a[k], ALL(q.least))));
  EACH r[k] = vbslq_s16(vceqzq_s16(a[k]), ALL(32767), r[k]);
}
/* a = 2 / (1 + a) in Q2 for a in [0, 1], as fx16_newton() computes it. */
PL_INLINE void newton(int16x8_t a[VECTORS]) {
  int16x8_t h[VECTORS], x[VECTORS], d[VECTORS];
  EACH h[k] = vsraq_n_s16(ALL(16384), a[k], 1);
  EACH x[k] = vaddq_s16(ALL(23130), vqrdmulhq_s16(h[k], ALL(-15420)));
  for (int i = 0; i < 3; i++) {
    EACH d[k] = vsubq_s16(ALL(8192), vqrdmulhq_s16(h[k], x[k]));
    EACH x[k] = vaddq_s16(x[k], vqshlq_n_s16(vqrdmulhq_s16(x[k], d[k]), 2));
  }
  EACH a[k] = x[k];
}

static void logistic_q3(int n, const int16_t *x, int16_t *y) {
  const fx16_q q = fx16_format(3);
  for (; n > 0; n -= STEP, x += STEP, y += STEP) {
    int16x8_t a[VECTORS], below[VECTORS], r[VECTORS];
    get(x, n, a);
    EACH below[k] = vminq_s16(a[k], vnegq_s16(a[k]));
    exponential(below, q, r);
    newton(r);
    EACH r[k] = vqshlq_n_s16(r[k], 1);
    EACH r[k] = vbslq_s16(vcgtzq_s16(a[k]), r[k], vsubq_s16(ALL(32767), r[k]));
    EACH r[k] = vbslq_s16(vceqzq_s16(a[k]), ALL(16384), r[k]);
    put(y, n, r);
  }
}

static void tanh_qm(int n, int m, const int16_t *x, int16_t *y) {
  const fx16_q q = fx16_format(m + 1);
  for (; n > 0; n -= STEP, x += STEP, y += STEP) {
    int16x8_t a[VECTORS], below[VECTORS], r[VECTORS];
    get(x, n, a);
    EACH below[k] = vminq_s16(a[k], vnegq_s16(a[k]));
    exponential(below, q, r);
    newton(r);
    EACH r[k] = vqshlq_n_s16(vsubq_s16(r[k], ALL(8192)), 2);
    EACH r[k] = vbslq_s16(vcltzq_s16(a[k]), vnegq_s16(r[k]), r[k]);
    EACH r[k] = vbicq_s16(r[k], vreinterpretq_s16_u16(vceqzq_s16(a[k])));
    put(y, n, r);
  }
}

/* ---- MBQM32 ---- */
typedef struct { int32x4_t mult, left, right; } multiplier;
PL_INLINE multiplier multiplier_of(int32_t m, int e) {
  return (multiplier){vdupq_n_s32(m), vdupq_n_s32(e > 0 ? e : 0), vdupq_n_s32(e < 0 ? e : 0)};
}
/* v = MBQM32(v) */
PL_INLINE void multiply(int32x4_t v[2 * VECTORS], const multiplier *m) {
  EACH_32 v[k] = vqrdmulhq_s32(vshlq_s32(v[k], m->left), m->mult);
  EACH_32 v[k] = vqaddq_s32(v[k], vshrq_n_s32(vandq_s32(v[k], m->right), 31)); /* lowered where there is a shift */
  EACH_32 v[k] = vrshlq_s32(v[k], m->right);
}
/* v = a b */
PL_INLINE void products(const int16x8_t a[VECTORS], const int16x8_t b[VECTORS], int32x4_t v[2 * VECTORS]) {
  EACH v[2 * k] = vmull_s16(vget_low_s16(a[k]), vget_low_s16(b[k])), v[2 * k + 1] = vmull_high_s16(a[k], b[k]);
}

static void gate_s16(int n, const int32_t *acc, const int32_t *bias, int32_t m, int e, int16_t *g) {
  const multiplier by = multiplier_of(m, e);
  for (; n > 0; n -= STEP, acc += STEP, bias += STEP, g += STEP) {
    int32x4_t v[2 * VECTORS], b[2 * VECTORS];
    int16x8_t old[VECTORS];
    get_32(acc, n, v);
    get_32(bias, n, b);
    get(g, n, old);
    EACH_32 v[k] = vaddq_s32(v[k], b[k]);
    multiply(v, &by);
    EACH v[2 * k] = vaddw_s16(v[2 * k], vget_low_s16(old[k])), v[2 * k + 1] = vaddw_high_s16(v[2 * k + 1], old[k]);
    EACH old[k] = vqmovn_high_s32(vqmovn_s32(v[2 * k]), v[2 * k + 1]);
    put(g, n, old);
  }
}

static void cell_s16(int n, const int16_t *in, const int16_t *f, const int16_t *g, int shift, int16_t *c) {
  const int32x4_t right = vdupq_n_s32(-shift);
  for (; n > 0; n -= STEP, f += STEP, g += STEP, c += STEP) {
    int32x4_t v[2 * VECTORS], w[2 * VECTORS];
    int16x8_t forget[VECTORS], input[VECTORS], gate[VECTORS], cell[VECTORS];
    get(f, n, forget);
    get(g, n, gate);
    get(c, n, cell);
    EACH input[k] = ALL(32767);
    if (in) {
      get(in, n, input);
      in += STEP;
    }
    products(input, gate, w);
    if (!in) { /* the difference has 17 bits */
      products(forget, gate, v);
      EACH_32 w[k] = vsubq_s32(w[k], v[k]);
    }
    products(forget, cell, v);
    EACH_32 v[k] = vrshrq_n_s32(vsraq_n_s32(v[k], v[k], 31), 15);
    EACH_32 w[k] = vsraq_n_s32(w[k], vandq_s32(w[k], right), 31);
    EACH_32 w[k] = vrshlq_s32(w[k], right);
    EACH cell[k] = vqaddq_s16(vmovn_high_s32(vmovn_s32(v[2 * k]), v[2 * k + 1]),
                              vmovn_high_s32(vmovn_s32(w[2 * k]), w[2 * k + 1]));
    put(c, n, cell);
  }
}

static void hidden_s8(int n, const int16_t *o, const int16_t *t, int32_t m, int e, int32_t zero, int8_t *y) {
  const multiplier by = multiplier_of(m, e);
  for (; n > 0; n -= STEP, o += STEP, t += STEP, y += STEP) {
    int32x4_t v[2 * VECTORS];
    int16x8_t a[VECTORS], b[VECTORS];
    int8_t last[STEP], *to = n < STEP ? last : y;
    get(o, n, a);
    get(t, n, b);
    products(a, b, v);
    multiply(v, &by);
    EACH_32 v[k] = vaddq_s32(v[k], vdupq_n_s32(zero));
    EACH vst1_s8(to + 8 * k, vqmovn_s16(vqmovn_high_s32(vqmovn_s32(v[2 * k]), v[2 * k + 1])));
    if (n < STEP) memcpy(y, last, (size_t)n);
  }
}

PL_FILL(recurring_neon, s) {
  s->logistic_q3 = logistic_q3;
  s->tanh_qm = tanh_qm;
  s->gate_s16 = gate_s16;
  s->cell_s16 = cell_s16;
  s->hidden_s8 = hidden_s8;
}
