/* pl_fit_lines(): searches for one or two straight lines that give a table of bytes, as for rescaling, LEAKY_RELU or
 * ABS, with the arithmetic of lines8 (elementwise.h).
 *
 * For each candidate slope, every entry of the table bounds the start, so the search has no rounding errors.  For about
 * a sixth of the tables that rescale, a 16-bit line passes too close to some halves; a 32-bit line then fits. */
#include "elementwise.h"
#include <stdlib.h>

enum {
  MAX_SLOPES = 512,   /* slopes that are tried for a line */
  MAX_STEP = 5,       /* between neighbouring entries; the search gives up tables with larger steps */
  FREE = 1 << 28      /* no bound */
};

/* A table of int8, and the bounds of lines that give it. */
typedef struct {
  int16_t value[256];                /* by the operand + 128 */
  int32_t least[256], most[256];     /* of the shifted line at each operand; values at an end are clamped */
  int32_t low, high, shift;
  int dropped; /* bits of the products: 8, or 0 in 32 bits */
} staircase;

/* Finds the start of a line with this slope that gives every step-th entry of `from` .. `to` - 1; 0 if none exists. */
static int fit_start(const staircase *s, int from, int to, int step, int32_t slope, int32_t *start) {
  int32_t least = s->dropped ? INT16_MIN : -FREE, most = s->dropped ? INT16_MAX : FREE;
  for (int i = from; i < to; i += step) {
    const int32_t v = (slope * (i - 128)) >> s->dropped;
    least = s->least[i] - v > least ? s->least[i] - v : least;
    most = s->most[i] - v < most ? s->most[i] - v : most;
  }
  *start = least + (most - least) / 2;
  return least <= most;
}

/* Finds the line through entries `from` .. `to` - 1; 0 if there is none. */
static int fit_line(const staircase *s, int from, int to, int16_t *slope, int32_t *start) {
  int first = from, last = to - 1;
  while (first < last && (s->value[first] == s->low || s->value[first] == s->high)) first++;
  while (last > first && (s->value[last] == s->low || s->value[last] == s->high)) last--;
  const int across = last > first ? last - first : 1, up = s->value[last] - s->value[first];
  const int32_t one = 1 << (s->dropped + s->shift), middle = up * one / across;
  const int32_t reach = one / across, step = 1 + 2 * reach / MAX_SLOPES;
  for (int i = first; i <= last; i++) /* there is no line if an entry is far from the chord */
    if (abs((s->value[i] - s->value[first]) * across - up * (i - first)) > 2 * across) return 0;
  for (int32_t off = 0; off <= 2 * reach; off += step) { /* alternates between both sides */
    const int32_t m = middle + ((off / step) % 2 ? -(off + 1) / 2 : off / 2);
    if (m != (int16_t)m || !fit_start(s, from, to, 16, m, start) || !fit_start(s, from, to, 1, m, start)) continue;
    *slope = (int16_t)m;
    return 1;
  }
  return 0;
}

/* The entry where the two lines meet, if the table is their maximum: the entry farthest below the chord. */
static int corner(const staircase *s) {
  int farthest = 0, first = 0;
  while (first < 255 && s->value[first + 1] == s->value[0]) first++;
  int32_t far = 0;
  for (int i = first; i < 256; i++) {
    const int32_t below = (s->value[255] - s->value[first]) * (i - first) -
                          (s->value[i] - s->value[first]) * (255 - first);
    if (below > far) far = below, farthest = i;
  }
  return farthest;
}

/* A line with its fraction, as lines8 computes it in 16 bits. */
static int32_t line_at(int32_t x, int16_t slope, int32_t start) {
  const int32_t v = (x * slope >> 8) + start;
  return v < INT16_MIN ? INT16_MIN : v > INT16_MAX ? INT16_MAX : v;
}
static int32_t value_at(int32_t x, const pl_lines8 *p) {
  const int32_t a = line_at(x, p->slope[0], p->start[0]), b = line_at(x, p->slope[1], p->start[1]);
  const int32_t v = (p->in_32_bits ? x * p->slope[0] + p->start[0] : a > b ? a : b) >> p->shift;
  return v < p->low ? p->low : v > p->high ? p->high : v;
}

/* Do the lines of p give all entries? */
static int gives(const staircase *s, const pl_lines8 *p) {
  for (int i = 0; i < 256; i++)
    if (value_at(i - 128, p) != s->value[i]) return 0;
  return 1;
}

/* As gives(), but prefers to clamp only to the type's range. */
static int fits(const staircase *s, pl_lines8 *p) {
  p->low = INT8_MIN, p->high = INT8_MAX;
  if (gives(s, p)) return 1;
  p->low = (int8_t)s->low, p->high = (int8_t)s->high;
  return gives(s, p);
}

/* Sets p to one line, or to two that meet near the corner; 0 if there are none. */
static int fit(const staircase *s, pl_lines8 *p) {
  if (fit_line(s, 0, 256, p->slope, p->start)) {
    p->slope[1] = p->slope[0], p->start[1] = p->start[0];
    return fits(s, p);
  }
  if (!s->dropped) return 0;
  for (int split = corner(s) - 1, end = split + 2; split <= end; split++)
    if (split > 0 && split < 256 && fit_line(s, 0, split, p->slope, p->start) &&
        fit_line(s, split, 256, p->slope + 1, p->start + 1) && fits(s, p))
      return 1;
  return 0;
}

/* Searches for lines with a fraction of `most` bits down to `least` bits.  dropped: see staircase. */
static int search(pl_lines8 *p, int dropped, int most, int least) {
  staircase s = {.dropped = dropped};
  p->in_32_bits = !dropped;
  for (int flips = 0; flips < 4; flips++) {
    const uint8_t x_flip = flips & 1 ? 0x80 : 0, y_flip = flips == 1 || flips == 2 ? 0x80 : 0; /* of both first */
    int low = 127, high = -128, smooth = 1;
    for (int i = 0; i < 256; i++) {
      const int v = (int8_t)(p->table[(uint8_t)(i - 128) ^ x_flip] ^ y_flip);
      if (i) smooth &= abs(v - s.value[i - 1]) <= MAX_STEP;
      s.value[i] = (int16_t)v;
      low = v < low ? v : low, high = v > high ? v : high;
    }
    if (!smooth) continue;
    p->x_flip = x_flip, p->y_flip = y_flip;
    s.low = low, s.high = high;
    for (s.shift = most; s.shift >= least; s.shift--) {
      p->shift = s.shift;
      for (int i = 0; i < 256; i++) {
        s.least[i] = s.value[i] > low ? s.value[i] * (1 << s.shift) : -FREE;
        s.most[i] = s.value[i] < high ? s.value[i] * (1 << s.shift) + (1 << s.shift) - 1 : FREE;
      }
      if (fit(&s, p)) return 1;
    }
  }
  return 0;
}

int pl_fit_lines(pl_lines8 *p) {
  return search(p, 8, 8, 5) || (PL_LONG_LINES && search(p, 0, 14, 12));
}
