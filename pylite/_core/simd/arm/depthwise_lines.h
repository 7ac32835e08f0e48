/* Depthwise convolutions of any filter: NR channels at a time, of lines that are copied with their border.
 *
 * A line is copied once for all output lines that read it.  As many lines as fit are copied before outputs are
 * computed, by a function of its own: the loops of both need all registers.  The border stays for all blocks of
 * channels.  Where the dilation does not divide the stride, output pixels form classes.  A class reads pixels
 * `dilation` apart: only these are copied, and the filter has no gaps.
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

enum { LINES_BYTES = 16384, HEIGHT = 256, LINES_TOGETHER = HEIGHT + 64 };

/* A class: output pixels first, first + every ...; their windows are `stride` apart among the input pixels origin,
 * origin + step ... */
typedef struct { ptrdiff_t first, every, origin, step, stride; } pixel_class;

/* A run of outputs of a class, in all lines of the window: n from `first_output` on.  Their windows read the copied
 * pixels from `origin` on, of which begin .. end - 1 lie in the image; of those before `safe`, NR elements can be read.
 * `together` lines of outputs are computed between copies; `room` lines and the one outside fill the buffer. */
typedef struct {
  pixel_class p;
  ptrdiff_t first_output, n, origin, begin, end, safe, pitch;
  int together, room;
  uint8_t *buffer;
} piece;

/* Copies the groups of a line to which pixels begin .. end - 1 belong, which lie `step` elements apart. */
PL_INLINE void copy_line(const pl_dw_window *g, const filter *f, const element *from, ptrdiff_t step, ptrdiff_t begin,
                         ptrdiff_t end, ptrdiff_t safe, const element *zero, uint8_t *restrict to) {
  const element *x[GROUP];
  ptrdiff_t i = begin / GROUP * GROUP;
  for (to += i / GROUP * GROUP_BYTES; i < end; i += GROUP, to += GROUP_BYTES) {
    if (i >= begin && i + GROUP <= safe) {
      const ptrdiff_t groups = (safe - i) / GROUP;
      const element *const p = from + i * step;
#define COPY(n) \
  { \
    _Pragma("GCC unroll 4") for (int k = 0; k < GROUP; k++) x[k] = p + ((n) * GROUP + k) * step; \
    copy_group(f, x, to + (n) * GROUP_BYTES); \
  }
#define COPY_FOUR(n) _Pragma("GCC unroll 4") for (int k4 = 0; k4 < 4; k4++) COPY((n) + k4)
      if (GROUP_BYTES > 8 || groups < 4) {
#pragma GCC unroll 4
        for (ptrdiff_t n = 0; n < groups; n++) COPY(n)
      } else {
        COPY_FOUR(0)
        for (ptrdiff_t n = 4; n < groups - 4; n += 4) COPY_FOUR(n)
        COPY_FOUR(groups - 4) /* some pixels again */
      }
#undef COPY_FOUR
#undef COPY
      to += groups * GROUP_BYTES;
      i += groups * GROUP;
      if (i >= end) return;
    }
    element pixel[GROUP][NR] = {{0}};
#pragma GCC unroll 4
    for (int k = 0; k < GROUP; k++) {
      const element *p = from + (i + k) * step;
      x[k] = i + k >= begin && i + k < end ? p : zero;
      if (i + k >= safe && x[k] != zero) {
        for (ptrdiff_t j = 0; j < NR && j < g->c; j++) pixel[k][j] = p[j];
        x[k] = pixel[k];
      }
    }
    copy_group(f, x, to);
  }
}
/* Copies lines first + begin .. first + end - 1 of the window for the block of channels from channel c on, to line
 * `next` of the buffer and further ones; lines[i] is where line first + i lies.  Returns what is next then. */
static __attribute__((noinline)) int copy_lines(const pl_dw_window *window, const filter *f,
                                                const piece *from, ptrdiff_t c, int first, int begin, int end, int next,
                                                const uint8_t **lines) {
  const pl_dw_window own = *window, *const g = &own; /* the copies may not be taken to overlap them */
  const piece part = *from;
  const ptrdiff_t step = part.p.step * g->c, origin = part.origin * g->c + c;
  element zero[NR];
  memset(zero, *g->zero, sizeof zero);
  for (int i = begin; i < end; i++) {
    const element *row = (const element *)g->row[first + i];
    if (g->stride > g->fh && i % g->stride >= g->fh) continue; /* no window reads it */
    uint8_t *const to = part.buffer + (row ? next : part.room) * part.pitch;
    lines[i] = to;
    if (!row) continue;
    copy_line(g, f, row + origin, step, part.begin, part.end, part.safe, zero, to);
    if (++next == part.room) next = 0;
  }
  return next;
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

/* Computes a piece for the block of channels from channel c on. */
PL_INLINE void block_outputs(int narrow, int stride, int width, const pl_dw_window *g, const piece *part,
                             const filter *f, ptrdiff_t c, element *y) {
  const uint8_t *lines[LINES_TOGETHER];
  const ptrdiff_t step = part->p.every * g->c;
  const int by = stride ? stride : (int)part->p.stride;
  const int shared = g->fh > g->stride ? g->fh - g->stride : 0; /* lines that neighbouring lines of outputs read */
  y += (part->p.first + part->first_output * part->p.every) * g->c + c;
  for (int i = 0, held = 0, next = 0, m; i < g->lines; i += m) {
    m = g->lines - i < part->together ? g->lines - i : part->together;
    next = copy_lines(g, f, part, c, i * g->stride, held, (m - 1) * g->stride + g->fh, next, lines);
    for (int k = 0; k < m; k++, y += g->y_line)
      line_outputs(narrow, by, width, part->n, g->c, f, lines + k * g->stride, y, step);
    for (held = 0; held < shared; held++) lines[held] = lines[m * g->stride + held];
  }
}
#define BLOCK(name, narrow, stride, width) \
  static __attribute__((noinline)) void name(const pl_dw_window *g, const piece *part, const filter *f, ptrdiff_t c, \
                                             element *y) { \
    block_outputs(narrow, stride, width, g, part, f, c, y); \
  }
BLOCK(block_1, 0, 1, 0)
BLOCK(block_2, 0, 2, 0)
BLOCK(block_any, 0, 0, 0)
BLOCK(block_narrow, 1, 0, 0)
WIDTHS(BLOCK)

/* Begins n outputs of the class part->p, and fills the buffer with the border, which stays beside the image. */
static void begin_piece(const pl_dw_window *g, const filter *f, ptrdiff_t first_output, ptrdiff_t n, piece *part) {
  const pixel_class *const p = &part->p;
  const ptrdiff_t all = (n + TOGETHER - 1) / TOGETHER * TOGETHER, c = g->c;
  const ptrdiff_t groups = ((all - 1) * p->stride + g->fw + GROUP - 1) / GROUP;
  const ptrdiff_t origin = p->origin + first_output * p->stride * p->step, behind = g->width - origin;
  const ptrdiff_t inside = behind < 0 ? 0 : (behind + p->step - 1) / p->step;
  part->first_output = first_output, part->n = n, part->origin = origin, part->pitch = groups * GROUP_BYTES;
  part->begin = origin < 0 ? (p->step - 1 - origin) / p->step : 0;
  part->end = inside < groups * GROUP ? inside : groups * GROUP;
  part->safe = c < NR ? part->end - (NR - c + p->step * c - 1) / (p->step * c) : part->end;
  const ptrdiff_t fit = LINES_BYTES / part->pitch - 1, most = fit < LINES_TOGETHER ? fit : LINES_TOGETHER;
  const ptrdiff_t together = (most - g->fh) / g->stride + 1;
  part->together = together < g->lines ? (int)together : g->lines;
  part->room = (part->together - 1) * g->stride + g->fh;
  memset(part->buffer, border(g, f), (size_t)((part->room + 1) * part->pitch));
}

/* Computes the output lines of a window; returns 0 if the filter is too large for the buffers. */
static int lines_of_window(const pl_dw_window *g, const parameters *all, element *y) {
  uint8_t buffer[LINES_BYTES] __attribute__((aligned(64)));
  filter f;
  ptrdiff_t common = g->stride, rest = g->dilation;
  while (rest) { /* the greatest common divisor */
    const ptrdiff_t r = common % rest;
    common = rest, rest = r;
  }
  piece part = {.p = {.every = g->dilation / common, .step = g->dilation, .stride = g->stride / common},
                .buffer = buffer};
  pixel_class *const p = &part.p;
  const ptrdiff_t fit = (LINES_BYTES / ((g->fh + 1) * GROUP_BYTES) * GROUP - g->fw) / p->stride + 1;
  const ptrdiff_t most = fit / MOST * MOST; /* lines are copied for a multiple of TOGETHER outputs */
  if (fit < MOST || g->fh > HEIGHT || !fits_filter(g)) return 0;
  void (*block)(const pl_dw_window *, const piece *, const filter *, ptrdiff_t, element *) =
      g->c < NR ? block_narrow : p->stride == 1 ? block_1 : p->stride == 2 ? block_2 : block_any;
#define CHOOSE(name, narrow, its_stride, its_width) \
  if (g->c >= NR && p->stride == (its_stride) && g->fw == (its_width)) block = name;
  WIDTHS(CHOOSE)
#undef CHOOSE
  const int single = p->every == 1 && g->pixels <= most; /* a single piece */
  for (ptrdiff_t b = 0; b * NR < g->c; b++) {
    load_filter(g, (int)p->stride, all, b, &f);
    for (p->first = 0; p->first < p->every && p->first < g->pixels; p->first++) {
      const ptrdiff_t outputs = (g->pixels - p->first + p->every - 1) / p->every;
      p->origin = p->first * g->stride - g->pad;
      for (ptrdiff_t first_output = 0, n; first_output < outputs; first_output += n) {
        n = outputs - first_output < most ? outputs - first_output : most;
        if (!single || b == 0) begin_piece(g, &f, first_output, n, &part);
        block(g, &part, &f, pl_block_start(b, NR, g->c), y);
      }
    }
  }
  return 1;
}
