/* The sum or the extreme of n floats, in an order that depends on n alone; included by portable_*.h only. */
#ifndef PYLITE_JOINING_H
#define PYLITE_JOINING_H
#include "rounding.h"
#include <stddef.h>

#define JOIN_ADD(a, b) ((a) + (b))
#define JOIN_MAX(a, b) ((b) > (a) ? (b) : (a)) /* ignores NaN */
#define JOIN_MIN(a, b) ((b) < (a) ? (b) : (a))
/* The same for floats, in one instruction if the CPU has one that ignores NaN. */
#if defined(__aarch64__)
#define JOIN_MAX_F32(a, b) __builtin_fmaxf(a, b)
#define JOIN_MIN_F32(a, b) __builtin_fminf(a, b)
#else
#define JOIN_MAX_F32 JOIN_MAX
#define JOIN_MIN_F32 JOIN_MIN
#endif

#define JOIN_HALF(JOIN, half) \
  for (int k = 0; k < half; k++) part[k] = JOIN(part[k], part[k + half]);
/* All f(x[i]) joined: in 64 interleaved partial results, then in 8, each joined pairwise, then one by one.  f may use
 * `sign`. */
#define JOIN_RUN(name, JOIN, START, f) \
  PL_INLINE float name(size_t n, float sign, const float *x) { \
    float total = START; \
    size_t i = 0; \
    (void)sign; \
    if (n >= 64) { \
      float part[64]; \
      for (int k = 0; k < 64; k++) part[k] = START; \
      for (; i + 64 <= n; i += 64) \
        for (int k = 0; k < 64; k++) part[k] = JOIN(part[k], f(x[i + k])); \
      JOIN_HALF(JOIN, 32) JOIN_HALF(JOIN, 16) JOIN_HALF(JOIN, 8) JOIN_HALF(JOIN, 4) JOIN_HALF(JOIN, 2) \
      total = JOIN(part[0], part[1]); \
    } \
    if (n - i >= 8) { \
      float part[8]; \
      for (int k = 0; k < 8; k++) part[k] = START; \
      for (; i + 8 <= n; i += 8) \
        for (int k = 0; k < 8; k++) part[k] = JOIN(part[k], f(x[i + k])); \
      JOIN_HALF(JOIN, 4) JOIN_HALF(JOIN, 2) JOIN_HALF(JOIN, 1) \
      total = JOIN(total, part[0]); \
    } \
    for (; i < n; i++) total = JOIN(total, f(x[i])); \
    return total; \
  }
#endif
