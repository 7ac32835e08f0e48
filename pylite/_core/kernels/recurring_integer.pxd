# Shared by integer recurrent layers: products of rows of bytes with packed weights.
from libc.stdint cimport int8_t, int32_t, uint8_t

from pylite._core.product.bytes cimport ProductQ8, add_sums, set_sizes
from pylite._core.product.tasks cimport MAX_NR
from pylite._core.simd cimport pl_slots, slots


cdef struct Matrix:         # weights (columns, depth), and the bias of their sums
    const uint8_t *panels   # NULL: no weights
    const int32_t *bias
    ProductQ8 product       # the sizes
    int32_t m
    int e


cdef inline list set_matrix(Matrix *w, packed, bias, ptrdiff_t columns, ptrdiff_t depth, int zero, multiplier,
                            int flip=0):
    """Point w at weights from packing.pack_weights; zero: of the rows that they multiply, flip: of
    their bytes.  Returns objects to keep."""
    cdef const uint8_t[::1] panels
    cdef const int32_t[::1] start
    w.panels = NULL
    if packed is None or columns == 0:
        return []
    panels = packed[0]
    total = -(zero + slots.q8.offset) * packed[1].astype("int64")
    start = (total if bias is None else total + bias).astype("int32")
    w.panels = &panels[0] if panels.shape[0] else <const uint8_t *>&start[0]
    w.bias = &start[0]
    set_sizes(&w.product, slots, columns, 1, depth)
    w.product.flip = flip
    w.m, w.e = multiplier
    return [panels, start]


cdef inline ptrdiff_t most_columns(const pl_slots *table) noexcept nogil:
    """The most columns of one multiply(), whole panels."""
    return MAX_NR // table.q8.nr * table.q8.nr


cdef inline void multiply(const Matrix *w, const int8_t *x, ptrdiff_t step, int rows, ptrdiff_t j, int n, int32_t *acc,
                          int32_t *sums) noexcept nogil:
    """acc (rows, MAX_NR) = rows of x times columns j .. j + n; sums: of each row with the tile's offset, or NULL."""
    add_sums(&w.product, <const uint8_t *>x, step, 0, 0, rows, w.panels, j, n, acc, sums)
