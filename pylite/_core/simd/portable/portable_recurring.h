/* Integer recurrent layers; included by portable.c alone. */
#include "fixed16.h"

static void gate_s16(int n, const int32_t *acc, const int32_t *bias, int32_t m, int e, int16_t *g) {
  const int left = e > 0 ? e : 0, right = e < 0 ? -e : 0;
  for (int i = 0; i < n; i++) {
    int32_t v = pl_mul_high(pl_shl32((int32_t)((uint32_t)acc[i] + (uint32_t)bias[i]), left), m);
    g[i] = (int16_t)pl_sat16(pl_rdbpot(v, right) + g[i]);
  }
}

static void peephole_s16(int n, const int16_t *a, const int16_t *b, int32_t m, int e, int16_t *g) {
  const int whole = n - n % PL_PEEPHOLE;
  for (int i = 0; i < whole; i++) g[i] = (int16_t)pl_sat16(pl_ruy(a[i] * b[i], m, e) + g[i]);
  for (int i = whole; i < n; i++) g[i] = (int16_t)pl_sat16(pl_mbqm32(a[i] * b[i], m, e) + g[i]);
}

static void norm_s16(int n, const int16_t *scale, const int32_t *bias, int32_t m, int e, int32_t guard, int16_t *g) {
  int64_t sum = 0, squares = 0;
  int shift;
  for (int i = 0; i < n; i++) {
    sum += g[i];
    squares += (int32_t)g[i] * g[i];
  }
  const int32_t mean = (int32_t)(sum * 1024 / n);
  const int64_t variance = squares * ((1 << 20) / n) - (int64_t)mean * mean;
  const int32_t whole = (int32_t)(variance / (1 << 20));
  const int32_t root = pl_inv_sqrt(whole < 1 ? guard : whole, &shift);
  for (int i = 0; i < n; i++) {
    int32_t t = pl_mbqm32(1024 * g[i] - mean, root, shift);
    t = (int32_t)((uint32_t)t * (uint32_t)scale[i] + (uint32_t)bias[i]);
    t = (t > 0 ? t + 512 : t - 512) / 1024;
    g[i] = (int16_t)pl_sat16(pl_mbqm32(t, m, e + 12));
  }
}

static void logistic_q3(int n, const int16_t *x, int16_t *y) {
  const fx16_q q = fx16_format(3);
  PL_INDEPENDENT
  for (int i = 0; i < n; i++) y[i] = fx16_logistic(x[i], q);
}

static void tanh_qm(int n, int m, const int16_t *x, int16_t *y) {
  const fx16_q q = fx16_format(m + 1);
  PL_INDEPENDENT
  for (int i = 0; i < n; i++) y[i] = fx16_tanh(x[i], q);
}

static void cell_s16(int n, const int16_t *in, const int16_t *f, const int16_t *g, int shift, int16_t *c) {
  for (int i = 0; i < n; i++) {
    int32_t kept = pl_rdbpot(f[i] * c[i], 15);
    int32_t more = (int16_t)pl_rdbpot((in ? in[i] : 32767 - f[i]) * g[i], shift);
    c[i] = (int16_t)pl_sat16((int16_t)kept + more);
  }
}

static void hidden_s8(int n, const int16_t *o, const int16_t *t, int32_t m, int e, int32_t zero, int8_t *y) {
  for (int i = 0; i < n; i++) y[i] = (int8_t)pl_clamp32(pl_mbqm32(o[i] * t[i], m, e) + zero, -128, 127);
}

static void filter_s16(int n, int steps, const int16_t *x, const int16_t *time, int16_t *memory, int32_t *sum) {
  memmove(memory, memory + 1, ((size_t)n * steps - 1) * sizeof *memory); /* of all filters at once */
  /* A separate loop: otherwise the loads of the sums would wait for the stores. */
  for (int i = 0; i < n; i++) memory[(i + 1) * (ptrdiff_t)steps - 1] = x[i];
  for (int i = 0; i < n; i++, time += steps, memory += steps) {
    uint32_t total = 0;
    int k = 0;
    if (steps < 16) /* shorter than most vectors */
      for (; k + 4 <= steps; k += 4)
        total += (uint32_t)(memory[k] * time[k]) + (uint32_t)(memory[k + 1] * time[k + 1]) +
                 (uint32_t)(memory[k + 2] * time[k + 2]) + (uint32_t)(memory[k + 3] * time[k + 3]);
    for (; k < steps; k++) total += (uint32_t)(memory[k] * time[k]);
    sum[i] = (int32_t)total;
  }
}
