# Products of float32 rows, with bias, clamped; computed in float32, or in float16.
from libc.stdint cimport uint8_t

from pylite._core.product.lines cimport Lines
from pylite._core.product.tasks cimport Output, Pairs, Tasks
from pylite._core.product.volume cimport Volume
from pylite._core.product.window cimport Window
from pylite._core.simd cimport pl_pool, pl_slots, pl_tile

cdef enum Rows:             # where the rows come from:
    LINES                   # lines of the image, each packed once (lines.pxd)
    TAPS                    # taps gathered, a piece of the depth at a time
    IN_PLACE                # read from memory, `step` floats apart
    VOLUME                  # packed from a volume (volume.pxd)


cdef struct ProductF32:
    Window window           # of the rows, unless they come from a volume
    const Volume *volume
    Rows rows
    Lines lines
    ptrdiff_t step
    bint half               # rows are converted to float16, the type of the panels
    const uint8_t *panels   # the packed right operand, group after group
    const float *bias
    ptrdiff_t columns, groups, depth    # columns: of one group
    ptrdiff_t padded_columns            # padded for the tile
    const Pairs *pairs      # the matrices of a batch, or NULL
    Output output
    Tasks tasks
    pl_tile tile            # mr: rows of a task; bytes: of an element of rows and panels
    const pl_slots *slots
    float low, high
    int single_row          # 2 if the product has a single row, else 0: part of `first` of gemm_f32 and gemm_f16


cdef void set_sizes(ProductF32 *p, const pl_slots *slots, ptrdiff_t columns, ptrdiff_t groups, ptrdiff_t depth,
                    bint half=*)
cdef void plan_rows(ProductF32 *p)
cdef void plan_rows_in_place(ProductF32 *p)
cdef void plan_volume(ProductF32 *p, Volume *volume)
cdef str algorithm_of(const ProductF32 *p)
cdef int run_product(ProductF32 *p, pl_pool *pool) noexcept nogil
cdef void pack_panels(const pl_slots *s, const pl_tile *t, const uint8_t *w, ptrdiff_t columns, ptrdiff_t depth,
                      uint8_t *panels) noexcept nogil
