"""3 x 3 convolutions of floats by Winograd's F(2x2, 3x3), whose micro-kernels are in simd/winograd_f32.h.

Tiles of 4 x 4 input pixels, which overlap by two, become the left operands of 16 products; filters become the right
operands; and the products become tiles of 2 x 2 output pixels.  There are two ways to do it:

- Few channels: packing has transformed the filters.  A thread takes some tiles through all steps on its stack.
- Many channels: packed filters keep their 9 taps, because the 16 operands would take 16/9 of the memory.  They are
  transformed a few channels at a time and multiplied by as many tiles as possible, whose operands are in the arena.
  They may be float16, and are converted before they are transformed.
"""
import numpy as np

from libc.stdint cimport uint8_t, uint16_t
from libc.string cimport memset

from pylite._core.product.division cimport Output, Piece, divide, get_piece, parallel_pool, round_up
from pylite._core.product.floats cimport copy_elements, elements, rounded, set_sizes
from pylite._core.product.images cimport ImageProduct
from pylite._core.product.product cimport WINOGRAD, Product
from pylite._core.product.window cimport Window
from pylite._core.run.kernel cimport FLUSH, Strided, describe, kernel_fn
from pylite._core.simd cimport (
    memory_of,
    parallel_for,
    pl_a_layout,
    pl_packed_layout,
    pl_pool,
    pl_range_fn,
    pl_tile,
    pool_threads,
    slots,
)

cdef enum:                  # operands, in the order of ARRAYS
    X, Y, SCRATCH, OPERANDS

cdef enum:
    ON_STACK = 24 * 1024    # floats of a piece's memory: its operands, its products and one patch of pixels
    CONVERTED = 512         # tiles times channels of float32 that are converted to float16 at once
    CHANNELS = 256          # most channels in float16
    PATCH = 6144            # float16 numbers of a patch: the pixels to convert, and 32 tiles times 16 results
    CACHE_WAY = 1024        # floats of a way of the first-level cache: addresses so far apart share a set of lines
    GAP = 16                # floats between operands, which would otherwise share a few sets
    # For filters that are transformed at run time:
    BLOCK = 32              # most channels that are transformed at once
    MIN_BLOCK = BLOCK // 2  # least number of channels; winograd_in requires 16
    CONVERTED_CHANNELS = 8  # channels whose float16 taps are converted at once; few, because the result is on the stack
    PANEL = 32              # most columns of a float32 panel
    MAX_TILES = 64          # most tiles that are multiplied by a transformed filter; more gain little
    OPERAND = 1 << 14       # most tiles times channels of an operand,
    FEW_TILES = 16          # except that this number of tiles is always allowed, to make up for the transform
    PIECES = 8              # most pieces for threads; each has memory for its products

FORMS = (4, 0, False), (4, 0, True), (1, 4, True)       # (ndim, bytes of an element or 0, is it written?)


cdef inline ptrdiff_t tiles_at_once(ptrdiff_t channels) noexcept nogil:
    """The most tiles that are multiplied by a transformed filter: a multiple of 4."""
    return max(<ptrdiff_t>FEW_TILES, min(<ptrdiff_t>MAX_TILES, OPERAND // channels // 4 * 4))


def scratch_size(Py_ssize_t channels, Py_ssize_t columns, tiles):
    """The floats of scratch that WinogradF32 needs to transform filters at run time.  tiles: may be a Dim."""
    cdef ptrdiff_t nr = slots.f32.nr, pieces = min(<ptrdiff_t>PIECES, (columns + nr - 1) // nr)
    at_once = tiles if tiles < tiles_at_once(channels) else tiles_at_once(channels)
    return at_once * (16 * (channels + pieces * nr)) + 16 * GAP * (block_count(channels) + PIECES)


cdef class WinogradF32(ImageProduct):
    """float32 convolution: y = sum w x + b, clamped to limits, (low, high), for 3 x 3 filters with strides of 1.

    x, y, filter: as in ImageProduct; bias: (k,) or None.  Without scratch, panels are from pack_f32 with the layout
    WinogradFloat; or, if `half`, from pack_f16, to compute in float16 with images and results of float16 or float32.
    scratch: float32 (scratch_size(...),), to transform filters at run time; panels are then from pack_f32 or
    pack_halves with the layout TapsByChannel.  Raises ValueError if the scratch is smaller.
    """
    ARRAYS = (0, 1, "scratch")
    WIDEST_HALF = CHANNELS      # most channels with `half`

    cdef bint transforms        # filters at run time?
    cdef bint halves            # are panels float16, and products float32?
    cdef float *scratch         # memory for that, or NULL
    cdef Output tiles           # the tiles, described as output pixels
    cdef ptrdiff_t tiles_down, tiles_across     # tiles in an image
    cdef Piece chunk            # the tiles that are being multiplied
    cdef ptrdiff_t column_pieces, row_pieces     # number of pieces into which threads divide the columns, the chunk

    def __init__(self, x, y, panels, const float[::1] bias, *, filter, limits, scratch=None, bint half=False):
        cdef Product *p = &self.product
        cdef Strided operands[OPERANDS]
        cdef const Strided *arrays[OPERANDS]
        self.memory = x, y, scratch
        describe(self.memory, FORMS, operands, arrays)
        if operands[Y].nbytes == 0:
            return
        if half:
            bias, limits = rounded(bias), rounded(limits)
        zero = bytes(<ptrdiff_t>operands[X].shape[3] * 4)
        self.owners = panels, bias, zero
        p.window.zero = <const uint8_t *>memory_of(zero, len(zero))
        p.float32.low, p.float32.high = limits
        p.float32.bias = &bias[0] if bias is not None else NULL
        p.panels = <const uint8_t *>memory_of(panels, panels.nbytes)
        p.half, p.groups, p.rows.source = half, 1, WINOGRAD
        self.plan(arrays, filter)

    cdef bint suits(self, const Strided **arrays):
        return ImageProduct.suits(self, arrays) and self.transforms == (arrays[SCRATCH] != NULL)

    cdef int plan(self, const Strided **arrays, filter) except -1:
        cdef Product *p = &self.product
        cdef const Strided *y = arrays[Y]
        self.subnormals = FLUSH
        self.halves = self.owners[0].dtype == np.float16 and not p.half
        self.algorithm = "Winograd's 16 products for each 2 x 2 pixels" + (
            ", in float16" if p.half else ", weights of float16" if self.halves else "")
        self.set_images(arrays[X], y, filter)
        set_sizes(p, y.shape[3], 1, p.window.length // arrays[X].item)
        p.x_item, p.y_item = <int>arrays[X].item, <int>y.item
        self.tiles_down, self.tiles_across = (p.window.oh + 1) // 2, (p.window.ow + 1) // 2
        self.tiles.od = self.tiles.oh = self.tiles.lines = 1
        self.tiles.span = y.shape[0] * self.tiles_down * self.tiles_across
        self.transforms = arrays[SCRATCH] != NULL
        if not self.transforms:
            self.fn = <kernel_fn>run_pieces
            p.piece_rows = tiles_per_piece(&p.tile, self.tiles.span, p.depth, p.half)
            return 0
        if arrays[SCRATCH].shape[0] < scratch_size(p.depth, p.columns, self.tiles.span):
            raise ValueError("the scratch is too small")
        self.fn, self.scratch = <kernel_fn>run_chunks, <float *>arrays[SCRATCH].data
        return 0


# ---- the transforms ------------------------------------------------------------------------------------------
cdef inline ptrdiff_t pitch_of(ptrdiff_t n) noexcept nogil:
    """Elements from the start of one operand or product, of n elements, to the next one's."""
    return n + GAP if n % CACHE_WAY == 0 else n


cdef void transform_input(WinogradF32 self, const Piece *piece, ptrdiff_t k, ptrdiff_t depth, char *v,
                          char *patch) noexcept nogil:
    """Transform channels k to k + depth - 1 of the pixels under a piece's tiles to left operands v (16, tiles, depth).

    patch: scratch for pixels at the border, and for pixels of another type than the operands.
    """
    cdef const Product *p = &self.product
    cdef const Window *w = &p.window
    cdef const char *line[4]
    cdef ptrdiff_t step[4]
    cdef ptrdiff_t done = 0, count, pixels, n, ty, tx, ix, iy, i, size = depth * p.tile.bytes
    cdef ptrdiff_t pitch = pitch_of(piece.rows * depth)
    cdef const uint8_t *x
    cdef char *to
    cdef bint padded, converts = p.x_item != p.tile.bytes
    cdef int y
    while done < piece.rows:
        tx, ty = (piece.position + done) % self.tiles_across, (piece.position + done) // self.tiles_across
        n, ty = ty // self.tiles_down, ty % self.tiles_down
        ix = 2 * tx - w.pad_w
        padded = ix < 0 or ix + 4 > w.w
        count = 1 if padded else min(piece.rows - done, min(self.tiles_across - tx, (w.w - ix - 2) // 2))
        if converts:
            count = min(count, max(<ptrdiff_t>1, CONVERTED // depth))
        pixels = 2 * count + 2
        for y in range(4):
            iy = 2 * ty - w.pad_h + y
            if not 0 <= iy < w.h:
                line[y], step[y] = <const char *>w.zero, 0
                continue
            x = w.x + n * w.sn + iy * w.sh + ix * w.sw + k * p.x_item
            line[y], step[y] = <const char *>x, elements(w.sw, p.x_item)
            if padded or converts:
                to = patch + y * pixels * size
                line[y], step[y] = to, depth
                for i in range(pixels):
                    if 0 <= ix + i < w.w:
                        copy_elements(p, to, x + i * w.sw, depth)
                    else:
                        memset(to, 0, size)
                    to += size
        if p.half:
            p.slots.winograd_in_f16(count, depth, <const uint16_t **>line, step, <uint16_t *>v, pitch)
        else:
            p.slots.winograd_in(count, depth, <const float **>line, step, <float *>v, pitch)
        v += count * size
        done += count


cdef void transform_output(WinogradF32 self, const Piece *piece, const char *m, ptrdiff_t j, int n,
                           char *patch) noexcept nogil:
    """Transform columns j to j + n - 1 of a piece's products m (16, tiles, nr) to output pixels.

    patch: scratch for results of another type than the products'.
    """
    cdef const Product *p = &self.product
    cdef const float *bias = p.float32.bias + j if p.float32.bias != NULL else NULL
    cdef ptrdiff_t done = 0, count, image, ty, tx, down, across, below, step, nr = p.tile.nr
    cdef ptrdiff_t pitch = pitch_of(piece.rows * nr)
    cdef char *y
    cdef char *to
    cdef bint single, converts = p.y_item != p.tile.bytes
    cdef int i, x
    while done < piece.rows:
        tx, ty = (piece.position + done) % self.tiles_across, (piece.position + done) // self.tiles_across
        image, ty = ty // self.tiles_down, ty % self.tiles_down
        single = 2 * tx + 1 == p.window.ow
        count = 1 if single else min(piece.rows - done, p.window.ow // 2 - tx)
        if converts:
            count = min(count, <ptrdiff_t>(CONVERTED // nr))
        to = y = p.output.y + image * p.output.sn + 2 * ty * p.output.sh + 2 * tx * p.output.sw + j * p.y_item
        down, across = p.output.sh if 2 * ty + 1 < p.window.oh else 0, 0 if single else p.output.sw
        below, step = elements(down, p.y_item), elements(across, p.y_item)
        if converts:
            to, below, step = patch, 2 * count * n, n
        if p.half:
            p.slots.winograd_out_f16(count, n, <const uint16_t *>m, nr, pitch, bias, p.float32.low, p.float32.high,
                                     <uint16_t *>to, below, step)
        else:
            p.slots.winograd_out(count, n, <const float *>m, nr, pitch, bias, p.float32.low, p.float32.high,
                                 <float *>to, below, step)
        if converts:
            for i in range(2 if down else 1):
                for x in range(2 * <int>count if across else 1):
                    to = patch + (2 * i * count + x) * n * p.tile.bytes
                    p.slots.half_to_float(n, to, y + i * down + x * across, to)
        m += count * nr * p.tile.bytes
        done += count


# ---- few channels --------------------------------------------------------------------------------------------
cdef int tiles_per_piece(const pl_tile *t, ptrdiff_t tiles, ptrdiff_t c, bint half):
    """Tiles per piece: as many as ON_STACK holds, so that pieces are equal and fill the micro-kernel's rows.

    c: channels of the input.
    """
    cdef ptrdiff_t most = (ON_STACK - 16 * (c + 2 * GAP)) // (16 * (c + t.nr))
    if half:
        most = (2 * ON_STACK - 16 * 2 * GAP - PATCH) // (16 * (c + t.nr))
    if most > 4:
        most -= most % (t.mr if most >= t.mr else 4)
    cdef ptrdiff_t pieces = (tiles + most - 1) // most
    return <int>min(round_up((tiles + pieces - 1) // pieces, 4), most)


cdef int run_pieces(WinogradF32 self, pl_pool *pool) noexcept nogil:
    cdef Product *p = &self.product
    pool = parallel_pool(pool, 32 * self.tiles.span * p.depth * p.columns)
    parallel_for(pool, divide(&p.division, &self.tiles, p.piece_rows, p.tile.nr, p.columns, 1, pool), 1,
                 <pl_range_fn>compute_pieces, <void *>self)
    return 0


cdef void compute_pieces(WinogradF32 self, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef const Product *p = &self.product
    cdef float space[ON_STACK + 16]
    cdef char *v = <char *>(<size_t>(space + 15) & ~<size_t>63)     # aligned to cache lines
    cdef char *m
    cdef char *patch
    cdef char *to
    cdef const uint8_t *panel
    cdef const char *operand
    cdef ptrdiff_t i, j, part, v_pitch, m_pitch, transformed = -1
    cdef pl_a_layout layout = pl_packed_layout(p.depth)
    cdef Piece piece
    cdef int n, nr = p.tile.nr
    for i in range(begin, end):
        get_piece(&p.division, &self.tiles, NULL, p.columns, i, &piece)
        v_pitch, m_pitch = pitch_of(piece.rows * p.depth), pitch_of(piece.rows * nr)
        m = v + 16 * v_pitch * p.tile.bytes
        patch = m + 16 * m_pitch * p.tile.bytes
        if i // p.division.splits != transformed:
            transformed = i // p.division.splits
            transform_input(self, &piece, 0, p.depth, v, patch)
        j = piece.begin
        while j < piece.end:
            n = <int>min(<ptrdiff_t>nr, piece.end - j)
            for part in range(16):
                panel = p.panels + (part * p.padded_columns + j) * p.depth * p.tile.bytes
                operand, to = v + part * v_pitch * p.tile.bytes, m + part * m_pitch * p.tile.bytes
                if p.half:
                    p.slots.gemm_f16(piece.rows, n, &layout, <const uint16_t *>operand, <const uint16_t *>panel, 1, 2,
                                     NULL, 0, 0, to, nr)
                else:
                    p.slots.gemm_f32(piece.rows, n, &layout, <const float *>operand, <const float *>panel, 1, 0, NULL,
                                     0, 0, <float *>to, nr)
            transform_output(self, &piece, m, j, n, patch)
            j += nr


# ---- many channels -------------------------------------------------------------------------------------------
cdef inline ptrdiff_t block_count(ptrdiff_t channels) noexcept nogil:
    return (channels + BLOCK - 1) // BLOCK


cdef inline ptrdiff_t block_start(ptrdiff_t channels, ptrdiff_t b) noexcept nogil:
    """The first channel of block b.

    Blocks have BLOCK channels, except for the last.  If that would have MIN_BLOCK channels or fewer, the first block
    has MIN_BLOCK, so that no block has fewer.
    """
    return min(channels, max(<ptrdiff_t>0, b * BLOCK - (MIN_BLOCK if (channels - 1) // MIN_BLOCK % 2 == 0 else 0)))


cdef inline float *left_operands(WinogradF32 self, ptrdiff_t b) noexcept nogil:
    """The chunk's left operands for the channels of block b: 16 times (tiles, channels)."""
    return self.scratch + 16 * (self.chunk.rows * block_start(self.product.depth, b) + b * GAP)


cdef int run_chunks(WinogradF32 self, pl_pool *pool) noexcept nogil:
    cdef Product *p = &self.product
    cdef Piece *chunk = &self.chunk
    cdef ptrdiff_t tiles = self.tiles.span, most = tiles_at_once(p.depth), chunks = (tiles + most - 1) // most
    cdef int rows = <int>min(tiles, round_up((tiles + chunks - 1) // chunks, 4))
    pool = parallel_pool(pool, 32 * tiles * p.depth * p.columns)
    self.column_pieces, self.row_pieces = min(<ptrdiff_t>PIECES, (p.columns + p.tile.nr - 1) // p.tile.nr), 1
    if pool_threads(pool) > 1:
        self.row_pieces = max(<ptrdiff_t>1, min(PIECES // self.column_pieces, <ptrdiff_t>(rows // FEW_TILES)))
    chunk.position = 0
    while chunk.position < tiles:
        chunk.rows = <int>min(<ptrdiff_t>rows, tiles - chunk.position)
        parallel_for(pool, block_count(p.depth), 1, <pl_range_fn>transform_blocks, <void *>self)
        parallel_for(pool, self.column_pieces * self.row_pieces, 1, <pl_range_fn>multiply_chunk, <void *>self)
        chunk.position += chunk.rows
    return 0


cdef void transform_blocks(WinogradF32 self, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Transform the pixels under the chunk, for blocks of channels."""
    cdef float patch[4 * 4 * BLOCK]
    cdef ptrdiff_t b, k, c = self.product.depth
    for b in range(begin, end):
        k = block_start(c, b)
        transform_input(self, &self.chunk, k, block_start(c, b + 1) - k, <char *>left_operands(self, b), <char *>patch)


cdef void multiply_chunk(WinogradF32 self, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Pieces begin to end - 1 of the chunk: some panels times some tiles."""
    cdef const Product *p = &self.product
    cdef ptrdiff_t i, panel, first, column, row, rows = self.chunk.rows
    cdef ptrdiff_t panels = (p.columns + p.tile.nr - 1) // p.tile.nr
    cdef float *products = self.scratch + 16 * (rows * p.depth + GAP * block_count(p.depth))
    cdef float *m
    cdef Piece piece
    for i in range(begin, end):
        column, row = i // self.row_pieces, i % self.row_pieces
        first = rows * row // self.row_pieces
        piece.position, piece.rows = self.chunk.position + first, <int>(rows * (row + 1) // self.row_pieces - first)
        m = products + 16 * (p.tile.nr * (rows * column + first) + GAP * i)
        for panel in range(panels * column // self.column_pieces, panels * (column + 1) // self.column_pieces):
            multiply_panel(self, &piece, panel * p.tile.nr, m)


cdef void transform_filters(WinogradF32 self, ptrdiff_t first, ptrdiff_t depth, ptrdiff_t width,
                            float *u) noexcept nogil:
    """Transform the taps (depth, 9, width) from number `first` on to right operands u (16, depth, width)."""
    cdef const Product *p = &self.product
    cdef float taps[9 * CONVERTED_CHANNELS * PANEL]
    cdef ptrdiff_t k = 0, n, pitch = pitch_of(depth * width)
    if not self.halves:
        p.slots.winograd_filter(depth, width, <const float *>p.panels + first, u, pitch)
        return
    while k < depth:
        n = min(depth - k, <ptrdiff_t>CONVERTED_CHANNELS)
        p.slots.half_to_float(9 * n * width, <const uint16_t *>p.panels + first + 9 * k * width, taps, NULL)
        p.slots.winograd_filter(n, width, taps, u + k * width, pitch)
        k += n


cdef void multiply_panel(WinogradF32 self, const Piece *piece, ptrdiff_t j, float *m) noexcept nogil:
    """Compute the results of the panel at column j for a piece of the chunk; m: scratch for the products."""
    cdef const Product *p = &self.product
    cdef float space[16 * (BLOCK * PANEL + GAP) + 16]
    cdef float *u = <float *>(<size_t>(space + 15) & ~<size_t>63)       # aligned to cache lines
    cdef const float *v
    cdef ptrdiff_t b, k, depth, part, c = p.depth, first = piece.position - self.chunk.position, nr = p.tile.nr
    cdef int n = <int>min(nr, p.columns - j), width = <int>round_up(n, p.tile.nv)
    cdef pl_a_layout layout
    for b in range(block_count(c)):
        k = block_start(c, b)
        depth = block_start(c, b + 1) - k
        layout = pl_packed_layout(depth)
        transform_filters(self, 9 * (j * c + k * width), depth, width, u)
        v = left_operands(self, b) + first * depth
        for part in range(16):
            p.slots.gemm_f32(piece.rows, width, &layout, v + part * pitch_of(self.chunk.rows * depth),
                             u + part * pitch_of(depth * width), b == 0, 0, NULL, 0, 0,
                             m + part * pitch_of(piece.rows * nr), nr)
    transform_output(self, piece, <char *>m, j, n, NULL)
