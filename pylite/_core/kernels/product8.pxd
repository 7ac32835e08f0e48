# Products of the 8-bit rows of windows: packing of A panels and lines, and sums of any depth.
from libc.stdint cimport int32_t, uint8_t, uint64_t
from libc.string cimport memcpy

from pylite._core.kernels.lines cimport LineBuffer, Lines, extend_line_buffer, in_place
from pylite._core.kernels.tasks cimport MAX_MR, MAX_NR, PARALLEL_THRESHOLD, padded, share
from pylite._core.kernels.window cimport CHUNK, Line, Window, copy_row, see_line
from pylite._core.simd cimport PL_SLACK, pl_a_layout, pl_columns, pl_fill, pl_packed_layout, pl_slots, pl_tile

cdef enum:
    ROW = 2048              # the deepest single row, which is packed on the stack


cdef struct Product8:
    Window window           # rows of the left operand
    const uint8_t *panels   # of the right one, group after group
    ptrdiff_t columns, groups               # columns: of one group
    ptrdiff_t depth, deep, wide             # depth; depth and columns padded for the tile
    int flip                # of the left operand's bytes
    pl_tile tile
    const pl_slots *slots


cdef inline void accumulate(const Product8 *p, ptrdiff_t group, ptrdiff_t position, int rows, ptrdiff_t j, int n,
                            int32_t *acc, int32_t *sums) noexcept nogil:
    """acc (rows, MAX_NR) = the rows at `position` times columns j..j+n of `group`, in pieces of the depth.

    sums: of each row's elements (with the tile's offset), or NULL.
    """
    cdef pl_a_layout shape
    cdef uint8_t a_panel[2 * MAX_MR * CHUNK + 2 * PL_SLACK]
    cdef uint8_t copies[MAX_MR * CHUNK]
    cdef const uint8_t *src[MAX_MR]
    cdef int32_t part[MAX_MR]
    cdef ptrdiff_t k = 0, piece, size
    cdef ptrdiff_t width = min(<ptrdiff_t>p.tile.nr, padded(p.columns - j, p.tile.nv))
    cdef const uint8_t *panel = p.panels + (group * p.wide + j) * p.deep
    cdef int r, i
    for r in range(rows):
        for i in range(n):
            acc[r * MAX_NR + i] = 0
        if sums != NULL:
            sums[r] = 0
    while k < p.depth:
        piece = min(<ptrdiff_t>CHUNK, p.depth - k)
        size = padded(piece, p.tile.ka)
        for r in range(rows):
            copy_row(&p.window, position + r, group * p.window.length, k, k + piece, &copies[r * CHUNK])
            src[r] = &copies[r * CHUNK]
        shape = pl_packed_layout(size)
        p.slots.pack_a_q8(rows, 1, piece, src, p.flip, a_panel, size)
        p.slots.gemm_s32(rows, n, &shape, a_panel, panel + k * width, acc, MAX_NR)
        if sums != NULL:
            p.slots.sums_q8(rows, &shape, piece, a_panel, part)
            for r in range(rows):
                sums[r] += part[r]
        k += piece


cdef inline bint single_row(const Product8 *p, ptrdiff_t rows) noexcept nogil:
    """Is this a product for one_row()?"""
    return rows == 1 and p.groups == 1 and p.deep <= ROW and p.depth * p.columns < PARALLEL_THRESHOLD


cdef inline void one_row(const Product8 *p, const pl_columns *q, int w_zero, const uint8_t *x,
                         uint8_t *y) noexcept nogil:
    """The product of a single row x of consecutive bytes, by the caller alone."""
    cdef uint8_t a_panel[2 * ROW + 2 * PL_SLACK]
    cdef pl_a_layout shape = pl_packed_layout(p.deep)
    cdef int32_t term = 0
    cdef ptrdiff_t j = 0, most = p.columns if p.tile.any_n else p.tile.nr
    if p.tile.bytes > 1 or p.deep != p.depth or p.flip ^ p.tile.offset:
        p.slots.pack_a_q8(1, 1, p.depth, &x, p.flip, a_panel, p.deep)
        x = a_panel
    if w_zero:
        p.slots.sums_q8(1, &shape, p.depth, x, &term)
        term *= -w_zero
    while j < p.columns:
        p.slots.gemm_q8(1, <int>min(most, p.columns - j), &shape, x, p.panels + j * p.deep,
                        &term if w_zero else NULL, q, j, y + j, 0)
        j += most


cdef inline uint8_t *pack_pixels(const Product8 *p, const uint8_t *x, ptrdiff_t step, ptrdiff_t n,
                                 uint8_t *to) noexcept nogil:
    """Pack n pixels of x, `step` bytes apart (0: one pixel repeated), in the form of A panels; returns their end."""
    cdef ptrdiff_t c = p.window.length, i, k
    cdef uint8_t mask = <uint8_t>(p.flip ^ p.tile.offset)
    cdef uint64_t word, mask_word = mask * <uint64_t>0x0101010101010101
    if step == c:
        p.slots.pack_a_q8(1, 1, n * c, &x, p.flip, to, n * c)
    elif p.tile.bytes == 1 and c < 8:       # calls would take longer than these bytes
        for i in range(n):
            for k in range(c):
                to[i * c + k] = x[i * step + k] ^ mask
    elif p.tile.bytes == 1 and c % 8 == 0 and c <= 64:
        for i in range(n):
            for k in range(0, c, 8):
                memcpy(&word, x + i * step + k, 8)
                word ^= mask_word
                memcpy(to + i * c + k, &word, 8)
    else:
        for i in range(n):
            p.slots.pack_a_q8(1, 1, c, &x, p.flip, to + i * c * p.tile.bytes, c)
            x += step
    return to + n * c * p.tile.bytes


cdef inline const uint8_t *pack_lines(const Product8 *p, const Lines *l, bint as_is, ptrdiff_t position,
                                      ptrdiff_t pixels, ptrdiff_t rows, uint8_t *a_panel,
                                      LineBuffer *buffer) noexcept nogil:
    """The lines under the windows of `pixels` output pixels: packed in a_panel, or in place (as_is).

    rows: consecutive output lines of this task, this one included.
    """
    cdef Line line
    cdef uint8_t *to = a_panel
    cdef const uint8_t *zero
    cdef ptrdiff_t row, ox, n, first, y, iy, c = p.window.length, step = share(p.window.dilation_h, l.down)
    cdef int border         # the packed byte of pixels outside
    cdef bint outside
    buffer.ready = 1
    if as_is and in_place(position, pixels, l.pixels):
        return p.window.x + position * p.window.sw
    if p.window.direct:
        pack_pixels(p, p.window.x + position * p.window.sw, p.window.sw, pixels, to)
        return a_panel
    row = share(position, p.window.ow)
    ox = position - row * p.window.ow
    first = extend_line_buffer(l, &p.window, row, pixels, rows, buffer, &y)
    if y >= buffer.lines:
        return a_panel + first * l.pitch * p.tile.bytes
    n = share(buffer.row, p.window.oh)
    zero = p.window.zero + n * p.window.zero_step
    border = zero[0] ^ p.flip ^ p.tile.offset
    line = see_line(&p.window, n, ox, pixels)
    iy = (buffer.row - n * p.window.oh) * p.window.stride_h - p.window.pad_h + y * step
    while y < buffer.lines:
        to = a_panel + y * l.pitch * p.tile.bytes
        outside = line.x == NULL or not 0 <= iy < p.window.h
        n = 1
        if p.tile.bytes > 1:
            to = pack_pixels(p, zero, 0, line.before + line.inside + line.after if outside else line.before, to)
            if not outside:
                to = pack_pixels(p, line.x + iy * p.window.sh, p.window.sw, line.inside, to)
                pack_pixels(p, zero, 0, line.after, to)
        elif outside:
            pl_fill(to, border, (line.before + line.inside + line.after) * c)
        elif p.window.sw == c and buffer.lines - y > 1 and step == 1:
            n = min(buffer.lines - y, p.window.h - iy)
            p.slots.pack_lines_q8(n, line.before * c, line.inside * c, line.after * c, line.x + iy * p.window.sh,
                                  p.window.sh, p.flip ^ p.tile.offset, border, to, l.pitch)
        else:       # the next line overwrites the excess of pl_fill
            pl_fill(to, border, line.before * c)
            to = pack_pixels(p, line.x + iy * p.window.sh, p.window.sw, line.inside, to + line.before * c)
            pl_fill(to, border, line.after * c)
        iy += n * step
        y += n
    return a_panel + first * l.pitch * p.tile.bytes
