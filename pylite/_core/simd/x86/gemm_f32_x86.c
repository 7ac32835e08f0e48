/* Float32 matrix products, depthwise convolutions and Winograd transforms for AVX2 with FMA and for AVX-512: the
 * definitions that gemm_f32.h, depthwise_f32.h and winograd_f32.h need; and conversion from float16. */
#include "rounding.h"
#include <immintrin.h>

#if defined(__AVX512F__)
#define VECTOR __m512
#define OF(name) _mm512_##name
enum { LANES = 16, MR = 12, NV = 2 };
#else
#include "store_floats.h"
#define VECTOR __m256
#define OF(name) _mm256_##name
enum { LANES = 8, MR = 6, NV = 2 };
#define NARROW_MR 12
#define NEXT_ROWS {0, 1, 2, 2, 4, 5, 6, 7, 8, 5, 5, 6, 12, 7, 7, 8, 8}
#define WIDE_ROWS {0, 1, 2, 3, 4, 5, 6, 4, 4, 5, 5, 6, 6, 5, 5}
#define PARTED 1
#endif
#define LOAD OF(loadu_ps)
#if defined(__AVX512F__)
#define MASK __mmask16
#define FIRST(n) (__mmask16)((n) >= LANES ? 0xffff : (n) > 0 ? (1u << (n)) - 1 : 0)
#define LOAD_MASKED(p, m) _mm512_maskz_loadu_ps(m, p)
#define STORE_MASKED(p, v, m) _mm512_mask_storeu_ps(p, m, v)
#define STORE_FIRST(p, v, n) STORE_MASKED(p, v, FIRST(n))
#define WHOLE 0
#define LOAD_HALVES(p) _mm256_loadu_si256((const __m256i *)(p))
#else
#define MASK __m256i
PL_INLINE MASK FIRST(ptrdiff_t n) {
  static const int32_t lanes[2 * LANES] = {-1, -1, -1, -1, -1, -1, -1, -1};
  return _mm256_loadu_si256((const __m256i *)(lanes + LANES - (n < 0 ? 0 : n < LANES ? n : LANES)));
}
#define LOAD_MASKED(p, m) _mm256_maskload_ps(p, m)
#define STORE_MASKED(p, v, m) _mm256_maskstore_ps(p, m, v)
#define STORE_FIRST store_floats
#define WHOLE 1
#define LOAD_HALVES(p) _mm_loadu_si128((const __m128i *)(p))
#endif
#define LOAD_FIRST(p, n) LOAD_MASKED(p, FIRST(n))
#define STORE OF(storeu_ps)
#define SPLAT OF(set1_ps)
#define MULTIPLY_ADD(acc, a, b) OF(fmadd_ps)(a, b, acc)
#define ADD OF(add_ps)
#define SUBTRACT OF(sub_ps)
#define MULTIPLY OF(mul_ps)
#define MIN OF(min_ps)
#define MAX OF(max_ps)
#include "gemm_f32.h"
#include "depthwise_f32.h"
#include "winograd_f32.h"

static void half_to_float(size_t n, const void *x, void *y, const void *p) {
  const uint16_t *from = x;
  float *to = y;
  size_t i = 0;
  (void)p;
  for (; i + LANES <= n; i += LANES) STORE(to + i, OF(cvtph_ps)(LOAD_HALVES(from + i)));
  for (; i < n; i++) to[i] = _cvtsh_ss(from[i]);
}

PL_FILL(gemm_f32_x86, s) {
  s->half_to_float = half_to_float;
  s->gemm_f32 = gemm_f32;
  s->depthwise_f32 = depthwise_f32;
  s->dw_f32_lines = 0;
  s->winograd_in = winograd_in;
  s->winograd_filter = winograd_filter;
  s->winograd_out = winograd_out;
  s->f32 = (pl_tile){.mr = MR, .nr = NV * LANES, .nv = LANES, .kr = 1, .ka = 1, .bytes = sizeof(float)};
}
