"""A bound graph: a flat list of kernels, and the loop that runs them."""
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

from pylite._core.kernel cimport Kernel
from pylite._core.simd cimport Pool, pl_pool


cdef class Program:
    """Kernels in execution order, run by one nogil loop.

    kernels: list of Kernel; pool: the worker threads, or None to run on the caller alone.
    """
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
            status = run_steps(self, pool, &i, stop)
        if status != 0:
            return i, status
        return None

    def profile(self, int64_t[::1] nanoseconds):
        """Run every kernel once, as run() does, and note how long each one took: (size,)."""
        cdef Py_ssize_t i = 0
        cdef int status = 0
        cdef timespec begin, end
        cdef pl_pool *pool = NULL if self.pool is None else self.pool.ptr
        if nanoseconds.shape[0] != self.size:
            raise ValueError(f"times of {nanoseconds.shape[0]} steps for a program of {self.size}")
        with nogil:
            clock_gettime(CLOCK_MONOTONIC, &begin)
            while i < self.size:
                status = self.steps[i].fn(self.steps[i].self, pool)
                if status != 0:
                    break
                clock_gettime(CLOCK_MONOTONIC, &end)
                nanoseconds[i] = (end.tv_sec - begin.tv_sec) * 1000000000 + end.tv_nsec - begin.tv_nsec
                begin = end
                i += 1
        if status != 0:
            return i, status
        return None


cdef int run_steps(Program program, pl_pool *pool, Py_ssize_t *at, Py_ssize_t stop) noexcept nogil:
    cdef Py_ssize_t i = at[0]
    cdef int status = 0
    while i < stop:
        status = program.steps[i].fn(program.steps[i].self, pool)
        if status != 0:
            break
        i += 1
    at[0] = i
    return status
