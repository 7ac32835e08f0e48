"""BATCH_MATMUL: products of many pairs of matrices, of every type."""
import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t
from libc.string cimport memset

from pylite._core.run.kernel cimport FLUSHED, Kernel, kernel_fn
from pylite._core.kernels.columns cimport PARAMETERS, finish_columns, set_column
from pylite._core.kernels.tasks cimport MAX_MR, MAX_NR, padded
from pylite._core.simd cimport (
    PL_SLACK,
    parallel_for,
    pl_a_layout,
    pl_columns,
    pl_packed_layout,
    pl_pool,
    pl_slots,
    pl_tile,
    pool_threads,
    slots,
)

from pylite._core.kernels import conv16, conv_float

cdef enum Kind:
    FLOAT
    BYTES                   # int8 to int8
    SUMS                    # int8 to int32, without zero points
    HYBRID                  # float times int8
    WORDS                   # int16 times int16 or int8, to int16

cdef enum:
    DEPTH = 1024            # elements of a row that are gathered at a time
    ROUND = 4               # matrices that are packed before they are used
    FEW = 2                 # rows for which packing columns at run time does not pay
    MANY = 64               # rows of floats that one thread multiplies at a time
    LINES = 32              # of such columns that a thread takes
    LOCAL_SUMS = 2048       # column sums, and elements of the bias, on the caller's stack,
    LOCAL = 16384           # and bytes of panels; LOCAL, LOCAL_SUMS, ROUND as in ops/batch_matmul.py
    ROWS16 = 8              # the tile of WORDS
    COLUMNS16 = 32

cdef struct Matrix:         # strides in elements
    const char *at
    ptrdiff_t row, k, size
    const int64_t *which    # the matrix of each product

cdef struct Batch:
    const pl_slots *slots
    pl_tile tile
    Kind kind
    int item, w_item        # bytes
    Matrix x, w             # the rows of w are columns of the product
    char *y
    const int64_t *y_which
    const char *panels
    char *scratch           # panels of ROUND matrices that are packed at run time; else NULL
    const int32_t *sums
    int32_t *scratch_sums
    int32_t *bias           # BYTES: the start of the accumulators
    char *given             # memory for scratch, scratch_sums and bias; NULL: on the stack
    int32_t *given_sums
    int32_t *given_bias
    bint packs              # at run time
    ptrdiff_t products, matrices, m, n, k, deep, wide, panel_bytes
    ptrdiff_t rows          # of a task
    ptrdiff_t first, base, a_panels, splits, panels_each      # of the current round
    pl_columns columns
    int x_zero, w_zero, chunk
    const int32_t *mult
    const int32_t *shift
    int8_t *q               # HYBRID: x quantized row by row
    float *gathered         # a copy of x with contiguous rows; NULL where x has them
    float *row_scales
    int32_t *row_zeros
    const float *scales
    int asymmetric, column_first


cdef class BatchMatmul(Kernel):
    """y[i] = x[x_which[i]] times w[w_which[i]] for each i, in the order of w_which.

    kind: "float32", "int8", "int32" (sums of int8), "hybrid" or "int16"; x, y, w: bytes (w None where packed).
    packed: (panels, column sums) of all matrices of w, or None where they are packed at each run: in scratch (uint8)
    and scratch_sums (int32), None up to LOCAL and LOCAL_SUMS.
    which: int64 (3, products), the matrices of x, of w (ascending) and of y; sizes: (m, n, k); adjoints: are x and w
    transposed, x as (k, m) and w as (n, k)?
    zeros: (x_zero, w_zero, y_zero); multiplier: (m, e) of integers; bias: int32 scratch or None up to LOCAL_SUMS;
    w_item: bytes of an element of w where x is int16.
    scales: float32 (n,) of a hybrid product, whose scratch is q (int8, the size of x), row_scales and row_zeros (one
    for each row of x), and gathered (float32, the size of x, where x is adjoint, else None).
    """
    cdef const uint8_t[::1] x, w
    cdef uint8_t[::1] y, scratch
    cdef const int64_t[:, ::1] which
    cdef object panels, parameters
    cdef const int32_t[::1] sums
    cdef int32_t[::1] scratch_sums, bias, row_zeros
    cdef int32_t[:, ::1] rows
    cdef int8_t[::1] q
    cdef const float[::1] scales
    cdef float[::1] row_scales, gathered
    cdef Batch state

    def __init__(self, kind, const uint8_t[::1] x, uint8_t[::1] y, *, const uint8_t[::1] w=None, packed=None,
                 uint8_t[::1] scratch=None, int32_t[::1] scratch_sums=None, const int64_t[:, ::1] which, sizes,
                 adjoints=(False, False), zeros=(0, 0, 0),
                 multiplier=(0, 0), int32_t[::1] bias=None, scales=None, q=None, row_scales=None, row_zeros=None,
                 gathered=None, bint asymmetric=False, bint column_first=False, int w_item=1):
        cdef Batch *s = &self.state
        cdef const uint8_t[::1] panels
        cdef int low = -128, zero, i
        self.x, self.y, self.w, self.which, self.scratch, self.scratch_sums = x, y, w, which, scratch, scratch_sums
        s.m, s.n, s.k = sizes
        s.kind = {"float32": FLOAT, "int8": BYTES, "int32": SUMS, "hybrid": HYBRID, "int16": WORDS}[kind]
        s.products = which.shape[1]
        if y.shape[0] == 0:
            self.fn = <kernel_fn>nothing
            return
        s.slots = slots
        s.y = <char *>&y[0]
        s.item = {FLOAT: 4, WORDS: 2}.get(s.kind, 1)
        s.x.at = <const char *>&x[0] if x.shape[0] else NULL
        s.x.size, s.w.size = s.m * s.k, s.n * s.k
        s.x.row, s.x.k, s.w.row, s.w.k = s.k, 1, 1, s.n
        if adjoints[0]:
            s.x.row, s.x.k = 1, s.m
        if adjoints[1]:
            s.w.row, s.w.k = s.k, 1
        s.x.which, s.w.which, s.y_which = &which[0, 0], &which[1, 0], &which[2, 0]
        s.matrices = which[1, s.products - 1] + 1
        s.tile = s.slots.f32 if s.kind == FLOAT else s.slots.q8
        s.deep, s.wide = padded(s.k, s.tile.ka), padded(s.n, s.tile.nv)
        s.panel_bytes = s.wide * s.deep
        if s.kind == FLOAT:
            s.deep, s.panel_bytes = s.k, s.wide * s.k * 4
        elif s.kind == WORDS:
            s.tile.mr, s.tile.nr = ROWS16, COLUMNS16
            s.panel_bytes = s.n * s.k * 2
            s.w_item = w_item
        if packed is None:
            s.w.at = <const char *>&w[0] if w.shape[0] else NULL
            s.packs = True
            if scratch is not None:
                s.given = <char *>&scratch[0]
            if scratch_sums is not None:
                s.given_sums = &scratch_sums[0]
        else:
            self.panels = packed[0].view(np.uint8)
            panels = self.panels.reshape(-1)
            s.panels = <const char *>&panels[0] if panels.shape[0] else NULL
            if packed[1] is not None:
                self.sums = packed[1]
                s.sums = &self.sums[0]
        s.x_zero, s.w_zero, zero = zeros
        s.chunk = 256 if w_item == 1 else 1
        if s.kind == BYTES:
            self.bias = bias
            if bias is not None:
                s.given_bias = &self.bias[0]
            self.rows = np.zeros((PARAMETERS, s.wide), np.int32)
            for i in range(s.n):
                set_column(&self.rows[0, 0], s.wide, i, 0, multiplier[0], multiplier[1])
            finish_columns(&self.rows[0, 0], s.wide)
            s.columns.mult, s.columns.odd, s.columns.right = &self.rows[1, 0], &self.rows[2, 0], &self.rows[4, 0]
            s.columns.half, s.columns.sign = &self.rows[5, 0], &self.rows[6, 0]
            s.columns.left = &self.rows[3, 0] if multiplier[1] >= 0 else NULL
            s.columns.zero_point, s.columns.low, s.columns.high = zero, low, 127
        elif s.kind == WORDS:
            self.rows = np.repeat(np.array(multiplier, np.int32)[:, None], s.n, 1)
            s.mult, s.shift = &self.rows[0, 0], &self.rows[1, 0]
        elif s.kind == HYBRID:
            self.scales, self.q, self.row_scales, self.row_zeros = scales, q, row_scales, row_zeros
            self.gathered = gathered
            s.scales, s.row_scales, s.row_zeros = &self.scales[0], &self.row_scales[0], &self.row_zeros[0]
            s.q = &self.q[0] if self.q.shape[0] else NULL
            s.gathered = &self.gathered[0] if gathered is not None and self.gathered.shape[0] else NULL
            s.asymmetric, s.column_first = asymmetric, column_first
        self.fn = <kernel_fn>batch_matmul
        if s.kind in (FLOAT, HYBRID):
            self.subnormals = FLUSHED


cdef int nothing(Kernel self, pl_pool *pool) noexcept nogil:
    return 0


cdef int batch_matmul(BatchMatmul self, pl_pool *pool) noexcept nogil:
    cdef Batch *s = &self.state
    cdef ptrdiff_t wanted = 4 * pool_threads(pool) if pool_threads(pool) > 1 else 1
    cdef ptrdiff_t end = 0, whole
    cdef int64_t panels[LOCAL_SUMS]     # LOCAL bytes
    cdef int32_t sums[LOCAL_SUMS]
    cdef int32_t bias[LOCAL_SUMS]
    s.bias = s.given_bias
    if s.bias == NULL:
        s.bias = bias
    if s.packs:
        s.scratch, s.scratch_sums = s.given, s.given_sums
        if s.scratch == NULL:
            s.scratch = <char *>panels
        if s.scratch_sums == NULL:
            s.scratch_sums = sums
        s.panels, s.sums = s.scratch, s.scratch_sums
    s.rows = s.tile.mr
    if s.kind == FLOAT and s.x.k == 1 and pool_threads(pool) <= 1:
        s.rows = MANY // s.rows * s.rows
    s.a_panels, s.panels_each = (s.m + s.rows - 1) // s.rows, (s.n + s.tile.nr - 1) // s.tile.nr
    if s.kind == HYBRID:
        parallel_for(pool, self.row_scales.shape[0], 1 + 4096 // max(s.k, <ptrdiff_t>1), quantize_rows, s)
    if s.kind == FLOAT and s.scratch != NULL and s.m <= FEW and s.w.k == 1 and s.x.k == 1:
        s.splits = (s.n + LINES - 1) // LINES
        parallel_for(pool, s.products * s.splits, 1 + 16384 // (LINES * max(s.k, <ptrdiff_t>1)), multiply_lines, s)
        return 0
    s.first = 0
    while s.first < s.products:
        s.base = 0
        end = s.products
        if s.scratch != NULL:
            s.base = s.w.which[s.first]
            whole = min(<ptrdiff_t>ROUND, s.matrices - s.base)
            end = s.first
            while end < s.products and s.w.which[end] < s.base + whole:
                end += 1
            parallel_for(pool, whole * s.panels_each, 1, pack_panels, s)
        if s.kind == BYTES:
            start_columns(s, s.matrices if s.scratch == NULL else whole)
        s.splits = max(<ptrdiff_t>1, min(s.panels_each, wanted // (s.a_panels * (end - s.first))))
        parallel_for(pool, (end - s.first) * s.a_panels * s.splits, 1, multiply, s)
        s.first = end
    return 0


def pack_f32(w, matrices, layout):
    """(panels, None) of float32 matrices; layout: a FilterLayout, see ops/filter_layout.py."""
    return conv_float.pack_f32(w, matrices, layout), None


def pack_s16(w, layout):
    """(rows, None) of 8- or 16-bit matrices as int16 (columns, depth), one after another."""
    return conv16.pack_s16(w, layout), None


include "batch_matmul_tasks.pxi"
