# Arguments of recorded calls that depend on shapes.
from libc.stdint cimport int64_t

from pylite._core.graph.tapes cimport Tape
from pylite._core.run.kernel cimport MAX_DIMS, Bytes, Strided
from pylite._core.run.storage cimport Storage


cdef class BindingContext:
    cdef Tape tape
    cdef int64_t *before        # the tape's numbers at the last bind()
    cdef int64_t *starts        # offset of each block in the arena
    cdef object arena, pack
    cdef Strided bytes          # of the arena
    cdef Storage storage
    cdef dict computed          # {id of a Computed: its result}, during bind()
    cdef bint arena_replaced    # since the last bind()
    cdef bint may_differ        # may an array outside the arena, or an offset, have changed since then?


cdef class Cells:
    cdef Py_ssize_t *cells
    cdef Py_ssize_t count
    cdef bint differ(self, BindingContext context) noexcept


cdef class Part:
    cdef object argument
    cdef bint changed
    cdef bint detached          # does the array have memory of its own, because its Value is empty?
    cdef int renew(self, BindingContext context) except -1
    cdef object value(self)
    cdef Bytes bytes(self, list owners) except *


cdef struct Number:
    Py_ssize_t cell             # of the tape, or -1 for a constant
    int64_t constant


# Set `number` from an integer or a Dim; False for anything else.
cdef bint set_number(Number *number, thing) except -1


cdef inline int64_t current_value(const Number *number, const int64_t *numbers) noexcept nogil:
    return number.constant if number.cell < 0 else numbers[number.cell]


cdef class Sizes(Part):
    cdef object source
    cdef Cells cells


cdef class ArenaArray(Part):
    cdef Strided span
    cdef Py_ssize_t block
    cdef Py_ssize_t address     # in the arena
    cdef Number shape[MAX_DIMS]
    cdef Number value_shape[MAX_DIMS]
    cdef Number strides[MAX_DIMS]
    cdef Number begin, offset
    cdef int value_ndim
    cdef bint strided
    cdef object dtype, arena
    cdef bint set_up(self, shape, value_shape, strides, begin, offset) except -1
    cdef int check(self, BindingContext context) except -1
    cdef tuple dimensions(self)


cdef class Stored(Part):
    cdef object target
    cdef list copies
    cdef Cells cells
