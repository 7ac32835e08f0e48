"""Conditions on the data of a run, which fail it."""
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t

from pylite._core.run.kernel cimport Kernel, kernel_fn
from pylite._core.simd cimport pl_pool

ctypedef fused integer:
    int8_t
    int16_t
    int32_t
    int64_t
    uint8_t


cdef class RequireNot(Kernel):
    """Fails when an element of x is `value`, as a divisor must not be zero.  x: bytes of elements of `dtype`."""
    ERRORS = {1: "division by zero"}
    cdef const uint8_t[::1] x
    cdef ptrdiff_t n
    cdef int32_t value
    cdef int size

    def __init__(self, str dtype, const uint8_t[::1] x, int32_t value):
        self.size = {"int8": 1, "uint8": 1, "int16": 2, "int32": 4, "int64": 8}[dtype]
        self.x, self.n = x, x.shape[0] // self.size
        self.value = value
        self.fn = <kernel_fn>run_require_not


cdef bint has(const integer *x, ptrdiff_t n, integer value) noexcept nogil:
    cdef ptrdiff_t i
    cdef bint any_equal = False
    for i in range(n):
        any_equal |= x[i] == value
    return any_equal


cdef int run_require_not(RequireNot self, pl_pool *pool) noexcept nogil:
    if self.n == 0:
        return 0
    if self.size == 1:
        return has(<const uint8_t *>&self.x[0], self.n, <uint8_t>self.value)
    if self.size == 2:
        return has(<const int16_t *>&self.x[0], self.n, <int16_t>self.value)
    if self.size == 8:
        return has(<const int64_t *>&self.x[0], self.n, <int64_t>self.value)
    return has(<const int32_t *>&self.x[0], self.n, self.value)


cdef class RequireAtLeast(Kernel):
    """Fails when an element of x is below `low`.  x: bytes of elements of `dtype`."""
    ERRORS = {1: "an input is below zero, where this function has no value"}
    cdef const uint8_t[::1] x
    cdef ptrdiff_t n
    cdef int32_t low
    cdef int size

    def __init__(self, str dtype, const uint8_t[::1] x, int32_t low):
        self.size = {"int8": 1, "int16": 2, "int32": 4}[dtype]
        self.x, self.n = x, x.shape[0] // self.size
        self.low = low
        self.fn = <kernel_fn>run_require_at_least


cdef bint has_below(const integer *x, ptrdiff_t n, int32_t low) noexcept nogil:
    cdef ptrdiff_t i
    cdef bint any_below = False
    for i in range(n):
        any_below |= x[i] < low
    return any_below


cdef int run_require_at_least(RequireAtLeast self, pl_pool *pool) noexcept nogil:
    if self.n == 0:
        return 0
    if self.size == 1:
        return has_below(<const int8_t *>&self.x[0], self.n, self.low)
    if self.size == 4:
        return has_below(<const int32_t *>&self.x[0], self.n, self.low)
    return has_below(<const int16_t *>&self.x[0], self.n, self.low)
