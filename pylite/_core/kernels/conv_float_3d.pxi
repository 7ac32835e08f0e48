# The rest of conv_float.pyx: convolutions of volumes.
cdef enum:
    SHORT = 128             # floats of a line of the filter, up to which lines are packed instead of rows
    A_PANEL_3D = MAX_MR * DEPTH


cdef struct Axis:           # of a volume; tap t of position i is element i * stride + t * step - pad
    ptrdiff_t size, out, taps, stride, step, pad


cdef struct Spot:           # an output position
    ptrdiff_t n, z, y, x


cdef struct Volume:
    const pl_slots *slots
    Axis axis[3]
    const float *x
    const float *panels
    const float *bias
    float *y
    ptrdiff_t strides[4]    # of y
    ptrdiff_t channels, columns, depth, wide, image
    ptrdiff_t run, runs     # output positions that are equally far apart; the number of such runs
    ptrdiff_t a_panels      # of a run
    ptrdiff_t rows          # positions of an A panel
    bint lines              # A panels hold lines of the volume, which the rows of positions share
    float low, high


cdef class Conv3D(Kernel):
    """float32 3-D convolution: clamp(sum w x + b).

    x: the elements of (n, d, h, w, c), whose sizes are x_shape; y: those in which (n, d, h, w, k) is the window of
    y_shape, y_strides (but the channels', which is 1) and y_offset; panels: pack_f32's; bias: (k,) or None; axes: for
    each of d, h and w the (taps, stride, step, pad) of Axis.
    """
    cdef const float[::1] x, panels, bias
    cdef float[::1] y
    cdef Volume state

    def __init__(self, const float[::1] x, float[::1] y, const float[::1] panels, const float[::1] bias, *,
                 x_shape, y_shape, y_strides, ptrdiff_t y_offset, axes, float low, float high):
        cdef Volume *s = &self.state
        cdef ptrdiff_t size
        cdef int i
        self.x, self.y, self.panels, self.bias = x, y, panels, bias
        if 0 in y_shape:
            self.fn = <kernel_fn>nothing
            return
        s.slots, s.low, s.high = slots, low, high
        s.x, s.y = &x[0] if x.shape[0] else NULL, &y[y_offset]
        s.bias = &bias[0] if bias is not None else NULL
        s.panels = &panels[0] if panels.shape[0] else NULL
        s.image = x_shape[1] * x_shape[2] * x_shape[3] * x_shape[4]
        s.channels, s.columns, s.depth = x_shape[4], y_shape[4], x_shape[4]
        s.runs, s.run = 1, 1
        for i in range(4):
            s.strides[3 - i] = y_strides[3 - i]
            size = y_shape[3 - i]
            if s.runs == 1 and s.strides[3 - i] == s.run * s.strides[3]:
                s.run *= size
            else:
                s.runs *= size
        for i in range(3):
            s.axis[i].taps, s.axis[i].stride, s.axis[i].step, s.axis[i].pad = axes[i]
            s.axis[i].size, s.axis[i].out = x_shape[1 + i], y_shape[1 + i]
            s.depth *= s.axis[i].taps
        s.rows = s.slots.f32.mr
        size = line_size(s, s.axis[2].out)
        if s.axis[2].step == 1 and s.axis[2].out >= 8 and s.axis[2].taps * s.channels <= SHORT and size <= A_PANEL_3D:
            s.lines, s.rows = True, s.axis[2].out
            s.runs *= s.run // s.rows
            s.run = s.rows
        s.a_panels = (s.run + s.rows - 1) // s.rows
        s.wide = padded(s.columns, s.slots.f32.nv)
        self.fn, self.subnormals = <kernel_fn>conv_3d, FLUSHED


cdef ptrdiff_t line_size(const Volume *s, ptrdiff_t rows) noexcept nogil:
    """Floats of the packed lines of so many output positions."""
    return s.axis[0].taps * s.axis[1].taps * ((rows - 1) * s.axis[2].stride + s.axis[2].taps) * s.channels


cdef int conv_3d(Conv3D self, pl_pool *pool) noexcept nogil:
    parallel_for(pool, self.state.runs * self.state.a_panels, 1, conv_3d_panels, &self.state)
    return 0


cdef void conv_3d_panels(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef Volume *s = <Volume *>ctx
    cdef const Axis *a = &s.axis[0]
    cdef float a_panel[A_PANEL_3D]
    cdef pl_a_layout shape
    cdef ptrdiff_t i, j, k, piece, width, rows
    cdef Spot first, spot
    cdef float *y
    cdef int r
    for i in range(begin, end):
        j = i % s.a_panels * s.rows
        rows = min(s.rows, s.run - j)
        j += i // s.a_panels * s.run
        first.x, j = j % a[2].out, j // a[2].out
        first.y, j = j % a[1].out, j // a[1].out
        first.z, first.n = j % a[0].out, j // a[0].out
        y = (s.y + first.n * s.strides[0] + first.z * s.strides[1] + first.y * s.strides[2]
             + first.x * s.strides[3])
        k = 0
        while True:
            if s.lines:
                piece = s.depth
                shape.lines, shape.depth = <int>(a[0].taps * a[1].taps), a[2].taps * s.channels
                shape.step, shape.pitch = a[2].stride * s.channels, line_size(s, rows) // max(1, shape.lines)
                pack_lines_3d(s, &first, shape.pitch, a_panel)
            else:
                piece = min(<ptrdiff_t>DEPTH, s.depth - k)
                spot = first
                for r in range(rows):
                    gather_3d(s, &spot, k, k + piece, a_panel + r * piece)
                shape = pl_packed_layout(piece)
            j = 0
            while j < s.columns:
                width = min(<ptrdiff_t>s.slots.f32.nr, s.wide - j)
                s.slots.gemm_f32(<int>rows, <int>min(width, s.columns - j), &shape, a_panel,
                                 s.panels + j * s.depth + k * width, k == 0, k + piece == s.depth,
                                 s.bias + j if s.bias != NULL else NULL, s.low, s.high, y + j, s.strides[3])
                j += width
            k += piece
            if k >= s.depth:
                break


cdef void pack_lines_3d(const Volume *s, const Spot *first, ptrdiff_t pitch, float *to) noexcept nogil:
    """Pack the lines under the windows of the output positions from `first` on, `pitch` floats apart."""
    cdef const Axis *a = &s.axis[0]
    cdef ptrdiff_t x0 = first.x * a[2].stride - a[2].pad, tap_y, tap_z, y, z, at
    cdef ptrdiff_t before = min(pitch, max(<ptrdiff_t>0, -x0) * s.channels)
    cdef ptrdiff_t inside = max(<ptrdiff_t>0, min(pitch, (a[2].size - x0) * s.channels) - before)
    for tap_z in range(a[0].taps):
        for tap_y in range(a[1].taps):
            z = first.z * a[0].stride - a[0].pad + tap_z * a[0].step
            y = first.y * a[1].stride - a[1].pad + tap_y * a[1].step
            memset(to, 0, pitch * sizeof(float))
            if 0 <= z < a[0].size and 0 <= y < a[1].size:
                at = first.n * s.image + ((z * a[1].size + y) * a[2].size + x0) * s.channels + before
                memcpy(to + before, s.x + at, inside * sizeof(float))
            to += pitch


cdef void gather_3d(const Volume *s, Spot *spot, ptrdiff_t begin, ptrdiff_t end, float *to) noexcept nogil:
    """Pack elements begin..end of the row of an output position, and advance to the next position."""
    cdef const Axis *a = &s.axis[0]
    cdef ptrdiff_t line = a[2].taps * s.channels, size, some, x, y, z, i
    cdef ptrdiff_t x0 = spot.x * a[2].stride - a[2].pad, y0 = spot.y * a[1].stride - a[1].pad
    cdef ptrdiff_t z0 = spot.z * a[0].stride - a[0].pad
    cdef bint whole = a[2].step == 1 and x0 >= 0 and x0 + a[2].taps <= a[2].size
    cdef const float *image = s.x + spot.n * s.image
    cdef ptrdiff_t skip = begin, tap_y = 0, tap_z = 0
    if begin:
        skip, tap_y = begin % line, begin // line
        tap_y, tap_z = tap_y % a[1].taps, tap_y // a[1].taps
    while begin < end:
        size = min(line - skip, end - begin)
        begin += size
        y, z = y0 + tap_y * a[1].step, z0 + tap_z * a[0].step
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
                some = min(s.channels - skip, size)
                if 0 <= x0 + x * a[2].step < a[2].size:
                    memcpy(to, image + (i + x * a[2].step) * s.channels + skip, some * sizeof(float))
                else:
                    memset(to, 0, some * sizeof(float))
                x += 1
                to += some
                size -= some
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
