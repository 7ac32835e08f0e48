/* Float32 depthwise convolutions for AVX2 and AVX-512; included by gemm_f32_x86.c alone, after gemm_f32.h, with the
 * same definitions and MULTIPLY.  Defines depthwise_f32().
 *
 * Output pixels that read the same taps inside the image are computed together, one vector of channels after the other,
 * several lines at a time: their taps are looked up once, and the input lines stay in the first-level cache. */

/* The taps that output pixels read inside the image: input[i] is tap i of the first pixel, w[i] its weights. */
typedef struct {
  int taps;
  const float *input[PL_MAX_TAPS], *w[PL_MAX_TAPS];
} tap_list;

/* Lists the taps of an output pixel. */
static __attribute__((noinline, cold)) void list_taps(const pl_dw_lines *g, ptrdiff_t pixel, const float *w,
                                                      tap_list *list) {
  list->taps = 0;
  for (int y = 0; y < g->fh; y++)
    for (int x = 0; x < g->fw; x++) {
      const ptrdiff_t ix = pixel * g->stride - g->pad + (ptrdiff_t)x * g->dilation;
      if (!g->row[y] || ix < 0 || ix >= g->width) continue;
      list->input[list->taps] = (const float *)g->row[y] + ix * g->c;
      list->w[list->taps++] = w + (y * g->fw + x) * g->channels;
    }
}

/* Output pixels that read the same taps: pixels first to first + n - 1 of `lines` output lines, all counted from the
 * one whose taps are listed.  Neighbouring outputs are `to` elements apart and their inputs `step`; output lines are
 * `down` apart and their inputs `next`. */
typedef struct {
  ptrdiff_t first, n, step, to, lines, next, down;
} pixel_grid;

/* The initial value of sums (the bias), and the limits of results. */
typedef struct { VECTOR start, low, high; } limits;

/* Stores `part` <= LANES results. */
PL_INLINE void finish_f32(VECTOR acc, const limits *m, ptrdiff_t part, float *y) {
  store_upto(y, MIN(m->high, MAX(m->low, acc)), part);
}

/* Computes P neighbouring outputs in channels j .. j + part - 1, for any number of taps: each weight is loaded once for
 * all of them.  from: the offset of the first output's input from the listed taps; step, c: see pixel_grid. */
PL_INLINE void any_taps(int P, int taps, const tap_list *list, ptrdiff_t part, ptrdiff_t j, ptrdiff_t from,
                        ptrdiff_t step, const limits *m, float *y, ptrdiff_t c) {
  VECTOR acc[8];
#pragma GCC unroll 8
  for (int k = 0; k < P; k++) acc[k] = m->start;
  for (int t = 0; t < taps; t++) {
    const VECTOR v = load_upto(list->w[t] + j, part);
    const float *x = list->input[t] + from;
#pragma GCC unroll 8
    for (int k = 0; k < P; k++) acc[k] = MULTIPLY_ADD(acc[k], load_upto(x + k * step, part), v);
  }
#pragma GCC unroll 8
  for (int k = 0; k < P; k++) finish_f32(acc[k], m, part, y + k * c);
}

/* Computes channels j .. j + part - 1, at most LANES, of all pixels of a grid.  in_registers: the number of taps, to
 * keep their weights in registers, or 0 for any number. */
PL_INLINE void pixels_f32(int in_registers, ptrdiff_t part, const tap_list *list, ptrdiff_t j, const pixel_grid *grid,
                          const float *bias, float least, float most, float *y) {
  const limits m = {bias ? load_upto(bias + j, part) : SPLAT(0.0f), SPLAT(least), SPLAT(most)};
  const ptrdiff_t n = grid->n, step = grid->step, c = grid->to;
  const int taps = in_registers ? in_registers : list->taps;
  VECTOR w[16];
#pragma GCC unroll 16
  for (int t = 0; t < in_registers; t++) w[t] = load_upto(list->w[t] + j, part);
  for (ptrdiff_t line = 0; line < grid->lines; line++) {
    const ptrdiff_t from = j + grid->first * step + line * grid->next;
    float *to = y + j + grid->first * c + line * grid->down;
    const float *input[16];
#pragma GCC unroll 16
    for (int t = 0; t < in_registers; t++) input[t] = list->input[t] + from;
    ptrdiff_t i = 0;
    for (; !in_registers && __builtin_constant_p(part) && i + 8 <= n; i += 8, to += 8 * c)
      any_taps(8, taps, list, part, j, from + i * step, step, &m, to, c);
    for (; !in_registers && i + 4 <= n; i += 4, to += 4 * c)
      any_taps(4, taps, list, part, j, from + i * step, step, &m, to, c);
    for (; i < n; i++, to += c) {
      VECTOR acc = m.start;
#pragma GCC unroll 16
      for (int t = 0; t < taps; t++)
        acc = MULTIPLY_ADD(acc, load_upto((in_registers ? input[t] : list->input[t] + from) + i * step, part),
                           in_registers ? w[t] : load_upto(list->w[t] + j, part));
      finish_f32(acc, &m, part, to);
    }
  }
}

#define PIXELS(name, in_registers, part) \
  static __attribute__((noinline)) void name(const tap_list *list, ptrdiff_t j, const pixel_grid *grid, \
                                             const float *bias, float least, float most, float *y, ptrdiff_t c) { \
    (void)c; \
    pixels_f32(in_registers, part, list, j, grid, bias, least, most, y); \
  }
PIXELS(pixels_9, 9, LANES)
PIXELS(pixels_6, 6, LANES)
PIXELS(pixels_any, 0, LANES)
PIXELS(pixels_few, 0, c)
typedef void pixels_fn(const tap_list *, ptrdiff_t, const pixel_grid *, const float *, float, float, float *,
                       ptrdiff_t);
PL_INLINE pixels_fn *pixels_of(int taps) { return taps == 9 ? pixels_9 : taps == 6 ? pixels_6 : pixels_any; }

/* Computes four neighbouring outputs in LANES channels, for filters that are T taps wide, with stride S: each input
 * pixel is loaded once for all four.  The taps must be whole lines of the filter.  Input pixels are `pixel` elements
 * apart, and outputs `to`. */
PL_INLINE void four_outputs(int T, int S, const tap_list *list, ptrdiff_t j, ptrdiff_t from, ptrdiff_t pixel,
                            const limits *m, float *y, ptrdiff_t to) {
  VECTOR acc[4] = {m->start, m->start, m->start, m->start};
  for (int t = 0; t < list->taps; t += T) {
    const float *x = list->input[t] + from;
    VECTOR v[5];
#pragma GCC unroll 5
    for (int i = 0; i < T; i++) v[i] = LOAD(list->w[t + i] + j);
#pragma GCC unroll 11
    for (int i = 0; i < 3 * S + T; i++) {
      const VECTOR p = LOAD(x + i * pixel);
#pragma GCC unroll 4
      for (int k = 0; k < 4; k++)
        if (i >= k * S && i < k * S + T) acc[k] = MULTIPLY_ADD(acc[k], p, v[i - k * S]);
    }
  }
#pragma GCC unroll 4
  for (int k = 0; k < 4; k++) finish_f32(acc[k], m, LANES, y + k * to);
}

/* Computes channels chunk .. chunk_end - 1 of a grid of four pixels or more: four pixels of all lines, then the next
 * four, so that input stays in the first-level cache.  The last ones may be computed twice. */
PL_INLINE void fours(int T, int S, const tap_list *list, ptrdiff_t chunk, ptrdiff_t chunk_end, const pixel_grid *grid,
                     const float *bias, float low, float high, float *y, ptrdiff_t c) {
  for (ptrdiff_t next = 0; next < grid->n; next += 4)
    for (ptrdiff_t line = 0; line < grid->lines; line++)
      for (ptrdiff_t b = chunk; b < chunk_end; b += LANES) {
        const ptrdiff_t j = pl_block_start(b / LANES, LANES, c), i = next < grid->n - 4 ? next : grid->n - 4;
        const limits m = {bias ? LOAD(bias + j) : SPLAT(0.0f), SPLAT(low), SPLAT(high)};
        four_outputs(T, S, list, j, j + i * grid->step + line * grid->next, grid->step / S, &m,
                     y + j + i * grid->to + line * grid->down, grid->to);
      }
}
#define FOURS(T, S) \
  static __attribute__((noinline)) void fours_##T##_##S(const tap_list *list, ptrdiff_t chunk, ptrdiff_t chunk_end, \
                                                        const pixel_grid *grid, const float *bias, float low, \
                                                        float high, float *y, ptrdiff_t c) { \
    fours(T, S, list, chunk, chunk_end, grid, bias, low, high, y, c); \
  }
FOURS(3, 1)
FOURS(3, 2)
FOURS(5, 1)
FOURS(5, 2)
#undef FOURS

enum {
  BLOCK = 16,                /* channels of a cache line */
  HALF_LINES = LANES < BLOCK /* is a vector a part of a cache line, whose rest is read later, perhaps after eviction? */
};
/* Do the input pixels under the filter evict each other from the first-level cache, if one vector of channels is read
 * from each? If their distance is a multiple of a large power of two, they share few of its sets. */
PL_INLINE int crowded(const pl_dw_lines *g) {
  enum { PAGE = 4096, LINE = 64, WAYS = 8 };
  const ptrdiff_t distance = g->c * (ptrdiff_t)sizeof(float), same = distance & -distance;
  return g->fh * g->width * (same < PAGE ? same : PAGE) > WAYS * PAGE && same >= LINE;
}

/* Computes a grid by fours(); returns 0 if the grid or the filter does not allow it. */
static int by_fours(const pl_dw_lines *g, const tap_list *list, ptrdiff_t chunk, ptrdiff_t chunk_end,
                    const pixel_grid *grid, const float *bias, float low, float high, float *y, ptrdiff_t c) {
  const int five = g->fw == 5, stride = g->stride == 2;
  if (grid->n < 4 || g->dilation != 1 || g->stride > 2 || (!five && g->fw != 3)) return 0;
  (five     ? stride ? fours_5_2 : fours_5_1
   : stride ? fours_3_2
            : fours_3_1)(list, chunk, chunk_end, grid, bias, low, high, y, c);
  return 1;
}

/* Computes four vectors of channels of an output pixel, from j on, for any number of taps: four sums that do not wait
 * for each other.  from: the offset of its input from the listed taps; packed: the weights of these channels, tap after
 * tap, or NULL to read the weights of the list. */
PL_INLINE void vectors_of_pixel(const tap_list *list, ptrdiff_t j, ptrdiff_t from, const float *packed,
                                const float *bias, float low, float high, float *y) {
  VECTOR acc[4];
#pragma GCC unroll 4
  for (int k = 0; k < 4; k++) acc[k] = bias ? LOAD(bias + j + k * LANES) : SPLAT(0.0f);
  for (int t = 0; t < list->taps; t++) {
    const float *x = list->input[t] + from, *w = packed ? packed + t * 4 * LANES : list->w[t] + j;
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) acc[k] = MULTIPLY_ADD(acc[k], LOAD(x + k * LANES), LOAD(w + k * LANES));
  }
#pragma GCC unroll 4
  for (int k = 0; k < 4; k++) STORE(y + j + k * LANES, MIN(SPLAT(high), MAX(SPLAT(low), acc[k])));
}
/* Computes channels j .. j + 4 LANES - 1 of the first line of a grid, pixel by pixel. */
static __attribute__((noinline)) void four_vectors(const tap_list *list, ptrdiff_t j, const pixel_grid *grid,
                                                   const float *bias, float low, float high, float *y) {
  for (ptrdiff_t i = grid->first; i < grid->first + grid->n; i++)
    vectors_of_pixel(list, j, j + i * grid->step, NULL, bias, low, high, y + i * grid->to);
}
/* Computes channels chunk .. chunk_end - 1 of a grid, pixel by pixel: a pixel's inputs are read in order, which suits
 * the prefetcher, and each cache line is read once.  Weights are packed, so that they do not evict each other. */
enum { MAX_PACKED_TAPS = 25, FOUR_VECTORS = 4 * LANES };
static __attribute__((noinline)) void along_channels(const tap_list *list, ptrdiff_t chunk, ptrdiff_t chunk_end,
                                                     const pixel_grid *grid, const float *bias, float low, float high,
                                                     float *y) {
  float weights[MAX_PACKED_TAPS * 4 * FOUR_VECTORS] __attribute__((aligned(64)));
  for (ptrdiff_t j = chunk; j < chunk_end; j += FOUR_VECTORS)
    for (int t = 0; t < list->taps; t++)
      memcpy(weights + (j - chunk) * list->taps + t * FOUR_VECTORS, list->w[t] + j, FOUR_VECTORS * sizeof *weights);
  for (ptrdiff_t line = 0; line < grid->lines; line++)
    for (ptrdiff_t i = 0; i < grid->n; i++)
      for (ptrdiff_t j = chunk; j < chunk_end; j += FOUR_VECTORS)
        vectors_of_pixel(list, j, j + i * grid->step + line * grid->next, weights + (j - chunk) * list->taps, bias, low,
                         high, y + i * grid->to + line * grid->down);
}

/* For fewer channels than lanes, and a stride of 1: a vector holds as many neighbouring pixels as fit.  Sets `packed`
 * to the taps of such vectors, and `lines` to their weights and, after these, their bias, repeated for each pixel. */
static __attribute__((noinline, cold)) void pack_pixels(const tap_list *list, const float *bias, ptrdiff_t c,
                                                  float lines[17][LANES], tap_list *packed) {
  packed->taps = list->taps;
  for (int t = 0; t <= list->taps; t++) {
    const float *from = t < list->taps ? list->w[t] : bias;
    if (t < list->taps) packed->input[t] = list->input[t], packed->w[t] = lines[t];
    for (ptrdiff_t k = 0; k < LANES; k += c)
      for (ptrdiff_t j = 0; j < c; j++) lines[t][k + j] = from ? from[j] : 0;
  }
}

/* Computes channels chunk .. chunk_end - 1 of up to n pixels of all lines, from y on, in the way that is fastest for
 * them; returns the number of pixels done. */
static __attribute__((noinline, cold)) ptrdiff_t compute_pixels(const pl_dw_lines *g, const tap_list *list,
                                                                ptrdiff_t n, ptrdiff_t chunk, ptrdiff_t chunk_end,
                                                                const float *bias, float low, float high, float *y) {
  const ptrdiff_t c = g->c, to = g->channels, next = g->next / (ptrdiff_t)sizeof(float), down = g->y_line;
  const pixel_grid all = {0, n, g->stride * c, to, g->lines, next, down};
  /* Pixels of 2048 bytes lie in the same sets of the cache. */
  if (HALF_LINES && g->stride > 1 && c % 512 == 0 && list->taps <= MAX_PACKED_TAPS) {
    along_channels(list, chunk, chunk_end, &all, bias, low, high, y);
    return n;
  }
  if (n >= 6 && c >= LANES && crowded(g) && by_fours(g, list, chunk, chunk_end, &all, bias, low, high, y, c)) return n;
  const int any = c < LANES || (list->taps != 9 && list->taps != 6);
  if (any && n % 4 && n > 1) n = n < 4 ? 1 : n - n % 4; /* the rest: column by column, four lines at a time */
  pixel_grid grid = {0, n, g->stride * c, to, g->lines, next, down};
  if (n == 1) grid = (pixel_grid){0, g->lines, next, down, 1, 0, 0};
  if (any && c >= 4 * LANES && grid.n % 4) { /* the outputs that groups of four leave over */
    const pixel_grid rest = {grid.n - grid.n % 4, grid.n % 4, grid.step, grid.to, 1, 0, 0};
    for (ptrdiff_t j = chunk; j < chunk_end; j += 4 * LANES)
      four_vectors(list, j < c - 4 * LANES ? j : c - 4 * LANES, &rest, bias, low, high, y);
    grid.n = rest.first;
  }
  for (ptrdiff_t j = chunk; j < chunk_end && grid.n; j += LANES)
    (c < LANES ? pixels_few : pixels_of(list->taps))(list, pl_block_start(j / LANES, LANES, c), &grid, bias, low, high,
                                                     y, c);
  return n;
}

/* ---- copied images ---- */
enum {
  MAX_COPIED = 6144, /* numbers of a copy, which stays in the first-level cache */
  COPIED_TAPS = 49    /* of a filter, at most */
};

/* The input under some output pixels: `columns` pixels of each line.  Lines top .. top + used - 1 of the filter lie in
 * the image.  The inputs of neighbouring output lines are `down` lines apart; 0: the input is not copied. */
typedef struct {
  int top, used;
  ptrdiff_t columns, down;
} input_area;

/* The input under a line of outputs, which is copied if it fits the cache and copying pays. */
static input_area area_under(const pl_dw_lines *g, ptrdiff_t pixels) {
  input_area a = {0, g->fh, (pixels - 1) * g->stride + (ptrdiff_t)(g->fw - 1) * g->dilation + 1, 0};
  while (a.used && !g->row[a.top]) a.top++, a.used--;
  while (a.used && !g->row[a.top + a.used - 1]) a.used--;
  const ptrdiff_t inside = g->width - (ptrdiff_t)(g->fw - 1) * g->dilation; /* windows inside the line */
  const int far = g->dilation > 1 && crowded(g); /* by_fours() takes no dilation */
  if (!(HALF_LINES || far) || !a.used || g->c < BLOCK || g->stride > 1 || g->fh * g->fw > COPIED_TAPS) return a;
  if (2 * inside > pixels && !crowded(g)) return a;
  for (int i = 0; i < a.used; i++)
    if (!g->row[a.top + i]) return a;
  const ptrdiff_t line = a.used > 1 ? g->row[a.top + 1] - g->row[a.top] : g->next;
  if (g->lines == 1) a.down = 1;
  else if (g->next % line == 0) a.down = g->next / line;
  const ptrdiff_t some = g->lines < 8 ? g->lines : 8;
  if (((some - 1) * a.down + a.used) * a.columns * BLOCK > MAX_COPIED) a.down = 0;
  return a;
}

/* Copies channels j .. j + BLOCK - 1 of `columns` input pixels; 0 for pixels outside the image. */
static void copy_line(const pl_dw_lines *g, const float *x, ptrdiff_t j, ptrdiff_t columns, float *to) {
  for (ptrdiff_t ix = -g->pad; ix < columns - g->pad; ix++, to += BLOCK) {
    const int inside = ix >= 0 && ix < g->width;
#pragma GCC unroll 2
    for (int k = 0; k < BLOCK; k += LANES) STORE(to + k, inside ? LOAD(x + ix * g->c + j + k) : SPLAT(0.0f));
  }
}

/* Computes all output lines from copies of the input, BLOCK channels at a time, in which pixels lie side by side, with
 * a border. */
static __attribute__((noinline)) void by_copies(const pl_dw_lines *g, const input_area *a, const float *w,
                                                const float *bias, float low, float high, float *y) {
  float copy[MAX_COPIED], taps[COPIED_TAPS][BLOCK];
  const ptrdiff_t c = g->c, pixel = g->channels, pitch = a->columns * BLOCK;
  const ptrdiff_t at_once = (MAX_COPIED / pitch - a->used) / a->down + 1;     /* output lines */
  tap_list list;
  list.taps = 0;
  for (int i = 0; i < a->used; i++)
    for (int x = 0; x < g->fw; x++) {
      list.input[list.taps] = copy + i * pitch + (ptrdiff_t)x * g->dilation * BLOCK;
      list.w[list.taps] = taps[list.taps];
      list.taps++;
    }
  for (ptrdiff_t b = 0; b < c; b += BLOCK) {
    const ptrdiff_t j = pl_block_start(b / BLOCK, BLOCK, c);
    for (int t = 0; t < list.taps; t++) memcpy(taps[t], w + (a->top * g->fw + t) * pixel + j, sizeof taps[t]);
    for (ptrdiff_t line = 0, lines; line < g->lines; line += lines) {
      lines = g->lines - line < at_once ? g->lines - line : at_once;
      for (ptrdiff_t i = 0; i < (lines - 1) * a->down + a->used; i++) {
        const ptrdiff_t under = i < a->used ? 0 : (i - a->used) / a->down + 1; /* the first output line that reads it */
        const ptrdiff_t at = i - under * a->down;       /* below 0 if strides skip it */
        if (at < 0) continue;
        const uint8_t *row = g->row[a->top + at] + (line + under) * g->next;
        copy_line(g, (const float *)row, j, a->columns, copy + i * pitch);
      }
      float *const to = y + line * g->y_line + j;
      const pixel_grid all = {0, g->pixels, g->stride * BLOCK, pixel, lines, a->down * pitch, g->y_line};
      if (by_fours(g, &list, 0, BLOCK, &all, bias ? bias + j : NULL, low, high, to, BLOCK)) continue;
      for (ptrdiff_t k = 0; k < BLOCK; k += LANES)
        pixels_of(list.taps)(&list, k, &all, bias ? bias + j : NULL, low, high, to, c);
    }
  }
}

/* ---- all images ---- */
enum { CHUNK = 16 * LANES }; /* channels of all pixels that are computed before the next ones */

/* Multiplies sums by the scales of channels, then adds the bias, in two rounding steps. */
static void scale_lines(const pl_dw_lines *g, const float *bias, float low, float high, float *y) {
  const VECTOR least = SPLAT(low), most = SPLAT(high);
  for (int line = 0; line < g->lines; line++)
    for (ptrdiff_t pixel = 0; pixel < g->pixels; pixel++) {
      float *const to = y + line * g->y_line + pixel * g->channels;
      for (ptrdiff_t j = 0, part; j < g->c; j += part) {
        part = g->c - j < LANES ? g->c - j : LANES;
        const VECTOR shift = bias ? load_upto(bias + j, part) : SPLAT(0.0f);
        const VECTOR product = MULTIPLY(load_upto(to + j, part), load_upto(g->scale + j, part));
        store_upto(to + j, MIN(most, MAX(least, ADD(product, shift))), part);
      }
    }
}

/* Computes all output lines from the input in place. */
static __attribute__((cold)) void sums_of_products(const pl_dw_lines *g, const float *w, const float *bias, float low,
                                                   float high, float *y) {
  const ptrdiff_t c = g->c, last = g->width - 1 + g->pad - (ptrdiff_t)(g->fw - 1) * g->dilation, per_vector = LANES / c;
  /* Output pixels begin .. end - 1 read no pixel outside the image. */
  const ptrdiff_t begin = (g->pad + g->stride - 1) / g->stride, end = last < 0 ? 0 : last / g->stride + 1;
  const int packs = c < LANES && LANES % c == 0 && g->stride == 1 && g->channels == c;
  float lines[17][LANES];
  tap_list list, packed;
  for (ptrdiff_t chunk = 0; chunk < c; chunk += CHUNK) {
    const ptrdiff_t chunk_end = chunk + CHUNK < c ? chunk + CHUNK : c;
    for (ptrdiff_t pixel = 0, n; pixel < g->pixels; pixel += n) {
      n = pixel >= begin && pixel < end ? (end < g->pixels ? end : g->pixels) - pixel : 1;
      list_taps(g, pixel, w, &list);
      if (packs && n >= per_vector && list.taps <= 16) {
        const pixel_grid grid = {0, n / per_vector, LANES, LANES, g->lines, g->next / (ptrdiff_t)sizeof(float),
                                 g->y_line};
        pack_pixels(&list, bias, c, lines, &packed);
        (list.taps == 9 ? pixels_9 : pixels_any)(&packed, 0, &grid, lines[list.taps], low, high, y + pixel * c, c);
        n = grid.n * per_vector;
      } else {
        n = compute_pixels(g, &list, n, chunk, chunk_end, bias, low, high, y + pixel * g->channels);
      }
    }
  }
}
static void depthwise_f32(const pl_dw_lines *g, const float *w, const float *bias, float low, float high, float *y) {
  const input_area area = area_under(g, g->pixels);
  const float *const start = g->scale ? NULL : bias;
  const float least = g->scale ? -INFINITY : low, most = g->scale ? INFINITY : high;
  if (area.down) by_copies(g, &area, w, start, least, most, y);
  else sums_of_products(g, w, start, least, most, y);
  if (g->scale) scale_lines(g, bias, low, high, y);
}
#undef PIXELS
