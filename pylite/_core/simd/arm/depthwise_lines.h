/* 8-bit depthwise convolutions of any filter: eight channels at a time, of lines that are copied with their border.
 *
 * A line is copied once for all output lines that read it, into a ring of as many lines as the filter is high.  Where
 * the dilation does not divide the stride, output pixels form classes.  A class reads pixels `dilation` apart: only
 * these are copied, and the filter has no gaps.
 *
 * Before including it include depthwise_neon.h and define
 *   GROUP, GROUP_BYTES: pixels that are copied together, and the bytes they take;
 *   MOST: outputs of a line that are computed together, TOGETHER or twice as many;
 *   WIDTHS(X): X(name, 0, stride, width) for each stride and width of a filter that `outputs` has code of its own for;
 *   filter: the weights of a block of channels, with its member `finish`;
 *   fits_filter(g): does `filter` hold the weights of this window?
 *   load_filter(g, stride, flip, w_zero, w, q, block, to), for windows that are `stride` copied pixels apart;
 *   weight_of(g, w_zero, w, block, tap, channel);
 *   copy_group(flip, x, to): GROUP pixels from the pointers x;
 *   outputs(N, stride, width, f, lines, at, acc): sums of N neighbouring outputs from byte `at` of the copied lines on.
 *     width: of the filter where it is one of WIDTHS, whose outputs are computed TOGETHER at a time; else 0. */

enum { LINES_BYTES = 16384, HEIGHT = 256 };

/* A class: output pixels first, first + every ...; their windows are `stride` apart among the input pixels origin,
 * origin + step ... */
typedef struct { ptrdiff_t first, every, origin, step, stride; } pixel_class;

/* Copies pixels begin .. end - 1 of a line, which lie in the image `step` bytes apart, and what else belongs to their
 * groups.  narrow: fewer than NR channels. */
PL_INLINE void copy_line(int narrow, const pl_dw_window *g, int flip, const uint8_t *from, ptrdiff_t step,
                         ptrdiff_t begin, ptrdiff_t end, const uint8_t *zero, uint8_t *to) {
  uint8_t pixel[GROUP][NR] = {{0}};
  const uint8_t *x[GROUP];
  ptrdiff_t i = begin / GROUP * GROUP;
  for (to += i / GROUP * GROUP_BYTES; i < end; i += GROUP, to += GROUP_BYTES) {
    if (!narrow && i >= begin && i + GROUP <= end) {
      const ptrdiff_t groups = (end - i) / GROUP;
      const uint8_t *p = from + i * step;
#pragma GCC unroll 4
      for (ptrdiff_t n = groups; n > 0; n--, p += GROUP * step, to += GROUP_BYTES) {
#pragma GCC unroll 4
        for (int k = 0; k < GROUP; k++) x[k] = p + k * step;
        copy_group(flip, x, to);
      }
      i += groups * GROUP;
      if (i >= end) return;
    }
#pragma GCC unroll 4
    for (int k = 0; k < GROUP; k++) {
      const uint8_t *p = from + (i + k) * step;
      x[k] = i + k >= begin && i + k < end ? p : zero;
      if (narrow && x[k] != zero) {
        for (ptrdiff_t j = 0; j < NR && j < g->c; j++) pixel[k][j] = x[k][j];
        x[k] = pixel[k];
      }
    }
    copy_group(flip, x, to);
  }
}

PL_INLINE void finish_outputs(int N, const sums *acc, const finish_params *f, uint8_t *y, ptrdiff_t step) {
#pragma GCC unroll 2
  for (int i = 0; i < N; i += TOGETHER) {
    if (f->left) finish(TOGETHER, acc + i, f, f->left, y + i * step, step);
    else finish(TOGETHER, acc + i, f, NULL, y + i * step, step);
  }
}

/* Computes n outputs of a line, `step` bytes apart. */
PL_INLINE void line_outputs(int narrow, int stride, int width, ptrdiff_t n, ptrdiff_t c, const filter *f,
                            const uint8_t *const *lines, uint8_t *y, ptrdiff_t step) {
  uint8_t rest[MOST][NR];
  for (ptrdiff_t i = 0, together; i < n; i += together, y += together * step) {
    sums acc[MOST];
    const ptrdiff_t at = i * stride / GROUP * GROUP_BYTES;
    together = !narrow && !width && n - i > TOGETHER ? MOST : TOGETHER;
    const int whole = !narrow && n - i >= together;
    uint8_t *const to = whole ? y : rest[0];
    const ptrdiff_t by = whole ? step : NR;
    if (MOST > TOGETHER && together == MOST) {
      outputs(MOST, stride, width, f, lines, at, acc);
      finish_outputs(MOST, acc, &f->finish, to, by);
    } else {
      outputs(TOGETHER, stride, width, f, lines, at, acc);
      finish_outputs(TOGETHER, acc, &f->finish, to, by);
    }
    for (ptrdiff_t k = 0; !whole && k < n - i && k < together; k++)
      if (narrow) for (ptrdiff_t j = 0; j < NR && j < c; j++) y[k * step + j] = rest[k][j];
      else memcpy(y + k * step, rest[k], NR);
  }
}

/* Computes outputs `at` to at + n of a class, in all lines of the block of channels from channel c on. */
PL_INLINE void block_outputs(int narrow, int stride, int width, const pl_dw_window *g, const pixel_class *p,
                             const filter *f, ptrdiff_t at, ptrdiff_t n, ptrdiff_t c, uint8_t *y) {
  uint8_t buffer[LINES_BYTES] __attribute__((aligned(64))), zero[NR];
  const uint8_t *lines[2 * HEIGHT]; /* twice, so that those of an output line follow one another */
  const ptrdiff_t all = (n + TOGETHER - 1) / TOGETHER * TOGETHER;
  const ptrdiff_t groups = ((all - 1) * p->stride + g->fw + GROUP - 1) / GROUP, pitch = groups * GROUP_BYTES;
  const ptrdiff_t origin = p->origin + at * p->stride * p->step, behind = g->width - origin;
  const ptrdiff_t begin = origin < 0 ? (p->step - 1 - origin) / p->step : 0; /* of the pixels in the image */
  const ptrdiff_t inside = behind < 0 ? 0 : (behind + p->step - 1) / p->step;
  const ptrdiff_t end = inside < groups * GROUP ? inside : groups * GROUP;
  memset(zero, *g->zero, sizeof zero);
  memset(buffer, *g->zero ^ f->finish.flip, (size_t)((g->fh + 1) * pitch)); /* what lies beside the image stays */
  y += (p->first + at * p->every) * g->c + c;
  for (int i = 0, next = 0, slot = 0; i < g->lines; i++, y += g->y_line) {
    const int first = i * g->stride;
    for (next = next < first ? first : next; next < first + g->fh; next++) {
      const uint8_t *row = g->row[next];
      int place = slot + next - first;
      place -= place < g->fh ? 0 : g->fh;
      uint8_t *const to = buffer + (row ? place : g->fh) * pitch; /* line fh lies outside of the image */
      lines[place] = lines[place + g->fh] = to;
      if (row) copy_line(narrow, g, f->finish.flip, row + origin * g->c + c, p->step * g->c, begin, end, zero, to);
    }
    line_outputs(narrow, stride ? stride : (int)p->stride, width, n, g->c, f, lines + slot, y, p->every * g->c);
    for (slot += g->stride; slot >= g->fh;) slot -= g->fh;
  }
}
#define BLOCK(name, narrow, stride, width) \
  static __attribute__((noinline)) void name(const pl_dw_window *g, const pixel_class *p, const filter *f, \
                                             ptrdiff_t at, ptrdiff_t n, ptrdiff_t c, uint8_t *y) { \
    block_outputs(narrow, stride, width, g, p, f, at, n, c, y); \
  }
BLOCK(block_1, 0, 1, 0)
BLOCK(block_2, 0, 2, 0)
BLOCK(block_any, 0, 0, 0)
BLOCK(block_narrow, 1, 0, 0)
WIDTHS(BLOCK)

/* For filters whose lines or weights are too large for the buffers. */
static void large_filter(const pl_dw_window *g, int flip, int w_zero, const void *w, const pl_columns *q, uint8_t *y) {
  for (int i = 0; i < g->lines; i++)
    for (ptrdiff_t at = 0; at < g->pixels; at++)
      for (ptrdiff_t b = 0; b * NR < g->c; b++) {
        int32_t acc[NR] = {0};
        uint8_t bytes[NR];
        const finish_params f = finish_params_of(flip, w_zero, q, b * NR);
        const ptrdiff_t c = pl_block_start(b, NR, g->c), origin = at * g->stride - g->pad;
        const int n = g->c < NR ? (int)g->c : NR;
        for (int t = 0; t < g->fh * g->fw; t++) {
          const uint8_t *row = g->row[i * g->stride + t / g->fw];
          const ptrdiff_t x = origin + (ptrdiff_t)(t % g->fw) * g->dilation;
          const int inside = row && x >= 0 && x < g->width;
          for (int j = 0; j < n; j++) {
            const int8_t pixel = (int8_t)((inside ? row[x * g->c + c + j] : *g->zero) ^ flip);
            acc[j] += pixel * weight_of(g, w_zero, w, b, t, j);
          }
        }
        sums sum = load_sums(acc);
        sum.low = vaddq_s32(sum.low, load_sums(f.bias).low), sum.high = vaddq_s32(sum.high, load_sums(f.bias).high);
        finish(1, &sum, &f, f.left, bytes, 0);
        memcpy(y + i * g->y_line + at * g->c + c, bytes, (size_t)n);
      }
}

static void lines_q8(const pl_dw_window *g, int flip, int w_zero, const void *w, const pl_columns *q, uint8_t *y) {
  filter f;
  ptrdiff_t common = g->stride, rest = g->dilation;
  while (rest) { /* the greatest common divisor */
    const ptrdiff_t r = common % rest;
    common = rest, rest = r;
  }
  pixel_class p = {.every = g->dilation / common, .step = g->dilation, .stride = g->stride / common};
  const ptrdiff_t most = (LINES_BYTES / ((g->fh + 1) * GROUP_BYTES) * GROUP - g->fw) / p.stride + 1;
  if (most < MOST || g->fh > HEIGHT || !fits_filter(g)) {
    large_filter(g, flip, w_zero, w, q, y);
    return;
  }
  void (*block)(const pl_dw_window *, const pixel_class *, const filter *, ptrdiff_t, ptrdiff_t, ptrdiff_t, uint8_t *) =
      g->c < NR ? block_narrow : p.stride == 1 ? block_1 : p.stride == 2 ? block_2 : block_any;
#define CHOOSE(name, narrow, its_stride, its_width) \
  if (g->c >= NR && p.stride == (its_stride) && g->fw == (its_width)) block = name;
  WIDTHS(CHOOSE)
#undef CHOOSE
  for (ptrdiff_t b = 0; b * NR < g->c; b++) {
    load_filter(g, (int)p.stride, flip, w_zero, w, q, b, &f);
    for (p.first = 0; p.first < p.every && p.first < g->pixels; p.first++) {
      const ptrdiff_t outputs = (g->pixels - p.first + p.every - 1) / p.every;
      p.origin = p.first * g->stride - g->pad;
      for (ptrdiff_t at = 0, n; at < outputs; at += n) {
        n = outputs - at < most ? outputs - at : most / MOST * MOST;
        block(g, &p, &f, at, n, pl_block_start(b, NR, g->c), y);
      }
    }
  }
}
