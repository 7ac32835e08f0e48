/* Stores a part of a vector of floats, for AVX2. */
#ifndef PYLITE_STORE_FLOATS_H
#define PYLITE_STORE_FLOATS_H
#include "simd.h"
#include <immintrin.h>

/* Stores the first n floats, all or none included.  AMD's CPUs take long for masked stores, so it uses none. */
PL_INLINE void store_floats(float *y, __m256 v, ptrdiff_t n) {
  __m128 x = _mm256_castps256_ps128(v);
  if (n >= 8) {
    _mm256_storeu_ps(y, v);
    return;
  }
  if (n <= 0) return;
  if (n & 4) {
    _mm_storeu_ps(y, x);
    x = _mm256_extractf128_ps(v, 1);
    y += 4;
  }
  if (n & 2) {
    _mm_storel_pi((__m64 *)y, x);
    x = _mm_movehl_ps(x, x);
    y += 2;
  }
  if (n & 1) _mm_store_ss(y, x);
}
#endif
