/* Softmax, its logarithm and L2 normalization (docs/numerics.md section 7); included by portable.c alone.
 *
 * In 8 bits the difference d to the maximum of a row has 256 values, so everything that depends on d and the node alone
 * is a table.  y may be x. */
#include "functions.h"
#include "joining.h"
#include "rounding.h"
#include <float.h>
#include <math.h>
#include <string.h>

/* y may be x: iterations are independent even so, which ivdep tells the compiler. */
#define EACH(n) _Pragma("GCC ivdep") for (size_t i = 0; i < (n); i++)

#if defined(V_ANY)
/* y = exp((x - top) beta), none of which exceeds 1; returns their sum. */
static __attribute__((noinline)) float exponents_f32(size_t n, float top, float beta, const float *x, float *y) {
  const vf vtop = V_ALL(top), factor = V_ALL(beta);
  vf sums[2] = {V_ALL(0.0f), V_ALL(0.0f)};
  float lanes[V_WIDTH], sum = 0;
  size_t i = 0;
#define EXPONENT(from) v_exp_low(V(mul_ps)(V(sub_ps)(V(loadu_ps)(from), vtop), factor))
  for (; i + 2 * V_WIDTH <= n; i += 2 * V_WIDTH) {
    const vf a = EXPONENT(x + i), b = EXPONENT(x + i + V_WIDTH);
    V(storeu_ps)(y + i, a);
    V(storeu_ps)(y + i + V_WIDTH, b);
    sums[0] = V(add_ps)(sums[0], a), sums[1] = V(add_ps)(sums[1], b);
  }
  for (; i + V_WIDTH <= n; i += V_WIDTH) {
    const vf a = EXPONENT(x + i);
    V(storeu_ps)(y + i, a);
    sums[0] = V(add_ps)(sums[0], a);
  }
  V(storeu_ps)(lanes, V(add_ps)(sums[0], sums[1]));
  for (int k = 0; k < V_WIDTH; k++) sum += lanes[k];
  if (i < n) {
    memset(lanes, 0, sizeof lanes);
    memcpy(lanes, x + i, (n - i) * sizeof *lanes);
    V(storeu_ps)(lanes, EXPONENT(lanes));
    for (size_t k = 0; i < n; i++, k++) sum += y[i] = lanes[k];
  }
#undef EXPONENT
  return sum;
}
#endif

PL_LOOSE_BEGIN
#define ROW_SAME(v) (v)
#define ROW_SQUARE(v) ((v) * (v))
JOIN_RUN(row_max_f32, JOIN_MAX, -FLT_MAX, ROW_SAME)
JOIN_RUN(row_min_f32, JOIN_MIN, FLT_MAX, ROW_SAME)
JOIN_RUN(row_sum_f32, JOIN_ADD, 0, ROW_SAME)
JOIN_RUN(row_squares_f32, JOIN_ADD, 0, ROW_SQUARE)

/* Elements of short rows that go through the exponential at once. */
enum { SOFTMAX_TOGETHER = 1024 };
static void softmax_f32(size_t rows, size_t n, float beta, const float *x, float *y) {
#if defined(V_ANY)
  for (; rows && n >= 2 * V_WIDTH; rows--, x += n, y += n) {
    const float top = beta < 0 ? row_min_f32(n, 1, x) : row_max_f32(n, 1, x);
    const float share = 1.0f / exponents_f32(n, top, beta, x, y);
    EACH(n) y[i] *= share;
  }
#endif
  const size_t most = n < SOFTMAX_TOGETHER ? SOFTMAX_TOGETHER / n : 1;
  for (size_t m; rows; rows -= m, x += m * n, y += m * n) {
    m = rows < most ? rows : most;
    for (size_t k = 0; k < m * n; k += n) {
      const float top = beta < 0 ? row_min_f32(n, 1, x + k) : row_max_f32(n, 1, x + k);
      EACH(n) y[k + i] = (x[k + i] - top) * beta;
    }
    exp_f32(m * n, y, y, x);
    for (size_t k = 0; k < m * n; k += n) {
      const float share = 1.0f / row_sum_f32(n, 1, y + k);
      EACH(n) y[k + i] *= share;
    }
  }
}
static void log_softmax_f32(size_t n, const float *x, float *y) {
  const float top = row_max_f32(n, 1, x);
  float e[256], sum = 0;
  for (size_t i = 0; i < n; i += 256) {
    const size_t m = n - i < 256 ? n - i : 256;
    for (size_t k = 0; k < m; k++) e[k] = x[i + k] - top;
    exp_f32(m, e, e, x);
    sum += row_sum_f32(m, 1, e);
  }
  const float log_sum = logf(sum);
  EACH(n) y[i] = x[i] - top - log_sum;
}
static void l2_normalize_f32(size_t n, const float *x, float *y) {
  const float norm = sqrtf(row_squares_f32(n, 1, x)), share = 1.0f / (norm < 1e-6f ? 1e-6f : norm);
  EACH(n) y[i] = x[i] * share;
}

PL_LOOSE_END
/* The largest byte, ^ flip, as unsigned. */
static uint8_t row_max_8(size_t n, const uint8_t *x, uint8_t flip) {
  uint8_t top = 0;
  for (size_t i = 0; i < n; i++) {
    uint8_t v = x[i] ^ flip;
    top = v > top ? v : top;
  }
  return top;
}
/* The table's index for byte v.  The empty asm keeps gcc from vectorising loops with look-ups: it would take vectors
 * apart again, in many kilobytes of slow code. */
PL_INLINE size_t below(uint8_t v, uint8_t flip, uint8_t top) {
  size_t d = (size_t)(top - (v ^ flip));
  __asm__("" : "+r"(d));
  return d;
}
/* The sum of table[top - x] in four chains; it wraps. */
static int32_t row_sum_8(size_t n, const uint8_t *x, uint8_t flip, uint8_t top, const int32_t *table) {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    a += (uint32_t)table[below(x[i], flip, top)];
    b += (uint32_t)table[below(x[i + 1], flip, top)];
    c += (uint32_t)table[below(x[i + 2], flip, top)];
    d += (uint32_t)table[below(x[i + 3], flip, top)];
  }
  for (; i < n; i++) a += (uint32_t)table[below(x[i], flip, top)];
  return (int32_t)(a + b + c + d);
}

/* Short rows of up to SHORT_8 elements are computed TOGETHER_8 at a time, as one long row of vectors. */
enum { TOGETHER_8 = 32, SHORT_8 = 64 };
/* SRDHM of factors that cannot saturate. */
PL_INLINE void products_8(const int32_t *a, const int32_t *b, int32_t *y) {
#if defined(__AVX512DQ__) /* gcc multiplies 64 bits by 64 */
  const __m512i half = _mm512_set1_epi64(1 << 30);
  for (int i = 0; i < TOGETHER_8; i += 16) {
    const __m512i va = _mm512_loadu_si512(a + i), vb = _mm512_loadu_si512(b + i), even = _mm512_mul_epi32(va, vb);
    const __m512i odd = _mm512_mul_epi32(_mm512_srli_epi64(va, 32), _mm512_srli_epi64(vb, 32));
    _mm512_storeu_si512(y + i, _mm512_mask_mov_epi32(_mm512_srli_epi64(_mm512_add_epi64(even, half), 31), 0xAAAA,
                                                     _mm512_slli_epi64(_mm512_add_epi64(odd, half), 1)));
  }
#else
  for (int i = 0; i < TOGETHER_8; i++) y[i] = pl_mul_high(a[i], b[i]);
#endif
}
/* pl_reciprocal of each sum, in Q12: pl_newton side by side.  Sums are positive and below 2^26. */
static void reciprocals_8(const int32_t *sum, int32_t *r, int32_t *over) {
  int32_t h[TOGETHER_8], x[TOGETHER_8], d[TOGETHER_8];
  for (int i = 0; i < TOGETHER_8; i++) {
    const float f = (float)(sum[i] >> 2); /* exact */
    int32_t bits;
    memcpy(&bits, &f, sizeof bits);
    const int head = 31 - 2 + 127 - (bits >> 23);
    over[i] = 12 - head;
    h[i] = (int32_t)((uint32_t)sum[i] << head >> 1);
  }
  for (int i = 0; i < TOGETHER_8; i++) x[i] = -1010580540;
  products_8(h, x, x);
  for (int i = 0; i < TOGETHER_8; i++) x[i] += 1515870810;
  for (int step = 0; step < 3; step++) {
    products_8(h, x, d);
    for (int i = 0; i < TOGETHER_8; i++) d[i] = (int32_t)((1u << 29) - (uint32_t)d[i]);
    products_8(x, d, d);
    for (int i = 0; i < TOGETHER_8; i++) x[i] = (int32_t)((uint32_t)x[i] + (uint32_t)pl_fx_shl(d[i], 2, 32));
  }
  for (int i = 0; i < TOGETHER_8; i++) r[i] = pl_fx_shl(x[i], 1, 32);
}
/* e[i] = exp(d) of TOGETHER_8 consecutive rows, and for each element r and shift of its row; bits: of a result. */
static void exponents_8(size_t n, const pl_softmax8 *s, const uint8_t *x, int bits, int32_t *e, int32_t *r,
                        int32_t *shift) {
  enum { MOST = TOGETHER_8 * SHORT_8 };
  const size_t m = TOGETHER_8 * n;
  const uint8_t flip = s->flip ^ 0xff; /* reversed: the maximum becomes the minimum */
  uint8_t v[MOST], least[MOST + SHORT_8];
  int32_t sum[TOGETHER_8], share[TOGETHER_8], by[TOGETHER_8];
  for (size_t i = 0; i < m; i++) least[i] = v[i] = x[i] ^ flip;
  for (size_t i = m; i < m + n; i++) least[i] = 0;
  for (size_t have = 1, step; have < n; have += step) { /* the minimum of the next `have` elements */
    step = have < n - have ? have : n - have;
    for (size_t i = 0; i < m; i++) least[i] = least[i] < least[i + step] ? least[i] : least[i + step];
  }
  for (size_t row = 0; row < TOGETHER_8; row++) {
    const int32_t *value = s->value - least[row * n];
    uint32_t total = 0;
    for (size_t i = row * n; i < row * n + n; i++) {
      size_t entry = v[i];
      __asm__("" : "+r"(entry)); /* as in below() */
      e[i] = value[entry];
      total += ((uint32_t)e[i] + (1 << 11)) >> 12; /* as in `scaled` */
    }
    sum[row] = (int32_t)total;
  }
  reciprocals_8(sum, share, by);
  for (int row = 0; row < TOGETHER_8; row++) {
    by[row] += 31 - bits;
    share[row] = by[row] > 31 ? 0 : share[row]; /* all elements become 0 */
    by[row] = by[row] > 31 ? 31 : by[row];
  }
  for (size_t row = 0; row < TOGETHER_8; row++, r += n, shift += n)
    for (size_t i = 0; i < n; i += 16) { /* the next row overwrites the excess */
      for (size_t k = 0; k < 16; k++) r[i + k] = share[row];
      for (size_t k = 0; k < 16; k++) shift[i + k] = by[row];
    }
}

/* The result for e = exp(d): RDBPOT(SRDHM(r, e), shift), clamped. */
#define SOFTMAX_8(name, type, bits, outflip) \
  PL_INLINE type name##_share(int32_t e, int32_t r, int shift, uint8_t flip) { \
    (void)flip; \
    return (type)(pl_clamp32(pl_rdbpot(pl_mul_high(e, r), shift), 0, (1 << bits) - 1) ^ (outflip)); \
  } \
  static void name##_short(size_t n, const pl_softmax8 *s, const uint8_t *x, type *y) { \
    enum { MOST = TOGETHER_8 * SHORT_8 }; \
    int32_t e[MOST], r[MOST + 16], shift[MOST + 16]; \
    const uint8_t flip = s->flip; \
    exponents_8(n, s, x, bits, e, r, shift); \
    for (size_t i = 0; i < TOGETHER_8 * n; i += TOGETHER_8) { \
      type part[TOGETHER_8]; \
      for (int k = 0; k < TOGETHER_8; k++) part[k] = name##_share(e[i + k], r[i + k], shift[i + k], flip); \
      for (int k = 0; k < TOGETHER_8; k++) y[i + k] = part[k]; \
    } \
  } \
  static void name##_row(size_t n, const pl_softmax8 *s, const uint8_t *x, type *y) { \
    const uint8_t flip = s->flip, top = row_max_8(n, x, flip); \
    int over; \
    int32_t r = pl_reciprocal(row_sum_8(n, x, flip, top, s->scaled), 12, &over); \
    int shift = over + 31 - bits; \
    if (shift > 31) r = 0, shift = 31; \
    if (shift < 0) shift = 0; /* the sum has wrapped to next to 0 */ \
    int32_t e[256]; \
    type table[256]; \
    const int direct = n < 256; \
    if (direct) \
      for (size_t i = 0; i < n; i++) e[i] = s->value[below(x[i], flip, top)]; \
    const int32_t *from = direct ? e : s->value; \
    type *to = direct ? y : table; \
    for (size_t i = 0, most = direct ? n : 256; i < most; i++) to[i] = name##_share(from[i], r, shift, flip); \
    if (!direct) \
      for (size_t i = 0; i < n; i++) y[i] = table[below(x[i], flip, top)]; \
  } \
  static void name(size_t rows, size_t n, const pl_softmax8 *s, const uint8_t *x, void *y0) { \
    type *y = y0; \
    for (; n <= SHORT_8 && rows >= TOGETHER_8; rows -= TOGETHER_8, x += TOGETHER_8 * n, y += TOGETHER_8 * n) \
      name##_short(n, s, x, y); \
    for (; rows > 0; rows--, x += n, y += n) name##_row(n, s, x, y); \
  }
SOFTMAX_8(softmax_8, uint8_t, 8, flip)
SOFTMAX_8(softmax_8_to_16, int16_t, 16, 0x8000)

static void log_softmax_8(size_t n, const pl_softmax8 *s, const uint8_t *x, void *y0) {
  uint8_t *y = y0;
  const uint8_t flip = s->flip, top = row_max_8(n, x, flip);
  const int32_t log_sum = pl_log_q(row_sum_8(n, x, flip, top, s->scaled));
  int32_t least = pl_mbqm32((int32_t)((uint32_t)log_sum + 0x80000000u), s->multiplier, s->exponent);
  if (least < s->least) least = s->least;
  /* the entries of the table for differences above `least` */
  const int32_t last = least < -256 ? 255 : -least - 1;
  uint8_t table[256];
  for (int32_t d = 0; d < 256; d++) table[d] = flip;
  for (int32_t d = 0; d <= last; d++) {
    int32_t v = pl_rdbpot((int32_t)((uint32_t)s->value[d] - (uint32_t)log_sum), 22);
    table[d] = (uint8_t)(pl_clamp32(v + 255, 0, 255) ^ flip);
  }
  for (size_t i = 0; i < n; i++) y[i] = table[below(x[i], flip, top)];
}

PL_INLINE int32_t interpolate_16(const int16_t *table, int32_t q) {
  int32_t entry = 256 + (q >> 7), base = table[entry];
  int32_t slope = (int16_t)(table[entry + 1] - base);
  return (int16_t)(base + ((slope * (q & 127) + 64) >> 7));
}
static void softmax_s16(size_t n, const pl_softmax16 *s, const int16_t *x, int16_t *y) {
  int16_t top = INT16_MIN;
  for (size_t i = 0; i < n; i++) top = x[i] > top ? x[i] : top;
  int32_t sum = 0;
  for (size_t i = 0; i < n; i++) {
    int32_t d = pl_mbqm32(x[i] - top, s->multiplier, s->exponent) + 32767;
    int32_t e = interpolate_16(s->exp, pl_sat16(d));
    y[i] = (int16_t)e;
    sum += e;
  }
  const int head = pl_clz32((uint32_t)sum), shift = 31 - head;
  const int32_t t = (int32_t)(((uint32_t)sum << ((head - 1) & 31)) + (1u << 13)) >> 14;
  const int32_t r = interpolate_16(s->reciprocal, pl_sat16(t - (1 << 15) - (1 << 16)));
  for (size_t i = 0; i < n; i++) {
    int32_t v = (y[i] * r + (1 << (shift - 1))) >> shift;
    y[i] = (int16_t)pl_clamp32(v, 0, 32767);
  }
}

/* Each element times (m, e) of 1 / sqrt(sum of squares): section 8. */
static void l2_normalize_8(size_t n, int32_t zero, uint8_t flip, const uint8_t *x, uint8_t *y) {
  uint32_t sum = 0;
  int e;
  for (size_t i = 0; i < n; i++) {
    int32_t d = (x[i] ^ flip) - zero;
    sum += (uint32_t)(d * d);
  }
  const int32_t m = pl_inv_sqrt((int32_t)sum, &e);
  if (flip)
    for (size_t i = 0; i < n; i++)
      y[i] = (uint8_t)pl_clamp32(pl_mbqm32((x[i] ^ flip) - zero, m, e + 7) + 128, 0, 255) ^ flip;
  else
    for (size_t i = 0; i < n; i++)
      y[i] = (uint8_t)pl_clamp32(pl_mbqm_small(128 * (x[i] - zero), m, e) + 128, 0, 255);
}
