/* Float32 functions without calls or branches, so that the compiler vectorises the loops around them. */
#ifndef PYLITE_FLOATS_H
#define PYLITE_FLOATS_H
#include "rounding.h"
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

PL_INLINE float pl_power_of_two(int32_t n) { /* 2^n, -126 <= n <= 127 */
  int32_t bits = (n + 127) << 23;
  float v;
  memcpy(&v, &bits, 4);
  return v;
}

/* exp(x) to within 2 units in the last place: x = n ln 2 + r, a polynomial in |r| <= ln 2 / 2, and 2^n in two
 * steps, so that subnormal results and infinity come out right.  NaN stays NaN. */
PL_INLINE float pl_expf(float x) {
  x = x < -104.0f ? -104.0f : x;
  x = x > 89.0f ? 89.0f : x;
  const float shifter = 12582912.0f; /* 1.5 * 2^23: adding and subtracting it rounds to a whole number */
  float whole = (x * 1.44269504f + shifter) - shifter;
  float r = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  int32_t n = (int32_t)(whole == whole ? whole : 0.0f), half = n >> 1;
  return p * pl_power_of_two(half) * pl_power_of_two(n - half);
}
#endif
