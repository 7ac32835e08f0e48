# Shared by integer recurrent kernels: products of 8-bit rows with packed weights.
from libc.stdint cimport int8_t, int32_t, uint8_t

from pylite._core.kernels.sequences cimport kept
from pylite._core.product.bytes cimport ColumnBlock, RowBlock, add_sums, set_sizes
from pylite._core.product.division cimport MAX_NR
from pylite._core.product.product cimport Product
from pylite._core.simd cimport pl_slots, slots


cdef struct IntegerMatrix:  # weights (columns, depth)
    const uint8_t *panels   # NULL: no weights
    const int32_t *bias     # of each column, zero point of the rows included
    Product product         # the sizes
    int32_t m               # multiplier (m, e) of the sums
    int e


cdef inline int set_integer_matrix(IntegerMatrix *w, list owners, packed, bias, ptrdiff_t depth, int zero,
                                   multiplier) except -1:
    """Fill w, and append the owners of its memory to `owners`.

    packed: from packing.pack_weights, or None; bias: int32 (columns,) or None; zero: of the rows that w multiplies;
    multiplier: (m, e) of the sums.
    """
    w.panels = NULL
    if packed is None or len(packed[1]) == 0:
        return 0
    panels, sums = packed
    total = -(zero + slots.q8.offset) * sums.astype("int64")
    start = (total if bias is None else total + bias).astype("int32")
    w.bias = <const int32_t *>kept(owners, start)
    w.panels = <const uint8_t *>(kept(owners, panels) if panels.size else w.bias)
    set_sizes(&w.product, len(sums), 1, depth)
    w.m, w.e = multiplier
    return 0


cdef inline ptrdiff_t max_columns(const pl_slots *table) noexcept nogil:
    """Most columns of one multiply(): whole panels."""
    return MAX_NR // table.q8.nr * table.q8.nr


cdef inline void multiply(const IntegerMatrix *w, const int8_t *x, ptrdiff_t step, int rows, ptrdiff_t j, int n,
                          int32_t *acc, int32_t *sums) noexcept nogil:
    """acc (rows, MAX_NR) = rows of x, `step` bytes apart, times columns j to j + n - 1; sums: see add_sums()."""
    cdef RowBlock block = RowBlock(rows, <const uint8_t *>x, step, 0, 0)
    cdef ColumnBlock columns = ColumnBlock(j, n, w.panels, NULL, NULL)
    add_sums(&w.product, &block, &columns, acc, sums)
