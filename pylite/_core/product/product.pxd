# A matrix product: its rows, its panels, its results, and how sums become results.  The modules bytes, floats and
# words have the loop for rows of 8 bits, of float32 and of int16; they share this description.
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from pylite._core.product.lines cimport Lines
from pylite._core.product.quantized cimport FloatRows
from pylite._core.product.tasks cimport Output, Pairs, Tasks
from pylite._core.product.window cimport Window
from pylite._core.simd cimport pl_a_layout, pl_columns, pl_hybrid, pl_slots, pl_tile

cdef enum Rows:             # where the rows come from:
    LINES                   # lines of the image, each packed once or read in place (lines.pxd)
    TAPS                    # taps gathered into A panels
    PIECES                  # bytes: gathered a piece of the depth at a time, as they are too deep for an A panel
    IN_PLACE                # floats: read from memory, `step` elements apart
    WINOGRAD                # a kernel's own transformation of the image

cdef enum Finish:           # how sums of bytes become results:
    COLUMNS                 # bytes, by gemm_q8 and the parameters q
    FLOAT64                 # bytes or int16, by the float64 rule, if gemm_q8 does not implement it
    HYBRID                  # float32, by the scales of rows and columns
    SUMS                    # the int32 sums themselves, without the tile's offset

cdef enum Rule:             # how sums of int16 become results:
    MBQM64                  # section 2 of docs/numerics.md
    MBQM32
    RULE64                  # by float64 scales,
    RULE64_OF_32            # also with sums wrapped to 32 bits


cdef struct Rounding:       # of sums to int16; arrays have one element per column
    Rule rule
    int low, high
    const int64_t *bias     # or NULL
    const int32_t *multipliers
    const int32_t *shifts
    const double *scales    # for the rules with float64 scales, instead of multipliers and shifts


cdef struct Product:
    # the rows
    Window window
    Rows rows
    Lines lines
    ptrdiff_t step
    int x_item              # bytes of an element in memory
    ptrdiff_t piece         # elements of a row of floats that are multiplied at once, at most
    const uint8_t *row      # if the product has a single row, of consecutive bytes; else NULL
    ptrdiff_t whole_rows    # number of rows in memory, for may_read_in_place()
    bint in_place           # do micro-kernels read rows of bytes from the image itself?
    pl_a_layout shape       # layout of the rows that micro-kernels read
    int flip                # XORed to the bytes of rows
    bint half               # floats: rows are multiplied in float16, the type of the panels
    # the right operand
    const uint8_t *panels   # packed, group after group; words: int16 (columns, depth), not packed
    ptrdiff_t columns, groups               # columns: of one group
    ptrdiff_t depth, padded_depth, padded_columns   # padded: for the tile
    int w_zero              # zero point of the weights in the panels
    const Pairs *pairs      # the matrices of a batch, or NULL
    # how it is computed
    Tasks tasks
    pl_tile tile            # mr: rows of a task
    const pl_slots *slots
    int single_row          # 2 if there is a single row of floats, else 0: part of `first` of gemm_f32 and gemm_f16
    ptrdiff_t chunk         # products of int16 that a 32-bit sum can hold, see gemm_s64
    # the results
    Output output
    int item                # bytes of a result
    Finish finish
    pl_columns q            # for COLUMNS; the limits also for FLOAT64
    const int32_t *start    # for FLOAT64: initial value of each column's sum,
    const double *scales    # and the scale of each column
    pl_hybrid hybrid        # for HYBRID: the parameters of columns,
    FloatRows images        # and the images, each with its own scale and zero point
    const int32_t *sums     # for SUMS: the sum of each column's weights
    Rounding rounding       # for int16
    const float *bias       # for float32, with the limits of results
    float low, high
