# Windows: the input pixels that each output position of a convolution reads, and how to gather them.
from libc.stdint cimport uint8_t
from libc.string cimport memcpy

from pylite._core.product.division cimport fast_div
from pylite._core.run.kernel cimport Strided

cdef enum:
    A_PANEL_BYTES = 64 * 1024       # largest A panel; it is on the stack
    POINTERS = 1024         # most segments that one A panel is gathered from
    SHORT = 512             # most bytes of a row for copy_lines()
    SECTION = 2048          # bytes of a row gathered at once if whole rows do not fit into an A panel


cdef struct Window:
    const uint8_t *x        # (n, d, h, w, c) with contiguous channels; an image has d = 1
    ptrdiff_t sn, sd, sh, sw        # strides of n, d, h and w in bytes
    ptrdiff_t d, h, w
    ptrdiff_t od, oh, ow    # output planes, lines and pixels of one image
    ptrdiff_t length        # bytes of one tap: the channels of a group
    const uint8_t *zero     # fw taps of zero points, read instead of taps outside the image
    ptrdiff_t zero_step     # bytes from the zero points of one image to those of the next; 0 if all share them
    int fd, fh, fw, stride_d, stride_h, stride_w, dilation_d, dilation_h, dilation_w, pad_d, pad_h, pad_w
    bint direct             # a filter of one tap without strides or padding: row i is pixel i, at x + i * sw


cdef inline void set_window(Window *g, const Strided *x, const Strided *y, ptrdiff_t groups, filter):
    """Fill g for images or volumes x and y, except for `zero`.  filter: as in images.ImageProduct."""
    cdef int i = x.ndim - 3             # the dimension h
    g.x = <const uint8_t *>x.at if x.nbytes else NULL
    g.sn, g.sd, g.sh, g.sw = x.strides[0], x.strides[i - 1], x.strides[i], x.strides[i + 1]
    g.h, g.w, g.oh, g.ow, g.length = x.shape[i], x.shape[i + 1], y.shape[i], y.shape[i + 1], x.shape[i + 2] // groups
    g.length *= x.item
    g.d = g.od = g.fd = g.stride_d = g.dilation_d = 1
    g.pad_d = 0
    if i == 1:
        g.fh, g.fw, g.stride_h, g.stride_w, g.dilation_h, g.dilation_w, g.pad_h, g.pad_w = filter
    else:
        g.d, g.od = x.shape[1], y.shape[1]
        (g.fd, g.fh, g.fw, g.stride_d, g.stride_h, g.stride_w, g.dilation_d, g.dilation_h, g.dilation_w,
         g.pad_d, g.pad_h, g.pad_w) = filter
    g.direct = (taps_of(g) * g.stride_d * g.stride_h * g.stride_w == 1 and g.od == g.d and g.oh == g.h and g.ow == g.w
                and g.pad_d == g.pad_h == g.pad_w == 0 and g.sh == g.w * g.sw and g.sd == g.h * g.sh
                and g.sn == g.d * g.sd)


cdef inline ptrdiff_t reach(ptrdiff_t taps, ptrdiff_t dilation) noexcept nogil:
    """Number of inputs along an axis from the first tap of a window to its last one."""
    return (taps - 1) * dilation + 1


cdef inline ptrdiff_t covered(ptrdiff_t outputs, ptrdiff_t stride, ptrdiff_t window) noexcept nogil:
    """The same from the first tap of the first of `outputs` neighbouring windows; window: reach() of one."""
    return (outputs - 1) * stride + window


cdef inline ptrdiff_t taps_of(const Window *g) noexcept nogil:
    return <ptrdiff_t>g.fd * g.fh * g.fw


cdef inline void set_matrix(Window *g, const uint8_t *x, ptrdiff_t length):
    """Fill g for a matrix with consecutive rows of `length` bytes, as if each row were an image of one pixel."""
    g.x, g.sn, g.sd, g.sh, g.sw, g.length = x, length, length, length, length, length
    g.d = g.h = g.w = g.od = g.oh = g.ow = 1
    g.fd = g.fh = g.fw = g.stride_d = g.stride_h = g.stride_w = g.dilation_d = g.dilation_h = g.dilation_w = 1
    g.pad_d = g.pad_h = g.pad_w = 0
    g.zero, g.zero_step, g.direct = NULL, 0, True


cdef struct Pixel:          # of the output
    ptrdiff_t n, z, y, x


cdef inline Pixel pixel_of(const Window *g, ptrdiff_t position) noexcept nogil:
    cdef ptrdiff_t line = fast_div(position, g.ow), plane = fast_div(line, g.oh), n = fast_div(plane, g.od)
    return Pixel(n, plane - n * g.od, line - plane * g.oh, position - line * g.ow)


cdef inline int gather(const Window *g, ptrdiff_t position, int rows, ptrdiff_t offset, const uint8_t **src,
                       ptrdiff_t *length) noexcept nogil:
    """Set src to the segments of the rows of output positions position to position + rows - 1.

    Returns the segments per row; `length` gets the bytes of one.  A segment is a tap, or a line of the filter if its
    taps are adjacent in memory and no row reaches beyond the sides of the image.  offset: of the group's channels,
    bytes.
    """
    cdef ptrdiff_t first, last, iz, iy, ix, x0
    cdef Pixel o
    cdef const uint8_t *line
    cdef const uint8_t *zero
    cdef bint whole
    cdef int r, z, y, x
    if g.direct:
        length[0] = g.length
        for x in range(rows):
            src[x] = g.x + offset + (position + x) * g.sw
        return 1
    o = pixel_of(g, position)
    first, last = o.x, o.x + rows - 1
    if last >= g.ow:
        first, last = 0, g.ow - 1
    whole = first * g.stride_w >= g.pad_w and last * g.stride_w - g.pad_w + reach(g.fw, g.dilation_w) <= g.w
    whole = whole and (g.fw == 1 or (g.dilation_w == 1 and g.sw == g.length))
    length[0] = g.length * g.fw if whole else g.length
    for r in range(rows):
        zero = g.zero + o.n * g.zero_step
        x0 = o.x * g.stride_w - g.pad_w
        for z in range(g.fd):
            iz = o.z * g.stride_d - g.pad_d + <ptrdiff_t>z * g.dilation_d
            for y in range(g.fh):
                iy = o.y * g.stride_h - g.pad_h + <ptrdiff_t>y * g.dilation_h
                line = NULL
                if 0 <= iy < g.h and 0 <= iz < g.d:
                    line = g.x + o.n * g.sn + iz * g.sd + iy * g.sh + offset
                if whole:
                    src[0] = zero if line == NULL else line + x0 * g.sw
                    src += 1
                else:
                    for x in range(g.fw):
                        ix = x0 + <ptrdiff_t>x * g.dilation_w
                        src[0] = line + ix * g.sw if line != NULL and 0 <= ix < g.w else zero
                        src += 1
        o.x += 1
        if o.x == g.ow:
            o = pixel_of(g, position + r + 1)
    return g.fd * g.fh if whole else <int>taps_of(g)


cdef inline bint short_lines(const Window *g) noexcept nogil:
    """Is copy_lines() faster than gather(), whose segments are single taps at the sides of the image?"""
    return (not g.direct and g.fh > 1 and g.fw * g.length <= 16 and g.dilation_w == 1 and g.sw == g.length
            and g.fh * g.fw * g.length <= SHORT)


cdef inline void copy_lines(const Window *g, ptrdiff_t position, int rows, uint8_t *to,
                            const uint8_t **src) noexcept nogil:
    """Copy the rows of output positions position to position + rows - 1 to `to` (SHORT bytes each at most), and set
    src to them.  For windows of images that short_lines() accepts.
    """
    cdef Pixel o
    cdef ptrdiff_t iy, x0, k, line_bytes = g.w * g.sw, size = g.fw * g.length
    cdef const uint8_t *zero
    cdef const uint8_t *line
    cdef int r, y
    for r in range(rows):
        src[r], o = to, pixel_of(g, position + r)
        zero, x0 = g.zero + o.n * g.zero_step, (o.x * g.stride_w - g.pad_w) * g.sw
        for y in range(g.fh):
            iy = o.y * g.stride_h - g.pad_h + <ptrdiff_t>y * g.dilation_h
            line = g.x + o.n * g.sn + iy * g.sh
            if size == 4 and 0 <= iy < g.h and 0 <= x0 <= line_bytes - 4:       # one load and one store
                memcpy(to, line + x0, 4)
            else:
                for k in range(size):
                    to[k] = line[x0 + k] if 0 <= iy < g.h and 0 <= x0 + k < line_bytes else zero[k]
            to += size


cdef struct Span:           # the part of an image line that windows cover
    const uint8_t *x        # its first pixel inside the image, as if it were in line 0; NULL: none is inside
    ptrdiff_t before, inside, after     # number of pixels left of the image, inside, and right of it


cdef inline Span input_span(const Window *g, ptrdiff_t n, ptrdiff_t ox, ptrdiff_t pixels) noexcept nogil:
    """The pixels of a line that the windows of output pixels ox to ox + pixels - 1 of image n cover."""
    cdef ptrdiff_t begin = ox * g.stride_w - g.pad_w
    cdef ptrdiff_t end = begin + covered(pixels, g.stride_w, reach(g.fw, g.dilation_w))
    cdef ptrdiff_t first = max(begin, <ptrdiff_t>0), last = min(end, g.w)
    cdef Span span
    if first >= last:
        span.x, span.before, span.inside, span.after = NULL, end - begin, 0, 0
    else:
        span.x = g.x + n * g.sn + first * g.sw
        span.before, span.inside, span.after = first - begin, last - first, end - last
    return span


cdef inline void copy_row(const Window *g, ptrdiff_t position, ptrdiff_t offset, ptrdiff_t begin, ptrdiff_t end,
                          uint8_t *to) noexcept nogil:
    """Copy bytes begin to end - 1 of the row of output position `position`; offset: of the group's channels, bytes."""
    cdef Pixel o = pixel_of(g, position)
    cdef ptrdiff_t tap, iz = o.z * g.stride_d - g.pad_d, iy, ix, skip, size, plane = <ptrdiff_t>g.fh * g.fw
    cdef const uint8_t *src
    while begin < end:
        tap, skip = begin // g.length, begin % g.length
        size = min(g.length - skip, end - begin)
        if g.fd > 1:
            iz = o.z * g.stride_d - g.pad_d + tap // plane * g.dilation_d
            tap %= plane
        iy = o.y * g.stride_h - g.pad_h + tap // g.fw * g.dilation_h
        ix = o.x * g.stride_w - g.pad_w + tap % g.fw * g.dilation_w
        if 0 <= iz < g.d and 0 <= iy < g.h and 0 <= ix < g.w:
            src = g.x + o.n * g.sn + iz * g.sd + iy * g.sh + ix * g.sw + offset
        else:
            src = g.zero + o.n * g.zero_step
        memcpy(to, src + skip, size)
        to += size
        begin += size
