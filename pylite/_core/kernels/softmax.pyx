"""Softmax, log-softmax and L2 normalization along the last dimension: kernels on the rows of contiguous matrices.

RowsF32 computes floats, Softmax8 and L2Normalize8 bytes, Softmax16 int16 by tables, DefinedRows16 the int16 functions
that the reference lacks.  run_rows() divides the rows among threads.
"""
from libc cimport math
from libc.stdint cimport int16_t, int32_t, uint8_t

from pylite._core.run.kernel cimport FLUSH, Kernel, Strided, kernel_fn, set_contiguous
from pylite._core.kernels.rounding cimport pl_exp_q, pl_mbqm32, pl_rdbpot
from pylite._core.simd cimport parallel_for, pl_pool, pl_range_fn, pl_softmax16, pl_softmax8, slots

cdef enum:                  # functions of float32 and of int16
    SOFTMAX
    LOG_SOFTMAX
    L2_NORMALIZE

cdef enum:                  # functions of bytes
    SOFTMAX_8
    SOFTMAX_8_TO_16
    LOG_SOFTMAX_8
    ZERO = -(1 << 30)       # -16 in fixed point: numbers that are not larger become 0, the smallest result

cdef enum:
    GRAIN = 8192            # least number of elements for a thread

cdef dict FUNCTIONS = {"softmax": SOFTMAX, "log_softmax": LOG_SOFTMAX, "l2_normalize": L2_NORMALIZE}


cdef ptrdiff_t grain(ptrdiff_t n) noexcept nogil:
    """The least number of rows of n elements for a thread."""
    return 1 + GRAIN // n


cdef struct Rows:           # of the contiguous matrices x and y
    const char *x
    char *y
    ptrdiff_t count, n      # number of rows; elements of a row of x
    ptrdiff_t y_row         # bytes of a row of y


cdef class RowKernel(Kernel):
    """The base class: computes each row of y from the same row of x."""
    cdef Rows rows
    cdef pl_range_fn compute

    cdef int read(self, x, y, Py_ssize_t item, pl_range_fn compute) except -1:
        """Set up for arrays with elements of `item` bytes; compute: the function of the kernel for a range of rows."""
        cdef Strided source, target
        set_contiguous(&source, x, 2, item, False)
        set_contiguous(&target, y, 2, item, True)
        self.memory, self.compute, self.fn = (x, y), compute, <kernel_fn>run_rows
        self.set_rows(&source, &target)
        return 0

    cdef void set_rows(self, const Strided *x, const Strided *y) noexcept:
        self.rows = Rows(x.data, y.data, x.shape[0], x.shape[1], y.shape[1] * y.item)

    cdef RowKernel copy_for(self, const Strided **arrays):
        """moved(), without the attributes of subclasses."""
        cdef RowKernel copy
        if arrays[0] == NULL or arrays[1] == NULL:
            return None
        copy = <RowKernel>self.base_copy()
        copy.compute = self.compute
        copy.set_rows(arrays[0], arrays[1])
        return copy


cdef int run_rows(RowKernel self, pl_pool *pool) noexcept nogil:
    if self.rows.count and self.rows.n:
        parallel_for(pool, self.rows.count, grain(self.rows.n), self.compute, <void *>self)
    return 0


cdef class RowsF32(RowKernel):
    """float32 function of each row.  x, y: (rows, n); y may be the memory of x.

    function: "softmax" (of beta * x), "log_softmax" or "l2_normalize".
    """
    ARRAYS = (0, 1)
    cdef float beta
    cdef int function

    def __init__(self, x, y, str function, float beta=1.0):
        self.read(x, y, 4, <pl_range_fn>range_f32)
        self.beta, self.subnormals = beta, FLUSH
        self.function = FUNCTIONS[function]

    cdef Kernel moved(self, const Strided **arrays, list sizes):
        cdef RowsF32 copy = <RowsF32>self.copy_for(arrays)
        if copy is not None:
            copy.beta, copy.function = self.beta, self.function
        return copy


cdef void range_f32(RowsF32 self, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef ptrdiff_t n = self.rows.n
    cdef const float *x = <const float *>self.rows.x + begin * n
    cdef float *y = <float *>self.rows.y + begin * n
    if self.function == SOFTMAX:
        slots.softmax_f32(end - begin, n, self.beta, x, y)
    elif self.function == LOG_SOFTMAX:
        slots.log_softmax_f32(end - begin, n, x, y)
    else:
        slots.l2_normalize_f32(end - begin, n, x, y)


cdef class Softmax8(RowKernel):
    """8-bit softmax or log-softmax, by tables of the 256 possible distances from the maximum of a row.

    x: (rows, n) bytes; y: (rows, bytes of n results); bits: of a result, 8 or 16; flip: 0x80 if x is int8, 0 if it is
    uint8; an 8-bit y has the type of x.  scaling: (multiplier, shift) from a difference to fixed point, and the
    smallest difference that counts.  logarithm: log-softmax.
    """
    ARRAYS = (0, 1)
    cdef pl_softmax8 tables
    cdef int function

    def __init__(self, x, y, int bits, uint8_t flip, scaling, bint logarithm=False):
        cdef int32_t multiplier, least
        cdef int shift
        multiplier, shift, least = scaling
        self.read(x, y, 1, <pl_range_fn>range_8)
        cdef pl_softmax8 *t = &self.tables
        cdef int32_t e, difference
        cdef int d
        for d in range(256):
            difference, e = ZERO, 0
            if -d >= least:
                difference = pl_mbqm32(-d, multiplier, shift)
                e = pl_exp_q(difference, 5, 32)
            t.scaled[d] = pl_rdbpot(e, 12)
            t.value[d] = max(difference, ZERO) if logarithm else e
        t.flip = flip
        self.function = LOG_SOFTMAX_8 if logarithm else SOFTMAX_8 if bits == 8 else SOFTMAX_8_TO_16

    cdef Kernel moved(self, const Strided **arrays, list sizes):
        cdef Softmax8 copy = <Softmax8>self.copy_for(arrays)
        if copy is not None:
            copy.tables, copy.function = self.tables, self.function
        return copy


cdef void range_8(Softmax8 self, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef ptrdiff_t n = self.rows.n
    cdef const uint8_t *x = <const uint8_t *>self.rows.x + begin * n
    cdef uint8_t *y = <uint8_t *>self.rows.y + begin * self.rows.y_row
    if self.function == SOFTMAX_8:
        slots.softmax_8(end - begin, n, &self.tables, x, y)
    elif self.function == SOFTMAX_8_TO_16:
        slots.softmax_8_to_16(end - begin, n, &self.tables, x, y)
    else:
        slots.log_softmax_8(end - begin, n, &self.tables, x, y)


cdef class Softmax16(RowKernel):
    """int16 softmax.  x, y: (rows, n); exp, reciprocal: tables (513,); multiplier, exponent: from x to exp's index."""
    cdef const int16_t[::1] exp, reciprocal
    cdef pl_softmax16 tables

    def __init__(self, x, y, const int16_t[::1] exp, const int16_t[::1] reciprocal, int32_t multiplier, int exponent):
        self.read(x, y, 2, <pl_range_fn>range_16)
        self.exp, self.reciprocal = exp, reciprocal
        self.tables.exp, self.tables.reciprocal = &self.exp[0], &self.reciprocal[0]
        self.tables.multiplier, self.tables.exponent = multiplier, exponent


cdef void range_16(Softmax16 self, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef ptrdiff_t row, n = self.rows.n
    for row in range(begin, end):
        slots.softmax_s16(n, &self.tables, <const int16_t *>self.rows.x + row * n, <int16_t *>self.rows.y + row * n)


cdef class L2Normalize8(RowKernel):
    """8-bit L2 normalization.  x, y: (rows, n) bytes.

    flip: 0x80 for int8, else 0; zero_point: of x ^ flip.
    """
    cdef int32_t zero_point
    cdef uint8_t flip

    def __init__(self, x, y, int32_t zero_point, uint8_t flip):
        self.read(x, y, 1, <pl_range_fn>range_l2)
        self.zero_point, self.flip = zero_point, flip


cdef void range_l2(L2Normalize8 self, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef ptrdiff_t row, n = self.rows.n
    for row in range(begin, end):
        slots.l2_normalize_8(n, self.zero_point, self.flip, <const uint8_t *>self.rows.x + row * n,
                             <uint8_t *>self.rows.y + row * n)


cdef class DefinedRows16(RowKernel):
    """int16 function of each row, computed on real numbers in float64 and rounded once (docs/numerics.md, section 7).

    x, y: (rows, n); y may be the memory of x.  function: "log_softmax" or "l2_normalize".  x_quantization,
    y_quantization: (scale, zero point).
    """
    cdef bint is_norm
    cdef double x_scale, y_scale
    cdef int32_t x_zero, y_zero

    def __init__(self, x, y, str function, x_quantization, y_quantization):
        self.read(x, y, 2, <pl_range_fn>range_defined_16)
        self.is_norm = FUNCTIONS[function] == L2_NORMALIZE
        self.x_scale, self.x_zero = x_quantization
        self.y_scale, self.y_zero = y_quantization


cdef int16_t rounded_16(double value, int32_t zero) noexcept nogil:
    """value rounded to the nearest integer, halves away from zero, plus the zero point, saturated."""
    value = (math.floor(value + 0.5) if value >= 0 else -math.floor(0.5 - value)) + zero
    return <int16_t>min(max(value, -32768.0), 32767.0)


cdef void range_defined_16(DefinedRows16 self, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef ptrdiff_t row, i, n = self.rows.n
    cdef const int16_t *x
    cdef int16_t *y
    cdef int32_t maximum, q
    cdef double total, value
    for row in range(begin, end):
        x, y = <const int16_t *>self.rows.x + row * n, <int16_t *>self.rows.y + row * n
        total, maximum = 0, -32768
        for i in range(n):
            maximum = max(maximum, x[i])
        if self.is_norm:
            for i in range(n):
                q = x[i] - self.x_zero
                total += <double>q * q                  # exact below 2^53
            total = max(math.sqrt(total), 1e-6 / self.x_scale) * self.y_scale
        else:
            for i in range(n):
                total += math.exp((x[i] - maximum) * self.x_scale)
            total = math.log(total)
        for i in range(n):
            if self.is_norm:
                value = (x[i] - self.x_zero) / total
            else:
                value = ((x[i] - maximum) * self.x_scale - total) / self.y_scale
            y[i] = rounded_16(value, self.y_zero)
