# Convolutions that read their rows from image lines instead of gathering taps (im2col).
#
# The row of an output pixel consists of one run of a group's channels from each image line under the filter
# (pl_a_layout), and the rows of neighbouring pixels overlap.  Each line is therefore packed once, with its padding,
# into a line buffer on the stack, or read in place if there is one group.
from pylite._core.product.division cimport MAX_MR, Division, Output, Piece, fast_div, round_up
from pylite._core.product.window cimport (
    A_PANEL_BYTES,
    SECTION_BYTES,
    Pixel,
    Span,
    Window,
    covered,
    input_span,
    pixel_of,
    reach,
    taps_of,
)
from pylite._core.simd cimport pl_a_layout, pl_tile

cdef enum:
    MAX_PIXELS = 256        # most output pixels of a piece that packs lines
    # Most output pixels of a piece whose rows are the pixels of the image.  Threads share pieces, and longer ones gain
    # little.
    MAX_DIRECT_PIXELS = 120
    CACHED_BYTES = 24576    # most bytes of lines that a piece reads, so that they stay in the first-level cache
    MIN_AHEAD = 4           # least number of output lines for which packing input lines ahead is faster


cdef inline bint padded_lines(const pl_tile *t, ptrdiff_t fh, ptrdiff_t line) noexcept nogil:
    """Are the weights packed with each of the filter's fh lines (`line` weights) padded to a multiple of ka?

    Then rows can be read from image lines.  If padding would double the number of products, gathering is faster.
    """
    return (fh > 1 and line % t.ka != 0 and fh * (line + t.ka) <= SECTION_BYTES
            and (t.ka < 8 or fh * round_up(line, t.ka) < 2 * round_up(fh * line, t.ka)))


cdef inline int pixels_of_piece(const Window *w, ptrdiff_t span, ptrdiff_t row, int rows) noexcept nogil:
    """How many pixels a piece of a 1 x 1 convolution with a stride copies; 0 for other windows.

    A piece gets as many rows as it would without a stride, and pieces are equal, so that few tiles are partly empty.
    span: pixels of a run of the output; row: bytes of a row; rows: of a tile.
    """
    cdef ptrdiff_t most, pieces
    if w.direct or taps_of(w) > 1 or row == 0 or span == 0 or rows == 0:
        return 0
    most = max(min(CACHED_BYTES // row, <ptrdiff_t>MAX_DIRECT_PIXELS) // rows, <ptrdiff_t>1) * rows
    pieces = (span + most - 1) // most
    return <int>round_up((span + pieces - 1) // pieces, rows)


cdef struct Lines:
    pl_a_layout layout      # of the rows; layout.pitch is the distance between lines of the filter
    ptrdiff_t filter_line   # elements of a line of the filter
    ptrdiff_t line_pitch    # elements from one packed line to the next
    int pixels              # of the output, in a piece
    int passes              # products that are added up: one per line of a dilated filter, else 1
    ptrdiff_t capacity      # packed lines that the buffer holds
    ptrdiff_t ahead         # output lines whose input lines are packed at once
    ptrdiff_t window_lines  # packed lines under one output line
    ptrdiff_t filter_step   # packed lines from one line of the filter to the next


cdef inline void plan_buffer(Lines *plan, const Window *w, ptrdiff_t capacity, ptrdiff_t cached):
    """Set plan.capacity, the lines that the buffer holds, and plan.ahead, for how many output lines it packs at once.

    capacity: lines that fit into an A panel; cached: lines that stay in the first-level cache.
    """
    cached = min(capacity, cached)
    plan.capacity, plan.ahead = capacity, 1
    plan.window_lines, plan.filter_step = reach(w.fh, w.dilation_h), w.dilation_h
    if cached >= plan.window_lines > 1 and w.fd == 1 and (w.dilation_h == 1 or (
            plan.pixels == w.ow and covered(w.oh, w.stride_h, plan.window_lines) < w.fh * w.oh)):
        plan.ahead = (cached - plan.window_lines) // w.stride_h + 1
    if plan.ahead >= MIN_AHEAD:
        plan.capacity = cached
    else:
        plan.ahead = 1
        if w.dilation_h > 1 or w.fd > 1:        # pack only the lines on which the filter has taps
            plan.window_lines, plan.filter_step = <ptrdiff_t>w.fd * w.fh, 1


cdef inline bint gathering_is_faster(const Window *w, ptrdiff_t channels, ptrdiff_t lines, int ka):
    """Is gathering taps faster than reading rows from lines?

    Yes if output lines are too short to fill a tile, unless taps of a few bytes make gathering slow.  Yes also if rows
    use only some of a line's pixels.  lines: of the filter; ka: of the tile.
    """
    if (w.ow < 5 and w.length * w.fw > 16) or (lines > 1 and w.fw * channels % ka):
        return True
    return lines == w.fw == 1 and (w.stride_w > 2 or channels > 64)


cdef inline ptrdiff_t line_pixels(const Window *w, const pl_tile *t, ptrdiff_t span, ptrdiff_t column,
                                  ptrdiff_t width):
    """How many of a line's `span` output pixels a piece takes: as many as the cache holds, divided into equal pieces.

    column: elements of all input lines at one x; width: input pixels of a line under one output pixel.
    """
    cdef ptrdiff_t pieces, most = CACHED_BYTES // t.bytes // column - width
    most = max(most // w.stride_w // t.mr, <ptrdiff_t>1) * t.mr
    most = min(most, <ptrdiff_t>(MAX_DIRECT_PIXELS if w.direct else MAX_PIXELS))
    pieces = (span + most - 1) // most
    return min(round_up((span + pieces - 1) // pieces, t.mr), span)


cdef inline bint plan_lines(Lines *plan, const Window *w, Output *o, const pl_tile *t, ptrdiff_t item,
                            bint adds=False):
    """If reading rows from lines is possible and faster, set `plan` and make each run of o one line; else return False.

    item: bytes of an element; adds: can the caller add up the products of several passes, as dilated filters need?
    """
    cdef ptrdiff_t c = w.length // item, line = w.fw * c, pixels, line_size, overrun = 0
    cdef ptrdiff_t lines = w.fd * w.fh, width = reach(w.fw, w.dilation_w), span = o.span if w.direct else w.ow
    cdef bint packed = padded_lines(t, w.fh, line) and w.dilation_w == 1
    cdef bint dilated = width != w.fw       # then each tap of a line is a separate run
    if line * lines == 0 or (dilated and ((lines > 1 and not adds) or c % t.ka or w.fd > 1)):
        return False
    if not w.direct and not packed and gathering_is_faster(w, c, lines, t.ka):
        return False
    pixels = line_pixels(w, t, span, lines * c, width)
    line_size = covered(pixels, w.stride_w, width) * c
    if pixels > 1:      # micro-kernels read full tiles, past the last pixel, too
        overrun = (t.mr - 1) * w.stride_w * c
    if (line_size * lines + overrun) * t.bytes > A_PANEL_BYTES:
        if not packed:
            return False
        pixels, line_size, overrun = 1, line, 0      # weights padded by lines cannot be gathered: one pixel at a time
    plan.layout.lines, plan.layout.depth = <int>lines, round_up(line, t.ka)
    plan.layout.step, plan.layout.pitch = w.stride_w * c, line_size
    plan.filter_line, plan.line_pitch, plan.pixels, plan.passes = line, line_size, <int>pixels, 1
    if dilated:
        plan.passes = w.fh
        plan.layout.lines, plan.layout.depth, plan.layout.pitch, plan.filter_line = w.fw, c, w.dilation_w * c, c
    if not w.direct:
        o.lines = o.span * o.lines // w.ow
        o.span = w.ow
    plan_buffer(plan, w, (A_PANEL_BYTES // t.bytes - overrun) // line_size, CACHED_BYTES // t.bytes // line_size)
    if not dilated:
        plan.layout.pitch *= plan.filter_step
    return True


cdef struct LineBuffer:
    ptrdiff_t group         # whose channels the buffer holds
    ptrdiff_t output_line   # the output line, counted over all images, whose window begins at the buffer's first line
    ptrdiff_t lines         # number of lines in the buffer
    ptrdiff_t unpacked      # index in the buffer of the first line that is not packed yet
    ptrdiff_t image, iz, iy     # the input line that belongs there: its image, plane and line
    Span span               # the pixels of each line, from the group's first channel on
    ptrdiff_t ready         # output lines, from the last requested one on, whose input lines are all packed


cdef inline ptrdiff_t extend_line_buffer(const Lines *plan, const Window *w, const Piece *piece,
                                         ptrdiff_t output_lines, LineBuffer *buffer) noexcept nogil:
    """Make room in the buffer for the input lines under the output pixels of a piece.

    Returns the index in the buffer of the first of these lines.  The caller must then pack lines buffer.unpacked to
    buffer.lines - 1.  output_lines: how many output lines the caller will request, this one included; for some of them
    lines are packed ahead.
    """
    cdef ptrdiff_t line = fast_div(piece.position, w.ow), first = (line - buffer.output_line) * w.stride_h, ahead
    cdef ptrdiff_t pixels = piece.rows
    cdef Pixel o
    if (w.fh == 1 or w.fd > 1 or buffer.lines == 0 or line < buffer.output_line or piece.group != buffer.group
            or fast_div(line, w.oh) != fast_div(buffer.output_line, w.oh) or plan.filter_step != w.dilation_h
            or pixels != w.ow or first + plan.window_lines > plan.capacity):
        buffer.group, buffer.output_line, buffer.lines, first = piece.group, line, 0, 0     # no line is used again
    buffer.unpacked = max(first, buffer.lines)
    if first + plan.window_lines > buffer.lines:
        ahead = 1
        if pixels == w.ow:
            ahead = min(min(output_lines, plan.ahead), w.oh - (line - fast_div(line, w.oh) * w.oh))
            if first:
                ahead = max(<ptrdiff_t>1, min(ahead, (plan.capacity - first - plan.window_lines) // w.stride_h + 1))
        buffer.lines = first + covered(ahead, w.stride_h, plan.window_lines)
        buffer.ready = ahead
    else:
        buffer.ready = 1
    o = pixel_of(w, buffer.output_line * w.ow)
    buffer.image, buffer.span = o.n, input_span(w, o.n, piece.position - line * w.ow, pixels)
    if buffer.span.x != NULL:
        buffer.span.x += piece.group * w.length
    buffer.iz = o.z * w.stride_d - w.pad_d
    buffer.iy = o.y * w.stride_h - w.pad_h + buffer.unpacked * fast_div(w.dilation_h, plan.filter_step)
    return first


cdef inline bint advance_piece(const Division *d, const Output *o, ptrdiff_t done, LineBuffer *buffer,
                               Piece *piece) noexcept nogil:
    """Advance `piece` by `done` output lines.

    Returns False if the input lines of the next output line are not packed, or if several pieces share its A panel.
    """
    buffer.ready -= done
    if buffer.ready <= 0 or d.splits > 1:
        return False
    piece.y += done * o.sh
    return True


cdef inline bint may_read_in_place(ptrdiff_t position, ptrdiff_t rows, ptrdiff_t total) noexcept nogil:
    """May a product read these rows of `total` in place?  It reads full tiles, but must not read past the last row."""
    return rows == 1 or position + rows + MAX_MR <= total
