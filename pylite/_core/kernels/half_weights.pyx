"""float32 convolutions and matrix products whose weights stay float16 in memory, which takes half of the bytes."""
from libc.stdint cimport uint8_t, uint16_t

from pylite._core.product.division cimport parallel_pool, round_up
from pylite._core.product.floats cimport columns_at_once, multiply_columns, plan_rows, set_sizes
from pylite._core.product.images cimport ImageProduct
from pylite._core.product.product cimport Product
from pylite._core.product.window cimport taps_of
from pylite._core.run.kernel cimport FLUSH, Strided, describe, kernel_fn
from pylite._core.simd cimport memory_of, parallel_for, pl_a_layout, pl_packed_layout, pl_pool, pl_range_fn, slots

cdef enum:                  # operands, in the order of ARRAYS
    X, Y, SCRATCH, OPERANDS

cdef enum:
    ON_STACK = 4096         # float32 weights of a panel that a single row is multiplied by at once

FORMS = (4, 4, False), (4, 4, True), (1, 4, True)       # (ndim, bytes of an element, is it written?)


def scratch_size(Py_ssize_t columns, Py_ssize_t depth):
    """The float32 numbers of scratch that ConvHalfWeights needs for weights (columns, depth)."""
    return min(round_up(columns, slots.f32.nv), columns_at_once(&slots.f32, depth)) * depth


cdef class ConvHalfWeights(ImageProduct):
    """float32 convolution: y = sum w x + b, clamped to limits, (low, high).

    x, y, filter: as in ImageProduct; panels: from pack_halves; bias: (k,) or None; scratch: float32
    (scratch_size(...),) for the columns that are multiplied at the time, or None if x is a single pixel and the filter,
    too.  Raises ValueError if the scratch is missing or smaller.
    """
    ARRAYS = (0, 1, "scratch")

    cdef float *scratch         # or NULL
    cdef ptrdiff_t first        # of the weights that are converted at the time
    cdef ptrdiff_t part, count  # how many of these a thread converts at once; all of them

    def __init__(self, x, y, panels, const float[::1] bias, *, filter, limits, scratch=None):
        cdef Product *p = &self.product
        cdef Strided operands[OPERANDS]
        cdef const Strided *arrays[OPERANDS]
        self.memory = x, y, scratch
        describe(self.memory, FORMS, operands, arrays)
        if operands[Y].nbytes == 0:
            return
        zero = bytes(<ptrdiff_t>filter[1] * operands[X].shape[3] * 4)
        self.owners = panels, bias, zero
        p.window.zero = <const uint8_t *>memory_of(zero, len(zero))
        p.float32.low, p.float32.high = limits
        p.float32.bias = &bias[0] if bias is not None else NULL
        p.halves, p.groups = <const uint16_t *>memory_of(panels, panels.nbytes), 1
        self.plan(arrays, filter)

    cdef bint suits(self, const Strided **arrays):
        return ImageProduct.suits(self, arrays) and (self.scratch != NULL) == (arrays[SCRATCH] != NULL)

    cdef int plan(self, const Strided **arrays, filter) except -1:
        cdef Product *p = &self.product
        cdef const Strided *y = arrays[Y]
        cdef ptrdiff_t size = 0
        self.subnormals = FLUSH
        self.set_images(arrays[X], y, filter)
        set_sizes(p, y.shape[3], 1, taps_of(&p.window) * p.window.length // 4)
        plan_rows(p)
        self.algorithm = self.source() + ", weights of float16"
        if arrays[SCRATCH] == NULL:
            self.fn, self.scratch = <kernel_fn>run_single, NULL
        else:
            self.fn, self.scratch = <kernel_fn>run_blocks, <float *>arrays[SCRATCH].at
            size = arrays[SCRATCH].shape[0]
        if size < scratch_size(p.columns, p.depth) and not (self.scratch == NULL and is_single(p)):
            raise ValueError("the scratch is too small")
        return 0


cdef bint is_single(const Product *p):
    """Is the image a single row of the product?"""
    return p.window.direct and p.output.span * p.output.lines == 1


# ---- several rows ----------------------------------------------------------------------------------------------
cdef int run_blocks(ConvHalfWeights self, pl_pool *pool) noexcept nogil:
    """Multiply all rows by some columns, then by the next ones."""
    cdef Product *p = &self.product
    cdef ptrdiff_t at_once = columns_at_once(&p.tile, p.depth), begin = 0, parts
    pool = parallel_pool(pool, 2 * p.output.span * p.output.lines * p.depth * p.columns)
    while begin < p.columns:
        self.first, self.count = begin * p.depth, min(at_once, p.padded_columns - begin) * p.depth
        self.part = ON_STACK
        parts = (self.count + self.part - 1) // self.part
        parallel_for(pool, parts, 1, <pl_range_fn>convert, <void *>self)
        p.panels = <const uint8_t *>(self.scratch - self.first)     # as if all panels were there
        multiply_columns(p, begin, min(at_once, p.columns - begin), pool)
        begin += at_once
    return 0


cdef void convert(ConvHalfWeights self, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Convert parts begin to end - 1 of the weights."""
    cdef ptrdiff_t at = begin * self.part
    self.product.slots.half_to_float(min(end * self.part, self.count) - at, self.product.halves + self.first + at,
                                     self.scratch + at, NULL)


# ---- a single row ----------------------------------------------------------------------------------------------
cdef int run_single(ConvHalfWeights self, pl_pool *pool) noexcept nogil:
    cdef Product *p = &self.product
    parallel_for(parallel_pool(pool, 2 * p.depth * p.columns), (p.columns + p.tile.nr - 1) // p.tile.nr, 1,
                 <pl_range_fn>multiply_panels, <void *>self)
    return 0


cdef void multiply_panels(ConvHalfWeights self, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Multiply the row by panels begin to end - 1, a few weights at a time, which stay in the first-level cache."""
    cdef const Product *p = &self.product
    cdef float space[ON_STACK + 16]
    cdef float *weights = <float *>(<size_t>(space + 15) & ~<size_t>63)     # aligned to cache lines
    cdef const float *x = <const float *>p.window.x
    cdef const float *bias
    cdef ptrdiff_t i, j, k, section, width
    cdef pl_a_layout layout
    for i in range(begin, end):
        j, k = i * p.tile.nr, 0
        width = min(<ptrdiff_t>p.tile.nr, p.padded_columns - j)
        bias = p.float32.bias + j if p.float32.bias != NULL else NULL
        while k < p.depth:
            section = min(p.depth - k, ON_STACK // width)
            layout = pl_packed_layout(section)
            p.slots.half_to_float(section * width, p.halves + j * p.depth + k * width, weights, NULL)
            p.slots.gemm_f32(1, <int>min(width, p.columns - j), &layout, x + k, weights, 2 | (k == 0),
                             k + section == p.depth, bias, p.float32.low, p.float32.high, <float *>p.output.y + j, 0)
            k += section
