"""Float activations times integer weights: activations are quantized row by row or by image."""
import numpy as np

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset

from pylite._core.kernel cimport Kernel, kernel_fn
from pylite._core.kernels.gemm cimport (
    MAX_CHUNK,
    MAX_MR,
    MAX_NR,
    Laid,
    Lines,
    Output,
    Product8,
    Task,
    Tasks,
    accumulate,
    cut,
    lay_lines,
    padded,
    plan_lines,
    set_output,
    take,
    worth,
)
from pylite._core.kernels.quantizing cimport pl_quantization, quantization
from pylite._core.kernels.window cimport POINTERS, STRIP, copy_row, gather, set_window
from pylite._core.simd cimport (
    PL_DEPTH,
    PL_MAX_TAPS,
    PL_ROWS,
    PL_SCALED,
    PL_SLACK,
    parallel_for,
    pl_blocks,
    pl_dw_window,
    pl_gathered,
    pl_hybrid,
    pl_pool,
    pl_rows,
    pl_slots,
    pl_tile,
    slots,
)

from pylite._core.kernels.matmul import arranged
from pylite._core.memory import kept


cdef enum:
    PIECE = 1024            # elements handled at a time on the stack
    LARGE = 16384           # elements of an image that is quantized in parts,
    PARTS = 64              # as many at most


cdef struct Hybrid:
    Product8 product
    Output output
    Tasks tasks
    pl_slots slots
    pl_hybrid finish
    Lines lines
    bint as_is              # images are used where they are
    const float *x
    uint8_t *q
    float *row_scales
    int32_t *row_zeros
    uint8_t *padding        # lines of zero points, one for each image
    ptrdiff_t line          # their length
    ptrdiff_t images, size  # elements of an image
    int asymmetric
    ptrdiff_t parts         # of a single, large image
    float low[PARTS]
    float high[PARTS]
    const float *in_turn    # weights of TransposeHybrid


cdef class ConvHybrid(Kernel):
    """2-D convolution of float32 images, each quantized to int8 first, with int8 weights.

    x: (n, h, w, c) and y: (n, oh, ow, k) float32, contiguous channels; q: (n, h, w, c) bytes, row_scales: (n,) float32,
    row_zeros: (n,) int32 and padding: (n, fw * c / groups) bytes of scratch; first: fill it, else it was by the same
    x; panels, sums: from matmul.pack_weights; scales: (k,) float32; bias: (k,) float32 or None; asymmetric: quantize
    with a zero point; column_first: multiply by a column's scale before the image's, not by their product; the rest as
    in ConvQ8.  A matrix product is a convolution of m images of one pixel.  Results equal the reference kernels' to the
    last bit, or else networks of such layers would drift apart at every value that lies between two integers.
    """
    cdef const float[:, :, :, ::1] x
    cdef float[:, :, :, :] y
    cdef uint8_t[:, :, :, ::1] q
    cdef float[::1] row_scales
    cdef int32_t[::1] row_zeros
    cdef uint8_t[:, ::1] padding
    cdef const uint8_t[::1] panels
    cdef const int32_t[::1] sums
    cdef const float[::1] scales, bias
    cdef bint first
    cdef Hybrid state

    def __init__(self, const float[:, :, :, ::1] x, float[:, :, :, :] y, uint8_t[:, :, :, ::1] q,
                 float[::1] row_scales, int32_t[::1] row_zeros, uint8_t[:, ::1] padding, bint first, tuple packed,
                 const float[::1] scales, const float[::1] bias, filter, groups, bint asymmetric, bint column_first,
                 float low, float high):
        cdef Hybrid *s = &self.state
        cdef Product8 *p = &s.product
        cdef pl_hybrid *h = &s.finish
        self.x, self.y, self.q, self.row_scales, self.row_zeros, self.padding = (
            x, y, q, row_scales, row_zeros, padding)
        self.panels, self.sums = packed
        self.scales, self.bias, self.first = scales, bias, first
        if 0 in self.y.shape[:4] or 0 in self.x.shape[:4]:
            self.fn = <kernel_fn>nothing
            return
        s.slots = slots[0]
        p.tile, p.slots = s.slots.q8, &s.slots
        p.groups, p.flip = groups, p.tile.offset        # images are quantized to what strips hold
        p.columns = y.shape[3] // p.groups
        p.panels = &self.panels[0] if self.panels.shape[0] else NULL
        set_window(&p.window, &q[0, 0, 0, 0], q.strides[0], q.strides[1], q.strides[2], x.shape[1], x.shape[2],
                   y.shape[1], y.shape[2], x.shape[3] // p.groups, &padding[0, 0], filter)
        p.window.zero_step = padding.shape[1]
        set_output(&s.output, <char *>&y[0, 0, 0, 0], y.shape[0], y.shape[1], y.shape[2], y.strides[0], y.strides[1],
                   y.strides[2])
        p.depth = p.window.fh * p.window.fw * p.window.length
        p.deep, p.wide = padded(p.depth, p.tile.ka), padded(p.columns, p.tile.nv)
        s.x, s.q, s.row_scales, s.row_zeros = &x[0, 0, 0, 0], &q[0, 0, 0, 0], &row_scales[0], &row_zeros[0]
        s.padding, s.line = &padding[0, 0], padding.shape[1]
        s.images, s.size, s.asymmetric = x.shape[0], x.shape[1] * x.shape[2] * x.shape[3], asymmetric
        s.parts = min(s.size // (LARGE // 2), <ptrdiff_t>PARTS)
        h.sums, h.scale, h.bias = &self.sums[0], &scales[0], &bias[0] if bias is not None else NULL
        h.column_first, h.low, h.high = column_first, low, high
        self.fn, self.path = <kernel_fn>conv_hybrid, "taps gathered into strips"
        if self.panels.shape[0] and (p.window.direct or p.window.fw * p.window.length % p.tile.ka == 0):
            if plan_lines(&s.lines, &p.window, &s.output, &p.tile, 1, p.groups):
                p.tile.mr = s.lines.chunk
                s.as_is = p.window.direct and p.tile.bytes == 1 and s.lines.line % p.tile.ka == 0
                self.path = "rows as they lie in memory" if s.as_is else "lines, each laid down once"


cdef int nothing(Kernel self, pl_pool *pool) noexcept nogil:
    return 0


cdef int conv_hybrid(ConvHybrid self, pl_pool *pool) noexcept nogil:
    cdef Hybrid *s = &self.state
    cdef Product8 *p = &s.product
    pool = worth(pool, s.output.span * s.output.lines * p.depth * p.columns)
    if self.first:
        if s.images == 1 and s.size >= LARGE:
            parallel_for(pool, s.parts, 1, see_parts, s)
            parallel_for(pool, s.parts, 1, quantize_parts, s)
        else:
            parallel_for(pool, s.images, max(<ptrdiff_t>1, 4096 // s.size), quantize_images, s)
    parallel_for(pool, cut(&s.tasks, &s.output, &p.tile, p.columns, p.groups, pool), 1,
                 transpose_hybrid_tasks if s.in_turn != NULL else
                 conv_hybrid_lines if s.lines.chunk else conv_hybrid_tasks, s)
    return 0


cdef void quantize_images(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """docs/numerics.md section 4."""
    cdef Hybrid *s = <Hybrid *>ctx
    cdef int flip = s.product.flip
    cdef ptrdiff_t i
    s.slots.quantize_rows(end - begin, s.size, s.x + begin * s.size, s.size, s.asymmetric, flip, s.q + begin * s.size,
                          s.row_scales + begin, s.row_zeros + begin)
    if not s.product.window.direct:
        for i in range(begin, end):
            memset(s.padding + i * s.line, s.row_zeros[i] ^ flip, s.line)


cdef void see_parts(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef Hybrid *s = <Hybrid *>ctx
    cdef ptrdiff_t i, at
    for i in range(begin, end):
        at = i * s.size // s.parts
        s.slots.range_f32((i + 1) * s.size // s.parts - at, s.x + at, &s.low[i], &s.high[i])


cdef void quantize_parts(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef Hybrid *s = <Hybrid *>ctx
    cdef float low = 0, high = 0, scale, inverse
    cdef ptrdiff_t i, at = begin * s.size // s.parts
    cdef int32_t zero
    for i in range(s.parts):
        low, high = min(low, s.low[i]), max(high, s.high[i])
    zero = pl_quantization(low, high, s.asymmetric, &scale, &inverse)
    s.slots.quantize_s8(end * s.size // s.parts - at, s.x + at, inverse, zero, s.asymmetric, s.product.flip, s.q + at)
    if begin == 0:
        s.row_scales[0], s.row_zeros[0] = scale, zero
        memset(s.padding, zero ^ s.product.flip, s.line)


cdef void see_rows(const Hybrid *s, const Task *task, int offset, int32_t *terms, float *scales) noexcept nogil:
    """Scales of a task's rows, and zero points of what was quantized plus `offset`."""
    cdef ptrdiff_t image = 0
    cdef int r
    for r in range(task.rows):
        if s.images > 1:
            image = (task.position + r) // (s.product.window.oh * s.product.window.ow)
        terms[r] = s.row_zeros[image] + offset
        scales[r] = s.row_scales[image]


cdef void conv_hybrid_lines(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef Hybrid *s = <Hybrid *>ctx
    cdef const Product8 *p = &s.product
    cdef uint8_t strip[STRIP + 2 * PL_SLACK]
    cdef int32_t terms[MAX_CHUNK]
    cdef float scales[MAX_CHUNK]
    cdef const uint8_t *rows = NULL
    cdef Task task
    cdef Laid laid
    cdef ptrdiff_t i, j, seen = -1
    laid.lines = 0
    for i in range(begin, end):
        take(&s.tasks, &s.output, p.columns, i, &task)
        if i // s.tasks.splits != seen:
            seen = i // s.tasks.splits
            rows = lay_lines(p, &s.lines, s.as_is, task.position, task.rows, strip, &laid)
            see_rows(s, &task, p.tile.offset, terms, scales)
        j = task.begin
        while j < task.end:
            p.slots.gemm_hybrid(p.slots, task.rows, <int>min(<ptrdiff_t>p.tile.nr, task.end - j), &s.lines.shape, rows,
                                p.panels + j * p.deep, terms, scales, &s.finish, j, <float *>task.y + j,
                                s.output.sw // sizeof(float))
            j += p.tile.nr


cdef void conv_hybrid_tasks(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef Hybrid *s = <Hybrid *>ctx
    cdef const Product8 *p = &s.product
    cdef const pl_hybrid *h = &s.finish
    cdef uint8_t strip[STRIP + 2 * PL_SLACK]
    cdef const uint8_t *src[POINTERS]
    cdef int32_t acc[MAX_MR * MAX_NR]
    cdef int32_t terms[MAX_MR]
    cdef float scales[MAX_MR]
    cdef pl_rows shape = pl_gathered(p.deep)
    cdef Task task
    cdef ptrdiff_t i, j, at, length = 0, seen = -1, step = s.output.sw // sizeof(float)
    cdef bint whole = p.deep * p.tile.bytes * p.tile.mr <= STRIP and p.window.fh * p.window.fw * p.tile.mr <= POINTERS
    cdef int n, r, segments
    for i in range(begin, end):
        take(&s.tasks, &s.output, p.columns, i, &task)
        if i // s.tasks.splits != seen:
            seen = i // s.tasks.splits
            see_rows(s, &task, p.tile.offset, terms, scales)
            if whole:
                segments = gather(&p.window, task.position, task.rows, task.group * p.window.length, src, &length)
                p.slots.strip_q8(task.rows, segments, length, src, p.flip, strip, p.deep)
        j = task.begin
        while j < task.end:
            n = <int>min(<ptrdiff_t>p.tile.nr, task.end - j)
            at = task.group * p.columns + j
            if whole:
                p.slots.gemm_hybrid(p.slots, task.rows, n, &shape, strip,
                                    p.panels + (task.group * p.wide + j) * p.deep, terms, scales, h, at,
                                    <float *>task.y + at, step)
            else:
                accumulate(p, task.group, task.position, task.rows, j, n, acc, NULL)
                for r in range(task.rows):
                    p.slots.finish_hybrid(n, &acc[r * MAX_NR], terms[r], h.sums + at, h.scale + at, scales[r],
                                          h.column_first, h.bias + at if h.bias != NULL else NULL, h.low, h.high,
                                          <float *>task.y + r * step + at)
            j += p.tile.nr


def pack_in_turn(w, layout):
    """Weights (columns, ...) for TransposeHybrid: float32 (depth, columns padded to PL_SCALED); layout: see
    matmul.arranged.
    """
    w = arranged(w, layout)
    columns, depth = w.shape[0], w.size // w.shape[0] if w.size else 0
    rows = np.zeros((depth, padded(columns, PL_SCALED)), np.float32)
    rows[:, :columns] = w.reshape(columns, depth).T
    return rows


cdef class TransposeHybrid(ConvHybrid):
    """A phase of a transposed convolution of float32 images with int8 weights.

    As ConvHybrid, but weights come from pack_in_turn, and scales and bias have as many columns, filled with zeros: each
    product is scaled by itself and added in float32, as the reference kernel has it.
    """
    cdef const float[:, ::1] in_turn

    def __init__(self, x, y, q, row_scales, row_zeros, padding, first, const float[:, ::1] in_turn, *rest):
        ConvHybrid.__init__(self, x, y, q, row_scales, row_zeros, padding, first, (_NO_PANEL, _NO_SUM), *rest)
        self.in_turn = in_turn
        if self.fn == <kernel_fn>conv_hybrid:
            self.state.in_turn = &in_turn[0, 0] if in_turn.shape[0] else &_no_weight
            self.state.product.tile.mr, self.state.product.tile.nr, self.state.product.flip = MAX_MR, MAX_NR, 0


cdef float _no_weight
_NO_PANEL = np.zeros(0, np.uint8)
_NO_SUM = np.zeros(1, np.int32)


cdef void transpose_hybrid_tasks(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef Hybrid *s = <Hybrid *>ctx
    cdef const Product8 *p = &s.product
    cdef const pl_hybrid *h = &s.finish
    cdef uint8_t copied[PL_DEPTH]
    cdef const uint8_t *src[POINTERS]
    cdef const uint8_t *x
    cdef int32_t zeros[MAX_MR]
    cdef float scales[MAX_MR]
    cdef Task task
    cdef ptrdiff_t i, j, k, piece, length = 0, wide = padded(p.columns, PL_SCALED)
    cdef int r, n, segments = 0
    cdef bint whole = p.depth <= PL_DEPTH and p.window.fh * p.window.fw * p.tile.mr <= POINTERS
    for i in range(begin, end):
        take(&s.tasks, &s.output, p.columns, i, &task)
        see_rows(s, &task, 0, zeros, scales)
        if whole:
            segments = gather(&p.window, task.position, task.rows, 0, src, &length)
        j = task.begin
        for r in range(task.rows):
            k = 0
            while True:
                piece = min(<ptrdiff_t>PL_DEPTH, p.depth - k)
                x = copied
                if whole and segments == 1:
                    x = src[r]
                elif whole:
                    for n in range(segments):
                        memcpy(copied + n * length, src[r * segments + n], length)
                else:
                    copy_row(&p.window, task.position + r, 0, k, k + piece, copied)
                s.slots.scaled_sums(<int>(task.end - j), <int>piece, x, zeros[r], s.in_turn + k * wide + j, wide,
                                    h.scale + j, scales[r], k == 0, k + piece == p.depth,
                                    h.bias + j, h.low, h.high, <float *>(task.y + r * s.output.sw) + j)
                k += piece
                if k >= p.depth:
                    break


cdef struct Depthwise:
    pl_slots slots
    pl_dw_window window
    const float *x
    int16_t *q
    float *row_scales
    const int16_t *w
    const float *scales
    const float *bias
    char *y
    ptrdiff_t images, size  # elements of an image
    ptrdiff_t h, oh, line, image, y_line     # lines of the images; bytes
    int stride, dilation, pad
    float low, high


cdef class DepthwiseHybrid(Kernel):
    """Depthwise convolution of float32 images, each quantized to int8 with a zero point first, with int8 weights.

    x: (n, h, w, c) and y: (n, oh, ow, c) float32, contiguous; q: (n, h, w, c) int16 and row_scales: (n,) float32 of
    scratch; w: int16 (fh * fw, c); scales: (c,) float32; bias: (c,) float32 or None; the rest as in ConvHybrid.
    """
    cdef const float[:, :, :, ::1] x
    cdef float[:, :, :, ::1] y
    cdef int16_t[:, :, :, ::1] q
    cdef float[::1] row_scales
    cdef const int16_t[:, ::1] w
    cdef const float[::1] scales, bias
    cdef const uint8_t[::1] zero
    cdef Depthwise state

    def __init__(self, const float[:, :, :, ::1] x, float[:, :, :, ::1] y, int16_t[:, :, :, ::1] q,
                 float[::1] row_scales, const int16_t[:, ::1] w, const float[::1] scales, const float[::1] bias, filter,
                 float low, float high):
        cdef Depthwise *s = &self.state
        self.x, self.y, self.q, self.row_scales, self.w, self.scales, self.bias = x, y, q, row_scales, w, scales, bias
        if 0 in self.y.shape[:4] or 0 in self.x.shape[:4]:
            self.fn = <kernel_fn>nothing
            return
        self.zero = bytes(2 * x.shape[3])
        s.slots, s.low, s.high = slots[0], low, high
        s.x, s.q, s.w, s.y = &x[0, 0, 0, 0], &q[0, 0, 0, 0], &w[0, 0], <char *>&y[0, 0, 0, 0]
        s.row_scales, s.scales = &row_scales[0], &scales[0]
        s.bias = &bias[0] if bias is not None else NULL
        s.images, s.size = x.shape[0], x.shape[1] * x.shape[2] * x.shape[3]
        s.h, s.oh, s.line, s.image, s.y_line = x.shape[1], y.shape[1], q.strides[1], q.strides[0], y.strides[1]
        (s.window.fh, s.window.fw, s.stride, s.window.stride, s.dilation, s.window.dilation, s.pad,
         s.window.pad) = filter
        s.window.width, s.window.pixels, s.window.c, s.window.zero = x.shape[2], y.shape[2], x.shape[3], &self.zero[0]
        self.fn = <kernel_fn>depthwise_hybrid


cdef int depthwise_hybrid(DepthwiseHybrid self, pl_pool *pool) noexcept nogil:
    cdef Depthwise *s = &self.state
    parallel_for(pool, s.images, 1, center_images, s)
    parallel_for(pool, s.images * s.oh, 1, depthwise_hybrid_lines, s)
    return 0


cdef void center_images(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Quantize, and take the zero point off: padding then is 0."""
    cdef Depthwise *s = <Depthwise *>ctx
    cdef ptrdiff_t i
    for i in range(begin, end):
        s.row_scales[i] = center(&s.slots, s.x + i * s.size, s.size, True, s.q + i * s.size)


cdef float center(const pl_slots *rung, const float *x, ptrdiff_t size, bint asymmetric, int16_t *q) noexcept nogil:
    """q = x quantized, less the zero point; returns the scale."""
    cdef int8_t piece[PIECE]
    cdef ptrdiff_t k = 0, n, j
    cdef float inverse, scale
    cdef int32_t zero = quantization(rung, x, size, asymmetric, &scale, &inverse)
    while k < size:
        n = min(<ptrdiff_t>PIECE, size - k)
        rung.quantize_s8(n, x + k, inverse, zero, asymmetric, 0, <uint8_t *>piece)
        for j in range(n):
            q[k + j] = <int16_t>(piece[j] - zero)
        k += n
    return scale


cdef void depthwise_hybrid_lines(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef Depthwise *s = <Depthwise *>ctx
    cdef pl_dw_window g = s.window
    cdef const uint8_t *row[PL_MAX_TAPS]
    cdef int64_t wide[PIECE]
    cdef int32_t acc[PIECE]
    cdef ptrdiff_t line, iy, at, c
    cdef int y, n, j
    g.row = row
    for line in range(begin, end):
        for y in range(g.fh):
            iy = line % s.oh * s.stride - s.pad + <ptrdiff_t>y * s.dilation
            row[y] = NULL
            if 0 <= iy < s.h:
                row[y] = <const uint8_t *>s.q + line // s.oh * s.image + iy * s.line
        for at in range(g.pixels):
            c = 0
            while c < g.c:
                n = <int>min(<ptrdiff_t>PIECE, g.c - c)
                s.slots.depthwise_s64(&g, at, c, n, s.w, wide)
                for j in range(n):
                    acc[j] = <int32_t>wide[j]
                s.slots.finish_hybrid(n, acc, 0, acc, s.scales + c, s.row_scales[line // s.oh], False,
                                      s.bias + c if s.bias != NULL else NULL, s.low, s.high,
                                      <float *>(s.y + line * s.y_line) + at * g.c + c)
                c += n


cdef void halve(const uint8_t *x, ptrdiff_t step, ptrdiff_t pairs, uint8_t *to) noexcept nogil:
    """Pairs of steps of 4-bit numbers in bytes to one step each."""
    cdef ptrdiff_t _pair, k
    for _pair in range(pairs):
        for k in range(step):
            to[k] = x[k] & 15 | x[step + k] << 4
        x += 2 * step
        to += step


def pack_blocks(w, scales, Py_ssize_t blocks, bint narrow):
    """Weights (n, k) and scales (n, blocks) for BlockwiseHybrid: (panels, sums, scale, nibbles) of pl_blocks.

    narrow: weights have 4 bits.
    """
    cdef const pl_tile *t = &slots.q8
    cdef ptrdiff_t columns = w.shape[0], size = w.shape[1] // blocks, wide = padded(columns, t.nv), i, j, width, at
    cdef ptrdiff_t deep = padded(size, t.ka)
    cdef bint nibbles = narrow and t.nibbles and size % (2 * t.kr) == 0 and size <= 1 << 15     # 16 sums in 32 bits
    cdef const uint8_t[::1] x = w.reshape(columns, blocks, size).swapaxes(0, 1).reshape(-1).view(np.uint8)
    panels, sums = kept(wide * blocks * deep >> nibbles), np.zeros(wide * blocks, np.int32)
    lines = np.zeros((blocks, wide), np.float32)
    lines[:, :columns] = scales.T
    cdef uint8_t[::1] to = panels, panel = np.zeros(MAX_NR * deep if nibbles else 0, np.uint8)
    cdef int32_t[::1] totals = sums
    for j in range(0, columns, t.nr):
        width = min(<ptrdiff_t>t.nr, wide - j)
        for i in range(blocks):
            at = j * blocks + i * width
            slots.pack_q8(t, min(width, columns - j), size, &x[(i * columns + j) * size], 0,
                          &panel[0] if nibbles else &to[at * deep], &totals[at])
            if nibbles:
                halve(&panel[0], width * t.kr, deep // (2 * t.kr), &to[at * deep // 2])
    scale = [lines[:, j:j + t.nr].reshape(-1) for j in range(0, wide, t.nr)]
    return panels, sums, np.concatenate(scale) if scale else lines.reshape(-1), nibbles


cdef struct Blockwise:
    pl_slots slots
    pl_blocks blocks
    const float *x
    uint8_t *q
    float *row_scales
    int32_t *terms
    float *y
    ptrdiff_t rows, splits


cdef class BlockwiseHybrid(Kernel):
    """Rows of float32, each quantized to int8 with a zero point first, times weights with a scale for each block.

    x: (m, k) and y: (m, n) float32; q: (m, k) bytes, row_scales: (m,) float32 and terms: (m,) int32 of scratch;
    packed: from pack_blocks, of `blocks` blocks; bias: (n,) float32 or None.
    """
    cdef const float[:, ::1] x
    cdef float[:, ::1] y
    cdef uint8_t[:, ::1] q
    cdef float[::1] row_scales
    cdef int32_t[::1] terms
    cdef const uint8_t[::1] panels
    cdef const int32_t[::1] sums
    cdef const float[::1] scales, bias
    cdef Blockwise state

    def __init__(self, const float[:, ::1] x, float[:, ::1] y, uint8_t[:, ::1] q, float[::1] row_scales,
                 int32_t[::1] terms, tuple packed, Py_ssize_t blocks, const float[::1] bias, float low, float high):
        cdef Blockwise *s = &self.state
        cdef pl_blocks *b = &s.blocks
        self.x, self.y, self.q, self.row_scales, self.terms, self.bias = x, y, q, row_scales, terms, bias
        self.panels, self.sums, self.scales, b.nibbles = packed
        if 0 in self.x.shape[:2] or 0 in self.y.shape[:2]:
            self.fn = <kernel_fn>nothing
            return
        s.slots = slots[0]
        b.panels, b.sums, b.scale = &self.panels[0], &self.sums[0], &self.scales[0]
        b.bias = &bias[0] if bias is not None else NULL
        b.depth, b.columns, b.blocks, b.low, b.high = x.shape[1], y.shape[1], blocks, low, high
        b.deep, b.wide = padded(b.depth // b.blocks, s.slots.q8.ka), padded(b.columns, s.slots.q8.nv)
        s.x, s.q, s.row_scales, s.terms, s.y = &x[0, 0], &q[0, 0], &row_scales[0], &terms[0], &y[0, 0]
        s.rows, s.splits = x.shape[0], (b.columns + s.slots.q8.nr - 1) // s.slots.q8.nr
        self.fn, self.path = <kernel_fn>blockwise_hybrid, "weights of 4 bits" if b.nibbles else "weights of 8 bits"


cdef int blockwise_hybrid(BlockwiseHybrid self, pl_pool *pool) noexcept nogil:
    cdef Blockwise *s = &self.state
    cdef ptrdiff_t depth = s.blocks.depth
    pool = worth(pool, s.rows * depth * s.blocks.columns)
    parallel_for(pool, s.rows, max(<ptrdiff_t>1, 4096 // depth), quantize_rows, s)
    parallel_for(pool, (s.rows + PL_ROWS - 1) // PL_ROWS * s.splits, 1, blockwise_tasks, s)
    return 0


cdef void quantize_rows(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef Blockwise *s = <Blockwise *>ctx
    cdef ptrdiff_t depth = s.blocks.depth, r
    cdef int offset = s.slots.q8.offset         # q is what strips hold
    s.slots.quantize_rows(end - begin, depth, s.x + begin * depth, depth, True, offset, s.q + begin * depth,
                          s.row_scales + begin, s.terms + begin)
    for r in range(begin, end):
        s.terms[r] += offset


cdef void blockwise_tasks(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef Blockwise *s = <Blockwise *>ctx
    cdef const pl_blocks *b = &s.blocks
    cdef ptrdiff_t i, j, row
    for i in range(begin, end):
        row, j = i // s.splits * PL_ROWS, i % s.splits * s.slots.q8.nr
        s.slots.gemm_blocks(&s.slots, <int>min(<ptrdiff_t>PL_ROWS, s.rows - row),
                            <int>min(<ptrdiff_t>s.slots.q8.nr, b.columns - j), b, j, s.q + row * b.depth,
                            s.terms + row, s.row_scales + row, s.y + row * b.columns + j)
