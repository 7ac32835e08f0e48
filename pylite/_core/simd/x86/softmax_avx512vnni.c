/* Softmax of rows of up to 16 elements for AVX-512: a row is one vector.  The portable function computes longer
 * ones, and those with a negative beta. */
#include "avx512vnni.h"
#include <float.h>
#include <string.h>

/* The slots of the level that this one uses. */
static void (*portable_softmax)(size_t rows, size_t n, float beta, const float *x, float *y);
static void (*exp_f32) PL_UNARY;

/* Sets each of the first n lanes of v to the maximum or the sum of all of them, by `join`. */
#define TREE(join, v, n) \
  v = join(v, _mm512_permute_ps(v, 0xB1)); \
  v = join(v, _mm512_permute_ps(v, 0x4E)); \
  if (n > 4) v = join(v, _mm512_shuffle_f32x4(v, v, 0xB1)); \
  if (n > 8) v = join(v, _mm512_shuffle_f32x4(v, v, 0x4E));

static void softmax_f32(size_t rows, size_t n, float beta, const float *x, float *y) {
  enum { BLOCK = 1024 }; /* elements for one call of exp_f32 */
  float block[BLOCK + LANES];
  if (n > LANES || beta < 0) {
    portable_softmax(rows, n, beta, x, y);
    return;
  }
  const __mmask16 lanes = first_lanes((ptrdiff_t)n);
  const __m512 lowest = _mm512_set1_ps(-FLT_MAX), factor = _mm512_set1_ps(beta), one = _mm512_set1_ps(1);
  for (size_t m; rows; rows -= m, x += m * n, y += m * n) {
    m = rows < BLOCK / n ? rows : BLOCK / n;
    for (size_t k = 0; k < m * n; k += n) {
      const __m512 v = _mm512_mask_loadu_ps(lowest, lanes, x + k);
      __m512 maximum = v;
      TREE(_mm512_max_ps, maximum, n)
      _mm512_storeu_ps(block + k, _mm512_mul_ps(_mm512_sub_ps(v, maximum), factor)); /* overwritten by the next row */
    }
    exp_f32(m * n, block, block, x);
    for (size_t k = 0; k < m * n; k += n) {
      const __m512 v = _mm512_maskz_loadu_ps(lanes, block + k);
      __m512 sum = v;
      TREE(_mm512_add_ps, sum, n)
      const __m512 result = _mm512_mul_ps(v, _mm512_div_ps(one, sum));
      if (k + LANES <= m * n) _mm512_storeu_ps(y + k, result); /* a masked store would delay the next load */
      else _mm512_mask_storeu_ps(y + k, lanes, result);
    }
  }
}

PL_FILL(softmax_avx512vnni, s) {
  portable_softmax = s->softmax_f32;
  exp_f32 = s->exp_f32;
  s->softmax_f32 = softmax_f32;
}
