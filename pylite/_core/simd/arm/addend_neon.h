/* Constant addends of fused multiply-add on 64-bit Arm.
 *
 * The instruction overwrites its addend, so gcc first copies a constant from a register; the copy occupies the vector
 * units for as long as the product does.  A load does not occupy them. */
#ifndef PYLITE_ADDEND_NEON_H
#define PYLITE_ADDEND_NEON_H
#include <arm_neon.h>

/* A vector of this number, loaded each time after `after` is computed: otherwise gcc would keep it in a register. */
#define PL_ADDEND(number, after) \
  __extension__({ \
    static const float32x4_t pl_all = {number, number, number, number}; \
    float32x4_t pl_addend; \
    __asm__("ldr %q0, %1" : "=w"(pl_addend) : "m"(pl_all), "w"(after)); \
    pl_addend; \
  })
#endif
