from libc.stdint cimport uintptr_t


cdef class DelegateHandle:
    cdef void (*end)(void *) noexcept nogil
    cdef readonly uintptr_t address
