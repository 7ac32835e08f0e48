/* 8-bit and float32 matrix products for 32-bit and 64-bit NEON.
 *
 * A panels are int8, row after row; panels are packed[k / 8][column][k % 8], so that a vector has one or two columns.
 * The products of a column are eight 16-bit lanes, which are added pairwise to the column's four accumulator lanes.
 * Cores with one vector multiplier (Cortex-A72) add in parallel to multiplying, and are twice as fast as with 16-bit
 * multiplications; others (Cortex-A53) are equally fast.  Two products are summed in 16 bits only if no weight is -128
 * (pl_columns.small); otherwise both can be 2^14, whose sum overflows. */
#define NR 8
#define KR 8
#if defined(__aarch64__)
enum { NARROW = 4, ROWS = NARROW };
#else
enum { NARROW = 2, ROWS = NARROW };
#endif
#include "neon.h"

/* ---- A panels: int8; dotprod and i8mm use these functions as well ---- */
/* Full vectors are stored; the next row overwrites the excess. */
static void pack_a_q8(int rows, int segments, ptrdiff_t length, const uint8_t *const *src, int flip, void *a_panel,
                      ptrdiff_t depth) {
  const uint8x16_t mask = vdupq_n_u8((uint8_t)flip);
  uint8_t *to = a_panel;
  for (int r = 0; r < rows; r++, to += depth) {
    uint8_t *d = to;
    for (int s = 0; s < segments; s++, d += length) {
      const uint8_t *from = *src++;
      ptrdiff_t i = 0;
      for (; i + 16 <= length; i += 16) vst1q_u8(d + i, veorq_u8(vld1q_u8(from + i), mask));
      for (; i + 4 <= length; i += 4) {
        uint32_t four;
        memcpy(&four, from + i, 4);
        four ^= 0x01010101u * (uint32_t)flip;
        memcpy(d + i, &four, 4);
      }
      for (; i < length; i++) d[i] = from[i] ^ (uint8_t)flip;
    }
    for (; d < to + depth; d++) *d = 0;
  }
}

/* The sum of all lanes of each of four vectors. */
PL_INLINE int32x4_t four_sums(int32x4_t a, int32x4_t b, int32x4_t c, int32x4_t d) {
#if defined(__aarch64__)
  return vpaddq_s32(vpaddq_s32(a, b), vpaddq_s32(c, d));
#else
#define HALVES(v) vadd_s32(vget_low_s32(v), vget_high_s32(v))
  return vcombine_s32(vpadd_s32(HALVES(a), HALVES(b)), vpadd_s32(HALVES(c), HALVES(d)));
#undef HALVES
#endif
}

/* Bytes a[k] to a[length - 1], fewer than 8, in a vector whose other bytes are 0; reads only a[0] to a[length - 1]. */
PL_INLINE int8x8_t last_bytes(const int8_t *a, ptrdiff_t k, ptrdiff_t length) {
  uint64_t bits = 0;
  if (length >= 8) {
    memcpy(&bits, a + length - 8, 8);
    bits >>= 8 * (8 - (length - k));
  } else {
    for (ptrdiff_t i = length; i-- > k;) bits = bits << 8 | (uint8_t)a[i];
  }
  return vcreate_s8(bits);
}
/* sums_q8 of R <= 4 rows; each total has four parts. */
PL_INLINE void row_sums(int R, const pl_a_layout *layout, ptrdiff_t length, const int8_t *a, int32x4_t total[4]) {
#define EACH _Pragma("GCC unroll 4") for (int r = 0; r < R; r++)
  EACH total[r] = vdupq_n_s32(0);
  for (int line = 0; line < layout->lines; line++, a += layout->pitch) {
    const int8_t *row[4];
    ptrdiff_t k = 0;
    EACH row[r] = a + r * layout->step;
    for (; k + 16 <= length; k += 16) EACH total[r] = vpadalq_s16(total[r], vpaddlq_s8(vld1q_s8(row[r] + k)));
    if (k + 8 <= length) {
      EACH total[r] = vaddw_s16(total[r], vpaddl_s8(vld1_s8(row[r] + k)));
      k += 8;
    }
    if (k < length) EACH total[r] = vaddw_s16(total[r], vpaddl_s8(last_bytes(row[r], k, length)));
  }
#undef EACH
}
static void sums_q8(int rows, const pl_a_layout *layout, ptrdiff_t length, const void *a_panel, int32_t *sums) {
  const int8_t *a = a_panel;
  int32x4_t total[4];
  for (; rows >= 4; rows -= 4, a += 4 * layout->step, sums += 4) {
    row_sums(4, layout, length, a, total);
    vst1q_s32(sums, four_sums(total[0], total[1], total[2], total[3]));
  }
  for (; rows > 0; rows--, a += layout->step) {
    row_sums(1, layout, length, a, total);
    *sums++ = vgetq_lane_s32(four_sums(total[0], total[0], total[0], total[0]), 0);
  }
}

/* ---- 8-bit products ---- */
/* The sum of a row and a column is a vector, lanes[row][column], whose four lanes are added up at the end. */
PL_INLINE int32x4_t first_lane(const int32_t *p) {
#if defined(__aarch64__)
  int32x4_t v; /* the intrinsics would set the other lanes to 0 first; the load does so itself */
  __asm__("ldr %s0, %1" : "=w"(v) : "m"(*p));
  return v;
#else
  return vsetq_lane_s32(*p, vdupq_n_s32(0), 0);
#endif
}
/* Begins the sums of R rows, of which `rows` are in use, and C columns; bias and terms may be NULL. */
PL_INLINE void begin(int R, int C, int rows, const int32_t *bias, const int32_t *terms, int32x4_t lanes[NARROW][8]) {
#pragma GCC unroll 8
  for (int c = 0; c < C; c++) {
    lanes[0][c] = bias ? first_lane(bias + c) : vdupq_n_s32(0);
    if (R == 2) lanes[1][c] = lanes[0][c];
  }
  if (terms) {
#pragma GCC unroll 2
    for (int r = 0; r < R; r++) {
      const int32x4_t term = first_lane(terms + (r < rows ? r : 0));
#pragma GCC unroll 8
      for (int c = 0; c < C; c++) lanes[r][c] = vaddq_s32(lanes[r][c], term);
    }
  }
}
/* Adds up the four lanes of the sums of R rows and C columns, and sets acc to the results, from column c0 on. */
PL_INLINE void add_up(int R, int c0, int C, int32x4_t lanes[NARROW][8], int32x4_t acc[ROWS][4]) {
#pragma GCC unroll 2
  for (int r = 0; r < R; r++)
#pragma GCC unroll 2
    for (int c = 0; c < C; c += 4)
      acc[r][(c0 + c) / 4] = four_sums(lanes[r][c], lanes[r][c + 1], lanes[r][c + 2], lanes[r][c + 3]);
}

#if defined(__aarch64__)
/* A single row times a panel.  A vector has the weights of two columns, eight deep, and is multiplied by eight bytes of
 * the row in both of its halves.  Sums of one half of the columns are added while the other half is multiplied. */
PL_INLINE void one_row(int small, const pl_a_layout *layout, const int8_t *a, const int8_t *w, const int32_t *bias,
                       const int32_t *terms, int32x4_t acc[ROWS][4]) {
  int32x4_t lanes[NARROW][8];
  int16x8_t product[2][4];
#define EACH _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++)
/* Eight bytes of the row, twice. */
#define DEEP(x) vreinterpretq_s8_s64(vld1q_dup_s64((const int64_t *)(x)))
/* Multiplies groups (g) of four columns, eight deep, or sixteen with `two`. */
#define FOUR(two) \
  _Pragma("GCC unroll 2") for (int g = 0; g < 2; g++) { \
    const int8x16_t v0 = vld1q_s8(w + 32 * g), v1 = vld1q_s8(w + 32 * g + 16); \
    product[g][0] = vmull_s8(vget_low_s8(v0), vget_low_s8(x0)), product[g][1] = vmull_high_s8(v0, x0); \
    product[g][2] = vmull_s8(vget_low_s8(v1), vget_low_s8(x0)), product[g][3] = vmull_high_s8(v1, x0); \
    const int8x16_t v2 = vld1q_s8(w + 32 * g + (two ? 64 : 0)), v3 = vld1q_s8(w + 32 * g + (two ? 80 : 0)); \
    EACH lanes[0][4 * (1 - g) + i] = vpadalq_s16(lanes[0][4 * (1 - g) + i], product[1 - g][i]); \
    if (two) { \
      product[g][0] = vmlal_s8(product[g][0], vget_low_s8(v2), vget_low_s8(x1)); \
      product[g][1] = vmlal_high_s8(product[g][1], v2, x1); \
      product[g][2] = vmlal_s8(product[g][2], vget_low_s8(v3), vget_low_s8(x1)); \
      product[g][3] = vmlal_high_s8(product[g][3], v3, x1); \
    } \
  }
  begin(1, 8, 1, bias, terms, lanes);
  EACH product[1][i] = vdupq_n_s16(0);
  for (int line = layout->lines; line > 0; line--, a += layout->pitch) {
    ptrdiff_t k = 0;
    for (; small && k + 16 <= layout->depth; k += 16, w += 16 * NR) {
      const int8x16_t x0 = DEEP(a + k), x1 = DEEP(a + k + 8);
      FOUR(1)
    }
    for (; k < layout->depth; k += 8, w += 8 * NR) {
      const int8x16_t x0 = DEEP(a + k), x1 = x0;
      FOUR(0)
    }
  }
  EACH lanes[0][4 + i] = vpadalq_s16(lanes[0][4 + i], product[1][i]);
#undef FOUR
#undef DEEP
#undef EACH
  add_up(1, 0, 8, lanes, acc);
}
#include "products_neon.h"
#else
/* R <= 2 rows, of which `rows` are in use, times columns c0 .. c0 + C - 1 of a panel, two columns at a time.  For cores
 * without renaming, the products of a pair are added to the sums while the next pair is multiplied; the products of the
 * last pair, while the next weights are loaded. */
PL_INLINE void columns(int R, int c0, int C, int rows, const pl_a_layout *layout, const int8_t *a, const int8_t *w,
                       const int32_t *bias, const int32_t *terms, int32x4_t acc[ROWS][4]) {
  int32x4_t lanes[NARROW][8];
  const ptrdiff_t depth = layout->depth, second = rows > 1 ? layout->step : 0;
  int16x8_t product[2][4], *last = product[(C / 2 - 1) % 2];
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) last[i] = vdupq_n_s16(0);
  begin(R, C, rows, bias ? bias + c0 : NULL, terms, lanes);
#define ADD(pair, i) \
  { \
    int32x4_t *sum = &lanes[(i) % R][2 * (pair) + (i) / R]; \
    *sum = vpadalq_s16(*sum, product[(pair) % 2][i]); \
  }
  w += 8 * c0;
  for (int line = layout->lines; line > 0; line--, a += layout->pitch)
    for (ptrdiff_t k = 0; k < depth; k += 8, w += 8 * NR) {
      const int8x8_t x[2] = {vld1_s8(a + k), R == 2 ? vld1_s8(a + second + k) : vld1_s8(a + k)};
      int8x8_t wv[2] = {vld1_s8(w), vld1_s8(w + 8)};
#pragma GCC unroll 4
      for (int i = 0; i < 2 * R; i++) ADD(C / 2 - 1, i)
#pragma GCC unroll 4
      for (int pair = 0; pair < C / 2; pair++) {
#pragma GCC unroll 4
        for (int i = 0; i < 2 * R; i++) {
          product[pair % 2][i] = vmull_s8(x[i % R], wv[i / R]);
          if (i % R == R - 1 && pair < C / 2 - 1) wv[i / R] = vld1_s8(w + 16 * (pair + 1) + 8 * (i / R));
          if (pair) ADD(pair - 1, i)
        }
      }
    }
#pragma GCC unroll 4
  for (int i = 0; i < 2 * R; i++) ADD(C / 2 - 1, i)
#undef ADD
  add_up(R, c0, C, lanes, acc);
}
/* The same for weights without -128, G columns at a time: sixteen deep, and eight at the end of a run. */
PL_INLINE void small_columns(int R, int c0, int C, int G, int rows, const pl_a_layout *layout, const int8_t *a,
                             const int8_t *w, const int32_t *bias, const int32_t *terms, int32x4_t acc[ROWS][4]) {
  int32x4_t lanes[NARROW][8];
  const ptrdiff_t depth = layout->depth, second = rows > 1 ? layout->step : 0;
  const int n = G * R, groups = C / G;
  int16x8_t product[2][4], *last = product[(groups - 1) % 2];
#define EACH _Pragma("GCC unroll 4") for (int i = 0; i < n; i++)
#define ADD(group, i) \
  { \
    int32x4_t *sum = &lanes[(i) % R][G * (group) + (i) / R]; \
    *sum = vpadalq_s16(*sum, product[(group) % 2][i]); \
  }
#define GROUPS(two) \
  _Pragma("GCC unroll 8") for (int g = 0; g < groups; g++) { \
    int8x8_t v[2]; \
    _Pragma("GCC unroll 2") for (int c = 0; c < G; c++) v[c] = vld1_s8(w + 8 * (G * g + c)); \
    EACH { \
      product[g % 2][i] = vmull_s8(x0[i % R], v[i / R]); \
      if (two && i % R == R - 1) v[i / R] = vld1_s8(w + 8 * NR + 8 * (G * g + i / R)); \
      ADD((g + groups - 1) % groups, i) \
    } \
    if (two) EACH product[g % 2][i] = vmlal_s8(product[g % 2][i], x1[i % R], v[i / R]); \
  }
  EACH last[i] = vdupq_n_s16(0);
  begin(R, C, rows, bias ? bias + c0 : NULL, terms, lanes);
  w += 8 * c0;
  for (int line = layout->lines; line > 0; line--, a += layout->pitch) {
    ptrdiff_t k = 0;
    for (; k + 16 <= depth; k += 16, w += 16 * NR) {
      const int8x8_t x0[2] = {vld1_s8(a + k), vld1_s8(a + (R == 2 ? second : 0) + k)};
      const int8x8_t x1[2] = {vld1_s8(a + k + 8), vld1_s8(a + (R == 2 ? second : 0) + k + 8)};
      GROUPS(1)
    }
    if (k < depth) {
      const int8x8_t x0[2] = {vld1_s8(a + k), vld1_s8(a + (R == 2 ? second : 0) + k)}, *const x1 = x0;
      GROUPS(0)
      w += 8 * NR;
    }
  }
  EACH ADD(groups - 1, i)
#undef GROUPS
#undef ADD
#undef EACH
  add_up(R, c0, C, lanes, acc);
}
#endif
PL_INLINE void products(int small, int R, int V, int rows, const pl_a_layout *layout, const int8_t *a, const int8_t *w,
                        const int32_t *bias, const int32_t *terms, int32x4_t acc[ROWS][4]) {
  (void)V;
#if defined(__aarch64__)
  if (R == 1) one_row(small, layout, a, w, bias, terms, acc);
  else four_rows(small, rows, layout, a, w, bias, terms, acc);
#else /* half as many registers */
#pragma GCC unroll 2
  for (int c = 0; c < 8; c += 4)
    if (small) small_columns(R, c, 4, 1, rows, layout, a, w, bias, terms, acc);
    else columns(R, c, 4, rows, layout, a, w, bias, terms, acc);
#endif
}
#include "nibbles_neon.h"
#include "gemm_neon.h"

/* ---- float ---- */
#define VECTOR float32x4_t
#if defined(__aarch64__)
enum { LANES = 4, MR = 8, NV = 2 };
/* A tile of one row takes half as long as one of eight, so 9 rows are split into 5 and 4, 11 into 6 and 5. */
#define NEXT_ROWS {0, 1, 2, 2, 4, 5, 6, 7, 8, 5, 5, 6, 8, 8, 8, 8}
#define PARTED 1
#define ADD_BY_LANE(acc, w, x, i) vfmaq_laneq_f32(acc, w, x, i)
#else /* half as many registers; only the instruction that rounds twice takes a lane */
enum { LANES = 4, MR = 4, NV = 2 };
#define ADD_BY_LANE(acc, w, x, i) vmlaq_lane_f32(acc, w, (i) < 2 ? vget_low_f32(x) : vget_high_f32(x), (i) % 2)
#endif
#define LOAD vld1q_f32
#define STORE vst1q_f32
#define SPLAT vdupq_n_f32
#define MULTIPLY_ADD(acc, a, b) vfmaq_f32(acc, a, b)
#define MULTIPLY vmulq_f32
#define ADD vaddq_f32
#define SUBTRACT vsubq_f32
#define MIN vminq_f32
#define MAX vmaxq_f32
/* Multiplies step k + i: weights by lane i of the vector x[r] of each row. */
#define LANE(i) \
  { \
    const VECTOR w0 = LOAD(w + (i) * V * LANES), w1 = V == 2 ? LOAD(w + ((i) * V + 1) * LANES) : w0; \
    _Pragma("GCC unroll 8") for (int r = 0; r < R; r++) { \
      acc[r][0] = ADD_BY_LANE(acc[r][0], w0, x[r], i); \
      if (V == 2) acc[r][1] = ADD_BY_LANE(acc[r][1], w1, x[r], i); \
    } \
  }
#define BY_LANES \
  for (; k + LANES <= depth; k += LANES, w += LANES * V * LANES) { \
    VECTOR x[MR]; \
    _Pragma("GCC unroll 8") for (int r = 0; r < R; r++) x[r] = LOAD(base[r / 3] + r % 3 * step + k); \
    LANE(0) LANE(1) LANE(2) LANE(3) \
  }
#if defined(__aarch64__)
/* A single row: the weights of the next four steps are loaded between the products of these four, because an
 * in-order core waits for a load that it uses at once. */
#define EACH_WEIGHT \
  _Pragma("GCC unroll 4") for (int i = 0; i < LANES; i++) _Pragma("GCC unroll 2") for (int v = 0; v < V; v++)
#define ROW_BY_LANES \
  if (depth >= LANES) { \
    VECTOR x = LOAD(a), loaded[LANES][NV]; \
    EACH_WEIGHT loaded[i][v] = LOAD(w + (i * V + v) * LANES); \
    for (k = LANES; k + LANES <= depth; k += LANES) { \
      w += LANES * V * LANES; \
      EACH_WEIGHT { \
        acc[i][v] = ADD_BY_LANE(acc[i][v], loaded[i][v], x, i); \
        loaded[i][v] = LOAD(w + (i * V + v) * LANES); \
      } \
      x = LOAD(a + k); \
    } \
    w += LANES * V * LANES; \
    EACH_WEIGHT acc[i][v] = ADD_BY_LANE(acc[i][v], loaded[i][v], x, i); \
  }
#endif
#define FOUR_SUMS
#include "gemm_f32.h"
#include "tiles_neon.h"
#include "winograd_f32.h"

PL_FILL(gemm_neon, s) {
  s->pack_a_q8 = pack_a_q8;
  s->sums_q8 = sums_q8;
  s->gemm_q8 = gemm_q8;
  s->gemm_s32 = gemm_s32;
  s->gemm_hybrid = gemm_hybrid;
#if defined(__aarch64__)
  enum { ABLE = 1, TOGETHER = 4 };
#else
  enum { ABLE = 0, TOGETHER = 2 };
#endif
  s->q8 = (pl_tile){.mr = 8, .nr = NR, .nv = NR, .kr = KR, .ka = KR, .bytes = 1, .real = ABLE, .any_n = ABLE,
                    .small = 1, .rows = TOGETHER};
  fill_blocks(s);
  s->gemm_f32 = some_tiles_f32;
  s->winograd_in = winograd_in;
  s->winograd_filter = winograd_filter;
  s->winograd_out = winograd_out;
  s->f32 = (pl_tile){.mr = MR, .nr = NV * LANES, .nv = LANES, .kr = 1, .ka = 1, .bytes = sizeof(float)};
}
