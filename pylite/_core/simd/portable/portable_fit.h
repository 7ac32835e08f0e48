/* fit_q8 finds float32 parameters that requantize a column exactly as the rule does; included by portable.c alone.
 *
 * The rule of docs/numerics.md takes ten vector instructions per accumulator, float32 four or five.  Both are monotonic
 * staircases, so they are equal if each step is at the same accumulator, and an 8-bit result has at most STEPS of
 * them.  A column is requantized in float32 only if all steps agree, from the smallest to the largest accumulator that
 * the layer can reach. */
#include "rounding.h"
#include <string.h>

#if defined(__AVX2__) /* other ISA levels have no micro-kernels that use them */
enum { STEPS = 256 }; /* up or down from the zero point */

/* How an accumulator becomes a result: MBQM32, or the float64 rule. */
typedef struct {
  int real; /* the float64 rule */
  int left, right;
  int32_t mult;
  double s, half; /* the result is floor(s x + half) for x > 0 */
} rule;

PL_INLINE int32_t by_rule(rule q, int32_t x) {
  if (q.real) {
    __asm__("" : "+r"(x)); /* not vectorised: few columns ever need it */
    return pl_scale_f64(x, q.s);
  }
  return pl_rdbpot(pl_mul_high(pl_shl32(x, q.left), q.mult), q.right);
}

PL_INLINE double power_of_two(int e) { /* ldexp would be a call */
  const uint64_t bits = (uint64_t)(1023 + e) << 52;
  double x;
  memcpy(&x, &bits, 8);
  return x;
}

/* A column: its rule, the smallest and largest accumulator, and the number of steps up and down that matter. */
typedef struct {
  rule q;
  double least, most, size; /* size: the larger magnitude of both */
  int up, down;
} column;

#if defined(__AVX512F__)
/* ---- AVX-512 computes acc scale + (acc rest +- start), the outer sum rounded towards 0 ---- */
typedef struct { double sure; } fitter; /* the last scale that certainly fits: often all columns share one */
PL_INLINE fitter new_fitter(void) { return (fitter){0}; }

/* The distance between a step and an accumulator below which the rounding of float32 matters: `start` and `rest` may
 * be off by 2^-25 each.  per: accumulators per step. */
PL_INLINE double nearness(double per) { return 0x1.2p-24 * per + 0x1p-26; }

/* Does float32 certainly fit, because no step is that close to an accumulator? */
static int fits_surely(double s, double half, int steps) {
  const double per = 1 / s, near = nearness(per);
  int bad = steps * per >= 0x1p24;
  for (int u = 1; u <= steps; u++) {
    const double position = (u - half) * per, part = position - __builtin_floor(position);
    bad |= (part < near) | (part > 1 - near);
  }
  return !bad;
}

/* Lists the steps that are that close, or would be for the modified scales and starts that fit_column tries. */
static int close_steps(double s, double half, int steps, int16_t *close) {
  enum { LANES = 8 };
  const double per = 1 / s, near = nearness(per) + 4. / 2048;
  const int all = steps * per >= 0x1p24;
  int count = 0;
  for (int k = 0; k < steps; k += LANES) {
    int8_t is_close[LANES];
    int any = 0;
    for (int l = 0; l < LANES; l++) {
      const double position = (k + l + 1 - half) * per, part = position - __builtin_floor(position);
      const double margin = near + position * 0x1p-28;
      any |= is_close[l] = all | (part < margin) | (part > 1 - margin);
    }
    for (int l = 0; any && l < LANES && k + l < steps; l++)
      if (is_close[l]) close[count++] = (int16_t)(k + l + 1);
  }
  return count;
}

/* Does float32 take the close steps at the same accumulators as the rule?  `first` is the first accumulator with result
 * u; sign -1 counts downwards.  float32's sum is computed in float64, whose error is far below the margin. */
static int takes_steps(rule q, int sign, double least, double most, int steps, const int16_t *close, int count,
                       float scale, float rest, float start) {
  const double margin = 0x1p-40;
  int bad = 0;
  for (int i = 0; i < count && close[i] <= steps && !bad; i++) {
    const int u = close[i];
    const double first = __builtin_ceil((u - q.half) / q.s);
    const int32_t x1 = (int32_t)(first < least ? least : first > most ? most : first);
    const int32_t x0 = (int32_t)(first - 1 > most ? most : first - 1 < least ? least : first - 1);
    const float f1 = (float)x1, f0 = (float)x0;
    const double v1 = (double)f1 * scale + __builtin_fmaf(f1, rest, x1 < 0 ? -start : start);
    const double v0 = (double)f0 * scale + __builtin_fmaf(f0, rest, x0 < 0 ? -start : start);
    bad |= (first <= most) & ((v1 < u + margin) | (sign * by_rule(q, sign * x1) < u));
    bad |= (first > least) & ((v0 > u - margin) | (sign * by_rule(q, sign * x0) >= u));
  }
  return !bad;
}

/* Finds scale, rest and start for a column; 0 if there are none.  If a step does not agree, it may do so with a
 * slightly different scale or start, so TRIES pairs of them are tried. */
static int fit_column(fitter *f, const column *c, float *scale, float *rest, float *start) {
  enum { TRIES = 45 };
  const rule q = c->q;
  const int steps = c->up > c->down ? c->up : c->down;
  int16_t close[STEPS];
  *scale = (float)q.s, *rest = (float)(q.s - (double)*scale), *start = (float)q.half;
  if (q.s == f->sure || fits_surely(q.s, q.half, steps)) {
    f->sure = q.s;
    return 1;
  }
  const int count = close_steps(q.s, q.half, steps, close);
  for (int i = 0; i < TRIES; i++) {
    const double tilted = q.s * (1 + ((i * 2 + 2) % 5 - 2) * 0x1p-30);
    *scale = (float)tilted;
    *rest = (float)(tilted - (double)*scale);
    *start = (float)(q.half + ((i * 5 + 4) % 9 - 4) * q.s / 2048);
    if (takes_steps(q, 1, c->least, c->most, c->up, close, count, *scale, *rest, *start) &&
        takes_steps(q, -1, -c->most, -c->least, c->down, close, count, *scale, *rest, *start))
      return 1;
  }
  return 0;
}

#else
/* ---- AVX2 computes acc scale +- start, rounded to the nearest, and `rest` is 0 ----
 *
 * From the last accumulator with result u - 1 to the first with result u, float32's sum has to pass the number from
 * which on it is rounded to u, which is half a unit in the last place below u.  So each step bounds `start`. */
typedef struct {
  double reached[STEPS]; /* the number to pass in each step */
  /* The last column that fits, and its parameters, valid up to the magnitude `held`: columns often share a scale. */
  column fitted;
  double held;
  float scale, start;
} fitter;

static fitter new_fitter(void) {
  fitter f = {.held = -1};
  double below = 0x1p-25;
  for (int n = 0; n < STEPS; n++) {
    if (n && !(n & (n - 1))) below *= 2; /* n + 1 is the first step beyond a power of two */
    f.reached[n] = n + 1 - below;
  }
  return f;
}

enum { FIT_LANES = 4 };

/* firsts[u - 1] = the first accumulator with result u, also counted downwards; returns 0 if the directions differ. */
static int find_steps(rule q, int steps, double *firsts) {
  const double per = 1 / q.s, close = 0x1p-20;
  double gap[FIT_LANES] = {1, 1, 1, 1};
  for (int k = 0; k < steps; k += FIT_LANES)
    for (int l = 0; l < FIT_LANES; l++) {
      const double x = (k + l + 1 - q.half) * per, away = __builtin_fabs(x - __builtin_rint(x));
      firsts[k + l] = __builtin_ceil(x);
      gap[l] = away < gap[l] ? away : gap[l];
    }
  const int near = (gap[0] < close) | (gap[1] < close) | (gap[2] < close) | (gap[3] < close);
  for (int u = 1; near && u <= steps; u++) { /* if a step is close to an accumulator, float64 cannot decide */
    const double x = (u - q.half) * per, whole = __builtin_rint(x);
    if (__builtin_fabs(x - whole) >= close) continue;
    const int up = by_rule(q, (int32_t)whole) < u, down = by_rule(q, -(int32_t)whole) > -u;
    if (up != down) return 0;
    firsts[u - 1] = whole + up;
  }
  return 1;
}

/* Finds a start within the bounds of the first n steps for the scale s; 0 if the bounds exclude all numbers. */
static int find_start(const double *firsts, const double *reached, int n, float s, float *start) {
  const double margin = 0x1p-40;
  double low[FIT_LANES] = {0}, high[FIT_LANES] = {1, 1, 1, 1};
  int k = 0;
  for (; k + FIT_LANES <= n; k += FIT_LANES)
    for (int l = 0; l < FIT_LANES; l++) {
      const double least = reached[k + l] - firsts[k + l] * s, most = least + s;
      low[l] = least > low[l] ? least : low[l];
      high[l] = most < high[l] ? most : high[l];
    }
  for (int l = 0; l < FIT_LANES; l++, k++) {
    const double least = k < n ? reached[k] - firsts[k] * s : 0, most = k < n ? least + s : 1;
    low[0] = low[l] > low[0] ? low[l] : low[0];
    high[0] = high[l] < high[0] ? high[l] : high[0];
    low[0] = least > low[0] ? least : low[0];
    high[0] = most < high[0] ? most : high[0];
  }
  *start = (float)((low[0] + high[0]) / 2);
  return low[0] + margin < *start && *start < high[0] - margin;
}

static int fits_nearest(const column *c, int steps, const double *reached, float *scale, float *start) {
  const rule q = c->q;
  double firsts[STEPS];
  if (steps * (1 / q.s) >= 0x1p24 || !find_steps(q, steps, firsts)) return 0;
  int n = steps;
  while (n && firsts[n - 1] - 1 > c->size) n--;
  for (int i = 0; i < 9; i++) { /* the nearest scale, and its neighbours */
    *scale = pl_float_of(pl_bits_of((float)q.s) + (uint32_t)(i & 1 ? -(i + 1) / 2 : i / 2));
    if (find_start(firsts, reached, n, *scale, start)) return 1;
  }
  return 0;
}

/* Finds scale and start for a column; 0 if there are none. */
static int fit_column(fitter *f, const column *c, float *scale, float *rest, float *start) {
  const int steps = c->up > c->down ? c->up : c->down;
  const rule q = c->q, other = f->fitted.q;
  (void)rest;
  if (c->size <= f->held && q.s == other.s && q.mult == other.mult && q.left == other.left && q.right == other.right) {
    *scale = f->scale, *start = f->start;
    return 1;
  }
  if (!fits_nearest(c, steps, f->reached, scale, start)) return 0;
  f->fitted = *c, f->scale = *scale, f->start = *start;
  f->held = steps - q.half <= c->size * q.s ? __builtin_inf() : c->size;
  return 1;
}
#endif

/* Is the result the same for all accumulators?  Then `start` alone gives it. */
static int fit_constant(const column *c, int low, float *start) {
  const int32_t first = by_rule(c->q, (int32_t)c->least), last = by_rule(c->q, (int32_t)c->most);
  if (first != last || (first != 0 && c->least <= 0 && c->most >= 0)) return 0;
  *start = (float)(first >= 0 ? first : low >= 0 ? 0 : -first);
  return *start < 0x1p24f;
}
#endif

static void fit_q8(ptrdiff_t n, const pl_fit *fit, float *scale, float *rest, float *start, int *unfit) {
#if defined(__AVX2__)
  const double *real = fit->real;
  const int low = fit->low, high = fit->high;
  fitter f = new_fitter();
  for (ptrdiff_t j = 0; j < n; j++) {
    const int left = fit->left[j], right = fit->right[j];
    rule q = {real != NULL, left, right, fit->mult[j], 0, 0.5};
    q.s = real ? real[j] : fit->mult[j] * power_of_two(left - right - 31);
    if (!real) q.half = (right ? 0.5 : 0) + power_of_two(-right - 1);
    if (q.s == 0) continue; /* a column that is not in use */
    column c = {q, fit->bias[j] - fit->reach, fit->bias[j] + fit->reach, 0, high, -low};
    c.size = c.most > -c.least ? c.most : -c.least;
    const int in_range = q.s > 0 && c.size < power_of_two(31 - left) && c.size * q.s < 0x1p31;
    if (!in_range || high > STEPS || -low > STEPS ||
        !(fit_constant(&c, low, start + j) || fit_column(&f, &c, scale + j, rest + j, start + j))) {
      *unfit = 1;
      return;
    }
  }
#else
  (void)n, (void)fit, (void)scale, (void)rest, (void)start;
  *unfit = 1;
#endif
}
