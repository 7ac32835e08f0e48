/* Matrix products and Winograd transforms in float16, with Armv8.2's float16 arithmetic: a vector has eight numbers
 * instead of four.
 *
 * Rows are in memory or in an A panel; panels are packed[k][column], of 16 columns, or 8 in the last one.  A tile has
 * up to six rows.  After PL_HALF_SUM products its sums are added to float32 sums, see gemm_f16; without this, long sums
 * would lose their last bits. */
#include "rounding.h"
#include "simd.h"
#include <arm_neon.h>
#include <math.h>

enum { LANES = 8, NV = 2, NR = NV * LANES, MR = 6 };

#define EACH_ROW _Pragma("GCC unroll 8") for (int r = 0; r < R; r++)
#define EACH_VECTOR _Pragma("GCC unroll 2") for (int v = 0; v < V; v++)
#define EACH_QUARTER _Pragma("GCC unroll 4") for (int q = 0; q < 2 * V; q++)
/* Quarter q of the numbers of two vectors, four of them, as float32. */
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

/* How the sums of a panel become results, see gemm_f16.  adds: y has sums already; last: the argument of gemm_f16. */
typedef struct {
  const float *bias; /* or NULL */
  float low, high;
  uint16_t start[NR]; /* the bias in float16, or zeros */
  int adds, last;
} finishing;

/* Eight sums, rounded to float16. */
PL_INLINE float16x8_t joined(const float32x4_t *sums) { return vcvt_high_f16_f32(vcvt_f16_f32(sums[0]), sums[1]); }
/* Stores eight results at y + i: as float16 if `half`, else as float32. */
PL_INLINE void store_results(int half, float16x8_t v, void *y, ptrdiff_t i) {
  if (half) vst1q_u16((uint16_t *)y + i, vreinterpretq_u16_f16(v));
  else {
    vst1q_f32((float *)y + i, vcvt_f32_f16(vget_low_f16(v)));
    vst1q_f32((float *)y + i + 4, vcvt_high_f32_f16(v));
  }
}
/* Finishes a tile whose sums have at most PL_HALF_SUM products, and so are float16. */
PL_INLINE void finish_short(int R, int V, int half, const float16x8_t sums[][NV], const finishing *f, void *y,
                            ptrdiff_t ldy) {
  if (f->last & 1) {
    const float16x8_t low = vdupq_n_f16((float16_t)f->low), high = vdupq_n_f16((float16_t)f->high);
    float16x8_t start[NV];
    EACH_VECTOR start[v] = load_half(f->start + v * LANES);
    EACH_ROW EACH_VECTOR {
      const float16x8_t sum = vminq_f16(high, vmaxq_f16(low, vaddq_f16(sums[r][v], start[v])));
      store_results(half, sum, y, r * ldy + v * LANES);
    }
  } else
    EACH_ROW EACH_VECTOR store_results(half, sums[r][v], y, r * ldy + v * LANES);
}
/* Adds the sums of a tile to float32 sums at `part` if `adds`, and stores them there, or as results at y if not
 * NULL. */
PL_INLINE void finish_long(int R, int V, const float16x8_t sums[][NV], int adds, const finishing *f, float *part,
                           ptrdiff_t ld, void *y, ptrdiff_t ldy) {
  for (int r = 0; r < R; r++, part += ld)
    EACH_VECTOR {
      float32x4_t sum[2];
      _Pragma("GCC unroll 2") for (int q = 0; q < 2; q++) {
        float *const at = part + v * LANES + 4 * q;
        sum[q] = quarter(sums[r], 2 * v + q);
        if (adds) sum[q] = vaddq_f32(vld1q_f32(at), sum[q]);
        if (!y) vst1q_f32(at, sum[q]);
        else if (f->last & 1) {
          if (f->bias) sum[q] = vaddq_f32(sum[q], vld1q_f32(f->bias + v * LANES + 4 * q));
          sum[q] = vminq_f32(vdupq_n_f32(f->high), vmaxq_f32(vdupq_n_f32(f->low), sum[q]));
        }
      }
      if (y) store_results(f->last & 2, joined(sum), y, r * ldy + v * LANES);
    }
}
#define FINISH(name, V) \
  static __attribute__((noinline)) void name(int R, const float16x8_t sums[][NV], int adds, const finishing *f, \
                                             float *part, ptrdiff_t ld, void *y, ptrdiff_t ldy) { \
    finish_long(R, V, sums, adds, f, part, ld, y, ldy); \
  }
FINISH(finish_wide, 2)
FINISH(finish_narrow, 1)
#define FINISH_LONG (V == 2 ? finish_wide : finish_narrow)

/* Computes R rows times V vectors of columns; see gemm_f16. */
PL_INLINE void tile_f16(int R, int V, const pl_a_layout *layout, const uint16_t *a, const uint16_t *w,
                        const finishing *f, void *y, ptrdiff_t ldy) {
  const ptrdiff_t step = layout->step;
  float16x8_t acc[MR][NV], sums[MR][NV];
  float totals[MR * NR];
  float *const part = f->last & 2 ? totals : y; /* for float32 sums */
  const ptrdiff_t ld = f->last & 2 ? NR : ldy;
  ptrdiff_t room = PL_HALF_SUM; /* products that still fit the float16 sums */
  int adds = f->adds;
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
        FINISH_LONG(R, sums, adds, f, part, ld, NULL, 0);
        adds = 1, room = PL_HALF_SUM;
      }
      ptrdiff_t k = left < room ? left : room;
      left -= k, room -= k;
      for (; k >= LANES; k -= LANES, row += LANES, w += LANES * V * LANES) {
        float16x8_t x[MR];
        EACH_ROW x[r] = load_half(row + r * step);
        LANE(0) LANE(1) LANE(2) LANE(3) LANE(4) LANE(5) LANE(6) LANE(7)
      }
      if (k >= LANES / 2) {
        float16x8_t x[MR];
        EACH_ROW x[r] = vreinterpretq_f16_u16(vcombine_u16(vld1_u16(row + r * step), vdup_n_u16(0)));
        LANE(0) LANE(1) LANE(2) LANE(3)
        k -= LANES / 2, row += LANES / 2, w += LANES / 2 * V * LANES;
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
  if (f->last && !adds) {
    if (f->last & 2) finish_short(R, V, 1, acc, f, y, ldy);
    else finish_short(R, V, 0, acc, f, y, ldy);
    return;
  }
  EACH_ROW EACH_VECTOR sums[r][v] = acc[r][v];
  FINISH_LONG(R, sums, adds, f, part, ld, f->last ? y : NULL, ldy);
}
/* Computes rows in tiles of 5 and 4, for which registers suffice, or 6 if six are left.  Fewer would wait for their own
 * sums. */
#define TILE(R) \
  tile_f16(R, V, layout, a + r * layout->step, panel, f, (char *)y + r * ldy * (f->last & 2 ? 2 : 4), ldy), r += R
#define ROWS(name, vectors) \
  static __attribute__((noinline)) void name(int rows, const pl_a_layout *layout, const uint16_t *a, \
                                             const uint16_t *panel, const finishing *f, void *y, ptrdiff_t ldy) { \
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

/* A single row: four sums for each column, which take the steps of k in turn, so that none waits for the one before. */
#define ROW_LANE(i) EACH_VECTOR ADD_BY_LANE(acc[(i) % 4][v], load_half(w + ((i) * V + v) * LANES), x, i);
PL_INLINE void one_row(int V, const pl_a_layout *layout, const uint16_t *a, const uint16_t *w, const finishing *f,
                       void *y) {
  float32x4_t total[2 * NV];
  EACH_QUARTER total[q] = f->adds ? vld1q_f32((float *)y + 4 * q) : vdupq_n_f32(0);
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
    if (f->last & 1 && f->bias) total[q] = vaddq_f32(total[q], vld1q_f32(f->bias + 4 * q));
    if (f->last & 1) total[q] = vminq_f32(vdupq_n_f32(f->high), vmaxq_f32(vdupq_n_f32(f->low), total[q]));
    if (!f->last) vst1q_f32((float *)y + 4 * q, total[q]);
  }
  EACH_VECTOR if (f->last) store_results(f->last & 2, joined(total + 2 * v), y, v * LANES);
}
static __attribute__((noinline)) void row_wide(const pl_a_layout *layout, const uint16_t *a, const uint16_t *w,
                                               const finishing *f, void *y) {
  one_row(2, layout, a, w, f, y);
}
static __attribute__((noinline)) void row_narrow(const pl_a_layout *layout, const uint16_t *a, const uint16_t *w,
                                                 const finishing *f, void *y) {
  one_row(1, layout, a, w, f, y);
}

/* gemm_f16 for columns that fill their vectors.  wide: two vectors; single: see `first` of gemm_f16. */
static void whole_vectors(int rows, int wide, int single, const pl_a_layout *layout, const uint16_t *a,
                          const uint16_t *panel, const finishing *f, void *y, ptrdiff_t ldy) {
  if (single) (wide ? row_wide : row_narrow)(layout, a, panel, f, y);
  else (wide ? rows_wide : rows_narrow)(rows, layout, a, panel, f, y, ldy);
}

static void gemm_f16(int rows, int n, const pl_a_layout *layout, const uint16_t *a, const uint16_t *panel, int first,
                     int last, const float *bias, float low, float high, void *vy, ptrdiff_t ldy) {
  enum { ROWS_AT_ONCE = 48 }; /* whole tiles of every height */
  const int wide = n > LANES, width = wide ? NR : LANES, single = first & 2;
  const size_t item = last & 2 ? 2 : 4;
  finishing f = {.bias = bias, .low = low, .high = high, .adds = !(first & 1), .last = last};
  float shift[NR] = {0};
  if (bias && last & 1) {
    if (n < width) memcpy(shift, bias, (size_t)n * sizeof *bias), f.bias = shift;
    for (int v = 0; v < width; v += LANES)
      vst1q_u16(f.start + v, vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(vld1q_f32(f.bias + v)),
                                                                     vld1q_f32(f.bias + v + 4))));
  }
  if (n == width) {
    whole_vectors(rows, wide, single, layout, a, panel, &f, vy, ldy);
    return;
  }
  float lines[ROWS_AT_ONCE * NR] = {0};
  char *y = vy;
  for (int r = 0; r < rows; r += ROWS_AT_ONCE, y += ROWS_AT_ONCE * ldy * (ptrdiff_t)item) {
    const int some = rows - r < ROWS_AT_ONCE ? rows - r : ROWS_AT_ONCE;
    for (int i = 0; i < some && f.adds; i++)
      memcpy(lines + i * width, y + i * ldy * (ptrdiff_t)item, (size_t)n * item);
    whole_vectors(some, wide, single, layout, a + r * layout->step, panel, &f, lines, width);
    for (int i = 0; i < some; i++)
      memcpy(y + i * ldy * (ptrdiff_t)item, (char *)lines + (size_t)(i * width) * item, (size_t)n * item);
  }
}

/* For winograd_f32.h: n elements of the bias, and the first n of a vector. */
PL_INLINE float16x8_t load_bias(const float *p, ptrdiff_t n) {
  float line[LANES] = {0};
  memcpy(line, p, sizeof *p * (size_t)n);
  return vcvt_high_f16_f32(vcvt_f16_f32(vld1q_f32(line)), vld1q_f32(line + 4));
}
static __attribute__((noinline)) void store_first(uint16_t *p, float16x8_t v, ptrdiff_t n) {
  uint16_t line[LANES];
  vst1q_u16(line, vreinterpretq_u16_f16(v));
  memcpy(p, line, sizeof *p * (size_t)n);
}
#define VECTOR float16x8_t
#define ELEMENT uint16_t
#define LOAD load_half
#define STORE(p, v) vst1q_u16(p, vreinterpretq_u16_f16(v))
#define LOAD_BIAS load_bias
#define STORE_FIRST store_first
#define SPLAT(v) vdupq_n_f16((float16_t)(v))
#define ADD vaddq_f16
#define SUBTRACT vsubq_f16
#define MIN vminq_f16
#define MAX vmaxq_f16
#include "winograd_f32.h"

PL_FILL(gemm_f16, s) {
  s->gemm_f16 = gemm_f16;
  s->winograd_in_f16 = winograd_in;
  s->winograd_out_f16 = winograd_out;
  s->has_f16 = 1;
}
