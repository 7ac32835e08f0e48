# The base class of every kernel.
from pylite._core.simd cimport pl_pool

# Runs one node.  Returns 0, or a status that the kernel's ERRORS explains.
ctypedef int (*kernel_fn)(void *self, pl_pool *pool) noexcept nogil


cdef enum:      # Kernel.subnormals: how the kernel treats subnormal floats
    PRESERVE = 0        # it computes with them
    FLUSH = 1           # it takes them as 0
    IRRELEVANT = 2      # it computes nothing with floats


cdef enum:
    MAX_DIMS = 16           # of a Strided
    MAX_ARRAYS = 10         # in a class's ARRAYS
    CACHE_LINE = 64         # bytes
    COPY_GRAIN_BYTES = 1 << 17      # least number of bytes that a thread moves at once
    LARGE_ARENA_BYTES = 1 << 28     # larger ones are checked against the machine's memory


cdef struct Strided:    # an array in memory
    char *data
    int ndim
    Py_ssize_t item     # bytes of an element
    Py_ssize_t nbytes   # of all elements
    Py_ssize_t shape[MAX_DIMS]
    Py_ssize_t strides[MAX_DIMS]        # in bytes


# Describe an array in `s`; the caller keeps the array alive.  ndim, item: the required rank and bytes of an element, 0
# for any; written: must it be writable?
cdef int set_strided(Strided *s, array, int ndim=*, Py_ssize_t item=*, bint written=*) except -1

# set_strided() of an array that must be contiguous.
cdef int set_contiguous(Strided *s, array, int ndim, Py_ssize_t item, bint written) except -1


# Describe the arrays of a kernel in `operands`, and point `arrays` to these, NULL for None.  forms: the arguments
# (ndim, item, written) of set_strided() for each; contiguous: raise ValueError for an array that is not.
cdef int describe(tuple memory, tuple forms, Strided *operands, const Strided **arrays, bint contiguous=*) except -1


cdef struct Bytes:      # a contiguous array
    char *data
    Py_ssize_t n        # bytes, or -1 if there is no array


# The bytes of an array, which the caller keeps alive; None has no bytes.
cdef Bytes bytes_of(array) except *


cdef inline void *placed(const Strided *array, const void *before) noexcept:
    """The address of an argument of Kernel.moved(): `before` if the argument has not moved (NULL)."""
    return <void *>before if array == NULL else <void *>array.data


# For Kernel.moved(): the owners, with None for each that has moved, because an array in an earlier arena would keep
# that arena alive.
cdef tuple outside_arena(tuple owners, const Strided **arrays)


cdef class Kernel:
    cdef kernel_fn fn
    cdef readonly signed char subnormals
    cdef readonly str algorithm     # the one in use if there are several, for `pylite inspect`; or None
    cdef object memory      # keeps its arrays in the arena alive, if the kernel does not do so itself
    cdef Kernel base_copy(self)
    cdef Kernel moved(self, const Strided **arrays, list sizes)
    cdef Kernel calling(self, list callees, const Bytes *arrays, Py_ssize_t count)


# The `fn` of a kernel with nothing to compute.
cdef int nothing(Kernel self, pl_pool *pool) noexcept nogil
