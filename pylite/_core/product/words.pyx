"""Products of int16 rows: the loop over pieces, and the rounding rules."""
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from libc.string cimport memset

from pylite._core.product.division cimport Piece, divide, get_piece, round_up
from pylite._core.product.product cimport MBQM32, MBQM64, WORD_FLOAT64, WORD_FLOAT64_OF_32, Product, WordFinish
from pylite._core.product.window cimport copy_row
from pylite._core.simd cimport parallel_for, pl_pool, pl_slots, slots

cdef enum:
    ROWS = 8                # rows of an A panel
    COLUMNS = 32            # columns that are computed at once
    SECTION_DEPTH = 1024    # largest section of the depth that is gathered at once
    VECTOR = 16             # elements of the longest vector; it divides SECTION_DEPTH and SUMMED
    SUMMED = 256            # most products of 16 by 8 bits in a 32-bit sum


cdef object set_finish(WordFinish *f, finish):
    """Fill f from `finish`, (rule, bias, factors, low, high); returns the owners of the memory that f points to.

    rule: "MBQM64", "MBQM32", "FLOAT64" or "FLOAT64_OF_32"; bias: int64 (k,) or None; factors: (multipliers, shifts),
    int32 (k,), for the MBQM rules, or scales, float64 (k,); low, high: the limits of results.
    """
    rule, owner, factors, f.low, f.high = finish
    cdef const int64_t[::1] bias = owner
    cdef const int32_t[::1] multipliers, shifts
    cdef const double[::1] scales
    f.rule = {"MBQM64": MBQM64, "MBQM32": MBQM32, "FLOAT64": WORD_FLOAT64, "FLOAT64_OF_32": WORD_FLOAT64_OF_32}[rule]
    f.bias = &bias[0] if bias is not None and bias.shape[0] else NULL
    if f.rule >= WORD_FLOAT64:
        scales = factors
        f.scales = &scales[0]
    else:
        multipliers, shifts = factors
        f.multipliers, f.shifts = &multipliers[0], &shifts[0]
    return bias, factors


cdef ptrdiff_t padded(ptrdiff_t depth) noexcept nogil:
    """The elements of a packed column: whole vectors, because each leftover element would take as long as a vector."""
    return round_up(depth, VECTOR)


cdef void set_sizes(Product *p, ptrdiff_t columns, ptrdiff_t groups, ptrdiff_t depth):
    """Set the sizes of p.  columns: of all groups."""
    p.slots, p.groups, p.columns, p.depth = slots, groups, columns // groups, depth
    p.padded_depth, p.piece_rows, p.tile.nr = padded(depth), ROWS, COLUMNS


cdef int run_product(Product *p, pl_pool *pool) noexcept nogil:
    """Compute the planned product."""
    cdef ptrdiff_t pieces = divide(&p.division, &p.output, p.piece_rows, p.tile.nr, p.columns, p.groups, pool)
    parallel_for(pool, pieces, 1, run_pieces, p)
    return 0


cdef void run_pieces(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Compute pieces begin to end - 1 of the Product `ctx`, a section of the depth at a time.

    If a section holds the whole depth, the rows gathered for the first columns are used for all columns of the piece.
    Beyond the depth a row holds arbitrary numbers; the packed columns hold zeros there.
    """
    cdef const Product *p = <const Product *>ctx
    cdef int16_t a_panel[ROWS * SECTION_DEPTH]
    cdef int64_t acc[ROWS * COLUMNS]
    cdef const int16_t *w = <const int16_t *>p.panels
    cdef Piece piece
    cdef ptrdiff_t summed = 1 if p.wide else SUMMED
    cdef ptrdiff_t i, j, k, section, width, column
    cdef int n, r
    for i in range(begin, end):
        get_piece(&p.division, &p.output, p.pairs, p.columns, i, &piece)
        j = piece.begin
        while j < piece.end:
            n = <int>min(<ptrdiff_t>COLUMNS, piece.end - j)
            memset(acc, 0, sizeof(acc))
            k = 0
            while k < p.depth:
                section = min(<ptrdiff_t>SECTION_DEPTH, p.depth - k)
                width = padded(section)
                if j == piece.begin or section < p.depth:
                    for r in range(piece.rows):
                        copy_row(&p.window, piece.position + r, piece.group * p.window.length, k * 2, (k + section) * 2,
                                 <uint8_t *>(a_panel + r * width))
                p.slots.gemm_s64(piece.rows, n, width, a_panel,
                                 w + (piece.matrix * p.columns + j) * p.padded_depth + k, p.padded_depth, summed, acc,
                                 COLUMNS)
                k += section
            column = piece.group * p.columns + j
            for r in range(piece.rows):
                finish_row(p.slots, &p.int16, n, acc + r * COLUMNS, column,
                           <int16_t *>(piece.y + r * p.output.sw) + column)
            j += COLUMNS


cdef void finish_row(const pl_slots *table, const WordFinish *f, int n, const int64_t *acc, ptrdiff_t j,
                     int16_t *y) noexcept nogil:
    """Round the sums of columns j to j + n - 1 of one row to int16."""
    cdef const int64_t *bias = f.bias + j if f.bias != NULL else NULL
    if f.rule >= WORD_FLOAT64:
        table.finish_f64(n, acc, bias, f.rule == WORD_FLOAT64_OF_32, f.scales + j, 0, f.low, f.high, y)
    elif f.rule == MBQM32:
        table.finish_mbqm32(n, acc, bias, f.multipliers + j, f.shifts + j, f.low, f.high, y)
    else:
        table.finish_mbqm64(n, acc, bias, f.multipliers + j, f.shifts + j, f.low, f.high, y)
