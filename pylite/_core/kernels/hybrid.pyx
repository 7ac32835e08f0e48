"""Float activations times integer weights: activations are quantized row by row or by image."""
import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int32_t, uint8_t
from libc.string cimport memcpy, memset

from pylite._core.run.kernel cimport FLUSHED, Kernel, kernel_fn
from pylite._core.kernels.lines cimport MAX_CHUNK, LineBuffer, Lines, next_line, plan_lines
from pylite._core.kernels.product8 cimport Product8, accumulate, pack_lines
from pylite._core.kernels.rounding cimport pl_quantization
from pylite._core.kernels.spread cimport (
    SPREAD_BUFFER,
    Spread,
    lines_of_run,
    lines_of_task,
    plan_spread,
    see_lines,
    spread,
)
from pylite._core.kernels.tasks cimport (
    MAX_MR,
    MAX_NR,
    Output,
    Task,
    Tasks,
    get_task,
    padded,
    parallel_pool,
    plan_tasks,
    set_output,
    share,
)
from pylite._core.kernels.window cimport A_PANEL_BYTES, POINTERS, copy_row, gather, set_window
from pylite._core.simd cimport (
    PL_BLOCK_ROWS,
    PL_DEPTH,
    PL_MAX_TAPS,
    PL_SCALED,
    PL_SLACK,
    parallel_for,
    pl_a_layout,
    pl_blocks,
    pl_dw_window,
    pl_hybrid,
    pl_packed_layout,
    pl_pool,
    pl_slots,
    pl_tile,
    pool_threads,
    slots,
)

from pylite._core.kernels.matmul import arranged
from pylite._core.run.memory import pooled


cdef struct DequantizeParameters:       # of the slot dequantize_i8
    float scale
    int32_t zero


cdef struct Range:                      # of the slots add_f32 and mul_f32
    float low, high


cdef enum:
    LARGE = 16384           # elements of an image that several threads quantize in slices,
    PARTS = 64              # so many at most


cdef struct Hybrid:
    Product8 product
    Output output
    Tasks tasks
    const pl_slots *slots
    pl_hybrid finish
    Lines lines
    bint as_is              # images are read in place
    const float *x
    uint8_t *q
    float *row_scales
    int32_t *row_zeros
    uint8_t *padding        # a line of zero points for each image,
    ptrdiff_t line          # and its length
    ptrdiff_t images, size  # elements of an image
    int asymmetric
    ptrdiff_t parts         # of a single, large image
    float low[PARTS]
    float high[PARTS]
    const float *float_weights   # weights of TransposeHybrid


cdef class ConvHybrid(Kernel):
    """2-D convolution of float32 images, each quantized to int8 first, with int8 weights.

    x: (n, h, w, c) and y: (n, oh, ow, k) float32, contiguous channels.
    Scratch: q, (n, h, w, c) bytes; row_scales, (n,) float32; row_zeros, (n,) int32; padding, (n, fw * c / groups)
    bytes; first: fill it, else a kernel with the same x has filled it.
    panels, sums: from matmul.pack_weights; scales: (k,) float32; bias: (k,) float32 or None; asymmetric: quantize with
    a zero point; column_first: multiply by the scale of a column before that of the image, not by their product; seen:
    pixels of q to be convolved instead of all; the rest as in ConvQ8.
    A matrix product is a convolution of m images of one pixel.  Results have the bits of the reference kernels: with
    others, networks of such layers would diverge at every value that lies between two integers.
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

    def __init__(self, const float[:, :, :, ::1] x, float[:, :, :, :] y, tuple packed, const float[::1] bias, *,
                 uint8_t[:, :, :, ::1] q, float[::1] row_scales, int32_t[::1] row_zeros, uint8_t[:, ::1] padding,
                 bint first, const float[::1] scales, filter, groups, bint asymmetric, bint column_first, float low,
                 float high, const uint8_t[:, :, :, :] seen=None):
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
        s.slots = slots
        p.tile, p.slots = s.slots.q8, s.slots
        p.groups, p.flip = groups, p.tile.offset        # images are quantized to the form of A panels
        p.columns = y.shape[3] // p.groups
        p.panels = &self.panels[0] if self.panels.shape[0] else NULL
        if seen is None:
            seen = q
        set_window(&p.window, &seen[0, 0, 0, 0] if seen.size else NULL, seen.strides[0], seen.strides[1],
                   seen.strides[2], seen.shape[1], seen.shape[2], y.shape[1], y.shape[2], x.shape[3] // p.groups,
                   &padding[0, 0], filter)
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
        h.column_first, h.fit, h.low, h.high = column_first, -1, low, high
        self.fn, self.path = <kernel_fn>conv_hybrid, "taps gathered into packed panels"
        self.subnormals = FLUSHED
        if self.panels.shape[0] and plan_lines(&s.lines, &p.window, &s.output, &p.tile, 1, p.groups):
            p.tile.mr = s.lines.chunk
            p.deep = s.lines.shape.lines * s.lines.shape.depth
            s.as_is = p.window.direct and p.tile.bytes == 1 and s.lines.line % p.tile.ka == 0
            self.path = "rows as they lie in memory" if s.as_is else "lines, each packed once"


cdef int nothing(Kernel self, pl_pool *pool) noexcept nogil:
    return 0


cdef int conv_hybrid(ConvHybrid self, pl_pool *pool) noexcept nogil:
    cdef Hybrid *s = &self.state
    cdef Product8 *p = &s.product
    cdef int unfit = 0
    pool = parallel_pool(pool, s.output.span * s.output.lines * p.depth * p.columns)
    if s.finish.fit < 0:    # not before packing has ended
        s.slots.fit_q8(0, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, p.panels, self.panels.shape[0], NULL, NULL, NULL,
                       &unfit)
        s.finish.fit = not unfit
    if self.first:
        if s.images == 1 and s.size >= LARGE:
            parallel_for(pool, s.parts, 1, see_parts, s)
            parallel_for(pool, s.parts, 1, quantize_parts, s)
        else:
            parallel_for(pool, s.images, max(<ptrdiff_t>1, 4096 // s.size), quantize_images, s)
    parallel_for(pool, plan_tasks(&s.tasks, &s.output, &p.tile, p.columns, p.groups, pool), 1,
                 transpose_hybrid_tasks if s.float_weights != NULL else
                 conv_hybrid_lines if s.lines.chunk else conv_hybrid_tasks, s)
    return 0


cdef void quantize_images(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Quantize images begin..end-1 (docs/numerics.md section 4)."""
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
    """The scales of a task's rows, and their zero points plus `offset`."""
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
    cdef uint8_t a_panel[A_PANEL_BYTES + 2 * PL_SLACK]
    cdef int32_t terms[MAX_CHUNK]
    cdef float scales[MAX_CHUNK]
    cdef const uint8_t *rows = NULL
    cdef Task task
    cdef LineBuffer line_buffer
    cdef ptrdiff_t i = begin, j, most, seen = -1, step = p.window.stride_h * s.lines.pitch * p.tile.bytes
    line_buffer.row = line_buffer.lines = 0
    while i < end:
        get_task(&s.tasks, &s.output, p.columns, i, &task)
        if share(i, s.tasks.splits) != seen:
            seen = share(i, s.tasks.splits)
            rows = pack_lines(p, &s.lines, s.as_is, task.position, task.rows, share(end - i - 1, s.tasks.splits) + 1,
                              a_panel, &line_buffer)
            see_rows(s, &task, p.tile.offset, terms, scales)
        while True:
            j, most = task.begin, p.columns if task.rows == 1 and p.tile.any_n else p.tile.nr
            while j < task.end:
                p.slots.gemm_hybrid(p.slots, task.rows, <int>min(most, task.end - j), &s.lines.shape, rows,
                                    p.panels + j * p.deep, terms, scales, &s.finish, j, <float *>task.y + j,
                                    s.output.sw // sizeof(float))
                j += most
            i += 1
            if not next_line(&s.tasks, &s.output, &line_buffer, &task):
                break
            rows += step


cdef void conv_hybrid_tasks(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef Hybrid *s = <Hybrid *>ctx
    cdef const Product8 *p = &s.product
    cdef const pl_hybrid *h = &s.finish
    cdef uint8_t a_panel[A_PANEL_BYTES + 2 * PL_SLACK]
    cdef const uint8_t *src[POINTERS]
    cdef int32_t acc[MAX_MR * MAX_NR]
    cdef int32_t terms[MAX_MR]
    cdef float scales[MAX_MR]
    cdef pl_a_layout shape = pl_packed_layout(p.deep)
    cdef Task task
    cdef ptrdiff_t i, j, at, length = 0, seen = -1, step = s.output.sw // sizeof(float)
    cdef bint whole = (p.deep * p.tile.bytes * p.tile.mr <= A_PANEL_BYTES
                       and p.window.fh * p.window.fw * p.tile.mr <= POINTERS)
    cdef int n, r, segments
    for i in range(begin, end):
        get_task(&s.tasks, &s.output, p.columns, i, &task)
        if share(i, s.tasks.splits) != seen:
            seen = share(i, s.tasks.splits)
            see_rows(s, &task, p.tile.offset, terms, scales)
            if whole:
                segments = gather(&p.window, task.position, task.rows, task.group * p.window.length, src, &length)
                p.slots.pack_a_q8(task.rows, segments, length, src, p.flip, a_panel, p.deep)
        j = task.begin
        while j < task.end:
            n = <int>min(<ptrdiff_t>p.tile.nr, task.end - j)
            at = task.group * p.columns + j
            if whole:
                p.slots.gemm_hybrid(p.slots, task.rows, n, &shape, a_panel,
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

    Like ConvHybrid, but the weights are from pack_in_turn, and scales and bias have as many columns, filled with zeros:
    each product is scaled by itself and added in float32, as in the reference kernel.
    """
    cdef const float[:, ::1] float_weights

    def __init__(self, x, y, const float[:, ::1] float_weights, bias, **named):
        ConvHybrid.__init__(self, x, y, (_NO_PANEL, _NO_SUM), bias, **named)
        self.float_weights = float_weights
        if self.fn == <kernel_fn>conv_hybrid:
            self.state.float_weights = &float_weights[0, 0] if float_weights.shape[0] else &_no_weight
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
        get_task(&s.tasks, &s.output, p.columns, i, &task)
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
                s.slots.scaled_sums(<int>(task.end - j), <int>piece, x, zeros[r], s.float_weights + k * wide + j, wide,
                                    h.scale + j, scales[r], k == 0, k + piece == p.depth,
                                    h.bias + j, h.low, h.high, <float *>(task.y + r * s.output.sw) + j)
                k += piece
                if k >= p.depth:
                    break


include "blockwise.pxi"
include "hybrid_depthwise.pxi"
