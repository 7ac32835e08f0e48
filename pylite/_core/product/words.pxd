# Products of int16 rows: exact 64-bit sums, then one rounding rule to int16.
from libc.stdint cimport int16_t, int64_t

from pylite._core.product.product cimport Product, WordFinish
from pylite._core.simd cimport pl_pool, pl_slots


cdef object set_finish(WordFinish *f, finish)
cdef ptrdiff_t padded(ptrdiff_t depth) noexcept nogil
cdef void set_sizes(Product *p, ptrdiff_t columns, ptrdiff_t groups, ptrdiff_t depth)
cdef int run_product(Product *p, pl_pool *pool) noexcept nogil
cdef void finish_row(const pl_slots *table, const WordFinish *f, int n, const int64_t *acc, ptrdiff_t j,
                     int16_t *y) noexcept nogil
