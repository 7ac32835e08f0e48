# A bound graph, for kernels that run one inside another.
from cpython.pythread cimport PyThread_type_lock
from libc.stdint cimport int64_t

from pylite._core.run.kernel cimport kernel_fn
from pylite._core.simd cimport Pool, pl_pool


cdef struct Step:
    kernel_fn fn
    void *self
    int subnormals          # as Kernel.subnormals


cdef class Program:
    cdef Step *steps
    cdef readonly Py_ssize_t size
    cdef readonly list kernels      # owns the kernels that `steps` points to
    cdef readonly Pool pool


cdef class Segment:
    cdef public object program, boundary, watched, evaluate, evaluated
    cdef public dict next, readable, writable
    cdef public bint used


cdef class ExecutorBase:
    cdef public dict readable, writable
    cdef public Program fast_program
    cdef public Segment first_segment
    cdef public list segments
    cdef public object dynamic_shapes
    cdef public bint guard


cdef class Lock:
    cdef int state          # 0: free; 1: held; 2: held, and others may wait at the gate
    cdef PyThread_type_lock gate
    cdef int open           # was the gate released, and no thread has gone through it since?
    cdef unsigned long owner    # the thread that holds it, or 0: a new thread may have the number of an old one
    cdef int count
    cdef readonly bint busy     # the thread that holds it is in run()
    cdef void acquire(self) noexcept
    cdef void release(self) noexcept


# Run steps *at..stop-1.  Returns 0, or the status of the step that failed, *at.
cdef int run_steps(Program program, pl_pool *pool, Py_ssize_t *at, Py_ssize_t stop) noexcept nogil


# The time of CLOCK_MONOTONIC.
cdef int64_t nanoseconds() noexcept nogil
