/* Products in float16, for CPUs with Armv8.2's arithmetic of half precision: a vector has eight numbers instead of four. */
#include "rounding.h"
#include "simd.h"
#include <arm_neon.h>
#include <math.h>

enum { LANES = 8, NV = 2, NR = NV * LANES, MR = 6 };

#define EACH_ROW _Pragma("GCC unroll 8") for (int r = 0; r < R; r++)
#define EACH_VECTOR _Pragma("GCC unroll 2") for (int v = 0; v < V; v++)
#define EACH_QUARTER _Pragma("GCC unroll 4") for (int q = 0; q < 2 * V; q++)
/* Four numbers of a vector as float32: the lower ones where `q` is even. */
PL_INLINE float32x4_t quarter(const float16x8_t *sums, int q) {
  return q % 2 ? vcvt_high_f32_f16(sums[q / 2]) : vcvt_f32_f16(vget_low_f16(sums[q / 2]));
}
PL_INLINE float16x8_t load_half(const uint16_t *p) { return vreinterpretq_f16_u16(vld1q_u16(p)); }

/* acc += w * lane i of x.  gcc would copy the lane to a vector first, which takes as long as a product. */
#define ADD_BY_LANE(acc, w, x, i) __asm__("fmla %0.8h, %1.8h, %2.h[" #i "]" : "+w"(acc) : "w"(w), "x"(x))
/* Multiplies by lane i of the vector of each row. */
#define LANE(i) \
  { \
    float16x8_t wv[NV]; \
    EACH_VECTOR wv[v] = load_half(w + ((i) * V + v) * LANES); \
    EACH_ROW EACH_VECTOR ADD_BY_LANE(acc[r][v], wv[v], x[r], i); \
  }

/* y = the sums of a tile, added to y first if `adds`.  bounds: 0: without bias; 1: plus bias, from `low` on; 2: also up
 * to `high`.  The outer sums of a product need no bias, and most clamp on one side. */
PL_INLINE void finish_f16(int R, int V, const float16x8_t sums[][NV], int adds, int bounds, const float *bias, float low,
                          float high, float *y, ptrdiff_t ldy) {
  const float32x4_t lowest = vdupq_n_f32(low), highest = vdupq_n_f32(high);
  float32x4_t shift[2 * NV];
  EACH_QUARTER shift[q] = bias ? vld1q_f32(bias + 4 * q) : vdupq_n_f32(0);
  for (int r = 0; r < R; r++, y += ldy)
    EACH_QUARTER {
      float32x4_t sum = quarter(sums[r], q);
      if (adds) sum = vaddq_f32(vld1q_f32(y + 4 * q), sum);
      if (bounds) sum = vmaxq_f32(lowest, vaddq_f32(sum, shift[q]));
      if (bounds == 2) sum = vminq_f32(highest, sum);
      vst1q_f32(y + 4 * q, sum);
    }
}
#define FINISH(name, V) \
  static __attribute__((noinline)) void name(int R, const float16x8_t sums[][NV], int adds, const float *bias, float low, \
                                             float high, float *y, ptrdiff_t ldy) { \
    const int bounds = high != INFINITY ? 2 : bias || low != -INFINITY; \
    if (adds) finish_f16(R, V, sums, 1, 2, bias, low, high, y, ldy); \
    else if (!bounds) finish_f16(R, V, sums, 0, 0, bias, low, high, y, ldy); \
    else if (bounds == 1) finish_f16(R, V, sums, 0, 1, bias, low, high, y, ldy); \
    else finish_f16(R, V, sums, 0, 2, bias, low, high, y, ldy); \
  }
FINISH(finish_wide, 2)
FINISH(finish_narrow, 1)
#define FINISH_TILE (V == 2 ? finish_wide : finish_narrow)

/* R rows times V vectors of columns; see gemm_f16. */
PL_INLINE void tile_f16(int R, int V, const pl_a_layout *layout, const uint16_t *a, const uint16_t *w, int first,
                        int last, const float *bias, float low, float high, float *y, ptrdiff_t ldy) {
  const ptrdiff_t step = layout->step;
  float16x8_t acc[MR][NV], sums[MR][NV];
  ptrdiff_t room = PL_HALF_SUM; /* products until y takes the sums */
  int adds = !(first & 1);
  EACH_ROW EACH_VECTOR acc[r][v] = vdupq_n_f16(0);
  for (int line = layout->lines; line > 0; line--, a += layout->pitch) {
    const uint16_t *row = a;
    ptrdiff_t left = layout->depth;
    while (left > 0) {
      if (__builtin_expect(!room, 0)) {
        EACH_ROW EACH_VECTOR {
          sums[r][v] = acc[r][v];
          acc[r][v] = vdupq_n_f16(0);
        }
        FINISH_TILE(R, sums, adds, NULL, -INFINITY, INFINITY, y, ldy);
        adds = 1, room = PL_HALF_SUM;
      }
      ptrdiff_t k = left < room ? left : room;
      left -= k, room -= k;
      for (; k >= LANES; k -= LANES, row += LANES, w += LANES * V * LANES) {
        float16x8_t x[MR];
        EACH_ROW x[r] = load_half(row + r * step);
        LANE(0) LANE(1) LANE(2) LANE(3) LANE(4) LANE(5) LANE(6) LANE(7)
      }
#pragma GCC unroll 1
      for (; k > 0; k--, row++, w += V * LANES) {
        float16x8_t wv[NV];
        EACH_VECTOR wv[v] = load_half(w + v * LANES);
        EACH_ROW {
          const float16x8_t x = vreinterpretq_f16_u16(vld1q_dup_u16(row + r * step));
          EACH_VECTOR acc[r][v] = vfmaq_f16(acc[r][v], x, wv[v]);
        }
      }
    }
  }
  EACH_ROW EACH_VECTOR sums[r][v] = acc[r][v];
  FINISH_TILE(R, sums, adds, last ? bias : NULL, last ? low : -INFINITY, last ? high : INFINITY, y, ldy);
}
/* Tiles of 5 and 4 rows leave registers enough; fewer rows wait for their own sums. */
#define TILE(R) tile_f16(R, V, layout, a + r * layout->step, panel, first, last, bias, low, high, y + r * ldy, ldy), r += R
#define ROWS(name, vectors) \
  static __attribute__((noinline)) void name(int rows, const pl_a_layout *layout, const uint16_t *a, \
                                             const uint16_t *panel, int first, int last, const float *bias, float low, \
                                             float high, float *y, ptrdiff_t ldy) { \
    enum { V = vectors }; \
    for (int r = 0; r < rows;) { \
      const int left = rows - r; \
      if (left == 6) TILE(6); \
      else if (left >= 4 && (left % 4 == 0 || left == 7)) TILE(4); \
      else if (left >= 5) TILE(5); \
      else if (left == 3) TILE(3); \
      else if (left == 2) TILE(2); \
      else TILE(1); \
    } \
  }
ROWS(rows_wide, 2)
ROWS(rows_narrow, 1)

/* One row: four sums for each column, which take turns. */
#define ROW_LANE(i) EACH_VECTOR ADD_BY_LANE(acc[(i) % 4][v], load_half(w + ((i) * V + v) * LANES), x, i);
PL_INLINE void one_row(int V, const pl_a_layout *layout, const uint16_t *a, const uint16_t *w, int first, int last,
                       const float *bias, float low, float high, float *y) {
  float32x4_t total[2 * NV];
  EACH_QUARTER total[q] = first & 1 ? vdupq_n_f32(0) : vld1q_f32(y + 4 * q);
  for (ptrdiff_t done = 0, k; done == 0 || done < layout->depth; done += k) {
    k = layout->depth - done < 4 * PL_HALF_SUM ? layout->depth - done : 4 * PL_HALF_SUM;
    ptrdiff_t left = k;
    float16x8_t acc[4][NV];
    _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) EACH_VECTOR acc[i][v] = vdupq_n_f16(0);
    for (; left >= LANES; left -= LANES, a += LANES, w += LANES * V * LANES) {
      const float16x8_t x = load_half(a);
      ROW_LANE(0) ROW_LANE(1) ROW_LANE(2) ROW_LANE(3) ROW_LANE(4) ROW_LANE(5) ROW_LANE(6) ROW_LANE(7)
    }
#pragma GCC unroll 1
    for (; left > 0; left--, a++, w += V * LANES)
      EACH_VECTOR acc[0][v] = vfmaq_f16(acc[0][v], vreinterpretq_f16_u16(vdupq_n_u16(*a)), load_half(w + v * LANES));
    EACH_QUARTER {
      const float32x4_t part = vaddq_f32(vaddq_f32(quarter(acc[0], q), quarter(acc[1], q)),
                                         vaddq_f32(quarter(acc[2], q), quarter(acc[3], q)));
      total[q] = vaddq_f32(total[q], part);
    }
  }
  EACH_QUARTER {
    float32x4_t sum = total[q];
    if (last && bias) sum = vaddq_f32(sum, vld1q_f32(bias + 4 * q));
    if (last) sum = vminq_f32(vdupq_n_f32(high), vmaxq_f32(vdupq_n_f32(low), sum));
    vst1q_f32(y + 4 * q, sum);
  }
}
static __attribute__((noinline)) void row_wide(const pl_a_layout *layout, const uint16_t *a, const uint16_t *w,
                                               int first, int last, const float *bias, float low, float high, float *y) {
  one_row(2, layout, a, w, first, last, bias, low, high, y);
}
static __attribute__((noinline)) void row_narrow(const pl_a_layout *layout, const uint16_t *a, const uint16_t *w,
                                                 int first, int last, const float *bias, float low, float high,
                                                 float *y) {
  one_row(1, layout, a, w, first, last, bias, low, high, y);
}

/* Columns that fill their vectors. */
static void whole_vectors(int rows, int wide, const pl_a_layout *layout, const uint16_t *a, const uint16_t *panel,
                          int first, int last, const float *bias, float low, float high, float *y, ptrdiff_t ldy) {
  if (first & 2) (wide ? row_wide : row_narrow)(layout, a, panel, first, last, bias, low, high, y);
  else (wide ? rows_wide : rows_narrow)(rows, layout, a, panel, first, last, bias, low, high, y, ldy);
}

static void gemm_f16(int rows, int n, const pl_a_layout *layout, const uint16_t *a, const uint16_t *panel, int first,
                     int last, const float *bias, float low, float high, float *y, ptrdiff_t ldy) {
  enum { SOME = 48 }; /* rows at a time: whole tiles of every height */
  const int wide = n > LANES, width = wide ? NR : LANES;
  if (n == width) {
    whole_vectors(rows, wide, layout, a, panel, first, last, bias, low, high, y, ldy);
    return;
  }
  float lines[SOME * NR] = {0}, shift[NR] = {0};
  if (bias) memcpy(shift, bias, (size_t)n * sizeof *bias);
  for (int r = 0; r < rows; r += SOME, y += SOME * ldy) {
    const int some = rows - r < SOME ? rows - r : SOME;
    for (int i = 0; i < some && !(first & 1); i++) memcpy(lines + i * width, y + i * ldy, (size_t)n * sizeof *y);
    whole_vectors(some, wide, layout, a + r * layout->step, panel, first, last, bias ? shift : NULL, low, high, lines,
                  width);
    for (int i = 0; i < some; i++) memcpy(y + i * ldy, lines + i * width, (size_t)n * sizeof *y);
  }
}

static void float_to_half(size_t n, const void *x, void *y, const void *p) {
  const float *from = x;
  uint16_t *to = y;
  size_t i = 0;
  (void)p;
  for (; i + LANES <= n; i += LANES)
    vst1q_u16(to + i, vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(vld1q_f32(from + i)), vld1q_f32(from + i + 4))));
  for (; i < n; i++) vst1_lane_u16(to + i, vreinterpret_u16_f16(vcvt_f16_f32(vld1q_dup_f32(from + i))), 0);
}

PL_FILL(gemm_f16, s) {
  s->gemm_f16 = gemm_f16;
  s->float_to_half = float_to_half;
  s->has_f16 = 1;
}
