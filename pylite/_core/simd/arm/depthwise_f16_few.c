/* Float16 depthwise convolutions of 8 to 15 channels: blocks of one vector.  depthwise_f16.c calls them. */
enum { VECTORS = 1 };
#include "depthwise_f16.h"

void pl_depthwise_f16_few(const pl_dw_lines *g, const uint16_t *w, const uint16_t *bias, float low, float high,
                          uint16_t *y) {
  depthwise(g, (const element *)w, (const element *)bias, low, high, (element *)y);
}

PL_FILL(depthwise_f16_few, s) { (void)s; }
