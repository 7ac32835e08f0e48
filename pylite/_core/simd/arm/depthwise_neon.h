/* Shared by the 8-bit depthwise convolutions for NEON and dotprod: blocks of 8 channels, several pixels at a time. */
#include "neon.h"

/* Channels of a block, outputs that are computed together, and output lines of a call, which share prepared weights. */
enum { NR = 8, TOGETHER = 4, LINES = 16 };

typedef uint8_t element;
/* The arguments of depthwise_q8. */
typedef struct { int flip, w_zero; const void *w; const pl_columns *q; } parameters;
/* The sums of channels 0 to 3 and 4 to 7 of a block. */
typedef struct { int32x4_t low, high; } sums;
PL_INLINE sums load_sums(const int32_t *p) { return (sums){vld1q_s32(p), vld1q_s32(p + 4)}; }

/* flip and w_zero of depthwise_q8, and the parameters of pl_columns for a block of channels. */
typedef struct { int flip, w_zero; scaling scaling[2]; const int32_t *bias, *left; ends ends; } finish_params;
PL_INLINE finish_params finish_params_of(int flip, int w_zero, const pl_columns *q, ptrdiff_t j) {
  return (finish_params){flip, w_zero, {scaling_of(q, j), scaling_of(q, j + 4)}, q->bias + j,
                         q->left ? q->left + j : NULL, ends_of(q)};
}
/* Turns the sums of N outputs into bytes, and writes these, `step` apart. */
PL_INLINE void finish(int N, const sums *from, const finish_params *f, const int32_t *left, uint8_t *y,
                      ptrdiff_t step) {
  int32x4_t acc[TOGETHER][4];
  uint8x16_t bytes[TOGETHER];
#pragma GCC unroll 4
  for (int i = 0; i < N; i++) acc[i][0] = from[i].low, acc[i][1] = from[i].high;
  if (f->ends.relu && !left) requantize(N, 2, acc, f->scaling, 1, NULL);
  else requantize(N, 2, acc, f->scaling, 0, left);
  narrow(N, 2, acc, &f->ends, bytes);
#pragma GCC unroll 4
  for (int i = 0; i < N; i++) store_half(y + i * step, bytes, i);
}
/* Two outputs whose sums are not yet bytes, and where these go.  On in-order cores, their requantization fills the time
 * in which the products of the next two outputs wait for their operands. */
typedef struct { int32x4_t acc[2][4]; narrowed to; uint8_t *y[2]; } pending;
enum { FINISH_STEPS = REQUANTIZE_STEPS + NARROW_STEPS + 1 };
PL_INLINE pending pending_of(const sums *from, uint8_t *y0, uint8_t *y1) {
  return (pending){.acc = {{from[0].low, from[0].high}, {from[1].low, from[1].high}}, .y = {y0, y1}};
}
/* Does steps first .. end - 1 of FINISH_STEPS: requantization, without a shift to the left, narrowing and writing. */
PL_INLINE void finish_steps(int first, int end, int relu, const finish_params *f, pending *p) {
#pragma GCC unroll 16
  for (int step = first; step < end; step++)
    if (step < REQUANTIZE_STEPS) {
      requantize_step(step, 2, 2, p->acc, f->scaling, relu, NULL);
    } else if (step < FINISH_STEPS - 1) {
      narrow_step(step - REQUANTIZE_STEPS, 2, 2, p->acc, &f->ends, &p->to);
    } else {
      store_half(p->y[0], p->to.bytes, 0);
      store_half(p->y[1], p->to.bytes, 1);
    }
}
