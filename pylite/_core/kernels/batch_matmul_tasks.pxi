# The rest of batch_matmul.pyx: the tasks that pack operands, and those that multiply.
cdef void multiply_lines(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Few rows of x times columns of w that are lines in memory, which are not packed."""
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
    """Panels of the matrices of the round, as matmul and conv_float pack them."""
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
        panel = <uint8_t *>s.scratch + matrix * s.panel_bytes
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
                       s.scratch_sums + matrix * s.n + j0)


cdef void pack_bytes(const Batch *s, const uint8_t *w, ptrdiff_t n, ptrdiff_t width, uint8_t *panel,
                     int32_t *sums) noexcept nogil:
    """Pack columns of w; those that are not contiguous are transposed a piece at a time."""
    cdef uint8_t turned[MAX_NR * DEPTH]
    cdef int32_t part[MAX_NR]
    cdef ptrdiff_t j, k = 0, piece
    memset(panel, 0, width * s.deep)
    if s.w.k == 1:
        s.slots.pack_b_q8(&s.tile, n, s.k, w, 0, panel, sums)
        return
    for j in range(n):
        sums[j] = 0
    while k < s.k:
        piece = min(<ptrdiff_t>DEPTH, s.k - k)
        s.slots.copy_transposed(1, n, piece, w + k * s.w.k, s.w.k, turned, piece)
        s.slots.pack_b_q8(&s.tile, n, piece, turned, 0, panel + k * width, part)
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
        product = s.first + i // s.splits // s.a_panels
        row = i // s.splits % s.a_panels * s.rows
        rows = <int>min(s.rows, s.m - row)
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
    cdef float a_panel[MAX_MR * DEPTH]
    cdef const float *x = <const float *>s.x.at + s.x.which[product] * s.x.size + row * s.x.row
    cdef const float *a
    cdef const float *panels = <const float *>(s.panels + (s.w.which[product] - s.base) * s.panel_bytes)
    cdef float *y = <float *>s.y + (s.y_which[product] * s.m + row) * s.n
    cdef pl_a_layout shape
    cdef ptrdiff_t j, k = 0, piece, width, i
    cdef int r
    while True:
        piece = min(<ptrdiff_t>DEPTH, s.k - k)
        shape.lines, shape.depth, shape.step, shape.pitch = 1, piece, s.x.row, 0
        a = x + k
        if s.x.k != 1:
            for i in range(piece):
                for r in range(rows):
                    a_panel[r * piece + i] = x[r + (k + i) * s.x.k]
            a, shape.step = a_panel, piece
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
    cdef int16_t a_panel[ROWS16 * DEPTH]
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
                        a_panel[r * piece + i] = x[r * s.x.row + (k + i) * s.x.k]
            s.slots.gemm_s64(rows, n, piece, a_panel, w + j * s.k + k, s.k, s.chunk, acc, COLUMNS16)
            k += piece
        for r in range(rows):
            s.slots.finish_mbqm64(n, acc + r * COLUMNS16, NULL, s.mult, s.shift, -32768, 32767, y + r * s.n + j)
        j += COLUMNS16


cdef void multiply_bytes(const Batch *s, ptrdiff_t product, ptrdiff_t row, int rows, ptrdiff_t j0,
                         ptrdiff_t j1) noexcept nogil:
    cdef uint8_t a_panel[2 * MAX_MR * DEPTH + 2 * PL_SLACK]
    cdef pl_a_layout shape
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
            shape = pl_packed_layout(size)
            if j == j0 or s.k > DEPTH:
                for r in range(rows):
                    src[r] = x + r * x_row + k
                if s.x.k != 1 and s.kind != HYBRID:
                    for i in range(piece):
                        for r in range(rows):
                            copies[r * DEPTH + i] = x[r + (k + i) * s.x.k]
                    for r in range(rows):
                        src[r] = copies + r * DEPTH
                s.slots.pack_a_q8(rows, 1, piece, src, 0, a_panel, size)
                if s.w_zero:
                    s.slots.sums_q8(rows, &shape, piece, a_panel, part)
                    for r in range(rows):
                        terms[r] -= s.w_zero * part[r]
            if s.kind == BYTES and s.k <= DEPTH:
                s.slots.gemm_q8(rows, n, &shape, a_panel, panels + j * s.deep, terms if s.w_zero else NULL, &columns, j,
                                <uint8_t *>s.y + line + j, s.n)
            else:
                s.slots.gemm_s32(rows, n, &shape, a_panel, panels + j * s.deep + k * width, acc, MAX_NR)
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
