# The rest of conv_float.pyx: depthwise convolutions.
cdef struct Depthwise:
    const pl_slots *slots
    Spread spread
    pl_dw_window window
    const char *x
    const float *w
    const float *bias
    char *y
    ptrdiff_t h, oh         # lines of the images
    ptrdiff_t line, image, y_line   # strides in bytes
    int stride, dilation, pad
    ptrdiff_t run           # output lines at a time
    float low, high


cdef class DepthwiseF32(Kernel):
    """float32 depthwise convolution.

    x: (n, h, w, c / m) and y: (n, oh, ow, c), contiguous, m outputs for each channel of x; w: (1, fh, fw, c); the rest
    as in ConvF32.
    """
    cdef const float[:, :, :, ::1] x, w
    cdef float[:, :, :, ::1] y
    cdef const float[::1] bias
    cdef const uint8_t[::1] zero
    cdef Depthwise state

    def __init__(self, const float[:, :, :, ::1] x, float[:, :, :, ::1] y, const float[:, :, :, ::1] w,
                 const float[::1] bias, *, filter, float low, float high):
        cdef Depthwise *s = &self.state
        self.x, self.y, self.w, self.bias = x, y, w, bias
        if 0 in self.y.shape[:4] or 0 in self.x.shape[:4]:
            self.fn = <kernel_fn>nothing
            return
        self.zero = np.zeros(y.shape[3] * 4, np.uint8)
        s.slots, s.low, s.high = slots, low, high
        s.x, s.w, s.y = <const char *>&x[0, 0, 0, 0], &w[0, 0, 0, 0], <char *>&y[0, 0, 0, 0]
        s.bias = &bias[0] if bias is not None else NULL
        s.h, s.oh, s.line, s.image, s.y_line = x.shape[1], y.shape[1], x.strides[1], x.strides[0], y.strides[1]
        (s.window.fh, s.window.fw, s.stride, s.window.stride, s.dilation, s.window.dilation, s.pad,
         s.window.pad) = filter
        if s.window.fh * s.window.fw > PL_MAX_TAPS:
            raise ValueError(f"a depthwise filter of {s.window.fh} x {s.window.fw} taps is too large")
        s.window.width, s.window.pixels, s.window.c, s.window.zero = x.shape[2], y.shape[2], y.shape[3], &self.zero[0]
        s.window.y_line = y.strides[1] // 4
        plan_spread(&s.spread, &s.window, x.shape[3], 4, s.stride, s.dilation)
        s.run = lines_of_run(&s.spread, s.line)
        if s.spread.multiplier > 1:
            self.path = "channels repeated, patch by patch"
        self.fn, self.subnormals = <kernel_fn>depthwise_f32, FLUSHED


cdef int depthwise_f32(DepthwiseF32 self, pl_pool *pool) noexcept nogil:
    cdef const pl_dw_window *g = &self.state.window
    cdef ptrdiff_t lines = self.y.shape[0] * self.y.shape[1], grain = lines_of_task(lines, pool_threads(pool))
    pool = parallel_pool(pool, 2 * lines * g.pixels * g.c * g.fh * g.fw)
    parallel_for(pool, lines, grain, depthwise_f32_lines, &self.state)
    return 0


cdef void depthwise_f32_lines(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef Depthwise *s = <Depthwise *>ctx
    cdef pl_dw_window g = s.window, patch
    cdef const uint8_t *row[PL_MAX_TAPS]
    cdef const uint8_t *repeated[PL_MAX_TAPS]
    cdef uint8_t buffer[SPREAD_BUFFER]
    cdef ptrdiff_t line = begin, at
    cdef int rows
    cdef float *to
    while line < end:
        rows = see_lines(&g, row, <const uint8_t *>s.x + line // s.oh * s.image, s.h, s.line,
                         line % s.oh * s.stride - s.pad, s.stride, s.dilation, min(end - line, s.run))
        to = <float *>(s.y + line * s.y_line)
        at = 0
        while at < g.pixels:
            patch = spread(s.slots, &s.spread, &g, at, rows, buffer, repeated)
            s.slots.depthwise_f32(&patch, s.w, s.bias, s.low, s.high, to + at * g.c)
            at += patch.pixels
        line += g.lines
