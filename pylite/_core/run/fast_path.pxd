# The lock of an interpreter.
from cpython.pythread cimport PyThread_type_lock

from pylite._core.run.program cimport ExecutorBase


cdef class Lock:
    cdef PyThread_type_lock lock
    cdef unsigned long owner    # the thread that holds it, or 0
    cdef int count              # how many times the owner has acquired it
    cdef bint busy              # the owner is in run()
    cdef void acquire(self) noexcept
    cdef void release(self) noexcept


# Run an Executor's bound program.  The caller holds its lock, marked as busy.
cdef int run_bound(ExecutorBase executor) except -1
