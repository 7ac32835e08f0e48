/* Depthwise convolutions of floats, written once for float32 and float16: NR channels of four neighbouring outputs at a
 * time.
 *
 * Defines depthwise(), which has the arguments of depthwise_f32, of type `element`.
 *
 * Before including it define
 *   element: the type of a number;
 *   VECTOR, LANES: the type of a vector of elements, and their number;
 *   VECTORS: vectors of channels in a block: 1 or 2;
 *   LOAD(p), STORE(p, v), SPLAT(number): load and store a vector, and fill one with a number;
 *   FMA(acc, a, b): acc + a b, rounded once;
 *   MIN(a, b), MAX(a, b): of each lane;
 *   add_product(sum, x, w): sum + x w of single elements;
 *   SCALE(sum, scale, bias): optional: sum scale + bias, rounded twice; for pl_dw_lines.scale. */
enum {
  NR = LANES * VECTORS,
  TOGETHER = 4,
  GROUP = 1,
  GROUP_BYTES = NR * sizeof(element),
  LINES = 32,       /* output lines of a call, which share prepared weights */
  WEIGHT_TAPS = 128 /* most taps of a `filter` */
};
#define MAX_TOGETHER TOGETHER
#define EACH_VECTOR _Pragma("GCC unroll 2") for (int v = 0; v < VECTORS; v++)
#define EACH_OUTPUT _Pragma("GCC unroll 4") for (int i = 0; i < N; i++)

/* The arguments of depthwise(). */
typedef struct { const element *w, *bias; float low, high; } parameters;
/* The sums of one output, for a block of channels. */
typedef struct { VECTOR v[VECTORS]; } sums;
/* The filter of a block of channels.  Sums begin with `start`: the bias or, if they are scaled, 0. */
typedef struct {
  int height, width, scaled;
  float low, high;
  element start[NR], bias[NR], w[WEIGHT_TAPS][NR];
  float scale[NR];
} filter;

static int fits_filter(const pl_dw_lines *g) { return g->fh * g->fw <= WEIGHT_TAPS; }
/* Loads the filter of a block, except for its weights. */
PL_INLINE void load_all_but_weights(const pl_dw_lines *g, const parameters *p, ptrdiff_t block, filter *to) {
  const ptrdiff_t c = pl_block_start(block, NR, g->c);
  const size_t channels = (size_t)(g->c < NR ? g->c : NR);
  to->height = g->fh, to->width = g->fw, to->low = p->low, to->high = p->high;
  memset(to->bias, 0, sizeof to->bias);
  if (p->bias) memcpy(to->bias, p->bias + c, sizeof(element) * channels);
  memcpy(to->start, to->bias, sizeof to->start);
  to->scaled = g->scale != NULL;
  if (to->scaled) {
    memset(to->start, 0, sizeof to->start);
    memset(to->scale, 0, sizeof to->scale);
    memcpy(to->scale, g->scale + c, sizeof(float) * channels);
  }
}
static void load_filter(const pl_dw_lines *g, int stride, const parameters *p, ptrdiff_t block, filter *to) {
  const ptrdiff_t channels = g->c;
  const int taps = g->fh * g->fw;
  const element *w = p->w + pl_block_start(block, NR, channels);
  (void)stride;
  load_all_but_weights(g, p, block, to);
  if (channels < NR)
    for (int t = 0; t < taps; t++, w += g->channels)
      memset(to->w[t], 0, sizeof to->w[t]), memcpy(to->w[t], w, sizeof(element) * (size_t)channels);
  else
    for (int t = 0; t < taps; t++, w += g->channels) EACH_VECTOR STORE(to->w[t] + LANES * v, LOAD(w + LANES * v));
}
PL_INLINE uint8_t border(const pl_dw_lines *g, const filter *f) {
  (void)g, (void)f;
  return 0;
}
PL_INLINE void copy_group(const filter *f, const element *const *x, uint32_t keep, uint8_t *to) {
  sums pixel;
  (void)f, (void)keep;
  EACH_VECTOR pixel.v[v] = LOAD(x[0] + LANES * v);
  EACH_VECTOR STORE((element *)to + LANES * v, pixel.v[v]);
}

#define WIDTHS(X) X(block_3_1, 0, 1, 3) X(block_5_1, 0, 1, 5) X(block_5_2, 0, 2, 5)
/* gcc would compute the addresses of all pixels from one, in several instructions each. */
#define KEEP(x) __asm__("" : "+r"(x))
/* The pixels of a line that neighbouring outputs read, `step` elements apart.  Pixel p lies in the image if `inside` or
 * bit p of inside_bits is set; else `zero` is read in its place. */
typedef struct { const element *x; ptrdiff_t step; unsigned inside_bits; const element *zero; } pixels;
/* Adds the products of a line of the filter to N outputs.  Each pixel is loaded once for all outputs that read it. */
PL_INLINE void add_line(int N, int stride, int width, int inside, const pixels *line, const element *w, sums *acc) {
  sums weights[5];
  const element *x = line->x;
  KEEP(w); /* otherwise gcc keeps the weights of all lines in registers and runs out of them for the sums */
#pragma GCC unroll 5
  for (int t = 0; t < width; t++) EACH_VECTOR weights[t].v[v] = LOAD(w + t * NR + LANES * v);
#pragma GCC unroll 11
  for (int p = 0; p < (N - 1) * stride + width; p++) {
    const element *const from = inside || line->inside_bits >> p & 1 ? x : line->zero;
    sums pixel;
    EACH_VECTOR pixel.v[v] = LOAD(from + LANES * v);
    x += line->step;
    if (!__builtin_constant_p(line->step)) KEEP(x);
    EACH_OUTPUT if (p >= i * stride && p < i * stride + width)
      EACH_VECTOR acc[i].v[v] = FMA(acc[i].v[v], pixel.v[v], weights[p - i * stride].v[v]);
  }
}
PL_INLINE void outputs(int N, int stride, int width, const filter *f, const uint8_t *const *lines, ptrdiff_t offset,
                       sums *acc) {
  const element *w = f->w[0];
  EACH_OUTPUT EACH_VECTOR acc[i].v[v] = LOAD(f->start + LANES * v);
  for (int y = 0; y < f->height; y++) {
    const element *x = (const element *)(lines[y] + offset);
    KEEP(x);
    if (width) {
      const pixels line = {x, NR, 0, NULL};
      add_line(N, stride, width, 1, &line, w, acc);
      w += width * NR;
      continue;
    }
    for (int t = 0; t < f->width; t++, x += NR, w += NR) {
      sums weights;
      EACH_VECTOR weights.v[v] = LOAD(w + LANES * v);
      EACH_OUTPUT EACH_VECTOR acc[i].v[v] = FMA(acc[i].v[v], LOAD(x + i * stride * NR + LANES * v), weights.v[v]);
    }
  }
}
PL_INLINE void finish(int N, int scaled, sums *acc, const filter *f, element *y, ptrdiff_t step) {
  const VECTOR low = SPLAT(f->low), high = SPLAT(f->high);
#if defined(SCALE)
  if (scaled)
    EACH_VECTOR {
      const VECTOR scale = LOAD(f->scale + LANES * v), bias = LOAD(f->bias + LANES * v);
      EACH_OUTPUT acc[i].v[v] = SCALE(acc[i].v[v], scale, bias);
    }
#endif
  EACH_OUTPUT {
    sums r;
    EACH_VECTOR r.v[v] = MIN(high, MAX(low, acc[i].v[v]));
    EACH_VECTOR STORE(y + LANES * v, r.v[v]);
    y += step;
    KEEP(y);
  }
}
PL_INLINE void finish_outputs(int N, sums *acc, const filter *f, element *y, ptrdiff_t step) {
  finish(N, f->scaled, acc, f, y, step);
}
#include "depthwise_lines.h"

/* ---- 3x3 filters: a pixel has too few products to be worth copying ---- */
/* Computes output pixels pixel + k * every, k < N, of a block of channels from channel c on.  inside: all taps lie in
 * the image; rows: its three lines, NULL outside. */
PL_INLINE void outputs3x3(int N, int stride, int scaled, int inside, const pl_dw_lines *g, const element *const *rows,
                          ptrdiff_t pixel, ptrdiff_t every, ptrdiff_t c, const filter *f, element *y) {
  const ptrdiff_t origin = pixel * stride - g->pad;
  pixels line = {NULL, every * g->c, 0, (const element *)g->zero + c};
  sums acc[TOGETHER];
#pragma GCC unroll 9
  for (int p = 0; !inside && p < (N - 1) * stride + 3; p++) {
    const ptrdiff_t ix = origin + p * every;
    line.inside_bits |= (unsigned)(ix >= 0 && ix < g->width) << p;
  }
  EACH_OUTPUT EACH_VECTOR acc[i].v[v] = LOAD(f->start + LANES * v);
#pragma GCC unroll 3
  for (int k = 0; k < 3; k++) {
    if (!rows[k]) continue;
    line.x = rows[k] + origin * g->c + c;
    add_line(N, stride, 3, inside, &line, f->w[3 * k], acc);
  }
  finish(N, scaled, acc, f, y + pixel * g->channels + c, every * g->channels);
}
/* Computes all output lines.  If the dilation `every` is above 1, outputs that far apart are neighbours.  rest: may the
 * number of outputs not be a multiple of four?  If not, gcc keeps more in registers. */
PL_INLINE void filter3x3(int stride, int rest, int scaled, const pl_dw_lines *whole, const parameters *p,
                         element *y) {
  const pl_dw_lines local = *whole, *const g = &local;
  const ptrdiff_t every = g->dilation;
  filter f;
  for (ptrdiff_t b = 0; b * NR < g->c; b++) {
    const ptrdiff_t c = pl_block_start(b, NR, g->c);
    load_filter(g, stride, p, b, &f);
    for (int i = 0; i < g->lines; i++)
      for (ptrdiff_t first = 0; first < every; first++) {
        const element *const *rows = (const element *const *)g->row + i * stride;
        ptrdiff_t pixel = first, left = (g->pixels - first - 1) / every + 1;
#define SOME(N, inside) outputs3x3(N, stride, scaled, inside, g, rows, pixel, every, c, &f, y + i * g->y_line)
#define OUTPUTS(N) \
  { \
    const ptrdiff_t origin = pixel * stride - g->pad; \
    if (origin >= 0 && origin + (((N) - 1) * stride + 2) * every < g->width) SOME(N, 1); \
    else SOME(N, 0); \
  }
        for (; rest ? left >= TOGETHER && left != TOGETHER + 1 : left > 0;
             left -= TOGETHER, pixel += TOGETHER * every)
          OUTPUTS(TOGETHER)
        if (rest && left & 1) { /* 5 outputs are 3 and 2 */
          OUTPUTS(3)
          left -= 3, pixel += 3 * every;
        }
        if (rest && left) SOME(2, 0);
#undef OUTPUTS
#undef SOME
      }
  }
}
#define FILTER3X3(name, stride, rest, scaled) \
  static __attribute__((noinline)) void name(const pl_dw_lines *g, const parameters *p, element *y) { \
    filter3x3(stride, rest, scaled, g, p, y); \
  }
FILTER3X3(fours3x3_1, 1, 0, 0)
FILTER3X3(fours3x3_2, 2, 0, 0)
FILTER3X3(filter3x3_1, 1, 1, 0)
FILTER3X3(filter3x3_2, 2, 1, 0)
#if defined(SCALE)
FILTER3X3(scaled3x3_1, 1, 1, 1)
FILTER3X3(scaled3x3_2, 2, 1, 1)
#endif
/* Computes a 3x3 filter if four outputs of a line read neighbouring taps, or two or three where copies of lines would
 * have few readers; otherwise returns 0. */
static int lines3x3(const pl_dw_lines *g, const parameters *p, element *y) {
  const int few = g->dilation == 1 && g->pixels > 1 && g->lines <= TOGETHER;
  if (g->fh != 3 || g->fw != 3 || g->c < NR || (g->pixels < TOGETHER * g->dilation && !few)) return 0;
  if (g->stride > 2 || (g->stride == 2 && g->dilation > 1)) return 0;
  const int one = g->stride == 1, fours = g->dilation == 1 && g->pixels % TOGETHER == 0;
  void (*compute)(const pl_dw_lines *, const parameters *, element *) =
      fours ? one ? fours3x3_1 : fours3x3_2 : one ? filter3x3_1 : filter3x3_2;
#if defined(SCALE)
  if (g->scale) compute = one ? scaled3x3_1 : scaled3x3_2;
#endif
  compute(g, p, y);
  return 1;
}

/* The fallback for filters whose lines or weights do not fit the buffers: one output at a time. */
static void large_filter(const pl_dw_lines *g, const parameters *p, element *y) {
  for (int line = 0; line < g->lines; line++)
    for (ptrdiff_t pixel = 0; pixel < g->pixels; pixel++) {
      element *const to = y + line * g->y_line + pixel * g->channels;
      for (ptrdiff_t j = 0; j < g->c; j++) to[j] = p->bias && !g->scale ? p->bias[j] : 0;
      for (int t = 0; t < g->fh * g->fw; t++) {
        const element *row = (const element *)g->row[line * g->stride + t / g->fw], *w = p->w + t * g->channels;
        const ptrdiff_t x = pixel * g->stride - g->pad + (ptrdiff_t)(t % g->fw) * g->dilation;
        if (!row || x < 0 || x >= g->width) continue;
        for (ptrdiff_t j = 0; j < g->c; j++) to[j] = add_product(to[j], row[x * g->c + j], w[j]);
      }
      for (ptrdiff_t j = 0; g->scale && j < g->c; j++)
        to[j] = (element)(to[j] * g->scale[j]) + (p->bias ? p->bias[j] : 0);
      for (ptrdiff_t j = 0; j < g->c; j++) to[j] = to[j] < p->low ? p->low : to[j] > p->high ? p->high : to[j];
    }
}

/* Computes a single output pixel, as streaming models have; returns 0 if g has more.  Each weight is used
 * once, so that copying weights and lines would cost more than it saves. */
static int one_output(const pl_dw_lines *g, const parameters *p, element *y) {
  const uint8_t *taps[PL_MAX_TAPS];
  const int n = g->fh * g->fw;
  if (g->lines > 1 || g->pixels > 1 || g->c < NR || n > PL_MAX_TAPS) return 0;
  pl_taps(g, 0, sizeof(element), taps);
  for (ptrdiff_t b = 0; b * NR < g->c; b++) {
    const ptrdiff_t c = pl_block_start(b, NR, g->c);
    const element *w = p->w + c;
    filter f;
    sums acc;
    load_all_but_weights(g, p, b, &f);
    EACH_VECTOR acc.v[v] = LOAD(f.start + LANES * v);
    for (int t = 0; t < n; t++, w += g->channels)
      EACH_VECTOR acc.v[v] = FMA(acc.v[v], LOAD((const element *)taps[t] + c + LANES * v), LOAD(w + LANES * v));
    finish_outputs(1, &acc, &f, y + c, 0);
  }
  return 1;
}

/* Treats lines of one pixel each as one line of pixels, so that four outputs are computed together; returns 0 if g is
 * of another form. */
static int lines_of_one_pixel(const pl_dw_lines *g, const parameters *p, element *y) {
  const int inputs = (g->lines - 1) * g->stride + g->fh;
  const ptrdiff_t pixel = g->c * (ptrdiff_t)sizeof(element);
  if (g->width != 1 || g->pixels != 1 || g->fw != 1 || g->pad || g->lines == 1 || g->y_line != g->channels)
    return 0;
  int begin = 0, end = inputs;
  while (begin < end && !g->row[begin]) begin++;
  while (begin < end && !g->row[end - 1]) end--;
  for (int i = begin; i < end - 1; i++)
    if (!g->row[i + 1] || g->row[i + 1] - g->row[i] != pixel) return 0;
  pl_dw_lines line = *g;
  line.row = g->row + (begin < end ? begin : 0);
  line.fh = line.lines = 1, line.fw = g->fh, line.pixels = g->lines;
  line.dilation = 1, line.width = end - begin, line.pad = begin;
  return begin < end && depthwise_lines(&line, p, y);
}

static void depthwise(const pl_dw_lines *g, const element *w, const element *bias, float low, float high, element *y) {
  const parameters p = {w, bias, low, high};
  if (one_output(g, &p, y) || lines_of_one_pixel(g, &p, y) || lines3x3(g, &p, y)) return;
  if (!depthwise_lines(g, &p, y)) large_filter(g, &p, y);
}
