/* 8-bit depthwise convolutions of any filter: depthwise_lines.h for bytes, with separate functions for single outputs
 * and for large filters.
 *
 * Defines lines_q8(), which has the arguments of depthwise_q8.
 *
 * Before including it include depthwise_neon.h and define
 *   what depthwise_lines.h lists, but for element, NR, TOGETHER, sums, parameters, border and finish_outputs; `filter`
 *     has the member `finish` (finish_params);
 *   weight_of(g, w_zero, w, block, tap, channel): a weight less its zero point, from the packed weights w;
 *   add_all_taps(g, p, block, c, taps, acc): adds the products of one output to acc; its pixels are taps[t] + c. */
PL_INLINE uint8_t border(const pl_dw_lines *g, const filter *f) { return *g->zero ^ (uint8_t)f->finish.flip; }
PL_INLINE void finish_outputs(int N, const sums *acc, const filter *from, uint8_t *y, ptrdiff_t step) {
  const finish_params *const f = &from->finish;
#pragma GCC unroll 2
  for (int i = 0; i < N; i += TOGETHER) {
    const int n = N < TOGETHER ? N : TOGETHER;
    if (f->left) finish(n, acc + i, f, f->left, y + i * step, step);
    else finish(n, acc + i, f, NULL, y + i * step, step);
  }
}
#include "depthwise_lines.h"

/* The fallback for filters whose lines or weights do not fit the buffers. */
static void large_filter(const pl_dw_lines *g, int flip, int w_zero, const void *w, const pl_columns *q, uint8_t *y) {
  for (int i = 0; i < g->lines; i++)
    for (ptrdiff_t output = 0; output < g->pixels; output++)
      for (ptrdiff_t b = 0; b * NR < g->c; b++) {
        int32_t acc[NR] = {0};
        uint8_t bytes[NR];
        const finish_params f = finish_params_of(flip, w_zero, q, b * NR);
        const ptrdiff_t c = pl_block_start(b, NR, g->c), origin = output * g->stride - g->pad;
        const int n = g->c < NR ? (int)g->c : NR;
        for (int t = 0; t < g->fh * g->fw; t++) {
          const uint8_t *row = g->row[i * g->stride + t / g->fw];
          const ptrdiff_t x = origin + (ptrdiff_t)(t % g->fw) * g->dilation;
          const int inside = row && x >= 0 && x < g->width;
          for (int j = 0; j < n; j++) {
            const int8_t pixel = (int8_t)((inside ? row[x * g->c + c + j] : *g->zero) ^ flip);
            acc[j] += pixel * weight_of(g, w_zero, w, b, t, j);
          }
        }
        sums sum = load_sums(acc);
        sum.low = vaddq_s32(sum.low, load_sums(f.bias).low), sum.high = vaddq_s32(sum.high, load_sums(f.bias).high);
        finish(1, &sum, &f, f.left, bytes, 0);
        memcpy(y + i * g->y_line + output * g->c + c, bytes, (size_t)n);
      }
}

/* Computes a single output pixel, as streaming models have; returns 0 if g has more.  Each weight is used
 * once, so that rearranging weights and copying lines would cost more than they save. */
static int one_output(const pl_dw_lines *g, const parameters *p, uint8_t *y) {
  const uint8_t *taps[PL_MAX_TAPS];
  if (g->lines > 1 || g->pixels > 1 || g->c < NR || g->fh * g->fw > PL_MAX_TAPS) return 0;
  pl_taps(g, 0, 1, taps);
  for (ptrdiff_t b = 0; b * NR < g->c; b++) {
    const finish_params f = finish_params_of(p->flip, p->w_zero, p->q, b * NR);
    const ptrdiff_t c = pl_block_start(b, NR, g->c);
    sums acc = load_sums(f.bias);
    add_all_taps(g, p, b, c, taps, &acc);
    finish(1, &acc, &f, f.left, y + c, 0);
  }
  return 1;
}

static void lines_q8(const pl_dw_lines *g, int flip, int w_zero, const void *w, const pl_columns *q, uint8_t *y) {
  const parameters p = {flip, w_zero, w, q};
  if (!one_output(g, &p, y) && !depthwise_lines(g, &p, y)) large_filter(g, flip, w_zero, w, q, y);
}
