# The micro-kernel table, the worker pool and the rung in use, for the kernels to cimport.
from libc.stdint cimport uint8_t


cdef extern from "simd.h" nogil:
    ctypedef struct pl_slots:
        void (*lut8)(size_t n, const uint8_t *x, const uint8_t *table, uint8_t *y) noexcept nogil
    ctypedef struct pl_pool:
        pass
    ctypedef void (*pl_range_fn)(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil


cdef const pl_slots *slots
cdef void parallel_for(pl_pool *pool, ptrdiff_t n, ptrdiff_t grain, pl_range_fn fn, void *ctx) noexcept nogil


cdef class Pool:
    cdef pl_pool *ptr
