# Windows: the input pixels that each output position of a convolution reads, and how to gather them.
from libc.stdint cimport uint8_t
from libc.string cimport memcpy

from pylite._core.run.kernel cimport Strided

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    /* memcpy of n <= 16 bytes, without a call. */
    static inline __attribute__((always_inline)) void pl_copy_short(uint8_t *to, const uint8_t *from, ptrdiff_t n) {
      uint64_t first8, last8;
      uint32_t first4, last4;
      if (n >= 8) {
        memcpy(&first8, from, 8), memcpy(&last8, from + n - 8, 8);
        memcpy(to, &first8, 8), memcpy(to + n - 8, &last8, 8);
      } else if (n >= 4) {
        memcpy(&first4, from, 4), memcpy(&last4, from + n - 4, 4);
        memcpy(to, &first4, 4), memcpy(to + n - 4, &last4, 4);
      } else if (n > 0) {
        to[0] = from[0], to[n / 2] = from[n / 2], to[n - 1] = from[n - 1];
      }
    }
    """
    void pl_copy_short(uint8_t *to, const uint8_t *source, ptrdiff_t n) noexcept nogil

cdef enum:
    A_PANEL_BYTES = 64 * 1024       # largest A panel; it is on the stack
    POINTERS = 1024         # most segments that one A panel is gathered from
    SHORT = 512             # most bytes of a row for copy_lines()
    CHUNK = 2048            # bytes of depth gathered at once if whole rows do not fit into an A panel


cdef struct Window:
    const uint8_t *x        # (n, h, w, c) with contiguous channels
    ptrdiff_t sn, sh, sw    # strides of n, h and w in bytes
    ptrdiff_t h, w
    ptrdiff_t oh, ow        # output lines and pixels of one image
    ptrdiff_t length        # bytes of one tap: the channels of a group
    const uint8_t *zero     # fw taps of zero points, read instead of taps outside the image
    ptrdiff_t zero_step     # bytes from the zero points of one image to those of the next; 0 if all share them
    int fh, fw, stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w
    bint direct             # a 1 x 1 filter without strides or padding: row i is pixel i, at x + i * sw


cdef inline void set_window(Window *g, const Strided *x, const Strided *y, ptrdiff_t groups, filter):
    """Fill g for images x and y, except for `zero`.  filter: as in images.ImageProduct."""
    g.x, g.sn, g.sh, g.sw = <const uint8_t *>x.at if x.nbytes else NULL, x.strides[0], x.strides[1], x.strides[2]
    g.h, g.w, g.oh, g.ow, g.length = x.shape[1], x.shape[2], y.shape[1], y.shape[2], x.shape[3] // groups * x.item
    g.fh, g.fw, g.stride_h, g.stride_w, g.dilation_h, g.dilation_w, g.pad_h, g.pad_w = filter
    g.direct = (g.fh * g.fw * g.stride_h * g.stride_w == 1 and g.oh == g.h and g.ow == g.w
                and g.pad_h == g.pad_w == 0 and g.sh == g.w * g.sw and g.sn == g.h * g.sh)


cdef inline void set_matrix(Window *g, const uint8_t *x, ptrdiff_t length):
    """Fill g for a matrix with consecutive rows of `length` bytes, as if each row were an image of one pixel."""
    g.x, g.sn, g.sh, g.sw, g.length = x, length, length, length, length
    g.h = g.w = g.oh = g.ow = 1
    g.fh = g.fw = g.stride_h = g.stride_w = g.dilation_h = g.dilation_w = 1
    g.pad_h = g.pad_w = 0
    g.zero, g.zero_step, g.direct = NULL, 0, True


cdef struct Pixel:          # of the output
    ptrdiff_t n, y, x


cdef inline Pixel pixel_of(const Window *g, ptrdiff_t position) noexcept nogil:
    return Pixel(position // (g.oh * g.ow), position // g.ow % g.oh, position % g.ow)


cdef inline void next_pixel(const Window *g, Pixel *o) noexcept nogil:
    o.x += 1
    if o.x == g.ow:
        o.x = 0
        o.y += 1
        if o.y == g.oh:
            o.y = 0
            o.n += 1


cdef inline int gather(const Window *g, ptrdiff_t position, int rows, ptrdiff_t offset, const uint8_t **src,
                       ptrdiff_t *length) noexcept nogil:
    """Set src to the segments of the rows of output positions position to position + rows - 1.

    Returns the segments per row; `length` gets the bytes of one.  A segment is a tap, or a line of the filter if its
    taps are adjacent in memory and no row reaches beyond the sides of the image.  offset: of the group's channels,
    bytes.
    """
    cdef ptrdiff_t first, last, iy, ix, x0, extent = (g.fw - 1) * g.dilation_w + 1
    cdef Pixel o
    cdef const uint8_t *line
    cdef const uint8_t *zero
    cdef bint whole
    cdef int _row, y, x
    if g.direct:
        length[0] = g.length
        for x in range(rows):
            src[x] = g.x + offset + (position + x) * g.sw
        return 1
    o = pixel_of(g, position)
    first, last = o.x, o.x + rows - 1
    if last >= g.ow:
        first, last = 0, g.ow - 1
    whole = first * g.stride_w >= g.pad_w and last * g.stride_w - g.pad_w + extent <= g.w
    whole = whole and (g.fw == 1 or (g.dilation_w == 1 and g.sw == g.length))
    length[0] = g.length * g.fw if whole else g.length
    for _row in range(rows):
        zero = g.zero + o.n * g.zero_step
        x0 = o.x * g.stride_w - g.pad_w
        for y in range(g.fh):
            iy = o.y * g.stride_h - g.pad_h + <ptrdiff_t>y * g.dilation_h
            line = g.x + o.n * g.sn + iy * g.sh + offset if 0 <= iy < g.h else NULL
            if whole:
                src[0] = zero if line == NULL else line + x0 * g.sw
                src += 1
            else:
                for x in range(g.fw):
                    ix = x0 + <ptrdiff_t>x * g.dilation_w
                    src[0] = line + ix * g.sw if line != NULL and 0 <= ix < g.w else zero
                    src += 1
        next_pixel(g, &o)
    return g.fh if whole else g.fh * g.fw


cdef inline bint short_lines(const Window *g) noexcept nogil:
    """Is copy_lines() faster than gather(), whose segments are single taps at the sides of the image?"""
    return (not g.direct and g.fh > 1 and g.fw * g.length <= 16 and g.dilation_w == 1 and g.sw == g.length
            and g.fh * g.fw * g.length <= SHORT)


cdef inline void copy_lines(const Window *g, ptrdiff_t position, int rows, uint8_t *to,
                            const uint8_t **src) noexcept nogil:
    """Copy the rows of output positions position to position + rows - 1 to `to` (SHORT bytes each at most), and set
    src to them.  For windows that short_lines() accepts.
    """
    cdef Pixel o = pixel_of(g, position)
    cdef ptrdiff_t c = g.length, size = g.fw * c, iy, x0, before, after, h = g.h, down = g.dilation_h
    cdef ptrdiff_t step = down * g.sh
    cdef const uint8_t *line
    cdef const uint8_t *zero
    cdef int r, _y, fh = g.fh
    for r in range(rows):
        src[r] = to
        zero = g.zero + o.n * g.zero_step
        x0 = o.x * g.stride_w - g.pad_w
        before = min(max(<ptrdiff_t>0, -x0), <ptrdiff_t>g.fw) * c
        after = min(max(<ptrdiff_t>0, x0 + g.fw - g.w) * c, size - before)
        iy = o.y * g.stride_h - g.pad_h
        line = g.x + o.n * g.sn + iy * g.sh + x0 * c
        if size == 4 and before + after == 0 and iy >= 0 and iy + (fh - 1) * down < h:
            for _y in range(fh):
                memcpy(to, line, 4)
                line += step
                to += 4
        else:
            for _y in range(fh):
                if 0 <= iy < h:
                    pl_copy_short(to, zero, before)
                    pl_copy_short(to + before, line + before, size - before - after)
                    pl_copy_short(to + size - after, zero, after)
                else:
                    pl_copy_short(to, zero, size)
                iy += down
                line += step
                to += size
        next_pixel(g, &o)


cdef struct Line:           # the part of an image line that windows cover
    const uint8_t *x        # its first pixel inside the image, as if it were in line 0; NULL: none is inside
    ptrdiff_t before, inside, after     # number of pixels left of the image, inside, and right of it


cdef inline Line input_span(const Window *g, ptrdiff_t n, ptrdiff_t ox, ptrdiff_t pixels) noexcept nogil:
    """The pixels of a line that the windows of output pixels ox to ox + pixels - 1 of image n cover."""
    cdef ptrdiff_t begin = ox * g.stride_w - g.pad_w
    cdef ptrdiff_t end = begin + (pixels - 1) * g.stride_w + (g.fw - 1) * g.dilation_w + 1
    cdef ptrdiff_t first = max(begin, <ptrdiff_t>0), last = min(end, g.w)
    cdef Line line
    if first >= last:
        line.x, line.before, line.inside, line.after = NULL, end - begin, 0, 0
    else:
        line.x = g.x + n * g.sn + first * g.sw
        line.before, line.inside, line.after = first - begin, last - first, end - last
    return line


cdef inline void copy_row(const Window *g, ptrdiff_t position, ptrdiff_t offset, ptrdiff_t begin, ptrdiff_t end,
                          uint8_t *to) noexcept nogil:
    """Copy bytes begin to end - 1 of the row of output position `position`; offset: of the group's channels, bytes."""
    cdef Pixel o = pixel_of(g, position)
    cdef ptrdiff_t tap, iy, ix, skip, size
    cdef const uint8_t *src
    while begin < end:
        tap, skip = begin // g.length, begin % g.length
        size = min(g.length - skip, end - begin)
        iy = o.y * g.stride_h - g.pad_h + tap // g.fw * g.dilation_h
        ix = o.x * g.stride_w - g.pad_w + tap % g.fw * g.dilation_w
        if 0 <= iy < g.h and 0 <= ix < g.w:
            src = g.x + o.n * g.sn + iy * g.sh + ix * g.sw + offset
        else:
            src = g.zero + o.n * g.zero_step
        memcpy(to, src + skip, size)
        to += size
        begin += size
