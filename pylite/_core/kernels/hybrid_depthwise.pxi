# The rest of hybrid.pyx: depthwise convolutions with one output per channel.
#
# Images are quantized to whole numbers in float32: sums of their products with weights of 8 bits stay below 2^24, so
# that float32 has them exactly, in whatever order they are added.
def pack_depthwise_hybrid(w):
    """Weights (1, fh, fw, c) as float32 (taps, c)."""
    return np.ascontiguousarray(w.reshape(-1, w.shape[3]), np.float32)


cdef struct HybridDepthwise:
    const pl_slots *slots
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
    int stride, dilation, pad
    float low, high


cdef class DepthwiseHybrid(Kernel):
    """Depthwise convolution of float32 images, each quantized to int8 with a zero point first, with int8 weights.

    x: (n, h, w, c) and y: (n, oh, ow, c) float32, contiguous; q: (n, h, w, c) and row_scales: (n,) float32 of scratch;
    w: from pack_depthwise_hybrid, 512 taps at most; scales: (c,) float32; bias: (c,) float32 or None; the rest as in
    ConvHybrid.
    """
    cdef const float[:, :, :, ::1] x
    cdef float[:, :, :, ::1] y, q
    cdef float[::1] row_scales
    cdef const float[:, ::1] w
    cdef const float[::1] scales, bias
    cdef const float[::1] zeros     # the pixel read outside of the image; a bias of 0
    cdef HybridDepthwise state

    def __init__(self, const float[:, :, :, ::1] x, float[:, :, :, ::1] y, float[:, :, :, ::1] q,
                 float[::1] row_scales, const float[:, ::1] w, const float[::1] scales, const float[::1] bias, filter,
                 float low, float high):
        cdef HybridDepthwise *s = &self.state
        self.x, self.y, self.q, self.row_scales, self.w, self.scales, self.bias = x, y, q, row_scales, w, scales, bias
        if 0 in self.y.shape[:4] or 0 in self.x.shape[:4]:
            self.fn = <kernel_fn>nothing
            return
        self.zeros = np.zeros(x.shape[3], np.float32)
        s.slots, s.low, s.high = slots, low, high
        s.x, s.q, s.w, s.y, s.row_scales = &x[0, 0, 0, 0], &q[0, 0, 0, 0], &w[0, 0], &y[0, 0, 0, 0], &row_scales[0]
        s.scales, s.bias = &scales[0], &bias[0] if bias is not None else NULL
        s.h, s.oh, s.line, s.image, s.y_line = x.shape[1], y.shape[1], q.strides[1], q.strides[0], y.strides[1]
        s.size = x.shape[1] * x.shape[2] * x.shape[3]
        (s.window.fh, s.window.fw, s.stride, s.window.stride, s.dilation, s.window.dilation, s.pad,
         s.window.pad) = filter
        s.window.width, s.window.pixels, s.window.c, s.window.zero = (
            x.shape[2], y.shape[2], x.shape[3], <const uint8_t *>&self.zeros[0])
        s.window.lines = 1
        self.fn = <kernel_fn>depthwise_hybrid


cdef int depthwise_hybrid(DepthwiseHybrid self, pl_pool *pool) noexcept nogil:
    cdef const pl_dw_window *g = &self.state.window
    cdef ptrdiff_t lines = self.y.shape[0] * self.y.shape[1]
    pool = parallel_pool(pool, 2 * lines * g.pixels * g.c * g.fh * g.fw)
    parallel_for(pool, self.y.shape[0], 1, center_images, &self.state)
    parallel_for(pool, lines, 1, depthwise_hybrid_lines, &self.state)
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


cdef void depthwise_hybrid_lines(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef HybridDepthwise *s = <HybridDepthwise *>ctx
    cdef pl_dw_window g = s.window
    cdef const uint8_t *row[PL_MAX_TAPS]
    cdef float scales[PL_DEPTH]
    cdef Range ends = Range(s.low, s.high), unbounded = Range(-INFINITY, INFINITY)
    cdef float *y
    cdef ptrdiff_t line, iy, c, n, j, at
    cdef int i
    g.row = row
    for line in range(begin, end):
        for i in range(g.fh):
            iy = line % s.oh * s.stride - s.pad + <ptrdiff_t>i * s.dilation
            row[i] = (<const uint8_t *>s.q + line // s.oh * s.image + iy * s.line) if 0 <= iy < s.h else NULL
        y = <float *>(<char *>s.y + line * s.y_line)
        s.slots.depthwise_f32(&g, s.w, <const float *>g.zero, -INFINITY, INFINITY, y)
        c = 0
        while c < g.c:      # sums times the product of both scales, plus bias, each rounded
            n = min(<ptrdiff_t>PL_DEPTH, g.c - c)
            for j in range(n):
                scales[j] = s.row_scales[line // s.oh] * s.scales[c + j]
            for at in range(g.pixels):
                s.slots.mul_f32(n, y + at * g.c + c, 1, scales, 1, y + at * g.c + c,
                                &ends if s.bias == NULL else &unbounded)
                if s.bias != NULL:
                    s.slots.add_f32(n, y + at * g.c + c, 1, s.bias + c, 1, y + at * g.c + c, &ends)
            c += n
