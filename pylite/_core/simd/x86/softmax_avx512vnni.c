/* Softmax of short rows for AVX-512. */
#include "avx512vnni.h"
#include <float.h>
#include <string.h>

/* ---- rows that fit a vector ---- */
static void (*longer)(size_t rows, size_t n, float beta, const float *x, float *y);
static void (*exponential) PL_UNARY;

/* Joins each of the first n lanes with all others. */
#define TREE(join, v, n) \
  v = join(v, _mm512_permute_ps(v, 0xB1)); \
  v = join(v, _mm512_permute_ps(v, 0x4E)); \
  if (n > 4) v = join(v, _mm512_shuffle_f32x4(v, v, 0xB1)); \
  if (n > 8) v = join(v, _mm512_shuffle_f32x4(v, v, 0x4E));

static void softmax_f32(size_t rows, size_t n, float beta, const float *x, float *y) {
  enum { TOGETHER = 1024 }; /* elements that go through the exponential at once */
  float block[TOGETHER + LANES];
  if (n > LANES || beta < 0) {
    longer(rows, n, beta, x, y);
    return;
  }
  const __mmask16 lanes = first_lanes((ptrdiff_t)n);
  const __m512 lowest = _mm512_set1_ps(-FLT_MAX), factor = _mm512_set1_ps(beta), one = _mm512_set1_ps(1);
  for (size_t m; rows; rows -= m, x += m * n, y += m * n) {
    m = rows < TOGETHER / n ? rows : TOGETHER / n;
    for (size_t k = 0; k < m * n; k += n) {
      const __m512 v = _mm512_mask_loadu_ps(lowest, lanes, x + k);
      __m512 top = v;
      TREE(_mm512_max_ps, top, n)
      _mm512_storeu_ps(block + k, _mm512_mul_ps(_mm512_sub_ps(v, top), factor)); /* excess: overwritten next */
    }
    exponential(m * n, block, block, x);
    for (size_t k = 0; k < m * n; k += n) {
      const __m512 v = _mm512_maskz_loadu_ps(lanes, block + k);
      __m512 sum = v;
      TREE(_mm512_add_ps, sum, n)
      const __m512 share = _mm512_mul_ps(v, _mm512_div_ps(one, sum));
      if (k + LANES <= m * n) _mm512_storeu_ps(y + k, share); /* the next load would wait for a masked store */
      else _mm512_mask_storeu_ps(y + k, lanes, share);
    }
  }
}

PL_FILL(softmax_avx512vnni, s) {
  longer = s->softmax_f32;
  exponential = s->exp_f32;
  s->softmax_f32 = softmax_f32;
}
