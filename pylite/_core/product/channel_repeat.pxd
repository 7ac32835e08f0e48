# Depthwise convolutions with several outputs for each channel are computed as ones with a single output for each
# channel, on lines whose channels are repeated.
#
# A patch of the image at a time is repeated in a buffer on the stack, which stays in the first-level cache.
from libc.stdint cimport uint8_t
from pylite._core.simd cimport PL_MAX_TAPS, PL_REPEAT_SLACK, pl_dw_window, pl_slots

cdef enum:
    REPEAT_BYTES = 48 * 1024    # of the lines in the buffer
    REPEAT_BUFFER = REPEAT_BYTES + PL_REPEAT_SLACK
    REPEAT_LINES = 16           # output lines of a patch
    RUN_BYTES = 256 * 1024      # of the input lines of a run where nothing is repeated


cdef struct ChannelRepeat:
    ptrdiff_t multiplier        # outputs of a channel; 1: the image is read as it lies
    ptrdiff_t item              # bytes of an element
    ptrdiff_t stride            # the vertical one
    ptrdiff_t pixels, lines     # of the output in a patch, at most


cdef inline ptrdiff_t input_extent(ptrdiff_t outputs, ptrdiff_t stride, ptrdiff_t taps,
                                   ptrdiff_t dilation) noexcept nogil:
    """Input lines or pixels under the windows of neighbouring outputs."""
    return (outputs - 1) * stride + (taps - 1) * dilation + 1


cdef inline int plan_repeat(ChannelRepeat *p, const pl_dw_window *g, ptrdiff_t channels, ptrdiff_t item, int stride,
                            int dilation) except -1:
    """Fill p for windows g of an image with this number of channels; stride, dilation: the vertical ones."""
    cdef ptrdiff_t pixel = g.c * item, line
    p.multiplier, p.item, p.stride, p.lines, p.pixels = g.c // channels, item, stride, 1, g.pixels
    if p.multiplier == 1:
        return 0
    line = input_extent(g.pixels, g.stride, g.fw, g.dilation) * pixel
    while dilation == 1 and p.lines < REPEAT_LINES and input_extent(p.lines + 1, stride, g.fh, 1) <= min(
            <ptrdiff_t>PL_MAX_TAPS, REPEAT_BYTES // line):
        p.lines += 1
    while p.pixels > 1 and g.fh * input_extent(p.pixels, g.stride, g.fw, g.dilation) * pixel > REPEAT_BYTES:
        p.pixels = (p.pixels + 1) // 2
    if g.fh * input_extent(p.pixels, g.stride, g.fw, g.dilation) * pixel > REPEAT_BYTES:
        raise ValueError(f"a depthwise filter of {g.fh} x {g.fw} taps and {g.c} channels is too large")
    return 0


cdef inline ptrdiff_t lines_of_run(const ChannelRepeat *p, ptrdiff_t line) noexcept nogil:
    """Output lines to compute at a time: their input stays in the second-level cache for all vectors of channels.

    line: bytes of an input line.
    """
    return p.lines if p.multiplier > 1 else max(<ptrdiff_t>1, RUN_BYTES // (line * p.stride))


cdef inline ptrdiff_t line_in_order(ptrdiff_t index, ptrdiff_t lines, ptrdiff_t every,
                                    ptrdiff_t *left) noexcept nogil:
    """The output line at `index` where lines 0, every, 2 * every ... come first, then 1, 1 + every ...

    lines: of an image; left: how many of them follow in the same sequence, with this one.
    """
    cdef ptrdiff_t each, longer, first
    if every == 1:
        left[0] = lines - index
        return index
    each, longer, first = lines // every, lines % every, 0
    if index < longer * (each + 1):
        each += 1
    else:
        index, first = index - longer * (each + 1), longer
    left[0] = each - index % each
    return first + index // each + index % each * every


cdef inline ptrdiff_t lines_of_task(ptrdiff_t lines, ptrdiff_t threads) noexcept nogil:
    """Divide few lines equally among the threads, and many lines into tasks of four."""
    return 4 if lines > 8 * threads else (lines + threads - 1) // threads


cdef inline pl_dw_window repeat_channels(const pl_slots *slots, const ChannelRepeat *p, const pl_dw_window *g,
                                         ptrdiff_t at, int rows, uint8_t *buffer, const uint8_t **row) noexcept nogil:
    """The windows of output pixels at .. at + p.pixels of g, whose `rows` lines are repeated in the buffer.

    row: gets the addresses of these lines.  Where nothing is repeated, g itself.
    """
    cdef pl_dw_window w = g[0]
    cdef ptrdiff_t begin = at * g.stride - g.pad, pixel = g.c // p.multiplier, first, last
    cdef int y
    if p.multiplier == 1:
        return w
    w.pixels = min(p.pixels, g.pixels - at)
    first = max(begin, <ptrdiff_t>0)
    last = min(begin + input_extent(w.pixels, g.stride, g.fw, g.dilation), g.width)
    w.width, w.pad, w.row = max(last - first, <ptrdiff_t>0), <int>(first - begin), row
    for y in range(rows):
        row[y] = NULL
        if g.row[y] != NULL:
            row[y] = buffer
            slots.repeat_items(p.item, w.width * pixel, p.multiplier, g.row[y] + first * pixel * p.item, buffer)
            buffer += w.width * g.c * p.item
    w.next = p.stride * w.width * g.c * p.item
    return w


cdef inline int input_lines(pl_dw_window *g, const uint8_t **row, const uint8_t *image, ptrdiff_t height,
                            ptrdiff_t line, ptrdiff_t first, int stride, int dilation, ptrdiff_t most,
                            bint borders) noexcept nogil:
    """Set g to output lines, the first of which reads the image from line `first` on; returns the lines in `row`.

    most: the most output lines.  g gets only one where windows lie partly outside of the image, unless `borders` says
    that micro-kernels take several such lines.
    """
    cdef ptrdiff_t inside = (height - first - <ptrdiff_t>(g.fh - 1) * dilation - 1) // stride + 1, y
    cdef ptrdiff_t fitting = (PL_MAX_TAPS - g.fh) // stride + 1     # into `row`
    cdef int i, rows
    g.lines = <int>most if borders else 1
    if first >= 0 and not borders:
        g.lines = <int>max(<ptrdiff_t>1, min(min(most, inside), fitting))
    rows = g.fh if g.lines == 1 else (g.lines - 1) * stride + g.fh
    for i in range(rows):
        y = first + <ptrdiff_t>i * dilation
        row[i] = image + y * line if 0 <= y < height else NULL
    g.row, g.next = row, stride * line
    return rows
