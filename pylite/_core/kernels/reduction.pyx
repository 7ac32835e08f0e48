"""Sums, means, minima, maxima and products over axes.

Reduce has a micro-kernel for each common type and operation; ReduceWide computes int32, int64 and products, with
accumulators of 64 bits.  Both reduce blocks of outputs that lie side by side; run_blocks() divides these among threads.
"""
from libc.stdint cimport INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, int64_t, uint8_t

from pylite._core.run.kernel cimport FLUSH, Kernel, Strided, kernel_fn, set_strided
from pylite._core.simd cimport (
    parallel_for,
    pl_join_fn,
    pl_join_kernel,
    pl_pool,
    pl_range_fn,
    pl_reduction,
    pl_reduction_fn,
    pl_reduction_kernel,
    slots,
)

cdef enum:
    BLOCK = 1024            # most outputs of one micro-kernel call
    GRAIN = 32768           # least number of elements for a thread


cdef class Reduction(Kernel):
    """The base of reductions: their loops.

    x, y: the bytes of arrays; kept: the axes that remain, as pairs (size, stride in x), outermost first, at least one;
    loops: the same of up to three reduced axes; run: size of the contiguous reduced axis inside them, or 0 if there is
    none, because the last kept axis is contiguous.
    """
    cdef const uint8_t *x
    cdef uint8_t *y
    cdef bint empty
    cdef pl_reduction g
    cdef ptrdiff_t kept[4]          # the outer kept axes
    cdef ptrdiff_t stride[4]
    cdef ptrdiff_t outer, inner     # outputs: of the outer kept axes together, and of the last one
    cdef ptrdiff_t blocks           # that `inner` is divided into
    cdef ptrdiff_t item             # bytes of an element
    cdef int rank

    cdef int read(self, x, y, kept, loops, ptrdiff_t run) except -1:
        """arrange() for Python arrays."""
        cdef Strided source, target
        set_strided(&source, x, 1, 1)
        set_strided(&target, y, 1, 1, True)
        self.memory = x, y
        return self.arrange(&source, &target, kept, loops, run)

    cdef int arrange(self, const Strided *x, const Strided *y, kept, loops, ptrdiff_t run) except -1:
        cdef pl_reduction *g = &self.g
        cdef int i, skip = 3 - len(loops)
        self.x, self.y, self.empty = <const uint8_t *>x.data, <uint8_t *>y.data, x.nbytes == 0 or y.nbytes == 0
        for i in range(3):
            g.n[i], g.stride[i] = loops[i - skip] if i >= skip else (1, 0)
        self.rank = len(kept) - 1
        self.outer = 1
        for i in range(self.rank):
            self.kept[i], self.stride[i] = kept[i]
            self.outer *= self.kept[i]
        self.inner, g.step = kept[self.rank]
        self.blocks = (self.inner + BLOCK - 1) // BLOCK
        g.run = run
        return 0


cdef ptrdiff_t offset_of(Reduction self, ptrdiff_t outer) noexcept nogil:
    """The offset in x, in elements, of element `outer` of the outer kept axes."""
    cdef ptrdiff_t offset = 0
    cdef int i
    for i in range(self.rank - 1, 0, -1):
        offset += outer % self.kept[i] * self.stride[i]
        outer //= self.kept[i]
    return offset + outer * self.stride[0] if self.rank else 0


cdef int run_blocks(Reduction self, pl_pool *pool, pl_range_fn fn) noexcept nogil:
    """Run fn on all blocks of up to BLOCK neighbouring outputs."""
    cdef ptrdiff_t work = self.g.n[0] * self.g.n[1] * self.g.n[2] * max(self.g.run, 1) * min(BLOCK, self.inner)
    if not self.empty:
        parallel_for(pool, self.outer * self.blocks, 1 + GRAIN // work, fn, <void *>self)
    return 0


cdef class Reduce(Reduction):
    """y = the sum, maximum or minimum over some axes of float32, int8, uint8 or int16.

    divisor: for a float32 mean, the number of elements.  whole: are all axes of a float32 tensor reduced?  Then, as in
    the reference, an extreme starts from the first element, even NaN or infinity, instead of the farthest finite
    number.  requantize: of integer sums, (sum of the zero points of x, multiplier, exponent, zero point of y, low,
    high), for int8 values.
    """
    ARRAYS, SIZES = (0, 1), ("kept", "loops", "run")
    cdef pl_reduction_fn kernel

    def __init__(self, x, y, str operation, str dtype, kept, loops, ptrdiff_t run, float divisor=1,
                 requantize=(0, 0, 0, 0, 0, 0), bint whole=False):
        self.read(x, y, kept, loops, run)
        self.g.whole = whole
        cdef pl_reduction *g = &self.g
        cdef str suffix = "f32" if dtype == "float32" else "16" if dtype == "int16" else "8"
        self.kernel = pl_reduction_kernel(slots, f"reduce_{'sum' if operation == 'sum' else 'max'}_{suffix}".encode())
        g.divisor, g.sign, g.flip, self.item = divisor, -1 if operation == "min" else 1, 0, 1
        if dtype == "float32":
            self.item = 4
        elif dtype == "int16":
            self.item = 2
        elif (dtype == "int8") != (operation == "sum"):
            g.flip = 0x80
        if operation == "min":
            g.flip ^= 0xFF if self.item == 1 else -1
        g.x_zero_sum, g.multiplier, g.exponent, g.y_zero, g.low, g.high = requantize
        self.fn = <kernel_fn>reduce
        if dtype == "float32" and operation == "sum":
            self.subnormals = FLUSH

    cdef Kernel moved(self, const Strided **arrays, list sizes):
        cdef Reduce copy
        if arrays[0] == NULL or arrays[1] == NULL:
            return None
        copy = <Reduce>self.base_copy()
        copy.g, copy.kernel, copy.item = self.g, self.kernel, self.item
        copy.arrange(arrays[0], arrays[1], sizes[0], sizes[1], sizes[2])
        return copy


cdef void reduce_blocks(Reduce self, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef ptrdiff_t column, outer, rows, most, left, apart
    while begin < end:
        column, outer, rows, apart = 0, begin, 1, 0
        if self.blocks > 1:             # a division takes as long as a short row
            column, outer = begin % self.blocks * BLOCK, begin // self.blocks
        elif self.rank:                 # rows of the last outer axis
            most, left = self.kept[self.rank - 1], BLOCK // self.inner
            apart = self.stride[self.rank - 1]
            rows = min(min(end - begin, left), most - begin % most)
        self.kernel(&self.g, self.x + (offset_of(self, outer) + column * self.g.step) * self.item, rows, apart,
                    min(BLOCK, self.inner - column), self.y + (outer * self.inner + column) * self.item)
        begin += rows


cdef int reduce(Reduce self, pl_pool *pool) noexcept nogil:
    return run_blocks(self, pool, <pl_range_fn>reduce_blocks)


cdef class ReduceWide(Reduction):
    """y = the sum, maximum, minimum or product over some axes of int32 or int64, or the product of float32.

    divisor: for a mean, the number of elements; the quotient is truncated.  Sums have 64 bits.
    """
    cdef int64_t divisor, identity  # identity: initial value of an accumulator
    cdef bint real                  # float32?
    cdef pl_join_fn join

    def __init__(self, x, y, str operation, str dtype, kept, loops, ptrdiff_t run, int64_t divisor=1):
        self.read(x, y, kept, loops, run)
        self.divisor, self.real, self.item = divisor, dtype == "float32", 8 if dtype == "int64" else 4
        self.join = pl_join_kernel(slots, f"join_{operation}_{'f32' if self.real else 'i' + dtype[3:]}".encode())
        if self.join == NULL:
            raise ValueError(f"there is no {operation} of {dtype}")
        if operation == "max":
            self.identity = INT32_MIN if dtype == "int32" else INT64_MIN
        elif operation == "min":
            self.identity = INT32_MAX if dtype == "int32" else INT64_MAX
        else:
            self.identity = operation == "product"
        if self.real:
            self.identity = 0x3F800000              # the bits of 1.0, in the lower half
        self.fn = <kernel_fn>reduce_wide


cdef void join_all(ReduceWide self, ptrdiff_t count, const uint8_t *x, int64_t *acc) noexcept nogil:
    """Join `count` neighbouring accumulators, floats if elements are floats, with their elements."""
    cdef pl_reduction *g = &self.g
    cdef ptrdiff_t i, j, k, steps = g.n[2] if g.run else 1
    cdef ptrdiff_t n = g.run if g.run else g.n[2], stride = 1 if g.run else g.stride[2]
    for i in range(g.n[0]):
        for j in range(g.n[1]):
            for k in range(steps):
                self.join(count, g.step, n, stride,
                          x + (i * g.stride[0] + j * g.stride[1] + k * g.stride[2]) * self.item, acc)


cdef void reduce_wide_blocks(ReduceWide self, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef int64_t sums[BLOCK]
    cdef int64_t *acc
    cdef ptrdiff_t block, outer, column, count, i, size
    cdef const uint8_t *x
    cdef uint8_t *y
    for block in range(begin, end):
        outer, column = block // self.blocks, block % self.blocks * BLOCK
        count = min(BLOCK, self.inner - column)
        x = self.x + (offset_of(self, outer) + column * self.g.step) * self.item
        y = self.y + (outer * self.inner + column) * self.item
        acc = <int64_t *>y if self.real or self.item == 8 else sums
        size = 4 if self.real else 8
        slots.copy_strided(size, 1, count, <const uint8_t *>&self.identity, 0, 0, <uint8_t *>acc, 0, size)
        join_all(self, count, x, acc)
        if self.divisor != 1:
            for i in range(count):
                acc[i] //= self.divisor
        if acc == sums:
            slots.cast_i64_i32(count, sums, y, sums)


cdef int reduce_wide(ReduceWide self, pl_pool *pool) noexcept nogil:
    return run_blocks(self, pool, <pl_range_fn>reduce_wide_blocks)
