/* Shared by the 8-bit micro-kernels for AVX2 and AVX-VNNI: accumulators to bytes.
 *
 * requantize() rounds accumulators, _mm256_packs_epi32 makes them 16-bit numbers, narrow() clamps these and turns them
 * into bytes, and store_lines() writes the bytes. */
#ifndef PYLITE_AVX2_H
#define PYLITE_AVX2_H
#include "rounding.h"
#include "simd.h"
#include <immintrin.h>
#include <string.h>

enum { NR = 16, LANES = 8 }; /* columns or channels of a panel or block, accumulators of a vector */

PL_INLINE __m256i load(const int32_t *p) { return _mm256_loadu_si256((const __m256i *)p); }

/* Broadcasts four bytes, at any address, to all lanes. */
PL_INLINE __m256i broadcast32(const void *from) {
  int32_t four;
  memcpy(&four, from, sizeof four);
  return _mm256_set1_epi32(four);
}

#if defined(__AVXVNNI__)
/* acc += four unsigned bytes of u times four signed bytes of s, in each lane. */
#define DOT(acc, u, s) __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(acc) : "x"(u), "x"(s))
#endif

/* How accumulators are rounded: by MBQM32; in float32 (see pl_columns.fit); or in float32, with negative results
 * clamped to the zero point. */
enum { BY_RULE, FIT, FIT_RELU };
PL_INLINE int rounding_of(const pl_columns *q) { return !q->fit ? BY_RULE : q->low == q->zero_point ? FIT_RELU : FIT; }

/* Rounds 8 accumulators, of columns j to j + 7, to results less the zero point.  The second rounding of MBQM32 is
 * (v + half - (v < 0)) >> right; if v is not negative, the sum may reach 2^31, so it is unsigned. */
PL_INLINE __m256i requantize(int rounding, __m256i acc, const pl_columns *q, ptrdiff_t j) {
  if (rounding != BY_RULE) {
    const __m256 x = _mm256_cvtepi32_ps(acc);
    __m256 start = _mm256_loadu_ps(q->start + j);
    if (rounding == FIT) start = _mm256_or_ps(_mm256_and_ps(x, _mm256_set1_ps(-0.0f)), start);
    return _mm256_cvttps_epi32(_mm256_fmadd_ps(x, _mm256_loadu_ps(q->scale + j), start));
  }
  const __m256i nudge = _mm256_set1_epi64x(1 << 30);
  if (q->left) acc = _mm256_sllv_epi32(acc, load(q->left + j));
  __m256i even = _mm256_mul_epi32(acc, load(q->mult + j));
  __m256i odd = _mm256_mul_epi32(_mm256_srli_epi64(acc, 32), load(q->odd + j));
  even = _mm256_srli_epi64(_mm256_add_epi64(even, nudge), 31);
  odd = _mm256_slli_epi64(_mm256_add_epi64(odd, nudge), 1);
  __m256i v = _mm256_blend_epi32(even, odd, 0xAA);
  __m256i negative = _mm256_srlv_epi32(v, load(q->sign + j));
  const __m256i sum = _mm256_sub_epi32(_mm256_add_epi32(v, load(q->half + j)), negative), right = load(q->right + j);
  return _mm256_castps_si256(_mm256_blendv_ps(_mm256_castsi256_ps(_mm256_srlv_epi32(sum, right)),
                                              _mm256_castsi256_ps(_mm256_srav_epi32(sum, right)),
                                              _mm256_castsi256_ps(v)));
}

/* Clamps the 16-bit results of two lines, and turns them into bytes; the pack interleaves their 128-bit halves. */
PL_INLINE __m256i narrow(__m256i a, __m256i b, const pl_columns *q) {
  const __m256i zero_point = _mm256_set1_epi16((short)q->zero_point);
  __m256i y = _mm256_packs_epi16(_mm256_adds_epi16(a, zero_point), _mm256_adds_epi16(b, zero_point));
  y = _mm256_max_epi8(_mm256_min_epi8(y, _mm256_set1_epi8((char)q->high)), _mm256_set1_epi8((char)q->low));
  return _mm256_xor_si256(y, _mm256_set1_epi8((char)q->flip));
}

/* Stores n < 16 bytes, as two words that overlap. */
static __attribute__((noinline)) void store_part(uint8_t *y, __m128i v, ptrdiff_t n) {
  const uint64_t low = (uint64_t)_mm_cvtsi128_si64(v), high = (uint64_t)_mm_extract_epi64(v, 1);
  if (n >= 8) {
    const uint64_t last = n > 8 ? low >> 8 * (n - 8) | high << (128 - 8 * n) : low;
    memcpy(y, &low, 8);
    memcpy(y + n - 8, &last, 8);
  } else if (n >= 4) {
    const uint64_t last = low >> 8 * (n - 4);
    memcpy(y, &low, 4);
    memcpy(y + n - 4, &last, 4);
  } else {
    for (ptrdiff_t i = 0; i < n; i++) y[i] = (uint8_t)(low >> 8 * i);
  }
}
PL_INLINE void store(uint8_t *y, __m128i v, ptrdiff_t n) {
  if (n >= 16) _mm_storeu_si128((__m128i *)y, v);
  else store_part(y, v, n);
}
/* Stores N lines of n bytes; N is 1 or 2. */
PL_INLINE void store_lines(int N, uint8_t *y, ptrdiff_t next, __m256i v, ptrdiff_t n) {
  store(y, _mm256_castsi256_si128(v), n);
  if (N > 1) store(y + next, _mm256_extracti128_si256(v, 1), n);
}
#endif
