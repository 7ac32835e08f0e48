# Products of 8-bit rows: int32 sums, finished to bytes, int16, int32 or float32.
from libc.stdint cimport int32_t, uint8_t

from pylite._core.product.division cimport Piece
from pylite._core.product.product cimport Product
from pylite._core.simd cimport pl_columns, pl_hybrid, pl_pool

cdef enum:
    MAX_ROW = 2048          # largest depth of a single row that is multiplied on the caller's thread


cdef struct RowBlock:           # up to MAX_MR rows
    int count
    const uint8_t *x            # in memory, `step` bytes apart; NULL: rows of the product's window
    ptrdiff_t step
    ptrdiff_t position, group   # of the window: the output pixel of the first row, and the group of channels


cdef struct ColumnBlock:        # up to MAX_NR columns
    ptrdiff_t first             # of these columns, within a group
    int count
    const uint8_t *panels       # of the whole matrix
    const pl_columns *requantize    # how sums are finished: by the finish of the product; add_sums() reads neither
    const pl_hybrid *hybrid


cdef void set_sizes(Product *p, ptrdiff_t columns, ptrdiff_t groups, ptrdiff_t depth)
cdef void plan_rows(Product *p)
cdef void gather_rows(Product *p)
cdef void use_single_row(Product *p)
cdef int run_product(Product *p, pl_pool *pool) noexcept nogil
cdef void add_sums(const Product *p, const RowBlock *rows, const ColumnBlock *columns, int32_t *acc,
                   int32_t *sums) noexcept nogil
cdef void load_row_scales(const Product *p, const Piece *piece, int offset, int32_t *terms,
                          float *scales) noexcept nogil
