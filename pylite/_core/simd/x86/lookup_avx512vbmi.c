/* Look-up tables of bytes for AVX-512 with VBMI: an instruction looks up 64 bytes in 128 entries.  lines8 looks them
 * up, too: its parameters begin with the table. */
#include "simd.h"
#include <immintrin.h>

static void lut8(size_t n, const void *vx, void *vy, const void *table) {
  const uint8_t *x = vx, *t = table;
  uint8_t *y = vy;
  const __m512i t0 = _mm512_loadu_si512(t), t1 = _mm512_loadu_si512(t + 64);
  const __m512i t2 = _mm512_loadu_si512(t + 128), t3 = _mm512_loadu_si512(t + 192);
  for (size_t i = 0; i < n; i += 64) {
    __mmask64 bytes = n - i < 64 ? ((__mmask64)1 << (n - i)) - 1 : ~(__mmask64)0;
    __m512i v = _mm512_maskz_loadu_epi8(bytes, x + i);
    __m512i low = _mm512_permutex2var_epi8(t0, v, t1), high = _mm512_permutex2var_epi8(t2, v, t3);
    _mm512_mask_storeu_epi8(y + i, bytes, _mm512_mask_blend_epi8(_mm512_movepi8_mask(v), low, high));
  }
}

PL_FILL(lookup_avx512vbmi, s) { s->lut8 = s->lines8 = lut8; }
