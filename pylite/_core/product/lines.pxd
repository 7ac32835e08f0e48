# Convolutions that read their rows from image lines instead of gathering taps (im2col).
#
# With one group, the row of an output pixel consists of one run from each image line under the filter (pl_a_layout),
# and the rows of neighbouring pixels overlap.  So each line is packed once, with its padding, into a line buffer on
# the stack, or read in place.
from pylite._core.product.division cimport MAX_MR, Division, Output, Piece, fast_div, round_up
from pylite._core.product.window cimport (
    A_PANEL_BYTES,
    SECTION,
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
    MAX_PIXELS = 256        # most output pixels of a piece that packs lines,
    MAX_DIRECT_PIXELS = 120     # and of a piece whose rows are the pixels of the image
    CACHED_BYTES = 24576    # bytes of lines that a piece reads: they stay in the first-level cache
    MIN_AHEAD = 4           # packing input lines ahead is faster for at least so many output lines


cdef inline bint padded_lines(const pl_tile *t, ptrdiff_t groups, ptrdiff_t fh, ptrdiff_t line) noexcept nogil:
    """Are the weights packed with each of the filter's fh lines (`line` weights) padded to a multiple of ka?

    Then rows can be read from image lines.  If padding would double the number of products, gathering is faster.
    """
    return (groups == 1 and fh > 1 and line % t.ka != 0 and fh * (line + t.ka) <= SECTION
            and (t.ka < 8 or fh * round_up(line, t.ka) < 2 * round_up(fh * line, t.ka)))


cdef inline int pixels_of_piece(const Window *g, ptrdiff_t span, ptrdiff_t groups, ptrdiff_t row,
                                int rows) noexcept nogil:
    """How many pixels a piece copies if a 1x1 filter with a stride reads them; 0 for other windows.

    A piece gets as many rows as without a stride, and few of its tiles are not full.  span: pixels of a run of the
    output; row: bytes of a row; rows: of a tile.
    """
    cdef ptrdiff_t most, pieces
    if groups > 1 or g.direct or taps_of(g) > 1 or row == 0 or span == 0 or rows == 0:
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
    ptrdiff_t capacity      # lines that the buffer holds
    ptrdiff_t ahead         # output lines whose input lines are packed at once
    ptrdiff_t reach         # packed lines under one output line
    ptrdiff_t down          # packed lines from one line of the filter to the next


cdef inline void plan_buffer(Lines *l, const Window *g, ptrdiff_t capacity, ptrdiff_t cached):
    """Choose how many lines the buffer of l holds, and how many are packed ahead.

    capacity: lines that fit into an A panel; cached: lines that stay in the first-level cache.
    """
    cached = min(capacity, cached)
    l.capacity, l.reach, l.down, l.ahead = capacity, reach(g.fh, g.dilation_h), g.dilation_h, 1
    if cached >= l.reach > 1 and g.fd == 1 and (g.dilation_h == 1 or (
            l.pixels == g.ow and covered(g.oh, g.stride_h, l.reach) < g.fh * g.oh)):
        l.ahead = (cached - l.reach) // g.stride_h + 1
    if l.ahead >= MIN_AHEAD:
        l.capacity = cached
    else:
        l.ahead = 1
        if g.dilation_h > 1 or g.fd > 1:        # pack only the lines on which the filter has taps
            l.reach, l.down = <ptrdiff_t>g.fd * g.fh, 1


cdef inline bint gathering_is_faster(const Window *g, ptrdiff_t channels, ptrdiff_t lines, int ka):
    """Is gathering taps faster than reading rows from lines?

    It is if output lines are too short to fill a tile, unless taps of a few bytes make gathering slow, and if only some
    pixels of each line are read.  lines: of the filter; ka: of the tile.
    """
    if (g.ow < 5 and g.length * g.fw > 16) or (lines > 1 and g.fw * channels % ka):
        return True
    return lines == g.fw == 1 and (g.stride_w > 2 or channels > 64)


cdef inline ptrdiff_t line_pixels(const Window *g, const pl_tile *t, ptrdiff_t span, ptrdiff_t column,
                                  ptrdiff_t width):
    """How many of the `span` output pixels of a line a piece takes: as many as the cache holds, all pieces about alike.

    column: elements of all input lines at one x; width: input pixels of a line under one output pixel.
    """
    cdef ptrdiff_t pieces, most = CACHED_BYTES // t.bytes // column - width
    most = max(most // g.stride_w // t.mr, <ptrdiff_t>1) * t.mr
    most = min(most, <ptrdiff_t>(MAX_DIRECT_PIXELS if g.direct else MAX_PIXELS))
    pieces = (span + most - 1) // most
    return min(round_up((span + pieces - 1) // pieces, t.mr), span)


cdef inline bint plan_lines(Lines *l, const Window *g, Output *o, const pl_tile *t, ptrdiff_t item, ptrdiff_t groups,
                            bint adds=False):
    """If reading rows from lines is possible and faster, fill l and make each run of o one line; else return False.

    item: bytes of an element; adds: can the caller add up several products, as dilated filters need?
    """
    cdef ptrdiff_t c = g.length // item, line = g.fw * c, pixels, line_size, behind = 0
    cdef ptrdiff_t lines = g.fd * g.fh, width = reach(g.fw, g.dilation_w), span = o.span if g.direct else g.ow
    cdef bint packed = padded_lines(t, groups, g.fh, line) and g.dilation_w == 1
    cdef bint dilated = width != g.fw       # then each tap of a line is a run of its own
    if groups > 1 or line * lines == 0 or (dilated and ((lines > 1 and not adds) or c % t.ka or g.fd > 1)):
        return False
    if not g.direct and not packed and gathering_is_faster(g, c, lines, t.ka):
        return False
    pixels = line_pixels(g, t, span, lines * c, width)
    line_size = covered(pixels, g.stride_w, width) * c
    if pixels > 1:      # micro-kernels read full tiles, also behind the last pixel
        behind = (t.mr - 1) * g.stride_w * c
    if (line_size * lines + behind) * t.bytes > A_PANEL_BYTES:
        if not packed:
            return False
        pixels, line_size, behind = 1, line, 0      # weights padded by lines cannot be gathered: one pixel at a time
    l.layout.lines, l.layout.depth = <int>lines, round_up(line, t.ka)
    l.layout.step, l.layout.pitch = g.stride_w * c, line_size
    l.filter_line, l.line_pitch, l.pixels, l.passes = line, line_size, <int>pixels, 1
    if dilated:
        l.passes = g.fh
        l.layout.lines, l.layout.depth, l.layout.pitch, l.filter_line = g.fw, c, g.dilation_w * c, c
    if not g.direct:
        o.lines = o.span * o.lines // g.ow
        o.span = g.ow
    plan_buffer(l, g, (A_PANEL_BYTES // t.bytes - behind) // line_size, CACHED_BYTES // t.bytes // line_size)
    if not dilated:
        l.layout.pitch *= l.down
    return True


cdef struct LineBuffer:
    ptrdiff_t output_line   # the output line (of all images) under which the buffer's first line is
    ptrdiff_t lines         # lines in the buffer
    ptrdiff_t begin         # the first of them that is to be packed,
    ptrdiff_t image, iz, iy     # the image, plane and line of the input that it is,
    Span span               # and the pixels that it has
    ptrdiff_t ready         # output lines, from the last requested one on, whose input lines are all packed


cdef inline ptrdiff_t extend_line_buffer(const Lines *l, const Window *g, ptrdiff_t position, ptrdiff_t pixels,
                                         ptrdiff_t output_lines, LineBuffer *buffer) noexcept nogil:
    """Plan the buffer for `pixels` output pixels from `position` on; returns the index in it of the first line under
    them.

    The caller must then pack lines buffer.begin to buffer.lines - 1 of the buffer.  output_lines: how many the caller
    will request, this one included; for some of them lines are packed ahead.
    """
    cdef ptrdiff_t line = fast_div(position, g.ow), first = (line - buffer.output_line) * g.stride_h, ahead
    cdef Pixel o
    if (g.fh == 1 or g.fd > 1 or buffer.lines == 0 or line < buffer.output_line
            or fast_div(line, g.oh) != fast_div(buffer.output_line, g.oh) or l.down != g.dilation_h or pixels != g.ow
            or first + l.reach > l.capacity):
        buffer.output_line, buffer.lines, first = line, 0, 0
    buffer.begin = max(first, buffer.lines)
    if first + l.reach > buffer.lines:
        ahead = 1
        if pixels == g.ow:
            ahead = min(min(output_lines, l.ahead), g.oh - (line - fast_div(line, g.oh) * g.oh))
            if first:
                ahead = max(<ptrdiff_t>1, min(ahead, (l.capacity - first - l.reach) // g.stride_h + 1))
        buffer.lines = first + covered(ahead, g.stride_h, l.reach)
        buffer.ready = ahead
    else:
        buffer.ready = 1
    o = pixel_of(g, buffer.output_line * g.ow)
    buffer.image, buffer.span = o.n, input_span(g, o.n, position - line * g.ow, pixels)
    buffer.iz = o.z * g.stride_d - g.pad_d
    buffer.iy = o.y * g.stride_h - g.pad_h + buffer.begin * fast_div(g.dilation_h, l.down)
    return first


cdef inline bint next_lines(const Division *t, const Output *o, ptrdiff_t done, LineBuffer *buffer,
                            Piece *piece) noexcept nogil:
    """Move `piece` on by `done` output lines.

    False if the input lines of the next output line are not packed, or if several pieces share its A panel.
    """
    buffer.ready -= done
    if buffer.ready <= 0 or t.splits > 1:
        return False
    piece.y += done * o.sh
    return True


cdef inline bint may_read_in_place(ptrdiff_t position, ptrdiff_t rows, ptrdiff_t total) noexcept nogil:
    """May a product read these rows of `total` in place?  It reads full tiles, but must not read past the last row."""
    return rows == 1 or position + rows + MAX_MR <= total
