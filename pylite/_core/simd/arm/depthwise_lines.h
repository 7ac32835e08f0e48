/* Depthwise convolutions of any filter: NR channels at a time, of lines that are copied with their border.
 *
 * A line is copied once for all output lines that read it, into a ring of as many lines as the filter is high.  Where
 * the dilation does not divide the stride, output pixels form classes.  A class reads pixels `dilation` apart: only
 * these are copied, and the filter has no gaps.
 *
 * Before including it define
 *   element: of the image and of the results;
 *   NR, TOGETHER: channels of a block, and outputs of a line that are computed together;
 *   MOST: outputs that are computed together in long lines: TOGETHER or twice as many;
 *   GROUP, GROUP_BYTES: pixels that are copied together, and the bytes they take;
 *   WIDTHS(X): X(name, 0, stride, width) for each stride and width of a filter that `outputs` has code of its own for;
 *   sums: those of a block of channels, for one output;
 *   parameters: what load_filter needs; filter: the weights of a block of channels;
 *   fits_filter(g): does `filter` hold the weights of this window?
 *   load_filter(g, stride, p, block, f), for windows that are `stride` copied pixels apart;
 *   border(g, f): the byte of all copied pixels beside the image;
 *   copy_group(f, x, to): GROUP pixels from the pointers x;
 *   outputs(N, stride, width, f, lines, offset, acc): sums of N neighbouring outputs, from byte `offset` of the lines.
 *     width: the filter's if it is one of WIDTHS, whose outputs are computed TOGETHER at a time, and two or three at the
 *     end of a line; else 0;
 *   finish_outputs(N, acc, f, y, step): writes the results of these sums, `step` elements apart. */

enum { LINES_BYTES = 16384, HEIGHT = 256 };

/* A class: output pixels first, first + every ...; their windows are `stride` apart among the input pixels origin,
 * origin + step ... */
typedef struct { ptrdiff_t first, every, origin, step, stride; } pixel_class;

/* Copies pixels begin .. end - 1 of a line, which lie in the image `step` elements apart, and what else belongs to
 * their groups.  narrow: fewer than NR channels. */
PL_INLINE void copy_line(int narrow, const pl_dw_window *g, const filter *f, const element *from, ptrdiff_t step,
                         ptrdiff_t begin, ptrdiff_t end, const element *zero, uint8_t *restrict to) {
  element pixel[GROUP][NR] = {{0}};
  const element *x[GROUP];
  ptrdiff_t i = begin / GROUP * GROUP;
  for (to += i / GROUP * GROUP_BYTES; i < end; i += GROUP, to += GROUP_BYTES) {
    if (!narrow && i >= begin && i + GROUP <= end) {
      const ptrdiff_t groups = (end - i) / GROUP;
      const element *const p = from + i * step;
#define COPY(n) \
  { \
    _Pragma("GCC unroll 4") for (int k = 0; k < GROUP; k++) x[k] = p + ((n) * GROUP + k) * step; \
    copy_group(f, x, to + (n) * GROUP_BYTES); \
  }
      if (GROUP_BYTES > 8 || groups < 4)
#pragma GCC unroll 4
        for (ptrdiff_t n = 0; n < groups; n++) COPY(n)
      else
        for (ptrdiff_t n = 0; n < groups; n += 4) {
          if (n > groups - 4) n = groups - 4; /* some pixels again */
#pragma GCC unroll 4
          for (int i4 = 0; i4 < 4; i4++) COPY(n + i4)
        }
#undef COPY
      to += groups * GROUP_BYTES;
      i += groups * GROUP;
      if (i >= end) return;
    }
#pragma GCC unroll 4
    for (int k = 0; k < GROUP; k++) {
      const element *p = from + (i + k) * step;
      x[k] = i + k >= begin && i + k < end ? p : zero;
      if (narrow && x[k] != zero) {
        for (ptrdiff_t j = 0; j < NR && j < g->c; j++) pixel[k][j] = x[k][j];
        x[k] = pixel[k];
      }
    }
    copy_group(f, x, to);
  }
}

/* Computes n outputs of a line, `step` elements apart. */
PL_INLINE void line_outputs(int narrow, int stride, int width, ptrdiff_t n, ptrdiff_t c, const filter *f,
                            const uint8_t *const *lines, element *y, ptrdiff_t step) {
  element rest[MOST][NR];
  for (ptrdiff_t i = 0, together; i < n; i += together, y += together * step) {
    sums acc[MOST];
    if (width && n - i < TOGETHER && n > 1) { /* the last outputs of a line, two or three of them */
      const int last = n - i == 1;            /* one is computed with the one before it */
      const ptrdiff_t offset = (i - last) * stride / GROUP * GROUP_BYTES;
      if (n - i == 3) {
        outputs(3, stride, width, f, lines, offset, acc);
        finish_outputs(3, acc, f, y, step);
      } else {
        outputs(2, stride, width, f, lines, offset, acc);
        finish_outputs(2, acc, f, y - last * step, step);
      }
      break;
    }
    together = !narrow && !width && n - i > TOGETHER ? MOST : TOGETHER;
    const ptrdiff_t missing = i + together - n;
    if (GROUP == 1 && missing > 0 && missing <= i) i -= missing, y -= missing * step; /* some outputs again */
    const ptrdiff_t offset = i * stride / GROUP * GROUP_BYTES;
    const int whole = !narrow && n - i >= together;
    element *const to = whole ? y : rest[0];
    const ptrdiff_t by = whole ? step : NR;
    if (MOST > TOGETHER && together == MOST) {
      outputs(MOST, stride, width, f, lines, offset, acc);
      finish_outputs(MOST, acc, f, to, by);
    } else {
      outputs(TOGETHER, stride, width, f, lines, offset, acc);
      finish_outputs(TOGETHER, acc, f, to, by);
    }
    for (ptrdiff_t k = 0; !whole && k < n - i && k < together; k++)
      if (narrow) for (ptrdiff_t j = 0; j < NR && j < c; j++) y[k * step + j] = rest[k][j];
      else memcpy(y + k * step, rest[k], sizeof rest[k]);
  }
}

/* Computes n outputs of a class from `first_output` on, in all lines, for the block of channels from channel c on. */
PL_INLINE void block_outputs(int narrow, int stride, int width, const pl_dw_window *g, const pixel_class *p,
                             const filter *f, ptrdiff_t first_output, ptrdiff_t n, ptrdiff_t c, element *y) {
  uint8_t buffer[LINES_BYTES] __attribute__((aligned(64)));
  element zero[NR];
  const uint8_t *lines[2 * HEIGHT]; /* the ring twice, so that the lines of any output line are consecutive */
  const ptrdiff_t all = (n + TOGETHER - 1) / TOGETHER * TOGETHER;
  const ptrdiff_t groups = ((all - 1) * p->stride + g->fw + GROUP - 1) / GROUP, pitch = groups * GROUP_BYTES;
  const ptrdiff_t origin = p->origin + first_output * p->stride * p->step, behind = g->width - origin;
  const ptrdiff_t begin = origin < 0 ? (p->step - 1 - origin) / p->step : 0; /* of the pixels in the image */
  const ptrdiff_t inside = behind < 0 ? 0 : (behind + p->step - 1) / p->step;
  const ptrdiff_t end = inside < groups * GROUP ? inside : groups * GROUP;
  memset(zero, *g->zero, sizeof zero);
  memset(buffer, border(g, f), (size_t)((g->fh + 1) * pitch)); /* what lies beside the image stays */
  y += (p->first + first_output * p->every) * g->c + c;
  for (int i = 0, next = 0, slot = 0; i < g->lines; i++, y += g->y_line) {
    const int first = i * g->stride;
    for (next = next < first ? first : next; next < first + g->fh; next++) {
      const element *row = (const element *)g->row[next];
      int place = slot + next - first;
      place -= place < g->fh ? 0 : g->fh;
      uint8_t *const to = buffer + (row ? place : g->fh) * pitch; /* line fh lies outside of the image */
      lines[place] = lines[place + g->fh] = to;
      if (row) copy_line(narrow, g, f, row + origin * g->c + c, p->step * g->c, begin, end, zero, to);
    }
    line_outputs(narrow, stride ? stride : (int)p->stride, width, n, g->c, f, lines + slot, y, p->every * g->c);
    for (slot += g->stride; slot >= g->fh;) slot -= g->fh;
  }
}
#define BLOCK(name, narrow, stride, width) \
  static __attribute__((noinline)) void name(const pl_dw_window *g, const pixel_class *p, const filter *f, \
                                             ptrdiff_t first_output, ptrdiff_t n, ptrdiff_t c, element *y) { \
    block_outputs(narrow, stride, width, g, p, f, first_output, n, c, y); \
  }
BLOCK(block_1, 0, 1, 0)
BLOCK(block_2, 0, 2, 0)
BLOCK(block_any, 0, 0, 0)
BLOCK(block_narrow, 1, 0, 0)
WIDTHS(BLOCK)

/* Computes the output lines of a window; returns 0 if the filter is too large for the buffers. */
static int lines_of_window(const pl_dw_window *g, const parameters *all, element *y) {
  filter f;
  ptrdiff_t common = g->stride, rest = g->dilation;
  while (rest) { /* the greatest common divisor */
    const ptrdiff_t r = common % rest;
    common = rest, rest = r;
  }
  pixel_class p = {.every = g->dilation / common, .step = g->dilation, .stride = g->stride / common};
  const ptrdiff_t fit = (LINES_BYTES / ((g->fh + 1) * GROUP_BYTES) * GROUP - g->fw) / p.stride + 1;
  const ptrdiff_t most = fit / MOST * MOST; /* lines are copied for a multiple of TOGETHER outputs */
  if (fit < MOST || g->fh > HEIGHT || !fits_filter(g)) return 0;
  void (*block)(const pl_dw_window *, const pixel_class *, const filter *, ptrdiff_t, ptrdiff_t, ptrdiff_t, element *) =
      g->c < NR ? block_narrow : p.stride == 1 ? block_1 : p.stride == 2 ? block_2 : block_any;
#define CHOOSE(name, narrow, its_stride, its_width) \
  if (g->c >= NR && p.stride == (its_stride) && g->fw == (its_width)) block = name;
  WIDTHS(CHOOSE)
#undef CHOOSE
  for (ptrdiff_t b = 0; b * NR < g->c; b++) {
    load_filter(g, (int)p.stride, all, b, &f);
    for (p.first = 0; p.first < p.every && p.first < g->pixels; p.first++) {
      const ptrdiff_t outputs = (g->pixels - p.first + p.every - 1) / p.every;
      p.origin = p.first * g->stride - g->pad;
      for (ptrdiff_t first_output = 0, n; first_output < outputs; first_output += n) {
        n = outputs - first_output < most ? outputs - first_output : most;
        block(g, &p, &f, first_output, n, pl_block_start(b, NR, g->c), y);
      }
    }
  }
  return 1;
}
