# Products of float32 rows, clamped.
from pylite._core.product.lines cimport Lines
from pylite._core.product.tasks cimport Output, Pairs, Tasks
from pylite._core.product.volume cimport Volume
from pylite._core.product.window cimport Window
from pylite._core.simd cimport pl_pool, pl_slots, pl_tile

cdef enum Rows:             # where the rows come from:
    LINES                   # lines of the image, each packed once
    TAPS                    # gathered, a piece of the depth at a time
    IN_PLACE                # they lie in memory, `step` floats apart
    VOLUME                  # of a volume


cdef struct ProductF32:
    Window window           # the rows, unless a volume has them
    const Volume *volume
    Rows rows
    Lines lines
    ptrdiff_t step
    const float *panels     # of the right operand, group after group
    const float *bias
    ptrdiff_t columns, groups, depth, wide  # columns: of one group; wide: padded for the tile
    const Pairs *pairs      # of a batch, or NULL
    Output output
    Tasks tasks
    pl_tile tile            # mr: rows of a task
    const pl_slots *slots
    float low, high
    int alone               # 2 where there is a single row, see gemm_f32


cdef void set_sizes(ProductF32 *p, const pl_slots *slots, ptrdiff_t columns, ptrdiff_t groups, ptrdiff_t depth)
cdef void plan_rows(ProductF32 *p)
cdef void plan_rows_in_place(ProductF32 *p)
cdef void plan_volume(ProductF32 *p, Volume *volume)
cdef str algorithm_of(const ProductF32 *p)
cdef int run_product(ProductF32 *p, pl_pool *pool) noexcept nogil
cdef void pack_panels(const pl_slots *s, const float *w, ptrdiff_t columns, ptrdiff_t depth,
                      float *panels) noexcept nogil
