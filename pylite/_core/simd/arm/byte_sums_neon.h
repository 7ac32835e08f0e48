/* Sums of bytes for 64-bit NEON, which adds pairs of bytes to 16-bit sums in one instruction; included by
 * portable_reduction.h alone. */
#include <arm_neon.h>

#define EACH _Pragma("GCC unroll 4") for (int k = 0; k < 4; k++)
/* The sum of n bytes x[i] ^ flip. */
static int32_t byte_sum(ptrdiff_t n, const uint8_t *x, uint8_t flip) {
  enum { STEP = 64, STEPS = 64 }; /* 128 steps could overflow 16 bits */
  const uint8x16_t mask = vdupq_n_u8(flip);
  uint32x4_t total = vdupq_n_u32(0);
  for (; n >= STEP;) {
    uint16x8_t part[4] = {vdupq_n_u16(0), vdupq_n_u16(0), vdupq_n_u16(0), vdupq_n_u16(0)};
    for (int steps = 0; n >= STEP && steps < STEPS; steps++, n -= STEP, x += STEP)
      EACH part[k] = vpadalq_u8(part[k], veorq_u8(vld1q_u8(x + 16 * k), mask));
    EACH total = vpadalq_u16(total, part[k]);
  }
  for (; n >= 16; n -= 16, x += 16) total = vpadalq_u16(total, vpaddlq_u8(veorq_u8(vld1q_u8(x), mask)));
  uint32_t sum = vaddvq_u32(total);
  for (; n > 0; n--) sum += *x++ ^ flip;
  return (int32_t)sum;
}
static void sum_8_run(const pl_reduction *g, size_t c, ptrdiff_t step, ptrdiff_t n, const void *x, void *acc) {
  for (size_t k = 0; k < c; k++)
    ((int32_t *)acc)[k] +=
        byte_sum(n, (const uint8_t *)x + (ptrdiff_t)k * step, (uint8_t)(g->flip ^ 0x80)) - 128 * (int32_t)n;
}
#undef EACH
