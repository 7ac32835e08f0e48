"""Hybrid convolutions and matrix products: float32 activations, quantized at run time, times integer weights."""
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
from pylite._core.product.tasks cimport MAX_MR, MAX_NR, Task, get_task, round_up, parallel_pool, plan_tasks, set_output
from pylite._core.product.window cimport POINTERS, copy_row, gather, set_window
from pylite._core.simd cimport PL_DEPTH, PL_SCALED, parallel_for, pl_hybrid, pl_pool, slots

from pylite._core.kernels.packing import arranged

cdef enum:
    LARGE = 16384           # several threads quantize slices of an image with at least so many elements
    PARTS = 64              # most slices
    GRAIN = 4096            # least number of elements that a thread quantizes


cdef struct Hybrid:
    ProductQ8 product
    const float *x
    uint8_t *q
    float *row_scales
    int32_t *row_zeros
    uint8_t *padding        # zero points that are read as padding, for each image,
    ptrdiff_t padding_bytes     # and their number
    ptrdiff_t size          # elements of an image
    int asymmetric
    ptrdiff_t parts         # number of slices of a single, large image,
    float low[PARTS]        # and the range of values of each
    float high[PARTS]
    const float *float_weights      # for the phase of a transposed convolution, else NULL


cdef class ConvHybrid(Kernel):
    """2-D convolution of float32 images, each quantized to int8 first, with int8 weights.

    x: (n, h, w, c) and y: (n, oh, ow, k) float32 with contiguous channels.  A matrix product has m images of one pixel.
    Scratch: q, (n, h, w, c) bytes; row_scales, (n,) float32; row_zeros, (n,) int32; padding, (n, fw * c / groups)
    bytes.  first: quantize x into the scratch; False if an earlier kernel with the same x did.
    packed: (panels, sums) from packing.pack_weights; scales: (k,) float32; bias: (k,) float32 or None; asymmetric:
    quantize with a zero point; column_first: multiply a sum by the column's scale, then by the image's, instead of by
    the product of both; pixels: the part of q to convolve, by default all; the rest as in ConvQ8.
    For a phase of a transposed convolution, packed is an array from pack_in_turn, and scales and bias are padded with
    zeros to as many columns: each product is scaled and added in float32, as in the reference kernel.
    Results equal the reference kernels' bit by bit: otherwise the quantization in the next layer would turn small
    differences into whole steps.
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
        cdef const ProductQ8 *original = &self.state.product
        cdef ConvHybrid copy
        cdef ProductQ8 *p
        cdef int i
        for i in range(6):
            if arrays[i] == NULL:
                return None
        if (self.fn == <kernel_fn>nothing or self.state.float_weights != NULL or arrays[0].nbytes == 0
                or arrays[1].nbytes == 0 or arrays[0].shape[3] != original.window.length * original.groups
                or arrays[1].shape[3] != original.columns * original.groups):
            return None
        copy = ConvHybrid.__new__(ConvHybrid)
        p = &copy.state.product
        copy.panels, copy.sums, copy.scales, copy.bias = self.panels, self.sums, self.scales, self.bias
        copy.first, copy.state.asymmetric = self.first, self.state.asymmetric
        p.hybrid, p.panels = original.hybrid, original.panels
        copy.arrange(arrays, sizes[0], original.groups)
        plan_rows(p)
        copy.algorithm = algorithm_of(p)
        return copy

    cdef int arrange(self, const Strided **arrays, filter, ptrdiff_t groups) except -1:
        """Set the sizes of the product and its memory.  arrays: as ARRAYS; the last one may be NULL."""
        cdef Hybrid *s = &self.state
        cdef ProductQ8 *p = &s.product
        cdef const Strided *x = arrays[0]
        cdef const Strided *y = arrays[1]
        cdef const Strided *pixels = arrays[2] if arrays[6] == NULL else arrays[6]
        s.padding, s.padding_bytes = <uint8_t *>arrays[5].at, arrays[5].shape[1]
        set_window(&p.window, <const uint8_t *>pixels.at if pixels.nbytes else NULL, pixels.strides[0],
                   pixels.strides[1], pixels.strides[2], pixels.shape[1], pixels.shape[2], y.shape[1], y.shape[2],
                   x.shape[3] // groups, s.padding, filter)
        p.window.zero_step = s.padding_bytes
        set_output(&p.output, y.at, y.shape[0], y.shape[1], y.shape[2], y.strides[0], y.strides[1], y.strides[2])
        set_sizes(p, slots, y.shape[3], groups, p.window.fh * p.window.fw * p.window.length)
        p.flip, p.finish = p.tile.offset, HYBRID        # q has the form of A panels
        p.whole_rows = p.output.span * p.output.lines
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
    if p.hybrid.fit < 0:    # at the first run, because weights must be packed
        p.slots.fit_q8(0, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, p.panels, self.panels.shape[0], NULL, NULL, NULL,
                       &unfit)
        p.hybrid.fit = not unfit
    return run_product(p, pool)


cdef void quantize_images(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Quantize images begin to end - 1 (docs/numerics.md, section 4)."""
    cdef Hybrid *s = <Hybrid *>ctx
    cdef int flip = s.product.flip
    cdef ptrdiff_t i
    slots.quantize_rows(end - begin, s.size, s.x + begin * s.size, s.size, s.asymmetric, flip, s.q + begin * s.size,
                        s.row_scales + begin, s.row_zeros + begin)
    if not s.product.window.direct:
        for i in range(begin, end):
            memset(s.padding + i * s.padding_bytes, s.row_zeros[i] ^ flip, s.padding_bytes)


cdef void measure_ranges(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Find the smallest and largest value of slices begin to end - 1 of the image."""
    cdef Hybrid *s = <Hybrid *>ctx
    cdef ptrdiff_t i, first
    for i in range(begin, end):
        first = i * s.size // s.parts
        slots.range_f32((i + 1) * s.size // s.parts - first, s.x + first, &s.low[i], &s.high[i])


cdef void quantize_parts(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Quantize slices begin to end - 1 of the image, by the range of all slices."""
    cdef Hybrid *s = <Hybrid *>ctx
    cdef float low = 0, high = 0, scale, inverse
    cdef ptrdiff_t i, first = begin * s.size // s.parts
    cdef int32_t zero
    for i in range(s.parts):
        low, high = min(low, s.low[i]), max(high, s.high[i])
    zero = pl_quantization(low, high, s.asymmetric, &scale, &inverse)
    slots.quantize_s8(end * s.size // s.parts - first, s.x + first, inverse, zero, s.asymmetric, s.product.flip,
                      s.q + first)
    if begin == 0:
        s.row_scales[0], s.row_zeros[0] = scale, zero
        memset(s.padding, zero ^ s.product.flip, s.padding_bytes)


def pack_in_turn(w, layout):
    """Weights (columns, ...) for scaled_sums: float32 (depth, columns rounded up to a multiple of PL_SCALED).

    layout: see packing.arranged.
    """
    w = arranged(w, layout)
    columns, depth = w.shape[0], w.size // w.shape[0] if w.size else 0
    rows = np.zeros((depth, round_up(columns, PL_SCALED)), np.float32)
    rows[:, :columns] = w.reshape(columns, depth).T
    return rows


cdef void scaled_tasks(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Tasks of a transposed convolution, whose products are scaled one by one."""
    cdef Hybrid *s = <Hybrid *>ctx
    cdef const ProductQ8 *p = &s.product
    cdef const pl_hybrid *h = &p.hybrid
    cdef uint8_t copied[PL_DEPTH]
    cdef const uint8_t *src[POINTERS]
    cdef const uint8_t *x
    cdef int32_t zeros[MAX_MR]
    cdef float scales[MAX_MR]
    cdef Task task
    cdef ptrdiff_t i, j, k, piece, length = 0, w_step = round_up(p.columns, PL_SCALED)
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
                p.slots.scaled_sums(<int>(task.end - j), <int>piece, x, zeros[r],
                                    s.float_weights + k * w_step + j, w_step, h.scale + j, scales[r], k == 0,
                                    k + piece == p.depth,
                                    h.bias + j, h.low, h.high, <float *>(task.y + r * p.output.sw) + j)
                k += piece
                if k >= p.depth:
                    break
