# The description of a matrix product: its rows, its panels, its results, and how sums become results.
#
# Three modules compute products, each for one type of rows: bytes (8 bits), floats (float32, in float16 if `half`) and
# words (int16).  They share this description; a comment names the module if only one or two of them use a field.
#
# The life of a Product: a kernel zeroes it, sets what does not depend on shapes, and then, for each set of shapes,
#   1. sets window and output,
#   2. calls set_sizes(), which fills the part "sizes",
#   3. calls plan_rows() or a function for a special case, which fills `rows`, and may change piece_rows and output,
#   4. at each run calls run_product(), which fills `division`.
from libc.stdint cimport int32_t, int64_t, uint8_t

from pylite._core.product.division cimport Division, Output, Pairs
from pylite._core.product.lines cimport Lines
from pylite._core.product.quantized cimport QuantizedRows
from pylite._core.product.window cimport Window
from pylite._core.simd cimport pl_a_layout, pl_columns, pl_hybrid, pl_slots, pl_tile

cdef enum Source:           # where rows come from:
    LINES                   # bytes, floats: lines of the image, each packed once or read in place (lines.pxd)
    TAPS                    # bytes, floats: taps gathered into A panels
    SECTIONS                # bytes: gathered a section of the depth at a time, because a row does not fit an A panel
    IN_PLACE                # floats: read from memory, `step` elements apart
    WINOGRAD                # bytes, floats: a kernel's own transformation of the image, without run_product()

cdef enum Finish:           # what sums of bytes become, by the part of Product with the same name:
    REQUANTIZE              # bytes, by gemm_q8
    FLOAT64                 # bytes or int16, by the float64 rule, if gemm_q8 cannot apply it
    HYBRID                  # float32, by the scales of rows and columns
    SUMS                    # int32: the sums themselves, without the tile's offset

cdef enum WordRule:         # how sums of int16 rows become int16: a rule of docs/numerics.md, section 2
    MBQM64
    MBQM32                  # of the sum wrapped to 32 bits
    WORD_FLOAT64            # the float64 rule
    WORD_FLOAT64_OF_32      # the float64 rule of the sum wrapped to 32 bits


cdef struct ByteRows:
    int flip                # all bytes are XORed with it; set by the kernel
    ptrdiff_t total         # rows in memory, for may_read_in_place(); set by the kernel
    bint in_place           # LINES, TAPS: do micro-kernels read the image itself, if may_read_in_place() allows it?
    const uint8_t *single   # the only row of the product, if its bytes are consecutive and it is small; else NULL
    pl_a_layout layout      # of the rows that micro-kernels read, in elements of A panels
    QuantizedRows quantized     # HYBRID: the float32 images whose bytes are the rows, with their scales and zero points


cdef struct FloatRows:
    ptrdiff_t step          # IN_PLACE: elements from row to row
    ptrdiff_t section       # most elements of a row that are multiplied at once
    int single_flag         # part of `first` of gemm_f32 and gemm_f16: 2 if the product has a single row, else 0


cdef struct Rows:           # words: not used, because all rows are copied
    Source source
    Lines lines             # for LINES
    ByteRows bytes          # bytes
    FloatRows floats        # floats


cdef struct Float64Finish:  # of FLOAT64; its limits and zero point are in `requantize`
    const int32_t *start    # initial value of each column's sum
    const double *scales    # of each column; NULL if the product has none, and is never finished by FLOAT64


cdef struct FloatFinish:    # of floats: adds the bias, and clamps
    const float *bias       # of each column, or NULL
    float low, high


cdef struct WordFinish:     # of words: rounds 64-bit sums to int16; arrays have one element per column
    WordRule rule
    int low, high
    const int64_t *bias     # or NULL
    const int32_t *multipliers      # for MBQM64 and MBQM32
    const int32_t *shifts
    const double *scales    # for the float64 rules


cdef struct Product:
    # sizes
    const pl_slots *slots   # the dispatch table when the kernel was made
    pl_tile tile            # of the micro-kernels
    int piece_rows          # most rows of a piece; it may have several tiles
    ptrdiff_t columns, groups       # columns: of one group
    ptrdiff_t depth         # elements of a row: the taps of a window times the channels of a group
    ptrdiff_t padded_depth, padded_columns  # of the packed panels of one group; words: no padded_columns
    int x_item, y_item      # floats: bytes of an element in memory, and of a result; bytes: y_item for FLOAT64
    # left operand
    Window window
    Rows rows
    # right operand
    const uint8_t *panels   # packed, group after group; words: int16 (columns, padded depth)
    const Pairs *pairs      # the matrices of a batch, or NULL
    int w_zero              # bytes: zero point of the weights in the panels
    bint half               # floats: are panels float16, and rows multiplied in it?  Set before set_sizes()
    bint wide               # words: do weights need more than 8 bits?
    # results
    Output output
    Finish finish           # bytes: which of the next four parts is in use
    pl_columns requantize
    Float64Finish float64
    pl_hybrid hybrid
    const int32_t *sums     # the sum of each column's weights
    FloatFinish float32     # floats
    WordFinish int16        # words
    # the pieces in which threads compute it
    Division division
