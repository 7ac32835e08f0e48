"""Conditions on the data of a run, which fail it."""
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t

from pylite._core.run.kernel cimport Kernel, Strided, kernel_fn
from pylite._core.simd cimport memory_of, pl_pool

ctypedef fused integer:
    int8_t
    int16_t
    int32_t
    int64_t
    uint8_t


cdef class Condition(Kernel):
    """x: bytes of elements of `dtype`; value: what the condition compares them with."""
    ARRAYS = (1,)
    cdef const uint8_t *x
    cdef ptrdiff_t n
    cdef int32_t value
    cdef int size

    def __init__(self, str dtype, x, int32_t value):
        cdef Py_ssize_t nbytes = len(x)
        self.memory, self.size = x, {"int8": 1, "uint8": 1, "int16": 2, "int32": 4, "int64": 8}[dtype]
        self.x, self.n, self.value = <const uint8_t *>memory_of(x, nbytes), nbytes // self.size, value

    cdef Kernel follow(self, Condition like, const Strided *x):
        """self, which is like `like`, for another x."""
        if x == NULL:
            return None
        self.x, self.n, self.size, self.value, self.fn = (
            <const uint8_t *>x.at, x.nbytes // like.size, like.size, like.value, like.fn)
        return self


cdef class RequireNot(Condition):
    """Fails when an element of x is `value`, as a divisor must not be zero."""
    ERRORS = {1: "division by zero"}

    def __init__(self, str dtype, x, int32_t value):
        super().__init__(dtype, x, value)
        self.fn = <kernel_fn>run_require_not

    cdef Kernel moved(self, const Strided **arrays, list sizes):
        return (<RequireNot>RequireNot.__new__(RequireNot)).follow(self, arrays[0])


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
        return has(<const uint8_t *>self.x, self.n, <uint8_t>self.value)
    if self.size == 2:
        return has(<const int16_t *>self.x, self.n, <int16_t>self.value)
    if self.size == 8:
        return has(<const int64_t *>self.x, self.n, <int64_t>self.value)
    return has(<const int32_t *>self.x, self.n, self.value)


cdef class RequireAtLeast(Condition):
    """Fails when an element of x, of signed integers, is below `value`."""
    ERRORS = {1: "an input is below zero, where this function has no value"}

    def __init__(self, str dtype, x, int32_t value):
        super().__init__(dtype, x, value)
        self.fn = <kernel_fn>run_require_at_least

    cdef Kernel moved(self, const Strided **arrays, list sizes):
        return (<RequireAtLeast>RequireAtLeast.__new__(RequireAtLeast)).follow(self, arrays[0])


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
        return has_below(<const int8_t *>self.x, self.n, self.value)
    if self.size == 4:
        return has_below(<const int32_t *>self.x, self.n, self.value)
    return has_below(<const int16_t *>self.x, self.n, self.value)
