# Products of 8-bit rows: int32 sums, finished to bytes, int16, int32 or float32.
from libc.stdint cimport int32_t, int64_t, uint8_t

from pylite._core.product.lines cimport Lines
from pylite._core.product.tasks cimport Output, Pairs, Task, Tasks
from pylite._core.product.window cimport Window
from pylite._core.simd cimport pl_a_layout, pl_columns, pl_hybrid, pl_pool, pl_slots, pl_tile

cdef enum:
    ROW = 2048              # largest depth of a single row that is multiplied without tasks

cdef enum Rows:             # where the rows come from:
    LINES                   # lines of the image, each packed once or read in place (lines.pxd)
    TAPS                    # taps gathered into A panels, or read in place
    PIECES                  # gathered a piece of the depth at a time, as they are too deep for an A panel

cdef enum Finish:           # how sums become results:
    COLUMNS                 # bytes, by gemm_q8 and the parameters q
    FLOAT64                 # bytes or int16, by the float64 rule, if gemm_q8 does not implement it
    HYBRID                  # float32, by the scales of rows and columns
    SUMS                    # the int32 sums themselves, without the tile's offset


cdef struct ProductQ8:
    Window window           # the rows
    const uint8_t *row      # if the product has a single row, of consecutive bytes; else NULL
    ptrdiff_t whole_rows    # number of rows in memory, for may_read_in_place()
    Rows rows
    bint in_place           # do micro-kernels read rows from the image itself?
    Lines lines
    pl_a_layout shape       # layout of the rows that micro-kernels read
    int flip                # XORed to the bytes of rows
    const uint8_t *panels   # the packed right operand, group after group
    ptrdiff_t columns, groups               # columns: of one group
    ptrdiff_t depth, padded_depth, padded_columns   # padded: for the tile
    const Pairs *pairs      # the matrices of a batch, or NULL
    Output output
    Tasks tasks
    pl_tile tile
    const pl_slots *slots
    Finish finish
    int w_zero              # zero point of the weights in the panels
    pl_columns q            # for COLUMNS; the limits also for FLOAT64
    const int32_t *start    # for FLOAT64: initial value of each column's sum,
    const double *scales    # and the scale of each column
    int item                # bytes of a result
    pl_hybrid hybrid        # for HYBRID: the parameters of columns,
    const float *row_scales     # and of images
    const int32_t *row_zeros
    ptrdiff_t images        # number of images, each with its own scale and zero point
    const int32_t *sums     # for SUMS: the sum of each column's weights


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
