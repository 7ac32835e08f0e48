/* Checks of pooling, reductions, softmax, normalization and resizing. */
#include "draw.h"
#include <math.h>

static const size_t items_of[] = {4, 1, 1, 2, 2}; /* f32, i8, u8, i16, f16 */
static void *values(size_t n, int type, int most) {
  return type == 4 ? (void *)halves(n) : type ? array(n, items_of[type]) : (void *)whole(n, most);
}

static void pool(size_t slot, bool largest, int type, closeness how) {
  size_t c = some(1, 80), cols = some(1, 5), rows = some(1, 4), n = 0;
  const size_t width = some(1, 20), stride = some(1, 3);
  size_t left = some(0, cols - 1);
  if (largest && chance(2)) /* maxima of few columns */
    c = some(16, 70), cols = some(2, 3), rows = some(1, 3), left = some(0, cols - 1);
  while ((ptrdiff_t)(n * stride) - (ptrdiff_t)left < (ptrdiff_t)width && n < 30) n++;
  if (left == 0 && cols == 2) n = width < cols ? 1 : (width - cols) / stride + 1;
  const size_t row = width * c + some(0, 9);
  const int low = type == 2 ? 0 : -128, high = type == 2 ? 255 : 127;
  const pl_window w = {(ptrdiff_t)c, (ptrdiff_t)width, (ptrdiff_t)rows, (ptrdiff_t)row, (ptrdiff_t)cols,
                       (ptrdiff_t)stride, (ptrdiff_t)c, (ptrdiff_t)c, low + between(0, 99), high - between(0, 99),
                       -5, 50};
  const pl_window *at = copied(&w, sizeof w / 8, 8);
  const void *x = values(rows * row, type, 9);
  EACH_LEVEL(s)
    (*(const pl_pooling_fn *)((const char *)s + slot))(at, x, (ptrdiff_t)left, (ptrdiff_t)n,
                                                       results(n * c, items_of[type], how));
}
#define POOLS(X) \
  X(pool_average_f32, 0, 0) X(pool_average_i8, 0, 1) X(pool_average_u8, 0, 2) X(pool_average_i16, 0, 3) \
  X(pool_max_f32, 1, 0) X(pool_max_f16, 1, 4) X(pool_max_i8, 1, 1) X(pool_max_u8, 1, 2) X(pool_max_i16, 1, 3) X(pool_l2_f32, 0, 0)
#define X(name, largest, type) \
  static void name(void) { pool(offsetof(pl_slots, name), largest, type, type == 4 ? NEAR_HALF : type ? EXACT : NEAR); }
POOLS(X)
#undef X

static void reduce(size_t slot, bool largest, int type) {
  static const uint32_t flips[] = {0, 0x80, 0x7F};
  pl_reduction g = {.n = {between(1, 3), between(1, 3), between(1, 9)}, .step = 1, .divisor = chance(2) ? 1 : 7,
                    .sign = chance(2) ? 1 : -1, .x_zero_sum = between(-999, 999), .multiplier = multiplier(),
                    .exponent = between(-12, 0), .y_zero = between(-99, 99), .low = type == 1 ? -128 : -32768,
                    .high = type == 1 ? 127 : 32767};
  size_t c = some(1, 150), inner = c;
  if (chance(2)) {
    c = some(1, 4), g.run = (ptrdiff_t)some(1, 150), g.step = g.run + between(0, 2);
    inner = c * (size_t)g.step;
  }
  g.flip = (int32_t)(type == 1 ? flips[between(0, 2)] : type == 3 && largest && chance(2) ? 0xFFFF : 0);
  g.stride[2] = (ptrdiff_t)inner + 3 * between(0, 1);
  g.stride[1] = g.stride[2] * g.n[2];
  g.stride[0] = g.stride[1] * g.n[1];
  const pl_reduction *at = copied(&g, sizeof g / 8, 8);
  const size_t rows = some(1, 3), apart = (size_t)(g.stride[0] * g.n[0]) + some(0, 2);
  const void *x = values(rows * apart + inner, type, 9);
  EACH_LEVEL(s)
    (*(const pl_reduction_fn *)((const char *)s + slot))(at, x, rows, (ptrdiff_t)apart, c,
                                                         results(rows * c, items_of[type], type ? EXACT : NEAR));
}
#define REDUCTIONS(X) \
  X(reduce_sum_f32, 0, 0) X(reduce_sum_8, 0, 1) X(reduce_sum_16, 0, 3) X(reduce_max_f32, 1, 0) X(reduce_max_8, 1, 1) \
  X(reduce_max_16, 1, 3)
#define X(name, largest, type) \
  static void name(void) { reduce(offsetof(pl_slots, name), largest, type); }
REDUCTIONS(X)
#undef X

static void join(size_t slot, size_t item, bool real_x) {
  const size_t c = some(0, 40), step = chance(2) ? 1 : some(1, 60), n = some(0, 60), stride = chance(2) ? 1 : some(1, 60);
  const size_t size = (c ? c - 1 : 0) * step + (n ? n - 1 : 0) * stride + 1;
  const void *x = real_x ? (void *)whole(size, 1) : array(size, item);
  const void *acc = real_x ? (void *)whole(c, 9) : array(c, 8);
  const size_t acc_item = real_x ? 4 : 8;
  EACH_LEVEL(s)
    (*(const pl_join_fn *)((const char *)s + slot))(c, (ptrdiff_t)step, n, (ptrdiff_t)stride, x,
                                                    result(c, acc_item, acc, c, EXACT));
}
#define JOINS(X) \
  X(join_sum_i32, 4) X(join_max_i32, 4) X(join_min_i32, 4) X(join_product_i32, 4) X(join_sum_i64, 8) \
  X(join_max_i64, 8) X(join_min_i64, 8) X(join_product_i64, 8)
#define X(name, item) \
  static void name(void) { join(offsetof(pl_slots, name), item, false); }
JOINS(X)
#undef X
static void join_product_f32(void) { join(offsetof(pl_slots, join_product_f32), 4, true); }

static void bilinear(size_t slot, int type, bool narrow) {
  const bool gather = chance(2);
  const size_t n = some(1, 70), width = some(1, 50), c = gather ? some(1, 12) : some(1, 80);
  const size_t step = gather ? c : c + some(0, 3), each = gather ? c : 1, count = n * each;
  int32_t low[70], high[70];
  for (size_t i = 0; i < n; i++) {
    low[i] = (int32_t)(i * width / n);
    high[i] = low[i] + 1 < (int32_t)width ? low[i] + 1 : (int32_t)width - 1;
  }
  const int32_t *lows = copied(low, n, 4), *highs = copied(high, n, 4);
  int32_t *fraction = integers(count, 4, 0, narrow ? 16 : 1024);
  for (size_t i = 0; i < count; i++) fraction[i] = fraction[i - i % each]; /* all channels of a column have the same */
  if (type == 0 || (type == 2 && !narrow))
    for (size_t i = 0; i < count; i++) ((float *)fraction)[i] = (float)fraction[i] / 1024;
  const void *dy = copied(fraction, 1, 4);
  const void *top = values(width * c, type, 9), *bottom = values(width * c, type, 9);
  EACH_LEVEL(s) {
    void *y = results((n - 1) * step + c, items_of[type], type ? EXACT : NEAR);
    (*(const pl_bilinear_fn *)((const char *)s + slot))(n, c, gather, top, bottom, lows, highs, fraction, dy, y, step);
  }
}
#define BILINEARS(X) \
  X(bilinear_f32, 0, false) X(bilinear_i8, 1, false) X(bilinear_i8_narrow, 1, true) X(bilinear_u8, 2, false) \
  X(bilinear_u8_narrow, 2, true) X(bilinear_i16, 3, false)
#define X(name, type, narrow) \
  static void name(void) { bilinear(offsetof(pl_slots, name), type, narrow); }
BILINEARS(X)
#undef X

/* ---- rows ---- */
static float *row(size_t n) {
  float *x = whole(n, 30000);
  const float scale = chance(2) ? 1e-4f : 3e-3f;
  for (size_t i = 0; i < n; i++) x[i] *= scale;
  return x;
}
static void softmax_f32(void) {
  const size_t rows = some(1, 9), n = chance(3) ? some(1, 300) : some(1, 20);
  const float beta = chance(2) ? 1 : chance(2) ? 0.5f : -0.75f, *x = row(rows * n);
  EACH_LEVEL(s) s->softmax_f32(rows, n, beta, x, results(rows * n, 4, NEAR_LARGEST));
}
static void log_softmax_f32(void) {
  const size_t rows = some(1, 40), n = some(1, 400);
  const float *x = row(rows * n);
  EACH_LEVEL(s) s->log_softmax_f32(rows, n, x, results(rows * n, 4, NEAR_LARGEST));
}
static void l2_normalize_f32(void) {
  const size_t rows = some(1, 4), n = some(1, 400);
  const float *x = chance(8) ? whole(rows * n, 0) : row(rows * n);
  EACH_LEVEL(s) s->l2_normalize_f32(rows, n, x, results(rows * n, 4, NEAR_LARGEST));
}
static const pl_softmax8 *tables(bool logarithm) {
  static pl_softmax8 made[2][64];
  const int which = between(0, 63);
  const double scale = which * 0.005 + 0.01;
  pl_softmax8 *t = &made[logarithm][which];
  for (int i = 0; i < 256 && !t->value[0]; i++) {
    const double below = exp(-scale * i), value = logarithm ? -scale * i * 0x1p26 : below * INT32_MAX;
    t->scaled[i] = (int32_t)(below * 0x1p19);
    if (i) t->value[i] = (int32_t)fmax(value, -0x1p30);
  }
  t->value[0] = logarithm ? 0 : INT32_MAX;
  t->flip = (uint8_t)(0x80 * between(0, 1));
  return copied(t, sizeof *t / 4, 4);
}
static void softmax_bytes(bool wide) {
  const size_t rows = some(1, 9), n = chance(3) ? some(1, 300) : some(1, 20), item = wide ? 2 : 1;
  const pl_softmax8 *t = tables(false);
  const uint8_t *x = array(rows * n, 1);
  EACH_LEVEL(s) (wide ? s->softmax_8_to_16 : s->softmax_8)(rows, n, t, x, results(rows * n, item, EXACT));
}
static void softmax_8(void) { softmax_bytes(false); }
static void softmax_8_to_16(void) { softmax_bytes(true); }
static void log_softmax_8(void) {
  const size_t rows = some(1, 4), n = some(1, 400);
  const pl_softmax8 *t = tables(true);
  const uint8_t *x = array(rows * n, 1);
  EACH_LEVEL(s) s->log_softmax_8(rows, n, t, x, results(rows * n, 1, EXACT));
}
static void softmax_s16(void) {
  int16_t exponentials[513], reciprocals[513];
  for (int i = 0; i < 513; i++) {
    exponentials[i] = (int16_t)lrint(exp(10.0 * i / 512 - 10) * 32767);
    reciprocals[i] = (int16_t)lrint(32767 / (1 + i / 512.0));
  }
  const size_t n = some(1, 400);
  const pl_softmax16 t = {copied(exponentials, 513, 2), copied(reciprocals, 513, 2), multiplier(), between(-4, 1)};
  const int16_t *x = array(n, 2);
  EACH_LEVEL(s) s->softmax_s16(n, &t, x, results(n, 2, EXACT));
}
static void l2_normalize_8(void) {
  const size_t n = some(1, 400);
  const int32_t zero = between(0, 255);
  const uint8_t flip = (uint8_t)(0x80 * between(0, 1)), *x = array(n, 1);
  EACH_LEVEL(s) s->l2_normalize_8(n, zero, flip, x, results(n, 1, EXACT));
}
static void observe_f32(void) {
  const size_t rows = some(0, 32), n = some(0, 256), x_step = n + some(0, 5), r_step = n + some(0, 5);
  const float *x = whole(rows * x_step, 9), *reference = whole(rows * r_step, 9);
  const pl_range range = {-6.5f, 5.5f, -6, 5};
  static pl_error_sums before; /* zeros */
  EACH_LEVEL(s)
    s->observe_f32(rows, n, x, (ptrdiff_t)x_step, reference, (ptrdiff_t)r_step, &range,
                   result(sizeof before / 8, 8, &before, sizeof before / 8, EXACT));
}

#define X(name, ...) {#name, name},
const check reducing_checks[] = {
    POOLS(X) REDUCTIONS(X) JOINS(X) BILINEARS(X) X(join_product_f32) X(softmax_f32) X(log_softmax_f32)
    X(l2_normalize_f32) X(softmax_8) X(softmax_8_to_16) X(log_softmax_8) X(softmax_s16) X(l2_normalize_8)
    X(observe_f32){NULL, NULL}};
