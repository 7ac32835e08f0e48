# Parts of the operands of recorded calls.
from libc.stdint cimport int64_t

from pylite._core.graph.tapes cimport Tape
from pylite._core.run.storage cimport Storage


cdef class Site:
    cdef Tape tape
    cdef int64_t *before        # the numbers of all slots at the last bind()
    cdef int64_t *starts        # of each block in the arena
    cdef object arena, pack
    cdef Storage storage
    cdef dict computed          # {id of a Computed: its result}, during bind()
    cdef bint elsewhere         # has the arena been replaced since the last bind()?
    cdef bint renamed           # may an array outside the arena, or an offset, have changed?


cdef class Slots:
    cdef Py_ssize_t *slots
    cdef Py_ssize_t count
    cdef bint differ(self, Site site) noexcept


cdef class Part:
    cdef object made
    cdef bint changed
    cdef int renew(self, Site site) except -1


cdef class Sizes(Part):
    cdef object source
    cdef Slots slots


cdef class Window(Part):
    cdef Py_ssize_t block
    cdef Part sizes, shape, strides, begin, offset
    cdef object dtype
    cdef int64_t itemsize, address


cdef class Stored(Part):
    cdef object target
    cdef list copies
    cdef Slots slots
