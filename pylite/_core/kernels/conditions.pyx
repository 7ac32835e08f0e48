"""Kernels that check the data of a run."""
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t

from pylite._core.run.kernel cimport Kernel, Strided, kernel_fn
from pylite._core.simd cimport memory_of, pl_pool

ctypedef fused integer:
    int8_t
    int16_t
    int32_t
    int64_t

cdef enum:                  # values of status
    IS_ZERO = 1
    TOO_SMALL = 2


cdef class Require(Kernel):
    """Fails the run if an element of x is `value` (condition "differs"), or below it ("at least").

    x: the bytes of elements of `dtype`, which is signed for "at least".
    """
    ERRORS = {IS_ZERO: "division by zero",
              TOO_SMALL: "an input is below zero, where this function has no value"}
    ARRAYS = (2,)
    cdef const uint8_t *x
    cdef ptrdiff_t n
    cdef int32_t value
    cdef int size, failure

    def __init__(self, str condition, str dtype, x, int32_t value):
        cdef Py_ssize_t nbytes = len(x)
        self.failure = {"differs": IS_ZERO, "at least": TOO_SMALL}[condition]
        self.memory, self.size = x, {"int8": 1, "uint8": 1, "int16": 2, "int32": 4, "int64": 8}[dtype]
        self.x, self.n, self.value = <const uint8_t *>memory_of(x, nbytes), nbytes // self.size, value
        self.fn = <kernel_fn>require

    cdef Kernel moved(self, const Strided **arrays, list sizes):
        cdef Require copy
        if arrays[0] == NULL:
            return None
        copy = <Require>self.base_copy()
        copy.size, copy.value, copy.failure = self.size, self.value, self.failure
        copy.x, copy.n = <const uint8_t *>arrays[0].data, arrays[0].nbytes // self.size
        return copy


cdef int status_of(const integer *x, ptrdiff_t n, integer value, int failure) noexcept nogil:
    """`failure` if an element does not meet the condition, else 0; without early exit, so that loops vectorize."""
    cdef ptrdiff_t i
    cdef bint fails = False
    if failure == IS_ZERO:
        for i in range(n):
            fails |= x[i] == value
    else:
        for i in range(n):
            fails |= x[i] < value
    return failure if fails else 0


cdef int require(Require self, pl_pool *pool) noexcept nogil:
    if self.size == 1:
        return status_of(<const int8_t *>self.x, self.n, <int8_t>self.value, self.failure)
    if self.size == 2:
        return status_of(<const int16_t *>self.x, self.n, <int16_t>self.value, self.failure)
    if self.size == 8:
        return status_of(<const int64_t *>self.x, self.n, <int64_t>self.value, self.failure)
    return status_of(<const int32_t *>self.x, self.n, self.value, self.failure)
