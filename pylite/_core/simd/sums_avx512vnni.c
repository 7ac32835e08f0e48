/* Sums of 8-bit tensors for AVX-512 (see sum_q8 in portable_binary.h), and softmax of short rows. */
#include "avx512vnni.h"
#include <float.h>
#include <string.h>

static void (*plain) PL_BINARY; /* the portable one, for uncertain elements and short arrays */

/* Ratios below 8 with 27 fraction bits: 12 of them in `high`, the rest in `low`. */
enum { FRACTION = 20 };
typedef struct { int16_t high, low; } parts;
static parts parts_of(int32_t ratio) {
  const int32_t high = (ratio + (1 << 14)) >> 15;
  return (parts){(int16_t)high, (int16_t)(ratio - high * (1 << 15))};
}
PL_INLINE __m512i both(int16_t a, int16_t b) {
  return _mm512_set1_epi32((int32_t)((uint32_t)(uint16_t)b << 16 | (uint16_t)a));
}
#define DOT16(acc, x, m) __asm__("vpdpwssd %2, %1, %0" : "+v"(acc) : "v"(x), "v"(m))

PL_INLINE __m512i load(int n, const uint8_t *from, __m512i others) {
  return n == 64 ? _mm512_loadu_si512(from) : _mm512_mask_loadu_epi8(others, first_bytes(n), from);
}

/* a a_ratio + b b_ratio with 20 fraction bits, rounded; by the rule where that is not certain.  The relative error of
 * the ratios is 2^-24, for differences of up to 255; truncation adds 8 units of the last bit. */
static void sum_q8 PL_BINARY {
  const uint8_t *pa = a, *pb = b;
  uint8_t *to = y, line[64];
  uint32_t near[64];
  sum_q_p own;
  memcpy(&own, p, sizeof own);
  size_t i = 0;
  const float ratios = own.a_ratio + (own.b_ratio < 0 ? -own.b_ratio : own.b_ratio);
  if (n >= 16 && own.sure > 0 && own.sure != SUM_EXACT && ratios < 7.9f) {
    const pl_columns q = {.zero_point = own.y_zero, .low = own.low, .high = own.high, .flip = own.flip};
    const ends e = ends_of(&q);
    const __m512i flip = _mm512_set1_epi8((char)own.flip);
    const int32_t ra = (int32_t)(own.a_ratio * (float)(1 << 27)), rb = (int32_t)(own.b_ratio * (float)(1 << 27));
    const parts ma = parts_of(ra), mb = parts_of(rb);
    const __m512i high = both(ma.high, mb.high), low = both(ma.low, mb.low), zero = _mm512_setzero_si512();
    const int64_t zeros = (int64_t)own.a_zero * ra + (int64_t)own.b_zero * rb;
    const int32_t reach = (int32_t)(own.rule * (1 << FRACTION) + ratios * 16) + 9;
    const __m512i start = _mm512_set1_epi32((int32_t)((1 << (FRACTION - 1)) - (zeros >> (27 - FRACTION))));
    const __m512i over = _mm512_set1_epi32(reach), last = _mm512_set1_epi32((1 << FRACTION) - 1);
    const __m512i most = _mm512_set1_epi32(2 * reach);
    const __m512i one_a = _mm512_set1_epi8((char)*pa), one_b = _mm512_set1_epi8((char)*pb);
    for (; i < n; i += 64) {
      const int few = n - i < 64 ? (int)(n - i) : 64; /* the missing ones are replaced by the first two */
      const __m512i va = _mm512_xor_si512(load(a_step ? few : 0, pa + i, one_a), flip);
      const __m512i vb = _mm512_xor_si512(load(b_step ? few : 0, pb + i, one_b), flip);
      const __m512i a0 = _mm512_unpacklo_epi8(zero, va), a1 = _mm512_unpackhi_epi8(zero, va); /* times 256 */
      const __m512i b0 = _mm512_unpacklo_epi8(zero, vb), b1 = _mm512_unpackhi_epi8(zero, vb);
      const __m512i x[4] = {_mm512_unpacklo_epi16(a0, b0), _mm512_unpackhi_epi16(a0, b0), _mm512_unpacklo_epi16(a1, b1),
                            _mm512_unpackhi_epi16(a1, b1)};
      __m512i v[4], off[4]; /* the distance above the halfway point, or a little less */
#pragma GCC unroll 4
      for (int k = 0; k < 4; k++) {
        __m512i sum = zero;
        DOT16(sum, x[k], low);
        sum = _mm512_add_epi32(_mm512_srai_epi32(sum, 15), start);
        DOT16(sum, x[k], high);
        off[k] = _mm512_and_si512(_mm512_add_epi32(sum, over), last);
        v[k] = _mm512_srai_epi32(sum, FRACTION);
      }
      __m512i bytes = narrow(0, v[0], v[1], v[2], v[3], &e);
      const __m512i least = _mm512_min_epu32(_mm512_min_epu32(off[0], off[1]), _mm512_min_epu32(off[2], off[3]));
      const __mmask16 unsure = _mm512_cmple_epu32_mask(least, most);
      if (__builtin_popcount(unsure) > 3) { /* faster by the rule alone */
        plain(few, pa + (a_step ? i : 0), a_step, pb + (b_step ? i : 0), b_step, to + i, p);
        continue;
      }
      if (__builtin_expect(unsure, 0)) { /* y may be a or b */
        _mm512_storeu_si512(line, bytes);
        for (int k = 0; k < 4; k++) _mm512_storeu_si512(near + 16 * k, off[k]);
        for (int k = 0; k < 64; k++) {
          const size_t at = (size_t)(k % 16 / 4 * 16 + k / 16 * 4 + k % 4); /* unpacking changes the order */
          if (near[k] <= (uint32_t)(2 * reach) && at < (size_t)few)
            plain(1, pa + (a_step ? i + at : 0), 1, pb + (b_step ? i + at : 0), 1, line + at, p);
        }
        bytes = _mm512_loadu_si512(line);
      }
      store(4, to + i, bytes, few);
    }
  }
  if (i < n) plain(n, pa, a_step, pb, b_step, to, p);
}

/* ---- softmax of rows that fit a vector ---- */
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

PL_FILL(sums_avx512vnni, s) {
  plain = s->sum_q8;
  s->sum_q8 = sum_q8;
  longer = s->softmax_f32;
  exponential = s->exp_f32;
  s->softmax_f32 = softmax_f32;
}
