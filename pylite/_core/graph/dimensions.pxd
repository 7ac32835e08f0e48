# Dimensions that record the arithmetic on them.
from libc.stdint cimport int64_t


cdef enum:
    MAX_FACTOR = 0x7FFFFFFF     # the product of two such factors fits into 64 bits

cdef enum:
    INPUT           # operand: the position among the input dimensions
    NUMBER          # operand: the number
    ADD             # this and all further operations have two cells as operands
    SUBTRACT
    MULTIPLY
    DIVIDE          # rounds towards minus infinity, as in Python
    REMAINDER
    EQUAL
    LESS
    NOT_GREATER


cdef inline int64_t number_limit() noexcept nogil:
    """All recorded numbers are smaller in magnitude, so that the sum of two fits into 64 bits."""
    return <int64_t>1 << 62


cdef class Recording:
    cdef readonly list instructions, values
    cdef readonly dict guards
    cdef dict cells
    cdef readonly dict computed
    cdef bint closed
    cdef Py_ssize_t cell_of(self, int operation, a, b) except -1
    cdef Py_ssize_t operand(self, number) except -1
    cdef object arithmetic(self, int operation, a, b)
    cdef bint is_number(self, Py_ssize_t cell)
    cdef object guarded_value(self, Py_ssize_t cell)


cdef class Dim:
    cdef readonly Recording recording
    cdef readonly Py_ssize_t cell


cdef class Computed:
    cdef object function
    cdef tuple args


cdef bint has_dims(thing) except -1
