"""Reduction kernels."""
from libc.stdint cimport uint8_t

from pylite._core.kernel cimport Kernel, kernel_fn
from pylite._core.simd cimport parallel_for, pl_pool, pl_range_fn, pl_reduction, slots

OPERATIONS = ("sum", "max", "min")
TYPES = ("float32", "int8", "uint8", "int16", "int32", "int64")


cdef class Reduce(Kernel):
    """y = the sum, maximum or minimum over some of x's axes.

    x, y: the bytes of arrays of `dtype`; kept: the axes of y as pairs (size, stride in x), outermost first, at least
    one; loops: up to three pairs for the axes to reduce, outermost first; run: how many consecutive elements to
    reduce inside them, or 0 when the last of `kept` has stride 1.
    divisor: of a float32, int32 or int64 sum (a mean's number of elements; integers truncate).
    requantize: of an 8- or 16-bit sum, (sum of x's zero points, multiplier, exponent, y's zero point, low, high).
    """
    cdef const uint8_t[::1] x
    cdef uint8_t[::1] y
    cdef pl_reduction g
    cdef ptrdiff_t kept[4]
    cdef ptrdiff_t stride[4]
    cdef ptrdiff_t inner, outputs, item
    cdef int kind, rank

    def __init__(self, const uint8_t[::1] x, uint8_t[::1] y, str operation, str dtype, kept, loops, ptrdiff_t run,
                 divisor=1, requantize=(0, 0, 0, 0, 0, 0)):
        self.x, self.y = x, y
        self.kind = 6 * OPERATIONS.index(operation) + TYPES.index(dtype)
        self.item = {"float32": 4, "int16": 2, "int32": 4, "int64": 8}.get(dtype, 1)
        cdef pl_reduction *g = &self.g
        cdef int i
        for i in range(3):
            g.n[i], g.stride[i] = loops[i] if i < len(loops) else (1, 0)
        self.rank = len(kept) - 1
        self.outputs = 1
        for i in range(self.rank + 1):
            self.kept[i], self.stride[i] = kept[i]
            self.outputs *= self.kept[i]
        self.inner, g.step = kept[self.rank]
        g.run = run
        g.divisor = g.divisor_f = divisor
        g.x_zero_sum, g.multiplier, g.exponent, g.y_zero, g.low, g.high = requantize
        self.fn = <kernel_fn>reduce


cdef void reduce_range(Reduce self, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Outputs [begin, end)."""
    cdef ptrdiff_t column, count, rest, offset
    cdef int i
    while begin < end:
        column = begin % self.inner
        count = min(self.inner - column, end - begin)
        rest = begin // self.inner
        offset = column * self.g.step
        for i in range(self.rank - 1, -1, -1):
            offset += rest % self.kept[i] * self.stride[i]
            rest //= self.kept[i]
        slots.reduce(self.kind, &self.g, &self.x[0] + offset * self.item, count, &self.y[0] + begin * self.item)
        begin += count


cdef int reduce(Reduce self, pl_pool *threads) noexcept nogil:
    cdef ptrdiff_t work = self.g.n[0] * self.g.n[1] * self.g.n[2] * max(self.g.run, 1)
    if self.outputs and self.x.shape[0]:
        parallel_for(threads, self.outputs, 64 + 65536 // work, <pl_range_fn>reduce_range, <void *>self)
    return 0
