"""Element-wise kernels."""
cimport cython
from libc.stdint cimport uint8_t

from pylite._core.kernel cimport Kernel, kernel_fn
from pylite._core.simd cimport parallel_for, pl_pool, slots


cdef class Lut8(Kernel):
    """y[i] = table[x[i]] for 8-bit x and y, bytes taken as unsigned.  x, y: (n,) uint8; table: (256,) uint8."""
    cdef const uint8_t[::1] x
    cdef const uint8_t[::1] table
    cdef uint8_t[::1] y

    def __init__(self, const uint8_t[::1] x, const uint8_t[::1] table, uint8_t[::1] y):
        self.x, self.table, self.y = x, table, y
        self.fn = <kernel_fn>lut8


@cython.boundscheck(False)
cdef void lut8_range(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    pass


cdef int lut8(Lut8 self, pl_pool *pool) noexcept nogil:
    if self.x.shape[0]:
        slots.lut8(self.x.shape[0], &self.x[0], &self.table[0], &self.y[0])
    return 0
