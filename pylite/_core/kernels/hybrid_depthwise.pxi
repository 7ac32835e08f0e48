# The rest of hybrid.pyx: depthwise convolutions.
#
# Images are quantized to whole numbers in float32: sums of their products with weights of 8 bits stay below 2^24, so
# that float32 has them exactly, in whatever order they are added.
def pack_depthwise_hybrid(w):
    """Weights (1, fh, fw, c) as float32 (taps, c)."""
    return np.ascontiguousarray(w.reshape(-1, w.shape[3]), np.float32)


cdef struct HybridDepthwise:
    const pl_slots *slots
    Spread spread
    pl_dw_window window
    const float *x          # images, as quantized `q`
    float *q
    float *row_scales
    const float *w
    const float *scales
    const float *bias
    float *y
    ptrdiff_t h, oh, line, image, y_line        # lines of the images; bytes of q and y
    ptrdiff_t size          # elements of an image
    ptrdiff_t run           # output lines at a time
    int stride, dilation, pad
    float low, high


cdef class DepthwiseHybrid(Kernel):
    """Depthwise convolution of float32 images, each quantized to int8 with a zero point first, with int8 weights.

    x: (n, h, w, c / m) and y: (n, oh, ow, c) float32, contiguous, m outputs for each channel of x; q: like x, and
    row_scales: (n,), float32 of scratch; w: from pack_depthwise_hybrid, 512 taps at most; scales: (c,) float32; bias:
    (c,) float32 or None; the rest as in ConvHybrid.
    """
    cdef const float[:, :, :, ::1] x
    cdef float[:, :, :, ::1] y, q
    cdef float[::1] row_scales
    cdef const float[:, ::1] w
    cdef const float[::1] scales, bias
    cdef const float[::1] zeros     # the pixel read outside of the image; a bias of 0
    cdef HybridDepthwise state

    def __init__(self, const float[:, :, :, ::1] x, float[:, :, :, ::1] y, const float[:, ::1] w,
                 const float[::1] bias, *, float[:, :, :, ::1] q, float[::1] row_scales, const float[::1] scales,
                 filter, float low, float high):
        cdef HybridDepthwise *s = &self.state
        self.x, self.y, self.q, self.row_scales, self.w, self.scales, self.bias = x, y, q, row_scales, w, scales, bias
        if 0 in self.y.shape[:4] or 0 in self.x.shape[:4]:
            self.fn = <kernel_fn>nothing
            return
        self.zeros = np.zeros(y.shape[3], np.float32)
        s.slots, s.low, s.high = slots, low, high
        s.x, s.q, s.w, s.y, s.row_scales = &x[0, 0, 0, 0], &q[0, 0, 0, 0], &w[0, 0], &y[0, 0, 0, 0], &row_scales[0]
        s.scales, s.bias = &scales[0], &bias[0] if bias is not None else NULL
        s.h, s.oh, s.line, s.image, s.y_line = x.shape[1], y.shape[1], q.strides[1], q.strides[0], y.strides[1]
        s.size = x.shape[1] * x.shape[2] * x.shape[3]
        (s.window.fh, s.window.fw, s.stride, s.window.stride, s.dilation, s.window.dilation, s.pad,
         s.window.pad) = filter
        s.window.width, s.window.pixels, s.window.c, s.window.zero = (
            x.shape[2], y.shape[2], y.shape[3], <const uint8_t *>&self.zeros[0])
        s.window.y_line = y.strides[1] // 4
        plan_spread(&s.spread, &s.window, x.shape[3], 4, s.stride, s.dilation)
        s.run = lines_of_run(&s.spread, s.line)
        self.path = "channels repeated, patch by patch" if s.spread.multiplier > 1 else None
        self.fn, self.subnormals = <kernel_fn>depthwise_hybrid, FLUSHED


cdef int depthwise_hybrid(DepthwiseHybrid self, pl_pool *pool) noexcept nogil:
    cdef const pl_dw_window *g = &self.state.window
    cdef ptrdiff_t lines = self.y.shape[0] * self.y.shape[1], grain = lines_of_task(lines, pool_threads(pool))
    pool = parallel_pool(pool, 2 * lines * g.pixels * g.c * g.fh * g.fw)
    parallel_for(pool, self.y.shape[0], 1, center_images, &self.state)
    parallel_for(pool, lines, grain, depthwise_hybrid_lines, &self.state)
    return 0


cdef void center_images(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Quantize, and take the zero point off: padding then is 0."""
    cdef HybridDepthwise *s = <HybridDepthwise *>ctx
    cdef uint8_t piece[PL_DEPTH]
    cdef DequantizeParameters p
    cdef const float *x
    cdef float *q
    cdef float low, high, inverse
    cdef ptrdiff_t i, k, n
    p.scale = 1
    for i in range(begin, end):
        x, q, k = s.x + i * s.size, s.q + i * s.size, 0
        s.slots.range_f32(s.size, x, &low, &high)
        p.zero = pl_quantization(low, high, True, s.row_scales + i, &inverse)
        while k < s.size:
            n = min(<ptrdiff_t>PL_DEPTH, s.size - k)
            s.slots.quantize_s8(n, x + k, inverse, p.zero, True, 0, piece)
            s.slots.dequantize_i8(n, piece, q + k, &p)
            k += n


cdef struct Factors:            # of sums, and what is added to them: repeated, since rows of few channels are short
    ptrdiff_t image, c, n       # whose they are; the first channel, and the number of elements
    float scale[PL_DEPTH]
    float bias[PL_DEPTH]


cdef void repeat_factors(const HybridDepthwise *s, ptrdiff_t image, ptrdiff_t c, Factors *f) noexcept nogil:
    """Those of channels c to c + PL_DEPTH, of as many pixels as fit where that is all channels."""
    cdef ptrdiff_t some = min(<ptrdiff_t>PL_DEPTH, s.window.c - c), j
    if image == f.image and c == f.c:
        return
    f.image, f.c, f.n = image, c, some
    if some == s.window.c:
        f.n = PL_DEPTH // some * some
    for j in range(f.n):
        if j < some:
            f.scale[j] = s.row_scales[image] * s.scales[c + j]
            f.bias[j] = s.bias[c + j] if s.bias != NULL else 0
        else:
            f.scale[j], f.bias[j] = f.scale[j - some], f.bias[j - some]


cdef void finish_depthwise(const HybridDepthwise *s, ptrdiff_t image, Factors *f, int lines, float *y) noexcept nogil:
    """The sums of these lines times the product of both scales, plus bias, each rounded."""
    cdef Range ends = Range(s.low, s.high), unbounded = Range(-INFINITY, INFINITY)
    cdef ptrdiff_t c = 0, at, n, channels = s.window.c, elements = lines * s.window.pixels * channels, step
    while c < channels:
        repeat_factors(s, image, c, f)
        at, step = c, max(f.n, channels)
        while at < elements:
            n = min(f.n, elements - at)
            s.slots.mul_f32(n, y + at, 1, f.scale, 1, y + at, &ends if s.bias == NULL else &unbounded)
            if s.bias != NULL:
                s.slots.add_f32(n, y + at, 1, f.bias, 1, y + at, &ends)
            at += step
        c += PL_DEPTH


cdef void depthwise_hybrid_lines(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef HybridDepthwise *s = <HybridDepthwise *>ctx
    cdef pl_dw_window g = s.window, patch
    cdef const uint8_t *row[PL_MAX_TAPS]
    cdef const uint8_t *repeated[PL_MAX_TAPS]
    cdef uint8_t buffer[SPREAD_BUFFER]
    cdef Factors factors
    cdef float *y
    cdef ptrdiff_t line = begin, at
    cdef int rows
    factors.image = -1
    while line < end:
        rows = see_lines(&g, row, <const uint8_t *>s.q + line // s.oh * s.image, s.h, s.line,
                         line % s.oh * s.stride - s.pad, s.stride, s.dilation, min(end - line, s.run))
        y = <float *>(<char *>s.y + line * s.y_line)
        at = 0
        while at < g.pixels:
            patch = spread(s.slots, &s.spread, &g, at, rows, buffer, repeated)
            s.slots.depthwise_f32(&patch, s.w, <const float *>g.zero, -INFINITY, INFINITY, y + at * g.c)
            at += patch.pixels
        finish_depthwise(s, line // s.oh, &factors, g.lines, y)
        line += g.lines
