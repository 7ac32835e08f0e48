from libc.stdint cimport uintptr_t


cdef class DelegateHandle:
    cdef void (*destroy)(void *) noexcept nogil
    cdef readonly uintptr_t address
