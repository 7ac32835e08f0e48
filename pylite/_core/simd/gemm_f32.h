/* Float32 matrix products, written once for any vector type.
 *
 * Defines gemm_f32, and load_upto() and store_upto() for the files that are included after it.
 *
 * Before including it define
 *   VECTOR, LANES: the type of a vector, and the number of its elements;
 *   MR: rows of a full tile: 4, 6, 8 or 12; NARROW_MR: rows of a tile of one vector, MR by default;
 *   NV: vectors of columns in a panel;
 *   LOAD(p), STORE(p, v), SPLAT(number): load and store a vector, and fill one with a number;
 *   MULTIPLY_ADD(acc, a, b): acc + a b;
 *   ADD(a, b): of each lane;
 *   MIN(bound, value), MAX(bound, value): of each lane; they return the value if it is NaN.
 * And optionally
 *   BY_LANES: statements that do several steps of k at once in tile_f32; the remaining steps are done one by one;
 *   ROW_BY_LANES: the same in row_f32;
 *   FOUR_SUMS: sums begin with the bias, and registers are loaded in an order that suits in-order cores;
 *   MASK, FIRST(n), LOAD_MASKED(p, mask), STORE_MASKED(p, v, mask): a mask of the first n lanes, the loads and stores
 *     that it limits, LOAD_FIRST(p, n) and STORE_FIRST(p, v, n) by such a mask, and WHOLE: 0 if tiles use masks, 1 if
 *     parts of vectors are copied (rows_part);
 *   NEXT_ROWS, WIDE_ROWS, PARTED: how the last rows are divided into tiles, see below.
 *
 * Every tile sums in the order of k, with FOUR_SUMS from the bias on, so that results do not depend on its shape.  Only
 * a product with a single row has four independent sums. */
#include "rounding.h"
#include "simd.h"

/* Load and store the first n elements of a vector, possibly all or none. */
#ifndef LOAD_FIRST
static __attribute__((noinline)) VECTOR LOAD_FIRST(const float *p, ptrdiff_t n) {
  float line[LANES] = {0};
  for (ptrdiff_t i = 0; i < n && i < LANES; i++) line[i] = p[i];
  return LOAD(line);
}
static __attribute__((noinline)) void STORE_FIRST(float *p, VECTOR v, ptrdiff_t n) {
  float line[LANES];
  STORE(line, v);
  for (ptrdiff_t i = 0; i < n && i < LANES; i++) p[i] = line[i];
}
#endif
/* The same; with a constant n of LANES, without a test. */
PL_INLINE VECTOR load_upto(const float *p, ptrdiff_t n) {
  return __builtin_constant_p(n) && n == LANES ? LOAD(p) : LOAD_FIRST(p, n);
}
PL_INLINE void store_upto(float *p, VECTOR v, ptrdiff_t n) {
  if (__builtin_constant_p(n) && n == LANES) STORE(p, v);
  else STORE_FIRST(p, v, n);
}

#ifndef MASK
#define MASK ptrdiff_t
#define FIRST(n) (n)
#define LOAD_MASKED LOAD_FIRST
#define STORE_MASKED STORE_FIRST
#define WHOLE 1
#endif

/* Rows of a full tile of one vector. */
#ifndef NARROW_MR
#define NARROW_MR MR
#endif

#ifdef FOUR_SUMS
/* Prevents gcc from computing the addresses of all lines first, for which Arm lacks registers. */
#define NEXT_LINE(y) \
  y += ldy; \
  __asm__("" : "+r"(y))
/* Sets the sums of a tile to `start` if `first` is odd, else to the sums in y.  whole: all vectors are full; else
 * `part` are their masks. */
PL_INLINE void load_lines(int R, int V, int whole, int first, const VECTOR *start, const float *y, ptrdiff_t ldy,
                          const MASK *part, VECTOR acc[MR][NV]) {
#pragma GCC unroll 16
  for (int r = 0; r < R; r++) {
#pragma GCC unroll 4
    for (int v = 0; v < V; v++)
      if (first & 1) {
        acc[r][v] = start[v];
        __asm__("" : "+w"(acc[r][v])); /* in separate registers: else gcc copies some in the loop */
      } else acc[r][v] = whole ? LOAD(y + v * LANES) : LOAD_MASKED(y + v * LANES, part[v]);
    NEXT_LINE(y);
  }
}
/* Stores a tile; if `last`, adds `shift` before if `add`, and clamps. */
PL_INLINE void finish_lines(int R, int V, int whole, VECTOR acc[MR][NV], const VECTOR *shift, const MASK *part,
                            int add, int last, float low, float high, float *y, ptrdiff_t ldy) {
#define EACH \
  _Pragma("GCC unroll 16") for (int r = 0; r < R; r++) \
    _Pragma("GCC unroll 4") for (int v = 0; v < V; v++)
  if (last) {
    const int bounded = low != -INFINITY || high != INFINITY;
    if (add) EACH acc[r][v] = ADD(acc[r][v], shift[v]);
    if (bounded) EACH acc[r][v] = MIN(SPLAT(high), MAX(SPLAT(low), acc[r][v]));
  }
#undef EACH
#pragma GCC unroll 16
  for (int r = 0; r < R; r++) {
#pragma GCC unroll 4
    for (int v = 0; v < V; v++)
      if (whole) STORE(y + v * LANES, acc[r][v]);
      else STORE_MASKED(y + v * LANES, acc[r][v], part[v]);
    NEXT_LINE(y);
  }
}
#endif

/* gemm_f32 for R rows and V vectors of columns. */
PL_INLINE void tile_f32(int R, int V, int whole, int n, const pl_a_layout *layout, const float *a, const float *w,
                        int first, int last, const float *bias, float low, float high, float *y, ptrdiff_t ldy) {
  const ptrdiff_t depth = layout->depth, step = layout->step, pitch = layout->pitch;
  VECTOR acc[NARROW_MR][NV], shift[NV];
  MASK part[NV];
#define LOAD_SHIFT \
  _Pragma("GCC unroll 4") for (int v = 0; v < V; v++) \
    shift[v] = !bias ? SPLAT(0.0f) : whole ? LOAD(bias + v * LANES) : LOAD_MASKED(bias + v * LANES, part[v]);
#pragma GCC unroll 4
  for (int v = 0; v < V; v++) part[v] = FIRST(n - v * LANES);
#ifdef FOUR_SUMS
  const int begun = first == 1 && last && bias; /* sums that are not continued begin with the bias */
  if (begun) LOAD_SHIFT
  else for (int v = 0; v < V; v++) shift[v] = SPLAT(0.0f);
  load_lines(R, V, whole, first, shift, y, ldy, part, acc);
#else
#pragma GCC unroll 16
  for (int r = 0; r < R; r++) {
#pragma GCC unroll 4
    for (int v = 0; v < V; v++)
      if (first & 1) acc[r][v] = SPLAT(0.0f);
      else acc[r][v] = whole ? LOAD(y + r * ldy + v * LANES) : LOAD_MASKED(y + r * ldy + v * LANES, part[v]);
  }
#endif
  for (int line = layout->lines; line > 0; line--, a += pitch) {
    const float *base[4] = {a, a + 3 * step, a + 6 * step, a + 9 * step};
    ptrdiff_t k = 0;
#ifdef BY_LANES
    BY_LANES
#endif
    for (; k < depth; k++, w += V * LANES) {
      VECTOR wv[NV];
#pragma GCC unroll 4
      for (int v = 0; v < V; v++) wv[v] = LOAD(w + v * LANES);
#pragma GCC unroll 16
      for (int r = 0; r < R; r++) {
        VECTOR x = SPLAT(base[r / 3][r % 3 * step + k]);
#pragma GCC unroll 4
        for (int v = 0; v < V; v++) acc[r][v] = MULTIPLY_ADD(acc[r][v], x, wv[v]);
      }
    }
  }
  __asm__("" : "+m"(low), "+m"(high)); /* loaded here: the loop needs the registers */
#ifdef FOUR_SUMS
  if (!begun) LOAD_SHIFT
  finish_lines(R, V, whole, acc, shift, part, !begun, last, low, high, y, ldy);
#else
  LOAD_SHIFT
#pragma GCC unroll 16
  for (int r = 0; r < R; r++) {
#pragma GCC unroll 4
    for (int v = 0; v < V; v++) {
      VECTOR x = acc[r][v];
      if (last) x = MIN(SPLAT(high), MAX(SPLAT(low), ADD(x, shift[v])));
      if (whole) STORE(y + r * ldy + v * LANES, x);
      else STORE_MASKED(y + r * ldy + v * LANES, x, part[v]);
    }
  }
#endif
#undef LOAD_SHIFT
}

/* gemm_f32 for a single row and V vectors of columns: four sums, which take the steps of k in turn. */
PL_INLINE void row_f32(int V, int whole, int n, const pl_a_layout *layout, const float *a, const float *w, int first,
                       int last, const float *bias, float low, float high, float *y) {
  VECTOR acc[4][NV];
  MASK part[NV];
#define PART(p, v) (whole ? LOAD((p) + (v) * LANES) : LOAD_MASKED((p) + (v) * LANES, part[v]))
#pragma GCC unroll 4
  for (int v = 0; v < V; v++) {
    part[v] = FIRST(n - v * LANES);
    acc[0][v] = first & 1 ? SPLAT(0.0f) : PART(y, v);
    acc[1][v] = acc[2][v] = acc[3][v] = SPLAT(0.0f);
  }
  const ptrdiff_t depth = layout->depth;
  for (int line = layout->lines; line > 0; line--, a += layout->pitch) {
    ptrdiff_t k = 0;
#ifdef ROW_BY_LANES
    ROW_BY_LANES
#else
    for (; k + 4 <= depth; k += 4, w += 4 * V * LANES) {
#pragma GCC unroll 4
      for (int i = 0; i < 4; i++)
#pragma GCC unroll 4
        for (int v = 0; v < V; v++) acc[i][v] = MULTIPLY_ADD(acc[i][v], SPLAT(a[k + i]), LOAD(w + (i * V + v) * LANES));
    }
#endif
    for (; k < depth; k++, w += V * LANES)
#pragma GCC unroll 4
      for (int v = 0; v < V; v++) acc[0][v] = MULTIPLY_ADD(acc[0][v], SPLAT(a[k]), LOAD(w + v * LANES));
  }
#pragma GCC unroll 4
  for (int v = 0; v < V; v++) {
    VECTOR x = ADD(ADD(acc[0][v], acc[1][v]), ADD(acc[2][v], acc[3][v]));
    if (last) {
      if (bias) x = ADD(x, PART(bias, v));
      x = MIN(SPLAT(high), MAX(SPLAT(low), x));
    }
    if (whole) STORE(y + v * LANES, x);
    else STORE_FIRST(y + v * LANES, x, n - v * LANES);
  }
#undef PART
}
#define ONE_ROW(V, whole) row_f32(V, whole, n, layout, a, w, first, last, bias, low, high, y)
/* A single row times as many panels as n columns take. */
static __attribute__((noinline)) void one_row_f32(int n, const pl_a_layout *layout, const float *a, const float *w,
                                                  int first, int last, const float *bias, float low, float high,
                                                  float *y) {
  enum { COLUMNS = NV * LANES };
  const ptrdiff_t panel = layout->lines * layout->depth * COLUMNS;
  for (; n >= COLUMNS; n -= COLUMNS, w += panel, y += COLUMNS, bias = bias ? bias + COLUMNS : NULL) ONE_ROW(NV, 1);
  if (!n) return;
  if (NV > 1 && n <= LANES) ONE_ROW(1, 0);
  else ONE_ROW(NV, 0);
}
#undef ONE_ROW

/* The rows of the next tile, by the number of remaining rows: WIDE_ROWS for full panels, NEXT_ROWS for panels of one
 * vector.  Tiles of fewer than four sums would wait for their own sums, so 25 rows are split into 12, 8 and 5.  These
 * tables count if PARTED is 1 or tiles have more than 8 rows; else tiles have MR rows, 4, 2 or 1. */
#ifndef NEXT_ROWS
#define NEXT_ROWS {0, 1, 2, 2, 4, 5, 4, 5, 8, 5, 5, 5, 12, 8, 5, 5, 12, 12, 8, 5, 12, 12, 12, 8}
#endif
#ifndef PARTED
#define PARTED (MR > 8)
#endif
#ifndef WIDE_ROWS
#define WIDE_ROWS NEXT_ROWS
#endif
/* Are there tiles of seven and six rows, besides full ones of `mr` rows? */
#define HAS_SEVEN(mr) ((mr) == 8 || (int)(mr) > (int)MR)

/* A function for each width, so that gcc keeps the accumulators of narrow tiles in registers. */
#define TILE_F32(R, V, whole) \
  tile_f32(R, V, whole, n, layout, a + r * layout->step, panel, first, last, bias, low, high, y + r * ldy, ldy), r += R
#define ROWS_F32(name, V, whole, ...) \
  static __attribute__((noinline)) void name(int rows, int n, const pl_a_layout *layout, const float *a, \
                                             const float *panel, int first, int last, const float *bias, float low, \
                                             float high, float *y, ptrdiff_t ldy) { \
    static const uint8_t next_rows[] = __VA_ARGS__; \
    enum { mr = V == 1 ? NARROW_MR : MR, parted = PARTED || mr > 8 }; \
    for (int r = 0; r < rows;) { \
      const int next = !parted || rows - r >= (int)sizeof next_rows ? mr : next_rows[rows - r]; \
      if (next == mr && rows - r >= mr) TILE_F32(mr, V, whole); \
      else if (parted && HAS_SEVEN(mr) && next == 7) TILE_F32(7, V, whole); \
      else if (parted && HAS_SEVEN(mr) && next == 6) TILE_F32(6, V, whole); \
      else if (parted && next == 5) TILE_F32(5, V, whole); \
      else if (mr > 8 && next == 8) TILE_F32(8, V, whole); \
      else if (rows - r >= 4) TILE_F32(4, V, whole); \
      else if (parted && mr == 6 && next == 3) TILE_F32(3, V, whole); \
      else if (rows - r >= 2) TILE_F32(2, V, whole); \
      else TILE_F32(1, V, whole); \
    } \
  }
ROWS_F32(rows_wide, NV, WHOLE, WIDE_ROWS)
ROWS_F32(rows_narrow, 1, WHOLE, NEXT_ROWS)

#if WHOLE
/* Columns that do not fill their vectors: computes full vectors, for which panels have zeros, and copies n of each row.
 * AMD's CPUs take long to store by a mask, and others have no masks. */
static __attribute__((noinline)) void rows_part(int rows, int n, const pl_a_layout *layout, const float *a,
                                                const float *panel, int first, int last, const float *bias, float low,
                                                float high, float *y, ptrdiff_t ldy) {
  enum { ROWS_AT_ONCE = 48 }; /* whole tiles of every height */
  const int width = n <= LANES ? LANES : NV * LANES;
  float lines[ROWS_AT_ONCE * NV * LANES], shift[NV * LANES] = {0};
  if (bias) memcpy(shift, bias, (size_t)n * sizeof *bias);
  for (int r = 0; r < rows; r += ROWS_AT_ONCE) {
    const int some = rows - r < ROWS_AT_ONCE ? rows - r : ROWS_AT_ONCE;
    for (int i = 0; i < some && !(first & 1); i++)
      for (int c = 0; c < width; c += LANES) STORE(lines + i * width + c, LOAD_FIRST(y + i * ldy + c, n - c));
    (width == LANES ? rows_narrow : rows_wide)(some, width, layout, a + r * layout->step, panel, first, last,
                                               bias ? shift : NULL, low, high, lines, width);
    for (int i = 0; i < some; i++, y += ldy) {
      const float *from = lines + i * width;
      float *to = y;
      for (int left = n / 4; left > 0; left--, from += 4, to += 4) memcpy(to, from, 4 * sizeof *to);
      if (n & 2) memcpy(to, from, 2 * sizeof *to), from += 2, to += 2;
      if (n & 1) *to = *from;
    }
  }
}
#endif

static void gemm_f32(int rows, int n, const pl_a_layout *layout, const float *a, const float *panel, int first,
                     int last, const float *bias, float low, float high, float *y, ptrdiff_t ldy) {
  const int narrow = NV > 1 && n <= LANES;
  if (first & 2) {
    one_row_f32(n, layout, a, panel, first, last, bias, low, high, y);
    return;
  }
#if WHOLE
  if (n != (narrow ? LANES : NV * LANES)) {
    rows_part(rows, n, layout, a, panel, first, last, bias, low, high, y, ldy);
    return;
  }
#endif
  (narrow ? rows_narrow : rows_wide)(rows, n, layout, a, panel, first, last, bias, low, high, y, ldy);
}
