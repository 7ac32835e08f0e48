"""8-bit convolutions, requantized by MBQM32 with a multiplier for each channel."""
import numpy as np

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc
from libc.string cimport memmove

from pylite._core.run.kernel cimport Kernel, kernel_fn
from pylite._core.kernels.columns cimport PARAMETERS, UNFIT, finish_columns, fit_columns, set_column, set_constant
from pylite._core.kernels.lines cimport MAX_CHUNK, LineBuffer, Lines, next_line, padded_lines, plan_lines
from pylite._core.kernels.product8 cimport ROW, Product8, accumulate, one_row, pack_lines, single_row
from pylite._core.kernels.spread cimport SPREAD_BUFFER, Spread, plan_spread, spread
from pylite._core.kernels.tasks cimport (
    MAX_MR,
    MAX_NR,
    Output,
    Task,
    Tasks,
    get_task,
    padded,
    parallel_pool_q8,
    plan_tasks,
    set_output,
    share,
)
from pylite._core.kernels.window cimport (
    A_PANEL_BYTES,
    POINTERS,
    SHORT,
    Window,
    copy_lines,
    gather,
    set_window,
    short_lines,
)
from pylite._core.simd cimport (
    PL_MAX_TAPS,
    PL_SLACK,
    PL_WINOGRAD_WIDE,
    defer_packing,
    memory_of,
    parallel_for,
    pl_a_layout,
    pl_block_start,
    pl_columns,
    pl_dw_window,
    pl_packed_layout,
    pl_packing_task,
    pl_pool,
    pl_range_fn,
    pl_slots,
    pl_tap_order,
    pl_tile,
    pl_winograd,
    pl_winograd_tiles,
    pl_wraps,
    pool_threads,
    slots,
)

from pylite._core.run.memory import pooled

cdef object UINT8 = np.dtype(np.uint8)


cdef int set_columns(pl_columns *q, parameters, ptrdiff_t depth, int zero_point, int low, int high, int flip) except -1:
    """Point q at parameters (PARAMETERS, columns); depth: of the sums; zero_point, low, high as of int8."""
    cdef ptrdiff_t size = parameters.size, n = size // PARAMETERS, i
    cdef ptrdiff_t limit = (1 << 30) - 2 * depth * 255 * 128
    cdef const int32_t *at = <const int32_t *>memory_of(parameters, 4 * size)
    q.bias, q.mult, q.odd, q.left, q.right, q.half, q.sign = (
        at, at + n, at + 2 * n, NULL, at + 4 * n, at + 5 * n, at + 6 * n)
    q.scale, q.rest, q.start = <const float *>(at + 7 * n), <const float *>(at + 8 * n), <const float *>(at + 9 * n)
    q.fit = at[9 * n] != UNFIT
    for i in range(n):
        if at[n + i] < 0 or (at[n + i] and at[4 * n + i] == 0) or not -limit < at[i] < limit:
            q.left = at + 3 * n
    q.zero_point, q.low, q.high, q.flip = zero_point, low, high, flip
    return 0


cdef struct Conv:
    Product8 product
    Output output
    Tasks tasks
    pl_range_fn run_tasks   # runs some of the tasks
    pl_columns columns
    pl_a_layout shape       # of the rows that gemm_q8 reads
    Lines lines
    int w_zero
    bint as_is              # images are read in place
    pl_winograd tiles


cdef class ConvQ8(Kernel):
    """8-bit 2-D convolution: clamp(MBQM32(sum w (x - z_x) + b) + z_y).

    x: (n, h, w, c) and y: (n, oh, ow, k), bytes, any strides but contiguous channels; contiguous y for pixel packing.
    packed: from matmul.pack_q8; filter: (fh, fw, stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w).
    zero: the zero point of x as bytes, one for each channel of a group and each pixel of a line that an output pixel
    sees (with pixel packing: that a group of output pixels sees).
    w_zero, zero_point, low, high: as of int8; x_flip, y_flip: 0x80 where x, y are uint8.
    """
    cdef const uint8_t[:, :, :, :] x
    cdef uint8_t[:, :, :, :] y
    cdef object held        # owners of the other memory that state points to
    cdef const pl_slots *slots
    cdef Conv state
    cdef const uint8_t *row

    def __init__(self, const uint8_t[:, :, :, :] x, uint8_t[:, :, :, :] y, tuple packed, *, filter, groups,
                 zero, int w_zero, int zero_point, int low, int high, int x_flip=0, int y_flip=0):
        cdef Product8 *p = &self.state.product
        panels, parameters = packed[:2]
        self.x, self.y, self.held = x, y, (panels, parameters, zero)
        self.slots = slots
        self.state.w_zero = w_zero
        if 0 in self.y.shape[:4]:
            self.fn = <kernel_fn>nothing
            return
        p.groups = groups
        p.columns = y.shape[3] // p.groups
        set_window(&p.window, &x[0, 0, 0, 0] if x.size else NULL, x.strides[0], x.strides[1], x.strides[2], x.shape[1],
                   x.shape[2], y.shape[1], y.shape[2], x.shape[3] // p.groups,
                   <const uint8_t *>memory_of(zero, len(zero)), filter)
        set_output(&self.state.output, <char *>&y[0, 0, 0, 0], y.shape[0], y.shape[1], y.shape[2], y.strides[0],
                   y.strides[1], y.strides[2])
        cdef ptrdiff_t pixels = packed[2] if len(packed) > 2 else 1
        if pixels > 1:
            pack_output_pixels(&self.state, pixels)
        p.tile, p.slots, p.flip = self.slots.q8, self.slots, x_flip
        p.panels = <const uint8_t *>memory_of(panels, panels.size)
        p.depth = p.window.fh * p.window.fw * p.window.length
        p.deep, p.wide = padded(p.depth, p.tile.ka), padded(p.columns, p.tile.nv)
        set_columns(&self.state.columns, parameters, p.depth, zero_point, low, high, y_flip)
        self.state.shape = pl_packed_layout(p.deep)
        self.row = self.only_row() if pixels else NULL
        if not pixels:
            use_tiles(&self.state)
            self.fn, self.path = <kernel_fn>conv_q8_tiles, "Winograd's 36 products for each 4 x 4 pixels"
        elif self.row != NULL:
            self.fn, self.path = <kernel_fn>conv_q8_row, "a single row"
        else:
            self.fn = <kernel_fn>conv_q8
            if use_lines(&self.state):
                self.state.run_tasks = run_lines
                self.path = "rows as they lie in memory" if self.state.as_is else "lines, each packed once"
            elif p.deep * p.tile.bytes * p.tile.mr > A_PANEL_BYTES or p.window.fh * p.window.fw * p.tile.mr > POINTERS:
                self.state.run_tasks, self.path = run_deep, "gathered in pieces, too long for one packed panel"
            else:
                self.state.run_tasks, self.path = run_packed, "taps gathered into packed panels"
            if pixels > 1:
                self.path += f", {pixels} pixels at once"

    cdef const uint8_t *only_row(self):
        """The address of the row, where the product has a single row of consecutive bytes; else NULL."""
        cdef const Product8 *p = &self.state.product
        cdef const uint8_t *src[ROW]
        cdef ptrdiff_t length
        cdef int segments, i
        if (not single_row(p, self.state.output.span * self.state.output.lines)
                or padded_lines(&p.tile, 1, p.window.fh, p.window.fw * p.window.length)):
            return NULL
        segments = gather(&p.window, 0, 1, 0, src, &length)
        for i in range(1, segments):
            if src[i] != src[i - 1] + length:
                return NULL
        return src[0]


cdef int conv_q8_row(ConvQ8 self, pl_pool *pool) noexcept nogil:
    cdef Conv *s = &self.state
    one_row(&s.product, &s.columns, s.w_zero, self.row, <uint8_t *>s.output.y)
    return 0


cdef void pack_output_pixels(Conv *s, ptrdiff_t pixels):
    """Pixel packing: `pixels` neighbours in a line of the output become one pixel with the columns of all of them."""
    cdef Window *w = &s.product.window
    s.product.columns *= pixels
    s.output.sw *= pixels
    s.output.span //= pixels
    w.ow //= pixels
    if w.direct and w.sw == w.length:       # the input pixels are merged, too
        w.w //= pixels
        w.sw *= pixels
        w.length *= pixels
    else:
        w.direct = False
        w.fw += <int>(pixels - 1) * w.stride_w
        w.stride_w *= <int>pixels


cdef bint use_lines(Conv *s):
    """Set up s to read rows from lines of the image; returns False where it cannot."""
    cdef Product8 *p = &s.product
    if not plan_lines(&s.lines, &p.window, &s.output, &p.tile, 1, p.groups):
        return False
    p.tile.mr = s.lines.chunk
    s.shape = s.lines.shape
    p.deep = s.shape.lines * s.shape.depth
    s.as_is = (p.window.direct and p.window.sw == p.window.length and p.tile.bytes == 1
               and (p.flip ^ p.tile.offset) == 0 and s.lines.line % p.tile.ka == 0)
    return True


cdef void use_tiles(Conv *s):
    """Set up s for Winograd's tiles, which count as pixels of the output."""
    cdef Window *w = &s.product.window
    cdef Output *o = &s.output
    cdef pl_winograd *g = &s.tiles
    cdef ptrdiff_t most = pl_winograd_tiles(w.length), tiles = o.span * o.lines // (w.oh * w.ow), tasks
    g.x, g.zero, g.y, g.panels = w.x, w.zero, <uint8_t *>o.y, <const int16_t *>s.product.panels
    g.x_image, g.x_line, g.x_pixel, g.y_image, g.y_line, g.y_pixel = w.sn, w.sh, w.sw, o.sn, o.sh, o.sw
    g.h, g.w, g.oh, g.ow, g.c = w.h, w.w, w.oh, w.ow, w.length
    g.pad_h, g.pad_w, g.flip = w.pad_h, w.pad_w, s.product.flip
    tiles *= (w.oh + 3) // 4 * ((w.ow + 3) // 4)
    tasks = (tiles + most - 1) // most
    o.span, o.lines = tiles, 1
    s.product.tile.mr, s.product.tile.nr = <int>((tiles + tasks - 1) // tasks), PL_WINOGRAD_WIDE


cdef int conv_q8_tiles(ConvQ8 self, pl_pool *pool) noexcept nogil:
    cdef Conv *s = &self.state
    pool = parallel_pool_q8(pool, s.product.slots, 8 * s.output.span * s.product.depth * s.product.columns)
    plan_tasks(&s.tasks, &s.output, &s.product.tile, s.product.columns, 1, pool)
    # Each task transforms its tiles, so fewer splits of the columns are better.
    s.tasks.splits = min(s.tasks.splits, share(4 * pool_threads(pool) + s.tasks.a_panels - 1, s.tasks.a_panels))
    parallel_for(pool, s.tasks.a_panels * s.tasks.splits, 1, run_tiles, s)
    return 0


cdef void run_tiles(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef Conv *s = <Conv *>ctx
    cdef Task task
    cdef ptrdiff_t i
    for i in range(begin, end):
        get_task(&s.tasks, &s.output, s.product.columns, i, &task)
        s.product.slots.winograd_q8(&s.tiles, task.position, task.rows, task.begin, task.end, &s.columns)


cdef void run_lines(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Tasks that read packed lines, or the image in place."""
    cdef Conv *s = <Conv *>ctx
    cdef const Product8 *p = &s.product
    cdef uint8_t a_panel[A_PANEL_BYTES + 2 * PL_SLACK]
    cdef const uint8_t *rows = NULL
    cdef int32_t sums[MAX_CHUNK]
    cdef int32_t *terms = sums if s.w_zero else NULL
    cdef Task task
    cdef LineBuffer line_buffer
    cdef ptrdiff_t i = begin, j, seen = -1, step = p.window.stride_h * s.lines.pitch * p.tile.bytes
    cdef int r
    line_buffer.row = line_buffer.lines = 0
    while i < end:
        get_task(&s.tasks, &s.output, p.columns, i, &task)
        if share(i, s.tasks.splits) != seen:
            seen = share(i, s.tasks.splits)
            rows = pack_lines(p, &s.lines, s.as_is, task.position, task.rows, share(end - i - 1, s.tasks.splits) + 1,
                              a_panel, &line_buffer)
        while True:
            if s.w_zero:
                p.slots.sums_q8(task.rows, &s.shape, s.lines.line, rows, sums)
                for r in range(task.rows):
                    sums[r] *= -s.w_zero
            j = task.begin
            while j < task.end:
                p.slots.gemm_q8(task.rows, <int>min(<ptrdiff_t>p.tile.nr, task.end - j), &s.shape, rows,
                                p.panels + j * p.deep, terms, &s.columns, j, <uint8_t *>task.y + j, s.output.sw)
                j += p.tile.nr
            i += 1
            if not next_line(&s.tasks, &s.output, &line_buffer, &task):
                break
            rows += step


cdef int nothing(Kernel self, pl_pool *pool) noexcept nogil:
    return 0


cdef int conv_q8(ConvQ8 self, pl_pool *pool) noexcept nogil:
    cdef Conv *s = &self.state
    pool = parallel_pool_q8(pool, s.product.slots, s.output.span * s.output.lines * s.product.depth * s.product.columns)
    cdef ptrdiff_t n = plan_tasks(&s.tasks, &s.output, &s.product.tile, s.product.columns, s.product.groups, pool)
    parallel_for(pool, n, 1, s.run_tasks, s)
    return 0


cdef void run_packed(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Tasks that gather their rows into A panels."""
    cdef Conv *s = <Conv *>ctx
    cdef const Product8 *p = &s.product
    cdef uint8_t a_panel[A_PANEL_BYTES + 2 * PL_SLACK]
    cdef uint8_t copies[MAX_MR * SHORT]
    cdef const uint8_t *src[POINTERS]
    cdef int32_t sums[MAX_MR]
    cdef int32_t *terms = sums if s.w_zero else NULL
    cdef Task task
    cdef ptrdiff_t i, j, length = 0, gathered = -1
    cdef int segments = 1, r
    cdef bint copied = p.groups == 1 and short_lines(&p.window)
    if copied:
        length = p.depth
    for i in range(begin, end):
        get_task(&s.tasks, &s.output, p.columns, i, &task)
        if share(i, s.tasks.splits) != gathered:
            gathered = share(i, s.tasks.splits)
            if copied:
                copy_lines(&p.window, task.position, task.rows, copies, src)
            else:
                segments = gather(&p.window, task.position, task.rows, task.group * p.window.length, src, &length)
            p.slots.pack_a_q8(task.rows, segments, length, src, p.flip, a_panel, p.deep)
            if s.w_zero:
                p.slots.sums_q8(task.rows, &s.shape, p.depth, a_panel, sums)
                for r in range(task.rows):
                    sums[r] *= -s.w_zero
        j = task.begin
        while j < task.end:
            p.slots.gemm_q8(task.rows, <int>min(<ptrdiff_t>p.tile.nr, task.end - j), &s.shape, a_panel,
                            p.panels + (task.group * p.wide + j) * p.deep, terms, &s.columns, task.group * p.wide + j,
                            <uint8_t *>task.y + task.group * p.columns + j, s.output.sw)
            j += p.tile.nr


cdef void run_deep(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Tasks of rows too long for an A panel: sums of pieces of the depth, requantized at the end."""
    cdef Conv *s = <Conv *>ctx
    cdef const Product8 *p = &s.product
    cdef int32_t acc[MAX_MR * MAX_NR]
    cdef int32_t sums[MAX_MR]
    cdef Task task
    cdef ptrdiff_t i, j
    cdef int n, r, c
    for i in range(begin, end):
        get_task(&s.tasks, &s.output, p.columns, i, &task)
        j = task.begin
        while j < task.end:
            n = <int>min(<ptrdiff_t>p.tile.nr, task.end - j)
            accumulate(p, task.group, task.position, task.rows, j, n, acc, sums if s.w_zero else NULL)
            for r in range(task.rows):
                if s.w_zero:
                    for c in range(n):
                        acc[r * MAX_NR + c] -= s.w_zero * sums[r]
                p.slots.requantize_q8(n, &acc[r * MAX_NR], &s.columns, task.group * p.wide + j,
                                      <uint8_t *>task.y + r * s.output.sw + task.group * p.columns + j)
            j += p.tile.nr


include "depthwise.pxi"
