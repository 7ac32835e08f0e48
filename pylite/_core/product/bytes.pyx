"""Products of 8-bit rows: where rows come from, the loop over pieces, and how sums are finished.

plan_rows() chooses the source of rows, once for each set of shapes.  At each run, run_product() divides the product
into pieces, and run_pieces() takes some of them: it packs their rows (lines_of() from image lines, pack_taps() by
gathering), unless products read them in place, and calls multiply() or, for several output lines, multiply_lines().
add_sums() is for kernels that finish sums themselves.

The file is longer than others because gcc inlines only what is in the same file.
"""
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

from pylite._core.product.division cimport (
    MAX_MR,
    MAX_NR,
    PARALLEL_PRODUCTS,
    Piece,
    fast_div,
    get_piece,
    divide,
    round_up,
)
from pylite._core.product.lines cimport (
    CACHED_BYTES,
    MAX_PIXELS,
    LineBuffer,
    Lines,
    extend_line_buffer,
    may_read_in_place,
    advance_piece,
    padded_lines,
    pixels_of_piece,
    plan_lines,
)
from pylite._core.product.product cimport HYBRID, LINES, REQUANTIZE, SECTIONS, SUMS, TAPS, Product
from pylite._core.product.window cimport (
    A_PANEL_BYTES,
    SECTION_BYTES,
    MAX_SEGMENTS,
    SHORT_ROW_BYTES,
    Span,
    Window,
    copy_whole_rows,
    copy_row,
    covered,
    gather,
    reach,
    copying_is_faster,
)
from pylite._core.simd cimport (
    PL_SLACK,
    parallel_for,
    pl_a_layout,
    pl_columns,
    pl_fill,
    pl_hybrid,
    pl_packed_layout,
    pl_pool,
    pl_tile,
    slots,
)


cdef struct RowTerms:           # of each row of a piece, for finishing its sums
    int32_t addend[MAX_PIXELS]  # of all its sums; HYBRID: its zero point plus the tile's offset
    float scale[MAX_PIXELS]     # HYBRID: its scale


# ---- planning ------------------------------------------------------------------------------------------------
cdef void set_sizes(Product *p, ptrdiff_t columns, ptrdiff_t groups, ptrdiff_t depth):
    """Set the sizes of p, and the layout of packed rows; columns: of all groups."""
    p.slots, p.tile, p.groups, p.columns, p.depth = slots, slots.q8, groups, columns // groups, depth
    p.padded_depth, p.padded_columns = round_up(depth, p.tile.ka), round_up(p.columns, p.tile.nv)
    p.piece_rows = p.tile.mr
    p.rows.bytes.layout = pl_packed_layout(p.padded_depth)


cdef void plan_rows(Product *p):
    """Choose where rows come from, and set up reading them.  Call it after p.window, p.output and set_sizes()."""
    cdef const Window *w = &p.window
    cdef ptrdiff_t row = p.padded_depth * p.tile.bytes
    cdef int pixels = pixels_of_piece(w, p.output.span, row, p.tile.rows)
    if pixels and row * p.tile.mr <= CACHED_BYTES:
        p.piece_rows, p.rows.source, p.rows.bytes.in_place = pixels, TAPS, False
        return
    if plan_in_place(p):
        return
    if plan_lines(&p.rows.lines, w, &p.output, &p.tile, 1):
        p.rows.source, p.piece_rows, p.rows.bytes.layout = LINES, p.rows.lines.pixels, p.rows.lines.layout
        p.padded_depth = p.rows.bytes.layout.lines * p.rows.bytes.layout.depth
        p.rows.bytes.in_place = (p.groups == 1 and w.direct and w.sw == w.length and takes_bytes(p)
                                 and p.rows.lines.filter_line % p.tile.ka == 0)
    else:
        gather_rows(p)


cdef inline bint takes_bytes(const Product *p):
    """Do micro-kernels take the image's bytes as they are?"""
    return p.tile.bytes == 1 and (p.rows.bytes.flip ^ p.tile.offset) == 0


cdef bint plan_in_place(Product *p):
    """Plan to read rows from the image itself; False if a window needs padding or micro-kernels need other bytes."""
    cdef const Window *w = &p.window
    cdef ptrdiff_t line = w.fw * w.length, height = reach(w.fh, w.dilation_h)
    cdef bint fills_tiles = p.tile.rows > 0 and p.tile.rows <= w.ow <= MAX_PIXELS
    # A line of a filter covers consecutive bytes, in whole steps of a micro-kernel.
    cdef bint lines_are_runs = w.sw == w.length and line % p.tile.ka == 0 and (w.dilation_w == 1 or w.fw == 1)
    cdef bint needs_padding = (w.pad_h or w.pad_w or covered(w.oh, w.stride_h, height) > w.h
                               or covered(w.ow, w.stride_w, w.fw) > w.w)
    if (p.groups > 1 or w.direct or p.depth == 0 or needs_padding or not fills_tiles or not lines_are_runs
            or not takes_bytes(p)):
        return False
    p.rows.bytes.layout = pl_a_layout(w.fh, line, w.stride_w * w.sw, w.dilation_h * w.sh)
    p.rows.lines.filter_line, p.rows.lines.line_pitch = line, w.sh
    p.rows.lines.passes, p.rows.lines.filter_step = 1, w.dilation_h
    # Lines that are multiplied together should stay in the first-level cache, but must suffice to fill a tile.
    p.rows.lines.ahead = max((CACHED_BYTES // max(w.sh, <ptrdiff_t>1) - height) // w.stride_h + 1,
                             <ptrdiff_t>(p.tile.rows if w.ow % p.tile.rows else 1))
    p.output.lines = p.output.span * p.output.lines // w.ow
    p.output.span = p.piece_rows = w.ow
    p.rows.source, p.rows.bytes.in_place, p.padded_depth = LINES, True, w.fh * line
    return True


cdef inline const uint8_t *line_in_place(const Product *p, ptrdiff_t position, ptrdiff_t pixels, ptrdiff_t output_lines,
                                         LineBuffer *buffer) noexcept nogil:
    """The row of output pixel `position` in the image, after plan_in_place(); sets buffer.ready."""
    cdef const Window *w = &p.window
    cdef ptrdiff_t row = fast_div(position, w.ow), image = fast_div(row, w.oh), y = row - image * w.oh
    buffer.ready = 1 if pixels < w.ow else min(min(output_lines, w.oh - y), p.rows.lines.ahead)
    return w.x + image * w.sn + y * w.stride_h * w.sh + (position - row * w.ow) * w.stride_w * w.sw


cdef void gather_rows(Product *p):
    """Plan to gather the taps of each row, or to read rows in place if they are in the form of an A panel."""
    cdef const Window *w = &p.window
    p.rows.source = TAPS
    if (p.depth == 0 or p.padded_depth * p.tile.bytes * p.tile.mr > A_PANEL_BYTES
            or w.fh * w.fw * p.tile.mr > MAX_SEGMENTS):
        p.rows.source = SECTIONS
    p.rows.bytes.in_place = p.groups == 1 and w.direct and w.sw == p.depth == p.padded_depth and takes_bytes(p)


cdef void use_single_row(Product *p):
    """If the product is small and has a single row, of consecutive bytes, let the caller's thread multiply it."""
    cdef const Window *w = &p.window
    cdef bint is_small = p.padded_depth <= MAX_ROW and p.depth * p.columns < PARALLEL_PRODUCTS
    cdef bint line_is_run = w.fw == 1 or (w.dilation_w == 1 and w.sw == w.length and w.fw <= w.w)
    cdef bint lines_adjoin = w.fh == 1 or (w.dilation_h == 1 and w.sh == w.fw * w.length and w.fh <= w.h)
    cdef bint is_padded = w.pad_h or w.pad_w or padded_lines(&p.tile, w.fh, w.fw * w.length)
    if (p.output.span * p.output.lines == 1 and p.groups == 1 and is_small and line_is_run and lines_adjoin
            and not is_padded):
        p.rows.bytes.single = w.x


# ---- rows ----------------------------------------------------------------------------------------------------
cdef uint8_t *pack_pixels(const Product *p, const uint8_t *x, ptrdiff_t step, ptrdiff_t n,
                          uint8_t *to) noexcept nogil:
    """Pack n pixels of x, `step` bytes apart (0: one pixel repeated), in the form of A panels; returns their end."""
    cdef ptrdiff_t c = p.window.length, i, k
    cdef uint8_t mask = <uint8_t>(p.rows.bytes.flip ^ p.tile.offset)
    cdef uint64_t word, mask_word = mask * <uint64_t>0x0101010101010101
    if step == c:
        p.slots.pack_a_q8(1, 1, n * c, &x, p.rows.bytes.flip, to, n * c)
    elif p.tile.bytes == 1 and c < 8:       # a call takes longer than these bytes
        for i in range(n):
            for k in range(c):
                to[i * c + k] = x[i * step + k] ^ mask
    elif p.tile.bytes == 1 and c % 8 == 0 and c <= 64:      # and than these words
        for i in range(n):
            for k in range(0, c, 8):
                memcpy(&word, x + i * step + k, 8)
                word ^= mask_word
                memcpy(to + i * c + k, &word, 8)
    else:
        for i in range(n):
            p.slots.pack_a_q8(1, 1, c, &x, p.rows.bytes.flip, to + i * c * p.tile.bytes, c)
            x += step
    return to + n * c * p.tile.bytes


cdef const uint8_t *lines_of(const Product *p, const Piece *piece, ptrdiff_t output_lines, uint8_t *a_panel,
                             LineBuffer *buffer) noexcept nogil:
    """The image lines under the windows of a piece, packed in a_panel or in place.

    output_lines: how many the caller will request, this one included.
    """
    cdef ptrdiff_t position = piece.position
    if p.rows.bytes.in_place and not p.window.direct:
        return line_in_place(p, position, piece.rows, output_lines, buffer)
    if p.rows.bytes.in_place and may_read_in_place(position, piece.rows, p.rows.bytes.total):
        return p.window.x + position * p.window.sw
    if p.window.direct:
        pack_pixels(p, p.window.x + position * p.window.sw + piece.group * p.window.length, p.window.sw, piece.rows,
                    a_panel)
        return a_panel
    return pack_lines(p, piece, output_lines, a_panel, buffer)


cdef const uint8_t *pack_lines(const Product *p, const Piece *piece, ptrdiff_t output_lines, uint8_t *a_panel,
                               LineBuffer *buffer) noexcept nogil:
    """lines_of(), if lines have padding: pack the lines that the buffer in a_panel lacks."""
    cdef const Lines *plan = &p.rows.lines
    cdef Span span
    cdef uint8_t *to = a_panel
    cdef const uint8_t *zero
    cdef ptrdiff_t n, first, y, iy, c = p.window.length, step = fast_div(p.window.dilation_h, plan.filter_step)
    cdef int border         # the packed byte of pixels outside the image
    cdef bint outside
    first = extend_line_buffer(plan, &p.window, piece, output_lines, buffer)
    y, iy, span = buffer.unpacked, buffer.iy, buffer.span
    zero = p.window.zero + buffer.image * p.window.zero_step
    border = zero[0] ^ p.rows.bytes.flip ^ p.tile.offset
    while y < buffer.lines:
        to = a_panel + y * plan.line_pitch * p.tile.bytes
        outside = span.x == NULL or not 0 <= iy < p.window.h
        n = 1
        if p.tile.bytes > 1:
            to = pack_pixels(p, zero, 0, span.before + span.inside + span.after if outside else span.before, to)
            if not outside:
                to = pack_pixels(p, span.x + iy * p.window.sh, p.window.sw, span.inside, to)
                pack_pixels(p, zero, 0, span.after, to)
        elif outside:
            pl_fill(to, border, (span.before + span.inside + span.after) * c)
        elif p.window.sw == c and buffer.lines - y > 1 and step == 1:
            n = min(buffer.lines - y, p.window.h - iy)
            p.slots.pack_lines_q8(n, span.before * c, span.inside * c, span.after * c, span.x + iy * p.window.sh,
                                  p.window.sh, p.rows.bytes.flip ^ p.tile.offset, border, to, plan.line_pitch)
        else:       # the next line overwrites what pl_fill writes beyond its end
            pl_fill(to, border, span.before * c)
            to = pack_pixels(p, span.x + iy * p.window.sh, p.window.sw, span.inside, to + span.before * c)
            pl_fill(to, border, span.after * c)
        iy += n * step
        y += n
    return a_panel + first * plan.line_pitch * p.tile.bytes


cdef const uint8_t *pack_taps(const Product *p, const Piece *piece, uint8_t *a_panel) noexcept nogil:
    """The rows of a piece, gathered into a_panel or in place."""
    cdef uint8_t copies[MAX_MR * SHORT_ROW_BYTES]
    cdef const uint8_t *src[MAX_SEGMENTS]
    cdef ptrdiff_t length = p.depth
    cdef int segments = 1
    if p.rows.bytes.in_place and may_read_in_place(piece.position, piece.rows, p.rows.bytes.total):
        return p.window.x + piece.position * p.window.sw
    if p.groups == 1 and copying_is_faster(&p.window):
        copy_whole_rows(&p.window, piece.position, piece.rows, copies, src)
    else:
        segments = gather(&p.window, piece.position, piece.rows, piece.group * p.window.length, src, &length)
    p.slots.pack_a_q8(piece.rows, segments, length, src, p.rows.bytes.flip, a_panel, p.padded_depth)
    return a_panel


cdef void add_sums(const Product *p, const RowBlock *rows, const ColumnBlock *columns, int32_t *acc,
                   int32_t *sums) noexcept nogil:
    """acc (rows, MAX_NR) = rows times columns, a section of the depth at a time.

    sums: set to the sum of each row's elements, the tile's offset included; or NULL.
    """
    cdef pl_a_layout shape
    cdef uint8_t a_panel[2 * MAX_MR * SECTION_BYTES + 2 * PL_SLACK]
    cdef uint8_t copies[MAX_MR * SECTION_BYTES]
    cdef const uint8_t *src[MAX_MR]
    cdef const uint8_t *packed
    cdef int32_t part[MAX_MR]
    cdef const pl_tile *t = &p.tile
    cdef ptrdiff_t k = 0, section, size, c, width
    cdef int r, count = rows.count, n = columns.count
    memset(acc, 0, count * MAX_NR * sizeof(int32_t))
    if sums != NULL:
        memset(sums, 0, count * sizeof(int32_t))
    while k < p.depth:
        section = min(<ptrdiff_t>SECTION_BYTES, p.depth - k)
        size = round_up(section, t.ka)
        for r in range(count):
            src[r] = rows.x + r * rows.step + k
            if rows.x == NULL:
                src[r] = &copies[r * SECTION_BYTES]
                copy_row(&p.window, rows.position + r, rows.group * p.window.length, k, k + section,
                         &copies[r * SECTION_BYTES])
        packed = src[0]
        if count > 1 or t.bytes > 1 or (p.rows.bytes.flip ^ t.offset) or size != section:
            p.slots.pack_a_q8(count, 1, section, src, p.rows.bytes.flip, a_panel, size)
            packed = a_panel
        shape = pl_packed_layout(size)
        c = 0
        while c < n:
            width = min(<ptrdiff_t>t.nr, p.padded_columns - columns.first - c)
            if count == 1 and t.any_n and size == p.padded_depth:       # all columns at once
                width = n
            p.slots.gemm_s32(count, <int>min(width, n - c), &shape, packed,
                             columns.panels + (columns.first + c) * p.padded_depth + k * width, acc + c, MAX_NR)
            c += width
        if sums != NULL:
            p.slots.sums_q8(count, &shape, section, packed, part)
            for r in range(count):
                sums[r] += part[r]
        k += section


# ---- pieces --------------------------------------------------------------------------------------------------
cdef int run_product(Product *p, pl_pool *pool) noexcept nogil:
    """Compute the planned product."""
    if p.rows.bytes.single != NULL:
        multiply_row(p)
    else:
        parallel_for(pool, divide(&p.division, &p.output, p.piece_rows, p.tile.nr, p.columns, p.groups, pool), 1,
                     run_pieces, p)
    return 0


cdef void multiply_row(const Product *p) noexcept nogil:
    """Multiply the single row on this thread."""
    cdef uint8_t a_panel[2 * MAX_ROW + 2 * PL_SLACK]
    cdef const uint8_t *x = p.rows.bytes.single
    cdef int32_t term = 0
    cdef ptrdiff_t j = 0, most = p.columns if p.tile.any_n else p.tile.nr
    if p.tile.bytes > 1 or p.padded_depth != p.depth or p.rows.bytes.flip ^ p.tile.offset:
        p.slots.pack_a_q8(1, 1, p.depth, &x, p.rows.bytes.flip, a_panel, p.padded_depth)
        x = a_panel
    if p.w_zero:
        p.slots.sums_q8(1, &p.rows.bytes.layout, p.depth, x, &term)
        term *= -p.w_zero
    while j < p.columns:
        p.slots.gemm_q8(1, <int>min(most, p.columns - j), &p.rows.bytes.layout, x, p.panels + j * p.padded_depth,
                        &term if p.w_zero else NULL, &p.requantize, j, <uint8_t *>p.output.y + j, 0)
        j += most


cdef void run_pieces(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Compute pieces begin to end - 1 of the Product `ctx`.

    Pieces that share their rows follow each other, so the rows are packed once.  If lines are packed ahead, the
    following pieces read them from the line buffer.
    """
    cdef const Product *p = <const Product *>ctx
    cdef uint8_t a_panel[A_PANEL_BYTES + 2 * PL_SLACK]
    cdef const uint8_t *rows = NULL
    cdef RowTerms terms
    cdef Piece piece
    cdef LineBuffer buffer
    cdef ptrdiff_t i = begin, packed = -1, lines, step = p.window.stride_h * p.rows.lines.line_pitch * p.tile.bytes
    buffer.output_line = buffer.lines = buffer.group = 0
    buffer.ready = 1
    while i < end:
        get_piece(&p.division, &p.output, p.pairs, p.columns, i, &piece)
        if fast_div(i, p.division.splits) != packed:
            packed = fast_div(i, p.division.splits)
            buffer.ready = 1
            if p.rows.source == LINES:
                rows = lines_of(p, &piece, fast_div(end - i - 1, p.division.splits) + 1, a_panel, &buffer)
            elif p.rows.source == TAPS:
                rows = pack_taps(p, &piece, a_panel)
            if p.finish == HYBRID:
                load_row_scales(p, &piece, p.tile.offset, terms.addend, terms.scale)
            elif p.w_zero and rows != NULL:
                set_zero_point_terms(p, &piece, rows, &terms)
        while True:
            lines = lines_at_once(p, buffer.ready)
            if lines > 1:
                multiply_lines(p, &piece, rows, lines, &terms)
            else:
                multiply(p, &piece, rows, &terms)
            i += lines
            if not advance_piece(&p.division, &p.output, lines, &buffer, &piece):
                break
            rows += lines * step
            if p.w_zero:
                set_zero_point_terms(p, &piece, rows, &terms)


cdef void load_row_scales(const Product *p, const Piece *piece, int offset, int32_t *terms,
                          float *scales) noexcept nogil:
    """Set `scales` to the scale of each row of a piece, and `terms` to its zero point plus `offset`."""
    cdef ptrdiff_t image = 0
    cdef int r
    for r in range(piece.rows):
        if p.rows.bytes.quantized.count > 1:
            image = (piece.position + r) // (p.window.oh * p.window.ow)
        terms[r] = p.rows.bytes.quantized.zeros[image] + offset
        scales[r] = p.rows.bytes.quantized.scales[image]


cdef void set_zero_point_terms(const Product *p, const Piece *piece, const uint8_t *rows,
                               RowTerms *terms) noexcept nogil:
    """Set the terms for the weights' zero point: -w_zero times the sum of each row's elements."""
    cdef ptrdiff_t length = p.rows.lines.filter_line if p.rows.source == LINES else p.depth
    cdef int r
    p.slots.sums_q8(piece.rows, &p.rows.bytes.layout, length, rows, terms.addend)
    for r in range(piece.rows):
        terms.addend[r] *= -p.w_zero


cdef void multiply(const Product *p, const Piece *piece, const uint8_t *rows, RowTerms *terms) noexcept nogil:
    """Multiply the rows of a piece by its columns.  rows: NULL if the source is SECTIONS."""
    cdef ColumnBlock block
    cdef pl_columns columns
    cdef pl_hybrid hybrid
    cdef const pl_columns *q = &p.requantize
    cdef const pl_hybrid *h = &p.hybrid
    cdef const uint8_t *panels = p.panels + piece.matrix * p.padded_columns * p.padded_depth
    cdef bint whole = rows != NULL and (p.finish == REQUANTIZE or p.finish == HYBRID)
    cdef ptrdiff_t j = piece.begin, most = p.columns if whole and piece.rows == 1 and p.tile.any_n else p.tile.nr
    cdef ptrdiff_t column = piece.group * p.columns, padded_column = piece.group * p.padded_columns
    cdef int n
    if p.pairs != NULL:
        columns, hybrid = p.requantize, p.hybrid
        columns.bias += piece.matrix * p.padded_columns
        hybrid.sums += piece.matrix * p.columns
        q, h = &columns, &hybrid
    while j < piece.end:
        n = <int>min(most, piece.end - j)
        if not whole:
            block = ColumnBlock(j, n, panels, q, h)
            multiply_and_finish(p, piece, rows, &block, terms)
        elif p.finish == REQUANTIZE:
            p.slots.gemm_q8(piece.rows, n, &p.rows.bytes.layout, rows, panels + j * p.padded_depth,
                            terms.addend if p.w_zero else NULL, q, padded_column + j,
                            <uint8_t *>piece.y + column + j, p.output.sw)
        else:
            p.slots.gemm_hybrid(p.slots, piece.rows, n, &p.rows.bytes.layout, rows, panels + j * p.padded_depth,
                                terms.addend, terms.scale, h, column + j, <float *>piece.y + column + j,
                                p.output.sw // sizeof(float))
        j += most


cdef inline ptrdiff_t lines_at_once(const Product *p, ptrdiff_t ready) noexcept nogil:
    """How many of the `ready` output lines multiply_lines() can take at once; 1: use multiply()."""
    if ready <= 1 or p.tile.rows == 0 or p.w_zero or p.division.splits > 1 or p.finish not in (REQUANTIZE, HYBRID):
        return 1
    return min(ready, <ptrdiff_t>MAX_PIXELS)


cdef void multiply_lines(const Product *p, const Piece *piece, const uint8_t *rows, ptrdiff_t lines,
                         RowTerms *terms) noexcept nogil:
    """Multiply `lines` output lines of one image by all columns, one panel at a time.

    The last pixels of a line may not fill a tile.  Tiles for them take pixels from the same column of several lines.
    """
    cdef pl_a_layout vertical = p.rows.bytes.layout   # rows of pixels below one another
    cdef ptrdiff_t rest = piece.rows % p.tile.rows, down = lines, j = 0, i
    vertical.step = p.window.stride_h * p.rows.lines.line_pitch
    if lines % p.tile.rows <= rest:         # then the last lines have fewer partial tiles if they include the rest
        down -= lines % p.tile.rows
    for i in range(piece.rows, lines if p.finish == HYBRID else 0):      # all rows of an image share its scale
        terms.addend[i], terms.scale[i] = terms.addend[0], terms.scale[0]
    while j < p.columns:
        for i in range(lines):
            multiply_panel(p, piece, &p.rows.bytes.layout, piece.rows - <int>(rest if i < down else 0), j,
                           rows + i * vertical.step * p.tile.bytes, terms, piece.y + i * p.output.sh, p.output.sw)
        for i in range(piece.rows - rest, piece.rows):
            multiply_panel(p, piece, &vertical, <int>down, j, rows + i * p.rows.bytes.layout.step * p.tile.bytes, terms,
                           piece.y + i * p.output.sw, p.output.sh)
        j += p.tile.nr


cdef inline void multiply_panel(const Product *p, const Piece *piece, const pl_a_layout *shape, int count, ptrdiff_t j,
                                const uint8_t *rows, const RowTerms *terms, char *y,
                                ptrdiff_t step) noexcept nogil:
    """Multiply `count` rows by the panel at column j of the group; y: the results of the first row, rows `step` bytes
    apart."""
    cdef int n = <int>min(<ptrdiff_t>p.tile.nr, p.columns - j)
    cdef const uint8_t *panel = p.panels + (piece.matrix * p.padded_columns + j) * p.padded_depth
    cdef ptrdiff_t column = piece.group * p.columns + j
    if count == 0:
        return
    if p.finish == REQUANTIZE:
        p.slots.gemm_q8(count, n, shape, rows, panel, NULL, &p.requantize, piece.group * p.padded_columns + j,
                        <uint8_t *>y + column, step)
    else:
        p.slots.gemm_hybrid(p.slots, count, n, shape, rows, panel, terms.addend, terms.scale, &p.hybrid, column,
                            <float *>y + column, step // sizeof(float))


cdef void multiply_and_finish(const Product *p, const Piece *piece, const uint8_t *rows, const ColumnBlock *block,
                              RowTerms *terms) noexcept nogil:
    """Compute the sums of a block of columns, then finish them row by row.  rows: NULL if the source is SECTIONS."""
    cdef int32_t acc[MAX_MR * MAX_NR]
    cdef RowBlock source
    cdef const pl_hybrid *h = block.hybrid
    cdef ptrdiff_t column = piece.group * p.columns + block.first
    cdef int r, n = block.count
    if rows != NULL:
        memset(acc, 0, piece.rows * sizeof(int32_t) * MAX_NR)
        p.slots.gemm_s32(piece.rows, n, &p.rows.bytes.layout, rows, block.panels + block.first * p.padded_depth, acc,
                         MAX_NR)
    else:
        source = RowBlock(piece.rows, NULL, p.window.sw, piece.position, piece.group)
        if p.window.direct:
            source.x = p.window.x + piece.position * p.window.sw + piece.group * p.window.length
        add_sums(p, &source, block, acc, terms.addend if p.w_zero else NULL)
        if p.w_zero:
            for r in range(piece.rows):
                terms.addend[r] *= -p.w_zero
    for r in range(piece.rows):
        if p.finish == HYBRID:
            p.slots.finish_hybrid(n, &acc[r * MAX_NR], terms.addend[r], h.sums + column, h.scale + column,
                                  terms.scale[r], h.column_first, h.bias + column if h.bias != NULL else NULL, h.low,
                                  h.high, <float *>(piece.y + r * p.output.sw) + column)
        else:
            finish_row(p, piece, block, &acc[r * MAX_NR], terms.addend[r] if p.w_zero else 0, piece.y + r * p.output.sw)


cdef void finish_row(const Product *p, const Piece *piece, const ColumnBlock *block, int32_t *acc, int32_t term,
                     char *y) noexcept nogil:
    """Finish a block of columns of one row from its sums `acc`; term: see set_zero_point_terms(); y: the row's results.

    Not for HYBRID.
    """
    cdef int64_t sums64[MAX_NR]
    cdef const pl_columns *q = block.requantize
    cdef ptrdiff_t j = block.first
    cdef const int32_t *sums = p.sums + piece.matrix * p.columns + j
    cdef int c, n = block.count
    if p.finish == REQUANTIZE:
        if term:
            for c in range(n):
                acc[c] += term
        p.slots.requantize_q8(n, acc, q, piece.group * p.padded_columns + j, <uint8_t *>y + piece.group * p.columns + j)
    elif p.finish == SUMS:
        for c in range(n):
            (<int32_t *>y)[j + c] = acc[c] - p.tile.offset * sums[c]
    elif p.y_item == 1:
        p.slots.finish_f64_q8(n, acc, p.float64.start + j, term, p.float64.scales + j, q.zero_point, q.low, q.high,
                              q.flip, <uint8_t *>y + j)
    else:
        for c in range(n):
            sums64[c] = acc[c] + p.float64.start[j + c] + term
        p.slots.finish_f64(n, sums64, NULL, False, p.float64.scales + j, q.zero_point, q.low, q.high,
                           <int16_t *>y + j)
