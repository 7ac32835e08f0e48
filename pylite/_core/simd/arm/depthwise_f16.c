/* Float16 depthwise convolutions, with Armv8.2's float16 arithmetic: blocks of two vectors of channels. */
enum { VECTORS = 2 };
#include "depthwise_f16.h"

static void depthwise_f16(const pl_dw_lines *g, const uint16_t *w, const uint16_t *bias, float low, float high,
                          uint16_t *y) {
  if (g->c >= LANES && g->c < NR) pl_depthwise_f16_few(g, w, bias, low, high, y);
  else depthwise(g, (const element *)w, (const element *)bias, low, high, (element *)y);
}

PL_FILL(depthwise_f16, s) {
  s->depthwise_f16 = depthwise_f16;
}
