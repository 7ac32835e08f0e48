/* Depthwise convolutions of any filter, stride and dilation: NR channels (a block) at a time, of lines that are copied
 * with their border.
 *
 * A line is copied once for all output lines that read it.  As many lines as fit are copied before outputs are
 * computed, by a separate function: the loops of both need all registers.  The border stays for all blocks of
 * channels.  If the dilation does not divide the stride, output pixels form classes.  A class reads pixels
 * `dilation` apart: only these are copied, and the filter has no gaps.
 *
 * Defines depthwise_lines(g, p, y), which computes the output lines of g, or returns 0 if the filter is too large for
 * its buffers.  A window is the input pixels that one output reads.
 *
 * Before including it define
 *   element: the type of pixels and results;
 *   NR: channels of a block;
 *   TOGETHER: outputs of a line that are computed together;
 *   MAX_TOGETHER: the same in long lines: TOGETHER or twice as many;
 *   GROUP: pixels that are copied together: 1 or 4;
 *   GROUP_BYTES: the bytes of their copy;
 *   WIDTHS(X): X(name, 0, stride, width) for each stride and width of a filter for which `outputs` has special code;
 *   sums: a type: the sums of one output, for a block of channels;
 *   filter: a type: the weights of a block of channels, and what finish_outputs needs;
 *   parameters: a type: what load_filter reads besides g;
 *   fits_filter(g): does a `filter` have room for the weights of g?
 *   load_filter(g, stride, p, block, f): sets f to the filter of a block; neighbouring windows of a line are `stride`
 *     copied pixels apart;
 *   border(g, f): the byte that copies have outside the image;
 *   copy_group(f, x, keep, to): copies GROUP pixels from the pointers x.  If GROUP is 4, byte i of `keep` is 0 where
 *     pixel i is border, and 255 elsewhere;
 *   outputs(N, stride, width, f, lines, offset, acc): sets acc to the sums of N neighbouring outputs, whose windows
 *     begin at byte `offset` of the copied lines.  width: the filter's width if WIDTHS has it; then N is TOGETHER, or
 *     2 or 3 at the end of a line.  Else 0, and N is TOGETHER or MAX_TOGETHER;
 *   finish_outputs(N, acc, f, y, step): writes the results of these sums, `step` elements apart;
 *   PAIRED: optional: 1 if two neighbouring blocks of channels are copied together, which takes hardly longer than one.
 *     GROUP is 1 then, and copy_pair(f, from, step, n, to, other) copies n pixels of both blocks: the first block to
 *     `to`, the second to `other`. */

#ifndef PAIRED
#define PAIRED 0
#define copy_pair(f, from, step, n, to, other) (void)(to)
#endif
enum { LINES_BYTES = 16384, HEIGHT = 256, LINES_TOGETHER = HEIGHT + 64 };

/* A class: output pixels first, first + every, ...  It reads input pixels origin, origin + step, ..., among which the
 * windows of neighbouring outputs are `stride` apart. */
typedef struct { ptrdiff_t first, every, origin, step, stride; } pixel_class;

/* A span: n outputs of a class from `first_output` on, in all output lines.
 * origin: the input pixel that is copied first; copied pixels begin .. end - 1 lie in the image.
 * pitch: bytes of a copied line.
 * together: output lines that are computed between copies; room: copied lines under them.  The buffer holds these, as a
 * ring, and after them a line of border for all lines outside of the image.
 * second: bytes from the copies of a block to the copies of the next block, if all lines of both fit; else 0. */
typedef struct {
  pixel_class p;
  ptrdiff_t first_output, n, origin, begin, end, pitch, second;
  int together, room;
  uint8_t *buffer;
} span;

/* Copies n groups of which all pixels lie in the image: four at a time, and the last four again. */
PL_INLINE void copy_whole(const filter *f, const element *from, ptrdiff_t step, ptrdiff_t n, uint8_t *restrict to) {
  const element *x[GROUP];
#define COPY(at) \
  { \
    _Pragma("GCC unroll 4") for (int k = 0; k < GROUP; k++) x[k] = from + ((at) * GROUP + k) * step; \
    copy_group(f, x, ~(uint32_t)0, to + (at) * GROUP_BYTES); \
  }
  if (GROUP_BYTES > 8 || n < 4) {
#pragma GCC unroll 4
    for (ptrdiff_t i = 0; i < n; i++) COPY(i)
    return;
  }
  const element *const last = from + (n - 4) * step;
  uint8_t *const last_to = to + (n - 4) * GROUP_BYTES;
  for (ptrdiff_t left = n; left >= 4; left -= 4, from += 4 * step, to += 4 * GROUP_BYTES) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) COPY(i)
  }
  from = last, to = last_to;
  if (n % 4)
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) COPY(i)
#undef COPY
}

/* A group at the edge of the image.  at: the offset of each pixel, or of the nearest one inside; keep: see
 * copy_group. */
typedef struct { ptrdiff_t at[GROUP]; uint32_t keep; } edge;
static edge edge_of(const span *p, ptrdiff_t group, ptrdiff_t step) {
  edge e = {.keep = 0};
  for (int k = 0; k < GROUP; k++) {
    const ptrdiff_t i = group * GROUP + k;
    e.at[k] = (i < p->begin ? p->begin : i >= p->end ? p->end - 1 : i) * step;
    if (i >= p->begin && i < p->end) e.keep |= (uint32_t)255 << (8 * k);
  }
  return e;
}
PL_INLINE void copy_edge(const filter *f, const element *from, const edge *e, uint8_t *to) {
  const element *x[GROUP];
#pragma GCC unroll 4
  for (int k = 0; k < GROUP; k++) x[k] = from + e->at[k];
  copy_group(f, x, e->keep, to);
}

/* Copies groups begin .. end - 1 of a line of fewer than NR channels, and reads nothing past its end. */
static void copy_narrow(const pl_dw_lines *g, const filter *f, const span *p, const element *from, ptrdiff_t step,
                        ptrdiff_t begin, ptrdiff_t end, uint8_t *to) {
  element zero;
  memset(&zero, *g->zero, sizeof zero);
  for (ptrdiff_t group = begin; group < end; group++) {
    element pixel[GROUP][NR];
    const element *x[GROUP];
    for (int k = 0; k < GROUP; k++) {
      const ptrdiff_t i = group * GROUP + k;
      const int inside = i >= p->begin && i < p->end;
      for (ptrdiff_t j = 0; j < NR; j++) pixel[k][j] = inside && j < g->c ? from[i * step + j] : zero;
      x[k] = pixel[k];
    }
    copy_group(f, x, ~(uint32_t)0, to + group * GROUP_BYTES);
  }
}

/* Copies input lines first + begin .. first + end - 1 for the block of channels from channel c on, and sets
 * lines[i] to the copy of line first + i.  next: the line of the ring that the first copy takes; returns the next free
 * one. */
static __attribute__((noinline)) int copy_lines(const pl_dw_lines *g, const filter *f, const span *from, ptrdiff_t c,
                                                int first, int begin, int end, int next, const uint8_t **lines) {
  const span part = *from; /* a local copy: stores through `to` cannot change it */
  const ptrdiff_t step = part.p.step * g->c, at = part.origin * g->c + c, pitch = part.pitch;
  const int narrow = g->c < NR;
  /* NR elements of the pixels before `safe` can be read. */
  const ptrdiff_t safe = part.end - (narrow ? (NR - g->c + step - 1) / step : 0);
  const ptrdiff_t groups = (part.end + GROUP - 1) / GROUP;
  const ptrdiff_t left = part.begin / GROUP, whole = (part.begin + GROUP - 1) / GROUP;
  const ptrdiff_t right = safe < whole * GROUP ? whole : safe / GROUP;
  const edge left_edge = edge_of(&part, left, step), right_edge = edge_of(&part, right, step);
  const int room = part.room, stride = g->stride, fh = g->fh, none = part.begin >= part.end;
  const void *const *const rows = (const void *const *)g->row + first;
  for (int i = begin; i < end; i++) {
    if (stride > fh && i % stride >= fh) continue; /* no window reads it */
    const int outside = none || !rows[i];
    uint8_t *const to = part.buffer + (outside ? room : next) * pitch;
    lines[i] = to;
    if (outside) continue;
    const element *const row = (const element *)rows[i] + at;
    copy_whole(f, row + whole * GROUP * step, step, right - whole, to + whole * GROUP_BYTES);
    if (narrow) {
      if (left < whole) copy_narrow(g, f, &part, row, step, left, whole, to);
      if (right < groups) copy_narrow(g, f, &part, row, step, right, groups, to);
    } else {
      if (left < whole) copy_edge(f, row, &left_edge, to + left * GROUP_BYTES);
      if (right < groups) copy_edge(f, row, &right_edge, to + right * GROUP_BYTES);
    }
    if (++next == room) next = 0;
  }
  return next;
}

/* Copies all input lines for two blocks, from channel c on; lines[k][i]: the copy of line i for block k. */
static __attribute__((noinline)) void copy_blocks(const pl_dw_lines *g, const filter *f, const span *from,
                                                  ptrdiff_t c, const uint8_t *lines[2][LINES_TOGETHER]) {
  const span part = *from;
  const ptrdiff_t step = part.p.step * g->c, at = (part.origin + part.begin * part.p.step) * g->c + c;
  const void *const *const rows = (const void *const *)g->row;
  for (int i = 0; i < part.room; i++) {
    if (g->stride > g->fh && i % g->stride >= g->fh) continue; /* no window reads it */
    const int outside = part.begin >= part.end || !rows[i];
    uint8_t *const to = part.buffer + (outside ? part.room : i) * part.pitch;
    uint8_t *const first = to + part.begin * GROUP_BYTES;
    lines[0][i] = to, lines[1][i] = to + part.second;
    if (!outside)
      copy_pair(f, (const element *)rows[i] + at, step, part.end - part.begin, first, first + part.second);
  }
}

/* Computes n outputs of a line, `step` elements apart.  narrow: there are c < NR channels; width: see `outputs`. */
PL_INLINE void line_outputs(int narrow, int stride, int width, ptrdiff_t n, ptrdiff_t c, const filter *f,
                            const uint8_t *const *lines, element *y, ptrdiff_t step) {
  element rest[MAX_TOGETHER][NR];
  for (ptrdiff_t i = 0, together; i < n; i += together, y += together * step) {
    sums acc[MAX_TOGETHER];
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
    together = !narrow && !width && n - i > TOGETHER ? MAX_TOGETHER : TOGETHER;
    const ptrdiff_t missing = i + together - n;
    if (GROUP == 1 && missing > 0 && missing <= i) i -= missing, y -= missing * step; /* some outputs again */
    const ptrdiff_t offset = i * stride / GROUP * GROUP_BYTES;
    const int whole = !narrow && n - i >= together;
    element *const to = whole ? y : rest[0];
    const ptrdiff_t by = whole ? step : NR;
    if (MAX_TOGETHER > TOGETHER && together == MAX_TOGETHER) {
      outputs(MAX_TOGETHER, stride, width, f, lines, offset, acc);
      finish_outputs(MAX_TOGETHER, acc, f, to, by);
    } else {
      outputs(TOGETHER, stride, width, f, lines, offset, acc);
      finish_outputs(TOGETHER, acc, f, to, by);
    }
    for (ptrdiff_t k = 0; !whole && k < n - i && k < together; k++)
      if (narrow) for (ptrdiff_t j = 0; j < NR && j < c; j++) y[k * step + j] = rest[k][j];
      else memcpy(y + k * step, rest[k], sizeof rest[k]);
  }
}

/* Computes a span for the block of channels from channel c on.  narrow, width: see line_outputs; stride: the
 * stride of the class, or 0 if it is no constant; copied: the lines of the block, if copy_blocks() has copied them. */
PL_INLINE void block_outputs(int narrow, int stride, int width, const pl_dw_lines *g, const span *part,
                             const filter *f, ptrdiff_t c, const uint8_t *const *copied, element *y) {
  const uint8_t *lines[LINES_TOGETHER], *const *const source = copied ? copied : lines;
  const ptrdiff_t step = part->p.every * g->channels;
  const int by = stride ? stride : (int)part->p.stride;
  const int shared = g->fh > g->stride ? g->fh - g->stride : 0; /* input lines that the next output line reads again */
  y += (part->p.first + part->first_output * part->p.every) * g->channels + c;
  for (int i = 0, held = 0, next = 0, m; i < g->lines; i += m) {
    m = g->lines - i < part->together ? g->lines - i : part->together;
    if (!copied) next = copy_lines(g, f, part, c, i * g->stride, held, (m - 1) * g->stride + g->fh, next, lines);
    for (int k = 0; k < m; k++, y += g->y_line)
      line_outputs(narrow, by, width, part->n, g->c, f, source + k * g->stride, y, step);
    if (copied) break; /* all of them */
    for (held = 0; held < shared; held++) lines[held] = lines[m * g->stride + held];
  }
}
#define BLOCK(name, narrow, stride, width) \
  static __attribute__((noinline)) void name(const pl_dw_lines *g, const span *part, const filter *f, ptrdiff_t c, \
                                             const uint8_t *const *copied, element *y) { \
    block_outputs(narrow, stride, width, g, part, f, c, copied, y); \
  }
BLOCK(block_1, 0, 1, 0)
BLOCK(block_2, 0, 2, 0)
BLOCK(block_any, 0, 0, 0)
BLOCK(block_narrow, 1, 0, 0)
WIDTHS(BLOCK)

/* Sets `part` to n outputs of its class, and fills the buffer with the border, unless the span before has left the same
 * one there: copies overwrite only pixels in the image. */
static void begin_span(const pl_dw_lines *g, const filter *f, ptrdiff_t first_output, ptrdiff_t n, span *part) {
  const pixel_class *const p = &part->p;
  const span before = *part;
  const ptrdiff_t all = (n + TOGETHER - 1) / TOGETHER * TOGETHER, c = g->c;
  const ptrdiff_t groups = ((all - 1) * p->stride + g->fw + GROUP - 1) / GROUP;
  const ptrdiff_t origin = p->origin + first_output * p->stride * p->step, to_the_right = g->width - origin;
  const ptrdiff_t inside = to_the_right < 0 ? 0 : (to_the_right + p->step - 1) / p->step;
  part->first_output = first_output, part->n = n, part->origin = origin, part->pitch = groups * GROUP_BYTES;
  part->begin = origin < 0 ? (p->step - 1 - origin) / p->step : 0;
  part->end = inside < groups * GROUP ? inside : groups * GROUP;
  const ptrdiff_t fit = LINES_BYTES / part->pitch - 1, most = fit < LINES_TOGETHER ? fit : LINES_TOGETHER;
  const ptrdiff_t together = (most - g->fh) / g->stride + 1;
  part->together = together < g->lines ? (int)together : g->lines;
  part->room = (part->together - 1) * g->stride + g->fh;
  const ptrdiff_t bytes = (part->room + 1) * part->pitch;
  part->second = PAIRED && part->together == g->lines && 2 * bytes <= LINES_BYTES ? bytes : 0;
  if (part->begin != before.begin || part->end != before.end || part->pitch != before.pitch ||
      part->room != before.room)
    memset(part->buffer, border(g, f), (size_t)(bytes + part->second));
}

/* Computes all output lines of g; returns 0 if the filter is too large for the buffers. */
static int depthwise_lines(const pl_dw_lines *g, const parameters *all, element *y) {
  uint8_t buffer[LINES_BYTES] __attribute__((aligned(64)));
  filter f[1 + PAIRED];
  ptrdiff_t common = g->stride, rest = g->dilation;
  while (rest) { /* the greatest common divisor */
    const ptrdiff_t r = common % rest;
    common = rest, rest = r;
  }
  span part = {.p = {.every = g->dilation / common, .step = g->dilation, .stride = g->stride / common},
                .buffer = buffer};
  pixel_class *const p = &part.p;
  const ptrdiff_t fit = (LINES_BYTES / ((g->fh + 1) * GROUP_BYTES) * GROUP - g->fw) / p->stride + 1;
  const ptrdiff_t most = fit / MAX_TOGETHER * MAX_TOGETHER; /* lines are copied for a multiple of outputs */
  if (fit < MAX_TOGETHER || g->fh > HEIGHT || !fits_filter(g)) return 0;
  const uint8_t *lines[2][LINES_TOGETHER];
  void (*block)(const pl_dw_lines *, const span *, const filter *, ptrdiff_t, const uint8_t *const *, element *) =
      g->c < NR ? block_narrow : p->stride == 1 ? block_1 : p->stride == 2 ? block_2 : block_any;
#define CHOOSE(name, narrow, own_stride, own_width) \
  if (g->c >= NR && p->stride == (own_stride) && g->fw == (own_width)) block = name;
  WIDTHS(CHOOSE)
#undef CHOOSE
  const int single = p->every == 1 && g->pixels <= most; /* does one span hold all outputs? */
  for (ptrdiff_t b = 0, blocks; b * NR < g->c; b += blocks) {
    blocks = PAIRED && (b + 2) * NR <= g->c ? 2 : 1;
    for (ptrdiff_t k = 0; k < blocks; k++) load_filter(g, (int)p->stride, all, b + k, &f[k]);
    for (p->first = 0; p->first < p->every && p->first < g->pixels; p->first++) {
      const ptrdiff_t outputs = (g->pixels - p->first + p->every - 1) / p->every;
      p->origin = p->first * g->stride - g->pad;
      for (ptrdiff_t first_output = 0, n; first_output < outputs; first_output += n) {
        n = outputs - first_output < most ? outputs - first_output : most;
        if (!single || b == 0) begin_span(g, f, first_output, n, &part);
        const int copied = blocks > 1 && part.second;
        if (copied) copy_blocks(g, f, &part, b * NR, lines);
        for (ptrdiff_t k = 0; k < blocks; k++)
          block(g, &part, &f[k], pl_block_start(b + k, NR, g->c), copied ? lines[k] : NULL, y);
      }
    }
  }
  return 1;
}
