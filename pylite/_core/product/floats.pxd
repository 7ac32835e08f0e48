# Products of float32 rows, with bias, clamped; computed in float32, or in float16.
from libc.stdint cimport uint8_t

from pylite._core.product.product cimport Product
from pylite._core.simd cimport pl_pool, pl_tile


cdef void set_sizes(Product *p, ptrdiff_t columns, ptrdiff_t groups, ptrdiff_t depth)
cdef void plan_rows(Product *p)
cdef void plan_rows_in_place(Product *p)
cdef int run_product(Product *p, pl_pool *pool) noexcept nogil
cdef void pack_panels(const pl_tile *t, const uint8_t *w, ptrdiff_t columns, ptrdiff_t depth,
                      uint8_t *panels) noexcept nogil
