/* Float32 depthwise convolutions for 32-bit and 64-bit NEON: depthwise_floats.h. */
#include "neon.h"

#if defined(__aarch64__)
enum { VECTORS = 2 }; /* as many as registers hold the sums and weights of */
#else
enum { VECTORS = 1 };
#endif
enum { LANES = 4 };
typedef float element;
#define VECTOR float32x4_t
#define LOAD vld1q_f32
#define STORE vst1q_f32
#define SPLAT vdupq_n_f32
#define FMA vfmaq_f32
#define MIN vminq_f32
#define MAX vmaxq_f32
#define SCALE(sum, scale, bias) vaddq_f32(vmulq_f32(sum, scale), bias)
PL_INLINE element add_product(element sum, element x, element w) { return sum + x * w; }
#include "depthwise_floats.h"

PL_FILL(depthwise_f32_neon, s) {
  s->depthwise_f32 = depthwise;
  s->dw_f32_lines = LINES;
}
