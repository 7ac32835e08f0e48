/* Whether float arithmetic takes subnormal numbers for 0.  x86 CPUs compute each of them in microcode, which takes as
 * long as fifty others, so steps of float arithmetic flush them, as XNNPACK does.  Arm's have no such cost. */
#ifndef PYLITE_SUBNORMALS_H
#define PYLITE_SUBNORMALS_H
#if defined(__SSE2__)
#include <xmmintrin.h>
#define PL_FLUSH_BITS 0x8040u /* of MXCSR: results and operands */
#define PL_FLAG_BITS 0x3Fu    /* the exceptions that there were */
/* This thread's setting, and another one. */
static inline unsigned pl_float_mode(void) { return _mm_getcsr(); }
static inline void pl_set_float_mode(unsigned mode) { _mm_setcsr(mode); }
#else
#define PL_FLUSH_BITS 0u
#define PL_FLAG_BITS 0u
static inline unsigned pl_float_mode(void) { return 0; }
static inline void pl_set_float_mode(unsigned mode) { (void)mode; }
#endif
#endif
