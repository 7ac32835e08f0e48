/* Checks of the slots that move elements. */
#include "draw.h"

static size_t item_of_any(void) { return (size_t)1 << between(0, 4); }

static void copy_runs(void) {
  const size_t rows = some(0, 40), bytes = some(1, 150), x_step = bytes + some(0, 9), y_step = bytes + some(0, 9);
  const uint8_t *x = array(rows * x_step, 1);
  EACH_LEVEL(s) s->copy_runs(rows, bytes, x, (ptrdiff_t)x_step, results(rows * y_step, 1, EXACT), (ptrdiff_t)y_step);
}

static void copy_strided(void) {
  const size_t item = item_of_any(), rows = some(0, 20), cols = some(0, 40);
  const ptrdiff_t one = (ptrdiff_t)item, x_col = one * between(-2, 3), y_col = one * between(1, 3);
  const ptrdiff_t x_row = (x_col < 0 ? -x_col : x_col) * (ptrdiff_t)cols + one * between(0, 2);
  const ptrdiff_t y_row = y_col * (ptrdiff_t)cols + one * between(0, 2);
  const ptrdiff_t start = x_col < 0 && cols ? -x_col * (ptrdiff_t)(cols - 1) : 0;
  const uint8_t *x = array(rows * (size_t)x_row + item, 1);
  EACH_LEVEL(s)
    s->copy_strided(item, rows, cols, x + start, x_row, x_col, results(rows * (size_t)y_row + item, 1, EXACT), y_row,
                    y_col);
}

static void copy_transposed(void) {
  const size_t item = item_of_any(), rows = chance(3) ? some(1, 4) : some(0, 70), cols = some(0, 70);
  const size_t x_col = item * (rows + some(0, 2)), y_row = item * (cols + some(0, 1));
  const uint8_t *x = array(cols * x_col, 1);
  EACH_LEVEL(s)
    s->copy_transposed(item, rows, cols, x, (ptrdiff_t)x_col, results(rows * y_row, 1, EXACT), (ptrdiff_t)y_row);
}

static void repeat_items(void) {
  const size_t item = (size_t)1 << between(0, 3), n = some(0, 40), m = some(1, 70), bytes = n * m * item;
  const uint8_t *x = array(n, item);
  EACH_LEVEL(s) s->repeat_items(item, n, m, x, result(bytes + PL_REPEAT_SLACK, 1, NULL, bytes, EXACT));
}

static void choose(void) {
  const size_t item = item_of_any(), n = some(0, 300), x_step = some(0, 1), y_step = some(0, 1);
  const uint8_t *c = array(n, 1), *x = array(x_step ? n : 1, item), *y = array(y_step ? n : 1, item);
  EACH_LEVEL(s) s->choose(item, n, c, x, x_step, y, y_step, results(n * item, 1, EXACT));
}

static void gather_pixels(void) {
  const size_t n = some(0, 70), bytes = some(1, 70), step = bytes + some(0, 3);
  const int width = between(1, 50);
  const int32_t *at = integers(n, 4, 0, width - 1);
  const uint8_t *x = array((size_t)width * bytes, 1);
  EACH_LEVEL(s) s->gather_pixels(n, bytes, at, x, results(n ? (n - 1) * step + bytes : 0, 1, EXACT), step);
}

#define ARG_MAX(name, TYPE, flips, values) \
  static void name(void) { \
    static const uint32_t known[] = flips; \
    const uint32_t flip = known[between(0, sizeof known / 4 - 1)]; \
    const size_t n = some(1, 300), cols = some(1, 16); \
    const int along = between(0, 2); \
    const size_t stride = along == 0 ? 1 : along == 1 ? cols : 16, next = along == 0 ? n : 1; \
    const size_t size = (n - 1) * stride + (cols - 1) * next + 1; \
    const TYPE *x = values; \
    EACH_LEVEL(s) s->name(n, cols, (ptrdiff_t)stride, (ptrdiff_t)next, x, flip, results(cols, 4, EXACT)); \
  }
#define LIST(...) {__VA_ARGS__}
ARG_MAX(arg_max_f32, float, LIST(0, 1u << 31), floats(size))
ARG_MAX(arg_max_s32, int32_t, LIST(0, UINT32_MAX), array(size, 4))
ARG_MAX(arg_max_s8, int8_t, LIST(0, 0x80, 0xFF, 0x7F), array(size, 1))

#define X(name) {#name, name}
const check moving_checks[] = {X(copy_runs),     X(copy_strided), X(copy_transposed), X(repeat_items), X(choose),
                               X(gather_pixels), X(arg_max_f32),  X(arg_max_s32),     X(arg_max_s8),   {NULL, NULL}};
