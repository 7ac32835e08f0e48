# Windows: the input pixels that each output position of a convolution reads, and how to gather them.
from libc.stdint cimport uint8_t
from libc.string cimport memcpy

from pylite._core.product.division cimport fast_div
from pylite._core.run.kernel cimport Strided

cdef enum:
    A_PANEL_BYTES = 64 * 1024       # largest A panel; it is on the stack
    MAX_SEGMENTS = 1024     # most segments that one A panel is gathered from
    SHORT_ROW_BYTES = 512   # most bytes of a row for copy_whole_rows()
    SECTION_BYTES = 2048    # bytes of a row gathered at once if whole rows do not fit into an A panel


cdef struct Window:
    const uint8_t *x        # (n, d, h, w, c) with contiguous channels; an image has d = 1
    ptrdiff_t sn, sd, sh, sw        # strides of n, d, h and w in bytes
    ptrdiff_t d, h, w
    ptrdiff_t od, oh, ow    # output planes, lines and pixels of one image
    ptrdiff_t length        # bytes of one tap: the channels of a group
    const uint8_t *zero     # fw taps of zero points, read instead of taps outside the image
    ptrdiff_t zero_step     # bytes from the zero points of one image to the next; 0 if all images share them
    int fd, fh, fw, stride_d, stride_h, stride_w, dilation_d, dilation_h, dilation_w, pad_d, pad_h, pad_w
    bint direct             # a filter of one tap without strides or padding: row i is pixel i, at x + i * sw


cdef inline void set_window(Window *w, const Strided *x, const Strided *y, ptrdiff_t groups, filter):
    """Set the Window w for images or volumes x and y, all but `zero`.  filter: as in images.ImageProduct."""
    cdef int i = x.ndim - 3             # the dimension h
    w.x = <const uint8_t *>x.data if x.nbytes else NULL
    w.sn, w.sd, w.sh, w.sw = x.strides[0], x.strides[i - 1], x.strides[i], x.strides[i + 1]
    w.h, w.w, w.oh, w.ow, w.length = x.shape[i], x.shape[i + 1], y.shape[i], y.shape[i + 1], x.shape[i + 2] // groups
    w.length *= x.item
    w.d = w.od = w.fd = w.stride_d = w.dilation_d = 1
    w.pad_d = 0
    if i == 1:
        w.fh, w.fw, w.stride_h, w.stride_w, w.dilation_h, w.dilation_w, w.pad_h, w.pad_w = filter
    else:
        w.d, w.od = x.shape[1], y.shape[1]
        (w.fd, w.fh, w.fw, w.stride_d, w.stride_h, w.stride_w, w.dilation_d, w.dilation_h, w.dilation_w,
         w.pad_d, w.pad_h, w.pad_w) = filter
    w.direct = (taps_of(w) * w.stride_d * w.stride_h * w.stride_w == 1 and w.od == w.d and w.oh == w.h and w.ow == w.w
                and w.pad_d == w.pad_h == w.pad_w == 0 and w.sh == w.w * w.sw and w.sd == w.h * w.sh
                and w.sn == w.d * w.sd)


cdef inline ptrdiff_t reach(ptrdiff_t taps, ptrdiff_t dilation) noexcept nogil:
    """Number of inputs along an axis from the first tap of a window to its last one."""
    return (taps - 1) * dilation + 1


cdef inline ptrdiff_t covered(ptrdiff_t outputs, ptrdiff_t stride, ptrdiff_t window) noexcept nogil:
    """Number of inputs along an axis that `outputs` neighbouring windows cover; window: reach() of one of them."""
    return (outputs - 1) * stride + window


cdef inline ptrdiff_t taps_of(const Window *w) noexcept nogil:
    """Number of taps of a window."""
    return <ptrdiff_t>w.fd * w.fh * w.fw


cdef inline void set_matrix(Window *w, const uint8_t *x, ptrdiff_t length):
    """Set the Window w for a matrix of consecutive rows of `length` bytes: each row counts as an image of one pixel."""
    w.x, w.sn, w.sd, w.sh, w.sw, w.length = x, length, length, length, length, length
    w.d = w.h = w.w = w.od = w.oh = w.ow = 1
    w.fd = w.fh = w.fw = w.stride_d = w.stride_h = w.stride_w = w.dilation_d = w.dilation_h = w.dilation_w = 1
    w.pad_d = w.pad_h = w.pad_w = 0
    w.zero, w.zero_step, w.direct = NULL, 0, True


cdef struct Pixel:          # of the output
    ptrdiff_t n, z, y, x


cdef inline Pixel pixel_of(const Window *w, ptrdiff_t position) noexcept nogil:
    """The output pixel at `position`, counted over all images."""
    cdef ptrdiff_t line = fast_div(position, w.ow), plane = fast_div(line, w.oh), n = fast_div(plane, w.od)
    return Pixel(n, plane - n * w.od, line - plane * w.oh, position - line * w.ow)


cdef inline bint sees_only_pixels(const Window *w) noexcept nogil:
    """Does a filter of one tap see a pixel of the image for every output pixel?"""
    return (w.pad_d == w.pad_h == w.pad_w == 0 and covered(w.od, w.stride_d, 1) <= w.d
            and covered(w.oh, w.stride_h, 1) <= w.h and covered(w.ow, w.stride_w, 1) <= w.w)


cdef inline const uint8_t *pixel_at(const Window *w, ptrdiff_t position) noexcept nogil:
    """The pixel that a filter of one tap sees for the output pixel at `position`; sees_only_pixels() must hold."""
    cdef Pixel o
    if w.direct:
        return w.x + position * w.sw
    o = pixel_of(w, position)
    return w.x + o.n * w.sn + o.z * w.stride_d * w.sd + o.y * w.stride_h * w.sh + o.x * w.stride_w * w.sw


cdef inline int gather(const Window *w, ptrdiff_t position, int rows, ptrdiff_t offset, const uint8_t **src,
                       ptrdiff_t *length) noexcept nogil:
    """Set src to the addresses of the segments that make up the rows of `rows` output pixels from `position` on.

    Returns the number of segments in a row; length: set to the bytes of a segment.  A segment is a tap, or a line of
    the filter if its taps are adjacent in memory and no row reaches beyond the sides of the image.  offset: bytes from
    a pixel's first channel to the group's.
    """
    cdef ptrdiff_t first, last, iz, iy, ix, x0
    cdef Pixel o
    cdef const uint8_t *line
    cdef const uint8_t *zero
    cdef bint whole
    cdef int r, z, y, x
    if w.direct:
        length[0] = w.length
        for x in range(rows):
            src[x] = w.x + offset + (position + x) * w.sw
        return 1
    o = pixel_of(w, position)
    first, last = o.x, o.x + rows - 1
    if last >= w.ow:
        first, last = 0, w.ow - 1
    whole = first * w.stride_w >= w.pad_w and last * w.stride_w - w.pad_w + reach(w.fw, w.dilation_w) <= w.w
    whole = whole and (w.fw == 1 or (w.dilation_w == 1 and w.sw == w.length))
    length[0] = w.length * w.fw if whole else w.length
    for r in range(rows):
        zero = w.zero + o.n * w.zero_step
        x0 = o.x * w.stride_w - w.pad_w
        for z in range(w.fd):
            iz = o.z * w.stride_d - w.pad_d + <ptrdiff_t>z * w.dilation_d
            for y in range(w.fh):
                iy = o.y * w.stride_h - w.pad_h + <ptrdiff_t>y * w.dilation_h
                line = NULL
                if 0 <= iy < w.h and 0 <= iz < w.d:
                    line = w.x + o.n * w.sn + iz * w.sd + iy * w.sh + offset
                if whole:
                    src[0] = zero if line == NULL else line + x0 * w.sw
                    src += 1
                else:
                    for x in range(w.fw):
                        ix = x0 + <ptrdiff_t>x * w.dilation_w
                        src[0] = line + ix * w.sw if line != NULL and 0 <= ix < w.w else zero
                        src += 1
        o.x += 1
        if o.x == w.ow:
            o = pixel_of(w, position + r + 1)
    return w.fd * w.fh if whole else <int>taps_of(w)


cdef inline bint copying_is_faster(const Window *w) noexcept nogil:
    """Is copying whole rows faster than gathering segments, which are single taps at the sides of the image?"""
    return (not w.direct and w.fh > 1 and w.fw * w.length <= 16 and w.dilation_w == 1 and w.sw == w.length
            and w.fh * w.fw * w.length <= SHORT_ROW_BYTES)


cdef inline void copy_whole_rows(const Window *w, ptrdiff_t position, int rows, uint8_t *to,
                                 const uint8_t **src) noexcept nogil:
    """Copy the rows of `rows` output pixels from `position` on to `to`, and set src to their addresses.

    A row has at most SHORT_ROW_BYTES; copying_is_faster() must hold for the window.
    """
    cdef Pixel o
    cdef ptrdiff_t iy, x0, k, line_bytes = w.w * w.sw, size = w.fw * w.length
    cdef const uint8_t *zero
    cdef const uint8_t *line
    cdef int r, y
    for r in range(rows):
        src[r], o = to, pixel_of(w, position + r)
        zero, x0 = w.zero + o.n * w.zero_step, (o.x * w.stride_w - w.pad_w) * w.sw
        for y in range(w.fh):
            iy = o.y * w.stride_h - w.pad_h + <ptrdiff_t>y * w.dilation_h
            line = w.x + o.n * w.sn + iy * w.sh
            if size == 4 and 0 <= iy < w.h and 0 <= x0 <= line_bytes - 4:       # one load and one store
                memcpy(to, line + x0, 4)
            else:
                for k in range(size):
                    to[k] = line[x0 + k] if 0 <= iy < w.h and 0 <= x0 + k < line_bytes else zero[k]
            to += size


cdef struct Span:           # the part of an image line that windows cover
    const uint8_t *x        # its first pixel inside the image, as if it were in line 0; NULL: none is inside
    ptrdiff_t before, inside, after     # number of pixels left of the image, inside, and right of it


cdef inline Span input_span(const Window *w, ptrdiff_t n, ptrdiff_t ox, ptrdiff_t pixels) noexcept nogil:
    """The pixels of a line that the windows of output pixels ox to ox + pixels - 1 of image n cover."""
    cdef ptrdiff_t begin = ox * w.stride_w - w.pad_w
    cdef ptrdiff_t end = begin + covered(pixels, w.stride_w, reach(w.fw, w.dilation_w))
    cdef ptrdiff_t first = max(begin, <ptrdiff_t>0), last = min(end, w.w)
    cdef Span span
    if first >= last:
        span.x, span.before, span.inside, span.after = NULL, end - begin, 0, 0
    else:
        span.x = w.x + n * w.sn + first * w.sw
        span.before, span.inside, span.after = first - begin, last - first, end - last
    return span


cdef inline void copy_row(const Window *w, ptrdiff_t position, ptrdiff_t offset, ptrdiff_t begin, ptrdiff_t end,
                          uint8_t *to) noexcept nogil:
    """Copy bytes begin to end - 1 of the row of output pixel `position`; offset: as for gather()."""
    cdef Pixel o = pixel_of(w, position)
    cdef ptrdiff_t tap, iz = o.z * w.stride_d - w.pad_d, iy, ix, skip, size, plane = <ptrdiff_t>w.fh * w.fw
    cdef const uint8_t *src
    while begin < end:
        tap, skip = begin // w.length, begin % w.length
        size = min(w.length - skip, end - begin)
        if w.fd > 1:
            iz = o.z * w.stride_d - w.pad_d + tap // plane * w.dilation_d
            tap %= plane
        iy = o.y * w.stride_h - w.pad_h + tap // w.fw * w.dilation_h
        ix = o.x * w.stride_w - w.pad_w + tap % w.fw * w.dilation_w
        if 0 <= iz < w.d and 0 <= iy < w.h and 0 <= ix < w.w:
            src = w.x + o.n * w.sn + iz * w.sd + iy * w.sh + ix * w.sw + offset
        else:
            src = w.zero + o.n * w.zero_step
        memcpy(to, src + skip, size)
        to += size
        begin += size
