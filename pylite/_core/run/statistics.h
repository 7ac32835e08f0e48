/* Sums of the differences between a tensor and its reference, for each channel (the last axis), in a fixed order, and
 * exact sums of these sums. */
#ifndef PL_STATISTICS_H
#define PL_STATISTICS_H
#include "simd.h"
#include <math.h>
#include <string.h>

/* Rows of int64 counts per channel: elements that are finite in both tensors, elements saturated at either end, and
 * samples whose sums are too large to keep. */
enum { PL_COUNT, PL_LOW, PL_HIGH, PL_TOO_LARGE, PL_COUNTS };
/* Rows of exact sums: the error, its square, and the square of the reference. */
enum { PL_ERROR, PL_ERROR2, PL_REFERENCE2, PL_SUMS };
/* Rows of float per channel: extremes of the error's magnitude and of the reference. */
enum { PL_MAX_ERROR, PL_MAX_REFERENCE, PL_MIN_REFERENCE, PL_EXTREMES };

/* An exact sum: a number is split into limbs of 40 bits, and an int64 can add 2^22 of each.  Each addend is rounded to
 * a multiple of 2^-80, so that the order of additions never matters. */
enum { PL_LIMBS = 4 };
static const double PL_LIMB_UNIT[PL_LIMBS] = {0x1p40, 1.0, 0x1p-40, 0x1p-80};

/* Adds `count` addends to their limbs; limb k is `step` numbers after limb k - 1.  An addend that is not finite or
 * reaches 2^80 only increments its too_large. */
static void pl_add_exactly(const double *__restrict__ addends, int64_t *__restrict__ limbs, size_t step,
                           int64_t *__restrict__ too_large, size_t count) {
  const double round = 0x1.8p52; /* adding and subtracting it rounds to an integer */
  int64_t bits;
  memcpy(&bits, &round, sizeof bits);
  for (size_t i = 0; i < count; i++)
    too_large[i] += fabs(addends[i]) < 0x1p80 ? 0 : 1;
  for (size_t i = 0; i < count; i++) {
    double rest = fabs(addends[i]) < 0x1p80 ? addends[i] : 0.0;
    for (int k = 0; k < PL_LIMBS; k++) {
      const double rounded = rest * (1 / PL_LIMB_UNIT[k]) + round;
      int64_t limb;
      memcpy(&limb, &rounded, sizeof limb);
      limbs[(size_t)k * step + i] += limb - bits;
      rest -= (rounded - round) * PL_LIMB_UNIT[k];
    }
  }
}

typedef struct { /* parameters of a dequantizing micro-kernel */
  float scale;
  int32_t zero_point;
} pl_grid;

/* A tensor, its reference, and the running sums of their difference.
 *
 * dequantize: a micro-kernel, or NULL for float values; grid: its parameters; size: bytes of a value.  counts, limbs,
 * extremes: the rows above. */
typedef struct {
  const char *values;
  const float *reference;
  size_t elements, channels, size;
  void (*dequantize)(size_t n, const void *x, void *y, const void *p);
  pl_grid grid;
  pl_range range;
  int64_t *counts, *limbs;
  float *extremes;
} pl_observed;

enum { PL_COLUMNS = 256, PL_BLOCK = 4096, PL_ROWS = 32 };

/* Observes `rows` rows of n columns, `step` elements apart and starting at element `first`, block by block. */
static void pl_observe_rows(const pl_slots *slots, const pl_observed *o, size_t first, size_t rows, size_t n,
                            size_t step, pl_error_sums *sums) {
  float block[PL_BLOCK];
  const size_t most = PL_BLOCK / n < PL_ROWS ? PL_BLOCK / n : PL_ROWS;
  for (size_t m; rows > 0; rows -= m, first += m * step) {
    m = rows < most ? rows : most;
    const float *x = (const float *)o->values + first;
    if (o->dequantize) {
      const size_t together = n == step ? m : 1; /* number of adjacent rows, which are converted by one call */
      x = block;
      for (size_t k = 0; k < m; k += together)
        o->dequantize(together * n, o->values + (first + k * step) * o->size, block + k * n, &o->grid);
    }
    slots->observe_f32(m, n, x, (ptrdiff_t)(o->dequantize ? n : step), o->reference + first, (ptrdiff_t)step,
                       &o->range, sums);
  }
}

/* Adds the sums of n columns to their channels, up to PL_COLUMNS from `channel` on; a channel may have several of
 * them. */
static void pl_commit(const pl_observed *o, pl_error_sums *sums, size_t n, size_t channel) {
  const size_t c = o->channels, m = n < c - channel ? n : c - channel;
  double *rows[PL_SUMS] = {sums->error, sums->error2, sums->reference2};
  int64_t *counts = o->counts + channel;
  float *extremes = o->extremes + channel;
  for (int row = 0; row < PL_SUMS; row++) {
    for (size_t i = m; i < n; i++)
      rows[row][i % m] += rows[row][i];
    pl_add_exactly(rows[row], o->limbs + (size_t)row * c + channel, PL_SUMS * c, counts + PL_TOO_LARGE * c, m);
  }
  for (size_t first = 0; first < n; first += m)
    for (size_t j = 0; j < m && first + j < n; j++) {
      const size_t i = first + j;
      counts[PL_COUNT * c + j] += sums->count[i];
      counts[PL_LOW * c + j] += sums->low[i];
      counts[PL_HIGH * c + j] += sums->high[i];
      float *largest = extremes + PL_MAX_ERROR * c + j, *highest = extremes + PL_MAX_REFERENCE * c + j;
      float *lowest = extremes + PL_MIN_REFERENCE * c + j;
      *largest = sums->largest[i] > *largest ? sums->largest[i] : *largest;
      *highest = sums->highest[i] > *highest ? sums->highest[i] : *highest;
      *lowest = sums->lowest[i] < *lowest ? sums->lowest[i] : *lowest;
    }
}

/* A histogram of BINS bins around 0: value v is in bin floor((v * inverse + offset) * 2^-exponent) + BINS / 2. */
enum { PL_BINS = 256, PL_BIN_BITS = 8, PL_COPIES = 4, PL_INFINITY = 0x7f800000 }; /* as bits */
typedef struct {
  int64_t *counts;
  int32_t *exponent;
  double inverse, offset;
} pl_histogram;

/* Joins pairs of bins until their width is 2^exponent. */
static void pl_widen(const pl_histogram *h, int32_t exponent) {
  int64_t pairs[PL_BINS / 2], total = 0;
  for (; *h->exponent < exponent; ++*h->exponent) {
    for (size_t i = 0; i < PL_BINS / 2; i++) {
      pairs[i] = h->counts[2 * i] + h->counts[2 * i + 1];
      total += pairs[i];
    }
    if (total == 0) {
      *h->exponent = exponent;
      return;
    }
    memset(h->counts, 0, PL_BINS * sizeof *h->counts);
    memcpy(h->counts + PL_BINS / 4, pairs, sizeof pairs);
  }
}

static int32_t pl_magnitude(const float *value) {
  int32_t bits;
  memcpy(&bits, value, sizeof bits);
  return bits & INT32_MAX;
}

/* Counts the finite ones among up to PL_BLOCK values. */
static void pl_count(const pl_histogram *h, const float *values, size_t n) {
  int32_t most = 0; /* bits of the largest magnitude; as integers they have the same order as the floats */
  for (size_t i = 0; i < n; i++) {
    int32_t bits = pl_magnitude(values + i);
    bits = bits < PL_INFINITY ? bits : 0;
    most = bits > most ? bits : most;
  }
  if (most > 0) {
    float reach;
    int exponent;
    memcpy(&reach, &most, sizeof reach);
    frexp(reach * h->inverse + h->offset, &exponent);
    pl_widen(h, exponent + 1 - PL_BIN_BITS);
  }
  const double factor = ldexp(1, -*h->exponent), inverse = h->inverse * factor, offset = h->offset * factor;
  float finite[PL_BLOCK]; /* the values, with 0 in place of infinities and NaN */
  for (size_t i = 0; i < n; i++) {
    int32_t bits;
    memcpy(&bits, values + i, sizeof bits);
    bits &= -(int32_t)(pl_magnitude(values + i) < PL_INFINITY);
    memcpy(finite + i, &bits, sizeof bits);
  }
  int32_t bins[PL_BLOCK];
  for (size_t i = 0; i < n; i++) { /* floor: round to nearest, then subtract 1 if that went up (the sign of `above`)
  */
    const double place = finite[i] * inverse + offset, shifted = place + 0x1.8p52;
    const double above = place - (shifted - 0x1.8p52);
    int64_t bin, sign;
    memcpy(&bin, &shifted, sizeof bin);
    memcpy(&sign, &above, sizeof sign);
    bins[i] = (int32_t)(bin - (int64_t)((uint64_t)sign >> 63)) + PL_BINS / 2;
  }
  for (size_t i = 0; i < n; i++)
    bins[i] = pl_magnitude(values + i) < PL_INFINITY ? bins[i] : PL_BINS;
  uint32_t counts[PL_COPIES][PL_BINS + 1] = {{0}}; /* several copies, because equal values often come in a row */
  for (size_t i = 0; i < n; i++)
    counts[i % PL_COPIES][bins[i]]++;
  for (int copy = 0; copy < PL_COPIES; copy++)
    for (size_t i = 0; i < PL_BINS; i++)
      h->counts[i] += counts[copy][i];
}

/* Counts one sample of a tensor, of its reference, and of the error, in three histograms. */
static void pl_count_all(const pl_observed *o, const pl_histogram *histograms) {
  float values[PL_BLOCK], errors[PL_BLOCK];
  for (size_t first = 0, n; first < o->elements; first += n) {
    n = PL_BLOCK < o->elements - first ? PL_BLOCK : o->elements - first;
    const float *x = (const float *)o->values + first, *reference = o->reference + first;
    if (o->dequantize) {
      o->dequantize(n, o->values + first * o->size, values, &o->grid);
      x = values;
    }
    for (size_t i = 0; i < n; i++)
      errors[i] = x[i] - reference[i];
    pl_count(histograms, x, n);
    pl_count(histograms + 1, reference, n);
    pl_count(histograms + 2, errors, n);
  }
}

/* Observes one sample.  With few channels, several rows are processed as one, so that vectors are full. */
static void pl_observe(const pl_slots *slots, const pl_observed *o) {
  const size_t c = o->channels;
  size_t full = 16; /* rows that fill vectors: 16 / gcd(c, 16) */
  while (full > 1 && c % (32 / full) == 0)
    full /= 2;
  size_t together = c * full <= PL_COLUMNS ? PL_COLUMNS / (c * full) * full : c < PL_COLUMNS ? PL_COLUMNS / c : 1;
  if (together > o->elements / c)
    together = o->elements / c;
  const size_t step = c * together, strips = (step + PL_COLUMNS - 1) / PL_COLUMNS;
  const size_t width = strips > 1 ? ((step + strips - 1) / strips + 15) / 16 * 16 : step;
  for (size_t first = 0; first < step; first += width) {
    const size_t n = width < step - first ? width : step - first, rows = o->elements / step;
    pl_error_sums sums;
    memset(sums.error, 0, n * sizeof *sums.error);
    memset(sums.error2, 0, n * sizeof *sums.error2);
    memset(sums.reference2, 0, n * sizeof *sums.reference2);
    memset(sums.largest, 0, n * sizeof *sums.largest);
    memset(sums.count, 0, n * sizeof *sums.count);
    memset(sums.low, 0, n * sizeof *sums.low);
    memset(sums.high, 0, n * sizeof *sums.high);
    for (size_t i = 0; i < n; i++)
      sums.highest[i] = -HUGE_VALF, sums.lowest[i] = HUGE_VALF;
    pl_observe_rows(slots, o, first, rows, n, step, &sums);
    if (o->elements % step)
      pl_observe_rows(slots, o, rows * step, 1, o->elements % step, step, &sums);
    pl_commit(o, &sums, n, first);
  }
}
#endif
