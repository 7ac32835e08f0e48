/* Constant addends of fused multiply-add on 64-bit Arm.
 *
 * The instruction overwrites its addend, so gcc copies a constant from a register first, which occupies the vector
 * units for as long as the product does.  A load takes none of their time. */
#ifndef PYLITE_ADDEND_NEON_H
#define PYLITE_ADDEND_NEON_H
#include <arm_neon.h>

/* A vector of this number, loaded after `after` is computed: for each one anew, or gcc would keep it in a register. */
#define PL_ADDEND(number, after) \
  __extension__({ \
    static const float32x4_t pl_all = {number, number, number, number}; \
    float32x4_t pl_addend; \
    __asm__("ldr %q0, %1" : "=w"(pl_addend) : "m"(pl_all), "w"(after)); \
    pl_addend; \
  })
#endif
