"""BATCH_MATMUL: products of many pairs of matrices, of every type."""
import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t
from libc.string cimport memset

from pylite._core.kernel cimport Kernel, kernel_fn
from pylite._core.kernels.gemm cimport MAX_MR, MAX_NR, PARAMETERS, finish_columns, padded, set_column
from pylite._core.simd cimport (
    PL_SLACK,
    parallel_for,
    pl_columns,
    pl_gathered,
    pl_pool,
    pl_rows,
    pl_slots,
    pl_tile,
    pool_threads,
    slots,
)

from pylite._core.kernels import conv16, conv_float

cdef enum Kind:
    FLOAT
    BYTES                   # int8 to int8
    SUMS                    # int8 to int32, zero points left out
    HYBRID                  # float times int8
    WORDS                   # int16 times int16 or int8, to int16

cdef enum:
    DEPTH = 1024            # elements of a row that are gathered at a time
    ROUND = 4               # matrices that are packed before they are used
    FEW = 2                 # rows that are not worth packing late columns for
    LINES = 32              # of such columns that a thread takes
    LOCAL = 4096            # bytes of panels that a kernel has room for; ops/batch_matmul.py counts on these two
    LOCAL_SUMS = 256
    ROWS16 = 8              # the tile of WORDS
    COLUMNS16 = 32

cdef struct Matrix:         # strides in elements
    const char *at
    ptrdiff_t row, k, size
    const int64_t *which    # of each product

cdef struct Batch:
    const pl_slots *slots
    pl_tile tile
    Kind kind
    int item, w_item        # bytes
    Matrix x, w             # of w, rows are columns
    char *y
    const int64_t *y_which
    const char *panels
    char *room              # where w is packed to at each run, ROUND matrices at a time; else NULL
    const int32_t *sums
    int32_t *room_sums
    char small[LOCAL]
    int32_t small_sums[LOCAL_SUMS]
    int32_t *bias           # BYTES: what the accumulators start from
    ptrdiff_t products, matrices, m, n, k, deep, wide, panel_bytes
    ptrdiff_t first, base, strips, splits, panels_each      # of the present round
    pl_columns columns
    int x_zero, w_zero, chunk
    const int32_t *mult
    const int32_t *shift
    int8_t *q               # HYBRID: x quantized row by row
    float *gathered         # a copy of x whose rows are contiguous, NULL where they are
    float *row_scales
    int32_t *row_zeros
    const float *scales
    int asymmetric, column_first


cdef class BatchMatmul(Kernel):
    """y[i] = x[x_which[i]] times w[w_which[i]] for each i, in the order of w_which.

    kind: the name of one of those above; x, y, w: their bytes (w None where packed); packed: (panels, column sums) of
    all matrices of w, or None where they are packed at each run: room (uint8) and room_sums (int32) are scratch then,
    or None up to LOCAL; which: int64 (3, products), the matrices of x, of w (ascending) and of y; sizes: (m, n, k);
    adjoints: are x and w
    given transposed, x as (k, m) and w as (n, k); zeros: (x_zero, w_zero, y_zero); multiplier: (m, e) of integers;
    scales: float32 (n,) of a hybrid product, whose scratch is q (int8, x's size), row_scales and row_zeros (one for
    each row of x) and gathered (float32, of x's size, where x is adjoint, else None); bias: int32 scratch;
    w_item: bytes of an element of w where x is int16.
    """
    cdef const uint8_t[::1] x, w
    cdef uint8_t[::1] y, room
    cdef const int64_t[:, ::1] which
    cdef object panels, parameters
    cdef const int32_t[::1] sums
    cdef int32_t[::1] room_sums, bias, row_zeros
    cdef int32_t[:, ::1] rows
    cdef int8_t[::1] q
    cdef const float[::1] scales
    cdef float[::1] row_scales, gathered
    cdef Batch state

    def __init__(self, kind, const uint8_t[::1] x, uint8_t[::1] y, const uint8_t[::1] w, packed, uint8_t[::1] room,
                 int32_t[::1] room_sums, const int64_t[:, ::1] which, sizes, adjoints, zeros=(0, 0, 0),
                 multiplier=(0, 0), int32_t[::1] bias=None, scales=None, q=None, row_scales=None, row_zeros=None,
                 gathered=None, bint asymmetric=False, bint column_first=False, int w_item=1):
        cdef Batch *s = &self.state
        cdef const uint8_t[::1] panels
        cdef int low = -128, zero, i
        self.x, self.y, self.w, self.which, self.room, self.room_sums = x, y, w, which, room, room_sums
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
            if room is None:
                s.room, s.room_sums = s.small, s.small_sums
            else:
                s.room, s.room_sums = <char *>&room[0] if room.shape[0] else NULL, &room_sums[0]
            s.panels = s.room
            s.sums = s.room_sums
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
            self.bias, s.bias = bias, &bias[0]
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


cdef int nothing(Kernel self, pl_pool *pool) noexcept nogil:
    return 0


cdef int batch_matmul(BatchMatmul self, pl_pool *pool) noexcept nogil:
    cdef Batch *s = &self.state
    cdef ptrdiff_t wanted = 4 * pool_threads(pool) if pool_threads(pool) > 1 else 1
    cdef ptrdiff_t end = 0, whole
    s.strips, s.panels_each = (s.m + s.tile.mr - 1) // s.tile.mr, (s.n + s.tile.nr - 1) // s.tile.nr
    if s.kind == HYBRID:
        parallel_for(pool, self.row_scales.shape[0], 1 + 4096 // max(s.k, <ptrdiff_t>1), quantize_rows, s)
    if s.kind == FLOAT and s.room != NULL and s.m <= FEW and s.w.k == 1 and s.x.k == 1:
        s.splits = (s.n + LINES - 1) // LINES
        parallel_for(pool, s.products * s.splits, 1 + 16384 // (LINES * max(s.k, <ptrdiff_t>1)), multiply_lines, s)
        return 0
    s.first = 0
    while s.first < s.products:
        s.base = 0
        end = s.products
        if s.room != NULL:
            s.base = s.w.which[s.first]
            whole = min(<ptrdiff_t>ROUND, s.matrices - s.base)
            end = s.first
            while end < s.products and s.w.which[end] < s.base + whole:
                end += 1
            parallel_for(pool, whole * s.panels_each, 1, pack_panels, s)
        if s.kind == BYTES:
            start_columns(s, s.matrices if s.room == NULL else whole)
        s.splits = max(<ptrdiff_t>1, min(s.panels_each, wanted // (s.strips * (end - s.first))))
        parallel_for(pool, (end - s.first) * s.strips * s.splits, 1, multiply, s)
        s.first = end
    return 0


cdef void multiply_lines(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Few rows of x times late columns of w that lie in lines: not worth packing."""
    cdef Batch *s = <Batch *>ctx
    cdef ptrdiff_t i, j, row, product
    for i in range(begin, end):
        product, j = i // s.splits, i % s.splits * LINES
        for row in range(s.m):
            s.slots.dots_f32(min(<ptrdiff_t>LINES, s.n - j), s.k,
                             <const float *>s.x.at + s.x.which[product] * s.x.size + row * s.x.row,
                             <const float *>s.w.at + s.w.which[product] * s.w.size + j * s.w.row, s.w.row,
                             <float *>s.y + (s.y_which[product] * s.m + row) * s.n + j)


cdef void pack_panels(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Panels of the round's matrices, one behind another, in the form that matmul and conv_float pack."""
    cdef Batch *s = <Batch *>ctx
    cdef ptrdiff_t i, j, k, j0, n, width, matrix, depth = s.k, sj = s.w.row, sk = s.w.k
    cdef const int8_t *bytes
    cdef const int16_t *words
    cdef const uint8_t *w
    cdef uint8_t *panel
    cdef int16_t *h
    for i in range(begin, end):
        matrix, j0 = i // s.panels_each, i % s.panels_each * s.tile.nr
        n = min(<ptrdiff_t>s.tile.nr, s.n - j0)
        width = min(<ptrdiff_t>s.tile.nr, s.wide - j0)
        k = (s.base + matrix) * s.w.size + j0 * sj
        panel = <uint8_t *>s.room + matrix * s.panel_bytes
        if s.kind == FLOAT:
            w, panel = <const uint8_t *>s.w.at + k * 4, panel + j0 * depth * 4
            if n < width:
                memset(panel, 0, width * depth * 4)
            if sk == 1:
                for k in range(depth):
                    for j in range(n):
                        (<float *>panel)[k * width + j] = (<const float *>w)[j * sj + k]
            else:
                s.slots.copy_runs(depth, n * 4, w, sk * 4, panel, width * 4)
        elif s.kind == WORDS:
            h = <int16_t *>panel + j0 * depth
            words, bytes = <const int16_t *>s.w.at + k, <const int8_t *>s.w.at + k
            for j in range(n):
                for k in range(depth):
                    h[j * depth + k] = bytes[j * sj + k * sk] if s.w_item == 1 else words[j * sj + k * sk]
        else:
            pack_bytes(s, <const uint8_t *>s.w.at + k, n, width, panel + j0 * s.deep,
                       s.room_sums + matrix * s.n + j0)


cdef void pack_bytes(const Batch *s, const uint8_t *w, ptrdiff_t n, ptrdiff_t width, uint8_t *panel,
                     int32_t *sums) noexcept nogil:
    """Columns that lie across are turned a piece at a time."""
    cdef uint8_t turned[MAX_NR * DEPTH]
    cdef int32_t part[MAX_NR]
    cdef ptrdiff_t j, k = 0, piece
    memset(panel, 0, width * s.deep)
    if s.w.k == 1:
        s.slots.pack_q8(&s.tile, n, s.k, w, 0, panel, sums)
        return
    for j in range(n):
        sums[j] = 0
    while k < s.k:
        piece = min(<ptrdiff_t>DEPTH, s.k - k)
        s.slots.copy_transposed(1, n, piece, w + k * s.w.k, s.w.k, turned, piece)
        s.slots.pack_q8(&s.tile, n, piece, turned, 0, panel + k * width, part)
        for j in range(n):
            sums[j] += part[j]
        k += piece


cdef void start_columns(Batch *s, ptrdiff_t matrices) noexcept nogil:
    cdef int32_t zero = s.x_zero + s.tile.offset
    cdef ptrdiff_t i, j
    for i in range(matrices):
        for j in range(s.n):
            s.bias[i * s.wide + j] = <int32_t>s.k * s.w_zero * zero - zero * s.sums[i * s.n + j]
        for j in range(s.n, s.wide):
            s.bias[i * s.wide + j] = 0


cdef void quantize_rows(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef Batch *s = <Batch *>ctx
    cdef const float *x
    cdef float *to
    cdef ptrdiff_t i, k
    for i in range(begin, end):
        x = <const float *>s.x.at + i // s.m * s.x.size + i % s.m * s.x.row
        if s.gathered != NULL:
            to = s.gathered + i * s.k
            for k in range(s.k):
                to[k] = x[k * s.x.k]
            x = to
        s.slots.quantize_rows(1, s.k, x, 0, s.asymmetric, 0, <uint8_t *>s.q + i * s.k, s.row_scales + i,
                              s.row_zeros + i)


cdef void multiply(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef Batch *s = <Batch *>ctx
    cdef ptrdiff_t i, product, row, j0, j1, split
    cdef int rows
    for i in range(begin, end):
        split = i % s.splits
        product = s.first + i // s.splits // s.strips
        row = i // s.splits % s.strips * s.tile.mr
        rows = <int>min(<ptrdiff_t>s.tile.mr, s.m - row)
        j0 = split * s.panels_each // s.splits * s.tile.nr
        j1 = min(s.n, (split + 1) * s.panels_each // s.splits * s.tile.nr)
        if s.kind == FLOAT:
            multiply_floats(s, product, row, rows, j0, j1)
        elif s.kind == WORDS:
            multiply_words(s, product, row, rows, j0, j1)
        else:
            multiply_bytes(s, product, row, rows, j0, j1)


cdef void multiply_floats(const Batch *s, ptrdiff_t product, ptrdiff_t row, int rows, ptrdiff_t j0,
                          ptrdiff_t j1) noexcept nogil:
    cdef float strip[MAX_MR * DEPTH]
    cdef const float *x = <const float *>s.x.at + s.x.which[product] * s.x.size + row * s.x.row
    cdef const float *a
    cdef const float *panels = <const float *>(s.panels + (s.w.which[product] - s.base) * s.panel_bytes)
    cdef float *y = <float *>s.y + (s.y_which[product] * s.m + row) * s.n
    cdef pl_rows shape
    cdef ptrdiff_t j, k = 0, piece, width, i
    cdef int r
    while True:
        piece = min(<ptrdiff_t>DEPTH, s.k - k)
        shape.lines, shape.depth, shape.step, shape.pitch = 1, piece, s.x.row, 0
        a = x + k
        if s.x.k != 1:
            for i in range(piece):
                for r in range(rows):
                    strip[r * piece + i] = x[r + (k + i) * s.x.k]
            a, shape.step = strip, piece
        j = j0
        while j < j1:
            width = min(<ptrdiff_t>s.tile.nr, s.wide - j)
            s.slots.gemm_f32(rows, <int>min(width, j1 - j), &shape, a, panels + j * s.k + k * width, k == 0,
                             k + piece == s.k, NULL, -INFINITY, INFINITY, y + j, s.n)
            j += width
        k += piece
        if k >= s.k:
            break


cdef void multiply_words(const Batch *s, ptrdiff_t product, ptrdiff_t row, int rows, ptrdiff_t j0,
                         ptrdiff_t j1) noexcept nogil:
    cdef int16_t strip[ROWS16 * DEPTH]
    cdef int64_t acc[ROWS16 * COLUMNS16]
    cdef const int16_t *x = <const int16_t *>s.x.at + s.x.which[product] * s.x.size + row * s.x.row
    cdef const int16_t *w = <const int16_t *>(s.panels + (s.w.which[product] - s.base) * s.panel_bytes)
    cdef int16_t *y = <int16_t *>s.y + (s.y_which[product] * s.m + row) * s.n
    cdef ptrdiff_t j = j0, k, piece, i
    cdef int r, n
    while j < j1:
        n = <int>min(<ptrdiff_t>COLUMNS16, j1 - j)
        for r in range(ROWS16 * COLUMNS16):
            acc[r] = 0
        k = 0
        while k < s.k:
            piece = min(<ptrdiff_t>DEPTH, s.k - k)
            if j == j0 or piece < s.k:
                for r in range(rows):
                    for i in range(piece):
                        strip[r * piece + i] = x[r * s.x.row + (k + i) * s.x.k]
            s.slots.gemm_s64(rows, n, piece, strip, w + j * s.k + k, s.k, s.chunk, acc, COLUMNS16)
            k += piece
        for r in range(rows):
            s.slots.finish_mbqm64(n, acc + r * COLUMNS16, NULL, s.mult, s.shift, -32768, 32767, y + r * s.n + j)
        j += COLUMNS16


cdef void multiply_bytes(const Batch *s, ptrdiff_t product, ptrdiff_t row, int rows, ptrdiff_t j0,
                         ptrdiff_t j1) noexcept nogil:
    cdef uint8_t strip[2 * MAX_MR * DEPTH + 2 * PL_SLACK]
    cdef pl_rows shape
    cdef uint8_t copies[MAX_MR * DEPTH]
    cdef const uint8_t *src[MAX_MR]
    cdef int32_t acc[MAX_MR * MAX_NR]
    cdef int32_t part[MAX_MR]
    cdef int32_t terms[MAX_MR]
    cdef const uint8_t *x = <const uint8_t *>(s.x.at if s.kind != HYBRID else <const char *>s.q)
    cdef ptrdiff_t matrix = s.w.which[product] - s.base, x_row = s.k if s.kind == HYBRID else s.x.row
    cdef ptrdiff_t at = s.x.which[product] * s.m + row, line = (s.y_which[product] * s.m + row) * s.n
    cdef const char *panels = s.panels + matrix * s.panel_bytes
    cdef pl_columns columns = s.columns
    cdef ptrdiff_t j = j0, k, piece, size, i, width
    cdef int r, n
    x += s.x.which[product] * s.x.size + row * x_row
    columns.bias = s.bias + matrix * s.wide
    while j < j1:
        n = <int>min(<ptrdiff_t>s.tile.nr, j1 - j)
        width = min(<ptrdiff_t>s.tile.nr, s.wide - j)
        memset(acc, 0, rows * MAX_NR * sizeof(int32_t))
        if j == j0 or s.k > DEPTH:
            memset(terms, 0, sizeof(terms))
        k = 0
        while k < s.k:
            piece = min(<ptrdiff_t>DEPTH, s.k - k)
            size = padded(piece, s.tile.ka)
            shape = pl_gathered(size)
            if j == j0 or s.k > DEPTH:
                for r in range(rows):
                    src[r] = x + r * x_row + k
                if s.x.k != 1 and s.kind != HYBRID:
                    for i in range(piece):
                        for r in range(rows):
                            copies[r * DEPTH + i] = x[r + (k + i) * s.x.k]
                    for r in range(rows):
                        src[r] = copies + r * DEPTH
                s.slots.strip_q8(rows, 1, piece, src, 0, strip, size)
                if s.w_zero:
                    s.slots.sums_q8(rows, &shape, piece, strip, part)
                    for r in range(rows):
                        terms[r] -= s.w_zero * part[r]
            if s.kind == BYTES and s.k <= DEPTH:
                s.slots.gemm_q8(rows, n, &shape, strip, panels + j * s.deep, terms if s.w_zero else NULL, &columns, j,
                                <uint8_t *>s.y + line + j, s.n)
            else:
                s.slots.gemm_s32(rows, n, &shape, strip, panels + j * s.deep + k * width, acc, MAX_NR)
            k += piece
        for r in range(rows):
            if s.kind == HYBRID:
                s.slots.finish_hybrid(n, acc + r * MAX_NR, s.row_zeros[at + r] + s.tile.offset,
                                      s.sums + matrix * s.n + j, s.scales + j, s.row_scales[at + r], s.column_first,
                                      NULL, -INFINITY, INFINITY, <float *>s.y + line + r * s.n + j)
            elif s.kind == SUMS:
                for i in range(n):
                    (<int32_t *>s.y)[line + r * s.n + j + i] = (
                        acc[r * MAX_NR + i] - s.tile.offset * s.sums[matrix * s.n + j + i])
            elif s.k > DEPTH or s.k == 0:
                for i in range(n):
                    acc[r * MAX_NR + i] += terms[r]
                s.slots.requantize_q8(n, acc + r * MAX_NR, &columns, j, <uint8_t *>s.y + line + r * s.n + j)
        j += s.tile.nr


def pack_f32(w, matrices, layout):
    """(panels, None) of float32 matrices; layout: see matmul.arranged."""
    return conv_float.pack_f32(w, matrices, layout), None


def pack_s16(w, layout):
    """(rows, None) of 8- or 16-bit matrices as int16 (columns, depth), one behind another."""
    return conv16.pack_s16(w, layout), None
