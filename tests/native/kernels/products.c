/* Checks of matrix products.  Each level packs the same matrices for its own tiles. */
#include "columns.h"
#include <math.h>

enum { MAX_ROWS = 16 }; /* full tiles are read */
static int32_t in_order[MOST_COLUMNS];

static void pack_lines_q8(void) {
  const size_t lines = some(1, 5), before = some(0, 40), after = some(0, 40), inside = some(0, 200);
  const size_t step = inside + some(0, 9), width = before + inside + after, pitch = width + some(0, 20);
  const uint8_t *x = array(lines * step, 1);
  const int flip = 0x80 * between(0, 1), border = between(0, 255);
  EACH_LEVEL(s) {
    uint8_t *y = room(lines * pitch + PL_SLACK, 1), *seen = results(lines * width, 1, EXACT);
    s->pack_lines_q8((ptrdiff_t)lines, (ptrdiff_t)before, (ptrdiff_t)inside, (ptrdiff_t)after, x, (ptrdiff_t)step, flip,
                     border, y, (ptrdiff_t)pitch);
    for (size_t i = 0; i < lines; i++) memcpy(seen + i * width, y + i * pitch, width);
  }
}

/* ---- rows of bytes times a panel of bytes ---- */
typedef struct {
  size_t rows, columns, depth;
  const uint8_t *x, *w; /* as int8 */
  int flip;
} product;
static product draw_product(size_t most_columns) {
  product p = {chance(3) ? 1 : some(1, 20), some(1, most_columns), chance(3) ? 1u << between(0, 7) : some(1, 100)};
  p.flip = 0x80 * between(0, 1);
  p.x = array(p.rows * p.depth, 1), p.w = array(p.columns * p.depth, 1);
  return p;
}
/* The rows as A panels that pack_a_q8 of the level makes, a tile of rows at a time. */
static void *a_panels(const pl_slots *s, const product *p, pl_a_layout *layout) {
  const pl_tile *t = &s->q8;
  const size_t deep = padded(p->depth, t->ka), mr = (size_t)t->mr;
  uint8_t *a = room((p->rows + MAX_ROWS) * deep * (size_t)t->bytes + PL_SLACK * (size_t)t->bytes, 4);
  for (size_t r = 0; r < p->rows; r += mr) {
    const uint8_t *lines[64];
    const size_t some_rows = p->rows - r < mr ? p->rows - r : mr;
    for (size_t i = 0; i < some_rows; i++) lines[i] = p->x + (r + i) * p->depth;
    s->pack_a_q8((int)some_rows, 1, (ptrdiff_t)p->depth, lines, p->flip, a + r * deep * (size_t)t->bytes,
                 (ptrdiff_t)deep);
  }
  *layout = pl_packed_layout((ptrdiff_t)deep);
  return a;
}
typedef struct {
  uint8_t *panels;
  int32_t *sums;
  size_t wide, deep, bytes;
} weights;
static weights pack(const pl_slots *s, const product *p) {
  weights w = {.wide = padded(p->columns, s->q8.nv), .deep = padded(p->depth, s->q8.ka)};
  w.bytes = w.wide * w.deep;
  w.panels = room(w.bytes, 4), w.sums = room(w.wide, 4);
  s->pack_b_q8(&s->q8, (ptrdiff_t)p->columns, (ptrdiff_t)p->depth, p->w, p->flip, w.panels, w.sums);
  return w;
}
/* Calls for panels of nr columns, or for any number of them in one row. */
#define EACH_PANEL(s, p, w, j, n) \
  for (size_t j = 0, n; j < (p).columns; j += n) \
    if (n = (p).rows == 1 && (s)->q8.any_n ? (p).columns : (size_t)(s)->q8.nr, \
        n = n < (p).columns - j ? n : (p).columns - j, true)

static void gemm_q8(void) {
  static finish f;
  const product p = draw_product(100);
  draw_finish(&f, p.columns);
  const int32_t *term = chance(2) ? integers(p.rows, 4, -999, 999) : NULL;
  if (term) f.fit = false;
  const int32_t x_zero = chance(2) ? 0 : between(-128, 127);
  const size_t ldy = p.columns + some(0, 5);
  EACH_LEVEL(s) {
    pl_a_layout layout;
    const void *a = a_panels(s, &p, &layout);
    const weights w = pack(s, &p);
    int32_t starts[MOST_COLUMNS];
    for (size_t j = 0; j < p.columns; j++)
      starts[j] = (int32_t)(f.bias[j] - (int64_t)(x_zero + s->q8.offset) * w.sums[j]), in_order[j] = (int32_t)j;
    const pl_columns columns = columns_of(s, &f, p.columns, w.wide, in_order, starts, p.depth, w.panels, w.bytes);
    uint8_t *y = results(p.rows * ldy, 1, EXACT);
    EACH_PANEL(s, p, w, j, n)
      s->gemm_q8((int)p.rows, (int)n, &layout, a, w.panels + j * w.deep, term, &columns, (ptrdiff_t)j, y + j,
                 (ptrdiff_t)ldy);
  }
}

static void gemm_s32(void) {
  const product p = draw_product(100);
  const size_t ldy = p.columns + some(0, 5);
  const int32_t *before = integers(p.rows * ldy, 4, -999, 999);
  EACH_LEVEL(s) {
    pl_a_layout layout;
    const void *a = a_panels(s, &p, &layout);
    const weights w = pack(s, &p);
    int32_t *y = result(p.rows * ldy, 4, before, p.rows * ldy, EXACT);
    EACH_PANEL(s, p, w, j, n)
      s->gemm_s32((int)p.rows, (int)n, &layout, a, w.panels + j * w.deep, y + j, (ptrdiff_t)ldy);
    for (size_t i = 0; i < p.rows * p.columns; i++)
      y[i / p.columns * ldy + i % p.columns] -= s->q8.offset * w.sums[i % p.columns];
  }
}

static void sums_q8(void) {
  const product p = draw_product(1);
  EACH_LEVEL(s) {
    pl_a_layout layout;
    const void *a = a_panels(s, &p, &layout);
    int32_t *y = results(p.rows, 4, EXACT);
    s->sums_q8((int)p.rows, &layout, (ptrdiff_t)p.depth, a, y);
    for (size_t r = 0; r < p.rows && s->q8.bytes == 1; r++) y[r] -= s->q8.offset * (int32_t)p.depth;
  }
}

static void find_small(void) {
  const size_t n = some(0, 9), bytes = some(0, 200);
  const uint8_t *panels = array(n * bytes, 1);
  EACH_LEVEL(s) s->find_small((ptrdiff_t)n, (ptrdiff_t)bytes, panels, results(n, 4, EXACT));
}

static void requantize_q8(void) {
  static finish f;
  const size_t n = some(1, 60);
  draw_finish(&f, n);
  f.fit = false;
  const int32_t *acc = array(n, 4);
  for (size_t j = 0; j < n; j++) in_order[j] = (int32_t)j;
  EACH_LEVEL(s) {
    const pl_columns columns = columns_of(s, &f, n, padded(n, s->q8.nr), in_order, f.bias, 8000, NULL, 0);
    s->requantize_q8((int)n, acc, &columns, 0, results(n, 1, EXACT));
  }
}

/* ---- hybrid operators ---- */
static float *scales(size_t n) {
  float *v = (float *)integers(n, 4, 1, 65535);
  for (size_t i = 0; i < n; i++) v[i] = (float)((const int32_t *)v)[i] * 0x1p-20f;
  return v;
}
static void gemm_hybrid(void) {
  const product p = draw_product(100);
  const size_t ldy = p.columns + some(0, 3);
  const int32_t *zeros = integers(p.rows, 4, -128, 127);
  const float *row_scales = scales(p.rows), *given = scales(p.columns), *bias = chance(2) ? whole(p.columns, 9) : NULL;
  const int column_first = between(0, 1);
  const float low = chance(2) ? -INFINITY : 0, high = chance(2) ? INFINITY : 300;
  EACH_LEVEL(s) {
    pl_a_layout layout;
    const void *a = a_panels(s, &p, &layout);
    const weights w = pack(s, &p);
    int32_t *terms = room(p.rows, 4);
    for (size_t r = 0; r < p.rows; r++) terms[r] = zeros[r] + s->q8.offset;
    const pl_hybrid h = {w.sums, given, bias, column_first, 0, low, high};
    float *y = results(p.rows * ldy, 4, EXACT);
    EACH_PANEL(s, p, w, j, n)
      s->gemm_hybrid(s, (int)p.rows, (int)n, &layout, a, w.panels + j * w.deep, terms, row_scales, &h, (ptrdiff_t)j,
                     y + j, (ptrdiff_t)ldy);
  }
}
static void gemm_blocks(void) {
  product p = draw_product(70);
  const size_t blocks = some(1, 4), size = chance(3) ? 32u << between(0, 4) : some(1, 70);
  p.rows = some(1, PL_BLOCK_ROWS), p.depth = blocks * size, p.flip = 0;
  const bool narrow = chance(2);
  p.x = array(p.rows * p.depth, 1);
  p.w = narrow ? integers(p.columns * p.depth, 1, -8, 7) : array(p.columns * p.depth, 1);
  const int32_t *zeros = integers(p.rows, 4, -128, 127);
  const float *row_scales = scales(p.rows), *given = scales(p.columns * blocks);
  const float *bias = chance(2) ? whole(p.columns, 9) : NULL;
  EACH_LEVEL(s) { /* packed as blockwise.pyx does it */
    pl_tile tile = s->q8;
    const pl_tile *t = &tile;
    const bool nibbles = narrow && t->nibbles && size % (size_t)(2 * t->nibbles) == 0;
    if (nibbles) tile.kr = tile.ka = tile.nibbles, tile.nv = tile.nr;
    const size_t wide = padded(p.columns, t->nv), deep = padded(size, t->ka), nr = (size_t)t->nr;
    uint8_t *panels = room(wide * blocks * deep >> nibbles, 4), *panel = room(nr * deep, 4);
    uint8_t *x = room(p.rows * p.depth, 1), *block = room(p.columns * size, 1);
    int32_t *sums = room(wide * blocks, 4);
    float *scale = room(wide * blocks, 4);
    for (size_t i = 0; i < p.rows * p.depth; i++) x[i] = (uint8_t)(p.x[i] + t->row_offset);
    for (size_t i = 0; i < blocks; i++) {
      for (size_t j = 0; j < p.columns; j++) memcpy(block + j * size, p.w + j * p.depth + i * size, size);
      for (size_t j = 0; j < p.columns; j += nr) {
        const size_t width = wide - j < nr ? wide - j : nr, n = p.columns - j < width ? p.columns - j : width;
        const size_t at = j * blocks + i * width, half = (size_t)t->kr * width;
        memset(panel, 0, nr * deep);
        s->pack_b_q8(t, (ptrdiff_t)n, (ptrdiff_t)size, block + j * size, 0, panel, sums + at);
        for (size_t k = 0; k < n; k++) scale[at + k] = given[(j + k) * blocks + i];
        if (!nibbles) memcpy(panels + at * deep, panel, width * deep);
        for (size_t k = 0; k < width * deep / 2 && nibbles; k++) {
          const uint8_t *two = panel + k / half * 2 * half + k % half;
          panels[at * deep / 2 + k] = (uint8_t)((*two & 15) | two[half] << 4);
        }
      }
    }
    const pl_blocks b = {panels, sums, scale, bias, (ptrdiff_t)p.depth, (ptrdiff_t)blocks, (ptrdiff_t)deep,
                         (ptrdiff_t)p.columns, (ptrdiff_t)wide, nibbles, -1e3f, 1e4f};
    float *y = results(p.rows * p.columns, 4, EXACT);
    for (size_t j = 0; j < p.columns; j += nr)
      s->gemm_blocks(s, (int)p.rows, (int)(p.columns - j < nr ? p.columns - j : nr), &b, (ptrdiff_t)j, x, zeros,
                     row_scales, y + j);
  }
}
static void finish_hybrid(void) {
  const size_t n = some(0, 100);
  const int32_t *acc = integers(n, 4, -(1 << 20), 1 << 20), *sums = integers(n, 4, -4096, 4096);
  const int32_t term = between(-128, 127);
  const float *scale = scales(n), *bias = chance(2) ? whole(n, 9) : NULL;
  const int column_first = between(0, 1);
  EACH_LEVEL(s)
    s->finish_hybrid((int)n, acc, term, sums, scale, 0.013f, column_first, bias, -1e6f, 1e6f, results(n, 4, EXACT));
}
static void range_f32(void) {
  const size_t n = some(0, 300);
  const float *x = floats(n);
  EACH_LEVEL(s) {
    float *low = results(1, 4, NEAR), *high = results(1, 4, NEAR);
    s->range_f32((ptrdiff_t)n, x, low, high);
  }
}
static void quantize_s8(void) {
  const size_t n = some(0, 300);
  const float *x = whole(n, 30000), inverse = real() * 0x1p-8f;
  const int zero = between(-128, 127), asymmetric = between(0, 1), flip = 0x80 * between(0, 1);
  EACH_LEVEL(s) s->quantize_s8((ptrdiff_t)n, x, inverse, zero, asymmetric, flip, results(n, 1, EXACT));
}
static void quantize_whole(void) {
  const size_t n = some(0, 300);
  const float *x = whole(n, 30000), inverse = real() * 0x1p-8f;
  const int zero = between(-128, 127);
  EACH_LEVEL(s) s->quantize_whole((ptrdiff_t)n, x, inverse, zero, results(n, 4, EXACT));
}
static void quantize_rows(void) {
  const size_t rows = some(1, 20), n = some(1, 50), step = n + some(0, 5);
  const float *x = whole(rows * step, chance(2) ? 3 : 30000);
  const int asymmetric = between(0, 1), flip = 0x80 * between(0, 1);
  EACH_LEVEL(s) {
    uint8_t *y = results(rows * n, 1, EXACT);
    float *found = results(rows, 4, EXACT);
    s->quantize_rows((ptrdiff_t)rows, (ptrdiff_t)n, x, (ptrdiff_t)step, asymmetric, flip, y, found,
                     results(rows, 4, EXACT));
  }
}
static void scaled_sums(void) {
  const size_t n = some(1, 70), depth = some(0, 100), wide = padded(n, PL_SCALED);
  const uint8_t *x = array(depth, 1);
  const float *w = whole(depth * wide, 127), *scale = scales(wide), *bias = whole(wide, 99), *before = whole(n, 9);
  const int zero = between(-128, 127), first = between(0, 1), last = between(0, 1);
  EACH_LEVEL(s)
    s->scaled_sums((int)n, (int)depth, x, zero, w, (ptrdiff_t)wide, scale, 0.013f, first, last, bias, -1e6f, 1e6f,
                   result(n, 4, before, n, EXACT));
}

/* ---- int16 ---- */
static void gemm_s64(void) {
  static const int chunks[] = {1, 16, 256};
  const size_t rows = some(1, 6), n = some(1, 9), depth = 16 * some(0, 13), ldy = n + some(0, 2);
  const int chunk = chunks[between(0, 2)], most = 32768 / chunk < 32767 ? 32768 / chunk : 32767;
  const int16_t *a = array(rows * depth, 2), *w = integers(n * depth, 2, -most, most);
  const int64_t *before = integers(rows * ldy, 8, -999, 999);
  EACH_LEVEL(s)
    s->gemm_s64((int)rows, (int)n, (ptrdiff_t)depth, a, w, (ptrdiff_t)depth, chunk,
                result(rows * ldy, 8, before, rows * ldy, EXACT), (ptrdiff_t)ldy);
}
static const int64_t *sums64(size_t n) { /* of 48 bits */
  int64_t *v = array(n, 8);
  for (size_t i = 0; i < n; i++) v[i] >>= 23;
  return v;
}
#define FINISH(name) \
  static void name(void) { \
    const size_t n = some(0, 100); \
    const int64_t *acc = sums64(n), *bias = chance(2) ? sums64(n) : NULL; \
    const int32_t *mult = integers(n, 4, 1 << 30, INT32_MAX), *shift = integers(n, 4, -31, 8); \
    const int high = between(0, 32767); \
    EACH_LEVEL(s) s->name((int)n, acc, bias, mult, shift, -32768, high, results(n, 2, EXACT)); \
  }
FINISH(finish_mbqm64)
FINISH(finish_mbqm32)
static const double *factors(size_t n) {
  double *v = (double *)integers(n, 8, 1, INT32_MAX);
  const int by = between(10, 56);
  for (size_t i = 0; i < n; i++) v[i] = ldexp((double)((const int64_t *)v)[i], -by);
  return v;
}
static void finish_f64(void) {
  const size_t n = some(0, 100);
  const int64_t *acc = sums64(n), *bias = chance(2) ? sums64(n) : NULL;
  const double *scale = factors(n);
  const int wrap = between(0, 1), zero = between(-99, 99);
  EACH_LEVEL(s) s->finish_f64((int)n, acc, bias, wrap, scale, zero, -32768, 32767, results(n, 2, EXACT));
}
static void finish_f64_q8(void) {
  const size_t n = some(0, 100);
  const int32_t *acc = array(n, 4), *start = array(n, 4), term = between(-999, 999);
  const double *scale = factors(n);
  const int zero = between(-99, 99), high = between(-127, 127), flip = 0x80 * between(0, 1);
  EACH_LEVEL(s) s->finish_f64_q8((int)n, acc, start, term, scale, zero, -128, high, flip, results(n, 1, EXACT));
}

/* ---- float32; sums of whole numbers are exact ---- */
static void gemm_f32(void) {
  const size_t rows = chance(5) ? 1 : some(1, 30), columns = some(1, 70), depth = some(1, 150);
  const size_t ldy = columns + some(0, 5);
  const float *x = whole(rows * depth, 9), *w = whole(columns * depth, 9), *bias = chance(2) ? whole(columns, 9) : NULL;
  const float *before = whole(rows * ldy, 9), low = chance(2) ? -99 : -INFINITY, high = chance(2) ? 200 : INFINITY;
  const int single = rows == 1 ? 2 * between(0, 1) : 0, first = between(0, 1) | single, last = between(0, 1);
  const pl_a_layout layout = pl_packed_layout((ptrdiff_t)depth);
  EACH_LEVEL(s) {
    const size_t nr = (size_t)s->f32.nr, most = single ? columns : nr; /* a single row takes all panels at once */
    float *y = result(rows * ldy, 4, before, rows * ldy, EXACT);
    float *panels = room(padded(columns, s->f32.nv) * depth, 4), *panel = panels;
    for (size_t j = 0; j < columns; j += nr) {
      const size_t n = columns - j < nr ? columns - j : nr, wide = padded(n, s->f32.nv);
      for (size_t k = 0; k < n * depth; k++) panel[k % depth * wide + k / depth] = w[j * depth + k];
      panel += wide * depth;
    }
    for (size_t j = 0; j < columns; j += most)
      s->gemm_f32((int)rows, (int)(columns - j < most ? columns - j : most), &layout, x, panels + j * depth, first,
                  last, bias ? bias + j : NULL, low, high, y + j, (ptrdiff_t)ldy);
  }
}
static void gemm_f16(void) { /* the panels of every level are the same */
  const int rows = between(1, 30), n = between(1, 16), last = between(0, 3), half = last > 1, alone = chance(4);
  const int first = half ? 1 : between(0, 1);
  const ptrdiff_t depth = between(1, alone ? 2500 : 300), step = depth + 3 * between(0, 1);
  const pl_a_layout layout = {alone ? 1 : between(1, 4), depth, step, depth};
  const size_t ldy = (size_t)n + some(0, 5), count = alone ? 1 : (size_t)rows;
  const uint16_t *x = halves(count * (size_t)step + (size_t)(layout.lines * depth));
  const uint16_t *w = halves((size_t)(layout.lines * depth) * (n > 8 ? 16 : 8));
  const void *before = half ? (const void *)halves(count * ldy) : whole(count * ldy, 9);
  const float *bias = chance(2) ? whole((size_t)n, 9) : NULL;
  const float low = chance(2) ? -99 : -INFINITY, high = chance(2) ? 200 : INFINITY;
  EACH_LEVEL(s) {
    void *y = result(count * ldy, half ? 2 : 4, before, count * ldy, EXACT);
    s->gemm_f16((int)count, n, &layout, x, w, first | 2 * alone, last, bias, low, high, y, (ptrdiff_t)ldy);
  }
}
static void dots_f32(void) {
  const size_t n = some(1, 9), depth = some(0, 300), pitch = depth + 3 * some(0, 1);
  const float *a = whole(depth, 15), *w = whole(n * pitch, 15);
  EACH_LEVEL(s) s->dots_f32((ptrdiff_t)n, (ptrdiff_t)depth, a, w, (ptrdiff_t)pitch, results(n, 4, EXACT));
}
static float *nines(size_t n) { return whole(n, 9); }
#define WINOGRAD_IN(name, type, draw) \
  static void name(void) { \
    const size_t tiles = some(1, 5), c = some(16, 70), next = (tiles + 1) * c; \
    const type *lines[4], *before = draw(16 * next); \
    ptrdiff_t steps[4]; \
    for (int y = 0; y < 4; y++) { \
      const bool outside = chance(5); \
      lines[y] = draw(outside ? c : (2 * tiles + 2) * c), steps[y] = outside ? 0 : (ptrdiff_t)c; \
    } \
    EACH_LEVEL(s) \
      s->name((ptrdiff_t)tiles, (ptrdiff_t)c, lines, steps, \
              result(16 * next, sizeof(type), before, 16 * next, EXACT), (ptrdiff_t)next); \
  }
WINOGRAD_IN(winograd_in, float, nines)
WINOGRAD_IN(winograd_in_f16, uint16_t, halves)
static void winograd_filter(void) {
  const size_t depth = some(1, 40), width = 16 * some(1, 2), next = (depth + 1) * width;
  const float *taps = nines(9 * depth * width), *before = nines(16 * next);
  EACH_LEVEL(s) s->winograd_filter((ptrdiff_t)depth, (ptrdiff_t)width, taps,
                                   result(16 * next, sizeof(float), before, 16 * next, EXACT), (ptrdiff_t)next);
}
#define WINOGRAD_OUT(name, type, draw, wide) \
  static void name(void) { \
    const size_t tiles = some(1, 5), n = some(1, wide), next = (tiles + 1) * wide; \
    size_t down = n * 2 * tiles + some(0, 3), step = n; \
    if (tiles == 1) down *= some(0, 1), step *= some(0, 1); \
    const type *m = draw(16 * next); \
    const float *bias = chance(2) ? whole(n, 9) : NULL; \
    EACH_LEVEL(s) \
      s->name((ptrdiff_t)tiles, (ptrdiff_t)n, m, wide, (ptrdiff_t)next, bias, -20, 30, \
              results(down + 2 * tiles * n, sizeof(type), EXACT), (ptrdiff_t)down, (ptrdiff_t)step); \
  }
WINOGRAD_OUT(winograd_out, float, nines, 40)
WINOGRAD_OUT(winograd_out_f16, uint16_t, halves, 16)

#define X(name) {#name, name}
const check product_checks[] = {
    X(pack_lines_q8),   X(gemm_q8),     X(gemm_s32),      X(sums_q8),   X(requantize_q8), X(find_small),  X(gemm_hybrid),
    X(gemm_blocks),     X(finish_hybrid), X(range_f32),   X(quantize_s8), X(quantize_whole), X(quantize_rows),
    X(scaled_sums),     X(gemm_s64),    X(finish_mbqm64), X(finish_mbqm32), X(finish_f64), X(finish_f64_q8), X(gemm_f32),
    X(gemm_f16),        X(dots_f32),    X(winograd_in),   X(winograd_out),  X(winograd_in_f16), X(winograd_out_f16),
    X(winograd_filter),
    {NULL, NULL}};
