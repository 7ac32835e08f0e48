"""A bound graph: a flat list of kernels, and the loop that runs them."""
from libc.stdlib cimport free, malloc

from pylite._core.kernel cimport Kernel, kernel_fn
from pylite._core.simd cimport Pool, pl_pool


cdef struct Step:
    kernel_fn fn
    void *self


cdef class Program:
    """Kernels in execution order, run by one nogil loop.

    kernels: list of Kernel; pool: the worker threads, or None to run on the caller alone.
    """
    cdef Step *steps
    cdef readonly Py_ssize_t size
    cdef readonly list kernels      # keeps alive what `steps` points at
    cdef readonly Pool pool

    def __cinit__(self, list kernels, Pool pool=None):
        cdef Kernel kernel
        cdef Py_ssize_t i
        self.size = len(kernels)
        self.kernels = kernels
        self.pool = pool
        self.steps = <Step *>malloc(max(1, self.size) * sizeof(Step))
        if self.steps == NULL:
            raise MemoryError(f"no memory for a program of {self.size} steps")
        for i in range(self.size):
            kernel = kernels[i]
            self.steps[i].fn = kernel.fn
            self.steps[i].self = <void *>kernel

    def __dealloc__(self):
        free(self.steps)

    def run(self, Py_ssize_t start=0, Py_ssize_t stop=-1):
        """Run kernels start..stop-1 (-1: to the end) without the GIL.

        Returns (index, status) of the kernel that failed, or None.
        """
        cdef Py_ssize_t i
        cdef int status = 0
        cdef pl_pool *pool = NULL
        if stop < 0:
            stop = self.size
        if not 0 <= start <= stop <= self.size:
            raise IndexError(f"steps {start}:{stop} of a program of {self.size}")
        if self.pool is not None:
            pool = self.pool.ptr
        i = start
        with nogil:
            while i < stop:
                status = self.steps[i].fn(self.steps[i].self, pool)
                if status != 0:
                    break
                i += 1
        if status != 0:
            return i, status
        return None
