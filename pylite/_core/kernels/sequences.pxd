# The base of LSTM and RNN layers over a sequence.
from pylite._core.run.kernel cimport Kernel, Strided
from pylite._core.simd cimport memory_of

cdef enum:                  # the gates of an LSTM; an RNN has the cell gate alone
    INPUT
    FORGET
    CELL
    OUTPUT
    GATES

cdef enum:
    LOCAL = 4096            # elements of each scratch array that fit on the stack
    SCRATCHES = 4           # most scratch arrays


cdef inline const void *kept(list owners, array) except? NULL:
    """The address of an array, which is appended to `owners`; NULL for None."""
    if array is None:
        return NULL
    owners.append(array)
    return memory_of(array, array.nbytes)


cdef inline int check_scratch(scratch, Py_ssize_t size) except -1:
    """Raise ValueError unless `scratch`, or the stack if it is None, has `size` elements."""
    if (LOCAL if scratch is None else len(scratch)) < size:
        raise ValueError(f"{size} elements of scratch are needed")
    return 0


cdef class SequenceKernel(Kernel):
    cdef list owners            # of weights,
    cdef object states          # and of h and c, if they are not in the arena
    cdef const char *x          # (time, rows, depth); strides in bytes
    cdef const char *aux
    cdef char *y
    cdef ptrdiff_t x_time, x_row, aux_time, aux_row, y_time, y_row
    cdef ptrdiff_t steps, rows, cells, outputs, depth, aux_depth
    cdef void *state            # h,
    cdef void *cell_state       # and c
    cdef void *reserved[SCRATCHES]      # scratch in the arena, each NULL if the stack suffices
    cdef bint start(self, tuple arrays, sizes, Py_ssize_t item) except -1
    cdef void place(self, const Strided **arrays, SequenceKernel before)
    cdef void take_layer(self, SequenceKernel other)
