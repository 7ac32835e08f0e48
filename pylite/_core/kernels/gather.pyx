"""Kernels that pick elements by their indices."""
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from pylite._core.kernel cimport Kernel, kernel_fn
from pylite._core.simd cimport parallel_for, pl_pool, pl_range_fn

cdef enum:
    GRAIN = 1 << 17         # bytes below which threads cost more than they save


cdef class Gather(Kernel):
    """y[b, o, i] = x[b, o, indices[b, i]], where each element is a run of bytes.

    x: (batches, outer, size, run), indices: (batches, count) of `width` bytes each, y: (batches, outer, count, run),
    all given as their bytes, uint8.
    """
    ERRORS = {1: "an index lies outside the axis that is gathered from"}
    cdef const uint8_t[::1] x
    cdef const uint8_t[::1] indices
    cdef uint8_t[::1] y
    cdef Py_ssize_t width, batches, outer, size, count, run

    def __init__(self, const uint8_t[::1] x, const uint8_t[::1] indices, uint8_t[::1] y, Py_ssize_t width,
                 Py_ssize_t batches, Py_ssize_t outer, Py_ssize_t size, Py_ssize_t count, Py_ssize_t run):
        self.x, self.indices, self.y = x, indices, y
        self.width, self.batches, self.outer, self.size, self.count, self.run = width, batches, outer, size, count, run
        if x.shape[0] != batches * outer * size * run or indices.shape[0] != batches * count * width \
                or y.shape[0] != batches * outer * count * run:
            raise ValueError("the arrays do not have the sizes given")
        self.fn = <kernel_fn>gather


cdef inline int64_t load_index(const uint8_t *p, Py_ssize_t width) noexcept nogil:
    if width == 4:
        return (<const int32_t *>p)[0]
    if width == 8:
        return (<const int64_t *>p)[0]
    return (<const int16_t *>p)[0]


cdef int gather(Gather self, pl_pool *pool) noexcept nogil:
    cdef Py_ssize_t i, n = self.batches * self.count
    cdef int64_t index
    for i in range(n):
        index = load_index(&self.indices[i * self.width], self.width)
        if index < 0 or index >= self.size:
            return 1
    if self.y.shape[0]:
        parallel_for(pool, n * self.outer, max(1, GRAIN // self.run), <pl_range_fn>gather_runs, <void *>self)
    return 0


cdef void gather_runs(Gather self, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef Py_ssize_t row, at, run = self.run, width = self.width
    cdef const uint8_t *indices
    cdef const uint8_t *x
    cdef uint8_t *y = &self.y[begin * run]
    cdef int64_t index
    while begin < end:
        row, at = begin // self.count, begin % self.count       # row: batch and outer in one
        x = &self.x[row * self.size * run]
        indices = &self.indices[0] + row // self.outer * self.count * width
        while at < self.count and begin < end:
            index = load_index(indices + at * width, width)
            if run == 4:
                memcpy(y, x + index * 4, 4)
            elif run == 1:
                y[0] = x[index]
            else:
                memcpy(y, x + index * run, run)
            y += run
            at += 1
            begin += 1
