# The micro-kernel table, the worker pool and the rung in use, for the kernels to cimport.
from libc.stdint cimport int16_t, int32_t, int8_t, uint8_t, uint32_t


cdef extern from "simd.h" nogil:
    ctypedef struct pl_window:
        ptrdiff_t channels, width, rows, row_stride, cols, stride
        int32_t low, high
        float low_f, high_f
    ctypedef struct pl_reduction:
        ptrdiff_t n[3]
        ptrdiff_t stride[3]
        ptrdiff_t run, step
        float divisor, sign
        int32_t flip
        int32_t x_zero_sum, multiplier, exponent, y_zero, low, high
    ctypedef struct pl_softmax8:
        int32_t value[256]
        int32_t scaled[256]
        int32_t multiplier, exponent, least
        uint8_t flip
    ctypedef struct pl_softmax16:
        const int16_t *exp
        const int16_t *reciprocal
        int32_t multiplier, exponent
    ctypedef struct pl_slots:
        void (*lut8)(size_t n, const void *x, void *y, const void *table) noexcept nogil
        void (*copy_runs)(size_t rows, size_t bytes, const uint8_t *x, ptrdiff_t xrow,
                          uint8_t *y, ptrdiff_t yrow) noexcept nogil
        void (*copy_strided)(size_t item, size_t rows, size_t cols, const uint8_t *x, ptrdiff_t xrow, ptrdiff_t xcol,
                             uint8_t *y, ptrdiff_t yrow, ptrdiff_t ycol) noexcept nogil
        void (*copy_transposed)(size_t item, size_t rows, size_t cols, const uint8_t *x, ptrdiff_t xcol,
                                uint8_t *y, ptrdiff_t yrow) noexcept nogil
        void (*arg_max_f32)(size_t n, size_t cols, ptrdiff_t stride, ptrdiff_t next, const void *x, uint32_t flip,
                            int32_t *at) noexcept nogil
        void (*arg_max_s32)(size_t n, size_t cols, ptrdiff_t stride, ptrdiff_t next, const void *x, uint32_t flip,
                            int32_t *at) noexcept nogil
        void (*arg_max_s8)(size_t n, size_t cols, ptrdiff_t stride, ptrdiff_t next, const void *x, uint32_t flip,
                           int32_t *at) noexcept nogil
        void (*pool_row)(int kind, const pl_window *w, const void *x, ptrdiff_t left, ptrdiff_t n,
                         void *y) noexcept nogil
        void (*reduce)(int kind, const pl_reduction *g, const void *x, size_t c, void *y) noexcept nogil
        void (*softmax_f32)(size_t n, float beta, const float *x, float *y) noexcept nogil
        void (*softmax_8)(size_t n, const pl_softmax8 *s, const uint8_t *x, void *y) noexcept nogil
        void (*softmax_8_to_16)(size_t n, const pl_softmax8 *s, const uint8_t *x, void *y) noexcept nogil
        void (*softmax_s16)(size_t n, const pl_softmax16 *s, const int16_t *x, int16_t *y) noexcept nogil
        void (*log_softmax_f32)(size_t n, const float *x, float *y) noexcept nogil
        void (*log_softmax_8)(size_t n, const pl_softmax8 *s, const uint8_t *x, void *y) noexcept nogil
        void (*l2_normalize_f32)(size_t n, const float *x, float *y) noexcept nogil
        void (*l2_normalize_8)(size_t n, int32_t zero, uint8_t flip, const uint8_t *x, uint8_t *y) noexcept nogil
        void (*bilinear)(int type, size_t n, size_t c, int gather, const void *top, const void *bottom,
                         const int32_t *low, const int32_t *high, const void *fraction, const void *dy,
                         void *y) noexcept nogil
        void (*gather_pixels)(size_t n, size_t bytes, const int32_t *at, const uint8_t *x, uint8_t *y) noexcept nogil
    ctypedef void (*pl_unary_fn)(size_t n, const void *x, void *y, const void *p) noexcept nogil
    ctypedef void (*pl_binary_fn)(
        size_t n, const void *a, int a_step, const void *b, int b_step, void *y, const void *p) noexcept nogil
    ctypedef struct pl_pool:
        pass
    ctypedef void (*pl_range_fn)(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil


cdef const pl_slots *slots
cdef pl_unary_fn unary_row(str name) except NULL
cdef pl_binary_fn binary_row(str name) except NULL
cdef void parallel_for(pl_pool *pool, ptrdiff_t n, ptrdiff_t grain, pl_range_fn fn, void *ctx) noexcept nogil


cdef class Pool:
    cdef pl_pool *ptr
