# Convolutions that read their rows from lines of the image, each of which is packed once, or read in place.
#
# With one group, the row of an output pixel is the lines of the image under the filter (pl_a_layout), and the rows of
# neighbours overlap.  Lines are packed, with their padding, into a line buffer on the stack.
from pylite._core.product.tasks cimport MAX_MR, Output, Task, Tasks, fast_div, padded
from pylite._core.product.window cimport A_PANEL_BYTES, CHUNK, Window
from pylite._core.simd cimport pl_a_layout, pl_tile

cdef enum:
    MAX_CHUNK = 256         # output pixels of a task that packs lines,
    MOST_DIRECT = 120       # and of one that reads the image in place
    CHUNK_BYTES = 24576     # of the lines that a task reads
    MIN_AHEAD = 4           # the least output lines for which packing input lines ahead is faster


cdef inline bint padded_lines(const pl_tile *t, ptrdiff_t groups, ptrdiff_t fh, ptrdiff_t line) noexcept nogil:
    """Is each of fh lines of `line` weights padded to a multiple of ka, so that lines of the image can be read?

    If the padding would double the number of products, gathering the lines takes less time.
    """
    return (groups == 1 and fh > 1 and line % t.ka != 0 and fh * (line + t.ka) <= CHUNK
            and (t.ka < 8 or fh * padded(line, t.ka) < 2 * padded(fh * line, t.ka)))


cdef struct Lines:
    pl_a_layout shape
    ptrdiff_t line          # elements of a line of the filter
    ptrdiff_t pitch         # from one packed line to the next, in elements; shape.pitch is that of the filter's lines
    ptrdiff_t pixels        # of the output
    int chunk               # output pixels of a task
    int passes              # number of the filter's lines if each has sums of its own, else 1
    ptrdiff_t most, ahead   # lines that the buffer holds; output lines whose input is packed at once
    ptrdiff_t reach, down   # packed lines of one output line; from one line of the filter to the next among them


cdef inline ptrdiff_t span_of(const Window *g, const Output *o) noexcept nogil:
    return o.span if g.direct else g.ow


cdef inline bint plan_lines(Lines *l, const Window *g, Output *o, const pl_tile *t, ptrdiff_t item, ptrdiff_t groups,
                            bint adds=False):
    """If reading rows from lines is possible and faster, fill l and divide o by its lines; else return False.

    item: bytes of an element of the image; adds: sums of lines may be added up, as those of dilated filters must.
    """
    cdef ptrdiff_t c = g.length // item, line = g.fw * c, most, pieces, line_size, behind = 0
    cdef ptrdiff_t extent = (g.fw - 1) * g.dilation_w + 1
    cdef bint packed = padded_lines(t, groups, g.fh, line) and g.dilation_w == 1
    cdef bint dilated = extent != g.fw      # then taps of a line are runs of their own
    if groups > 1 or line * g.fh == 0 or (dilated and ((g.fh > 1 and not adds) or c % t.ka)):
        return False
    # Taps are gathered, not lines read, where output lines of a few pixels would not fill a tile, unless a tap is so
    # short that gathering by the byte takes longer.
    if not g.direct and not packed:
        if (g.ow < 5 and g.length * g.fw > 16) or (g.fh > 1 and line % t.ka):
            return False
        if g.fh == g.fw == 1 and (g.stride_w > 2 or c > 64):
            return False
    # The longest chunk that fits, made equal to the others of the line.
    most = CHUNK_BYTES // t.bytes // (g.fh * c) - extent
    most = max(most // g.stride_w // t.mr, <ptrdiff_t>1) * t.mr
    most = min(most, <ptrdiff_t>(MOST_DIRECT if g.direct else MAX_CHUNK))
    pieces = (span_of(g, o) + most - 1) // most
    most = min(padded((span_of(g, o) + pieces - 1) // pieces, t.mr), span_of(g, o))
    line_size = ((most - 1) * g.stride_w + extent) * c
    if most > 1:        # products read full tiles
        behind = (t.mr - 1) * g.stride_w * c
    if (line_size * g.fh + behind) * t.bytes > A_PANEL_BYTES:
        if not packed:
            return False
        most, line_size, behind = 1, line, 0        # weights that are padded by lines need them; a pixel's own fit
    l.shape.lines, l.shape.depth, l.shape.step, l.shape.pitch = g.fh, padded(line, t.ka), g.stride_w * c, line_size
    l.line, l.pitch, l.chunk, l.passes, l.pixels = line, line_size, <int>most, 1, o.span * o.lines
    if dilated:
        l.passes = g.fh
        l.shape.lines, l.shape.depth, l.shape.pitch, l.line = g.fw, c, g.dilation_w * c, c
    if not g.direct:
        o.lines = o.span * o.lines // g.ow
        o.span = g.ow
    l.most = (A_PANEL_BYTES // t.bytes - behind) // line_size
    pieces = min(l.most, CHUNK_BYTES // t.bytes // line_size)
    l.reach, l.down, l.ahead = (g.fh - 1) * g.dilation_h + 1, g.dilation_h, 1
    if pieces >= l.reach > 1 and (g.dilation_h == 1 or (
            l.chunk == g.ow and l.reach + (g.oh - 1) * g.stride_h < g.fh * g.oh)):
        l.ahead = (pieces - l.reach) // g.stride_h + 1
    if l.ahead >= MIN_AHEAD:
        l.most = pieces
    else:
        l.ahead = 1
        if g.dilation_h > 1:        # then only the lines at the filter's taps are packed
            l.reach, l.down = g.fh, 1
    if not dilated:
        l.shape.pitch *= l.down
    return True


cdef struct LineBuffer:
    ptrdiff_t row, lines    # it holds `lines` lines, from the first under the windows of output line `row` on
    ptrdiff_t ready         # output lines, from the last requested one on, whose lines are all packed


cdef inline ptrdiff_t extend_line_buffer(const Lines *l, const Window *g, ptrdiff_t row, ptrdiff_t pixels,
                                         ptrdiff_t rows, LineBuffer *buffer, ptrdiff_t *begin) noexcept nogil:
    """Make the buffer hold the lines under output line `row` (of all images); returns the place of the first one.

    pixels: of the output; rows: the caller's output lines from `row` on; lines of some may be packed ahead.
    The caller packs lines begin[0]..buffer.lines, counted from the first under buffer.row.
    """
    cdef ptrdiff_t first = (row - buffer.row) * g.stride_h, ahead
    if (g.fh == 1 or buffer.lines == 0 or row < buffer.row or fast_div(row, g.oh) != fast_div(buffer.row, g.oh)
            or l.down != g.dilation_h or pixels != g.ow or first + l.reach > l.most):
        buffer.row, buffer.lines, first = row, 0, 0
    begin[0] = max(first, buffer.lines)
    if first + l.reach > buffer.lines:
        ahead = 1
        if pixels == g.ow:
            ahead = min(min(rows, l.ahead), g.oh - (row - fast_div(row, g.oh) * g.oh))
            if first:
                ahead = max(<ptrdiff_t>1, min(ahead, (l.most - first - l.reach) // g.stride_h + 1))
        buffer.lines = first + l.reach + (ahead - 1) * g.stride_h
        buffer.ready = ahead
    else:
        buffer.ready = 1
    return first


cdef inline bint next_lines(const Tasks *t, const Output *o, ptrdiff_t done, LineBuffer *buffer,
                            Task *task) noexcept nogil:
    """Move the task on over `done` output lines where further lines are packed and the task has all panels."""
    buffer.ready -= done
    if buffer.ready <= 0 or t.splits > 1:
        return False
    task.y += done * o.sh
    return True


cdef inline bint in_place(ptrdiff_t position, ptrdiff_t rows, ptrdiff_t total) noexcept nogil:
    """May products read these rows in place?  They read full tiles, and must not read past the last row."""
    return rows == 1 or position + rows + MAX_MR <= total
