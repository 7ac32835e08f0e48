/* Products in float16 for CPUs without float16 instructions, with the same results to the bit as gemm_f16.c; included
 * by portable.c alone.  Each number is converted to float; products and sums are rounded to float16 again. */

enum { HALF_LANES = 8, HALF_NR = 16 };
static const pl_tile tile_f16 = {.mr = 8, .nr = HALF_NR, .nv = HALF_LANES, .kr = 1, .ka = 1, .bytes = 2};

/* Rounds `sum`, which is s + a b for three float16, to the nearest float16.  `sum` is a double that has been rounded
 * already, but rounding twice is harmless here: sums so close to the middle of two float16 that it could matter are
 * exact in double. */
PL_INLINE float nearest_half(double sum) {
  uint64_t bits, dropped = 42; /* a double has 42 bits more than a float16 */
  double rounded;
  memcpy(&bits, &sum, sizeof bits);
  bits = (bits + ((1ull << (dropped - 1)) - 1) + (bits >> dropped & 1)) & ~((1ull << dropped) - 1);
  memcpy(&rounded, &bits, sizeof rounded);
  const double tiny = copysign((fabs(sum) + 0x1.8p28) - 0x1.8p28, sum); /* a multiple of 2^-24, below 2^-14 */
  rounded = fabs(sum) < 0x1p-14 ? tiny : rounded;
  rounded = fabs(rounded) >= 0x1p16 ? copysign(INFINITY, sum) : rounded;
  return (float)(sum == sum ? rounded : sum);
}

/* Adds products for `width` columns: to sum[0], or to four sums in turn for as many elements of k as fill vectors. */
static void add_products(int width, ptrdiff_t depth, const uint16_t *a, const uint16_t *w, int sums,
                         float sum[4][HALF_NR]) {
  const ptrdiff_t in_turn = sums == 1 ? 0 : depth / HALF_LANES * HALF_LANES;
  for (ptrdiff_t k = 0; k < depth; k++, w += width) {
    float *s = sum[k < in_turn ? k % sums : 0], products[HALF_NR];
    const float x = pl_from_half(a[k]);
    for (int j = 0; j < width; j++) products[j] = x * pl_from_half(w[j]);
    for (int j = 0; j < width; j++) s[j] = nearest_half((double)s[j] + (double)products[j]);
  }
}

/* Adds the sums to the total, in float32, and clears them. */
static void move_sums(int width, int sums, float sum[4][HALF_NR], float *total) {
  for (int j = 0; j < width; j++)
    total[j] += sums == 1 ? sum[0][j] : (sum[0][j] + sum[1][j]) + (sum[2][j] + sum[3][j]);
  memset(sum, 0, 4 * sizeof *sum);
}

/* bound if the value lies beyond it; like Arm's instructions, 0 instead of -0. */
PL_INLINE float from_low(float v, float low) { return v <= low ? low : v; }
PL_INLINE float up_to_high(float v, float high) { return v >= high ? high : v; }

static void gemm_f16(int rows, int n, const pl_a_layout *layout, const uint16_t *a, const uint16_t *panel, int first,
                     int last, const float *bias, float low, float high, void *vy, ptrdiff_t ldy) {
  const int width = n > HALF_LANES ? HALF_NR : HALF_LANES, sums = first & 2 ? 4 : 1;
  for (int r = 0; r < rows; r++, a += layout->step) {
    const uint16_t *row = a, *w = panel;
    float total[HALF_NR] = {0}, sum[4][HALF_NR] = {{0}}, *y = (float *)vy + r * ldy;
    ptrdiff_t room = sums * PL_HALF_SUM;
    if (!(first & 1)) memcpy(total, y, n * sizeof *y);
    for (int line = 0; line < layout->lines; line++, row += layout->pitch)
      for (ptrdiff_t k = 0, some; k < layout->depth; k += some, w += some * width, room -= some) {
        if (!room) {
          move_sums(width, sums, sum, total);
          room = sums * PL_HALF_SUM;
        }
        some = layout->depth - k < room ? layout->depth - k : room;
        add_products(width, some, row + k, w, sums, sum);
      }
    move_sums(width, sums, sum, total);
    for (int j = 0; j < n; j++) {
      float v = total[j];
      if (last & 1) v = up_to_high(from_low(v + (bias ? bias[j] : 0), low), high);
      if (last) v = nearest_half(v);
      if (last & 2) ((uint16_t *)vy)[r * ldy + j] = pl_to_half(v);
      else y[j] = v;
    }
  }
}

PL_EMULATES static void depthwise_f16(const pl_dw_lines *g, const uint16_t *w, const uint16_t *bias, float low,
                                      float high, uint16_t *y) {
  for (int line = 0; line < g->lines; line++)
    for (ptrdiff_t pixel = 0; pixel < g->pixels; pixel++)
      for (ptrdiff_t c = 0, n; c < g->c; c += n) {
        float sum[HALF_NR];
        n = g->c - c < HALF_NR ? g->c - c : HALF_NR;
        for (ptrdiff_t j = 0; j < n; j++) sum[j] = bias ? pl_from_half(bias[c + j]) : 0;
        for (int t = 0; t < g->fh * g->fw; t++) {
          const uint16_t *row = (const uint16_t *)g->row[line * g->stride + t / g->fw], *taps = w + t * g->c + c;
          const ptrdiff_t x = pixel * g->stride - g->pad + (ptrdiff_t)(t % g->fw) * g->dilation;
          if (!row || x < 0 || x >= g->width) continue;
          row += x * g->c + c;
          for (ptrdiff_t j = 0; j < n; j++)
            sum[j] = nearest_half((double)sum[j] + (double)(pl_from_half(row[j]) * pl_from_half(taps[j])));
        }
        for (ptrdiff_t j = 0; j < n; j++)
          y[line * g->y_line + pixel * g->c + c + j] = pl_to_half(up_to_high(from_low(sum[j], low), high));
      }
}

/* x min(max(x + 3, 0), 6) / 6, each step rounded to float16 */
PL_EMULATES static void hard_swish_f16(size_t n, const void *vx, void *vy, const void *p) {
  const uint16_t *x = vx;
  uint16_t *y = vy;
  const double sixth = pl_from_half(0x3155);
  (void)p;
  for (size_t i = 0; i < n; i++) {
    const float v = pl_from_half(x[i]), gate = up_to_high(from_low(nearest_half((double)v + 3), 0), 6);
    y[i] = pl_to_half(nearest_half((double)v * (double)nearest_half((double)gate * sixth)));
  }
}

PL_EMULATES static void leaky_relu_f16(size_t n, const void *vx, void *vy, const void *p) {
  const uint16_t *x = vx;
  uint16_t *y = vy;
  float alpha;
  memcpy(&alpha, p, sizeof alpha);
  alpha = pl_from_half(pl_to_half(alpha));
  for (size_t i = 0; i < n; i++) {
    const float v = pl_from_half(x[i]);
    y[i] = v > 0 ? x[i] : pl_to_half(nearest_half((double)v * (double)alpha));
  }
}
PL_EMULATES static void prelu_f16(size_t n, const void *va, int a_step, const void *vb, int b_step, void *vy,
                                  const void *p) {
  const uint16_t *a = va, *b = vb;
  uint16_t *y = vy;
  (void)p;
  for (size_t i = 0; i < n; i++, a += a_step, b += b_step) {
    const float v = pl_from_half(*a);
    y[i] = v >= 0 ? *a : pl_to_half(nearest_half((double)v * (double)pl_from_half(*b)));
  }
}

/* Not inlined, because the transforms have dozens of each, and are slow anyway. */
static __attribute__((noinline)) float sum_of_halves(float a, float b) { return nearest_half((double)a + (double)b); }
static __attribute__((noinline)) float loaded_half(const uint16_t *p) { return pl_from_half(*p); }
static __attribute__((noinline)) void store_half(uint16_t *p, float v) { *p = pl_to_half(v); }
#define VECTOR float
#define LANES 1
#define ELEMENT uint16_t
#define LOAD(p) loaded_half(p)
#define STORE(p, v) store_half(p, v)
#define LOAD_BIAS(p, n) (*(p))
#define STORE_FIRST(p, v, n) STORE(p, v)
#define SPLAT(v) (v)
#define ADD(a, b) sum_of_halves(a, b)
#define SUBTRACT(a, b) sum_of_halves(a, -(b))
#define MIN(bound, v) up_to_high(v, bound)
#define MAX(bound, v) from_low(v, bound)
#define winograd_in winograd_in_f16
#define winograd_out winograd_out_f16
#include "winograd_f32.h"
#undef winograd_in
#undef winograd_out
#undef VECTOR
#undef LANES
#undef LOAD
#undef STORE
#undef STORE_FIRST
#undef SPLAT
#undef ADD
#undef SUBTRACT
#undef MIN
#undef MAX
