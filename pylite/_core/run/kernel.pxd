# The base class of every kernel.
from pylite._core.simd cimport pl_pool

# Runs one node.  Returns 0, or a status that the kernel's ERRORS explains.
ctypedef int (*kernel_fn)(void *self, pl_pool *pool) noexcept nogil


cdef enum:      # what Kernel.subnormals says of subnormal floats:
    PRESERVE = 0        # they matter
    FLUSH = 1           # they count as 0
    IRRELEVANT = 2      # the kernel computes nothing with floats


cdef class Kernel:
    cdef kernel_fn fn
    cdef signed char subnormals
    cdef readonly str algorithm     # where there are several, for `pylite inspect`; or None
