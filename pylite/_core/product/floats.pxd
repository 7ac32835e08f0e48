# Products of float32 rows, with bias, clamped; computed in float32, or in float16.
from libc.stdint cimport uint8_t
from libc.string cimport memmove

from pylite._core.product.product cimport Product
from pylite._core.product.window cimport A_PANEL_BYTES
from pylite._core.simd cimport pl_pool, pl_tile

cdef enum:
    HALF_DEPTH = A_PANEL_BYTES // 2     # elements of a float16 A panel; a multiple of 4 * PL_HALF_SUM


cdef void set_sizes(Product *p, ptrdiff_t columns, ptrdiff_t groups, ptrdiff_t depth)
cdef void plan_rows(Product *p)
cdef void plan_rows_in_place(Product *p)
cdef int run_product(Product *p, pl_pool *pool) noexcept nogil
cdef void pack_panels(const pl_tile *t, const uint8_t *w, ptrdiff_t columns, ptrdiff_t depth,
                      uint8_t *panels) noexcept nogil
cdef rounded(numbers)


cdef inline ptrdiff_t elements(ptrdiff_t nbytes, int item) noexcept nogil:
    """nbytes // item, without a division."""
    return nbytes // 2 if item == 2 else nbytes // 4


cdef inline void copy_elements(const Product *p, char *to, const uint8_t *x, ptrdiff_t n) noexcept nogil:
    """Copy n elements of an image into an A panel, in its type."""
    if p.x_item == p.tile.bytes:
        memmove(to, x, n * p.x_item)
    else:
        p.slots.float_to_half(n, x, to, x)
