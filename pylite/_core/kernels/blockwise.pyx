"""Hybrid matrix products with blockwise quantized weights: one scale for each block of the depth."""
import numpy as np

from libc.stdint cimport int32_t, uint8_t

from pylite._core.run.kernel cimport FLUSH, Kernel, Strided, describe, kernel_fn, nothing
from pylite._core.product.division cimport MAX_NR, parallel_pool, round_up
from pylite._core.product.quantized cimport QuantizedRows, quantize, set_rows
from pylite._core.simd cimport (
    PL_BLOCK_ROWS,
    parallel_for,
    pl_blocks,
    pl_pool,
    pl_range_fn,
    pl_slots,
    pl_tile,
    slots,
)

from pylite._core.run.memory import pooled

cdef enum:                  # operands, in the order of ARRAYS
    X
    Y
    Q
    ROW_SCALES
    ZERO_POINTS
    OPERANDS

cdef enum:
    MAX_NIBBLE_DEPTH = 1 << 15      # of a block: sums of bytes times 16 times a 4-bit weight stay below 2^31

FORMS = (2, 4, False), (2, 4, True), (2, 1, True), (1, 4, True), (1, 4, True)   # (ndim, bytes of an element, written?)


cdef void pack_nibbles(const uint8_t *x, ptrdiff_t step, ptrdiff_t pairs, uint8_t *to) noexcept nogil:
    """Pack pairs of steps of 4-bit weights, one byte each, into single steps; the first goes to the lower halves."""
    cdef ptrdiff_t _pair, k
    for _pair in range(pairs):
        for k in range(step):
            to[k] = x[k] & 15 | x[step + k] << 4
        x += 2 * step
        to += step


def pack_blocks(w, const float[::1] scales, Py_ssize_t blocks, bint narrow):
    """Pack weights w (n, k) with scales (n * blocks,) for BlockwiseHybrid: (panels, sums, scale, nibbles) of pl_blocks.

    narrow: do weights have 4 bits?
    """
    cdef pl_tile t = slots.q8
    cdef ptrdiff_t columns = w.shape[0], size = w.shape[1] // blocks, i, j, k, width, first
    cdef bint nibbles = narrow and t.nibbles and size % (2 * t.nibbles) == 0 and size <= MAX_NIBBLE_DEPTH
    if nibbles:
        t.kr = t.ka = t.nibbles
        t.nv = t.nr
    cdef ptrdiff_t padded_columns = round_up(columns, t.nv), padded_depth = round_up(size, t.ka)
    cdef const uint8_t[::1] x = w.reshape(columns, blocks, size).swapaxes(0, 1).reshape(-1).view(np.uint8)
    panels = pooled(padded_columns * blocks * padded_depth >> nibbles)
    sums = np.zeros(padded_columns * blocks, np.int32)
    scale = np.zeros(padded_columns * blocks, np.float32)
    cdef uint8_t[::1] to = panels, panel = np.zeros(MAX_NR * padded_depth if nibbles else 0, np.uint8)
    cdef int32_t[::1] totals = sums
    cdef float[::1] block_scales = scale
    j = 0
    while j < columns:
        width = min(<ptrdiff_t>t.nr, padded_columns - j)
        for i in range(blocks):
            first = j * blocks + i * width
            slots.pack_b_q8(&t, min(width, columns - j), size, &x[(i * columns + j) * size], 0,
                            &panel[0] if nibbles else &to[first * padded_depth], &totals[first])
            for k in range(min(width, columns - j)):
                block_scales[first + k] = scales[(j + k) * blocks + i]
            if nibbles:
                pack_nibbles(&panel[0], width * t.kr, padded_depth // (2 * t.kr), &to[first * padded_depth // 2])
        j += t.nr
    return panels, sums, scale, nibbles


cdef class BlockwiseHybrid(Kernel):
    """float32 rows, each quantized to int8 first, times weights with one scale per block, which may be a whole column.

    x: (m, k) and y: (m, n) float32; scratch: q (m, k) bytes, row_scales (m,) float32 and zero_points (m,) int32;
    packed: from pack_blocks, of `blocks` blocks; bias: (n,) float32 or None; asymmetric: quantize with a zero point.
    """
    ARRAYS = (0, 1, "q", "row_scales", "zero_points")
    cdef object owners      # of the other memory that state points to
    cdef const pl_slots *slots
    cdef QuantizedRows rows     # of x
    cdef pl_blocks blocks
    cdef float *y

    def __init__(self, x, y, tuple packed, const float[::1] bias, *, q, row_scales, zero_points, Py_ssize_t blocks,
                 bint asymmetric, limits):
        cdef pl_blocks *b = &self.blocks
        cdef Strided operands[OPERANDS]
        cdef const Strided *arrays[OPERANDS]
        cdef const uint8_t[::1] panels
        cdef const int32_t[::1] sums
        cdef const float[::1] scales
        self.memory = x, y, q, row_scales, zero_points
        describe(self.memory, FORMS, operands, arrays, contiguous=True)
        panels, sums, scales, b.nibbles = packed
        self.owners = packed, bias
        self.rows.asymmetric = asymmetric
        if operands[X].nbytes == 0 or operands[Y].nbytes == 0:
            return
        b.panels, b.sums, b.scale = &panels[0], &sums[0], &scales[0]
        b.bias = &bias[0] if bias is not None else NULL
        b.depth, b.columns, b.blocks = operands[X].shape[1], operands[Y].shape[1], blocks
        b.low, b.high = limits
        b.padded_depth = round_up(b.depth // b.blocks, slots.q8.ka)
        b.padded_columns = round_up(b.columns, slots.q8.nr if b.nibbles else slots.q8.nv)
        self.arrange(arrays)

    cdef Kernel moved(self, const Strided **arrays, list sizes):
        cdef const pl_blocks *b = &self.blocks
        cdef BlockwiseHybrid copy
        cdef int i
        for i in range(OPERANDS):
            if arrays[i] == NULL:
                return None
        if (self.fn == <kernel_fn>nothing or arrays[X].shape[0] == 0 or arrays[X].shape[1] != b.depth
                or arrays[Y].shape[1] != b.columns):
            return None
        copy = <BlockwiseHybrid>self.base_copy()
        copy.owners, copy.blocks, copy.rows.asymmetric = self.owners, self.blocks, self.rows.asymmetric
        copy.arrange(arrays)
        return copy

    cdef void arrange(self, const Strided **arrays) noexcept:
        """Set the memory of `arrays`, as ARRAYS; the weights are set."""
        cdef QuantizedRows *rows = &self.rows
        self.slots, self.y = slots, <float *>arrays[Y].data
        set_rows(rows, arrays[X], arrays[Q], arrays[ROW_SCALES], arrays[ZERO_POINTS], arrays[X].shape[0],
                 self.blocks.depth, slots.q8.row_offset)
        self.fn, self.subnormals = <kernel_fn>blockwise_hybrid, FLUSH
        self.algorithm = "weights of 4 bits" if self.blocks.nibbles else "weights of 8 bits"


cdef int blockwise_hybrid(BlockwiseHybrid self, pl_pool *pool) noexcept nogil:
    cdef const QuantizedRows *rows = &self.rows
    cdef ptrdiff_t splits = (self.blocks.columns + self.slots.q8.nr - 1) // self.slots.q8.nr
    pool = parallel_pool(pool, rows.count * rows.depth * self.blocks.columns)
    quantize(&self.rows, pool)
    parallel_for(pool, (rows.count + PL_BLOCK_ROWS - 1) // PL_BLOCK_ROWS * splits, 1, <pl_range_fn>blockwise_pieces,
                 <void *>self)
    return 0


cdef void blockwise_pieces(BlockwiseHybrid self, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef const pl_blocks *b = &self.blocks
    cdef const QuantizedRows *rows = &self.rows
    cdef ptrdiff_t nr = self.slots.q8.nr, splits = (b.columns + nr - 1) // nr, i, j, row
    for i in range(begin, end):
        row, j = i // splits * PL_BLOCK_ROWS, i % splits * nr
        self.slots.gemm_blocks(self.slots, <int>min(<ptrdiff_t>PL_BLOCK_ROWS, rows.count - row),
                               <int>min(nr, b.columns - j), b, j, rows.q + row * b.depth, rows.zeros + row,
                               rows.scales + row, self.y + row * b.columns + j)
