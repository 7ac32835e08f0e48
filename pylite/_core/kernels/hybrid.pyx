"""Hybrid convolutions and matrix products: float32 activations, quantized at run time, times integer weights."""
import numpy as np

from libc.stdint cimport int32_t, uint8_t
from libc.string cimport memset

from pylite._core.kernels.rounding cimport pl_quantization
from pylite._core.product.bytes cimport load_row_scales, plan_rows, run_product, set_sizes
from pylite._core.product.division cimport MAX_MR, MAX_NR, Piece, divide, get_piece, parallel_pool, round_up
from pylite._core.product.images cimport ImageProduct
from pylite._core.product.product cimport HYBRID, Product
from pylite._core.product.quantized cimport QuantizedRows, quantize, set_rows
from pylite._core.product.window cimport copy_row
from pylite._core.run.kernel cimport FLUSH, Strided, describe, kernel_fn
from pylite._core.simd cimport PL_DEPTH, PL_SCALED, memory_of, parallel_for, pl_hybrid, pl_pool, pl_range_fn, slots

from pylite._core.kernels.packing import arranged

cdef enum:                  # operands, in the order of ARRAYS
    Q
    Y
    X
    ROW_SCALES
    ROW_ZEROS
    PADDING
    PIXELS
    OPERANDS

cdef enum:
    LARGE = 16384           # least number of elements of an image that several threads quantize in slices
    PARTS = 64              # most slices
    UNKNOWN = -1            # as pl_hybrid.small: find_small was not called yet

# (ndim, bytes of an element, is it written?)
FORMS = (4, 1, True), (4, 4, True), (4, 4, False), (1, 4, True), (1, 4, True), (2, 1, True), (4, 1, False)


cdef class ConvHybrid(ImageProduct):
    """2-D convolution of float32 images, each quantized to int8 first, with int8 weights.

    x and y: float32, and filter, as in ImageProduct.
    Scratch: q, (n, h, w, c) bytes; row_scales, (n,) float32; row_zeros, (n,) int32; padding, (n, fw * c / groups)
    bytes.  first: quantize x into the scratch; False if an earlier kernel with the same x did.
    packed: (panels, sums) from packing.pack_weights; scales: (k,) float32; bias: (k,) float32 or None; asymmetric:
    quantize with a zero point; column_first: multiply a sum by the column's scale, then by the image's, instead of by
    the product of both; pixels: the part of q to convolve, by default all; the rest as in ConvQ8.
    For a phase of a transposed convolution, packed is from pack_in_turn, and scales and bias are padded with zeros to
    as many columns: each product is scaled and added in float32, as in the reference kernel.
    Results equal the reference kernels' bit by bit: otherwise the quantization in the next layer would turn small
    differences into whole steps.
    """
    ARRAYS = ("q", 1, 0, "row_scales", "row_zeros", "padding", "pixels")
    cdef bint in_turn           # are products scaled one by one, with weights from pack_in_turn()?
    cdef ptrdiff_t parts        # number of slices of a single, large image, else 0
    cdef float low[PARTS]       # the range of values of each slice
    cdef float high[PARTS]

    def __init__(self, x, y, tuple packed, const float[::1] bias, *, q, row_scales, row_zeros, padding, bint first,
                 const float[::1] scales, filter, ptrdiff_t groups, bint asymmetric, bint column_first, limits,
                 pixels=None):
        cdef pl_hybrid *h = &self.product.hybrid
        cdef QuantizedRows *rows = &self.product.rows.bytes.quantized
        cdef Strided operands[OPERANDS]
        cdef const Strided *arrays[OPERANDS]
        cdef const int32_t[::1] sums
        self.memory, self.owners = (q, y, x, row_scales, row_zeros, padding, pixels), (packed, scales, bias)
        describe(self.memory, FORMS, operands, arrays)
        if arrays[X].nbytes == 0 or arrays[Y].nbytes == 0:
            return
        self.product.groups, rows.asymmetric, rows.done = groups, asymmetric, not first
        h.scale, h.bias = &scales[0], &bias[0] if bias is not None else NULL
        h.column_first = column_first
        h.low, h.high = limits
        panels, sums = packed
        self.one_shape = sums is None
        if sums is not None:
            h.sums = &sums[0]
        self.product.panels = <const uint8_t *>memory_of(panels, panels.nbytes)
        self.plan(arrays, filter)

    cdef bint suits(self, const Strided **arrays):
        cdef int i
        for i in range(PIXELS):
            if arrays[i] == NULL:
                return False
        return ImageProduct.suits(self, arrays) and arrays[X].nbytes != 0 and arrays[Y].nbytes != 0

    cdef int plan(self, const Strided **arrays, filter) except -1:
        cdef Product *p = &self.product
        cdef QuantizedRows *rows = &p.rows.bytes.quantized
        cdef const Strided *x = arrays[X]
        self.in_turn = p.hybrid.sums == NULL
        self.set_images(arrays[Q] if arrays[PIXELS] == NULL else arrays[PIXELS], arrays[Y], filter)
        p.window.zero, p.window.zero_step = <const uint8_t *>arrays[PADDING].data, arrays[PADDING].shape[1]
        set_sizes(p, arrays[Y].shape[3], p.groups, p.window.fh * p.window.fw * p.window.length)
        p.rows.bytes.flip, p.finish = p.tile.offset, HYBRID   # q has the form of A panels
        p.rows.bytes.total = p.output.span * p.output.lines
        set_rows(rows, x, arrays[Q], arrays[ROW_SCALES], arrays[ROW_ZEROS], x.shape[0],
                 x.shape[1] * x.shape[2] * x.shape[3], 0 if self.in_turn else p.rows.bytes.flip)
        self.parts = min(rows.depth // (LARGE // 2), <ptrdiff_t>PARTS) if rows.count == 1 and rows.depth >= LARGE else 0
        self.fn, self.subnormals, p.hybrid.small = <kernel_fn>conv_hybrid, FLUSH, UNKNOWN
        if self.in_turn:
            p.piece_rows, p.tile.nr = MAX_MR, MAX_NR
            self.algorithm = "products scaled one by one"
        else:
            plan_rows(p)
            self.algorithm = self.source()
        return 0


cdef int conv_hybrid(ConvHybrid self, pl_pool *pool) noexcept nogil:
    cdef Product *p = &self.product
    cdef QuantizedRows *rows = &p.rows.bytes.quantized
    cdef ptrdiff_t i
    pool = parallel_pool(pool, p.output.span * p.output.lines * p.depth * p.columns)
    if not rows.done:
        if self.parts:
            parallel_for(pool, self.parts, 1, <pl_range_fn>measure_ranges, <void *>self)
            parallel_for(pool, self.parts, 1, <pl_range_fn>quantize_parts, <void *>self)
        else:
            quantize(rows, pool)
        for i in range(0 if p.window.direct else rows.count):
            memset(<void *>(p.window.zero + i * p.window.zero_step), rows.zeros[i] ^ rows.flip, p.window.zero_step)
    if self.in_turn:
        parallel_for(pool, divide(&p.division, &p.output, p.piece_rows, p.tile.nr, p.columns, 1, pool), 1,
                     <pl_range_fn>scaled_pieces, <void *>self)
        return 0
    if p.tile.small and p.hybrid.small == UNKNOWN:      # at the first run, because weights must be packed
        p.slots.find_small(1, p.groups * p.padded_columns * p.padded_depth, p.panels, &p.hybrid.small)
    return run_product(p, pool)


cdef void measure_ranges(ConvHybrid self, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Find the smallest and largest value of slices begin to end - 1 of the image."""
    cdef const QuantizedRows *image = &self.product.rows.bytes.quantized
    cdef ptrdiff_t i, first
    for i in range(begin, end):
        first = i * image.depth // self.parts
        slots.range_f32((i + 1) * image.depth // self.parts - first, image.x + first, &self.low[i], &self.high[i])


cdef void quantize_parts(ConvHybrid self, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Quantize slices begin to end - 1 of the image, by the range of all slices."""
    cdef const QuantizedRows *image = &self.product.rows.bytes.quantized
    cdef float low = 0, high = 0, scale, inverse
    cdef ptrdiff_t i, first = begin * image.depth // self.parts
    cdef int32_t zero
    for i in range(self.parts):
        low, high = min(low, self.low[i]), max(high, self.high[i])
    zero = pl_quantization(low, high, image.asymmetric, &scale, &inverse)
    slots.quantize_s8(end * image.depth // self.parts - first, image.x + first, inverse, zero, image.asymmetric,
                      image.flip, image.q + first)
    if begin == 0:
        image.scales[0], image.zeros[0] = scale, zero


def pack_in_turn(w, layout):
    """(Weights (columns, ...) for scaled_sums, None), the first as float32 (depth, columns rounded up to a multiple of
    PL_SCALED).

    layout: see packing.arranged.
    """
    w = arranged(w, layout)
    columns, depth = w.shape[0], w.size // w.shape[0] if w.size else 0
    rows = np.zeros((depth, round_up(columns, PL_SCALED)), np.float32)
    rows[:, :columns] = w.reshape(columns, depth).T
    return rows, None


cdef void scaled_pieces(ConvHybrid self, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Compute pieces of a transposed convolution, whose products are scaled one by one."""
    cdef const Product *p = &self.product
    cdef const pl_hybrid *h = &p.hybrid
    cdef uint8_t row[PL_DEPTH]
    cdef int32_t zeros[MAX_MR]
    cdef float scales[MAX_MR]
    cdef Piece piece
    cdef ptrdiff_t i, j, k, section, w_step = round_up(p.columns, PL_SCALED)
    cdef int r
    for i in range(begin, end):
        get_piece(&p.division, &p.output, NULL, p.columns, i, &piece)
        load_row_scales(p, &piece, 0, zeros, scales)
        j = piece.begin
        for r in range(piece.rows):
            k = 0
            while True:
                section = min(<ptrdiff_t>PL_DEPTH, p.depth - k)
                copy_row(&p.window, piece.position + r, 0, k, k + section, row)
                p.slots.scaled_sums(<int>(piece.end - j), <int>section, row, zeros[r],
                                    <const float *>p.panels + k * w_step + j, w_step, h.scale + j, scales[r], k == 0,
                                    k + section == p.depth,
                                    h.bias + j, h.low, h.high, <float *>(piece.y + r * p.output.sw) + j)
                k += section
                if k >= p.depth:
                    break
