# A product that is rounded to int16.
from libc.stdint cimport int32_t, int64_t

from pylite._core.run.kernel cimport Kernel
from pylite._core.product.words cimport Finish


cdef class Finished(Kernel):
    cdef const int64_t[::1] bias
    cdef const int32_t[::1] multipliers, shifts
    cdef const double[::1] scales
    cdef Finish finish

    cdef object set_finish(self, rule, const int64_t[::1] bias, factors, int low, int high)
