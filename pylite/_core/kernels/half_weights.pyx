"""Products of float32 rows and weights that stay float16 in memory, which halves their size."""
from libc.stdint cimport uint8_t, uint16_t

from pylite._core.product.division cimport Piece, divide, get_piece, parallel_pool
from pylite._core.product.floats cimport plan_rows_in_place, set_sizes
from pylite._core.product.images cimport ImageProduct, Images
from pylite._core.product.product cimport Product
from pylite._core.run.kernel cimport FLUSH, Strided, kernel_fn
from pylite._core.simd cimport memory_of, parallel_for, pl_a_layout, pl_packed_layout, pl_pool, pl_range_fn

cdef enum:
    ON_STACK = 4096         # weights of a panel that are converted at once and stay in the first-level cache
    MAX_PIECE_ROWS = 256    # most rows of a piece: their part in these products stays in the second-level cache


cdef class HalfWeights(ImageProduct):
    """y = w x + b, clamped to limits, (low, high), for each pixel.

    x, y, filter: as in ImageProduct; x has no gaps between lines, and the filter one tap; panels: from pack_halves;
    bias: (k,) or None.  Raises ValueError if pixels of y are computed from anything but one pixel of x each.
    """
    def __init__(self, x, y, panels, const float[::1] bias, *, filter, limits):
        cdef Product *p = &self.product
        cdef Images images
        if not self.start(&images, x, y, 4, 4):
            return
        self.owners = panels, bias
        p.float32.low, p.float32.high = limits
        p.float32.bias = &bias[0] if bias is not None else NULL
        p.panels = <const uint8_t *>memory_of(panels, panels.nbytes)
        p.groups = 1
        self.plan(images.arrays, filter)

    cdef int plan(self, const Strided **arrays, filter) except -1:
        cdef Product *p = &self.product
        cdef const Strided *y = arrays[1]
        self.fn, self.subnormals = <kernel_fn>half_weights, FLUSH
        self.set_images(arrays[0], y, filter)
        if not p.window.direct:
            raise ValueError("the filter is not one tap, or the lines of x have gaps")
        set_sizes(p, y.shape[3], 1, p.window.length // 4)
        plan_rows_in_place(p)
        p.piece_rows = <int>min(p.output.span, <ptrdiff_t>MAX_PIECE_ROWS)
        self.algorithm = self.source() + ", weights of float16"
        return 0


cdef int half_weights(HalfWeights self, pl_pool *pool) noexcept nogil:
    cdef Product *p = &self.product
    pool = parallel_pool(pool, 2 * p.output.span * p.output.lines * p.depth * p.columns)
    parallel_for(pool, divide(&p.division, &p.output, p.piece_rows, p.tile.nr, p.columns, 1, pool), 1,
                 <pl_range_fn>multiply_pieces, p)
    return 0


cdef void multiply_pieces(const Product *p, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Multiply all rows of a piece by a few weights at a time."""
    cdef float space[ON_STACK + 16]
    cdef float *weights = <float *>(<size_t>(space + 15) & ~<size_t>63)     # aligned to cache lines
    cdef const uint16_t *panels = <const uint16_t *>p.panels
    cdef const float *x
    cdef const float *bias
    cdef ptrdiff_t i, j, k, section, width
    cdef pl_a_layout layout
    cdef Piece piece
    for i in range(begin, end):
        get_piece(&p.division, &p.output, NULL, p.columns, i, &piece)
        x = <const float *>p.window.x + piece.position * p.rows.floats.step
        j = piece.begin
        while j < piece.end:
            width, k = min(<ptrdiff_t>p.tile.nr, p.padded_columns - j), 0
            bias = p.float32.bias + j if p.float32.bias != NULL else NULL
            while k < p.depth:
                section = min(p.depth - k, ON_STACK // width)
                layout = pl_packed_layout(section)
                layout.step = p.rows.floats.step
                p.slots.half_to_float(section * width, panels + j * p.depth + k * width, weights, NULL)
                p.slots.gemm_f32(piece.rows, <int>min(width, piece.end - j), &layout, x + k, weights,
                                 p.rows.floats.single_flag | (k == 0), k + section == p.depth, bias, p.float32.low,
                                 p.float32.high, <float *>piece.y + j, p.output.sw // 4)
                k += section
            j += width
