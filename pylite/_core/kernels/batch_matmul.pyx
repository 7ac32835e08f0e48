"""BATCH_MATMUL: products of many pairs of matrices, of all types (docs/decisions/batch-matmul.md).

batch_matmul() packs a round of right matrices (pack_panels(); constant ones are already packed), then lets the product
engine multiply all pairs of the round.  For a few rows of floats, multiply_strips() reads the right matrices in place.
"""
import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t
from libc.string cimport memset

from pylite._core.run.kernel cimport FLUSH, PRESERVE, Kernel, Strided, describe, kernel_fn, nothing
cimport pylite._core.product.bytes as byte_product
cimport pylite._core.product.floats as float_product
cimport pylite._core.product.words as word_product
from pylite._core.product.columns cimport PARAMETERS, finish_columns, point_columns, set_column
from pylite._core.product.division cimport MAX_NR, Output, Pairs, parallel_pool
from pylite._core.product.product cimport HYBRID, MBQM64, REQUANTIZE, SUMS, ByteRows, Product, WordFinish
from pylite._core.product.quantized cimport quantize, set_rows
from pylite._core.product.window cimport set_matrix
from pylite._core.simd cimport memory_of, parallel_for, pl_pool, slots

from pylite._core.run.memory import private

cdef enum Kind:             # types of rows
    FLOAT
    BYTES                   # int8 or float times int8; product.finish: REQUANTIZE (to int8), SUMS (to int32) or HYBRID
    WORDS                   # int16 times int16 or int8, to int16

cdef enum:                  # operands, in the order of ARRAYS
    X
    Y
    W
    SCRATCH
    SCRATCH_SUMS
    BIAS
    Q
    ROW_SCALES
    ROW_ZEROS
    OPERANDS

cdef enum:
    DEPTH = 1024            # elements of a row that are transposed at a time
    ROUND = 4               # matrices that are packed at run time before their products are computed
    FEW_ROWS = 2            # up to this number of rows of x, packing w at run time takes longer than it saves,
    DEEP = 64               # if rows have this length
    ROWS = 64               # rows of floats in a piece, rounded down to whole tiles
    STRIP = 32              # columns of w that a thread multiplies at a time without packing them
    STRIP_GRAIN = 16384     # least number of products for a thread that does so
    LOCAL_SUMS = 2048       # column sums, or elements of the bias, that fit on the caller's stack
    LOCAL_PANELS = 16384    # bytes of panels that fit on the caller's stack
    PANEL_WORDS = LOCAL_PANELS // 8     # length of their array, which is of int64 so that it is aligned

FORMS = tuple((1, 4 if i in (SCRATCH_SUMS, BIAS, ROW_SCALES, ROW_ZEROS) else 1, i not in (X, W))
              for i in range(OPERANDS))

# For lowering, which reserves scratch for panels and sums that do not fit on the stack.
PACKED_AT_ONCE, STACK_BYTES, STACK_SUMS = ROUND, LOCAL_PANELS, LOCAL_SUMS


cdef struct RightMatrices:      # as the caller gives them; steps in elements
    const char *data
    ptrdiff_t count
    ptrdiff_t column, depth     # from one column to the next, and along the depth
    int item                    # bytes of an element


cdef struct Panels:             # of the right matrices
    # Each is NULL if the stack is large enough; otherwise it is scratch in the arena, or belongs to constant matrices.
    const uint8_t *data         # the panels
    const int32_t *sums         # for bytes: the sum of each column
    int32_t *bias               # for bytes: the initial value of each column's accumulator
    ptrdiff_t nbytes, count     # bytes and panels of one matrix


cdef struct Batch:
    Kind kind
    Product product
    Pairs pairs
    RightMatrices right
    bint packs              # are the right matrices packed at run time, up to ROUND at once?
    Panels panels
    ptrdiff_t products, m, n, k
    ptrdiff_t strips        # strips of each right matrix, if it is not packed
    ptrdiff_t parameters_for        # number of columns for which `parameters` were made
    int x_zero
    int32_t multiplier, shift       # for BYTES and WORDS
    bint adjoint
    bint given[OPERANDS]    # is this operand present?


cdef class BatchMatmul(Kernel):
    """y[which[2, i]] = x[which[0, i]] times w[which[1, i]] for each product i.

    kind: "float32", "int8", "int32" (sums of int8), "hybrid" or "int16"; x, y, w: the bytes of all matrices.
    which: int64 (3, products); which[1] is ascending.  sizes: (m, n, k); adjoint: are the matrices of w (n, k)?
    packed: panels of all matrices of a constant w, whose own bytes are then None, or (panels, column sums) of bytes;
    None to pack w at each run, into scratch (uint8) and scratch_sums (int32), which are None if LOCAL_PANELS and
    LOCAL_SUMS suffice.
    For integers: zeros: (x_zero, w_zero, y_zero); multiplier: (m, e); bias: int32 scratch, None if LOCAL_SUMS suffices;
    w_item: bytes of an element of w if x is int16.
    For hybrid products: scales: float32 (n,); scratch: q (int8, the size of x), row_scales and row_zeros (one for each
    row of x).
    """
    ARRAYS = (1, 2, "w", "scratch", "scratch_sums", "bias", "q", "row_scales", "row_zeros")
    SIZES = ("which", "sizes")
    cdef object owners      # of the other memory that state points to
    cdef object parameters  # of the columns of integer products
    cdef const int64_t[:, ::1] which
    cdef Batch state

    def __init__(self, kind, x, y, *, w=None, packed=None, scratch=None, scratch_sums=None, which, sizes,
                 bint adjoint=False, zeros=(0, 0, 0), multiplier=(0, 0), bias=None, const float[::1] scales=None,
                 q=None, row_scales=None, row_zeros=None, bint asymmetric=False, bint column_first=False,
                 int w_item=1):
        cdef Batch *s = &self.state
        cdef Product *p = &s.product
        cdef Strided operands[OPERANDS]
        cdef const Strided *arrays[OPERANDS]
        cdef int i
        self.memory, self.owners = (x, y, w, scratch, scratch_sums, bias, q, row_scales, row_zeros), (packed, scales)
        describe(self.memory, FORMS, operands, arrays, contiguous=True)
        for i in range(OPERANDS):
            s.given[i] = arrays[i] != NULL
        s.kind = FLOAT if kind == "float32" else WORDS if kind == "int16" else BYTES
        p.finish = HYBRID if kind == "hybrid" else SUMS if kind == "int32" else REQUANTIZE
        s.x_zero, p.w_zero, p.requantize.zero_point = zeros
        s.multiplier, s.shift = multiplier
        s.adjoint, s.right.item, p.wide, p.rows.bytes.quantized.asymmetric = adjoint, w_item, w_item == 2, asymmetric
        p.float32.low, p.float32.high, p.hybrid.low, p.hybrid.high = -INFINITY, INFINITY, -INFINITY, INFINITY
        self.subnormals = FLUSH if s.kind == FLOAT or p.finish == HYBRID else PRESERVE
        s.packs = packed is None
        if not s.packs:
            panels, sums = packed if s.kind == BYTES else (packed, None)
            s.panels.data = <const uint8_t *>memory_of(panels, panels.nbytes)
            s.panels.sums = <const int32_t *>memory_of(sums, sums.nbytes) if sums is not None else NULL
        if p.finish == HYBRID:
            p.hybrid.scale, p.hybrid.column_first = &scales[0] if scales.shape[0] else NULL, column_first
        self.arrange(arrays, private(which), sizes)

    cdef Kernel moved(self, const Strided **arrays, list sizes):
        cdef BatchMatmul copy
        cdef int i
        if self.fn == <kernel_fn>nothing or arrays[Y] == NULL or arrays[Y].nbytes == 0:
            return None
        for i in range(OPERANDS):
            if (arrays[i] != NULL) != self.state.given[i]:
                return None
        copy = <BatchMatmul>self.base_copy()
        copy.owners, copy.parameters, copy.state = self.owners, self.parameters, self.state
        copy.arrange(arrays, sizes[0], sizes[1])
        return copy

    cdef int arrange(self, const Strided **arrays, which, sizes) except -1:
        """Set the sizes of the products and the memory of `arrays`, as ARRAYS."""
        cdef Batch *s = &self.state
        cdef Product *p = &s.product
        cdef ByteRows *rows
        self.which = which
        s.m, s.n, s.k = sizes
        s.products = self.which.shape[1]
        if arrays[Y].nbytes == 0:
            return 0
        s.right.data, s.panels.bias = <const char *>address_of(arrays[W]), <int32_t *>address_of(arrays[BIAS])
        if s.packs:
            s.panels.data = <const uint8_t *>address_of(arrays[SCRATCH])
            s.panels.sums = <const int32_t *>address_of(arrays[SCRATCH_SUMS])
        s.right.column, s.right.depth = 1, s.n
        if s.adjoint:
            s.right.column, s.right.depth = s.k, 1
        s.pairs.x, s.pairs.w, s.pairs.y = &self.which[0, 0], &self.which[1, 0], &self.which[2, 0]
        s.right.count = self.which[1, s.products - 1] + 1
        self.fn, p.pairs = <kernel_fn>batch_matmul, &s.pairs
        if s.kind == FLOAT:
            float_product.set_sizes(p, s.n, 1, s.k)
            self.set_matrices(arrays, 4, 4)
            float_product.plan_rows_in_place(p)
            p.piece_rows = ROWS // p.tile.mr * p.tile.mr
            s.panels.nbytes = p.padded_columns * s.k * 4
        elif s.kind == WORDS:
            word_product.set_sizes(p, s.n, 1, s.k)
            self.set_matrices(arrays, 2, 2)
            self.set_parameters()
            s.panels.nbytes = s.n * p.padded_depth * 2
        else:
            byte_product.set_sizes(p, s.n, 1, s.k)
            self.set_matrices(arrays, 1, 1 if p.finish == REQUANTIZE else 4)
            if p.finish == REQUANTIZE:
                self.set_parameters()
            elif p.finish == HYBRID:
                rows = &p.rows.bytes
                set_rows(&rows.quantized, arrays[X], arrays[Q], arrays[ROW_SCALES], arrays[ROW_ZEROS],
                         arrays[ROW_SCALES].shape[0], s.k, p.tile.offset)
                p.window.x, rows.total, rows.flip = rows.quantized.q, rows.quantized.count, p.tile.offset
            byte_product.gather_rows(p)
            s.panels.nbytes = p.padded_columns * p.padded_depth
        s.panels.count = (s.n + p.tile.nr - 1) // p.tile.nr
        return 0

    cdef void set_matrices(self, const Strided **arrays, ptrdiff_t item, ptrdiff_t y_item):
        """Describe x and y: each product is one line of m rows; item, y_item: bytes of an element of x and of y."""
        cdef Batch *s = &self.state
        cdef Output *o = &s.product.output
        set_matrix(&s.product.window, <const uint8_t *>address_of(arrays[X]), s.k * item)
        s.product.rows.bytes.total = arrays[X].nbytes // max(s.k * item, <ptrdiff_t>1)
        o.y, o.sw, o.od, o.oh, o.span, o.lines = <char *>address_of(arrays[Y]), s.n * y_item, 1, 1, s.m, s.products
        o.sn = o.sh = s.m * o.sw

    cdef int set_parameters(self) except -1:
        """Set the parameters of integer columns, which share a multiplier; start_columns() sets the initial values."""
        cdef Batch *s = &self.state
        cdef Product *p = &s.product
        cdef WordFinish *r = &p.int16
        cdef int32_t *rows
        cdef ptrdiff_t size = s.n if s.kind == WORDS else p.padded_columns, i
        if s.parameters_for == s.n:
            return 0
        s.parameters_for, self.parameters = s.n, np.zeros((PARAMETERS, size), np.int32)
        rows = <int32_t *>memory_of(self.parameters, self.parameters.nbytes)
        if s.kind == WORDS:
            self.parameters[0], self.parameters[1] = s.multiplier, s.shift
            r.rule, r.low, r.high, r.multipliers, r.shifts = MBQM64, -32768, 32767, rows, rows + size
            return 0
        for i in range(s.n):
            set_column(rows, size, i, 0, s.multiplier, s.shift)
        finish_columns(rows, size)
        point_columns(&p.requantize, rows, size)
        p.requantize.low, p.requantize.high = -128, 127
        return 0


cdef void *address_of(const Strided *array) noexcept:
    """The first byte of an array, or NULL if it is absent or empty."""
    return array.data if array != NULL and array.nbytes else NULL


cdef int batch_matmul(BatchMatmul self, pl_pool *pool) noexcept nogil:
    cdef Batch *s = &self.state
    cdef Product *p = &s.product
    cdef ptrdiff_t end, whole = s.right.count
    cdef int64_t panels[PANEL_WORDS]
    cdef int32_t sums[LOCAL_SUMS]
    cdef int32_t bias[LOCAL_SUMS]
    pool = parallel_pool(pool, s.products * s.m * s.n * s.k)
    p.panels = s.panels.data if s.panels.data != NULL else <const uint8_t *>panels
    p.sums = p.hybrid.sums = s.panels.sums if s.panels.sums != NULL else sums
    p.requantize.bias = s.panels.bias if s.panels.bias != NULL else bias
    if p.finish == HYBRID:
        quantize(&p.rows.bytes.quantized, pool)
    if s.kind == FLOAT and s.packs and s.m <= FEW_ROWS and s.k >= DEEP and s.right.depth == 1:
        s.strips = (s.n + STRIP - 1) // STRIP
        parallel_for(pool, s.products * s.strips, 1 + STRIP_GRAIN // (STRIP * max(s.k, <ptrdiff_t>1)),
                     multiply_strips, s)
        return 0
    s.pairs.first = s.pairs.base = 0
    while s.pairs.first < s.products:
        end = s.products
        if s.packs:
            s.pairs.base = s.pairs.w[s.pairs.first]
            whole = min(<ptrdiff_t>ROUND, s.right.count - s.pairs.base)
            end = s.pairs.first
            while end < s.products and s.pairs.w[end] < s.pairs.base + whole:
                end += 1
            parallel_for(pool, whole * s.panels.count, 1, pack_panels, s)
        p.output.lines = end - s.pairs.first
        if s.kind == FLOAT:
            float_product.run_product(p, pool)
        elif s.kind == WORDS:
            word_product.run_product(p, pool)
        else:
            if p.finish == REQUANTIZE:
                start_columns(s, whole)
            byte_product.run_product(p, pool)
        s.pairs.first = end
    return 0


# ---- pieces --------------------------------------------------------------------------------------------------
cdef void multiply_strips(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Multiply the few rows of x by strips of columns of w, contiguous along the depth, without packing them."""
    cdef Batch *s = <Batch *>ctx
    cdef ptrdiff_t i, j, row, product
    for i in range(begin, end):
        product, j = i // s.strips, i % s.strips * STRIP
        for row in range(s.m):
            slots.dots_f32(min(<ptrdiff_t>STRIP, s.n - j), s.k,
                           <const float *>s.product.window.x + (s.pairs.x[product] * s.m + row) * s.k,
                           <const float *>s.right.data + s.pairs.w[product] * s.n * s.k + j * s.right.column,
                           s.right.column,
                           <float *>s.product.output.y + (s.pairs.y[product] * s.m + row) * s.n + j)


cdef void pack_panels(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Pack panels begin to end - 1 of this round's matrices, in the form of the product's panels."""
    cdef Batch *s = <Batch *>ctx
    cdef const Product *p = &s.product
    cdef ptrdiff_t i, first, j0, n, width, matrix, sj = s.right.column, sk = s.right.depth
    cdef const uint8_t *w
    cdef uint8_t *panel
    for i in range(begin, end):
        matrix, j0 = i // s.panels.count, i % s.panels.count * p.tile.nr
        n, width = min(<ptrdiff_t>p.tile.nr, s.n - j0), min(<ptrdiff_t>p.tile.nr, p.padded_columns - j0)
        first = (s.pairs.base + matrix) * s.n * s.k + j0 * sj       # element of the right matrices
        panel = <uint8_t *>p.panels + matrix * s.panels.nbytes
        if s.kind == FLOAT:
            w, panel = <const uint8_t *>s.right.data + first * 4, panel + j0 * s.k * 4
            if sk == 1:
                float_product.pack_panels(&p.tile, w, n, s.k, panel)
                continue
            if n < width:
                memset(panel, 0, width * s.k * 4)
            slots.copy_runs(s.k, n * 4, w, sk * 4, panel, width * 4)
        elif s.kind == WORDS:
            pack_words(s, <const uint8_t *>s.right.data + first * s.right.item, n, panel + j0 * p.padded_depth * 2)
        else:
            pack_bytes(s, <const uint8_t *>s.right.data + first, n, width, panel + j0 * p.padded_depth,
                       <int32_t *>p.sums + matrix * s.n + j0)


cdef void pack_words(const Batch *s, const uint8_t *w, ptrdiff_t n, uint8_t *panel) noexcept nogil:
    """Pack n columns of w, int8 or int16, as int16 with zeros beyond the depth."""
    cdef ptrdiff_t _j, item = s.right.item, pitch = s.product.padded_depth * 2
    memset(panel, 0, n * pitch)
    if s.right.depth == 1:
        slots.copy_runs(n, s.k * item, w, s.right.column * item, panel, pitch)
    else:
        slots.copy_transposed(item, n, s.k, w, s.right.depth * item, panel, pitch)
    if item == 1:                       # widened in place, from the end
        for _j in range(n):
            widen(s.k, <const int8_t *>panel, <int16_t *>panel)
            panel += pitch


cdef void widen(ptrdiff_t n, const int8_t *x, int16_t *y) noexcept nogil:
    """Convert n elements; y is the memory of x."""
    while n > 0:
        n -= 1
        y[n] = x[n]


cdef void pack_bytes(const Batch *s, const uint8_t *w, ptrdiff_t n, ptrdiff_t width, uint8_t *panel,
                     int32_t *sums) noexcept nogil:
    """Pack a panel of n columns of w, padded to `width` columns; sums: set to the sum of each column's weights."""
    cdef uint8_t transposed[MAX_NR * DEPTH]
    cdef int32_t part[MAX_NR]
    cdef ptrdiff_t j, k = 0, section
    memset(panel, 0, width * s.product.padded_depth)
    if s.right.depth == 1:
        s.product.slots.pack_b_q8(&s.product.tile, n, s.k, w, 0, panel, sums)
        return
    for j in range(n):
        sums[j] = 0
    while k < s.k:
        section = min(<ptrdiff_t>DEPTH, s.k - k)
        slots.copy_transposed(1, n, section, w + k * s.right.depth, s.right.depth, transposed, section)
        s.product.slots.pack_b_q8(&s.product.tile, n, section, transposed, 0, panel + k * width, part)
        for j in range(n):
            sums[j] += part[j]
        k += section


cdef void start_columns(Batch *s, ptrdiff_t matrices) noexcept nogil:
    """Set the initial values of the accumulators from the column sums of `matrices` matrices."""
    cdef const Product *p = &s.product
    cdef int32_t zero = s.x_zero + p.tile.offset
    cdef int32_t *bias = <int32_t *>p.requantize.bias
    cdef ptrdiff_t i, j
    for i in range(matrices):
        for j in range(s.n):
            bias[i * p.padded_columns + j] = <int32_t>s.k * p.w_zero * zero - zero * p.sums[i * s.n + j]
        for j in range(s.n, p.padded_columns):
            bias[i * p.padded_columns + j] = 0
