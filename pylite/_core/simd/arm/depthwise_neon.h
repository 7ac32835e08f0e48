/* Shared by the 8-bit depthwise convolutions for NEON and dotprod: blocks of 8 channels, several pixels at a time. */
#include "neon.h"

enum { NR = 8, TOGETHER = 4, LINES = 16 }; /* LINES: in one call, which then prepares the weights only once */

typedef uint8_t element;
/* The arguments of depthwise_q8. */
typedef struct { int flip, w_zero; const void *w; const pl_columns *q; } parameters;
typedef struct { int32x4_t low, high; } sums;
PL_INLINE sums load_sums(const int32_t *p) { return (sums){vld1q_s32(p), vld1q_s32(p + 4)}; }

/* How input bytes are read, and the parameters by which the sums of a block of channels become bytes. */
typedef struct { int flip, w_zero; scaling scaling[2]; const int32_t *bias, *left; ends ends; } finish_params;
PL_INLINE finish_params finish_params_of(int flip, int w_zero, const pl_columns *q, ptrdiff_t j) {
  return (finish_params){flip, w_zero, {scaling_of(q, j), scaling_of(q, j + 4)}, q->bias + j,
                         q->left ? q->left + j : NULL, ends_of(q)};
}
/* Writes the bytes of N pixels, `step` apart. */
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
/* Writes the bytes of two pixels, whose sums are not shifted left. */
PL_INLINE void finish_pair(const sums *from, const finish_params *f, uint8_t *y0, uint8_t *y1) {
  int32x4_t acc[2][4];
  uint8x16_t bytes[1];
#pragma GCC unroll 2
  for (int i = 0; i < 2; i++) acc[i][0] = from[i].low, acc[i][1] = from[i].high;
  if (f->ends.relu) requantize(2, 2, acc, f->scaling, 1, NULL);
  else requantize(2, 2, acc, f->scaling, 0, NULL);
  narrow(2, 2, acc, &f->ends, bytes);
  store_half(y0, bytes, 0);
  store_half(y1, bytes, 1);
}
