# What the kernels cimport: the micro-kernels of the ISA level in use, the worker pool, deferred packing.
# simd/declarations.py makes the file below from the C headers, when pylite is built.
include "simd_declarations.pxi"


cdef extern from "simd.h" nogil:
    ctypedef struct pl_window:
        ptrdiff_t channels, width, rows, row_stride, cols, stride, x_pixel, y_pixel
        int32_t low, high
        float low_f, high_f
    enum: PL_F32, PL_S32, PL_S64
    ctypedef struct pl_reduction:
        ptrdiff_t n[3]
        ptrdiff_t stride[3]
        ptrdiff_t run, step
        float divisor, sign
        int whole
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
    ctypedef struct pl_tile:
        int mr, nr, nv, kr, ka, bytes, offset
        const uint8_t *order
        int wrap, nibbles
    ctypedef struct pl_columns:
        const int32_t *bias
        const int32_t *mult
        const int32_t *odd
        const int32_t *left
        const int32_t *right
        const int32_t *half
        const int32_t *sign
        const float *scale
        const float *rest
        const float *start
        int fit
        int32_t zero_point, low, high, flip
    ctypedef struct pl_hybrid:
        const int32_t *sums
        const float *scale
        const float *bias
        int column_first
        float low, high
    ctypedef struct pl_blocks:
        const uint8_t *panels
        const int32_t *sums
        const float *scale
        const float *bias
        ptrdiff_t depth, blocks, deep, columns, wide
        int nibbles
        float low, high
    ctypedef struct pl_dw_window:
        const uint8_t *const *row
        const uint8_t *zero
        int fh, fw, stride, dilation, pad
        ptrdiff_t width, pixels, c
        int lines
        ptrdiff_t y_line, next
    ctypedef struct pl_a_layout:
        int lines
        ptrdiff_t depth, step, pitch
    pl_a_layout pl_packed_layout(ptrdiff_t depth)
    ctypedef struct pl_winograd:
        const uint8_t *x
        const uint8_t *zero
        uint8_t *y
        const int16_t *panels
        ptrdiff_t x_image, x_line, x_pixel, y_image, y_line, y_pixel
        ptrdiff_t h, w, oh, ow, c
        int pad_h, pad_w, flip
    enum: PL_WINOGRAD_DEEPEST
    enum: PL_WINOGRAD_WIDE
    int pl_winograd_tiles(ptrdiff_t c)
    enum: PL_MAX_TAPS
    enum: PL_SLACK
    enum: PL_SCALED
    enum: PL_DEPTH
    enum: PL_BLOCK_ROWS
    int pl_tap_order(const pl_tile *t, int fh, int fw, int16_t *order)
    ptrdiff_t pl_block_start(ptrdiff_t b, ptrdiff_t nr, ptrdiff_t c)
    ptrdiff_t pl_wraps(const pl_tile *t, ptrdiff_t c, ptrdiff_t fh, ptrdiff_t fw, ptrdiff_t stride, ptrdiff_t dilation)
    ctypedef struct pl_slots:
        void (*clamp_f32)(size_t n, const void *x, void *y, const void *p) noexcept nogil
        void (*float_to_half)(size_t n, const void *x, void *y, const void *p) noexcept nogil
        void (*logistic_f32)(size_t n, const void *x, void *y, const void *p) noexcept nogil
        void (*tanh_f32)(size_t n, const void *x, void *y, const void *p) noexcept nogil
        void (*dequantize_i8)(size_t n, const void *x, void *y, const void *p) noexcept nogil
        void (*add_f32)(size_t n, const void *a, int a_step, const void *b, int b_step, void *y,
                        const void *p) noexcept nogil
        void (*mul_f32)(size_t n, const void *a, int a_step, const void *b, int b_step, void *y,
                        const void *p) noexcept nogil
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
        void (*join_line)(int type, int operation, size_t n, ptrdiff_t stride, const void *x, void *acc) noexcept nogil
        void (*reduce)(int kind, const pl_reduction *g, const void *x, size_t c, void *y) noexcept nogil
        void (*softmax_f32)(size_t rows, size_t n, float beta, const float *x, float *y) noexcept nogil
        void (*softmax_8)(size_t rows, size_t n, const pl_softmax8 *s, const uint8_t *x, void *y) noexcept nogil
        void (*softmax_8_to_16)(size_t rows, size_t n, const pl_softmax8 *s, const uint8_t *x, void *y) noexcept nogil
        void (*softmax_s16)(size_t n, const pl_softmax16 *s, const int16_t *x, int16_t *y) noexcept nogil
        void (*log_softmax_f32)(size_t n, const float *x, float *y) noexcept nogil
        void (*log_softmax_8)(size_t n, const pl_softmax8 *s, const uint8_t *x, void *y) noexcept nogil
        void (*l2_normalize_f32)(size_t n, const float *x, float *y) noexcept nogil
        void (*l2_normalize_8)(size_t n, int32_t zero, uint8_t flip, const uint8_t *x, uint8_t *y) noexcept nogil
        void (*bilinear)(int type, size_t n, size_t c, int gather, const void *top, const void *bottom,
                         const int32_t *low, const int32_t *high, const void *fraction, const void *dy,
                         void *y, size_t step) noexcept nogil
        void (*gather_pixels)(size_t n, size_t bytes, const int32_t *at, const uint8_t *x, uint8_t *y,
                              size_t step) noexcept nogil
        void (*pack_b_q8)(const pl_tile *t, ptrdiff_t columns, ptrdiff_t depth, const uint8_t *w, int flip,
                          uint8_t *panels, int32_t *sums) noexcept nogil
        void (*pack_a_q8)(int rows, int segments, ptrdiff_t length, const uint8_t *const *src, int flip, void *a_panel,
                          ptrdiff_t depth) noexcept nogil
        void (*pack_lines_q8)(ptrdiff_t lines, ptrdiff_t before, ptrdiff_t inside, ptrdiff_t after, const uint8_t *x,
                              ptrdiff_t x_line, int mask, int border, uint8_t *to, ptrdiff_t pitch) noexcept nogil
        void (*sums_q8)(int rows, const pl_a_layout *layout, ptrdiff_t length, const void *a_panel,
                        int32_t *sums) noexcept nogil
        void (*gemm_q8)(int rows, int n, const pl_a_layout *layout, const void *a_panel, const void *panel,
                        const int32_t *row, const pl_columns *columns, ptrdiff_t j, uint8_t *y,
                        ptrdiff_t ldy) noexcept nogil
        void (*gemm_s32)(int rows, int n, const pl_a_layout *layout, const void *a_panel, const void *panel,
                         int32_t *acc, ptrdiff_t lda) noexcept nogil
        void (*fit_q8)(ptrdiff_t n, const int32_t *bias, const int32_t *mult, const int32_t *left, const int32_t *right,
                       const double *real, double reach, int low, int high, const uint8_t *panels, ptrdiff_t bytes,
                       float *scale, float *rest, float *start, int *unfit) noexcept nogil
        void (*requantize_q8)(int n, const int32_t *acc, const pl_columns *columns, ptrdiff_t j,
                              uint8_t *y) noexcept nogil
        void (*gemm_f32)(int rows, int n, const pl_a_layout *layout, const float *a, const float *panel, int first,
                         int last, const float *bias, float low, float high, float *y, ptrdiff_t ldy) noexcept nogil
        void (*winograd_in)(ptrdiff_t tiles, ptrdiff_t c, const float *const *line, const ptrdiff_t *step, float *v,
                            ptrdiff_t next) noexcept nogil
        void (*winograd_out)(ptrdiff_t tiles, ptrdiff_t n, const float *m, ptrdiff_t width, ptrdiff_t next,
                             const float *bias, float low, float high, float *y, ptrdiff_t down,
                             ptrdiff_t step) noexcept nogil
        void (*gemm_s64)(int rows, int n, ptrdiff_t depth, const int16_t *a, const int16_t *w, ptrdiff_t ldw,
                         ptrdiff_t chunk, int64_t *acc, ptrdiff_t lda) noexcept nogil
        void (*finish_mbqm64)(int n, const int64_t *acc, const int64_t *bias, const int32_t *mult,
                              const int32_t *shift, int low, int high, int16_t *y) noexcept nogil
        void (*finish_mbqm32)(int n, const int64_t *acc, const int64_t *bias, const int32_t *mult,
                              const int32_t *shift, int low, int high, int16_t *y) noexcept nogil
        void (*finish_f64)(int n, const int64_t *acc, const int64_t *bias, int wrap, const double *scale,
                           int zero_point, int low, int high, int16_t *y) noexcept nogil
        void (*finish_f64_q8)(int n, const int32_t *acc, const int32_t *start, int32_t term, const double *scale,
                              int zero_point, int low, int high, int flip, uint8_t *y) noexcept nogil
        void (*dots_f32)(ptrdiff_t n, ptrdiff_t depth, const float *a, const float *w, ptrdiff_t pitch,
                         float *y) noexcept nogil
        void (*range_f32)(ptrdiff_t n, const float *x, float *low, float *high) noexcept nogil
        void (*quantize_s8)(ptrdiff_t n, const float *x, float inverse, int zero, int asymmetric, int flip,
                            uint8_t *y) noexcept nogil
        void (*quantize_rows)(ptrdiff_t rows, ptrdiff_t n, const float *x, ptrdiff_t step, int asymmetric, int flip,
                              uint8_t *y, float *scales, int32_t *zeros) noexcept nogil
        void (*gemm_hybrid)(const pl_slots *own, int rows, int n, const pl_a_layout *layout, const void *a_panel,
                            const void *panel, const int32_t *terms, const float *row_scales, const pl_hybrid *h,
                            ptrdiff_t j, float *y, ptrdiff_t ldy) noexcept nogil
        void (*finish_hybrid)(int n, const int32_t *acc, int32_t term, const int32_t *sums, const float *scale,
                              float row, int column_first, const float *bias, float low, float high,
                              float *y) noexcept nogil
        void (*gemm_blocks)(const pl_slots *own, int rows, int n, const pl_blocks *b, ptrdiff_t j, const uint8_t *x,
                            const int32_t *terms, const float *row_scales, float *y) noexcept nogil
        void (*scaled_sums)(int n, int depth, const uint8_t *x, int zero, const float *w, ptrdiff_t wide,
                            const float *scale, float row, int first, int last, const float *bias, float low,
                            float high, float *y) noexcept nogil
        void (*gate_s16)(int n, const int32_t *acc, const int32_t *bias, int32_t m, int e, int16_t *g) noexcept nogil
        void (*peephole_s16)(int n, const int16_t *a, const int16_t *b, int32_t m, int e, int16_t *g) noexcept nogil
        void (*norm_s16)(int n, const int16_t *scale, const int32_t *bias, int32_t m, int e, int32_t guard,
                         int16_t *g) noexcept nogil
        void (*logistic_q3)(int n, const int16_t *x, int16_t *y) noexcept nogil
        void (*tanh_qm)(int n, int m, const int16_t *x, int16_t *y) noexcept nogil
        void (*cell_s16)(int n, const int16_t *i, const int16_t *f, const int16_t *g, int shift,
                         int16_t *c) noexcept nogil
        void (*hidden_s8)(int n, const int16_t *o, const int16_t *t, int32_t m, int e, int32_t zero,
                          int8_t *y) noexcept nogil
        void (*filter_s16)(int n, int steps, const int16_t *x, const int16_t *time, int16_t *memory,
                           int32_t *sum) noexcept nogil
        void (*depthwise_q8)(const pl_dw_window *g, int flip, int w_zero, const void *w, const pl_columns *columns,
                             uint8_t *y) noexcept nogil
        void (*depthwise_f32)(const pl_dw_window *g, const float *w, const float *bias, float low, float high,
                              float *y) noexcept nogil
        void (*depthwise_s64)(const pl_dw_window *g, ptrdiff_t at, ptrdiff_t c, int n, const int16_t *w,
                              int64_t *acc) noexcept nogil
        pl_tile q8, f32, dw8
        void (*winograd_q8)(const pl_winograd *g, ptrdiff_t first, int tiles, ptrdiff_t begin, ptrdiff_t end,
                            const pl_columns *columns) noexcept nogil
        void (*winograd_pack)(ptrdiff_t columns, ptrdiff_t c, const uint8_t *w, int flip, int w_zero, int16_t *panels,
                              int32_t *sums) noexcept nogil
    ctypedef void (*pl_unary_fn)(size_t n, const void *x, void *y, const void *p) noexcept nogil
    ctypedef void (*pl_binary_fn)(
        size_t n, const void *a, int a_step, const void *b, int b_step, void *y, const void *p) noexcept nogil
    ctypedef struct pl_pool:
        pass
    ctypedef void (*pl_range_fn)(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil
    ctypedef struct pl_packing_task:
        pl_packing_task *next
        void (*run)(pl_packing_task *task) noexcept nogil
        ptrdiff_t bytes
        void *held
        const pl_slots *slots


cdef const pl_slots *slots
cdef pl_unary_fn unary_kernel(str name) except NULL
cdef pl_binary_fn binary_kernel(str name) except NULL
cpdef kernel_parameters(str name, p)
cdef int pool_threads(const pl_pool *pool) noexcept nogil
cdef void parallel_for(pl_pool *pool, ptrdiff_t n, ptrdiff_t grain, pl_range_fn fn, void *ctx) noexcept nogil
cdef void *memory_of(array, Py_ssize_t nbytes) except? NULL
cdef void defer_packing(pl_packing_task *task, ptrdiff_t nbytes, held)


cdef class Pool:
    cdef pl_pool *ptr
