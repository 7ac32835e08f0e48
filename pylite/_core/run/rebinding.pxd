# Kernels of recorded calls.
from libc.stdint cimport int64_t

from pylite._core.run.kernel cimport Kernel
from pylite._core.run.parts cimport Number, Part, Site


cdef class Operands:
    cdef object name            # of the kernel
    cdef list args, keys, parts, entries
    cdef dict named
    cdef Kernel kernel
    cdef object make
    cdef list roles             # of each part, once there is a kernel: its number among ARRAYS, or as in Role
    cdef list sizes             # the arguments SIZES
    cdef list size_keys
    cdef bint moves
    cdef int prepare(self) except -1
    cdef Kernel moved(self)
    cdef bint renew(self, Rebinder rebinder, bint differs) except -1
    cdef int put(self, key, made) except -1


cdef class Rebinder(Site):
    cdef list operands, ends, parts, owners, firsts, lasts
    cdef Number *sizes          # bytes of each block
    cdef Py_ssize_t block_count
    cdef bint stores            # do contents depend on dimensions?
    cdef readonly list offsets
    cdef readonly Py_ssize_t total
    cdef Py_ssize_t count
    cdef int64_t *room          # of each block in the layout
    cdef dict blocks            # {id of a root or Scratch: number of its block}
    cdef dict known             # {what a Part was made from: the Part}, while they are made
    cdef dict roots, scratches, outside
    cdef object kernel_class, present
    cdef bint moved             # since the last bind()
    cdef readonly Py_ssize_t rebound        # kernels made by the last bind()
    cdef Operands operands_of(self, source, target)
    cdef Part end(self, view)
    cdef Part entered(self, key, Part made)
    cdef Part part(self, source, target)
    cdef Part sized(self, source)
    cdef Part window(self, source)
    cdef Py_ssize_t place(self) except -1
    cdef list end_arrays(self)
    cdef list bind(self, arena, dict outside, pack, kernel_class)
