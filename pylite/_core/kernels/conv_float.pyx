"""float32 convolutions, in two and three dimensions, and matrix products; in two dimensions also in float16.

This file is longer than others because Winograd's algorithm walks over images in its own way, in either precision.
"""
import numpy as np

from libc.stdint cimport uint8_t, uint16_t
from libc.stdlib cimport calloc
from libc.string cimport memcpy, memset

from pylite._core.product.floats cimport algorithm_of, pack_panels, plan_rows, run_product, set_sizes
from pylite._core.product.images cimport ImageProduct
from pylite._core.product.product cimport WINOGRAD, Product
from pylite._core.product.tasks cimport (
    PIECE,
    Output,
    Task,
    get_task,
    parallel_pool,
    pl_give_back,
    plan_tasks,
    round_up,
)
from pylite._core.product.window cimport Window, taps_of
from pylite._core.run.kernel cimport FLUSH, Strided, kernel_fn
from pylite._core.simd cimport (
    defer_packing,
    memory_of,
    parallel_for,
    pl_a_layout,
    pl_packed_layout,
    pl_packing_task,
    pl_pool,
    pl_range_fn,
    pl_tile,
    slots,
)

from pylite._core.kernels.packing import arranged
from pylite._core.run.memory import give_back, pooled

cdef enum:
    ZEROS = 8192            # bytes of zeros that kernels share as padding
    CONVERTED = 512         # tiles times channels of float32 that Winograd's algorithm converts to float16 at once
    PATCH = 6144            # float16 for their pixels, of at most 256 channels; and for 32 tiles times 16 results
    WINOGRAD_SCRATCH = 24 * 1024    # floats for a task of Winograd: its operands, products and one patch of pixels


cdef uint8_t zeros[ZEROS]


cdef struct Packing:
    pl_packing_task task
    const pl_tile *tile
    const uint8_t *w            # (groups * columns, depth)
    uint8_t *panels
    ptrdiff_t groups, columns, depth
    ptrdiff_t group_size        # bytes from the panels of one group to those of the next


cdef ptrdiff_t columns_of_piece(const pl_tile *t, ptrdiff_t depth) noexcept nogil:
    """Columns of whole panels whose weights have about PIECE bytes."""
    return round_up(PIECE // (t.bytes * depth) + 1, t.nr)


cdef void run_packing(pl_packing_task *task) noexcept nogil:
    cdef Packing *p = <Packing *>task
    cdef ptrdiff_t g, j, columns, row = p.depth * p.tile.bytes, step = columns_of_piece(p.tile, p.depth)
    cdef const uint8_t *w
    for g in range(p.groups):
        j = 0
        while j < p.columns:
            columns, w = min(step, p.columns - j), p.w + (g * p.columns + j) * row
            pack_panels(p.tile, w, columns, p.depth, p.panels + g * p.group_size + j * row)
            pl_give_back(w, columns * row)
            j += step
    pl_give_back(p.w, p.groups * p.columns * row)


def pack_f32(w, Py_ssize_t groups=1, layout=None):
    """Panels of float32 weights w (columns of all groups, ...); deferred until finish_packing().

    layout: see packing.arranged; if it is by_columns, weights are arranged and packed piece by piece.
    """
    return packed_panels(w, groups, layout, np.float32, &slots.f32)


def pack_f16(w, Py_ssize_t groups=1, layout=None):
    """The same in float16, for products in float16; weights beyond its range become infinite."""
    return packed_panels(w, groups, layout, np.float16, &slots.f16)


cdef packed_panels(w, Py_ssize_t groups, layout, dtype, const pl_tile *t):
    cdef bint in_pieces = layout is not None and layout.by_columns and w.size
    cdef ptrdiff_t rows = max(<ptrdiff_t>1, w.shape[0]), step = rows, columns, depth, group_size, j
    if in_pieces:
        step = columns_of_piece(t, w.size // rows)
    packed = None
    for j in range(0, rows, step):
        piece = arranged(w[j:j + step] if in_pieces else w, layout)
        columns, depth = piece.shape[0] // groups, piece.size // piece.shape[0] if piece.size else 0
        group_size = round_up(rows if in_pieces else columns, t.nv) * depth
        if packed is None:
            packed = pooled(groups * group_size * t.bytes)
        pack_piece(piece, groups, columns, depth, group_size, packed, j * depth, dtype, t)
        if in_pieces:
            give_back(w[j:j + step])
    return packed.view(dtype)


cdef int pack_piece(w, ptrdiff_t groups, ptrdiff_t columns, ptrdiff_t depth, ptrdiff_t group_size, packed,
                    ptrdiff_t begin, dtype, const pl_tile *t) except -1:
    """Pack w (groups * columns, ...) as `dtype` into `packed` (n,) uint8, from element `begin` of each group on."""
    with np.errstate(over="ignore"):
        flat = np.ascontiguousarray(w, dtype).reshape(-1).view(np.uint8)
    cdef const uint8_t[::1] source = flat
    cdef uint8_t[::1] panels = packed
    if not source.shape[0]:
        return 0
    cdef Packing *p = <Packing *>calloc(1, sizeof(Packing))
    if p == NULL:
        raise MemoryError("no memory to pack weights")
    p.task.run, p.tile, p.w, p.panels = run_packing, t, &source[0], &panels[begin * t.bytes]
    p.groups, p.columns, p.depth, p.group_size = groups, columns, depth, group_size * t.bytes
    defer_packing(&p.task, flat.nbytes, (flat, packed), flat.nbytes if flat.flags.writeable else 0)
    return 0


cdef class ConvF32(ImageProduct):
    """float32 convolution: y = sum w x + b, clamped to limits, (low, high).

    x, y, filter: as in ImageProduct, also of volumes; panels: from pack_f32, or None to pack `weights` (k, depth) into
    `scratch` at each run; bias: (k,) or None; winograd: panels are made by layouts.WinogradFloat; half: computed in
    float16, with panels from pack_f16, and images and results of float16 or float32; results of float16 have up to
    HALF_DEPTH products.
    """
    cdef const float *weights   # weights to pack at each run, or NULL
    cdef Output tiles           # Winograd's tiles, as if they were output pixels
    cdef ptrdiff_t tiles_down, tiles_across     # number of tiles in an image
    cdef pl_range_fn run_tiles

    def __init__(self, x, y, panels, const float[::1] bias, *, filter, ptrdiff_t groups=1, limits,
                 const float[:, ::1] weights=None, float[::1] scratch=None, bint winograd=False, bint half=False):
        cdef Product *p = &self.product
        cdef Strided operands[2]
        cdef const Strided *arrays[2]
        cdef Py_ssize_t item = 0 if half else 4         # 0: any
        cdef int axes = len(filter) // 4        # of the filter
        if not self.start(x, y, groups, operands, arrays, item, item, axes + 2):
            return
        cdef ptrdiff_t padding = <ptrdiff_t>filter[axes - 1] * operands[0].shape[axes + 1] // groups * 4
        zero = bytes(padding) if padding > ZEROS else None
        if half:
            bias, limits = rounded(bias), rounded(limits)
        self.owners, p.window.zero = (panels, bias, weights, scratch, zero), zeros
        if zero is not None:
            p.window.zero = <const uint8_t *>memory_of(zero, padding)
        p.low, p.high = limits
        p.bias = &bias[0] if bias is not None else NULL
        self.one_shape = panels is None
        if self.one_shape:
            self.weights, p.panels = &weights[0, 0], <const uint8_t *>&scratch[0]
        else:
            p.panels = <const uint8_t *>memory_of(panels, panels.nbytes)
        p.half = half
        if winograd:
            p.rows = WINOGRAD
        self.plan(arrays, filter)

    cdef int plan(self, const Strided **arrays, filter) except -1:
        cdef Product *p = &self.product
        cdef const Strided *y = arrays[1]
        cdef Window *g = &p.window
        cdef str in_float16 = ", in float16" if p.half else ""
        self.fn, self.subnormals = <kernel_fn>conv_f32, FLUSH
        self.set_images(arrays[0], y, filter)
        set_sizes(p, y.shape[y.ndim - 1], p.groups, taps_of(g) * g.length // arrays[0].item)
        p.x_item, p.item = <int>arrays[0].item, <int>y.item
        if p.rows == WINOGRAD:
            self.plan_tiles(y.shape[0])
            self.run_tiles = <pl_range_fn>(run_winograd_tasks_f16 if p.half else run_winograd_tasks)
            self.fn = <kernel_fn>conv_f32_winograd
            self.algorithm = "Winograd's 16 products for each 2 x 2 pixels" + in_float16
            return 0
        plan_rows(p)
        self.algorithm = algorithm_of(p) + in_float16
        return 0

    cdef void plan_tiles(self, ptrdiff_t images) noexcept:
        """Divide the output into tiles of 2 x 2 pixels, which count as pixels of the product."""
        cdef Product *p = &self.product
        p.depth = p.window.length // p.x_item
        self.tiles_down, self.tiles_across = (p.window.oh + 1) // 2, (p.window.ow + 1) // 2
        self.tiles.od = self.tiles.oh = self.tiles.lines = 1
        self.tiles.span = images * self.tiles_down * self.tiles_across
        p.tile.mr = tiles_per_task(&p.tile, self.tiles.span, p.depth, p.half)


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
cdef int tiles_per_task(const pl_tile *t, ptrdiff_t tiles, ptrdiff_t c, bint half):
    """Tiles per task: as many as WINOGRAD_SCRATCH holds, so that tasks are equal and fill the micro-kernel's rows.

    c: channels of the input.
    """
    cdef ptrdiff_t most = (WINOGRAD_SCRATCH - 16 * (c + 16)) // (16 * (c + t.nr))
    if half:
        most = (2 * WINOGRAD_SCRATCH - 16 * 16 - PATCH) // (16 * (c + t.nr))
    if most > 4:
        most -= most % (t.mr if most >= t.mr else 4)
    cdef ptrdiff_t tasks = (tiles + most - 1) // most
    return <int>min(round_up((tiles + tasks - 1) // tasks, 4), most)


cdef int conv_f32_winograd(ConvF32 self, pl_pool *pool) noexcept nogil:
    cdef Product *p = &self.product
    pool = parallel_pool(pool, 32 * self.tiles.span * p.depth * p.columns)
    parallel_for(pool, plan_tasks(&p.tasks, &self.tiles, &p.tile, p.columns, 1, pool), 1,
                 self.run_tiles, <void *>self)
    return 0


cdef void transform_input(ConvF32 self, const Task *task, float *v, ptrdiff_t next, float *patch) noexcept nogil:
    """Transform the pixels under a task's tiles to the left operands v of the 16 products, `next` elements apart.

    patch: scratch for the 16 pixels of a tile at the border.
    """
    cdef const Product *p = &self.product
    cdef const Window *g = &p.window
    cdef const float *line[4]
    cdef ptrdiff_t step[4]
    cdef ptrdiff_t done = 0, count, n, ty, tx, ix, iy
    cdef bint padded
    cdef int y, x
    while done < task.rows:
        tx, ty = (task.position + done) % self.tiles_across, (task.position + done) // self.tiles_across
        n, ty = ty // self.tiles_down, ty % self.tiles_down
        ix = 2 * tx - g.pad_w
        padded = ix < 0 or ix + 4 > g.w
        count = 1 if padded else min(task.rows - done, min(self.tiles_across - tx, (g.w - ix - 2) // 2))
        for y in range(4):
            iy = 2 * ty - g.pad_h + y
            if not 0 <= iy < g.h:
                line[y], step[y] = <const float *>g.zero, 0
                continue
            line[y], step[y] = <const float *>(g.x + n * g.sn + iy * g.sh + ix * g.sw), g.sw // 4
            if padded:
                for x in range(4):
                    memcpy(patch + (4 * y + x) * p.depth,
                           line[y] + x * step[y] if 0 <= ix + x < g.w else <const float *>g.zero, g.length)
                line[y], step[y] = patch + 4 * y * p.depth, p.depth
        p.slots.winograd_in(count, p.depth, line, step, v + done * p.depth, next)
        done += count


cdef void transform_output(ConvF32 self, const Task *task, const float *m, ptrdiff_t j, int n) noexcept nogil:
    """Transform columns j to j + n - 1 of a task's products m to output pixels."""
    cdef const Product *p = &self.product
    cdef ptrdiff_t done = 0, count, image, ty, tx, nr = p.tile.nr
    cdef char *y
    cdef bint single
    while done < task.rows:
        tx, ty = (task.position + done) % self.tiles_across, (task.position + done) // self.tiles_across
        image, ty = ty // self.tiles_down, ty % self.tiles_down
        single = 2 * tx + 1 == p.window.ow
        count = 1 if single else min(task.rows - done, p.window.ow // 2 - tx)
        y = p.output.y + image * p.output.sn + 2 * ty * p.output.sh + 2 * tx * p.output.sw
        p.slots.winograd_out(count, n, m + done * nr, nr, task.rows * nr, p.bias + j if p.bias != NULL else NULL,
                             p.low, p.high, <float *>y + j, p.output.sh // 4 if 2 * ty + 1 < p.window.oh else 0,
                             0 if single else p.output.sw // 4)
        done += count


cdef void run_winograd_tasks(ConvF32 self, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef const Product *p = &self.product
    cdef float space[WINOGRAD_SCRATCH + 16]
    cdef float *scratch = <float *>(<size_t>(space + 15) & ~<size_t>63)      # aligned to cache lines
    cdef float *m
    cdef float *y
    cdef const uint8_t *panel
    cdef ptrdiff_t i, j, part, next, transformed = -1
    cdef pl_a_layout shape = pl_packed_layout(p.depth)
    cdef Task task
    cdef int n, nr = p.tile.nr
    for i in range(begin, end):
        get_task(&p.tasks, &self.tiles, NULL, p.columns, i, &task)
        next = task.rows * p.depth
        if next % 1024 == 0:        # else all 16 operands would fall into the same few sets of the cache
            next += 16
        m = scratch + 16 * next
        if i // p.tasks.splits != transformed:
            transformed = i // p.tasks.splits
            transform_input(self, &task, scratch, next, m)
        j = task.begin
        while j < task.end:
            n = <int>min(<ptrdiff_t>nr, task.end - j)
            for part in range(16):
                panel = p.panels + (part * p.padded_columns + j) * p.depth * p.tile.bytes
                y = m + part * task.rows * nr
                p.slots.gemm_f32(task.rows, n, &shape, scratch + part * next, <const float *>panel, 1, 0, NULL, 0, 0, y,
                                 nr)
            transform_output(self, &task, m, j, n)
            j += nr


# ---- the same in float16 --------------------------------------------------------------------------------------
cdef void transform_input_f16(ConvF32 self, const Task *task, uint16_t *v, ptrdiff_t next,
                              uint16_t *patch) noexcept nogil:
    """transform_input() in float16; patch: scratch for pixels of tiles at the border, and of float32."""
    cdef const Product *p = &self.product
    cdef const Window *g = &p.window
    cdef const uint16_t *line[4]
    cdef ptrdiff_t step[4]
    cdef ptrdiff_t done = 0, count, pixels, n, ty, tx, ix, iy, i
    cdef const uint8_t *x
    cdef uint16_t *to
    cdef bint padded, converts = p.x_item == 4
    cdef int y
    while done < task.rows:
        tx, ty = (task.position + done) % self.tiles_across, (task.position + done) // self.tiles_across
        n, ty = ty // self.tiles_down, ty % self.tiles_down
        ix = 2 * tx - g.pad_w
        padded = ix < 0 or ix + 4 > g.w
        count = 1 if padded else min(task.rows - done, min(self.tiles_across - tx, (g.w - ix - 2) // 2))
        if converts:
            count = min(count, max(<ptrdiff_t>1, CONVERTED // p.depth))
        pixels = 2 * count + 2
        for y in range(4):
            iy = 2 * ty - g.pad_h + y
            if not 0 <= iy < g.h:
                line[y], step[y] = <const uint16_t *>g.zero, 0
                continue
            x = g.x + n * g.sn + iy * g.sh + ix * g.sw
            line[y], step[y] = <const uint16_t *>x, g.sw // 2
            if padded or converts:
                to = patch + y * pixels * p.depth
                line[y], step[y] = to, p.depth
                for i in range(pixels):
                    if not 0 <= ix + i < g.w:
                        memset(to, 0, 2 * p.depth)
                    elif converts:
                        p.slots.float_to_half(p.depth, x + i * g.sw, to, NULL)
                    else:
                        memcpy(to, x + i * g.sw, 2 * p.depth)
                    to += p.depth
        p.slots.winograd_in_f16(count, p.depth, line, step, v + done * p.depth, next)
        done += count


cdef void transform_output_f16(ConvF32 self, const Task *task, const uint16_t *m, ptrdiff_t j, int n,
                               uint16_t *patch) noexcept nogil:
    """transform_output() in float16; patch: scratch for results of float32."""
    cdef const Product *p = &self.product
    cdef const float *bias = p.bias + j if p.bias != NULL else NULL
    cdef ptrdiff_t done = 0, count, image, ty, tx, down, across, nr = p.tile.nr
    cdef char *y
    cdef bint single
    cdef int i, x
    while done < task.rows:
        tx, ty = (task.position + done) % self.tiles_across, (task.position + done) // self.tiles_across
        image, ty = ty // self.tiles_down, ty % self.tiles_down
        single = 2 * tx + 1 == p.window.ow
        count = 1 if single else min(task.rows - done, p.window.ow // 2 - tx)
        y = p.output.y + image * p.output.sn + 2 * ty * p.output.sh + 2 * tx * p.output.sw + j * p.item
        down, across = p.output.sh if 2 * ty + 1 < p.window.oh else 0, 0 if single else p.output.sw
        if p.item == 2:
            p.slots.winograd_out_f16(count, n, m + done * nr, nr, task.rows * nr, bias, p.low, p.high, <uint16_t *>y,
                                     down // 2, across // 2)
        else:
            count = min(count, <ptrdiff_t>(CONVERTED // nr))
            p.slots.winograd_out_f16(count, n, m + done * nr, nr, task.rows * nr, bias, p.low, p.high, patch,
                                     2 * count * n, n)
            for i in range(2 if down else 1):
                for x in range(2 * <int>count if across else 1):
                    p.slots.half_to_float(n, patch + (2 * i * count + x) * n, y + i * down + x * across, NULL)
        done += count


cdef void run_winograd_tasks_f16(ConvF32 self, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef const Product *p = &self.product
    cdef float space[WINOGRAD_SCRATCH + 16]
    cdef uint16_t *scratch = <uint16_t *>(<size_t>(space + 15) & ~<size_t>63)        # aligned to cache lines
    cdef uint16_t *m
    cdef uint16_t *patch
    cdef const uint8_t *panel
    cdef ptrdiff_t i, j, part, next, transformed = -1
    cdef pl_a_layout shape = pl_packed_layout(p.depth)
    cdef Task task
    cdef int n, nr = p.tile.nr
    for i in range(begin, end):
        get_task(&p.tasks, &self.tiles, NULL, p.columns, i, &task)
        next = task.rows * p.depth
        if next % 1024 == 0:        # else all 16 operands would fall into the same few sets of the cache
            next += 16
        m = scratch + 16 * next
        patch = m + 16 * task.rows * nr
        if i // p.tasks.splits != transformed:
            transformed = i // p.tasks.splits
            transform_input_f16(self, &task, scratch, next, patch)
        j = task.begin
        while j < task.end:
            n = <int>min(<ptrdiff_t>nr, task.end - j)
            for part in range(16):
                panel = p.panels + (part * p.padded_columns + j) * p.depth * p.tile.bytes
                p.slots.gemm_f16(task.rows, n, &shape, scratch + part * next, <const uint16_t *>panel, 1, 2, NULL, 0, 0,
                                 m + part * task.rows * nr, nr)
            transform_output_f16(self, &task, m, j, n, patch)
            j += nr
