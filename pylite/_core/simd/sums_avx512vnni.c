/* Sums of 8-bit tensors for AVX-512: see sum_block in rows_binary.h. */
#include "avx512vnni.h"
#include <string.h>

static void (*plain) PL_BINARY; /* where float32 is not sure, and for what is left over */

FORCED __m512 real(const uint8_t *p, int step, __m128i one, __m128i flip) {
  const __m128i bytes = step ? _mm_loadu_si128((const __m128i *)p) : one;
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_xor_si128(bytes, flip)));
}

static void sum_q8 PL_BINARY {
  if (!n) return;
  const uint8_t *pa = a, *pb = b;
  uint8_t *to = y, line[64];
  sum_q_p own;
  memcpy(&own, p, sizeof own);
  const pl_columns q = {.zero_point = own.y_zero, .low = own.low, .high = own.high, .flip = own.flip};
  const ends e = ends_of(&q);
  const __m512 ra = _mm512_set1_ps(own.a_ratio), rb = _mm512_set1_ps(own.b_ratio);
  const __m512 sure = _mm512_set1_ps(own.sure);
  const __m512 start = _mm512_set1_ps(-(float)own.a_zero * own.a_ratio - (float)own.b_zero * own.b_ratio);
  const __m128i one_a = _mm_set1_epi8((char)*pa), one_b = _mm_set1_epi8((char)*pb), flip = _mm512_castsi512_si128(e.flip);
  size_t i = 0;
  for (; i + 64 <= n; i += 64) {
    const uint8_t *ai = a_step ? pa + i : pa, *bi = b_step ? pb + i : pb;
    __m512 off[4], far = _mm512_setzero_ps(); /* how far from an integer */
    __m512i v[4];
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) {
      const __m512 r = _mm512_fmadd_ps(real(ai + 16 * k, a_step, one_a, flip), ra,
                                       _mm512_fmadd_ps(real(bi + 16 * k, b_step, one_b, flip), rb, start));
      off[k] = _mm512_abs_ps(_mm512_reduce_ps(r, 0));
      far = _mm512_max_ps(far, off[k]);
      v[k] = _mm512_cvtps_epi32(r);
    }
    __m512i bytes = in_order(narrow(v[0], v[1], v[2], v[3], &e));
    if (__builtin_expect(_mm512_cmp_ps_mask(far, sure, _CMP_GT_OQ), 0)) { /* y may be a or b */
      _mm512_storeu_si512(line, bytes);
      for (int k = 0; k < 4; k++)
        for (unsigned left = _mm512_cmp_ps_mask(off[k], sure, _CMP_GT_OQ); left; left &= left - 1) {
          const int at = k * 16 + __builtin_ctz(left);
          plain(1, ai + (a_step ? at : 0), 1, bi + (b_step ? at : 0), 1, line + at, p);
        }
      bytes = _mm512_loadu_si512(line);
    }
    _mm512_storeu_si512(to + i, bytes);
  }
  if (i < n) plain(n - i, a_step ? pa + i : pa, a_step, b_step ? pb + i : pb, b_step, to + i, p);
}

void pl_fill_sums_avx512vnni(pl_slots *s);
void pl_fill_sums_avx512vnni(pl_slots *s) {
  plain = s->sum_q8;
  s->sum_q8 = sum_q8;
}
