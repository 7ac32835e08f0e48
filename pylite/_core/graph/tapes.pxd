from libc.stdint cimport int64_t


cdef class Numbers:
    cdef int64_t *numbers       # the values of all cells


cdef class Tape(Numbers):
    cdef readonly Py_ssize_t size, inputs
    cdef int *operations
    cdef int64_t *first         # operands: cells, or a number
    cdef int64_t *second
    cdef int64_t *expected
    cdef char *guarded
    cdef bint run(self) noexcept nogil


cdef class ShapeTape(Tape):
    cdef tuple ranks            # of the inputs
    cdef int64_t *constant      # the dimensions of all inputs; -1: the dimension varies
    cpdef bint evaluate_shapes(self, shapes) except -1


cdef object filled(const int64_t *numbers, thing)
