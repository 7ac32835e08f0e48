"""BATCH_MATMUL: products of many pairs of matrices, of every type."""
import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t
from libc.string cimport memset

from pylite._core.run.kernel cimport FLUSH, Kernel, kernel_fn
cimport pylite._core.product.bytes as product_q8
cimport pylite._core.product.floats as product_f32
cimport pylite._core.product.words as product_s16
from pylite._core.product.columns cimport PARAMETERS, finish_columns, point_columns, set_column
from pylite._core.product.tasks cimport MAX_NR, Output, Pairs, parallel_pool, set_output
from pylite._core.product.window cimport set_matrix
from pylite._core.simd cimport parallel_for, pl_pool, pl_tile, slots

from pylite._core.kernels import conv16, conv_float

cdef enum Kind:
    FLOAT
    BYTES                   # int8 to int8
    SUMS                    # int8 to int32, without zero points
    HYBRID                  # float times int8
    WORDS                   # int16 times int16 or int8, to int16

cdef enum:
    DEPTH = 1024            # elements of a row that are transposed at a time
    ROUND = 4               # matrices that are packed before they are used
    FEW = 2                 # the most rows for which packing columns at run time takes longer than it saves
    MANY = 64               # rows of floats that one thread multiplies at a time
    LINES = 32              # columns that are not packed, of which a thread takes so many at a time
    LOCAL_SUMS = 2048       # column sums, and elements of the bias, on the caller's stack,
    LOCAL = 16384           # and bytes of panels
    GRAIN = 4096            # elements that one thread quantizes

PACKED_AT_ONCE = ROUND      # for lowering, which reserves scratch for what the stack does not hold
STACK_BYTES, STACK_SUMS = LOCAL, LOCAL_SUMS


cdef struct Batch:
    Kind kind
    product_q8.ProductQ8 bytes      # the product, by its kind
    product_f32.ProductF32 floats
    product_s16.ProductS16 words
    pl_tile tile
    Pairs pairs
    const char *x
    const char *w           # matrices, the steps of whose rows and columns are w_k and w_row elements
    ptrdiff_t w_row, w_k
    int w_item              # bytes
    char *y
    const char *panels      # of constant matrices, else NULL
    const int32_t *sums
    char *scratch           # panels of ROUND matrices, which are packed at run time
    int32_t *scratch_sums
    int32_t *bias           # BYTES: the start of the accumulators
    ptrdiff_t products, matrices, m, n, k, deep, wide, panel_bytes, panels_each
    ptrdiff_t splits        # of the columns, where they are not packed
    int x_zero
    uint8_t *q              # HYBRID: x quantized row by row
    float *row_scales
    int32_t *row_zeros
    ptrdiff_t rows
    int asymmetric


cdef class BatchMatmul(Kernel):
    """y[i] = x[x_which[i]] times w[w_which[i]] for each i, in the order of w_which.

    kind: "float32", "int8", "int32" (sums of int8), "hybrid" or "int16"; x, y, w: bytes (w None where packed).
    packed: (panels, column sums) of all matrices of w, or None where they are packed at each run: in scratch (uint8)
    and scratch_sums (int32), None up to LOCAL and LOCAL_SUMS.
    which: int64 (3, products), the matrices of x, of w (ascending) and of y; sizes: (m, n, k); adjoint: is w
    transposed, as (n, k)?
    zeros: (x_zero, w_zero, y_zero); multiplier: (m, e) of integers; bias: int32 scratch or None up to LOCAL_SUMS;
    w_item: bytes of an element of w where x is int16.
    scales: float32 (n,) of a hybrid product, whose scratch is q (int8, the size of x), row_scales and row_zeros (one
    for each row of x).
    """
    cdef const uint8_t[::1] x, w
    cdef uint8_t[::1] y, scratch
    cdef const int64_t[:, ::1] which
    cdef object panels
    cdef const int32_t[::1] sums
    cdef int32_t[::1] scratch_sums, bias, row_zeros
    cdef int32_t[:, ::1] parameters
    cdef int8_t[::1] q
    cdef const float[::1] scales
    cdef float[::1] row_scales
    cdef Batch state

    def __init__(self, kind, const uint8_t[::1] x, uint8_t[::1] y, *, const uint8_t[::1] w=None, packed=None,
                 uint8_t[::1] scratch=None, int32_t[::1] scratch_sums=None, const int64_t[:, ::1] which, sizes,
                 bint adjoint=False, zeros=(0, 0, 0), multiplier=(0, 0), int32_t[::1] bias=None, scales=None, q=None,
                 row_scales=None, row_zeros=None, bint asymmetric=False, bint column_first=False, int w_item=1):
        cdef Batch *s = &self.state
        cdef const uint8_t[::1] panels
        self.x, self.y, self.w, self.which, self.scratch, self.scratch_sums = x, y, w, which, scratch, scratch_sums
        self.bias = bias
        s.m, s.n, s.k = sizes
        s.kind = {"float32": FLOAT, "int8": BYTES, "int32": SUMS, "hybrid": HYBRID, "int16": WORDS}[kind]
        s.products = which.shape[1]
        if y.shape[0] == 0:
            return
        s.x, s.y = <const char *>&x[0] if x.shape[0] else NULL, <char *>&y[0]
        s.w_row, s.w_k, s.w_item = 1, s.n, w_item
        if adjoint:
            s.w_row, s.w_k = s.k, 1
        s.pairs.x, s.pairs.w, s.pairs.y = &which[0, 0], &which[1, 0], &which[2, 0]
        s.matrices = which[1, s.products - 1] + 1
        if packed is None:
            s.w = <const char *>&w[0] if w.shape[0] else NULL
        else:
            self.panels = packed[0].view(np.uint8)
            panels = self.panels.reshape(-1)
            s.panels = <const char *>&panels[0] if panels.shape[0] else <const char *>s.y
            if packed[1] is not None:
                self.sums = packed[1]
                s.sums = &self.sums[0]
        s.rows = x.shape[0] // max(s.k * {FLOAT: 4, HYBRID: 4, WORDS: 2}.get(s.kind, 1), <ptrdiff_t>1)
        self.fn = <kernel_fn>batch_matmul
        if s.kind == FLOAT:
            self.set_floats()
        elif s.kind == WORDS:
            self.set_words(multiplier)
        else:
            self.set_bytes(zeros, multiplier)
        if s.kind == HYBRID:
            self.scales, self.q, self.row_scales, self.row_zeros = scales, q, row_scales, row_zeros
            s.rows = self.row_scales.shape[0]
            self.set_hybrid(asymmetric, column_first)
        s.panels_each = (s.n + s.tile.nr - 1) // s.tile.nr

    cdef void set_floats(self):
        cdef Batch *s = &self.state
        cdef product_f32.ProductF32 *p = &s.floats
        product_f32.set_sizes(p, slots, s.n, 1, s.k)
        set_matrix(&p.window, <const uint8_t *>s.x, 4 * s.k)
        set_rows(&p.output, s, 4)
        product_f32.plan_rows_in_place(p)
        s.tile, s.wide, s.panel_bytes = p.tile, p.wide, p.wide * s.k * 4
        p.tile.mr = MANY // p.tile.mr * p.tile.mr
        p.low, p.high, p.pairs = -INFINITY, INFINITY, &s.pairs
        self.subnormals = FLUSH

    cdef void set_words(self, multiplier):
        cdef Batch *s = &self.state
        cdef product_s16.ProductS16 *p = &s.words
        product_s16.set_sizes(p, slots, s.n, 1, s.k, s.w_item == 2)
        set_matrix(&p.window, <const uint8_t *>s.x, 2 * s.k)
        set_rows(&p.output, s, 2)
        self.parameters = np.repeat(np.array(multiplier, np.int32)[:, None], s.n, 1)
        p.finish.rule, p.finish.low, p.finish.high = product_s16.MBQM64, -32768, 32767
        p.finish.multipliers, p.finish.shifts, p.pairs = &self.parameters[0, 0], &self.parameters[1, 0], &s.pairs
        s.tile, s.wide, s.panel_bytes = p.tile, s.n, s.n * s.k * 2

    cdef void set_bytes(self, zeros, multiplier):
        cdef Batch *s = &self.state
        cdef product_q8.ProductQ8 *p = &s.bytes
        cdef ptrdiff_t i
        product_q8.set_sizes(p, slots, s.n, 1, s.k)
        set_matrix(&p.window, <const uint8_t *>s.x, s.k)
        set_rows(&p.output, s, 1 if s.kind == BYTES else 4)
        s.x_zero, p.w_zero, p.q.zero_point = zeros
        p.count, p.pairs = s.rows, &s.pairs
        s.tile, s.deep, s.wide, s.panel_bytes = p.tile, p.deep, p.wide, p.wide * p.deep
        if s.kind == SUMS:
            p.finish = product_q8.SUMS
        elif s.kind == BYTES:
            self.parameters = np.zeros((PARAMETERS, s.wide), np.int32)
            for i in range(s.n):
                set_column(&self.parameters[0, 0], s.wide, i, 0, multiplier[0], multiplier[1])
            finish_columns(&self.parameters[0, 0], s.wide)
            point_columns(&p.q, &self.parameters[0, 0], s.wide)
            p.q.low, p.q.high = -128, 127
        product_q8.gather_rows(p)

    cdef void set_hybrid(self, bint asymmetric, bint column_first):
        cdef Batch *s = &self.state
        cdef product_q8.ProductQ8 *p = &s.bytes
        s.row_scales, s.row_zeros, s.asymmetric = &self.row_scales[0], &self.row_zeros[0], asymmetric
        s.q = <uint8_t *>&self.q[0] if self.q.shape[0] else NULL
        p.finish, p.flip, p.images, p.window.x = product_q8.HYBRID, p.tile.offset, s.rows, s.q
        p.row_scales, p.row_zeros = s.row_scales, s.row_zeros
        p.hybrid.scale, p.hybrid.column_first = &self.scales[0], column_first
        p.hybrid.low, p.hybrid.high = -INFINITY, INFINITY
        product_q8.gather_rows(p)
        self.subnormals = FLUSH


cdef void set_rows(Output *o, Batch *s, ptrdiff_t item):
    """Each product is a line of the output, of m rows."""
    set_output(o, s.y, s.products, 1, s.m, s.m * s.n * item, s.m * s.n * item, s.n * item)
    o.span = s.m


cdef int batch_matmul(BatchMatmul self, pl_pool *pool) noexcept nogil:
    cdef Batch *s = &self.state
    cdef ptrdiff_t end, whole = s.matrices
    cdef int64_t panels[LOCAL_SUMS]     # LOCAL bytes
    cdef int32_t sums[LOCAL_SUMS]
    cdef int32_t bias[LOCAL_SUMS]
    cdef const char *packed = s.panels
    cdef const int32_t *column_sums = s.sums
    pool = parallel_pool(pool, s.products * s.m * s.n * s.k)
    s.bias = &self.bias[0] if self.bias is not None else bias
    if s.panels == NULL:
        s.scratch = <char *>&self.scratch[0] if self.scratch is not None else <char *>panels
        s.scratch_sums = &self.scratch_sums[0] if self.scratch_sums is not None else sums
        packed, column_sums = s.scratch, s.scratch_sums
    if s.kind == HYBRID:
        parallel_for(pool, s.rows, 1 + GRAIN // max(s.k, <ptrdiff_t>1), quantize_rows, s)
    if s.kind == FLOAT and s.panels == NULL and s.m <= FEW and s.w_k == 1:
        s.splits = (s.n + LINES - 1) // LINES
        parallel_for(pool, s.products * s.splits, 1 + 16384 // (LINES * max(s.k, <ptrdiff_t>1)), multiply_lines, s)
        return 0
    s.pairs.first = s.pairs.base = 0
    while s.pairs.first < s.products:
        end = s.products
        if s.panels == NULL:
            s.pairs.base = s.pairs.w[s.pairs.first]
            whole = min(<ptrdiff_t>ROUND, s.matrices - s.pairs.base)
            end = s.pairs.first
            while end < s.products and s.pairs.w[end] < s.pairs.base + whole:
                end += 1
            parallel_for(pool, whole * s.panels_each, 1, pack_panels, s)
        if s.kind == BYTES:
            start_columns(s, column_sums, whole)
        run_round(s, packed, column_sums, end - s.pairs.first, pool)
        s.pairs.first = end
    return 0


cdef void run_round(Batch *s, const char *panels, const int32_t *sums, ptrdiff_t products,
                    pl_pool *pool) noexcept nogil:
    """The products of matrices whose panels are ready."""
    if s.kind == FLOAT:
        s.floats.panels, s.floats.output.lines = <const float *>panels, products
        product_f32.run_product(&s.floats, pool)
    elif s.kind == WORDS:
        s.words.w, s.words.output.lines = <const int16_t *>panels, products
        product_s16.run_product(&s.words, pool)
    else:
        s.bytes.panels, s.bytes.output.lines = <const uint8_t *>panels, products
        s.bytes.q.bias, s.bytes.sums, s.bytes.hybrid.sums = s.bias, sums, sums
        product_q8.run_product(&s.bytes, pool)


def pack_f32(w, matrices, layout):
    """(panels, None) of float32 matrices; layout: a FilterLayout, see product/layouts.py."""
    return conv_float.pack_f32(w, matrices, layout), None


def pack_s16(w, layout):
    """(rows, None) of 8- or 16-bit matrices as int16 (columns, depth), one after another."""
    return conv16.pack_s16(w, layout), None


# ---- tasks ---------------------------------------------------------------------------------------------------
cdef void multiply_lines(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Multiply few rows of x by columns of w that are lines in memory, without packing them."""
    cdef Batch *s = <Batch *>ctx
    cdef ptrdiff_t i, j, row, product
    for i in range(begin, end):
        product, j = i // s.splits, i % s.splits * LINES
        for row in range(s.m):
            slots.dots_f32(min(<ptrdiff_t>LINES, s.n - j), s.k,
                           <const float *>s.x + (s.pairs.x[product] * s.m + row) * s.k,
                           <const float *>s.w + s.pairs.w[product] * s.n * s.k + j * s.w_row, s.w_row,
                           <float *>s.y + (s.pairs.y[product] * s.m + row) * s.n + j)


cdef void pack_panels(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Panels of the matrices of the round, as matmul and conv_float pack them."""
    cdef Batch *s = <Batch *>ctx
    cdef ptrdiff_t i, j, k, j0, n, width, matrix, depth = s.k, sj = s.w_row, sk = s.w_k
    cdef const int8_t *bytes
    cdef const int16_t *words
    cdef const uint8_t *w
    cdef uint8_t *panel
    cdef int16_t *h
    for i in range(begin, end):
        matrix, j0 = i // s.panels_each, i % s.panels_each * s.tile.nr
        n = min(<ptrdiff_t>s.tile.nr, s.n - j0)
        width = min(<ptrdiff_t>s.tile.nr, s.wide - j0)
        k = (s.pairs.base + matrix) * s.n * s.k + j0 * sj
        panel = <uint8_t *>s.scratch + matrix * s.panel_bytes
        if s.kind == FLOAT:
            w, panel = <const uint8_t *>s.w + k * 4, panel + j0 * depth * 4
            if n < width:
                memset(panel, 0, width * depth * 4)
            if sk == 1:
                for k in range(depth):
                    for j in range(n):
                        (<float *>panel)[k * width + j] = (<const float *>w)[j * sj + k]
            else:
                slots.copy_runs(depth, n * 4, w, sk * 4, panel, width * 4)
        elif s.kind == WORDS:
            h = <int16_t *>panel + j0 * depth
            words, bytes = <const int16_t *>s.w + k, <const int8_t *>s.w + k
            for j in range(n):
                for k in range(depth):
                    h[j * depth + k] = bytes[j * sj + k * sk] if s.w_item == 1 else words[j * sj + k * sk]
        else:
            pack_bytes(s, <const uint8_t *>s.w + k, n, width, panel + j0 * s.deep,
                       s.scratch_sums + matrix * s.n + j0)


cdef void pack_bytes(const Batch *s, const uint8_t *w, ptrdiff_t n, ptrdiff_t width, uint8_t *panel,
                     int32_t *sums) noexcept nogil:
    """Pack columns of w; those that are not contiguous are transposed a piece at a time."""
    cdef uint8_t turned[MAX_NR * DEPTH]
    cdef int32_t part[MAX_NR]
    cdef ptrdiff_t j, k = 0, piece
    memset(panel, 0, width * s.deep)
    if s.w_k == 1:
        slots.pack_b_q8(&s.tile, n, s.k, w, 0, panel, sums)
        return
    for j in range(n):
        sums[j] = 0
    while k < s.k:
        piece = min(<ptrdiff_t>DEPTH, s.k - k)
        slots.copy_transposed(1, n, piece, w + k * s.w_k, s.w_k, turned, piece)
        slots.pack_b_q8(&s.tile, n, piece, turned, 0, panel + k * width, part)
        for j in range(n):
            sums[j] += part[j]
        k += piece


cdef void start_columns(Batch *s, const int32_t *sums, ptrdiff_t matrices) noexcept nogil:
    cdef int32_t zero = s.x_zero + s.tile.offset
    cdef ptrdiff_t i, j
    for i in range(matrices):
        for j in range(s.n):
            s.bias[i * s.wide + j] = <int32_t>s.k * s.bytes.w_zero * zero - zero * sums[i * s.n + j]
        for j in range(s.n, s.wide):
            s.bias[i * s.wide + j] = 0


cdef void quantize_rows(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef Batch *s = <Batch *>ctx
    slots.quantize_rows(end - begin, s.k, <const float *>s.x + begin * s.k, s.k, s.asymmetric, s.bytes.flip,
                        s.q + begin * s.k, s.row_scales + begin, s.row_zeros + begin)
