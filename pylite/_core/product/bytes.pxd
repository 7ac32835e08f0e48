# Products of 8-bit rows: sums in 32 bits, finished to bytes, int16, int32 or float32.
from libc.stdint cimport int32_t, int64_t, uint8_t

from pylite._core.product.lines cimport Lines
from pylite._core.product.tasks cimport Output, Pairs, Task, Tasks
from pylite._core.product.window cimport Window
from pylite._core.simd cimport pl_a_layout, pl_columns, pl_hybrid, pl_pool, pl_slots, pl_tile

cdef enum:
    ROW = 2048              # the deepest single row, which is packed on the stack

cdef enum Rows:             # where the rows come from:
    LINES                   # lines of the image, each packed once, or read in place
    TAPS                    # gathered into A panels, or read in place
    PIECES                  # a part of the depth at a time: they are too deep for an A panel

cdef enum Finish:
    COLUMNS                 # bytes: gemm_q8 by `columns`
    FLOAT64                 # bytes or int16: the float64 rule, where gemm_q8 does not know it
    HYBRID                  # float32, by the scales of rows and columns
    SUMS                    # int32: the sums, without the offset of the tile


cdef struct ProductQ8:
    Window window           # the rows
    const uint8_t *row      # the only row, where there is one of consecutive bytes, else NULL
    ptrdiff_t count         # of the rows that may be read in place
    Rows rows
    bint as_is              # are they read in place?
    Lines lines
    pl_a_layout shape       # of the rows that micro-kernels read
    int flip                # XORed to their bytes
    const uint8_t *panels   # of the right operand, group after group
    ptrdiff_t columns, groups               # columns: of one group
    ptrdiff_t depth, deep, wide             # depth; depth and columns padded for the tile
    const Pairs *pairs      # of a batch, or NULL
    Output output
    Tasks tasks
    pl_tile tile
    const pl_slots *slots
    Finish finish
    int w_zero              # the zero point of the panels
    pl_columns q            # COLUMNS
    const int32_t *start    # FLOAT64: the starts of the sums,
    const double *scales
    int item                # bytes of a result
    pl_hybrid hybrid        # HYBRID
    const float *row_scales
    const int32_t *row_zeros
    ptrdiff_t images        # number of images, each with a scale of its own
    const int32_t *sums     # SUMS: of each column's weights


cdef void set_sizes(ProductQ8 *p, const pl_slots *slots, ptrdiff_t columns, ptrdiff_t groups, ptrdiff_t depth)
cdef void plan_rows(ProductQ8 *p)
cdef void gather_rows(ProductQ8 *p)
cdef str algorithm_of(const ProductQ8 *p)
cdef void use_single_row(ProductQ8 *p)
cdef int run_product(ProductQ8 *p, pl_pool *pool) noexcept nogil
cdef void add_sums(const ProductQ8 *p, const uint8_t *x, ptrdiff_t step, ptrdiff_t group, ptrdiff_t position, int rows,
                   const uint8_t *panel, ptrdiff_t j, int n, int32_t *acc, int32_t *sums) noexcept nogil
cdef void load_row_scales(const ProductQ8 *p, const Task *task, int offset, int32_t *terms,
                          float *scales) noexcept nogil
