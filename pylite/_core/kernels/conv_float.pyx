"""float32 convolutions, in two and three dimensions, and matrix products; in two dimensions also in float16."""
import numpy as np

from libc.stdint cimport uint8_t, uint16_t
from libc.string cimport memset

from pylite._core.product.division cimport Output, Piece, divide, get_piece, parallel_pool, round_up
from pylite._core.product.floats cimport (
    HALF_DEPTH,
    copy_elements,
    elements,
    pack_panels,
    plan_rows,
    run_product,
    set_sizes,
)
from pylite._core.product.images cimport ImageProduct
from pylite._core.product.product cimport WINOGRAD, Product
from pylite._core.product.window cimport Window, taps_of
from pylite._core.run.kernel cimport FLUSH, Strided, kernel_fn
from pylite._core.simd cimport memory_of, parallel_for, pl_a_layout, pl_packed_layout, pl_pool, pl_range_fn, pl_tile

cdef enum:
    CONVERTED = 512         # tiles times channels of float32 that Winograd's algorithm converts to float16 at once
    PATCH = 6144            # float16 for their pixels, of at most 256 channels; and for 32 tiles times 16 results
    WINOGRAD_SCRATCH = 24 * 1024    # floats for a piece of Winograd: its operands, products and one patch of pixels


cdef class ConvF32(ImageProduct):
    """float32 convolution: y = sum w x + b, clamped to limits, (low, high).

    x, y, filter: as in ImageProduct, also of volumes; panels: from pack_f32, or None to pack `weights` (k, depth) into
    `scratch` at each run; bias: (k,) or None; winograd: panels are made by layouts.WinogradFloat; half: computed in
    float16, with panels from pack_f16, and images and results of float16 or float32; results of float16 have up to
    DEEPEST_HALF products.
    """
    DEEPEST_HALF = HALF_DEPTH   # products of one result of float16, at most

    cdef const float *weights   # weights to pack at each run, or NULL
    cdef Output tiles           # Winograd's tiles, as if they were output pixels
    cdef ptrdiff_t tiles_down, tiles_across     # number of tiles in an image

    def __init__(self, x, y, panels, const float[::1] bias, *, filter, ptrdiff_t groups=1, limits,
                 const float[:, ::1] weights=None, float[::1] scratch=None, bint winograd=False, bint half=False):
        cdef Product *p = &self.product
        cdef Strided operands[2]
        cdef const Strided *arrays[2]
        cdef Py_ssize_t item = 0 if half else 4         # 0: any
        cdef int axes = len(filter) // 4        # of the filter
        if not self.start(x, y, groups, operands, arrays, item, item, axes + 2):
            return
        zero = bytes(<ptrdiff_t>filter[axes - 1] * operands[0].shape[axes + 1] // groups * 4)
        if half:
            bias, limits = rounded(bias), rounded(limits)
        self.owners = panels, bias, weights, scratch, zero
        p.window.zero = <const uint8_t *>memory_of(zero, len(zero))
        p.float32.low, p.float32.high = limits
        p.float32.bias = &bias[0] if bias is not None else NULL
        self.one_shape = panels is None
        if self.one_shape:
            self.weights, p.panels = &weights[0, 0], <const uint8_t *>&scratch[0]
        else:
            p.panels = <const uint8_t *>memory_of(panels, panels.nbytes)
        p.half = half
        if winograd:
            p.rows.source = WINOGRAD
        self.plan(arrays, filter)

    cdef int plan(self, const Strided **arrays, filter) except -1:
        cdef Product *p = &self.product
        cdef const Strided *y = arrays[1]
        cdef Window *g = &p.window
        cdef str in_float16 = ", in float16" if p.half else ""
        self.fn, self.subnormals = <kernel_fn>conv_f32, FLUSH
        self.set_images(arrays[0], y, filter)
        set_sizes(p, y.shape[y.ndim - 1], p.groups, taps_of(g) * g.length // arrays[0].item)
        p.x_item, p.y_item = <int>arrays[0].item, <int>y.item
        if p.rows.source == WINOGRAD:
            self.plan_tiles(y.shape[0])
            self.fn = <kernel_fn>conv_f32_winograd
            self.algorithm = "Winograd's 16 products for each 2 x 2 pixels" + in_float16
            return 0
        plan_rows(p)
        self.algorithm = self.source() + in_float16
        return 0

    cdef void plan_tiles(self, ptrdiff_t images) noexcept:
        """Divide the output into tiles of 2 x 2 pixels, which count as pixels of the product."""
        cdef Product *p = &self.product
        p.depth = p.window.length // p.x_item
        self.tiles_down, self.tiles_across = (p.window.oh + 1) // 2, (p.window.ow + 1) // 2
        self.tiles.od = self.tiles.oh = self.tiles.lines = 1
        self.tiles.span = images * self.tiles_down * self.tiles_across
        p.tile.mr = tiles_per_piece(&p.tile, self.tiles.span, p.depth, p.half)


cdef rounded(numbers):
    """float32 numbers, rounded to float16; None stays."""
    with np.errstate(over="ignore"):
        return None if numbers is None else np.asarray(numbers, np.float32).astype(np.float16).astype(np.float32)


cdef int conv_f32(ConvF32 self, pl_pool *pool) noexcept nogil:
    cdef Product *p = &self.product
    if self.weights != NULL:
        pack_panels(&p.tile, <const uint8_t *>self.weights, p.columns, p.depth, <uint8_t *>p.panels)
    return run_product(p, pool)


# ---- Winograd's F(2x2, 3x3), whose micro-kernels are in simd/winograd_f32.h -----------------------------------
cdef int tiles_per_piece(const pl_tile *t, ptrdiff_t tiles, ptrdiff_t c, bint half):
    """Tiles per piece: as many as WINOGRAD_SCRATCH holds, so that pieces are equal and fill the micro-kernel's rows.

    c: channels of the input.
    """
    cdef ptrdiff_t most = (WINOGRAD_SCRATCH - 16 * (c + 16)) // (16 * (c + t.nr))
    if half:
        most = (2 * WINOGRAD_SCRATCH - 16 * 16 - PATCH) // (16 * (c + t.nr))
    if most > 4:
        most -= most % (t.mr if most >= t.mr else 4)
    cdef ptrdiff_t pieces = (tiles + most - 1) // most
    return <int>min(round_up((tiles + pieces - 1) // pieces, 4), most)


cdef int conv_f32_winograd(ConvF32 self, pl_pool *pool) noexcept nogil:
    cdef Product *p = &self.product
    pool = parallel_pool(pool, 32 * self.tiles.span * p.depth * p.columns)
    parallel_for(pool, divide(&p.division, &self.tiles, &p.tile, p.columns, 1, pool), 1,
                 <pl_range_fn>run_winograd_pieces, <void *>self)
    return 0


cdef void transform_input(ConvF32 self, const Piece *piece, char *v, ptrdiff_t next, char *patch) noexcept nogil:
    """Transform the pixels under a piece's tiles to the left operands v of the 16 products, `next` elements apart.

    patch: scratch for pixels at the border, and for those of another type than the operands'.
    """
    cdef const Product *p = &self.product
    cdef const Window *g = &p.window
    cdef const char *line[4]
    cdef ptrdiff_t step[4]
    cdef ptrdiff_t done = 0, count, pixels, n, ty, tx, ix, iy, i, size = p.depth * p.tile.bytes
    cdef const uint8_t *x
    cdef char *to
    cdef bint padded, converts = p.x_item != p.tile.bytes
    cdef int y
    while done < piece.rows:
        tx, ty = (piece.position + done) % self.tiles_across, (piece.position + done) // self.tiles_across
        n, ty = ty // self.tiles_down, ty % self.tiles_down
        ix = 2 * tx - g.pad_w
        padded = ix < 0 or ix + 4 > g.w
        count = 1 if padded else min(piece.rows - done, min(self.tiles_across - tx, (g.w - ix - 2) // 2))
        if converts:
            count = min(count, max(<ptrdiff_t>1, CONVERTED // p.depth))
        pixels = 2 * count + 2
        for y in range(4):
            iy = 2 * ty - g.pad_h + y
            if not 0 <= iy < g.h:
                line[y], step[y] = <const char *>g.zero, 0
                continue
            x = g.x + n * g.sn + iy * g.sh + ix * g.sw
            line[y], step[y] = <const char *>x, elements(g.sw, p.x_item)
            if padded or converts:
                to = patch + y * pixels * size
                line[y], step[y] = to, p.depth
                for i in range(pixels):
                    if 0 <= ix + i < g.w:
                        copy_elements(p, to, x + i * g.sw, p.depth)
                    else:
                        memset(to, 0, size)
                    to += size
        if p.half:
            p.slots.winograd_in_f16(count, p.depth, <const uint16_t **>line, step, <uint16_t *>v, next)
        else:
            p.slots.winograd_in(count, p.depth, <const float **>line, step, <float *>v, next)
        v += count * size
        done += count


cdef void transform_output(ConvF32 self, const Piece *piece, const char *m, ptrdiff_t j, int n,
                           char *patch) noexcept nogil:
    """Transform columns j to j + n - 1 of a piece's products m to output pixels.

    patch: scratch for results of another type than the products'.
    """
    cdef const Product *p = &self.product
    cdef const float *bias = p.float32.bias + j if p.float32.bias != NULL else NULL
    cdef ptrdiff_t done = 0, count, image, ty, tx, down, across, below, step, nr = p.tile.nr
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
            p.slots.winograd_out_f16(count, n, <const uint16_t *>m, nr, piece.rows * nr, bias, p.float32.low,
                                     p.float32.high, <uint16_t *>to, below, step)
        else:
            p.slots.winograd_out(count, n, <const float *>m, nr, piece.rows * nr, bias, p.float32.low,
                                 p.float32.high, <float *>to, below, step)
        if converts:
            for i in range(2 if down else 1):
                for x in range(2 * <int>count if across else 1):
                    to = patch + (2 * i * count + x) * n * p.tile.bytes
                    p.slots.half_to_float(n, to, y + i * down + x * across, to)
        m += count * nr * p.tile.bytes
        done += count


cdef void run_winograd_pieces(ConvF32 self, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef const Product *p = &self.product
    cdef float space[WINOGRAD_SCRATCH + 16]
    cdef char *scratch = <char *>(<size_t>(space + 15) & ~<size_t>63)      # aligned to cache lines
    cdef char *m
    cdef char *to
    cdef const uint8_t *panel
    cdef const char *operand
    cdef ptrdiff_t i, j, part, next, products, transformed = -1
    cdef pl_a_layout shape = pl_packed_layout(p.depth)
    cdef Piece piece
    cdef int n, nr = p.tile.nr
    for i in range(begin, end):
        get_piece(&p.division, &self.tiles, NULL, p.columns, i, &piece)
        next, products = piece.rows * p.depth, piece.rows * nr
        if next % 1024 == 0:        # else all 16 operands would fall into the same few sets of the cache
            next += 16
        m = scratch + 16 * next * p.tile.bytes
        if i // p.division.splits != transformed:
            transformed = i // p.division.splits
            transform_input(self, &piece, scratch, next, m + 16 * products * p.tile.bytes)
        j = piece.begin
        while j < piece.end:
            n = <int>min(<ptrdiff_t>nr, piece.end - j)
            for part in range(16):
                panel = p.panels + (part * p.padded_columns + j) * p.depth * p.tile.bytes
                operand, to = scratch + part * next * p.tile.bytes, m + part * products * p.tile.bytes
                if p.half:
                    p.slots.gemm_f16(piece.rows, n, &shape, <const uint16_t *>operand, <const uint16_t *>panel, 1, 2,
                                     NULL, 0, 0, to, nr)
                else:
                    p.slots.gemm_f32(piece.rows, n, &shape, <const float *>operand, <const float *>panel, 1, 0, NULL,
                                     0, 0, <float *>to, nr)
            transform_output(self, &piece, m, j, n, m + 16 * products * p.tile.bytes)
            j += nr
