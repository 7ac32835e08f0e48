"""Products of float32 rows: where rows come from, and the loop over pieces.

A product that is computed in float16 converts rows of float32 while it packs them, and so never reads them in place.
"""
import numpy as np

from libc.stdint cimport uint8_t, uint16_t
from libc.string cimport memcpy, memset

from pylite._core.product.division cimport Piece, divide, fast_div, get_piece, parallel_pool, round_up
from pylite._core.product.lines cimport LineBuffer, advance_piece, extend_line_buffer, pixels_of_piece, plan_lines
from pylite._core.product.product cimport IN_PLACE, LINES, TAPS, Product
from pylite._core.product.window cimport (
    A_PANEL_BYTES,
    MAX_SEGMENTS,
    Span,
    Window,
    copy_row,
    gather,
    pixel_at,
    sees_only_pixels,
    taps_of,
)
from pylite._core.simd cimport PL_SLACK, parallel_for, pl_a_layout, pl_fill, pl_packed_layout, pl_pool, pl_tile, slots

cdef enum:
    SECTION_DEPTH = 768     # most elements of a row in a section: MAX_MR such rows stay in the first-level cache
    SHARED_BYTES = 1 << 19  # bytes of the panels in a block of columns, which all pieces read one after the other
    PANEL_BYTES = 16384     # bytes of a panel that stay in the first-level cache together with a tile's rows
    SINGLE_PIECE = 64       # most pixels that form a single piece, so that weights are read once
    COPIED_PRODUCTS = 256   # products that take as long as copying a row
    HALF_ROWS = 8192        # elements of the rows that a piece converts to float16 at once
    HALF_TILES = 8          # most tiles of these rows


cdef rounded(numbers):
    """float32 numbers, rounded to float16 values; None for None."""
    with np.errstate(over="ignore"):
        return None if numbers is None else np.asarray(numbers, np.float32).astype(np.float16).astype(np.float32)


# ---- planning ------------------------------------------------------------------------------------------------
cdef void set_sizes(Product *p, ptrdiff_t columns, ptrdiff_t groups, ptrdiff_t depth):
    """Set the sizes of p, for images and results of float32; columns: of all groups; p.half is set."""
    p.slots, p.groups, p.columns, p.depth = slots, groups, columns // groups, depth
    p.tile = slots.f16 if p.half else slots.f32
    p.piece_rows = p.tile.mr
    p.padded_columns = round_up(p.columns, p.tile.nv)
    p.x_item = p.y_item = 4
    p.rows.floats.section = HALF_DEPTH if p.half else SECTION_DEPTH


cdef void plan_rows(Product *p):
    """Choose where rows come from, and how many a piece has.

    Call it after p.window, p.output and set_sizes() are set.
    """
    cdef const Window *w = &p.window
    cdef bint converts = p.half and p.x_item == 4       # are rows converted to float16 while they are packed?
    cdef int pixels = pixels_of_piece(w, p.output.span, p.depth * p.tile.bytes, p.tile.mr)
    plan_rows_in_place(p)
    if pixels and not converts and lines_fill_tiles(p):
        p.output.lines, p.output.span = p.output.lines * p.output.span // w.ow, w.ow
        pixels = pixels_of_piece(w, w.ow, p.depth * p.tile.bytes, p.tile.mr)
    elif converts or not w.direct:
        p.rows.source = TAPS
    if pixels:
        p.piece_rows = pixels
    elif gathers_sections(p):
        p.rows.floats.section = PANEL_BYTES // (p.tile.nr * p.tile.bytes)
        p.piece_rows = <int>min(section_rows(p), p.output.span)
    elif converts and w.direct:     # weights are read once for as many rows as the first-level cache holds
        p.piece_rows *= max(1, min(<ptrdiff_t>HALF_TILES, HALF_ROWS // (p.tile.mr * max(p.depth, 1))))
    elif ((p.depth <= p.rows.floats.section or not w.direct)
            and plan_lines(&p.rows.lines, w, &p.output, &p.tile, p.x_item, not p.half)):
        take_lines(p)
    elif not (w.direct or p.half) and p.columns <= p.tile.nv:   # tiles of one vector may have more rows
        p.piece_rows = <int>min(<ptrdiff_t>(2 * p.tile.mr), section_rows(p))
    fit_panel(p)


cdef ptrdiff_t section_rows(const Product *p) noexcept:
    """Rows of which the largest A panel holds a section."""
    return A_PANEL_BYTES // (p.rows.floats.section * p.tile.bytes)


cdef void take_lines(Product *p) noexcept:
    """Read the rows from the planned lines, which are the rows themselves if the window is direct."""
    p.piece_rows = p.rows.lines.pixels
    if not p.window.direct:
        p.rows.source, p.rows.floats.single_flag = LINES, 0
    elif p.output.span <= SINGLE_PIECE:
        p.piece_rows = <int>p.output.span
    elif 0 < p.columns % p.tile.nr <= p.tile.nv:        # a panel of one vector, whose tiles have more rows
        p.piece_rows = max(p.piece_rows, 2 * p.tile.mr)


cdef bint gathers_sections(const Product *p) noexcept:
    """Gather the rows of many pixels a section at a time, so that the panel's part stays in the first-level cache?

    This is faster if an output line is longer than a tile but fills two badly, and if panels are deep: each piece of
    lines would read whole panels from the second-level cache.  It was not measured with tiles of more than six rows.
    """
    return (not p.window.direct and not p.half and p.groups == 1 and p.tile.mr < p.window.ow < min(2 * p.tile.mr, 12)
            and p.depth * p.tile.nr * p.tile.bytes > 2 * PANEL_BYTES)


cdef void fit_panel(Product *p):
    """Limit piece_rows so that the rows of a piece fit into an A panel of float16; a longer row comes in sections."""
    if p.half and p.rows.source == TAPS:
        p.piece_rows = min(p.piece_rows, <int>(HALF_DEPTH // max(min(p.depth, <ptrdiff_t>HALF_DEPTH), 1)))


cdef void plan_rows_in_place(Product *p):
    """Read rows from memory: each pixel that a filter of one tap sees is one; those of a line are equally far apart."""
    p.rows.floats.single_flag = 2 if p.output.span * p.output.lines == 1 else 0
    p.rows.source, p.rows.floats.step = IN_PLACE, p.window.stride_w * p.window.sw // p.x_item


cdef bint lines_fill_tiles(const Product *p) noexcept:
    """May rows be read in place for each output line by itself, rather than be copied so that all fill tiles?

    For a filter of one tap with a stride.  The rows that tiles lack must take less time than copying.
    """
    cdef const Window *w = &p.window
    return (sees_only_pixels(w)
            and (round_up(w.ow, p.tile.mr) - w.ow) * p.depth * p.columns <= COPIED_PRODUCTS * w.ow)


cdef void pack_panels(const pl_tile *t, const uint8_t *w, ptrdiff_t columns, ptrdiff_t depth,
                      uint8_t *panels) noexcept nogil:
    """Pack w (columns, depth), of t.bytes each, into panels [k][column] of tile t, padded with columns of zeros."""
    cdef ptrdiff_t j0 = 0, n, width
    while j0 < columns:
        n, width = min(<ptrdiff_t>t.nr, columns - j0), min(<ptrdiff_t>t.nr, round_up(columns - j0, t.nv))
        if n < width:
            memset(panels, 0, width * depth * t.bytes)
        slots.copy_transposed(t.bytes, depth, n, w, depth * t.bytes, panels, width * t.bytes)
        panels += width * depth * t.bytes
        w += n * depth * t.bytes
        j0 += t.nr


# ---- rows ----------------------------------------------------------------------------------------------------
cdef inline void copy_few(char *to, const uint8_t *x, ptrdiff_t size) noexcept nogil:
    """Copy one to four floats; a call of memcpy takes longer."""
    if size == 4:
        memcpy(to, x, 4)
    else:
        memcpy(to, x, 8)
        memcpy(to + size - 8, x + size - 8, 8)


cdef const char *pack_lines(const Product *p, const Piece *piece, ptrdiff_t output_lines, char *a_panel,
                            LineBuffer *buffer) noexcept nogil:
    """Pack the image lines under the windows of a piece; returns the first one.

    output_lines: how many the caller will request, this one included.
    """
    cdef ptrdiff_t c = elements(p.window.length, p.x_item), size = c * p.tile.bytes, i
    cdef ptrdiff_t step = fast_div(p.window.dilation_h, p.rows.lines.filter_step)
    cdef ptrdiff_t first = extend_line_buffer(&p.rows.lines, &p.window, piece, output_lines, buffer)
    cdef ptrdiff_t y = buffer.unpacked, iz = buffer.iz, iy = buffer.iy
    cdef Span span = buffer.span
    cdef char *to
    cdef const uint8_t *x
    while y < buffer.lines:
        to = a_panel + y * p.rows.lines.line_pitch * p.tile.bytes
        if span.x == NULL or not 0 <= iy < p.window.h or not 0 <= iz < p.window.d:
            pl_fill(to, 0, (span.before + span.inside + span.after) * size)
        else:       # the next line overwrites what pl_fill writes beyond its end
            x = span.x + iz * p.window.sd + iy * p.window.sh
            pl_fill(to, 0, span.before * size)
            to += span.before * size
            if p.window.sw == p.window.length:
                copy_elements(p, to, x, span.inside * c)
            elif size <= 16 and not p.half:
                for i in range(span.inside):
                    copy_few(to + i * size, x + i * p.window.sw, size)
            else:
                for i in range(span.inside):
                    copy_elements(p, to + i * size, x + i * p.window.sw, c)
            pl_fill(to + span.inside * size, 0, span.after * size)
        iy += step
        y += 1
        if p.window.fd > 1 and y % p.window.fh == 0:        # on to the next plane of the volume
            iy -= p.window.fh * step
            iz += p.window.dilation_d
    return a_panel + first * p.rows.lines.line_pitch * p.tile.bytes


cdef const char *pack_section(const Product *p, const Piece *piece, ptrdiff_t k, ptrdiff_t section, char *a_panel,
                              pl_a_layout *shape) noexcept nogil:
    """Elements k to k + section - 1 of a piece's rows, packed in a_panel or in place; sets their layout."""
    cdef const uint8_t *src[MAX_SEGMENTS]
    cdef ptrdiff_t offset = piece.group * p.window.length, length, size = section * p.tile.bytes
    cdef float row[SECTION_DEPTH]       # of float32, until it is converted
    cdef ptrdiff_t done, part
    cdef char *to = a_panel
    cdef int r, n, segments
    shape[0] = pl_packed_layout(section)
    if p.rows.source == IN_PLACE:
        shape.step = p.rows.floats.step
        return <const char *>pixel_at(&p.window, piece.position) + offset + k * p.x_item
    if p.window.direct and p.window.sw == p.window.length and section == p.depth and p.groups == 1:
        copy_elements(p, a_panel, p.window.x + piece.position * p.window.sw, piece.rows * section)
    elif section == p.depth and taps_of(&p.window) <= MAX_SEGMENTS:
        done = 0
        while done < piece.rows:        # as many rows at once as MAX_SEGMENTS suffice for
            n = <int>min(piece.rows - done, MAX_SEGMENTS // max(taps_of(&p.window), 1))
            segments = gather(&p.window, piece.position + done, n, offset, src, &length)
            part = elements(length, p.x_item)
            size = part * p.tile.bytes
            for r in range(n * segments):
                if 0 < size <= 16 and not p.half:   # 0: a phase of a transposed convolution may have no taps
                    copy_few(to + r * size, src[r], size)
                else:
                    copy_elements(p, to + r * size, src[r], part)
            to += n * segments * size
            done += n
    elif p.x_item != p.tile.bytes:
        for r in range(piece.rows):
            done = 0
            while done < section:
                part = min(<ptrdiff_t>SECTION_DEPTH, section - done)
                copy_row(&p.window, piece.position + r, offset, (k + done) * 4, (k + done + part) * 4, <uint8_t *>row)
                copy_elements(p, a_panel + r * size + done * p.tile.bytes, <const uint8_t *>row, part)
                done += part
    else:
        for r in range(piece.rows):
            copy_row(&p.window, piece.position + r, offset, k * p.x_item, (k + section) * p.x_item,
                     <uint8_t *>(a_panel + r * size))
    return a_panel


# ---- pieces --------------------------------------------------------------------------------------------------
cdef int run_product(Product *p, pl_pool *pool) noexcept nogil:
    """Compute the planned product."""
    pool = parallel_pool(pool, 2 * p.output.span * p.output.lines * p.depth * p.columns)
    cdef ptrdiff_t at_once = columns_per_block(p), begin = 0, pieces
    while begin == 0 or begin < p.columns:
        p.division.first = begin // p.tile.nr
        pieces = divide(&p.division, &p.output, p.piece_rows, p.tile.nr, min(at_once, p.columns - begin), p.groups,
                        pool)
        parallel_for(pool, pieces, 1, run_pieces, p)
        begin += at_once
    return 0


cdef inline ptrdiff_t columns_per_block(const Product *p) noexcept nogil:
    """Number of columns in a block; all rows are multiplied by one block before the next.

    The panels of a block stay in the second-level cache.  If weights are few, or read only once, a single block has all
    columns.
    """
    cdef ptrdiff_t panel = p.tile.nr * p.depth * p.tile.bytes
    if (p.groups > 1 or p.pairs != NULL or p.output.span * p.output.lines <= p.piece_rows
            or p.padded_columns * p.depth * p.tile.bytes <= 2 * SHARED_BYTES):
        return max(<ptrdiff_t>1, p.columns)
    return max(<ptrdiff_t>1, SHARED_BYTES // panel) * p.tile.nr


cdef void run_pieces(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Compute pieces begin to end - 1 of the Product `ctx`.

    Pieces that read lines multiply whole rows.  Pieces that share an A panel follow each other, so it is packed once.
    All other pieces multiply their rows a section of the depth at a time.
    """
    cdef const Product *p = <const Product *>ctx
    cdef char a_panel[A_PANEL_BYTES + PL_SLACK]
    cdef const char *rows = NULL
    cdef pl_a_layout shape
    cdef ptrdiff_t i = begin, k, section, packed = -1
    cdef Piece piece
    cdef LineBuffer buffer
    buffer.output_line = buffer.lines = buffer.group = 0
    buffer.ready = 1
    while i < end:
        get_piece(&p.division, &p.output, p.pairs, p.columns, i, &piece)
        if p.rows.source == LINES:
            if fast_div(i, p.division.splits) != packed:
                packed = fast_div(i, p.division.splits)
                rows = pack_lines(p, &piece, fast_div(end - i - 1, p.division.splits) + 1, a_panel, &buffer)
            while True:
                multiply(p, &piece, &p.rows.lines.layout, rows, 0, p.depth)
                i += 1
                if not advance_piece(&p.division, &p.output, 1, &buffer, &piece):
                    break
                rows += p.window.stride_h * p.rows.lines.line_pitch * p.tile.bytes
            continue
        k = 0
        while True:
            section = min(p.rows.floats.section, p.depth - k)
            rows = pack_section(p, &piece, k, section, a_panel, &shape)
            multiply(p, &piece, &shape, rows, k, section)
            k += section
            if k >= p.depth:
                break
        i += 1


cdef void multiply(const Product *p, const Piece *piece, const pl_a_layout *shape, const char *rows, ptrdiff_t k,
                   ptrdiff_t section) noexcept nogil:
    """Multiply elements k to k + section - 1 of a piece's rows by its columns.  y has the sums of earlier sections."""
    cdef ptrdiff_t j = piece.begin, column = piece.group * p.columns, width, widest = p.tile.nr
    cdef const uint8_t *panels = p.panels + piece.matrix * p.padded_columns * p.depth * p.tile.bytes
    cdef const uint8_t *panel
    cdef const char *a
    cdef const float *bias
    cdef char *y
    cdef int passes = p.rows.lines.passes if p.rows.source == LINES else 1, i, n, first, last
    if p.rows.floats.single_flag and section == p.depth and not p.half:
        widest = p.padded_columns
    while j < piece.end:
        width = min(widest, p.padded_columns - j)
        n, y = <int>min(width, piece.end - j), piece.y + (column + j) * p.y_item
        bias = p.float32.bias + column + j if p.float32.bias != NULL else NULL
        for i in range(passes):
            a = rows + i * p.rows.lines.filter_step * p.rows.lines.line_pitch * p.tile.bytes
            panel = panels + (j * p.depth + (k + i * p.rows.lines.filter_line * p.window.fw) * width) * p.tile.bytes
            first, last = p.rows.floats.single_flag | (k == 0 and i == 0), k + section == p.depth and i == passes - 1
            if p.half:
                last |= 2 * (p.y_item == 2)
                p.slots.gemm_f16(piece.rows, n, shape, <const uint16_t *>a, <const uint16_t *>panel, first, last, bias,
                                 p.float32.low, p.float32.high, y, elements(p.output.sw, p.y_item))
            else:
                p.slots.gemm_f32(piece.rows, n, shape, <const float *>a, <const float *>panel, first, last, bias,
                                 p.float32.low, p.float32.high, <float *>y, p.output.sw // 4)
        j += width
