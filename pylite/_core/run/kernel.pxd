# The base class of every kernel.
from pylite._core.simd cimport pl_pool

# Runs one node.  Returns 0, or a status that the kernel's ERRORS explains.
ctypedef int (*kernel_fn)(void *self, pl_pool *pool) noexcept nogil


cdef enum:      # what Kernel.subnormals says of subnormal floats:
    PRESERVE = 0        # they matter
    FLUSH = 1           # they count as 0
    IRRELEVANT = 2      # the kernel computes nothing with floats


cdef enum:
    MOST_DIMS = 16      # of a Strided


cdef struct Strided:    # an array in memory
    char *at
    int ndim
    Py_ssize_t item     # bytes of an element
    Py_ssize_t nbytes   # of all elements
    Py_ssize_t shape[MOST_DIMS]
    Py_ssize_t strides[MOST_DIMS]       # in bytes


# Fill `s` for an array, which must stay alive; ndim, item: what it must have, 0 for any; written: is it written?
cdef int set_strided(Strided *s, array, int ndim=*, Py_ssize_t item=*, bint written=*) except -1


cdef inline void *placed(const Strided *array, const void *before) noexcept:
    """Where an array lies for Kernel.moved(), which lay at `before`: there still, where it is NULL."""
    return <void *>before if array == NULL else <void *>array.at


# For Kernel.moved(): the first of its arguments ARRAYS, in order, without those that have a new place: an array of an
# earlier arena would keep that alive.
cdef tuple outside_arena(tuple operands, const Strided **arrays)


cdef class Kernel:
    cdef kernel_fn fn
    cdef signed char subnormals
    cdef readonly str algorithm     # where there are several, for `pylite inspect`; or None
    cdef object memory      # the owner of its arrays in the arena, where it does not keep these themselves
    cdef Kernel moved(self, const Strided **arrays, list sizes)


# The `fn` of a kernel that has nothing to compute.
cdef int nothing(Kernel self, pl_pool *pool) noexcept nogil
