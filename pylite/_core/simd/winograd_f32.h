/* The transforms of Winograd's convolution F(2x2, 3x3), written once for any vector type.
 *
 * Defines winograd_in and winograd_out, and winograd_filter if MULTIPLY is defined.
 *
 * Before including it define VECTOR, LANES, LOAD, STORE, STORE_FIRST, SPLAT, ADD, MIN and MAX as for gemm_f32.h, and
 *   SUBTRACT(a, b): of each lane;
 *   MULTIPLY(a, b): of each lane; only for float32;
 *   ELEMENT: the type of an element of the operands; optional, float by default, for which gemm_f32.h must be included;
 *   LOAD_BIAS(p, n): if ELEMENT is defined: n <= LANES elements of the bias as a vector.
 *
 * Tiles d of 4 x 4 pixels, which overlap by two, become 16 numbers for each channel, B^T d B.  Element (y, x) of all
 * tiles is the left operand of product 4 x + y.  Filters g of 3 x 3 taps become its right operand, G g G^T.  The 16
 * products m give 2 x 2 output pixels, A^T m A. */

#ifndef ELEMENT
#define ELEMENT float
#define LOAD_BIAS(p, n) ((n) == LANES ? LOAD(p) : LOAD_FIRST(p, n))
#endif

/* Keeps gcc from computing each of the 16 addresses separately. */
#define IN_REGISTER(n) __asm__("" : "+r"(n))

/* d = B^T times a column of pixels, which p points to; moves p to the next column. */
#define COLUMN(p, d) \
  do { \
    const VECTOR p0 = LOAD(p[0]), p1 = LOAD(p[1]), p2 = LOAD(p[2]), p3 = LOAD(p[3]); \
    d[0] = SUBTRACT(p0, p2), d[1] = ADD(p1, p2), d[2] = SUBTRACT(p2, p1), d[3] = SUBTRACT(p1, p3); \
    p[0] += step[0], p[1] += step[1], p[2] += step[2], p[3] += step[3]; \
  } while (0)

static void winograd_in(ptrdiff_t tiles, ptrdiff_t c, const ELEMENT *const *line, const ptrdiff_t *step, ELEMENT *v,
                        ptrdiff_t next) {
  for (ptrdiff_t b = 0; b * LANES < c; b++) {
    const ptrdiff_t k = pl_block_start(b, LANES, c);
    const ELEMENT *p[4] = {line[0] + k, line[1] + k, line[2] + k, line[3] + k};
    ELEMENT *to = v + k;
    VECTOR d[4][4];
    COLUMN(p, d[0]);
    COLUMN(p, d[1]);
    for (ptrdiff_t t = 0; t < tiles; t++, to += c) {
      ELEMENT *point = to;
      COLUMN(p, d[2]);
      COLUMN(p, d[3]);
#pragma GCC unroll 4
      for (int x = 0; x < 4; x++, point += 4 * next) {
        IN_REGISTER(point);
#pragma GCC unroll 4
        for (int y = 0; y < 4; y++)
          STORE(point + y * next, x == 0   ? SUBTRACT(d[0][y], d[2][y])
                               : x == 1 ? ADD(d[1][y], d[2][y])
                               : x == 2 ? SUBTRACT(d[2][y], d[1][y])
                                        : SUBTRACT(d[1][y], d[3][y]));
      }
#pragma GCC unroll 4
      for (int y = 0; y < 4; y++) d[0][y] = d[2][y], d[1][y] = d[3][y];
    }
  }
}

#ifdef MULTIPLY /* only for float32 */
/* d = G times three taps. */
#define SPREAD(p0, p1, p2, d) \
  do { \
    const VECTOR first = p0, last = p2, sum = ADD(first, last), half = MULTIPLY(ADD(sum, p1), SPLAT(0.5f)); \
    d[0] = first, d[1] = half, d[2] = SUBTRACT(sum, half), d[3] = last; \
  } while (0)

static void winograd_filter(ptrdiff_t depth, ptrdiff_t width, const float *taps, float *u, ptrdiff_t next) {
  for (ptrdiff_t k = 0; k < depth; k++, taps += 9 * width, u += width)
    for (ptrdiff_t j = 0; j < width; j += LANES) {
      VECTOR d[3][4];
#pragma GCC unroll 3
      for (int x = 0; x < 3; x++) {
        const float *tap = taps + x * width + j;
        SPREAD(LOAD(tap), LOAD(tap + 3 * width), LOAD(tap + 6 * width), d[x]);
      }
      float *to = u + j;
#pragma GCC unroll 4
      for (int y = 0; y < 4; y++, to += next) {
        VECTOR r[4];
        SPREAD(d[0][y], d[1][y], d[2][y], r);
        IN_REGISTER(to);
#pragma GCC unroll 4
        for (int x = 0; x < 4; x++) STORE(to + 4 * x * next, r[x]);
      }
    }
}
#undef SPREAD
#endif

static void winograd_out(ptrdiff_t tiles, ptrdiff_t n, const ELEMENT *m, ptrdiff_t width, ptrdiff_t next,
                         const float *bias, float low, float high, ELEMENT *y, ptrdiff_t down, ptrdiff_t step) {
  for (ptrdiff_t k = 0; k < n; k += LANES) {
    const ptrdiff_t part = n - k < LANES ? n - k : LANES;
    const VECTOR start = !bias ? SPLAT(0.0f) : LOAD_BIAS(bias + k, part);
    for (ptrdiff_t t = 0; t < tiles; t++) {
      const ELEMENT *point = m + t * width + k;
      VECTOR s[4][2], r[2][2];
#pragma GCC unroll 4
      for (int x = 0; x < 4; x++, point += 4 * next) {
        IN_REGISTER(point);
        const VECTOR v1 = LOAD(point + next), v2 = LOAD(point + 2 * next);
        s[x][0] = ADD(LOAD(point), ADD(v1, v2));
        s[x][1] = SUBTRACT(SUBTRACT(v1, v2), LOAD(point + 3 * next));
      }
#pragma GCC unroll 2
      for (int i = 0; i < 2; i++) {
        r[i][0] = ADD(s[0][i], ADD(s[1][i], s[2][i]));
        r[i][1] = SUBTRACT(SUBTRACT(s[1][i], s[2][i]), s[3][i]);
      }
      /* From the last pixel to the first: a pixel outside has the address of one inside, which overwrites it. */
#pragma GCC unroll 2
      for (int i = 1; i >= 0; i--)
#pragma GCC unroll 2
        for (int x = 1; x >= 0; x--) {
          ELEMENT *to = y + i * down + (2 * t + x) * step + k;
          const VECTOR v = MIN(SPLAT(high), MAX(SPLAT(low), ADD(r[i][x], start)));
          if (part == LANES) STORE(to, v);
          else STORE_FIRST(to, v, part);
        }
    }
  }
}
#undef COLUMN
#undef IN_REGISTER
#undef ELEMENT
#undef LOAD_BIAS
