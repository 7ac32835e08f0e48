/* Columns of 8-bit products as pylite packs them: the parameters of pylite/_core/product/columns.pxd. */
#ifndef COLUMNS_H
#define COLUMNS_H
#include "draw.h"
#include "rounding.h"
#include <string.h>

static inline size_t padded(size_t n, int to) { return (n + (size_t)to - 1) / (size_t)to * (size_t)to; }

enum { MOST_COLUMNS = 512 };
typedef struct { /* of a product, the same on all ISA levels */
  int32_t bias[MOST_COLUMNS], mult[MOST_COLUMNS], shift[MOST_COLUMNS];
  int32_t zero_point, low, high, flip;
  bool fit; /* float32 is tried */
} finish;

static inline void draw_finish(finish *f, size_t n) {
  const int most = chance(3) ? 7 : chance(2) ? 0 : -1;
  const int32_t *bias = integers(n, 4, -100000, 100000), *mult = integers(n, 4, 1 << 30, INT32_MAX);
  const int32_t *shift = integers(n, 4, -20, most);
  const bool one = chance(4), zeros = chance(4);
  for (size_t j = 0; j < n; j++) {
    f->bias[j] = bias[j], f->mult[j] = zeros && j % 3 == 0 ? 0 : one ? mult[0] : mult[j];
    f->shift[j] = one ? shift[0] : shift[j];
  }
  const int a = between(-128, 127), b = between(-128, 127);
  f->low = chance(2) ? -128 : a < b ? a : b, f->high = f->low == -128 && a >= b ? 127 : a < b ? b : a;
  if (f->low > f->high) f->low = -128;
  f->zero_point = between(-128, 127), f->flip = 0x80 * between(0, 1), f->fit = chance(2);
}

/* Columns 0..n of `size` that a level's table s uses; from[j]: the column of f, start[j]: of its accumulator. */
static inline pl_columns columns_of(const pl_slots *s, const finish *f, size_t n, size_t size, const int32_t *from,
                                    const int32_t *start, size_t depth, const uint8_t *panels, size_t bytes) {
  enum { BIAS, MULT, ODD, LEFT, RIGHT, HALF, SIGN, SMALL, SCALE, REST, START, PARAMETERS };
  int32_t *rows = room(PARAMETERS * size, 4), *at[PARAMETERS];
  for (int i = 0; i < PARAMETERS; i++) at[i] = rows + (size_t)i * size;
  for (size_t j = 0; j < n; j++) {
    if (from[j] < 0) continue;
    const int32_t shift = f->shift[from[j]];
    at[BIAS][j] = start[j], at[MULT][j] = f->mult[from[j]];
    if (shift > 0) at[LEFT][j] = shift;
    if (shift < 0) at[RIGHT][j] = -shift, at[HALF][j] = (int32_t)(((int64_t)1 << -shift) >> 1);
  }
  const int32_t limit = (1 << 30) - (int32_t)(2 * depth * 255 * 128);
  bool left = false;
  for (size_t j = 0; j < size; j++) {
    at[ODD][j] = at[MULT][(j | 1) < size ? j | 1 : j];
    at[SIGN][j] = at[RIGHT][j] ? 31 : 32;
    left |= at[MULT][j] < 0 || (at[MULT][j] && !at[RIGHT][j]) || at[BIAS][j] <= -limit || at[BIAS][j] >= limit;
  }
  int unfit = !f->fit;
  if (f->fit)
    s->fit_q8((ptrdiff_t)size,
              &(pl_fit){at[BIAS], at[MULT], at[LEFT], at[RIGHT], NULL, 2. * 255 * 128 * (double)depth,
                        f->low - f->zero_point, f->high - f->zero_point},
              (float *)at[SCALE], (float *)at[REST], (float *)at[START], &unfit);
  if (f->fit && s->q8.small && panels)
    s->find_small((ptrdiff_t)size / s->q8.nr, (ptrdiff_t)(bytes / size) * s->q8.nr, panels, at[SMALL]);
  return (pl_columns){at[BIAS], at[MULT], at[ODD], left ? at[LEFT] : NULL, at[RIGHT], at[HALF], at[SIGN],
                      at[SMALL], (float *)at[SCALE], (float *)at[REST], (float *)at[START], NULL, !unfit,
                      f->zero_point, f->low, f->high, f->flip};
}
#endif
