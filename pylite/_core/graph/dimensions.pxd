# Dimensions that record what is done with them.
cdef enum:
    GIVEN           # operands: the position among the dimensions that are given
    NUMBER          # operands: the number
    ADD             # from here on: two slots
    SUBTRACT
    MULTIPLY
    DIVIDE          # towards minus infinity, as in Python
    REMAINDER
    EQUAL
    LESS
    NOT_GREATER


cdef class Recording:
    cdef readonly list instructions, values
    cdef readonly dict guards
    cdef dict slots
    cdef public bint closed
    cdef Py_ssize_t slot(self, int operation, a, b) except -1
    cdef Py_ssize_t operand(self, number) except -1
    cdef object made(self, int operation, a, b)
    cdef object tested(self, Py_ssize_t slot)


cdef class Dim:
    cdef readonly Recording recording
    cdef readonly Py_ssize_t slot


cdef class Computed:
    cdef object function
    cdef tuple args
