# Matrix products over the rows that a window gathers: how the work is cut, and sums of any depth.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from pylite._core.kernels.window cimport CHUNK, A_PANEL_BYTES, Line, Window, copy_row, pl_fill, see_line
from pylite._core.simd cimport (
    PL_SLACK,
    pl_columns,
    pl_packed_layout,
    pl_pool,
    pl_a_layout,
    pl_slots,
    pl_tile,
    pool_threads,
)

cdef extern from "rounding.h" nogil:
    int32_t pl_mbqm32(int32_t x, int32_t m, int e)
    bint pl_quantize_multiplier(double d, int32_t *m, int32_t *e)
    int32_t pl_quantization(float low, float high, bint asymmetric, float *scale, float *inverse)

cdef extern from *:
    """
    /* a / b, at once where it is 0 or a, as it mostly is where work is handed out. */
    static inline __attribute__((always_inline)) ptrdiff_t pl_share(ptrdiff_t a, ptrdiff_t b) {
      return a < b ? 0 : b == 1 ? a : a / b;
    }
    """
    ptrdiff_t share "pl_share"(ptrdiff_t a, ptrdiff_t b) noexcept nogil


cdef enum:
    MAX_MR = 16             # limits of pl_tile
    MAX_NR = 64
    MAX_CHUNK = 256         # output pixels that are done with at once where images are used line by line,
    MOST_DIRECT = 120       # as they are,
    CHUNK_BYTES = 24576     # and what they may see
    FEW = 4                 # fewer output lines are not worth laying lines ahead for
    ROW = 2048              # a single row is put down in
    ALONE = 1 << 17         # fewer products are done before another thread has begun


cdef inline ptrdiff_t padded(ptrdiff_t n, ptrdiff_t to) noexcept nogil:
    return (n + to - 1) // to * to


# How sums are finished, column by column: the rows bias, mult, odd, left, right, half, sign of pl_columns, int32
# (PARAMETERS, size), and the bits of its scale, rest and start.  They start as zeros; set_column for each column in
# use, then finish_columns, and fit_columns where that is to be tried.
cdef enum:
    PARAMETERS = 10
    UNFIT = -1              # stands for the first column's start where float32 is not to be used


cdef inline void set_column(int32_t *rows, ptrdiff_t size, ptrdiff_t j, int64_t start, int32_t mult,
                            int32_t shift) noexcept nogil:
    """start: what the accumulator starts from, wrapped to int32; mult, shift: of MBQM32."""
    rows[j] = <int32_t>start
    rows[size + j] = mult
    if shift > 0:
        rows[3 * size + j] = shift
    elif shift < 0:
        rows[4 * size + j] = -shift
        rows[5 * size + j] = <int32_t>((<int64_t>1 << -shift) >> 1)


cdef inline void set_constant(int32_t *rows, ptrdiff_t size, ptrdiff_t j, int64_t start, int32_t mult,
                              int32_t shift) noexcept nogil:
    """A column whose weights are all 0, restated with small numbers: often its bias is huge, beyond float32.

    The root of an eighth is a scale that float32 can do with no trouble: few steps are close to a whole number.
    """
    cdef int32_t result = max(-(1 << 20), min(pl_mbqm32(<int32_t>start, mult, shift), 1 << 20))
    # twice the result before it is shifted
    set_column(rows, size, j, <int32_t>(result * 2.8284271247461903 + (.5 if result >= 0 else -.5)), 1518500250, -1)


cdef inline void finish_columns(int32_t *rows, ptrdiff_t size) noexcept nogil:
    cdef ptrdiff_t j
    for j in range(size):
        rows[2 * size + j] = rows[size + (j | 1)]
        rows[6 * size + j] = 31 if rows[4 * size + j] else 32
    if size:
        rows[9 * size] = UNFIT


cdef inline void fit_columns(const pl_slots *slots, int32_t *rows, ptrdiff_t size, const double *real, ptrdiff_t depth,
                             int low, int high, const uint8_t *panels, ptrdiff_t nbytes) noexcept nogil:
    """Try to finish these columns of sums of `depth` products in float32, with results between low and high.

    real: the scales of FULLY_CONNECTED, or NULL; panels: of their weights, or NULL.
    """
    cdef int unfit = 0
    if size:
        rows[9 * size] = 0
        slots.fit_q8(size, rows, rows + size, rows + 3 * size, rows + 4 * size, real, 2. * 255 * 128 * depth, low, high,
                     panels, nbytes, <float *>(rows + 7 * size), <float *>(rows + 8 * size), <float *>(rows + 9 * size),
                     &unfit)
        if unfit:
            rows[9 * size] = UNFIT


cdef struct Output:
    char *y                 # (n, oh, ow, columns), strided; strides in bytes
    ptrdiff_t sn, sh, sw
    ptrdiff_t oh
    ptrdiff_t span, lines   # runs of output pixels with equal steps, and how many there are


cdef inline void set_output(Output *o, char *y, ptrdiff_t n, ptrdiff_t oh, ptrdiff_t ow, ptrdiff_t sn, ptrdiff_t sh,
                            ptrdiff_t sw):
    o.y, o.sn, o.sh, o.sw, o.oh = y, sn, sh, sw, oh
    if (sh == ow * sw or oh == 1) and (sn == oh * ow * sw or n == 1):
        o.span, o.lines = n * oh * ow, 1
    else:
        o.span, o.lines = ow, n * oh


# Work is cut into tasks: an A panel of rows times some of the panels of one group.
cdef struct Tasks:
    ptrdiff_t mr, a_panels    # rows of an A panel; A panels per line
    ptrdiff_t panels, nr    # of a group
    ptrdiff_t splits, groups


cdef struct Task:
    ptrdiff_t group, position
    int rows
    ptrdiff_t begin, end    # columns of the group
    char *y                 # first pixel, first column of y


cdef inline ptrdiff_t cut(Tasks *t, const Output *o, const pl_tile *tile, ptrdiff_t columns, ptrdiff_t groups,
                          pl_pool *pool) noexcept nogil:
    """Fill t; returns the number of tasks.

    Panels are divided only where there are too few A panels to share out, and A panels where that does not suffice.
    """
    cdef ptrdiff_t wanted = 8 * pool_threads(pool) if pool_threads(pool) > 1 else 1
    t.mr, t.nr, t.groups = tile.mr, tile.nr, groups
    t.panels = 1 if columns <= t.nr else (columns + t.nr - 1) // t.nr
    cdef ptrdiff_t a_panels = o.lines * groups, least = share(wanted, 4 * max(a_panels, <ptrdiff_t>1) * t.panels)
    if least > 1 and t.mr > MAX_MR:
        t.mr = min(t.mr, max(<ptrdiff_t>MAX_MR, padded((o.span + least - 1) // least, 4)))
    t.a_panels = 1 if o.span == 1 else (o.span + t.mr - 1) // t.mr
    a_panels *= t.a_panels
    t.splits = 0 if a_panels == 0 else min(t.panels, share(wanted + a_panels - 1, a_panels))
    return a_panels * t.splits


cdef inline pl_pool *parallel_pool(pl_pool *pool, ptrdiff_t products) noexcept nogil:
    """The pool, or NULL where that many products are done before another thread has begun."""
    return pool if products >= ALONE else NULL


cdef inline pl_pool *parallel_pool_q8(pl_pool *pool, const pl_slots *slots, ptrdiff_t products) noexcept nogil:
    """The same for products of bytes, of which vectors with 16 columns do twice as many in that time."""
    return parallel_pool(pool, products * 4 // slots.q8.nv)


cdef inline void take(const Tasks *t, const Output *o, ptrdiff_t columns, ptrdiff_t i, Task *task) noexcept nogil:
    """Task number i."""
    cdef ptrdiff_t a_panel = share(i, t.splits)
    cdef ptrdiff_t split = i - a_panel * t.splits
    cdef ptrdiff_t line = share(a_panel, t.a_panels), at = (a_panel - line * t.a_panels) * t.mr, image
    task.group = share(line, o.lines)
    line -= task.group * o.lines
    image = share(line, o.oh)
    task.position = line * o.span + at
    task.rows = <int>min(t.mr, o.span - at)
    task.begin = share(split * t.panels, t.splits) * t.nr
    task.end = min(columns, share((split + 1) * t.panels, t.splits) * t.nr)
    task.y = o.y + image * o.sn + (line - image * o.oh) * o.sh + at * o.sw


cdef inline bint padded_lines(const pl_tile *t, ptrdiff_t groups, ptrdiff_t fh, ptrdiff_t line) noexcept nogil:
    """Is each of fh lines of `line` weights padded to a multiple of ka?  Then images serve the filter line by line.

    Where the padding would double the products, gathering the lines takes less time.
    """
    return (groups == 1 and fh > 1 and line % t.ka != 0 and fh * (line + t.ka) <= CHUNK
            and (t.ka < 8 or padded(line, t.ka) < 2 * line))


cdef struct Lines:
    pl_a_layout shape
    ptrdiff_t line          # elements of a run of the filter
    ptrdiff_t pitch         # from one laid line to the next, in elements; shape has that of the filter's
    ptrdiff_t pixels        # of the output
    int chunk               # output pixels of a task
    int passes              # the filter's lines, where each has sums of its own; else 1
    ptrdiff_t most, ahead   # lines of the image that are laid behind one another, for how many output lines at once
    ptrdiff_t reach, down   # lines that are laid for one output line; from a line of the filter to the next among them


cdef inline bint plan_lines(Lines *l, const Window *g, Output *o, const pl_tile *t, ptrdiff_t item, ptrdiff_t groups,
                            bint adds=False):
    """Can rows be read from lines of the image, and is it worth while?  Then fill l, and part o by its lines; else
    leave both as they are.

    item: bytes of an element of the image; adds: sums of lines may be added up, as those of dilated filters must.
    """
    cdef ptrdiff_t c = g.length // item, line = g.fw * c, most, pieces, room, behind = 0
    cdef ptrdiff_t extent = (g.fw - 1) * g.dilation_w + 1
    cdef bint packed = padded_lines(t, groups, g.fh, line) and g.dilation_w == 1
    cdef bint apart = extent != g.fw    # taps of a line are runs of their own then
    if groups > 1 or line * g.fh == 0 or (apart and ((g.fh > 1 and not adds) or c % t.ka)):
        return False
    # Output lines of a few pixels fill no tile, which is better than gathering their taps by the byte.
    if not g.direct and not packed:
        if (g.ow < 5 and g.length * g.fw > 16) or (g.fh > 1 and line % t.ka):
            return False
        if g.fh == g.fw == 1 and (g.stride_w > 2 or c > 64):
            return False
    # The longest chunk that fits, and then as many of a kind.
    most = CHUNK_BYTES // t.bytes // (g.fh * c) - extent
    most = max(most // g.stride_w // t.mr, <ptrdiff_t>1) * t.mr
    most = min(most, <ptrdiff_t>(MOST_DIRECT if g.direct else MAX_CHUNK))
    pieces = (span_of(g, o) + most - 1) // most
    most = min(padded((span_of(g, o) + pieces - 1) // pieces, t.mr), span_of(g, o))
    room = ((most - 1) * g.stride_w + extent) * c
    if most > 1:        # products read whole tiles
        behind = (t.mr - 1) * g.stride_w * c
    if (room * g.fh + behind) * t.bytes > A_PANEL_BYTES:
        return False
    l.shape.lines, l.shape.depth, l.shape.step, l.shape.pitch = g.fh, padded(line, t.ka), g.stride_w * c, room
    l.line, l.pitch, l.chunk, l.passes, l.pixels = line, room, <int>most, 1, o.span * o.lines
    if apart:
        l.passes = g.fh
        l.shape.lines, l.shape.depth, l.shape.pitch, l.line = g.fw, c, g.dilation_w * c, c
    if not g.direct:
        o.lines = o.span * o.lines // g.ow
        o.span = g.ow
    l.most = (A_PANEL_BYTES // t.bytes - behind) // room
    pieces = min(l.most, CHUNK_BYTES // t.bytes // room)
    l.reach, l.down, l.ahead = (g.fh - 1) * g.dilation_h + 1, g.dilation_h, 1
    if pieces >= l.reach > 1 and (g.dilation_h == 1 or (
            l.chunk == g.ow and l.reach + (g.oh - 1) * g.stride_h < g.fh * g.oh)):
        l.ahead = (pieces - l.reach) // g.stride_h + 1
    if l.ahead >= FEW:
        l.most = pieces
    else:
        l.ahead = 1
        if g.dilation_h > 1:        # only the lines that the filter sees then
            l.reach, l.down = g.fh, 1
    if not apart:
        l.shape.pitch *= l.down
    return True


# Lines of an image that lie in an A panel already: those that output line `row` sees first, and how many.
cdef struct LineBuffer:
    ptrdiff_t row, lines
    ptrdiff_t ready         # output lines from the last one asked for on whose lines all lie there


cdef inline ptrdiff_t extend_line_buffer(const Lines *l, const Window *g, ptrdiff_t row, ptrdiff_t pixels,
                                         ptrdiff_t rows, LineBuffer *line_buffer, ptrdiff_t *begin) noexcept nogil:
    """The line of the buffer where output line `row` (of all images) begins to read; packed already, or to be packed.

    rows: the caller's output lines from there on.  Lines begin[0]..line_buffer.lines are still to be packed, for
    some of these, too; they count from what line_buffer.row sees first.
    """
    cdef ptrdiff_t first = (row - line_buffer.row) * g.stride_h, ahead
    if (g.fh == 1 or line_buffer.lines == 0 or row < line_buffer.row or share(row, g.oh) != share(line_buffer.row, g.oh)
            or l.down != g.dilation_h or pixels != g.ow or first + l.reach > l.most):
        line_buffer.row, line_buffer.lines, first = row, 0, 0
    begin[0] = max(first, line_buffer.lines)
    if first + l.reach > line_buffer.lines:
        ahead = 1
        if pixels == g.ow:
            ahead = min(min(rows, l.ahead), g.oh - (row - share(row, g.oh) * g.oh))
            if first:
                ahead = max(<ptrdiff_t>1, min(ahead, (l.most - first - l.reach) // g.stride_h + 1))
        line_buffer.lines = first + l.reach + (ahead - 1) * g.stride_h
        line_buffer.ready = ahead
    else:
        line_buffer.ready = 1
    return first


cdef inline bint next_line(const Tasks *t, const Output *o, LineBuffer *line_buffer, Task *task) noexcept nogil:
    """Does what the output line behind the task's sees lie there, too, for all panels?  Then the task goes on to it."""
    line_buffer.ready -= 1
    if line_buffer.ready <= 0 or t.splits > 1:
        return False
    task.y += o.sh
    return True


cdef inline ptrdiff_t span_of(const Window *g, const Output *o) noexcept nogil:
    return o.span if g.direct else g.ow


cdef struct Product8:
    Window window           # rows of the left operand
    const uint8_t *panels   # of the right one, group after group
    ptrdiff_t columns, groups               # columns: of one group
    ptrdiff_t depth, deep, wide             # depth and columns; padded for the tile
    int flip                # of the left operand's bytes
    pl_tile tile
    const pl_slots *slots


cdef inline void accumulate(const Product8 *p, ptrdiff_t group, ptrdiff_t position, int rows, ptrdiff_t j, int n,
                            int32_t *acc, int32_t *sums) noexcept nogil:
    """acc (rows, MAX_NR) = the rows at `position` times columns j..j+n of `group`, in pieces of the depth.

    sums: receives the sum of each row's elements (with the tile's offset), unless NULL.
    """
    cdef pl_a_layout shape
    cdef uint8_t a_panel[2 * MAX_MR * CHUNK + 2 * PL_SLACK]
    cdef uint8_t copies[MAX_MR * CHUNK]
    cdef const uint8_t *src[MAX_MR]
    cdef int32_t part[MAX_MR]
    cdef ptrdiff_t k = 0, piece, size
    cdef ptrdiff_t width = min(<ptrdiff_t>p.tile.nr, padded(p.columns - j, p.tile.nv))
    cdef const uint8_t *panel = p.panels + (group * p.wide + j) * p.deep
    cdef int r, i
    for r in range(rows):
        for i in range(n):
            acc[r * MAX_NR + i] = 0
        if sums != NULL:
            sums[r] = 0
    while k < p.depth:
        piece = min(<ptrdiff_t>CHUNK, p.depth - k)
        size = padded(piece, p.tile.ka)
        for r in range(rows):
            copy_row(&p.window, position + r, group * p.window.length, k, k + piece, &copies[r * CHUNK])
            src[r] = &copies[r * CHUNK]
        shape = pl_packed_layout(size)
        p.slots.pack_a_q8(rows, 1, piece, src, p.flip, a_panel, size)
        p.slots.gemm_s32(rows, n, &shape, a_panel, panel + k * width, acc, MAX_NR)
        if sums != NULL:
            p.slots.sums_q8(rows, &shape, piece, a_panel, part)
            for r in range(rows):
                sums[r] += part[r]
        k += piece


cdef inline bint single_row(const Product8 *p, ptrdiff_t rows) noexcept nogil:
    """Is this what one_row() is for?"""
    return rows == 1 and p.groups == 1 and p.deep <= ROW and p.depth * p.columns < ALONE


cdef inline void one_row(const Product8 *p, const pl_columns *q, int w_zero, const uint8_t *x,
                         uint8_t *y) noexcept nogil:
    """The product of a single row x, whose bytes follow one another, by the caller alone."""
    cdef uint8_t a_panel[2 * ROW + 2 * PL_SLACK]
    cdef pl_a_layout shape = pl_packed_layout(p.deep)
    cdef int32_t term = 0
    cdef ptrdiff_t j = 0
    if p.tile.bytes > 1 or p.deep != p.depth or p.flip ^ p.tile.offset:
        p.slots.pack_a_q8(1, 1, p.depth, &x, p.flip, a_panel, p.deep)
        x = a_panel
    if w_zero:
        p.slots.sums_q8(1, &shape, p.depth, x, &term)
        term *= -w_zero
    while j < p.columns:
        p.slots.gemm_q8(1, <int>min(<ptrdiff_t>p.tile.nr, p.columns - j), &shape, x, p.panels + j * p.deep,
                        &term if w_zero else NULL, q, j, y + j, 0)
        j += p.tile.nr


cdef inline uint8_t *pack_pixels(const Product8 *p, const uint8_t *x, ptrdiff_t step, ptrdiff_t n,
                                 uint8_t *to) noexcept nogil:
    """n pixels of x, `step` bytes apart (0: all the same), to a line in the form of A panels; returns its end."""
    cdef ptrdiff_t c = p.window.length, i, k
    cdef uint8_t mask = <uint8_t>(p.flip ^ p.tile.offset)
    cdef uint64_t word, mask_word = mask * <uint64_t>0x0101010101010101
    if step == c:
        p.slots.pack_a_q8(1, 1, n * c, &x, p.flip, to, n * c)
    elif p.tile.bytes == 1 and c < 8:       # calls would take longer than these bytes
        for i in range(n):
            for k in range(c):
                to[i * c + k] = x[i * step + k] ^ mask
    elif p.tile.bytes == 1 and c % 8 == 0 and c <= 64:
        for i in range(n):
            for k in range(0, c, 8):
                memcpy(&word, x + i * step + k, 8)
                word ^= mask_word
                memcpy(to + i * c + k, &word, 8)
    else:
        for i in range(n):
            p.slots.pack_a_q8(1, 1, c, &x, p.flip, to + i * c * p.tile.bytes, c)
            x += step
    return to + n * c * p.tile.bytes


cdef inline bint in_place(ptrdiff_t position, ptrdiff_t rows, ptrdiff_t total) noexcept nogil:
    """May products read these rows where they lie?  They read whole tiles, and must not read behind the last row."""
    return rows == 1 or position + rows + MAX_MR <= total


cdef inline const uint8_t *pack_lines(const Product8 *p, const Lines *l, bint as_is, ptrdiff_t position,
                                      ptrdiff_t pixels, ptrdiff_t rows, uint8_t *a_panel,
                                      LineBuffer *line_buffer) noexcept nogil:
    """The lines that `pixels` output pixels see, where products can read them; as_is: in the image itself.

    rows: output lines that are asked for one after the other, this one counted.
    """
    cdef Line line
    cdef uint8_t *to = a_panel
    cdef const uint8_t *zero
    cdef ptrdiff_t row, ox, n, first, y, iy, c = p.window.length, step = share(p.window.dilation_h, l.down)
    cdef int border         # a byte of what lies outside
    cdef bint outside
    line_buffer.ready = 1
    if as_is and in_place(position, pixels, l.pixels):
        return p.window.x + position * p.window.sw
    if p.window.direct:
        pack_pixels(p, p.window.x + position * p.window.sw, p.window.sw, pixels, to)
        return a_panel
    row = share(position, p.window.ow)
    ox = position - row * p.window.ow
    first = extend_line_buffer(l, &p.window, row, pixels, rows, line_buffer, &y)
    if y >= line_buffer.lines:
        return a_panel + first * l.pitch * p.tile.bytes
    n = share(line_buffer.row, p.window.oh)
    zero = p.window.zero + n * p.window.zero_step
    border = zero[0] ^ p.flip ^ p.tile.offset
    line = see_line(&p.window, n, ox, pixels)
    iy = (line_buffer.row - n * p.window.oh) * p.window.stride_h - p.window.pad_h + y * step
    while y < line_buffer.lines:
        to = a_panel + y * l.pitch * p.tile.bytes
        outside = line.x == NULL or not 0 <= iy < p.window.h
        n = 1
        if p.tile.bytes > 1:
            to = pack_pixels(p, zero, 0, line.before + line.inside + line.after if outside else line.before, to)
            if not outside:
                to = pack_pixels(p, line.x + iy * p.window.sh, p.window.sw, line.inside, to)
                pack_pixels(p, zero, 0, line.after, to)
        elif outside:
            pl_fill(to, border, (line.before + line.inside + line.after) * c)
        elif p.window.sw == c and line_buffer.lines - y > 1 and step == 1:
            n = min(line_buffer.lines - y, p.window.h - iy)
            p.slots.pack_lines_q8(n, line.before * c, line.inside * c, line.after * c, line.x + iy * p.window.sh,
                                  p.window.sh, p.flip ^ p.tile.offset, border, to, l.pitch)
        else:       # what is too much here lies in the next line, which comes later
            pl_fill(to, border, line.before * c)
            to = pack_pixels(p, line.x + iy * p.window.sh, p.window.sw, line.inside, to + line.before * c)
            pl_fill(to, border, line.after * c)
        iy += n * step
        y += n
    return a_panel + first * l.pitch * p.tile.bytes
