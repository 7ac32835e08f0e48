# Depthwise convolutions with a channel multiplier: each input channel is repeated `multiplier` times, so that
# micro-kernels need not know of multipliers.
#
# One patch of the image at a time is repeated, in a buffer on the stack that stays in the first-level cache.  For
# floats, a patch may have a slice of the channels, and lines of zeros for those outside the image, so that it covers
# several lines even if there are many channels.
from libc.stdint cimport uint8_t
from libc.string cimport memset

from pylite._core.product.window cimport covered, reach
from pylite._core.simd cimport PL_MAX_TAPS, PL_REPEAT_SLACK, pl_dw_lines, pl_slots

cdef enum:
    REPEAT_BYTES = 48 * 1024    # most bytes of repeated lines
    REPEAT_BUFFER = REPEAT_BYTES + PL_REPEAT_SLACK
    REPEAT_LINES = 16           # most output lines of a patch
    SLICE_LINES = 8             # output lines for which a patch has room if it has a slice of the channels
    SLICE_CHANNELS = 16         # their number in a slice is a multiple of this
    CALL_BYTES = 256 * 1024     # bytes of the input lines that one call reads if nothing is repeated
    COLUMN_BYTES = 24 * 1024    # bytes of the cache lines that hold one block of these lines' channels


cdef struct ChannelRepeat:
    ptrdiff_t multiplier        # outputs per channel; 1: nothing is repeated, the image is read in place
    ptrdiff_t item              # bytes of an element
    ptrdiff_t stride            # vertical
    bint sliced                 # may a patch have a slice of the channels, and zeros for lines outside the image?
    ptrdiff_t pixels, lines, channels       # largest output size of a patch


cdef inline int plan_repeat(ChannelRepeat *p, const pl_dw_lines *g, ptrdiff_t channels, ptrdiff_t item, int stride,
                            bint share, bint sliced) except -1:
    """Fill p for the output lines g of an image with `channels` channels.

    stride: vertical; share: do successive output lines, see line_in_order(), read the same input lines?  sliced: for
    floats, see ChannelRepeat.
    """
    cdef ptrdiff_t pixel, width = reach(g.fw, g.dilation), columns = covered(g.pixels, g.stride, width), line, least
    p.multiplier, p.item, p.stride, p.lines, p.pixels = g.c // channels, item, stride, 1, g.pixels
    p.channels, p.sliced = g.c, sliced and p.multiplier > 1
    if p.multiplier == 1:
        return 0
    if sliced:
        least = p.multiplier
        while least % SLICE_CHANNELS:
            least += p.multiplier
        line = covered(SLICE_LINES if share else 1, stride, g.fh) * columns * item * least
        p.channels = min(g.c, max(<ptrdiff_t>1, REPEAT_BYTES // line) * least)
    pixel = p.channels * item
    line = columns * pixel
    while share and p.lines < REPEAT_LINES and covered(p.lines + 1, stride, g.fh) <= min(
            <ptrdiff_t>PL_MAX_TAPS, REPEAT_BYTES // line):
        p.lines += 1
    while p.pixels > 1 and g.fh * covered(p.pixels, g.stride, width) * pixel > REPEAT_BYTES:
        p.pixels = (p.pixels + 1) // 2
    if g.fh * covered(p.pixels, g.stride, width) * pixel > REPEAT_BYTES:
        raise ValueError(f"a depthwise filter of {g.fh} x {g.fw} taps and {p.channels} channels is too large")
    return 0


cdef inline ptrdiff_t line_in_order(ptrdiff_t index, ptrdiff_t lines, ptrdiff_t step,
                                    ptrdiff_t *left) noexcept nogil:
    """Entry `index` of the order 0, step, 2 * step, ..., then 1, 1 + step, ... of an image's `lines` output lines.

    left: set to the number of entries from this one to the end of its sequence.
    """
    cdef ptrdiff_t length, long_ones, first     # of the sequences, the first `long_ones` have one line more
    if step == 1:
        left[0] = lines - index
        return index
    length, long_ones, first = lines // step, lines % step, 0
    if index < long_ones * (length + 1):
        length += 1
    else:
        index, first = index - long_ones * (length + 1), long_ones
    left[0] = length - index % length
    return first + index // length + index % length * step


cdef inline ptrdiff_t lines_per_piece(ptrdiff_t lines, ptrdiff_t threads) noexcept nogil:
    """Output lines of a piece: four, or an equal share if there are few lines."""
    return 4 if lines > 8 * threads else (lines + threads - 1) // threads


cdef inline pl_dw_lines repeat_channels(const pl_slots *slots, const ChannelRepeat *p, const pl_dw_lines *g,
                                        ptrdiff_t begin_pixel, ptrdiff_t channel, int rows, uint8_t *buffer,
                                        const uint8_t **row) noexcept nogil:
    """Up to p.pixels output pixels of g from `begin_pixel` on, and p.channels from `channel` on, repeated.

    The `rows` input lines under them are repeated into `buffer`; row: set to their addresses.  Multiplier 1: g itself.
    """
    cdef pl_dw_lines w = g[0]
    cdef ptrdiff_t begin = begin_pixel * g.stride - g.pad, pixel = g.c // p.multiplier, first, last, x, pixel_bytes
    cdef int y
    if p.multiplier == 1:
        return w
    w.c = min(p.channels, g.c - channel)
    if w.scale != NULL:
        w.scale += channel
    pixel_bytes = w.c * p.item
    w.pixels = min(p.pixels, g.pixels - begin_pixel)
    first = max(begin, <ptrdiff_t>0)
    last = min(begin + covered(w.pixels, g.stride, reach(g.fw, g.dilation)), g.width)
    w.width, w.pad, w.row = max(last - first, <ptrdiff_t>0), <int>(first - begin), row
    for y in range(rows):
        row[y] = buffer
        if g.row[y] == NULL and not p.sliced:
            row[y] = NULL
            continue
        if g.row[y] == NULL:
            memset(buffer, 0, w.width * pixel_bytes)
        elif w.c == g.c:
            slots.repeat_items(p.item, w.width * pixel, p.multiplier, g.row[y] + first * pixel * p.item, buffer)
        else:
            for x in range(w.width):
                slots.repeat_items(p.item, w.c // p.multiplier, p.multiplier,
                                   g.row[y] + ((first + x) * pixel + channel // p.multiplier) * p.item,
                                   buffer + x * pixel_bytes)
        buffer += w.width * pixel_bytes
    w.next = p.stride * w.width * pixel_bytes
    return w
