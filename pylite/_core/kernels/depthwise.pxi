# The rest of conv.pyx: 8-bit depthwise convolutions.
cdef struct DepthwisePacking:
    pl_packing_task task
    const uint8_t *w            # (taps, channels)
    uint8_t *packed
    int32_t *parameters         # (PARAMETERS, blocks * nr)
    const int32_t *bias
    const int32_t *multipliers
    const int32_t *shifts
    ptrdiff_t step              # of multipliers and shifts: 0 where all channels share one
    ptrdiff_t channels, blocks
    int fh, fw, x_zero, w_zero, flip, low, high
    bint wraps, fit


cdef void pack_depthwise(pl_packing_task *task) noexcept nogil:
    cdef DepthwisePacking *p = <DepthwisePacking *>task
    cdef const pl_tile *tile = &task.slots.dw8
    cdef int16_t order[4 * PL_MAX_TAPS]
    cdef int taps = pl_tap_order(tile, p.fh, p.fw, order), t
    cdef int32_t total[MAX_NR]
    cdef int32_t any_weight[MAX_NR]
    cdef int32_t channels[MAX_NR]
    cdef bint wide = tile.bytes == 2
    cdef ptrdiff_t nr = tile.nr, size = p.blocks * nr, b, i, at, channel
    cdef int64_t zero = p.x_zero + (0 if wide else tile.offset), start
    cdef const uint8_t *line
    cdef int8_t value
    for b in range(p.blocks):
        for i in range(nr):
            channel = tile.order[i] if tile.order != NULL else i
            channel = (b * nr + channel) % p.channels if p.wraps else pl_block_start(b, nr, p.channels) + channel
            channels[i] = <int32_t>channel
            total[i] = any_weight[i] = 0
        for t in range(taps):
            if order[t] < 0:
                continue
            line = p.w + order[t] * p.channels
            at = b * taps * nr + t // tile.kr * nr * tile.kr + t % tile.kr
            for i in range(nr):
                if channels[i] < p.channels:
                    value = <int8_t>(line[channels[i]] ^ p.flip)
                    total[i] += value
                    any_weight[i] |= value
                    if wide:
                        (<int16_t *>p.packed)[at + i * tile.kr] = value - p.w_zero
                    else:
                        p.packed[at + i * tile.kr] = value
        for i in range(nr):
            channel = channels[i]
            if channel >= p.channels:
                continue
            start = (0 if p.bias == NULL else p.bias[channel]) - zero * (total[i] - p.fh * p.fw * p.w_zero)
            if any_weight[i] or p.w_zero:
                set_column(p.parameters, size, b * nr + i, start, p.multipliers[channel * p.step],
                           p.shifts[channel * p.step])
            else:
                set_constant(p.parameters, size, b * nr + i, start, p.multipliers[channel * p.step],
                             p.shifts[channel * p.step])
    finish_columns(p.parameters, size)
    if p.fit:
        fit_columns(task.slots, p.parameters, size, NULL, p.fh * p.fw, p.low, p.high, NULL, 0)


def pack_depthwise_q8(w, bias, multipliers, shifts, int x_zero, int w_zero, filter, ends=None):
    """Pack weights (1, fh, fw, c) of an 8-bit depthwise convolution in blocks of channels; a column may be a line.

    bias: int32 (c,) or None; multipliers, shifts: int32 (c,) or (1,) for all; zero points as of int8; filter: as in
    ConvQ8; ends: see matmul.pack_q8.
    Returns (weights, parameters); deferred until finish_packing().
    """
    cdef int fh = filter[0], fw = filter[1], low = 0, high = 0
    cdef int16_t order[4 * PL_MAX_TAPS]
    if fh * fw > PL_MAX_TAPS:
        raise ValueError(f"a depthwise filter of {fh} x {fw} taps; at most {PL_MAX_TAPS} are supported")
    cdef ptrdiff_t c = w.shape[3], nr = slots.dw8.nr
    cdef ptrdiff_t wraps = pl_wraps(&slots.dw8, c, fh, fw, filter[3], filter[5])
    cdef ptrdiff_t blocks = wraps if wraps else padded(c, nr) // nr
    cdef ptrdiff_t packed_bytes = pl_tap_order(&slots.dw8, fh, fw, order) * blocks * nr * slots.dw8.bytes
    cdef ptrdiff_t nbytes = PARAMETERS * blocks * nr * 4
    flat, packed, rows = np.ascontiguousarray(w), pooled(packed_bytes), pooled(nbytes)
    parameters = rows.view(np.int32).reshape(PARAMETERS, -1)
    if ends is not None:
        low, high = ends
    cdef void *values = memory_of(flat, fh * fw * c)
    cdef void *start = NULL if bias is None else memory_of(bias, 4 * c)
    cdef ptrdiff_t one = 1 if len(multipliers) == 1 else c
    cdef void *m = memory_of(multipliers, 4 * one)
    cdef void *e = memory_of(shifts, 4 * one)
    cdef void *to = memory_of(packed, packed_bytes)
    cdef void *at = memory_of(rows, nbytes)
    if not fh * fw * c:
        return packed, parameters
    cdef DepthwisePacking *p = <DepthwisePacking *>calloc(1, sizeof(DepthwisePacking))
    if p == NULL:
        raise MemoryError("no memory to pack weights")
    p.task.run = pack_depthwise
    p.w, p.packed, p.parameters, p.bias = <const uint8_t *>values, <uint8_t *>to, <int32_t *>at, <const int32_t *>start
    p.multipliers, p.shifts, p.step = <const int32_t *>m, <const int32_t *>e, one > 1
    p.channels, p.blocks, p.wraps = c, blocks, wraps != 0
    p.fh, p.fw, p.x_zero, p.w_zero, p.flip = fh, fw, x_zero, w_zero, 0x80 if w.dtype == UINT8 else 0
    p.fit, p.low, p.high = ends is not None, low, high
    defer_packing(&p.task, 8 * fh * fw * c, (flat, packed, rows, bias, multipliers, shifts))
    return packed, parameters


cdef struct Depthwise:
    const pl_slots *slots
    Spread spread
    pl_columns columns
    pl_dw_window window
    const uint8_t *x
    const uint8_t *w
    uint8_t *y
    ptrdiff_t h, oh         # lines of the images
    ptrdiff_t line, image, y_line   # strides in bytes
    int stride, dilation, pad, w_zero, flip


cdef class DepthwiseQ8(Kernel):
    """8-bit depthwise convolution.

    x: (n, h, w, c / m) and y: (n, oh, ow, c), contiguous bytes, m outputs for each channel of x; packed: from
    pack_depthwise_q8; zero: (c,) bytes of x's zero point; the rest as in ConvQ8.
    """
    cdef const uint8_t[:, :, :, ::1] x
    cdef uint8_t[:, :, :, ::1] y
    cdef object held        # owners of the other memory that state points to
    cdef Depthwise state

    def __init__(self, const uint8_t[:, :, :, ::1] x, uint8_t[:, :, :, ::1] y, tuple packed, *, filter,
                 zero, int w_zero, int zero_point, int low, int high, int x_flip=0, int y_flip=0):
        cdef Depthwise *s = &self.state
        weights, parameters = packed
        self.x, self.y, self.held = x, y, (weights, parameters, zero)
        if 0 in self.y.shape[:4] or 0 in self.x.shape[:4]:
            self.fn = <kernel_fn>nothing
            return
        s.slots = slots
        s.x, s.y = &x[0, 0, 0, 0], &y[0, 0, 0, 0]
        s.w = <const uint8_t *>memory_of(weights, weights.size)
        s.h, s.oh, s.line, s.image, s.y_line = x.shape[1], y.shape[1], x.strides[1], x.strides[0], y.strides[1]
        s.w_zero, s.flip = w_zero, x_flip
        (s.window.fh, s.window.fw, s.stride, s.window.stride, s.dilation, s.window.dilation, s.pad,
         s.window.pad) = filter
        s.window.width, s.window.pixels, s.window.c, s.window.zero = x.shape[2], y.shape[2], y.shape[3], (
            <const uint8_t *>memory_of(zero, y.shape[3]))
        plan_spread(&s.spread, &s.window, x.shape[3], 1, s.stride, s.dilation)
        set_columns(&s.columns, parameters, s.window.fh * s.window.fw, zero_point, low, high, y_flip)
        self.fn = <kernel_fn>depthwise_q8
        self.path = "channels repeated, patch by patch" if s.spread.multiplier > 1 else None


cdef int depthwise_q8(DepthwiseQ8 self, pl_pool *pool) noexcept nogil:
    cdef ptrdiff_t lines = self.y.shape[0] * self.y.shape[1]
    cdef const pl_dw_window *g = &self.state.window
    # Each product takes as long as several products of a matrix.
    pool = parallel_pool_q8(pool, self.state.slots, 6 * lines * g.pixels * g.c * g.fh * g.fw)
    parallel_for(pool, lines, self.state.spread.lines, depthwise_q8_lines, &self.state)
    return 0


cdef void depthwise_q8_lines(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef Depthwise *s = <Depthwise *>ctx
    cdef pl_dw_window g, patch
    cdef const uint8_t *row[PL_MAX_TAPS]
    cdef const uint8_t *repeated[PL_MAX_TAPS]
    cdef uint8_t buffer[SPREAD_BUFFER]
    cdef ptrdiff_t image, line, iy, most = s.slots.dw8.mr, at
    cdef int y
    memmove(&g, &s.window, sizeof(g))
    if s.spread.multiplier > 1:
        most = min(most, s.spread.lines)
    g.row, g.y_line = row, s.y_line
    while begin < end:
        image = share(begin, s.oh)
        line = begin - image * s.oh
        g.lines = 1
        if s.dilation == 1 and s.stride == g.stride and s.slots.dw8.mr * s.stride + g.fh <= PL_MAX_TAPS:
            g.lines = <int>min(end - begin, s.oh - line, most)
        for y in range((g.lines - 1) * s.stride + g.fh):
            iy = line * s.stride - s.pad + <ptrdiff_t>y * s.dilation
            row[y] = s.x + image * s.image + iy * s.line if 0 <= iy < s.h else NULL
        at = 0
        while at < g.pixels:
            patch = spread(s.slots, &s.spread, &g, at, (g.lines - 1) * s.stride + g.fh, buffer, repeated)
            s.slots.depthwise_q8(&patch, s.flip, s.w_zero, s.w, &s.columns, s.y + begin * s.y_line + at * g.c)
            at += patch.pixels
        begin += g.lines
