"""Kernels that move elements."""
from libc.stdint cimport uint8_t
from libc.string cimport memcpy

from pylite._core.kernel cimport Kernel, kernel_fn
from pylite._core.simd cimport pl_pool


cdef class CopyBytes(Kernel):
    """y = x, byte by byte.  x, y: (n,) uint8."""
    cdef const uint8_t[::1] x
    cdef uint8_t[::1] y

    def __init__(self, const uint8_t[::1] x, uint8_t[::1] y):
        self.x, self.y = x, y
        self.fn = <kernel_fn>copy_bytes


cdef int copy_bytes(CopyBytes self, pl_pool *pool) noexcept nogil:
    if self.y.shape[0]:
        memcpy(&self.y[0], &self.x[0], self.y.shape[0])
    return 0
