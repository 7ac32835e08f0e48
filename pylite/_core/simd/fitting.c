/* pl_fit_sum() and pl_fit_product(): search for parameters with which the short forms of fitted.h give exactly the sums
 * and products of the rule (ADD, SUB and MUL in docs/numerics.md).
 *
 * The rounded result of either form is a staircase over the exact one.  Errors are bounded, so both can only differ
 * close to a step, and all operands close to a step are compared.  If some differ, slightly changed parameters are
 * tried. */
#include "fitted.h"
#include "common.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LOG_BUCKETS = 9, BUCKETS = 1 << LOG_BUCKETS };

/* For finding the pairs (a, b) whose sum is close to a step: their positions differ by at most `reach`. */
typedef struct {
  int32_t rule[2][256];     /* each operand as the rule adds it */
  int32_t position[2][256]; /* the fractions of a - 1/2 and of -b, in units of the output */
  int16_t head[BUCKETS], next[256]; /* lists of all b by the upper bits of their positions */
  int32_t reach; /* at most the width of a bucket: neighbours are in the same bucket or in adjacent ones */
} neighbours;

/* Bounds of a number that is added to sums. */
typedef struct { int64_t least, most; } bounds;
/* Tightens b; returns 0 if nothing is left between the bounds. */
PL_INLINE int tighten(bounds *b, int64_t least, int64_t most) {
  if (least > b->least) b->least = least;
  if (most < b->most) b->most = most;
  return b->least <= b->most;
}

/* The exact ratios of the operands' scales to the output's; unit: the step of the operands that the rule adds, in units
 * of the output. */
typedef struct { double a, b, unit; } exact_ratios;
PL_INLINE exact_ratios exact_ratios_of(const sum_q_p *r) {
  const double unit = ldexp(r->y_m, r->y_e - 31), sign = r->sign ? -1 : 1;
  return (exact_ratios){ldexp(r->a_m, r->a_e - 31 + r->left) * unit,
                        ldexp(r->b_m, r->b_e - 31 + r->left) * unit * sign, unit};
}

/* Fills k, except for `reach`.  one: the distance between two steps. */
static void find_neighbours(neighbours *k, const sum_q_p *r, const exact_ratios *exact, double one) {
  memset(k->head, -1, sizeof k->head);
  for (int i = 0; i < 256; i++) {
    const int32_t da = i - 128 - r->a_zero, db = i - 128 - r->b_zero;
    const double v = da * exact->a - 0.5, w = -db * exact->b;
    k->rule[0][i] = pl_mbqm_small(pl_shl32(da, r->left), r->a_m, r->a_e);
    k->rule[1][i] = (pl_mbqm_small(pl_shl32(db, r->left), r->b_m, r->b_e) ^ r->sign) - r->sign;
    k->position[0][i] = (int32_t)((v - floor(v)) * one) & ((int32_t)one - 1);
    k->position[1][i] = (int32_t)((w - floor(w)) * one) & ((int32_t)one - 1);
    int16_t *head = &k->head[k->position[1][i] / ((int32_t)one / BUCKETS)];
    k->next[i] = *head, *head = (int16_t)i;
  }
}

/* The largest deviations that are tried, from the exact ratios and from the ideal start; the number of ratios. */
enum { OFF_RATIO = 2, OFF_START = 256, RATIOS = 2 * OFF_RATIO + 1 };
#if defined(__aarch64__)
enum { LOW_DIGIT = 8 };
#else
enum { LOW_DIGIT = PL_LOW_DIGIT };
#endif

/* Finds a start with which these ratios give the rule's sums for all operands close to a step; 0 if there is none. */
static int fit_start(int64_t *start, const int64_t ratios[2], const sum_q_p *r, const neighbours *k, int fraction,
                     int64_t ideal) {
  const int32_t one = 1 << fraction, mask = one - 1, size = one / BUCKETS;
  bounds range = {ideal - OFF_START, ideal + OFF_START};
  for (int i = 0; i < 256; i++)
    for (int32_t bucket = k->position[0][i] / size - 1, last = bucket + 2; bucket <= last; bucket++)
      for (int j = k->head[bucket & (BUCKETS - 1)]; j >= 0; j = k->next[j]) {
        if (((k->position[0][i] - k->position[1][j] + k->reach) & mask) > 2 * k->reach) continue;
        const int32_t v = pl_mbqm_small(k->rule[0][i] + k->rule[1][j], r->y_m, r->y_e) + r->y_zero;
        const int64_t from = (int64_t)v * one - (i - 128) * ratios[0] - (j - 128) * ratios[1];
        const int counts = v >= r->low && v <= r->high; /* steps beyond the limits do not matter */
        if (counts && !tighten(&range, v > r->low ? from : INT64_MIN, v < r->high ? from + mask : INT64_MAX)) return 0;
      }
  *start = range.least + (range.most - range.least) / 2;
  return 1;
}

/* Splits a ratio into two digits; 0 if the upper one does not fit into 16 bits. */
static int two_digits(int64_t ratio, int16_t digits[2]) {
  const int32_t half = 1 << (LOW_DIGIT - 1), low = (int32_t)((ratio + half) & (2 * half - 1)) - half;
  const int64_t high = (ratio - low) / (2 * half);
  digits[0] = (int16_t)high, digits[1] = (int16_t)low;
  return high == digits[0];
}

/* Arm adds the products with the lower digits in 16 bits. */
PL_INLINE int low_products_fit(const pl_fitted_sum *p) { return LOW_DIGIT > 8 || abs(p->a[1]) + abs(p->b[1]) < 256; }

/* Searches for two-digit ratios with `fraction` bits of fraction, and a start; returns 0 if there are none.
 *
 * error: how far the rule's sum may be from the exact one: it rounds each operand by up to a step, and the sum.  A
 * ratio that deviates by 1, or is rounded to digits, moves a sum by up to 128. */
static int fit_two_digits(pl_fitted_sum *p, const exact_ratios *exact, int fraction, int64_t *start) {
  const sum_q_p *r = &p->rule;
  const double a = exact->a, b = exact->b;
  const double one = ldexp(1, fraction), error = (2 * exact->unit + ldexp(1, r->y_e - 1)) * one;
  neighbours k;
  k.reach = (int32_t)error + 2 * 128 * (OFF_RATIO + 1) + OFF_START;
  if (error > one || k.reach >= one / BUCKETS) return 0;
  const int64_t ideal = (int64_t)((r->y_zero + 0.5 - r->a_zero * a - r->b_zero * b) * one);
  find_neighbours(&k, r, exact, one);
  for (int i = 0; i < RATIOS * RATIOS; i++) { /* the nearest ratios, then their neighbours */
    static const int8_t off[RATIOS] = {0, 1, -1, 2, -2};
    const int64_t ratios[2] = {llrint(a * one) + off[i % RATIOS], llrint(b * one) + off[i / RATIOS]};
    if (two_digits(ratios[0], p->a) && two_digits(ratios[1], p->b) && low_products_fit(p) &&
        fit_start(start, ratios, r, &k, fraction, ideal)) {
      p->fraction = fraction;
      return 1;
    }
  }
  return 0;
}

#if !defined(__aarch64__)
enum { STARTS = 8 }; /* starts that are tried, a fraction of the last bit apart */

/* Splits a ratio into three digits. */
static void three_digits(int64_t ratio, int16_t digits[3]) {
  for (int i = 2; i > 0; i--) {
    digits[i] = (int16_t)((ratio & 0x7FFF) - (ratio & 0x4000) * 2);
    ratio = (ratio - digits[i]) >> 15;
  }
  digits[0] = (int16_t)ratio;
}

/* Finds the numbers `above` and `below`, which each sum close to a step bounds; 0 if there are none. */
static int fit_ends(pl_fitted_sum *p, const neighbours *k) {
  const sum_q_p *r = &p->rule;
  const int32_t one = 1 << p->fraction, shift = p->fraction - LOG_BUCKETS, mask = one - 1;
  bounds ends[2] = {{one / 2 - k->reach, one / 2 + k->reach}, {one / 2 - k->reach, one / 2 + k->reach}};
  pl_fitted_sum sums = *p; /* computes sums before rounding */
  sums.above = sums.below = sums.fraction = sums.rule.y_zero = 0, sums.rule.low = INT32_MIN, sums.rule.high = INT32_MAX;
  for (int i = 0; i < 256; i++)
    for (int32_t bucket = (k->position[0][i] >> shift) - 1, last = bucket + 2; bucket <= last; bucket++)
      for (int j = k->head[bucket & (BUCKETS - 1)]; j >= 0; j = k->next[j]) {
        if (((k->position[0][i] - k->position[1][j] + k->reach) & mask) > 2 * k->reach) continue;
        const int32_t v = pl_mbqm_small(k->rule[0][i] + k->rule[1][j], r->y_m, r->y_e);
        const int32_t t = pl_sum_fitted(i - 128, j - 128, &sums);
        const int64_t from = ((int64_t)v << p->fraction) - t;
        if (!tighten(&ends[t < 0], v + r->y_zero > r->low ? from : 0, v + r->y_zero < r->high ? from + mask : one))
          return 0;
      }
  p->above = (int32_t)((ends[0].least + ends[0].most) / 2);
  p->below = (int32_t)((ends[1].least + ends[1].most) / 2);
  return 1;
}

/* Sets corrections for the operand with the smaller scale, which the rule rounds.  a, b, unit: the exact_ratios, times
 * the distance between two steps.
 *
 * If the operand's exponent is -k < 0, the rule rounds twice, up from 1/2 - 2^-(k + 1). */
static void correct(pl_fitted_sum *p, double a, double b, double unit) {
  const sum_q_p *r = &p->rule;
  const int of_b = a > fabs(b), exponent = of_b ? r->b_e : r->a_e;
  const double ratio = fabs(of_b ? b : a) / unit;
  p->corrected = of_b + 1;
  p->zero = of_b ? r->b_zero : r->a_zero;
  p->step = (int32_t)lrint((ratio - floor(ratio)) * 65536);
  p->offset = exponent < 0 && exponent > -16 ? 1 << (15 + exponent) : 0;
  p->gain = (int32_t)lrint(ldexp(of_b && r->sign ? -unit : unit, PL_CORRECTION));
  p->mean = p->offset * p->gain >> 16;
}

/* Searches for three-digit ratios with `fraction` bits of fraction; returns 0 if there are none. */
static int fit_three_digits(pl_fitted_sum *p, const exact_ratios *exact, int fraction) {
  neighbours k;
  const sum_q_p *r = &p->rule;
  const double a = exact->a, b = exact->b, unit = exact->unit;
  const double one = ldexp(1, fraction), error = (2 * unit + ldexp(1, r->y_e - 1)) * one;
  const double upper = ldexp(fmax(a, fabs(b)), fraction - 8); /* the larger upper digit */
  if (upper > INT16_MAX - 1 || unit * one > 15 || 16 * BUCKETS * error > one) return 0;
  k.reach = (int32_t)error + 16;
  p->fraction = fraction, p->corrected = 0;
  find_neighbours(&k, r, exact, one);
  for (int i = 0; i < 4 * STARTS; i++) { /* two digits, three digits, then both with corrections */
    const int64_t last = i / STARTS % 2 ? 1 : 1 << 15, per_one = (1 << 22) / last;
    const int64_t ra = llrint(a * one * per_one) * last, rb = llrint(b * one * per_one) * last;
    const int64_t start = -(r->a_zero * ra + r->b_zero * rb);
    const int64_t shifted = start + (int64_t)(i % STARTS) * ((1 << 22) / STARTS); /* by a fraction of the last bit */
    three_digits(ra, p->a);
    three_digits(rb, p->b);
    p->start = (int32_t)(shifted >> 22), p->start_low = (int32_t)((shifted & 0x3FFFFF) >> 7);
    if (i == 2 * STARTS) correct(p, a * one, b * one, unit * one);
    if (fit_ends(p, &k)) return 1;
  }
  return 0;
}

void pl_fit_sum(pl_fitted_sum *p) {
  const exact_ratios exact = exact_ratios_of(&p->rule);
  int64_t from;
  int bits;
  frexp(255 * (exact.a + fabs(exact.b)) + 2, &bits);
  if (!p->rule.y_m || bits > 13) return;
  p->short_form = 1;
  if (fit_two_digits(p, &exact, PL_FRACTION, &from)) {
    const int64_t whole = from >> PL_FRACTION;
    p->start = (int32_t)whole, p->start_low = (int32_t)((from - whole * (1 << PL_FRACTION)) << 8);
    return;
  }
  p->short_form = 0;
  /* Sums have 31 bits.  If many are close to a step, as with scales of few digits, only the larger fraction may fit. */
  if (!fit_three_digits(p, &exact, 30 - bits) && !fit_three_digits(p, &exact, 31 - bits)) p->fraction = 0;
}

#else
void pl_fit_sum(pl_fitted_sum *p) {
  const sum_q_p *r = &p->rule;
  const exact_ratios exact = exact_ratios_of(r);
  const double a = exact.a, b = exact.b;
  int64_t start;
  if (!r->y_m) return;
  const double a_most = a * (r->a_zero > 0 ? 128 + r->a_zero : 127 - r->a_zero);
  const double b_most = fabs(b) * (r->b_zero > 0 ? 128 + r->b_zero : 127 - r->b_zero);
  const double most = a_most + b_most + abs(r->y_zero) + 2;
  const int fraction = most < 1 << (31 - PL_FRACTION) ? PL_FRACTION : PL_FRACTION - 1;
  const double one = ldexp(1, fraction), ideal = (r->y_zero + 0.5 - r->a_zero * a - r->b_zero * b) * one;
  if (most * one >= 0x1p31 || a * one + OFF_RATIO >= 0x1p23 || fabs(b) * one + OFF_RATIO >= 0x1p23 ||
      fabs(ideal) + OFF_START >= 0x1p31 || !fit_two_digits(p, &exact, fraction, &start))
    return;
  p->start = (int32_t)start;
}
#endif

/* NEON needs no short form: there the rule itself takes as few instructions. */
#if !defined(__aarch64__)
/* Does p give the rule's results for products of magnitude up to `reach`?  s: the exact scale. */
static int product_agrees(const pl_fitted_product *p, double s, int32_t reach) {
  const int32_t up = p->high - p->y_zero, down = p->y_zero - p->low, steps = up > down ? up : down;
  pl_fitted_product local = *p;
  local.a_zero = local.b_zero = 0;
  for (int32_t u = 1; u <= steps; u++) {
    const int32_t middle = (int32_t)((u - 0.5) / s);
    if (middle - 2 > reach) break;
    for (int32_t x = middle - 2; x <= middle + 3; x++)
      for (int sign = -1; sign <= 1; sign += 2) {
        const int32_t v = sign * pl_min32(pl_max32(x, 0), reach);
        const int32_t r = pl_clamp32(pl_mbqm32(v, p->m, p->e) + p->y_zero, p->low, p->high);
        if (r != pl_product_fitted(v, 1, &local)) return 0;
      }
  }
  return 1;
}

/* The float that is `ulps` floats above x. */
static float stepped(float x, int ulps) {
  int32_t bits;
  memcpy(&bits, &x, 4);
  bits += ulps;
  memcpy(&x, &bits, 4);
  return x;
}

void pl_fit_product(pl_fitted_product *p) {
  const double s = ldexp(p->m, p->e - 31), half = p->e < 0 ? 0.5 + ldexp(1, p->e - 1) : 0.5; /* it rounds twice */
  if (!(s > 0x1p-30 && s < 16)) return;
  enum { HALVES = 9, SCALES = 5, HALF_STEP = 32 }; /* values that are tried, around the exact ones; step: in ulps */
  for (int i = 0; i < HALVES; i++)
    for (int j = 0; j < SCALES; j++) {
      p->half = stepped((float)half, (i & 1 ? -(i + 1) / 2 : i / 2) * HALF_STEP);
      p->scale = stepped((float)s, j & 1 ? -(j + 1) / 2 : j / 2);
      if (product_agrees(p, s, 255 * 255)) return;
    }
  p->scale = 0;
}
#else
void pl_fit_product(pl_fitted_product *p) { (void)p; }
#endif
