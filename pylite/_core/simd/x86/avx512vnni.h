/* Shared by the 8-bit micro-kernels for AVX-512 with VNNI: dot products, and accumulators to bytes.
 *
 * requantize() rounds accumulators, narrow() clamps the results and turns them into bytes, in_order() sorts these, and
 * store() writes them.  pl_requantize_lines() does all of it if float32 does not suffice. */
#ifndef PYLITE_AVX512VNNI_H
#define PYLITE_AVX512VNNI_H
#include "rounding.h"
#include "simd.h"
#include <immintrin.h>
#include <string.h>

enum { NR = 64, LANES = 16 }; /* columns or channels of a panel or block, accumulators of a vector */

/* acc += four unsigned bytes of u times four signed bytes of s, in each lane.  For the intrinsic, gcc 12 adds a
 * register copy each time. */
#define DOT(acc, u, s) __asm__("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(u), "v"(s))

/* Broadcasts four bytes, at any address, to all lanes. */
PL_INLINE __m512i broadcast32(const uint8_t *from) {
  int32_t four;
  memcpy(&four, from, sizeof four);
  return _mm512_set1_epi32(four);
}

/* Masks of the first n bytes or lanes of a vector. */
PL_INLINE __mmask64 first_bytes(ptrdiff_t n) { return n >= 64 ? ~0ull : (1ull << n) - 1; }
PL_INLINE __mmask16 first_lanes(ptrdiff_t n) { return n >= 16 ? 0xffff : n < 0 ? 0 : (__mmask16)((1u << n) - 1); }

/* The parameters of requantize() for 16 columns: see pl_columns. */
typedef struct { __m512 scale, rest, start; } scaling;
PL_INLINE scaling scaling_of(const pl_columns *q, ptrdiff_t j) {
  return (scaling){_mm512_loadu_ps(q->scale + j), _mm512_loadu_ps(q->rest + j), _mm512_loadu_ps(q->start + j)};
}
/* 16 accumulators to 32-bit results less the zero point, if pl_columns.fit.  relu: negative results may be any number
 * up to 0, because they are clamped, which saves an instruction. */
PL_INLINE __m512i requantize(int relu, __m512i acc, const scaling *c) {
  const __m512i sign = _mm512_set1_epi32(INT32_MIN);
  __m512 x = _mm512_cvtepi32_ps(acc), start = c->start;
  if (!relu) start = _mm512_castsi512_ps(_mm512_ternarylogic_epi32(acc, sign, _mm512_castps_si512(start), 0x6A));
  return _mm512_cvttps_epi32(_mm512_fmadd_round_ps(x, c->scale, _mm512_fmadd_ps(x, c->rest, start),
                                                   _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC));
}

/* How results become bytes.  lift: the zero point less the lowest result; span: the highest result less the lowest;
 * lowest: that result as a byte of y. */
typedef struct { __m512i lift, span, lowest; } ends;
PL_INLINE ends ends_of(const pl_columns *q) {
  return (ends){_mm512_set1_epi16((short)(q->zero_point - q->low)), _mm512_set1_epi8((char)(q->high - q->low)),
                _mm512_set1_epi8((char)(q->low ^ q->flip))};
}
/* Clamps four vectors of results, and turns them into 64 bytes; the packs interleave their 128-bit parts.  relu: lift
 * is 0. */
PL_INLINE __m512i narrow(int relu, __m512i v0, __m512i v1, __m512i v2, __m512i v3, const ends *e) {
  __m512i a = _mm512_packs_epi32(v0, v1), b = _mm512_packs_epi32(v2, v3);
  if (!relu) a = _mm512_adds_epi16(a, e->lift), b = _mm512_adds_epi16(b, e->lift);
  return _mm512_add_epi8(_mm512_min_epu8(_mm512_packus_epi16(a, b), e->span), e->lowest);
}
/* Are results below the zero point clamped to it? */
PL_INLINE int has_relu(const pl_columns *q) { return q->low == q->zero_point; }

/* Undoes the interleaving of narrow(). */
PL_INLINE __m512i in_order(__m512i bytes) {
  return _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), bytes);
}

/* Stores the first n of 16 V bytes. */
PL_INLINE void store(int V, uint8_t *y, __m512i v, int n) {
  if (V >= 3) {
    if (n == 64) _mm512_storeu_si512(y, v);
    else _mm512_mask_storeu_epi8(y, first_bytes(n), v);
  } else if (V == 2) {
    if (n == 32) _mm256_storeu_si256((__m256i *)y, _mm512_castsi512_si256(v));
    else _mm256_mask_storeu_epi8(y, (__mmask32)first_bytes(n), _mm512_castsi512_si256(v));
  } else {
    if (n == 16) _mm_storeu_si128((__m128i *)y, _mm512_castsi512_si128(v));
    else _mm_mask_storeu_epi8(y, (__mmask16)first_bytes(n), _mm512_castsi512_si128(v));
  }
}
/* Requantizes lines of accumulators, `step` apart, by MBQM32 itself, without float32.  linear: columns are consecutive;
 * else in the order that narrow() takes.  Not inlined, because it would take registers from its callers. */
void pl_requantize_lines(int rows, int n, const int32_t *acc, ptrdiff_t step, int linear, const pl_columns *q,
                         ptrdiff_t j, uint8_t *y, ptrdiff_t ldy);
#endif
