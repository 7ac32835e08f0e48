/* 8-bit 3x3 depthwise convolutions with strides of 1 and 2: eight channels of two neighbouring outputs at a time, line
 * after line.  Each line of the image is loaded once for all output lines that read it.  If a stride of 1 has a
 * dilation, neighbours are outputs `dilation` pixels apart.
 *
 * Defines pairs_q8(), which has the arguments of depthwise_q8, and returns 0 if it cannot compute g.
 *
 * Before including it include depthwise_neon.h and define
 *   block3x3: a type: the filter of a block of channels, with the members `finish` (finish_params) and `bias` (sums);
 *   pair_taps: a type: the pixels of one input line that both outputs read;
 *   load_block(stride, flip, w_zero, w, q, i, block): sets `block` to block i of the packed weights w.  It returns -1
 *     if the block cannot be computed in this way, 1 if it is simple, and 0 if it is not;
 *   load_pair(stride, simple, inside, block, p, step, inside_bits, zero): returns the 3 + stride pixels from p on,
 *     which are `step` bytes apart.  Pixel i lies in the image if `inside` or bit i of inside_bits is set; else it is
 *     `zero`;
 *   start_pair(stride, relu, block, v0, v1, acc, before): begins the sums of both outputs, acc[0] and acc[1], with the
 *     first two input lines;
 *   end_pair(stride, simple, relu, block, v0, v1, v2, acc, before): adds the rest.  If DEFER is 1, both functions
 *     together finish the pending outputs `before`; relu: see `ends` in neon.h;
 *   TILE_BYTES: the part of the first-level cache that a tile may fill; all blocks of a tile are computed before the
 *     next tile.  0 on cores that hide the latency of the second-level cache;
 *   DEFER: 1 if outputs are finished while the next ones are multiplied, which in-order cores need; else 0;
 *   SINGLE_COLUMNS: if defined, an odd last column is computed two lines at a time.  Then load_column(simple, inside,
 *     block, p0, step0, p1, step1, inside_bits, zero) returns the three pixels of one output in each of two lines, for
 *     start_pair and end_pair with a stride of 3.
 * load_block decides what `simple` means: such blocks take fewer instructions. */

/* Bytes of a cache line, and of the largest image that stays in the second-level cache from layer to layer. */
enum { CACHE_LINE = 64, MAX_CACHED_BYTES = 256 * 1024 };

PL_INLINE int in_line(const pl_dw_lines *g, ptrdiff_t column) { return column >= 0 && column < g->width; }

/* Finishes outputs from these sums: now, or while the next ones are multiplied (DEFER). */
PL_INLINE void finish_or_defer(int relu, const sums *acc, const finish_params *f, uint8_t *y0, uint8_t *y1,
                               pending *later) {
  pending now = pending_of(acc, y0, y1);
  if (DEFER) *later = now;
  else finish_steps(0, FINISH_STEPS, relu, f, &now);
}

/* The arguments `p, step` of load_pair for a line of the image: its pixels from byte `offset` on; `zero` if the line is
 * outside. */
#define PIXELS(line) (line) ? (line) + offset : zero, (line) ? step : 0

/* Computes all lines of two output columns, whose windows begin at input pixel `column`.  y0, y1: the first output of
 * each column; next1: bytes from line to line at y1.  before: the pending outputs, on entry and on return. */
PL_INLINE void columns3x3(int stride, int simple, int inside, int relu, const pl_dw_lines *g, ptrdiff_t c,
                          ptrdiff_t column, const block3x3 *block, uint8_t *y0, uint8_t *y1, ptrdiff_t next1,
                          pending *before) {
  const block3x3 b = *block;
  pending last = *before;
  const uint8_t *const *row = g->row, *const zero = g->zero + c;
  const ptrdiff_t step = g->dilation * g->c, offset = column * g->c + c, next0 = g->y_line;
  unsigned inside_bits = 0;
  for (int i = 0; i < 3 + stride; i++) inside_bits |= (unsigned)in_line(g, column + i * g->dilation) << i;
  const pair_taps outside = load_pair(stride, simple, 0, &b, zero, 0, 0, zero);
/* Without a branch if outputs are deferred, so that gcc may arrange loads and products. */
#define LOAD_LINE(line) \
  (DEFER || (line) ? load_pair(stride, simple, inside, &b, PIXELS(line), inside_bits, zero) : outside)
/* Computes an output of each column.  Line v2 is loaded late, into the registers of v0. */
#define OUTPUT(v0, v1, v2, line) \
  { \
    sums acc[2]; \
    start_pair(stride, relu, &b, &(v0), &(v1), acc, &last); \
    v2 = LOAD_LINE(line); \
    end_pair(stride, simple, relu, &b, &(v0), &(v1), &(v2), acc, &last); \
    finish_or_defer(relu, acc, &b.finish, y0, y1, &last); \
    y0 += next0, y1 += next1; \
  }
  pair_taps v0 = LOAD_LINE(row[0]), v1, v2;
  if (stride == 2)
    for (int i = g->lines; i > 0; i--, row += 2) {
      v1 = LOAD_LINE(row[1]);
      OUTPUT(v0, v1, v2, row[2])
      v0 = v2;
    }
  else {
    v1 = LOAD_LINE(row[1]);
    row += 2;
#define LINE(i, v0, v1, v2) \
    OUTPUT(v0, v1, v2, row[i]) \
    if (left == (i) + 1) break;
    for (int left = g->lines;; left -= 3, row += 3) {
      LINE(0, v0, v1, v2)
      LINE(1, v1, v2, v0)
      LINE(2, v2, v0, v1)
    }
#undef LINE
  }
  *before = last;
#undef OUTPUT
#undef LOAD_LINE
}

#ifdef SINGLE_COLUMNS
/* Computes a single output column, two lines at a time; see columns3x3.  spare: takes the results of the
 * line that is missing if their number is odd. */
PL_INLINE void column3x3(int stride, int simple, int inside, int relu, const pl_dw_lines *g, ptrdiff_t c,
                         ptrdiff_t column, const block3x3 *block, uint8_t *y, uint8_t *spare, pending *before) {
  const block3x3 b = *block;
  pending last = *before;
  const uint8_t *const *row = g->row, *const zero = g->zero + c;
  const ptrdiff_t step = g->dilation * g->c, offset = column * g->c + c;
  unsigned inside_bits = 0;
  for (int i = 0; i < 3; i++) inside_bits |= (unsigned)in_line(g, column + i * g->dilation) << i;
  for (int left = g->lines; left > 0; left -= 2, row += 2 * stride) {
    const uint8_t *const *const next = left > 1 ? row + stride : row;
    pair_taps v[3];
    sums acc[2];
#pragma GCC unroll 3
    for (int i = 0; i < 3; i++)
      v[i] = load_column(simple, inside, &b, PIXELS(row[i]), PIXELS(next[i]), inside_bits, zero);
    start_pair(3, relu, &b, &v[0], &v[1], acc, &last);
    end_pair(3, simple, relu, &b, &v[0], &v[1], &v[2], acc, &last);
    finish_or_defer(relu, acc, &b.finish, y, left > 1 ? y + g->y_line : spare, &last);
    y += 2 * g->y_line;
  }
  *before = last;
}
#endif
#undef PIXELS

/* A tile: blocks first_block .. end_block - 1 of the channels of output pixels begin .. end - 1. */
typedef struct { ptrdiff_t first_block, end_block, begin, end; } tile;

/* The first pixel of the pair after the one at `pixel`; `end` or more if there is none.  With a dilation of d, all
 * pairs that begin at pixel `*first` modulo d come first; then `*first` moves to the next pixel. */
PL_INLINE ptrdiff_t next_pair(const pl_dw_lines *g, ptrdiff_t *first, ptrdiff_t pixel, ptrdiff_t begin,
                              ptrdiff_t end) {
  pixel += 2 * g->dilation;
  if (pixel < end || *first + 1 == begin + g->dilation) return pixel;
  return ++*first;
}

/* Computes tile p; returns 0 if load_block fails.  dilated: is the dilation above 1?  relu: see `ends`. */
PL_INLINE int filter3x3(int stride, int dilated, int relu, const pl_dw_lines *g, int flip, int w_zero, const void *w,
                        const pl_columns *q, uint8_t *y, const tile *p) {
  pl_dw_lines local = *g;
  if (!dilated) local.dilation = 1; /* a constant takes fewer registers */
  const ptrdiff_t end_block = p->end_block, begin = p->begin, end = p->end;
  uint8_t spare[NR];
  block3x3 block;
  for (ptrdiff_t b = p->first_block; b < end_block; b++) {
    const ptrdiff_t c = pl_block_start(b, NR, local.c);
    const int simple = load_block(stride, flip, w_zero, w, q, b, &block);
    if (simple < 0) return 0;
    const sums none[2] = {block.bias, block.bias}; /* before the first outputs: they go to `spare` */
    pending before = pending_of(none, spare, spare);
    for (ptrdiff_t first = begin, pixel = first; pixel < end; pixel = next_pair(&local, &first, pixel, begin, end)) {
      const ptrdiff_t column = pixel * stride - local.pad, dilation = local.dilation;
      const int inside = column >= 0 && column + (2 + stride) * dilation < local.width;
      const int last = pixel + dilation >= local.pixels;
      uint8_t *const y0 = y + pixel * local.c + c, *const y1 = last ? spare : y0 + dilation * local.c;
      const ptrdiff_t next1 = last ? 0 : local.y_line;
#ifdef SINGLE_COLUMNS
      if (last && local.lines > 1) {
        const int one_inside = column >= 0 && column + 2 * dilation < local.width;
        if (simple) column3x3(stride, 1, one_inside, relu, &local, c, column, &block, y0, spare, &before);
        else column3x3(stride, 0, one_inside, relu, &local, c, column, &block, y0, spare, &before);
        continue;
      }
#endif
#define COLUMNS(simple, inside) \
  columns3x3(stride, simple, inside, relu, &local, c, column, &block, y0, y1, next1, &before)
      if (simple && inside) COLUMNS(1, 1);
      else if (simple) COLUMNS(1, 0);
      else if (inside) COLUMNS(0, 1);
      else COLUMNS(0, 0);
#undef COLUMNS
    }
    if (DEFER) finish_steps(0, FINISH_STEPS, relu, &block.finish, &before);
  }
  return 1;
}
#define FILTER_ARGUMENTS \
  const pl_dw_lines *g, int flip, int w_zero, const void *w, const pl_columns *q, uint8_t *y
#define FILTER(name, stride, dilated, relu) \
  static __attribute__((noinline)) int name(FILTER_ARGUMENTS, const tile *p) { \
    return filter3x3(stride, dilated, relu, g, flip, w_zero, w, q, y, p); \
  }
FILTER(filter3x3_1, 1, 0, 0)
FILTER(filter3x3_1_relu, 1, 0, 1)
FILTER(filter3x3_1_dilated, 1, 1, 0)
FILTER(filter3x3_2, 2, 0, 0)
FILTER(filter3x3_2_relu, 2, 0, 1)
#undef FILTER

/* The blocks and output pixels of the first tile.  Neighbouring blocks share cache lines, so a tile has about eight
 * blocks, and as many pixels as let its cache lines stay in the first-level cache.  A tile is the whole output if
 * smaller tiles would gain less than reloading filters costs: with a stride of 2, whose tiles would have few outputs,
 * with a dilation, and where pixels are a multiple of 256 bytes apart, so that their cache lines are in few sets. */
PL_INLINE tile first_tile(const pl_dw_lines *g) {
  const ptrdiff_t blocks = (g->c + NR - 1) / NR, tiles = blocks < 12 ? 1 : (blocks + 4) / 8;
  const ptrdiff_t together = (blocks + tiles - 1) / tiles;
  const ptrdiff_t bytes = g->c % (2 * CACHE_LINE) ? TILE_BYTES : TILE_BYTES / 2; /* else in half of the sets */
  const ptrdiff_t pixels = bytes / (together * NR * (g->lines + 2 + g->lines)) / 2 * 2;
  if (!TILE_BYTES || g->stride == 2 || g->dilation > 1 || g->c % (4 * CACHE_LINE) == 0 || pixels >= g->pixels)
    return (tile){0, blocks, 0, g->pixels};
  return (tile){0, together, 0, pixels < 4 ? 4 : pixels};
}

/* Brings bytes into the cache by loading one of each cache line, in order: the prefetcher follows these loads, but not
 * the loads of columns. */
PL_INLINE void touch(const uint8_t *p, ptrdiff_t bytes) {
  ptrdiff_t i = 0;
#define TOUCH(k) (void)*(const volatile uint8_t *)(p + i + (k) * CACHE_LINE)
  for (; i + 4 * CACHE_LINE <= bytes; i += 4 * CACHE_LINE) TOUCH(0), TOUCH(1), TOUCH(2), TOUCH(3);
  for (; i < bytes; i += CACHE_LINE) TOUCH(0);
#undef TOUCH
}

/* Computes all output lines, tile by tile.  Returns 0 for other filters, or if load_block fails; by then, some outputs
 * may be written. */
static int pairs_q8(FILTER_ARGUMENTS) {
  if (g->c < NR || g->fh != 3 || g->fw != 3 || q->left) return 0;
  if (g->stride > 2 || (g->stride == 2 && g->dilation > 1)) return 0;
  if (g->width * g->width * g->c > MAX_CACHED_BYTES) { /* of a square image; its height is not known here */
    for (int i = 0; i < (g->lines - 1) * g->stride + 3; i++)
      if (g->row[i]) touch(g->row[i], g->width * g->c);
    for (int i = 0; i < g->lines; i++) touch(y + i * g->y_line, g->pixels * g->c);
  }
  const int relu = ends_of(q).relu;
  int (*const filter)(FILTER_ARGUMENTS, const tile *) =
      g->stride == 2 ? relu ? filter3x3_2_relu : filter3x3_2
                     : g->dilation > 1 ? filter3x3_1_dilated : relu ? filter3x3_1_relu : filter3x3_1;
  const tile first = first_tile(g);
  const ptrdiff_t blocks = (g->c + NR - 1) / NR;
  tile p;
  for (p.first_block = 0; p.first_block < blocks; p.first_block = p.end_block) {
    p.end_block = blocks - p.first_block < first.end_block ? blocks : p.first_block + first.end_block;
    for (p.begin = 0; p.begin < g->pixels; p.begin = p.end) {
      p.end = g->pixels - p.begin < first.end ? g->pixels : p.begin + first.end;
      if (!filter(g, flip, w_zero, w, q, y, &p)) return 0;
    }
  }
  return 1;
}
