/* Float32 depthwise convolutions for NEON, 32 and 64 bit. */
#include "neon.h"

#if defined(__aarch64__)
enum { VECTORS = 2 }; /* vectors per block of channels; the registers hold the sums and weights of as many */
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
