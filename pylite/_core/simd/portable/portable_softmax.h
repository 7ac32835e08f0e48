/* Softmax, its logarithm and L2 normalization (docs/numerics.md section 7); included by portable.c alone.
 *
 * In 8 bits the distance d from the maximum of a row has 256 values, so all that depends only on d and on the node is
 * in tables.  y may be x. */
#include "functions.h"
#include "joining.h"
#include "rounding.h"
#include <float.h>
#include <math.h>
#include <string.h>

/* Tells the compiler that iterations are independent, although y may be x. */
#define EACH(n) _Pragma("GCC ivdep") for (size_t i = 0; i < (n); i++)

#if defined(__FMA__) && defined(__AVX2__)
#include "x86/softmax_x86.h"
#endif

PL_LOOSE_BEGIN
#define ROW_SAME(v) (v)
#define ROW_SQUARE(v) ((v) * (v))
JOIN_RUN(row_max_f32, JOIN_MAX_F32, -FLT_MAX, ROW_SAME)
JOIN_RUN(row_min_f32, JOIN_MIN_F32, FLT_MAX, ROW_SAME)
JOIN_RUN(row_sum_f32, JOIN_ADD, 0, ROW_SAME)
JOIN_RUN(row_squares_f32, JOIN_ADD, 0, ROW_SQUARE)

/* Elements of short rows for one call of exp_f32. */
enum { SOFTMAX_BLOCK = 1024 };
static void softmax_f32(size_t rows, size_t n, float beta, const float *x, float *y) {
#if defined(__FMA__) && defined(__AVX2__)
  if (beta >= 0 && n >= V_WIDTH) {
    softmax_rows(rows, n, beta, x, y);
    return;
  }
#endif
  const size_t most = n < SOFTMAX_BLOCK ? SOFTMAX_BLOCK / n : 1;
  for (size_t m; rows; rows -= m, x += m * n, y += m * n) {
    m = rows < most ? rows : most;
    for (size_t k = 0; k < m * n; k += n) {
      const float top = beta < 0 ? row_min_f32(n, 1, x + k) : row_max_f32(n, 1, x + k);
      EACH(n) y[k + i] = (x[k + i] - top) * beta;
    }
    exp_f32(m * n, y, y, x);
    for (size_t k = 0; k < m * n; k += n) {
      const float reciprocal = 1.0f / row_sum_f32(n, 1, y + k);
      EACH(n) y[k + i] *= reciprocal;
    }
  }
}
/* log(sum of exp(x - top)) of a long row */
static float log_sum_f32(size_t n, const float *x, float top) {
  float e[SOFTMAX_BLOCK], sum = 0;
  for (size_t i = 0; i < n; i += SOFTMAX_BLOCK) {
    const size_t m = n - i < SOFTMAX_BLOCK ? n - i : SOFTMAX_BLOCK;
    for (size_t k = 0; k < m; k++) e[k] = x[i + k] - top;
    exp_f32(m, e, e, x);
    sum += row_sum_f32(m, 1, e);
  }
  return logf(sum);
}
static void log_softmax_f32(size_t rows, size_t n, const float *x, float *y) {
  float e[SOFTMAX_BLOCK], top[SOFTMAX_BLOCK / 2], log_sum[SOFTMAX_BLOCK / 2];
  const size_t most = n < SOFTMAX_BLOCK / 2 ? SOFTMAX_BLOCK / (n + 1) : 1;
  for (size_t m; rows; rows -= m, x += m * n, y += m * n) {
    m = rows < most ? rows : most;
    for (size_t r = 0; r < m; r++) top[r] = row_max_f32(n, 1, x + r * n);
    if (most == 1) {
      log_sum[0] = log_sum_f32(n, x, top[0]);
    } else {
      for (size_t r = 0; r < m; r++) EACH(n) e[r * n + i] = x[r * n + i] - top[r];
      exp_f32(m * n, e, e, x);
      for (size_t r = 0; r < m; r++) log_sum[r] = row_sum_f32(n, 1, e + r * n);
      log_f32(m, log_sum, log_sum, x);
    }
    for (size_t r = 0; r < m; r++) EACH(n) y[r * n + i] = x[r * n + i] - top[r] - log_sum[r];
  }
}
static void l2_normalize_f32(size_t rows, size_t n, const float *x, float *y) {
  enum { ROWS = 32 }; /* whose roots and quotients are computed as vectors */
  float factor[ROWS];
  for (size_t m; rows; rows -= m, x += m * n, y += m * n) {
    m = rows < ROWS ? rows : ROWS;
    for (size_t r = 0; r < m; r++) factor[r] = row_squares_f32(n, 1, x + r * n);
    for (size_t r = 0; r < m; r++) {
      const float norm = sqrtf(factor[r]);
      factor[r] = 1.0f / (norm < 1e-6f ? 1e-6f : norm);
    }
    for (size_t r = 0; r < m; r++) {
      const float reciprocal = factor[r];
      EACH(n) y[r * n + i] = x[r * n + i] * reciprocal;
    }
  }
}

PL_LOOSE_END
/* The largest of the bytes ^ flip, as unsigned. */
static uint8_t row_max_8(size_t n, const uint8_t *x, uint8_t flip) {
  uint8_t top = 0;
  for (size_t i = 0; i < n; i++) {
    uint8_t v = x[i] ^ flip;
    top = v > top ? v : top;
  }
  return top;
}
/* An index into a table.  The empty asm keeps gcc from vectorising loops with look-ups, which it would turn into many
 * kilobytes of slow code. */
PL_INLINE size_t entry_of(size_t d) {
  __asm__("" : "+r"(d));
  return d;
}
PL_INLINE size_t table_index(uint8_t v, uint8_t flip, uint8_t top) { return entry_of((size_t)(top - (v ^ flip))); }
/* The sum of table[top - x], which wraps; in four independent chains. */
static int32_t row_sum_8(size_t n, const uint8_t *x, uint8_t flip, uint8_t top, const int32_t *table) {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    a += (uint32_t)table[table_index(x[i], flip, top)];
    b += (uint32_t)table[table_index(x[i + 1], flip, top)];
    c += (uint32_t)table[table_index(x[i + 2], flip, top)];
    d += (uint32_t)table[table_index(x[i + 3], flip, top)];
  }
  for (; i < n; i++) a += (uint32_t)table[table_index(x[i], flip, top)];
  return (int32_t)(a + b + c + d);
}

/* Rows of up to SHORT_8 elements are computed ROWS_8 at a time, as if they were one long row. */
enum { ROWS_8 = 32, SHORT_8 = 64 };
/* y = SRDHM(a, b) for factors that cannot saturate. */
PL_INLINE void products_8(const int32_t *a, const int32_t *b, int32_t *y) {
#if defined(__AVX512DQ__) /* gcc would multiply 64 by 64 bits */
  const __m512i half = _mm512_set1_epi64(1 << 30);
  for (int i = 0; i < ROWS_8; i += 16) {
    const __m512i va = _mm512_loadu_si512(a + i), vb = _mm512_loadu_si512(b + i), even = _mm512_mul_epi32(va, vb);
    const __m512i odd = _mm512_mul_epi32(_mm512_srli_epi64(va, 32), _mm512_srli_epi64(vb, 32));
    _mm512_storeu_si512(y + i, _mm512_mask_mov_epi32(_mm512_srli_epi64(_mm512_add_epi64(even, half), 31), 0xAAAA,
                                                     _mm512_slli_epi64(_mm512_add_epi64(odd, half), 1)));
  }
#else
  for (int i = 0; i < ROWS_8; i++) y[i] = pl_mul_high(a[i], b[i]);
#endif
}
/* The leading zeros of v, from 4 to 255 * 2^19, for vectors. */
PL_INLINE int head_of(int32_t v) {
  const float f = (float)(v >> 2); /* not rounded to the next power of 2 */
  int32_t bits;
  memcpy(&bits, &f, sizeof bits);
  return 31 - 2 + 127 - (bits >> 23);
}
/* r = 1 / (2 h) in Q0, as pl_recip1p gives it for a number a with h = (a + 1) / 2 */
static void inverses_8(const int32_t *h, int32_t *r) {
  int32_t x[ROWS_8], d[ROWS_8];
  for (int i = 0; i < ROWS_8; i++) x[i] = -1010580540;
  products_8(h, x, x);
  for (int i = 0; i < ROWS_8; i++) x[i] += 1515870810;
  for (int step = 0; step < 3; step++) {
    products_8(h, x, d);
    for (int i = 0; i < ROWS_8; i++) d[i] = (int32_t)((1u << 29) - (uint32_t)d[i]);
    products_8(x, d, d);
    for (int i = 0; i < ROWS_8; i++) x[i] = (int32_t)((uint32_t)x[i] + (uint32_t)pl_fx_shl(d[i], 2, 32));
  }
  for (int i = 0; i < ROWS_8; i++) r[i] = pl_fx_shl(x[i], 1, 32);
}
/* pl_reciprocal of each sum, in Q12, as vectors.  Sums are positive and below 2^26. */
static void reciprocals_8(const int32_t *sum, int32_t *r, int32_t *over) {
  int32_t h[ROWS_8];
  for (int i = 0; i < ROWS_8; i++) {
    const int head = head_of(sum[i]);
    over[i] = 12 - head;
    h[i] = (int32_t)((uint32_t)sum[i] << head >> 1);
  }
  inverses_8(h, r);
}
/* pl_log_q of each sum, as vectors */
static void logarithms_8(const int32_t *sum, int32_t *log) {
  int32_t k[ROWS_8], r[ROWS_8], h[ROWS_8];
  for (int i = 0; i < ROWS_8; i++)
    r[i] = pl_log_split(sum[i], head_of(sum[i]), head_of(pl_times_root_half(sum[i])), k + i);
  for (int i = 0; i < ROWS_8; i++) {
    int32_t denominator;
    r[i] = pl_log_ratio(r[i], &denominator);
    h[i] = pl_half_sum(denominator, INT32_MAX);
  }
  inverses_8(h, log);
  for (int i = 0; i < ROWS_8; i++) log[i] = pl_log_joined(k[i], r[i], log[i]);
}
/* v = the elements of `rows` rows of n, in reverse order; least[row * n]: the least of a row, which was the largest.
 * least: (rows + 1) * n bytes. */
static void minima_8(size_t rows, size_t n, uint8_t flip, const uint8_t *x, uint8_t *v, uint8_t *least) {
  enum { WIDE = 32 }; /* elements of a row whose maximum is found by itself */
  const size_t m = rows * n;
  const uint8_t reversing = flip ^ 0xff;
  for (size_t i = 0; i < m; i++) least[i] = v[i] = x[i] ^ reversing;
  if (n >= WIDE) {
    for (size_t i = 0; i < m; i += n) least[i] = row_max_8(n, x + i, flip) ^ 0xff;
    return;
  }
  for (size_t i = m; i < m + n; i++) least[i] = 0;
  for (size_t done = 1, step; done < n; done += step) { /* the minimum of the next `done` elements */
    step = done < n - done ? done : n - done;
    for (size_t i = 0; i < m; i++) least[i] = least[i] < least[i + step] ? least[i] : least[i + step];
  }
}
/* For each element of ROWS_8 consecutive rows: sets e to exp(d), and r and shift to the reciprocal and the shift of its
 * row.  bits: of a result. */
static void exponents_8(size_t n, const pl_softmax8 *s, const uint8_t *x, int bits, int32_t *e, int32_t *r,
                        int32_t *shift) {
  uint8_t v[ROWS_8 * SHORT_8], least[(ROWS_8 + 1) * SHORT_8];
  int32_t sum[ROWS_8], reciprocal[ROWS_8], shifts[ROWS_8];
  minima_8(ROWS_8, n, s->flip, x, v, least);
  for (size_t row = 0; row < ROWS_8; row++) {
    const int32_t *value = s->value - least[row * n];
    uint32_t total = 0;
    for (size_t i = row * n; i < row * n + n; i++) {
      e[i] = value[entry_of(v[i])];
      total += ((uint32_t)e[i] + (1 << 11)) >> 12; /* as in `scaled` */
    }
    sum[row] = (int32_t)total;
  }
  reciprocals_8(sum, reciprocal, shifts);
  for (int row = 0; row < ROWS_8; row++) {
    shifts[row] += 31 - bits;
    reciprocal[row] = shifts[row] > 31 ? 0 : reciprocal[row]; /* all elements become 0 */
    shifts[row] = shifts[row] > 31 ? 31 : shifts[row];
  }
  for (size_t row = 0; row < ROWS_8; row++, r += n, shift += n)
    for (size_t i = 0; i < n; i += 16) { /* the next row overwrites the excess */
      for (size_t k = 0; k < 16; k++) r[i + k] = reciprocal[row];
      for (size_t k = 0; k < 16; k++) shift[i + k] = shifts[row];
    }
}

#if defined(__ARM_NEON)
#include "arm/softmax_bytes_neon.h"
#define SOFTMAX_8_EIGHTS(name) \
  for (const int32x4_t factor = vdupq_n_s32(r), left = vdupq_n_s32(-shift); i + 8 <= n; i += 8) \
    name##_store(softmax_8_eight(e + i, factor, left), flip, y + i);
#else
#define SOFTMAX_8_EIGHTS(name)
#define log_softmax_8_eights(n, e, flip, y) 0
#endif
/* The result for e = exp(d): RDBPOT(SRDHM(r, e), shift), clamped. */
#define SOFTMAX_8(name, type, bits, outflip) \
  PL_INLINE type name##_result(int32_t e, int32_t r, int shift, uint8_t flip) { \
    (void)flip; \
    return (type)(pl_clamp32(pl_rdbpot(pl_mul_high(e, r), shift), 0, (1 << bits) - 1) ^ (outflip)); \
  } \
  PL_INLINE void name##_results(size_t n, const int32_t *e, int32_t r, int shift, uint8_t flip, type *y) { \
    size_t i = 0; \
    SOFTMAX_8_EIGHTS(name) \
    for (; i < n; i++) y[i] = name##_result(e[i], r, shift, flip); \
  } \
  static void name##_short(size_t n, const pl_softmax8 *s, const uint8_t *x, type *y) { \
    enum { ELEMENTS = ROWS_8 * SHORT_8 }; \
    int32_t e[ELEMENTS], r[ELEMENTS + 16], shift[ELEMENTS + 16]; \
    const uint8_t flip = s->flip; \
    exponents_8(n, s, x, bits, e, r, shift); \
    for (size_t i = 0; i < ROWS_8 * n; i += ROWS_8) { \
      type part[ROWS_8]; \
      for (int k = 0; k < ROWS_8; k++) part[k] = name##_result(e[i + k], r[i + k], shift[i + k], flip); \
      for (int k = 0; k < ROWS_8; k++) y[i + k] = part[k]; \
    } \
  } \
  static void name##_row(size_t n, const pl_softmax8 *s, const uint8_t *x, type *y) { \
    const uint8_t flip = s->flip, top = row_max_8(n, x, flip); \
    int over; \
    int32_t r = pl_reciprocal(row_sum_8(n, x, flip, top, s->scaled), 12, &over); \
    int shift = over + 31 - bits; \
    if (shift > 31) r = 0, shift = 31; \
    if (shift < 0) shift = 0; /* the sum wrapped to almost 0 */ \
    int32_t e[256]; \
    type table[256]; \
    const int direct = n < 256; \
    if (direct) \
      for (size_t i = 0; i < n; i++) e[i] = s->value[table_index(x[i], flip, top)]; \
    const int32_t *from = direct ? e : s->value; \
    type *to = direct ? y : table; \
    name##_results(direct ? n : 256, from, r, shift, flip, to); \
    if (!direct) \
      for (size_t i = 0; i < n; i++) y[i] = table[table_index(x[i], flip, top)]; \
  } \
  static void name(size_t rows, size_t n, const pl_softmax8 *s, const uint8_t *x, void *y0) { \
    type *y = y0; \
    if (n == 1 && rows) { /* one element is the maximum and the sum */ \
      name##_row(1, s, x, y); \
      for (size_t i = 1; i < rows; i++) y[i] = *y; \
      return; \
    } \
    for (; n <= SHORT_8 && rows >= ROWS_8; rows -= ROWS_8, x += ROWS_8 * n, y += ROWS_8 * n) \
      name##_short(n, s, x, y); \
    for (; rows > 0; rows--, x += n, y += n) name##_row(n, s, x, y); \
  }
SOFTMAX_8(softmax_8, uint8_t, 8, flip)
SOFTMAX_8(softmax_8_to_16, int16_t, 16, 0x8000)

PL_INLINE uint8_t log_softmax_8_result(int32_t value, uint8_t flip) {
  return (uint8_t)(pl_clamp32(pl_rdbpot(value, 22) + 255, 0, 255) ^ flip);
}
PL_INLINE void log_softmax_8_results(size_t n, const int32_t *e, uint8_t flip, uint8_t *y) {
  for (size_t i = log_softmax_8_eights(n, e, flip, y); i < n; i++) y[i] = log_softmax_8_result(e[i], flip);
}
enum {
  LONG_8 = 256,   /* elements of a row that is computed alone */
  BLOCK_8 = 2048  /* elements of shorter rows that are computed together */
};
/* Up to ROWS_8 rows, in all up to BLOCK_8 elements; sum: the sum of missing rows, overwritten */
static void log_softmax_8_rows(size_t rows, size_t n, const pl_softmax8 *s, const uint8_t *x, int32_t *sum,
                               uint8_t *y) {
  const uint8_t flip = s->flip;
  uint8_t v[BLOCK_8], least[BLOCK_8 + LONG_8];
  int32_t e[BLOCK_8], log[ROWS_8];
  minima_8(rows, n, flip, x, v, least);
  for (size_t row = 0; row < rows; row++)
    sum[row] = row_sum_8(n, x + row * n, flip, least[row * n] ^ 0xff, s->scaled);
  logarithms_8(sum, log);
  for (size_t row = 0; row < rows; row++) {
    const int32_t *value = s->value - least[row * n], l = log[row];
    for (size_t i = row * n; i < row * n + n; i++) e[i] = value[entry_of(v[i])] - l;
  }
  log_softmax_8_results(rows * n, e, flip, y);
}
static void log_softmax_8_row(size_t n, const pl_softmax8 *s, const uint8_t *x, uint8_t *y) {
  const uint8_t flip = s->flip, top = row_max_8(n, x, flip);
  const int32_t log_sum = pl_log_q(row_sum_8(n, x, flip, top, s->scaled));
  uint8_t table[256];
  for (int32_t d = 0; d < 256; d++) table[d] = log_softmax_8_result(s->value[d] - log_sum, flip);
  for (size_t i = 0; i < n; i++) y[i] = table[table_index(x[i], flip, top)];
}
static void log_softmax_8(size_t rows, size_t n, const pl_softmax8 *s, const uint8_t *x, void *y0) {
  const size_t most = n < LONG_8 ? (size_t)pl_min32(BLOCK_8 / (int32_t)n, ROWS_8) : 1;
  uint8_t *y = y0;
  int32_t sum[ROWS_8];
  for (int i = 0; i < ROWS_8; i++) sum[i] = s->scaled[0];
  if (n == 1 && rows) {
    log_softmax_8_row(1, s, x, y);
    memset(y + 1, *y, rows - 1);
    return;
  }
  for (size_t m; rows; rows -= m, x += m * n, y += m * n) {
    m = rows < most ? rows : most;
    if (n < LONG_8) log_softmax_8_rows(m, n, s, x, sum, y);
    else log_softmax_8_row(n, s, x, y);
  }
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
  /* unsigned, because a sum just below a power of two is rounded up to 2^31 */
  const int32_t t = (int32_t)((((uint32_t)sum << ((head - 1) & 31)) + (1u << 13)) >> 14);
  const int32_t r = interpolate_16(s->reciprocal, pl_sat16(t - (1 << 15) - (1 << 16)));
  for (size_t i = 0; i < n; i++) {
    int32_t v = (y[i] * r + (1 << (shift - 1))) >> shift;
    y[i] = (int16_t)pl_clamp32(v, 0, 32767);
  }
}

/* Each element times 1 / sqrt(sum of squares), as a multiplier (m, e): section 8. */
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
