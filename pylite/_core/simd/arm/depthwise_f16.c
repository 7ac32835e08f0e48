/* Float16 depthwise convolutions and sums, for CPUs with Armv8.2's arithmetic of half precision. */
enum { VECTORS = 2 };
#include "depthwise_f16.h"

static void depthwise_f16(const pl_dw_window *g, const uint16_t *w, const uint16_t *bias, float low, float high,
                          uint16_t *y) {
  if (g->c >= LANES && g->c < NR) pl_depthwise_f16_few(g, w, bias, low, high, y);
  else depthwise(g, (const element *)w, (const element *)bias, low, high, (element *)y);
}

static void add_f16(size_t n, const void *va, int a_step, const void *vb, int b_step, void *vy, const void *p) {
  const element *a = va, *b = vb;
  element *y = vy;
  float limits[2];
  memcpy(limits, p, sizeof limits);
  const VECTOR low = SPLAT(limits[0]), high = SPLAT(limits[1]);
  for (size_t i = 0; i < n; i += LANES, a += LANES * a_step, b += LANES * b_step, y += LANES) {
    element first[LANES], second[LANES];
    const size_t some = n - i < LANES ? n - i : LANES;
    const int whole = some == LANES;
    if (!whole && a_step) memcpy(first, a, some * sizeof *a);
    if (!whole && b_step) memcpy(second, b, some * sizeof *b);
    const VECTOR left = a_step ? LOAD(whole ? a : first) : vld1q_dup_f16(a);
    const VECTOR right = b_step ? LOAD(whole ? b : second) : vld1q_dup_f16(b);
    const VECTOR sum = MIN(high, MAX(low, vaddq_f16(left, right)));
    if (whole) STORE(y, sum);
    else {
      STORE(first, sum);
      memcpy(y, first, some * sizeof *y);
    }
  }
}

PL_FILL(depthwise_f16, s) {
  s->depthwise_f16 = depthwise_f16;
  s->add_f16 = add_f16;
}
