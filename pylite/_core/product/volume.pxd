# The rows of float32 3-D convolutions: lines of the volume that output positions share, or gathered taps.
from libc.string cimport memcpy, memset

cdef struct Axis:           # of a volume; tap t of output i reads element i * stride + t * dilation - pad
    ptrdiff_t size, out     # of the input and of the output
    ptrdiff_t taps, stride, dilation, pad


cdef struct Position:           # an output position
    ptrdiff_t n, z, y, x


cdef struct Volume:
    Axis axis[3]
    const float *x
    ptrdiff_t channels, image   # elements of a pixel and of a volume
    bint lines              # are rows read from packed lines, instead of gathered?


cdef inline ptrdiff_t volume_line(const Volume *s, ptrdiff_t rows) noexcept nogil:
    """Floats in the part of a line that the windows of `rows` neighbouring outputs cover."""
    return ((rows - 1) * s.axis[2].stride + s.axis[2].taps) * s.channels


cdef inline Position position_of(const Volume *s, ptrdiff_t position) noexcept nogil:
    cdef const Axis *a = &s.axis[0]
    cdef Position spot
    spot.x, position = position % a[2].out, position // a[2].out
    spot.y, position = position % a[1].out, position // a[1].out
    spot.z, spot.n = position % a[0].out, position // a[0].out
    return spot


cdef inline void pack_volume_lines(const Volume *s, const Position *first, ptrdiff_t pitch, float *to) noexcept nogil:
    """Pack the part of each line that the windows from position `first` on cover: `pitch` floats, zeros outside."""
    cdef const Axis *a = &s.axis[0]
    cdef ptrdiff_t x0 = first.x * a[2].stride - a[2].pad, tap_y, tap_z, y, z, at
    cdef ptrdiff_t before = min(pitch, max(<ptrdiff_t>0, -x0) * s.channels)
    cdef ptrdiff_t inside = max(<ptrdiff_t>0, min(pitch, (a[2].size - x0) * s.channels) - before)
    for tap_z in range(a[0].taps):
        for tap_y in range(a[1].taps):
            z = first.z * a[0].stride - a[0].pad + tap_z * a[0].dilation
            y = first.y * a[1].stride - a[1].pad + tap_y * a[1].dilation
            memset(to, 0, pitch * sizeof(float))
            if 0 <= z < a[0].size and 0 <= y < a[1].size:
                at = first.n * s.image + ((z * a[1].size + y) * a[2].size + x0) * s.channels + before
                memcpy(to + before, s.x + at, inside * sizeof(float))
            to += pitch


cdef inline void gather_volume(const Volume *s, Position *spot, ptrdiff_t begin, ptrdiff_t end,
                               float *to) noexcept nogil:
    """Pack elements begin to end - 1 of the row of an output position, then advance to the next position."""
    cdef const Axis *a = &s.axis[0]
    cdef ptrdiff_t line = a[2].taps * s.channels, size, count, x, y, z, i
    cdef ptrdiff_t x0 = spot.x * a[2].stride - a[2].pad, y0 = spot.y * a[1].stride - a[1].pad
    cdef ptrdiff_t z0 = spot.z * a[0].stride - a[0].pad
    cdef bint whole = a[2].dilation == 1 and x0 >= 0 and x0 + a[2].taps <= a[2].size
    cdef const float *image = s.x + spot.n * s.image
    cdef ptrdiff_t skip = begin, tap_y = 0, tap_z = 0
    if begin:
        skip, tap_y = begin % line, begin // line
        tap_y, tap_z = tap_y % a[1].taps, tap_y // a[1].taps
    while begin < end:
        size = min(line - skip, end - begin)
        begin += size
        y, z = y0 + tap_y * a[1].dilation, z0 + tap_z * a[0].dilation
        tap_y += 1
        if tap_y == a[1].taps:
            tap_y = 0
            tap_z += 1
        i = (z * a[1].size + y) * a[2].size + x0
        if not (0 <= y < a[1].size and 0 <= z < a[0].size):
            memset(to, 0, size * sizeof(float))
            to += size
        elif whole:
            memcpy(to, image + i * s.channels + skip, size * sizeof(float))
            to += size
        else:
            x = skip // s.channels
            skip -= x * s.channels
            while size > 0:
                count = min(s.channels - skip, size)
                if 0 <= x0 + x * a[2].dilation < a[2].size:
                    memcpy(to, image + (i + x * a[2].dilation) * s.channels + skip, count * sizeof(float))
                else:
                    memset(to, 0, count * sizeof(float))
                x += 1
                to += count
                size -= count
                skip = 0
        skip = 0
    spot.x += 1
    if spot.x == a[2].out:
        spot.x = 0
        spot.y += 1
        if spot.y == a[1].out:
            spot.y = 0
            spot.z += 1
            if spot.z == a[0].out:
                spot.z = 0
                spot.n += 1
