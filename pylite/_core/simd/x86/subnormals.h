/* Flushing subnormal numbers to 0.  x86 CPUs compute with each of them in microcode, which takes as long as fifty
 * normal numbers, so float kernels flush them, as XNNPACK does.  On Arm they cost nothing. */
#ifndef PYLITE_SUBNORMALS_H
#define PYLITE_SUBNORMALS_H
#if defined(__SSE2__)
#include <xmmintrin.h>
#define PL_FLUSH_BITS 0x8040u /* MXCSR: flush results, and treat operands as 0 */
#define PL_FLAG_BITS 0x3Fu    /* MXCSR: exceptions that have occurred */
/* Read and set the calling thread's MXCSR. */
static inline unsigned pl_float_mode(void) { return _mm_getcsr(); }
static inline void pl_set_float_mode(unsigned mode) { _mm_setcsr(mode); }
#else
#define PL_FLUSH_BITS 0u
#define PL_FLAG_BITS 0u
static inline unsigned pl_float_mode(void) { return 0; }
static inline void pl_set_float_mode(unsigned mode) { (void)mode; }
#endif
#endif
