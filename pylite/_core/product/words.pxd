# Products of int16 rows: exact 64-bit sums, then one rounding rule to int16.
from libc.stdint cimport int16_t, int32_t, int64_t

from pylite._core.product.tasks cimport Output, Pairs, Tasks
from pylite._core.product.window cimport Window
from pylite._core.simd cimport pl_pool, pl_slots, pl_tile

cdef enum Rule:
    MBQM64                  # section 2 of docs/numerics.md
    MBQM32
    FLOAT64
    FLOAT64_OF_32           # FLOAT64 of the sum wrapped to 32 bits


cdef struct Finish:         # of sums; arrays have one element per column
    Rule rule
    int low, high
    const int64_t *bias     # or NULL
    const int32_t *multipliers
    const int32_t *shifts
    const double *scales    # for the FLOAT64 rules, instead of multipliers and shifts


cdef struct ProductS16:
    Window window           # of the rows
    const int16_t *w        # the right operand, (columns, depth), group after group, not packed
    ptrdiff_t columns, groups, depth        # columns: of one group
    ptrdiff_t chunk         # products that a 32-bit sum can hold, see gemm_s64
    const Pairs *pairs      # the matrices of a batch, or NULL
    Output output
    Tasks tasks
    pl_tile tile
    const pl_slots *slots
    Finish finish


cdef object set_finish(Finish *f, finish)
cdef void set_sizes(ProductS16 *p, const pl_slots *slots, ptrdiff_t columns, ptrdiff_t groups, ptrdiff_t depth,
                    bint wide)
cdef int run_product(ProductS16 *p, pl_pool *pool) noexcept nogil
cdef void finish_row(const pl_slots *table, const Finish *f, int n, const int64_t *acc, ptrdiff_t j,
                     int16_t *y) noexcept nogil
