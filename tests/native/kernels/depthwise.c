/* Checks of depthwise convolutions. */
#include "columns.h"

typedef struct {
  int fh, fw, stride, dilation, pad;
  size_t c, width, pixels, lines; /* output lines */
  const uint8_t *row[64];
} image;

static image draw_image(size_t item, bool real, size_t most) {
  image g = {.fh = 3, .fw = 3, .stride = 1, .dilation = 1};
  if (chance(2)) g.fh = between(1, 5), g.fw = between(1, 6);
  if (chance(2)) g.stride = between(1, 5), g.dilation = between(1, 4);
  g.pad = between(0, (g.fw - 1) * g.dilation);
  g.c = chance(2) ? (size_t)8 * some(1, 9) : some(1, 70);
  g.width = some(1, 20);
  if (real && chance(6)) { /* lines that evict one another from the cache */
    g.c = 256, g.width = some(11, 24), g.fh = 3, g.fw = chance(2) ? 3 : 5, g.stride = between(1, 2), g.dilation = 1;
    g.pad = between(0, g.fw - 1);
  }
  int reach = (int)g.width + 2 * g.pad - (g.fw - 1) * g.dilation;
  if (reach < 1) g.width += (size_t)(1 - reach), reach = 1;
  g.pixels = (size_t)((reach - 1) / g.stride + 1);
  while (((int)most - 1) * g.stride + g.fh > 40) most--;
  g.lines = some(1, most);
  const int rows = (int)(g.lines - 1) * g.stride + g.fh;
  for (int y = 0; y < rows; y++)
    g.row[y] = chance(5) ? NULL : real ? (void *)whole(g.width * g.c, 9) : array(g.width * g.c, item);
  return g;
}
static pl_dw_lines output_lines(const image *g, size_t first, size_t lines, const void *zero, size_t y_line) {
  return (pl_dw_lines){g->row + first * (size_t)g->stride, zero, g->fh, g->fw, g->stride, g->dilation, g->pad,
                       (ptrdiff_t)g->width, (ptrdiff_t)g->pixels, (ptrdiff_t)g->c, (ptrdiff_t)g->c, (int)lines,
                       (ptrdiff_t)y_line, 0, NULL};
}

/* The weights (taps, c) in the level's blocks, as depthwise_packing.pyx packs them, and the columns' parameters. */
static pl_columns pack(const pl_slots *s, const image *g, const finish *f, const uint8_t *w, int flip, int x_zero,
                       int w_zero, void **packed) {
  const pl_tile *t = &s->dw8;
  int16_t order[4 * PL_MAX_TAPS];
  const int taps = pl_tap_order(t, g->fh, g->fw, order);
  const ptrdiff_t c = (ptrdiff_t)g->c, nr = t->nr;
  const ptrdiff_t wraps = pl_wraps(t, c, g->fh, g->fw, g->stride, g->dilation);
  const ptrdiff_t blocks = wraps ? wraps : (c + nr - 1) / nr, size = blocks * nr;
  uint8_t *to = room((size_t)(taps * size * t->bytes), 4);
  int32_t *from = room((size_t)size, 4), *starts = room((size_t)size, 4);
  for (ptrdiff_t j = 0; j < size; j++) {
    const ptrdiff_t place = t->order ? t->order[j % nr] : j % nr;
    const ptrdiff_t channel = wraps ? (j / nr * nr + place) % c : pl_block_start(j / nr, nr, c) + place;
    int32_t total = 0;
    from[j] = channel < c ? (int32_t)channel : -1;
    if (from[j] < 0) continue;
    for (int k = 0; k < taps; k++) {
      if (order[k] < 0) continue;
      const int8_t v = (int8_t)(w[order[k] * c + channel] ^ flip);
      const ptrdiff_t at = j / nr * taps * nr + k / t->kr * nr * t->kr + k % t->kr + j % nr * t->kr;
      total += v;
      if (t->bytes == 2) ((int16_t *)to)[at] = (int16_t)(v - w_zero);
      else to[at] = (uint8_t)v;
    }
    const int64_t zero = x_zero + (t->bytes == 2 ? 0 : t->offset);
    starts[j] = (int32_t)(f->bias[channel] - zero * (total - g->fh * g->fw * w_zero));
  }
  *packed = to;
  return columns_of(s, f, (size_t)size, (size_t)size, from, starts, (size_t)(g->fh * g->fw), NULL, 0);
}

static void depthwise_q8(void) {
  static finish f;
  const image g = draw_image(1, false, 4);
  const int flip = 0x80 * between(0, 1), w_zero = flip && chance(2) ? between(-128, 127) : 0;
  const int x_zero = between(-128, 127);
  const uint8_t *w = array((size_t)(g.fh * g.fw) * g.c, 1);
  const uint8_t border = (uint8_t)(x_zero ^ flip);
  const uint8_t *zero = integers(g.c, 1, border, border);
  draw_finish(&f, g.c);
  const size_t line = g.pixels * g.c;
  EACH_LEVEL(s) {
    void *packed;
    const pl_columns columns = pack(s, &g, &f, w, flip, x_zero, w_zero, &packed);
    uint8_t *y = results(g.lines * line, 1, EXACT);
    for (size_t i = 0, n; i < g.lines; i += n) {
      n = g.lines - i < (size_t)s->dw8.mr ? g.lines - i : (size_t)s->dw8.mr;
      const pl_dw_lines v = output_lines(&g, i, n, zero, line);
      s->depthwise_q8(&v, flip, w_zero, packed, &columns, y + i * line);
    }
  }
}
static void depthwise_f32(void) {
  const image g = draw_image(4, true, 4);
  const size_t channels = g.c + (chance(3) ? some(1, 40) : 0);
  const float *w = whole((size_t)(g.fh * g.fw) * channels, 9), *bias = chance(2) ? whole(g.c, 9) : NULL;
  const float *zero = whole(g.c, 0), *scale = chance(2) ? whole(g.c, 9) : NULL;
  const size_t line = g.pixels * channels + some(0, 5);
  EACH_LEVEL(s) {
    float *y = results(g.lines * line, 4, EXACT);
    const size_t most = s->dw_f32_lines ? (size_t)s->dw_f32_lines : 1;
    for (size_t i = 0, n; i < g.lines; i += n) {
      n = g.lines - i < most ? g.lines - i : most;
      pl_dw_lines v = output_lines(&g, i, n, zero, line);
      v.scale = scale, v.channels = (ptrdiff_t)channels;
      s->depthwise_f32(&v, w, bias, -50, 300, y + i * line);
    }
  }
}
static void depthwise_f16(void) {
  image g = draw_image(2, false, 4);
  const int rows = (int)(g.lines - 1) * g.stride + g.fh;
  for (int y = 0; y < rows; y++)
    if (g.row[y]) g.row[y] = (const uint8_t *)halves(g.width * g.c);
  const uint16_t *w = halves((size_t)(g.fh * g.fw) * g.c), *bias = chance(2) ? halves(g.c) : NULL;
  const size_t line = g.pixels * g.c + some(0, 5);
  const pl_dw_lines v = output_lines(&g, 0, g.lines, integers(g.c, 2, 0, 0), line);
  EACH_LEVEL(s) s->depthwise_f16(&v, w, bias, -2, 6, results(g.lines * line, 2, EXACT));
}
static void depthwise_s64(void) {
  const image g = draw_image(2, false, 1);
  const size_t begin = some(0, g.c - 1), n = some(1, g.c - begin), at = some(0, g.pixels - 1);
  const int16_t *w = integers((size_t)(g.fh * g.fw) * g.c, 2, -255, 255), *zero = integers(g.c, 2, 0, 0);
  const pl_dw_lines v = output_lines(&g, 0, 1, zero, g.pixels * g.c);
  EACH_LEVEL(s)
    s->depthwise_s64(&v, (ptrdiff_t)at, (ptrdiff_t)begin, (int)n, w, results(n, 8, EXACT));
}

#define X(name) {#name, name}
const check depthwise_checks[] = {X(depthwise_q8), X(depthwise_f32), X(depthwise_f16), X(depthwise_s64), {NULL, NULL}};
