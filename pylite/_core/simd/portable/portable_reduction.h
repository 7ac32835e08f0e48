/* Reductions to up to REDUCE_MAX outputs; included by portable.c alone.
 *
 * If neighbouring outputs read neighbouring elements, all outputs of a row are accumulated as one line, 16 or 32 of its
 * rows at a time, a few lanes of the line in registers.  A short line with enough rows accumulates several partial
 * results side by side, and folds them at the end.  Otherwise each output reduces its own runs of contiguous
 * elements.  Accumulators of all rows of outputs are finished together.  The order of float additions depends on the
 * shape alone.  A minimum is computed as the maximum of flipped elements. */
#include "joining.h"
#include "rounding.h"
#include "widening.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { REDUCE_LANES = 64, REDUCE_LINE = 256, REDUCE_MAX = 1024, REDUCE_STEPS = 256 };

/* How an element is loaded before it is joined to an accumulator. */
#define LOAD_F32(v) (sign * (v))
#define LOAD_S8(v) ((int8_t)((v) ^ flip))
#define LOAD_U8(v) ((uint8_t)((v) ^ flip))
#define LOAD_S16(v) ((int16_t)((v) ^ flip))
#define REPEAT_8(v) v, v, v, v, v, v, v, v

/* T, N, A: the types of elements, of lanes and of accumulators.  A lane replaces its accumulator or, if it is narrower,
 * is added to it.  FEW: the name of lanes() for REDUCE_LANES / 8 lanes. */
#define REDUCE_ROWS(name, T, N, A, LOAD, JOIN, IDENTITY, FEW) \
  enum { name##_GROUP = sizeof(T) == 1 ? 32 : 16, name##_NARROW = sizeof(N) < sizeof(A) }; \
  /* `lanes` accumulators in registers, joined with up to GROUP rows; before: their values so far */ \
  PL_INLINE void name##_lanes(const size_t lanes, const pl_reduction *g, ptrdiff_t rows, ptrdiff_t stride, \
                              const T *p, const A *before, A *acc) { \
    N lane[REDUCE_LANES]; \
    const T flip = (T)g->flip; \
    const float sign = g->sign; \
    (void)flip, (void)sign; /* LOAD uses one at most */ \
    for (size_t i = 0; i < lanes; i++) lane[i] = name##_NARROW ? 0 : (N)before[i]; \
    for (; rows > 0; rows--, p += stride) \
      for (size_t i = 0; i < lanes; i++) lane[i] = (N)JOIN(lane[i], LOAD(p[i])); \
    PL_INDEPENDENT \
    for (size_t i = 0; i < lanes; i++) acc[i] = name##_NARROW ? before[i] + lane[i] : lane[i]; \
  } \
  /* acc[i] joined with n rows of m elements, stride apart; fresh: accumulators are to start from the identity */ \
  static void name##_rows(const pl_reduction *g, size_t m, ptrdiff_t n, ptrdiff_t stride, const void *x, int fresh, \
                          void *acc0) { \
    static const A identities[REDUCE_LANES] = {REPEAT_8(REPEAT_8(IDENTITY))}; \
    enum { FEW_LANES = REDUCE_LANES / 8 }; \
    const T *row = x; \
    A *acc = acc0, last[FEW_LANES]; \
    for (ptrdiff_t rows; n > 0; n -= rows, row += rows * stride, fresh = 0) { \
      const A *before = fresh ? identities : acc; \
      const size_t step = !fresh; \
      size_t i = 0; \
      rows = n < name##_GROUP ? n : name##_GROUP; \
      if (m % FEW_LANES && m > FEW_LANES && !fresh) memcpy(last, acc + m - FEW_LANES, sizeof last); \
      for (; i + REDUCE_LANES <= m; i += REDUCE_LANES) \
        name##_lanes(REDUCE_LANES, g, rows, stride, row + i, before + i * step, acc + i); \
      if (i + REDUCE_LANES / 2 <= m) { \
        name##_lanes(REDUCE_LANES / 2, g, rows, stride, row + i, before + i * step, acc + i); \
        i += REDUCE_LANES / 2; \
      } \
      for (; i < m && m >= FEW_LANES; i += FEW_LANES) { /* the last block overlaps the one before */ \
        const size_t at = i + FEW_LANES <= m ? i : m - FEW_LANES; \
        name##_##FEW(FEW_LANES, g, rows, stride, row + at, fresh ? identities : at == i ? acc + at : last, acc + at); \
      } \
      for (; i < m; i++) name##_lanes(1, g, rows, stride, row + i, before + i * step, acc + i); \
    } \
  } \
  /* n lines of m accumulators joined to one, by halves */ \
  static void name##_fold(size_t m, size_t n, void *acc0) { \
    A *acc = acc0; \
    for (size_t half; n > 1; n = half) { \
      half = (n + 1) / 2; \
      const A *other = acc + half * m; \
      PL_INDEPENDENT \
      for (size_t i = 0; i < (n - half) * m; i++) acc[i] = (A)JOIN(acc[i], other[i]); \
    } \
  }
/* Joins each of c runs of n accumulators to one; joined: the result of `run`.  Results go to the first c accumulators.
 */
#define REDUCE_JOIN(name, A, joined) \
  static void name##_join(size_t c, size_t n, void *acc0) { \
    A *acc = acc0; \
    for (size_t k = 0; k < c; k++) { \
      const A *run = acc + k * n; \
      acc[k] = joined; \
    } \
  }
/* The same for integers, in any order. */
#define REDUCE_JOIN_INT(name, A, JOIN) \
  PL_INLINE A name##_joined(size_t n, const A *run) { \
    A total = run[0]; \
    for (size_t i = 1; i < n; i++) total = (A)JOIN(total, run[i]); \
    return total; \
  } \
  REDUCE_JOIN(name, A, name##_joined(n, run))
/* Joins to each of c accumulators the `total` of a row's n contiguous elements; rows are `step` apart. */
#define REDUCE_RUN_F32(name, JOIN, total) \
  static void name##_run(const pl_reduction *g, size_t c, ptrdiff_t step, ptrdiff_t n, const void *x, void *acc0) { \
    const float *row = x; \
    float *acc = acc0; \
    (void)g; \
    for (size_t k = 0; k < c; k++, row += step) { \
      const float joined = total; \
      acc[k] = JOIN(acc[k], joined); \
    } \
  }
/* The same for integers, in any order, REDUCE_STEPS of them in an accumulator of type N. */
#define REDUCE_RUN_INT(name, T, N, A, LOAD, JOIN) \
  static void name##_run(const pl_reduction *g, size_t c, ptrdiff_t step, ptrdiff_t n, const void *x, void *acc0) { \
    const T *row = x, flip = (T)g->flip; \
    A *acc = acc0; \
    for (size_t k = 0; k < c; k++, row += step) { \
      A total = acc[k]; \
      for (ptrdiff_t j = 0, m; j < n; j += m) { \
        m = n - j < REDUCE_STEPS ? n - j : REDUCE_STEPS; \
        N part = LOAD(row[j]); \
        for (ptrdiff_t i = 1; i < m; i++) part = (N)JOIN(part, LOAD(row[j + i])); \
        total = (A)JOIN(total, part); \
      } \
      acc[k] = total; \
    } \
  }
/* The same for maxima: lines of accumulators for long rows, then 16 bytes at a time; the last 16 overlap them. */
#define REDUCE_RUN_MAX(name, T, LOAD) \
  static void name##_run(const pl_reduction *g, size_t c, ptrdiff_t step, ptrdiff_t n, const void *x, void *acc0) { \
    enum { LINE = 128 / sizeof(T), LANES = 16 / sizeof(T) }; \
    const T *row = x, flip = (T)g->flip; \
    T *acc = acc0; \
    for (size_t k = 0; k < c; k++, row += step) { \
      T part[LINE], total = acc[k]; \
      ptrdiff_t i = 0; \
      if (n >= LINE) { \
        for (int j = 0; j < LINE; j++) part[j] = total; \
        for (; i + LINE <= n; i += LINE) \
          for (int j = 0; j < LINE; j++) part[j] = JOIN_MAX(part[j], LOAD(row[i + j])); \
        JOIN_HALF(JOIN_MAX, LINE / 2) JOIN_HALF(JOIN_MAX, LINE / 4) JOIN_HALF(JOIN_MAX, LINE / 8) \
      } else for (int j = 0; j < LANES; j++) part[j] = total; \
      if (n >= LANES) { \
        for (; i + LANES <= n; i += LANES) \
          for (int j = 0; j < LANES; j++) part[j] = JOIN_MAX(part[j], LOAD(row[i + j])); \
        for (int j = 0; j < LANES; j++) part[j] = JOIN_MAX(part[j], LOAD(row[n - LANES + j])); \
        if (LANES > 8) JOIN_HALF(JOIN_MAX, LANES / 2) \
        JOIN_HALF(JOIN_MAX, 4) JOIN_HALF(JOIN_MAX, 2) JOIN_HALF(JOIN_MAX, 1) \
        i = n; \
      } \
      for (total = part[0]; i < n; i++) total = JOIN_MAX(total, LOAD(row[i])); \
      acc[k] = total; \
    } \
  }

PL_LOOSE_BEGIN
#define LOAD_AS_IS(v) (v)
/* sum_8_lanes() of 8 lanes, which gcc would divide in two. */
PL_INLINE void sum_8_few(const size_t lanes, const pl_reduction *g, ptrdiff_t rows, ptrdiff_t stride, const uint8_t *p,
                         const int32_t *before, int32_t *acc) {
  const pl_bytes_8 flip = (pl_bytes_8){0} + (uint8_t)g->flip;
  pl_words_8 sum = {0};
  (void)lanes;
  for (; rows > 0; rows--, p += stride) {
    pl_bytes_8 v;
    memcpy(&v, p, 8);
    sum = PL_ADD_WIDENED(sum, v ^ flip);
  }
  for (int i = 0; i < 8; i++) acc[i] = before[i] + sum[i];
}
REDUCE_ROWS(sum_f32, float, float, float, LOAD_AS_IS, JOIN_ADD, 0, lanes)
REDUCE_ROWS(sum_8, uint8_t, int16_t, int32_t, LOAD_S8, JOIN_ADD, 0, few)
REDUCE_ROWS(sum_16, int16_t, int32_t, int32_t, LOAD_S16, JOIN_ADD, 0, lanes)
REDUCE_ROWS(max_f32, float, float, float, LOAD_F32, JOIN_MAX_F32, -FLT_MAX, lanes)
REDUCE_ROWS(max_8, uint8_t, uint8_t, uint8_t, LOAD_U8, JOIN_MAX, 0, lanes)
REDUCE_ROWS(max_16, int16_t, int16_t, int16_t, LOAD_S16, JOIN_MAX, INT16_MIN, lanes)
JOIN_RUN(total_f32, JOIN_ADD, 0, LOAD_AS_IS)
REDUCE_RUN_F32(sum_f32, JOIN_ADD, total_f32((size_t)n, 1, row))
REDUCE_JOIN(sum_f32, float, total_f32(n, 1, run))
REDUCE_JOIN_INT(sum_8, int32_t, JOIN_ADD)
REDUCE_JOIN_INT(sum_16, int32_t, JOIN_ADD)
#if defined(__aarch64__)
#include "../arm/byte_sums_neon.h"
#else
/* Sums of bytes, computed as sums of absolute differences from zeros, for which CPUs have instructions. */
static void sum_8_run(const pl_reduction *g, size_t c, ptrdiff_t step, ptrdiff_t n, const void *x, void *acc0) {
  static const uint8_t zeros[REDUCE_STEPS], masks[32] = {
      [16] = 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255};
  const uint8_t *row = x, flip = (uint8_t)(g->flip ^ 0x80), *zero = zeros;
  int32_t *acc = acc0;
  __asm__("" : "+r"(zero)); /* else gcc would omit the differences, and not use these instructions */
  for (size_t k = 0; k < c; k++, row += step) {
    int32_t total = 0;
    ptrdiff_t i = 0;
    for (ptrdiff_t m; n - i >= 64; i += m) { /* whole vectors */
      m = n - i < REDUCE_STEPS ? (n - i) & ~(ptrdiff_t)63 : REDUCE_STEPS;
      for (ptrdiff_t j = 0; j < m; j++) total += abs((uint8_t)(row[i + j] ^ flip) - zero[j]);
    }
    for (; i + 16 <= n; i += 16)
      for (int j = 0; j < 16; j++) total += abs((uint8_t)(row[i + j] ^ flip) - zero[j]);
    if (n >= 16) { /* the last 16 elements; the mask clears the ones already summed */
      const uint8_t *mask = masks + (n - i);
      for (int j = 0; j < 16; j++) total += abs((uint8_t)((row[n - 16 + j] ^ flip) & mask[j]) - zero[j]);
    } else {
      for (; i < n; i++) total += (uint8_t)(row[i] ^ flip);
    }
    acc[k] += total - 128 * (int32_t)n;
  }
}
#endif
REDUCE_RUN_INT(sum_16, int16_t, int32_t, int32_t, LOAD_S16, JOIN_ADD)
JOIN_RUN(largest_f32, JOIN_MAX_F32, -INFINITY, LOAD_AS_IS)
JOIN_RUN(smallest_f32, JOIN_MIN_F32, INFINITY, LOAD_AS_IS)
REDUCE_RUN_F32(max_f32, JOIN_MAX_F32, g->sign < 0 ? -smallest_f32((size_t)n, 1, row) : largest_f32((size_t)n, 1, row))
REDUCE_JOIN(max_f32, float, largest_f32(n, 1, run))
REDUCE_JOIN_INT(max_8, uint8_t, JOIN_MAX)
REDUCE_JOIN_INT(max_16, int16_t, JOIN_MAX)
REDUCE_RUN_MAX(max_8, uint8_t, LOAD_U8)
REDUCE_RUN_MAX(max_16, int16_t, LOAD_S16)

PL_LOOSE_END
static void finish_f32(const pl_reduction *g, size_t c, const void *acc0, void *y0) {
  const float *acc = acc0;
  float *y = y0;
  const float by = g->sign * g->divisor, inverse = 1.0f / by;
  size_t i = 0;
  if (g->divisor == 1) { /* an extreme or a sum, which may be -0: pl_quotient() would lose its sign */
    for (; i < c; i++) y[i] = acc[i] * g->sign;
    return;
  }
  for (; i + 16 <= c; i += 16) { /* exact quotients, so that the mean of equal numbers is that number */
    float quotient[16];
    for (size_t k = 0; k < 16; k++) quotient[k] = pl_quotient(acc[i + k], by, inverse);
    for (size_t k = 0; k < 16; k++) y[i + k] = quotient[k];
  }
  for (; i < c; i++) y[i] = pl_quotient(acc[i], by, inverse);
}
#define FINISH_SUM(name, T) \
  static void name(const pl_reduction *g, size_t c, const void *acc0, void *y0) { \
    const int32_t *acc = acc0, x_zero_sum = g->x_zero_sum, multiplier = g->multiplier, exponent = g->exponent; \
    const int32_t y_zero = g->y_zero, low = g->low, high = g->high, flip = g->flip; \
    T *y = y0; \
    PL_INDEPENDENT \
    for (size_t i = 0; i < c; i++) \
      y[i] = (T)(pl_clamp32(pl_mbqm32(acc[i] - x_zero_sum, multiplier, exponent) + y_zero, low, high) ^ flip); \
  }
FINISH_SUM(finish_sum_8, uint8_t)
FINISH_SUM(finish_sum_16, int16_t)
static void finish_max_8(const pl_reduction *g, size_t c, const void *acc0, void *y0) {
  const uint8_t *acc = acc0;
  uint8_t *y = y0;
  for (size_t i = 0; i < c; i++) y[i] = (uint8_t)(acc[i] ^ g->flip);
}
static void finish_max_16(const pl_reduction *g, size_t c, const void *acc0, void *y0) {
  const int16_t *acc = acc0;
  int16_t *y = y0;
  for (size_t i = 0; i < c; i++) y[i] = (int16_t)(acc[i] ^ g->flip);
}

typedef struct {
  void (*rows)(const pl_reduction *, size_t, ptrdiff_t, ptrdiff_t, const void *, int, void *);
  void (*run)(const pl_reduction *, size_t, ptrdiff_t, ptrdiff_t, const void *, void *);
  void (*fold)(size_t, size_t, void *);
  void (*join)(size_t, size_t, void *);
  void (*finish)(const pl_reduction *, size_t, const void *, void *);
  ptrdiff_t item, acc_item;
  int32_t start; /* four bytes of initial accumulators: one, two or four of them */
} reducer;

/* Are runs accumulated as lines, element i of a run with element i of the others, and joined at the end? */
static int joins_at_end(const pl_reduction *g) {
  return g->run && g->step == g->run && g->run <= REDUCE_LINE && g->n[0] * g->n[1] * g->n[2] >= 4;
}
/* How many partial results of a line of c outputs are accumulated side by side: the fewest that fill all lanes, or
 * whole blocks of lanes, but less if few rows would be joined to each of them. */
static ptrdiff_t partial_results(const pl_reduction *g, size_t c) {
  if (g->run || g->stride[2] != (ptrdiff_t)c || c >= REDUCE_LINE) return 1;
  ptrdiff_t partials = REDUCE_LINE / (ptrdiff_t)c, least = REDUCE_LANES;
  for (size_t factor = c; factor % 2 == 0 && least > 1; factor /= 2) least /= 2;
  if (least <= partials) partials = least;
  else if (partials > 8) partials &= ~(ptrdiff_t)7;
  while (partials > 1 && partials * (ptrdiff_t)c >= 16 && 4 * partials > g->n[2]) partials /= 2;
  return partials < g->n[2] ? partials : g->n[2];
}
/* Joins all elements of one row of c outputs to their accumulators, of which there are `partials` lines.  Up to 3 bytes
 * after them are overwritten. */
static void accumulate(const reducer *r, const pl_reduction *g, int at_end, ptrdiff_t partials, const char *x0,
                       size_t c, char *a) {
  const size_t line = at_end ? c * (size_t)g->run : c;
  const ptrdiff_t lines = g->n[2] / partials, rest = g->n[2] % partials, stride = partials * g->stride[2];
  int fresh = (!g->run || at_end) && !g->whole;
  for (size_t i = 0; i < c * (size_t)r->acc_item && !fresh && !g->whole; i += 4) memcpy(a + i, &r->start, 4);
  for (ptrdiff_t i0 = 0; i0 < g->n[0]; i0++)
    for (ptrdiff_t i1 = 0; i1 < g->n[1]; i1++) {
      const char *x = x0 + (i0 * g->stride[0] + i1 * g->stride[1]) * r->item;
      if (g->run && !at_end) {
        for (ptrdiff_t i2 = 0; i2 < g->n[2]; i2++) r->run(g, c, g->step, g->run, x + i2 * g->stride[2] * r->item, a);
      } else {
        r->rows(g, line * (size_t)partials, lines, stride, x, fresh, a);
        if (rest) r->rows(g, c * (size_t)rest, 1, 0, x + lines * stride * r->item, 0, a);
        fresh = 0;
      }
    }
}
static __attribute__((noinline)) void reduce(const reducer *r, const pl_reduction *g, int at_end, const char *x,
                                             size_t rows, ptrdiff_t apart, size_t c, void *y) {
  const ptrdiff_t partials = partial_results(g, c);
  const size_t outputs = rows * c, line = at_end ? c * (size_t)g->run : c * (size_t)partials;
  int32_t acc[REDUCE_MAX], results[REDUCE_MAX];
  char *to = (char *)results;
  if (g->whole) { /* the extreme of a full tensor starts from its first element, even NaN or infinity */
    const float first = g->sign * *(const float *)x;
    memcpy(to, &first, 4);
    if (first != first) rows = 0; /* it stays NaN, which later elements would replace on Arm */
  }
  for (; rows; rows--, x += apart * r->item, to += c * (size_t)r->acc_item) {
    char *a = line == c ? to : (char *)acc;
    accumulate(r, g, at_end, partials, x, c, a);
    if (line == c) continue;
    if (at_end) r->join(c, (size_t)g->run, a);
    else r->fold(c, (size_t)partials, a);
    for (size_t i = 0; i < c * (size_t)r->acc_item; i += 4) memcpy(to + i, a + i, 4);
  }
  r->finish(g, outputs, results, y);
}

#define REDUCE(name, finish, item, acc_item, identity) \
  static void reduce_##name(const pl_reduction *g, const void *x, size_t rows, ptrdiff_t apart, size_t c, void *y) { \
    static const reducer r = {name##_rows, name##_run, name##_fold, name##_join, finish, item, acc_item, identity}; \
    const int at_end = joins_at_end(g); \
    const size_t most = at_end ? REDUCE_MAX / (size_t)g->run : REDUCE_MAX; \
    if (c <= most) { \
      reduce(&r, g, at_end, x, rows, apart, c, y); \
      return; \
    } \
    for (size_t m, i; rows; rows--, x = (const char *)x + apart * item) \
      for (i = 0; i < c; i += m, y = (char *)y + m * item) { \
        m = c - i < most ? c - i : most; \
        reduce(&r, g, at_end, (const char *)x + (ptrdiff_t)i * g->step * item, 1, 0, m, y); \
      } \
  }
REDUCE(sum_f32, finish_f32, 4, 4, 0)
REDUCE(sum_8, finish_sum_8, 1, 4, 0)
REDUCE(sum_16, finish_sum_16, 2, 4, 0)
REDUCE(max_f32, finish_f32, 4, 4, (int32_t)0xFF7FFFFF /* -FLT_MAX */)
REDUCE(max_8, finish_max_8, 1, 1, 0)
REDUCE(max_16, finish_max_16, 2, 2, (int32_t)0x80008000)

/* ---- int32, int64 and products: each element joined with one of c accumulators ----
 * A long run has several partial results, so that a step need not wait for the one before. */
enum { JOINED_LANES = 16 };
#define JOINS_ROWS(c, step, stride) ((c) > 1 && (step) == 1 && (stride) != 1)
#define JOIN_ELEMENTS(name, TYPE, ACC, expression) \
  PL_INLINE ACC name##_step(ACC total, ACC v) { return (ACC)(expression); } \
  static void name(size_t c, ptrdiff_t step, size_t n, ptrdiff_t stride, const void *x, void *acc0) { \
    const TYPE *p = x; \
    int64_t *acc = acc0; \
    if (JOINS_ROWS(c, step, stride)) { \
      for (size_t i = 0; i < n; i++, p += stride) \
        for (size_t k = 0; k < c; k++) acc[k] = name##_step((ACC)acc[k], p[k]); \
      return; \
    } \
    for (size_t k = 0; k < c; k++, p += step) { \
      ACC total = (ACC)acc[k], part[JOINED_LANES]; \
      size_t i = 0; \
      if (stride == 1 && n >= 2 * JOINED_LANES) { \
        for (int j = 0; j < JOINED_LANES; j++) part[j] = p[j]; \
        for (i = JOINED_LANES; i + JOINED_LANES <= n; i += JOINED_LANES) \
          for (int j = 0; j < JOINED_LANES; j++) part[j] = name##_step(part[j], p[i + (size_t)j]); \
        for (int j = 0; j < JOINED_LANES; j++) total = name##_step(total, part[j]); \
      } \
      if (stride == 1) \
        for (; i < n; i++) total = name##_step(total, p[i]); \
      else \
        for (; i < n; i++) total = name##_step(total, p[(ptrdiff_t)i * stride]); \
      acc[k] = total; \
    } \
  }
/* Sums of int32 have 64 bits, for means; other results are the same in 32 bits. */
#define JOINS(suffix, TYPE, U) \
  JOIN_ELEMENTS(join_sum_##suffix, TYPE, int64_t, (uint64_t)total + (uint64_t)(int64_t)v) \
  JOIN_ELEMENTS(join_max_##suffix, TYPE, TYPE, JOIN_MAX(total, v)) \
  JOIN_ELEMENTS(join_min_##suffix, TYPE, TYPE, JOIN_MIN(total, v)) \
  JOIN_ELEMENTS(join_product_##suffix, TYPE, TYPE, (U)total * (U)v)
JOINS(i32, int32_t, uint32_t)
JOINS(i64, int64_t, uint64_t)

#define JOIN_MUL(a, b) ((a) * (b))
JOIN_RUN(product_f32_run, JOIN_MUL, 1, LOAD_AS_IS)
static void join_product_f32(size_t c, ptrdiff_t step, size_t n, ptrdiff_t stride, const void *x, void *acc0) {
  const float *p = x;
  float *acc = acc0;
  if (JOINS_ROWS(c, step, stride)) {
    for (size_t i = 0; i < n; i++, p += stride)
      for (size_t k = 0; k < c; k++) acc[k] *= p[k];
    return;
  }
  for (size_t k = 0; k < c; k++, p += step)
    if (stride == 1) acc[k] *= product_f32_run(n, 1, p);
    else
      for (size_t i = 0; i < n; i++) acc[k] *= p[(ptrdiff_t)i * stride];
}
