# Products of 8-bit rows: int32 sums, finished to bytes, int16, int32 or float32.
from libc.stdint cimport int32_t, uint8_t

from pylite._core.product.division cimport Piece
from pylite._core.product.product cimport Product
from pylite._core.simd cimport pl_pool

cdef enum:
    MAX_ROW = 2048          # largest depth of a single row that is multiplied on the caller's thread


cdef void set_sizes(Product *p, ptrdiff_t columns, ptrdiff_t groups, ptrdiff_t depth)
cdef void plan_rows(Product *p)
cdef void gather_rows(Product *p)
cdef void use_single_row(Product *p)
cdef int run_product(Product *p, pl_pool *pool) noexcept nogil
cdef void add_sums(const Product *p, const uint8_t *x, ptrdiff_t step, ptrdiff_t group, ptrdiff_t position, int rows,
                   const uint8_t *panels, ptrdiff_t j, int n, int32_t *acc, int32_t *sums) noexcept nogil
cdef void load_row_scales(const Product *p, const Piece *piece, int offset, int32_t *terms,
                          float *scales) noexcept nogil
