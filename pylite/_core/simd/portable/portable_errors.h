/* Sums over the errors of a tensor; included by portable.c alone.
 *
 * A few columns of up to 32 rows are summed in float32, in registers, and then added to doubles.  If infinities or NaN
 * spoil these sums, the columns are processed one by one.  Saturated elements are counted only if the reference is
 * beyond the range. */
#include <float.h>
#include <math.h>

#if defined(__AVX512F__)
enum { OBSERVED = 16 };
#elif defined(__AVX__)
enum { OBSERVED = 8 };
#else
enum { OBSERVED = 4 };
#endif

#define OBSERVE_ARGS \
  size_t rows, const float *restrict x, ptrdiff_t x_step, const float *restrict reference, ptrdiff_t r_step, \
    const pl_range *range, pl_error_sums *restrict s, size_t column

static __attribute__((noinline)) void observe_column(OBSERVE_ARGS) {
  for (; rows > 0; rows--, x += x_step, reference += r_step) {
    const float v = *x, r = *reference, e = v - r;
    if (!isfinite(v) || !isfinite(r)) continue;
    s->error[column] += e, s->error2[column] += (double)e * e, s->reference2[column] += (double)r * r;
    s->largest[column] = fmaxf(fabsf(e), s->largest[column]);
    s->highest[column] = fmaxf(r, s->highest[column]), s->lowest[column] = fminf(r, s->lowest[column]);
    s->count[column]++;
    s->low[column] += v <= range->lowest && r < range->low;
    s->high[column] += v >= range->highest && r > range->high;
  }
}

static void count_saturated(OBSERVE_ARGS) {
  int32_t low[OBSERVED] = {0}, high[OBSERVED] = {0};
  const pl_range limit = *range;
  for (size_t k = 0; k < rows; k++, x += x_step, reference += r_step) {
    for (int i = 0; i < OBSERVED; i++) {
      low[i] += (x[i] <= limit.lowest) & (reference[i] < limit.low);
      high[i] += (x[i] >= limit.highest) & (reference[i] > limit.high);
    }
  }
  for (int i = 0; i < OBSERVED; i++) s->low[column + i] += low[i], s->high[column + i] += high[i];
}

PL_LOOSE_BEGIN
static void observe_columns(OBSERVE_ARGS) {
  float e1[OBSERVED] = {0}, e2[OBSERVED] = {0}, r2[OBSERVED] = {0}, most[OBSERVED] = {0}, up[OBSERVED], down[OBSERVED];
  int32_t spoiled = 0, beyond = 0;
  const float *px = x, *pr = reference;
  PL_UNROLL for (int i = 0; i < OBSERVED; i++) up[i] = -HUGE_VALF, down[i] = HUGE_VALF;
  for (size_t k = 0; k < rows; k++, px += x_step, pr += r_step) {
    for (int i = 0; i < OBSERVED; i++) {
      const float r = pr[i], e = px[i] - r, a = fabsf(e);
      e1[i] += e, e2[i] += e * e, r2[i] += r * r;
      most[i] = a > most[i] ? a : most[i], up[i] = r > up[i] ? r : up[i], down[i] = r < down[i] ? r : down[i];
    }
  }
  for (int i = 0; i < OBSERVED; i++) {
    spoiled |= !(e2[i] + r2[i] <= FLT_MAX);
    beyond |= (down[i] < range->low) | (up[i] > range->high);
  }
  if (spoiled) {
    for (size_t i = 0; i < OBSERVED; i++)
      observe_column(rows, x + i, x_step, reference + i, r_step, range, s, column + i);
    return;
  }
  for (int i = 0; i < OBSERVED; i++) {
    s->error[column + i] += e1[i], s->error2[column + i] += e2[i], s->reference2[column + i] += r2[i];
    s->count[column + i] += (int32_t)rows;
    s->largest[column + i] = most[i] > s->largest[column + i] ? most[i] : s->largest[column + i];
    s->highest[column + i] = up[i] > s->highest[column + i] ? up[i] : s->highest[column + i];
    s->lowest[column + i] = down[i] < s->lowest[column + i] ? down[i] : s->lowest[column + i];
  }
  if (beyond) count_saturated(rows, x, x_step, reference, r_step, range, s, column);
}
PL_LOOSE_END

static void observe_f32(size_t rows, size_t n, const float *x, ptrdiff_t x_step, const float *reference,
                        ptrdiff_t r_step, const pl_range *range, pl_error_sums *sums) {
  size_t column = 0;
  for (; column + OBSERVED <= n; column += OBSERVED)
    observe_columns(rows, x + column, x_step, reference + column, r_step, range, sums, column);
  for (; column < n; column++)
    observe_column(rows, x + column, x_step, reference + column, r_step, range, sums, column);
}
