"""Float activations times integer weights: activations are quantized row by row or by image."""
import numpy as np

from libc.stdint cimport int32_t, uint8_t
from libc.string cimport memcpy, memset

from pylite._core.run.kernel cimport FLUSH, Kernel, Strided, kernel_fn, set_strided, nothing
from pylite._core.kernels.rounding cimport pl_quantization
from pylite._core.product.bytes cimport (
    HYBRID,
    ProductQ8,
    algorithm_of,
    load_row_scales,
    plan_rows,
    run_product,
    set_sizes,
)
from pylite._core.product.tasks cimport MAX_MR, MAX_NR, Task, get_task, padded, parallel_pool, plan_tasks, set_output
from pylite._core.product.window cimport POINTERS, copy_row, gather, set_window
from pylite._core.simd cimport PL_DEPTH, PL_SCALED, parallel_for, pl_hybrid, pl_pool, slots

from pylite._core.kernels.packing import arranged

cdef enum:
    LARGE = 16384           # elements of an image, from which on several threads quantize slices of it
    PARTS = 64              # the most slices
    GRAIN = 4096            # elements that one thread quantizes


cdef struct Hybrid:
    ProductQ8 product
    const float *x
    uint8_t *q
    float *row_scales
    int32_t *row_zeros
    uint8_t *padding        # a line of zero points for each image,
    ptrdiff_t line          # and its length
    ptrdiff_t size          # elements of an image
    int asymmetric
    ptrdiff_t parts         # slices of a single, large image
    float low[PARTS]
    float high[PARTS]
    const float *float_weights      # of a transposed convolution


cdef class ConvHybrid(Kernel):
    """2-D convolution of float32 images, each quantized to int8 first, with int8 weights.

    x: (n, h, w, c) and y: (n, oh, ow, k) float32, contiguous channels.
    Scratch: q, (n, h, w, c) bytes; row_scales, (n,) float32; row_zeros, (n,) int32; padding, (n, fw * c / groups)
    bytes; first: fill it, unless another kernel with the same x has filled it.
    packed: (panels, sums) from packing.pack_weights; scales: (k,) float32; bias: (k,) float32 or None; asymmetric:
    quantize with a zero point; column_first: multiply by the scale of a column before that of the image, not by their
    product; pixels: the pixels of q to convolve, by default all; the rest as in ConvQ8.
    For a phase of a transposed convolution, packed is an array from pack_in_turn, and scales and bias have as many
    columns, filled with zeros: each product is scaled by itself and added in float32, as in the reference kernel.
    A matrix product is a convolution of m images of one pixel.  Results have the bits of the reference kernels: with
    others, networks of such layers would diverge at every value that lies between two integers.
    """
    ARRAYS, SIZES = (0, 1, "q", "row_scales", "row_zeros", "padding", "pixels"), ("filter",)
    cdef const uint8_t[::1] panels
    cdef const int32_t[::1] sums
    cdef const float[::1] scales, bias
    cdef const float[:, ::1] float_weights
    cdef bint first
    cdef Hybrid state

    def __init__(self, x, y, packed, const float[::1] bias, *, q, row_scales, row_zeros, padding, bint first,
                 const float[::1] scales, filter, ptrdiff_t groups, bint asymmetric, bint column_first, limits,
                 pixels=None):
        cdef Hybrid *s = &self.state
        cdef ProductQ8 *p = &s.product
        cdef pl_hybrid *h = &p.hybrid
        cdef Strided operands[7]
        cdef const Strided *arrays[7]
        cdef int i, dimensions, item
        for i, (array, dimensions, item) in enumerate(((x, 4, 4), (y, 4, 4), (q, 4, 1), (row_scales, 1, 4),
                                                       (row_zeros, 1, 4), (padding, 2, 1), (pixels, 4, 1))):
            arrays[i] = NULL
            if array is not None:
                set_strided(&operands[i], array, dimensions, item)
                arrays[i] = &operands[i]
        self.memory, self.scales, self.bias, self.first = (x, y, q, row_scales, row_zeros, padding), scales, bias, first
        if operands[0].nbytes == 0 or operands[1].nbytes == 0:
            return
        s.asymmetric = asymmetric
        h.scale, h.bias = &scales[0], &bias[0] if bias is not None else NULL
        h.column_first = column_first
        h.low, h.high = limits
        self.arrange(arrays, filter, groups)
        if not isinstance(packed, tuple):
            self.float_weights = packed
            s.float_weights = &self.float_weights[0, 0] if self.float_weights.shape[0] else &no_weight
            p.tile.mr, p.tile.nr, p.flip = MAX_MR, MAX_NR, 0
            self.algorithm = "products scaled one by one"
            return
        self.panels, self.sums = packed
        p.panels, h.sums = &self.panels[0] if self.panels.shape[0] else NULL, &self.sums[0]
        plan_rows(p)
        self.algorithm = algorithm_of(p)

    cdef Kernel moved(self, const Strided **arrays, list sizes):
        cdef const ProductQ8 *like = &self.state.product
        cdef ConvHybrid made
        cdef ProductQ8 *p
        cdef int i
        for i in range(6):
            if arrays[i] == NULL:
                return None
        if (self.fn == <kernel_fn>nothing or self.state.float_weights != NULL or arrays[0].nbytes == 0
                or arrays[1].nbytes == 0 or arrays[0].shape[3] != like.window.length * like.groups
                or arrays[1].shape[3] != like.columns * like.groups):
            return None
        made = ConvHybrid.__new__(ConvHybrid)
        p = &made.state.product
        made.panels, made.sums, made.scales, made.bias = self.panels, self.sums, self.scales, self.bias
        made.first, made.state.asymmetric = self.first, self.state.asymmetric
        p.hybrid, p.panels = like.hybrid, like.panels
        made.arrange(arrays, sizes[0], like.groups)
        plan_rows(p)
        made.algorithm = algorithm_of(p)
        return made

    cdef int arrange(self, const Strided **arrays, filter, ptrdiff_t groups) except -1:
        """Set up the product on its ARRAYS, the last of which may be missing."""
        cdef Hybrid *s = &self.state
        cdef ProductQ8 *p = &s.product
        cdef const Strided *x = arrays[0]
        cdef const Strided *y = arrays[1]
        cdef const Strided *pixels = arrays[2] if arrays[6] == NULL else arrays[6]
        s.padding, s.line = <uint8_t *>arrays[5].at, arrays[5].shape[1]
        set_window(&p.window, <const uint8_t *>pixels.at if pixels.nbytes else NULL, pixels.strides[0],
                   pixels.strides[1], pixels.strides[2], pixels.shape[1], pixels.shape[2], y.shape[1], y.shape[2],
                   x.shape[3] // groups, s.padding, filter)
        p.window.zero_step = s.line
        set_output(&p.output, y.at, y.shape[0], y.shape[1], y.shape[2], y.strides[0], y.strides[1], y.strides[2])
        set_sizes(p, slots, y.shape[3], groups, p.window.fh * p.window.fw * p.window.length)
        p.flip, p.finish, p.count = p.tile.offset, HYBRID, p.output.span * p.output.lines   # q has the form of A panels
        s.x, s.q = <const float *>x.at, <uint8_t *>arrays[2].at
        s.row_scales, s.row_zeros = <float *>arrays[3].at, <int32_t *>arrays[4].at
        p.row_scales, p.row_zeros, p.images = s.row_scales, s.row_zeros, x.shape[0]
        s.size = x.shape[1] * x.shape[2] * x.shape[3]
        s.parts = min(s.size // (LARGE // 2), <ptrdiff_t>PARTS)
        p.hybrid.fit = -1
        self.fn, self.subnormals = <kernel_fn>conv_hybrid, FLUSH
        return 0


cdef float no_weight


cdef int conv_hybrid(ConvHybrid self, pl_pool *pool) noexcept nogil:
    cdef Hybrid *s = &self.state
    cdef ProductQ8 *p = &s.product
    cdef int unfit = 0
    pool = parallel_pool(pool, p.output.span * p.output.lines * p.depth * p.columns)
    if self.first:
        if p.images == 1 and s.size >= LARGE:
            parallel_for(pool, s.parts, 1, measure_ranges, s)
            parallel_for(pool, s.parts, 1, quantize_parts, s)
        else:
            parallel_for(pool, p.images, max(<ptrdiff_t>1, GRAIN // s.size), quantize_images, s)
    if s.float_weights != NULL:
        parallel_for(pool, plan_tasks(&p.tasks, &p.output, &p.tile, p.columns, 1, pool), 1, scaled_tasks, s)
        return 0
    if p.hybrid.fit < 0:    # not before packing has ended
        p.slots.fit_q8(0, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, p.panels, self.panels.shape[0], NULL, NULL, NULL,
                       &unfit)
        p.hybrid.fit = not unfit
    return run_product(p, pool)


cdef void quantize_images(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Quantize images begin..end-1 (docs/numerics.md section 4)."""
    cdef Hybrid *s = <Hybrid *>ctx
    cdef int flip = s.product.flip
    cdef ptrdiff_t i
    slots.quantize_rows(end - begin, s.size, s.x + begin * s.size, s.size, s.asymmetric, flip, s.q + begin * s.size,
                        s.row_scales + begin, s.row_zeros + begin)
    if not s.product.window.direct:
        for i in range(begin, end):
            memset(s.padding + i * s.line, s.row_zeros[i] ^ flip, s.line)


cdef void measure_ranges(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef Hybrid *s = <Hybrid *>ctx
    cdef ptrdiff_t i, at
    for i in range(begin, end):
        at = i * s.size // s.parts
        slots.range_f32((i + 1) * s.size // s.parts - at, s.x + at, &s.low[i], &s.high[i])


cdef void quantize_parts(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef Hybrid *s = <Hybrid *>ctx
    cdef float low = 0, high = 0, scale, inverse
    cdef ptrdiff_t i, at = begin * s.size // s.parts
    cdef int32_t zero
    for i in range(s.parts):
        low, high = min(low, s.low[i]), max(high, s.high[i])
    zero = pl_quantization(low, high, s.asymmetric, &scale, &inverse)
    slots.quantize_s8(end * s.size // s.parts - at, s.x + at, inverse, zero, s.asymmetric, s.product.flip, s.q + at)
    if begin == 0:
        s.row_scales[0], s.row_zeros[0] = scale, zero
        memset(s.padding, zero ^ s.product.flip, s.line)


def pack_in_turn(w, layout):
    """Weights (columns, ...) of a transposed convolution: float32 (depth, columns padded to PL_SCALED); layout: see
    packing.arranged.
    """
    w = arranged(w, layout)
    columns, depth = w.shape[0], w.size // w.shape[0] if w.size else 0
    rows = np.zeros((depth, padded(columns, PL_SCALED)), np.float32)
    rows[:, :columns] = w.reshape(columns, depth).T
    return rows


cdef void scaled_tasks(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Tasks of a transposed convolution."""
    cdef Hybrid *s = <Hybrid *>ctx
    cdef const ProductQ8 *p = &s.product
    cdef const pl_hybrid *h = &p.hybrid
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
        get_task(&p.tasks, &p.output, NULL, p.columns, i, &task)
        load_row_scales(p, &task, 0, zeros, scales)
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
                p.slots.scaled_sums(<int>(task.end - j), <int>piece, x, zeros[r], s.float_weights + k * wide + j, wide,
                                    h.scale + j, scales[r], k == 0, k + piece == p.depth,
                                    h.bias + j, h.low, h.high, <float *>(task.y + r * p.output.sw) + j)
                k += piece
                if k >= p.depth:
                    break
