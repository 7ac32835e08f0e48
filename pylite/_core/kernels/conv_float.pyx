"""Float convolutions and matrix products."""
import numpy as np

from libc.stdint cimport uint8_t
from libc.stdlib cimport calloc
from libc.string cimport memcpy, memmove, memset

from pylite._core.run.kernel cimport FLUSHED, Kernel, kernel_fn
from pylite._core.kernels.lines cimport LineBuffer, Lines, extend_line_buffer, next_line, plan_lines
from pylite._core.kernels.spread cimport (
    SPREAD_BUFFER,
    Spread,
    lines_of_run,
    lines_of_task,
    plan_spread,
    see_lines,
    spread,
)
from pylite._core.kernels.tasks cimport (
    MAX_MR,
    PIECE,
    Output,
    Task,
    Tasks,
    get_task,
    padded,
    parallel_pool,
    pl_give_back,
    plan_tasks,
    set_output,
    share,
)
from pylite._core.kernels.window cimport A_PANEL_BYTES, POINTERS, Line, Window, copy_row, gather, see_line, set_window
from pylite._core.simd cimport (
    PL_MAX_TAPS,
    PL_SLACK,
    defer_packing,
    parallel_for,
    pl_a_layout,
    pl_dw_window,
    pl_fill,
    pl_packed_layout,
    pl_packing_task,
    pl_pool,
    pl_range_fn,
    pl_slots,
    pl_tile,
    pool_threads,
    slots,
)

from pylite._core.kernels.matmul import arranged
from pylite._core.run.memory import give_back, pooled

cdef enum:
    DEPTH = 768             # of an A panel: with MAX_MR rows it stays in the first-level cache
    FEW = 64                # pixels; for up to so many, the weights are read once
    WINOGRAD_SCRATCH = 24 * 1024    # floats of Winograd's operands and products, and of the pixels of a tile


cdef struct Packing:
    pl_packing_task task
    const float *w              # (groups * columns, depth)
    float *panels
    ptrdiff_t groups, columns, depth, group_size


cdef ptrdiff_t columns_of_piece(const pl_tile *t, ptrdiff_t depth) noexcept nogil:
    """Whole panels of about PIECE bytes."""
    return padded(PIECE // (4 * depth) + 1, t.nr)


cdef void run_packing(pl_packing_task *task) noexcept nogil:
    cdef Packing *p = <Packing *>task
    cdef ptrdiff_t g, j, columns, step = columns_of_piece(&task.slots.f32, p.depth)
    cdef const float *w
    for g in range(p.groups):
        j = 0
        while j < p.columns:
            columns, w = min(step, p.columns - j), p.w + (g * p.columns + j) * p.depth
            pack_panels(task.slots, w, columns, p.depth, p.panels + g * p.group_size + j * p.depth)
            pl_give_back(w, columns * p.depth * 4)
            j += step
    pl_give_back(p.w, p.groups * p.columns * p.depth * 4)


def pack_f32(w, Py_ssize_t groups=1, layout=None):
    """Panels of float32 weights w (columns, ...), the columns of all groups; deferred until finish_packing().

    layout: see matmul.arranged; where it keeps columns apart, weights are arranged and packed in pieces.
    """
    cdef ptrdiff_t columns, depth, group_size, j, step
    if layout is None or not layout.by_columns or not w.size:
        w = arranged(w, layout)
        columns, depth = w.shape[0] // groups, w.size // w.shape[0] if w.size else 0
        group_size = padded(columns, slots.f32.nv) * depth
        packed = pooled(groups * group_size * 4).view(np.float32)
        pack_piece(w, groups, columns, depth, group_size, packed, 0)
        return packed
    columns, depth = w.shape[0], w.size // w.shape[0]
    step = columns_of_piece(&slots.f32, depth)
    packed = None
    for j in range(0, columns, step):
        piece = arranged(w[j:j + step], layout)
        depth = piece.shape[1]
        group_size = padded(columns, slots.f32.nv) * depth
        if packed is None:
            packed = pooled(groups * group_size * 4).view(np.float32)
        pack_piece(piece, groups, piece.shape[0] // groups, depth, group_size, packed, j * depth)
        give_back(w[j:j + step])
    return packed


cdef int pack_piece(w, ptrdiff_t groups, ptrdiff_t columns, ptrdiff_t depth, ptrdiff_t group_size, packed,
                    ptrdiff_t at) except -1:
    """Pack w (groups * columns, ...) to panels that begin at the float `at` of each group of `packed`."""
    flat = np.ascontiguousarray(w, np.float32).reshape(-1)
    cdef const float[::1] source = flat
    cdef float[::1] panels = packed
    if not source.shape[0]:
        return 0
    cdef Packing *p = <Packing *>calloc(1, sizeof(Packing))
    if p == NULL:
        raise MemoryError("no memory to pack weights")
    p.task.run, p.w, p.panels = run_packing, &source[0], &panels[at]
    p.groups, p.columns, p.depth, p.group_size = groups, columns, depth, group_size
    defer_packing(&p.task, flat.nbytes, (flat, packed), flat.nbytes if flat.flags.writeable else 0)
    return 0


cdef void pack_panels(const pl_slots *s, const float *w, ptrdiff_t columns, ptrdiff_t depth,
                      float *panels) noexcept nogil:
    """w (columns, depth) to panels [k][column]; columns beyond those of w are zeros."""
    cdef const pl_tile *t = &s.f32
    cdef ptrdiff_t j0 = 0, n, width
    while j0 < columns:
        n, width = min(<ptrdiff_t>t.nr, columns - j0), min(<ptrdiff_t>t.nr, padded(columns - j0, t.nv))
        if n < width:
            memset(panels, 0, width * depth * 4)
        s.copy_transposed(4, depth, n, <const uint8_t *>w, depth * 4, <uint8_t *>panels, width * 4)
        panels += width * depth
        w += n * depth
        j0 += t.nr


cdef struct Conv:
    Window window
    Output output
    Tasks tasks
    pl_range_fn run_tasks   # runs some of the tasks
    Lines lines
    pl_tile tile            # mr: rows of a task
    const pl_slots *slots
    const float *panels
    const float *weights    # run-time weights, packed at each run
    float *scratch          # in this memory; else NULL
    const float *bias
    ptrdiff_t columns, groups, depth, wide
    ptrdiff_t direct        # floats from one row of x to the next where rows are read in place, else 0
    Output tiles            # of Winograd, which count as pixels,
    ptrdiff_t down, across  # and their numbers
    float low, high
    int alone               # 2 where there is a single row, see gemm_f32


cdef class ConvF32(Kernel):
    """float32 2-D convolution: clamp(sum w x + b).

    x: (n, h, w, c) and y: (n, oh, ow, k), any strides but contiguous channels; panels: from pack_f32, or None: then
    weights (k, depth) are packed in `scratch` at each run; bias: (k,) or None; filter: (fh, fw, stride_h, stride_w,
    dilation_h, dilation_w, pad_h, pad_w); winograd: panels are those of its 16 products.
    """
    cdef const float[:, :, :, :] x
    cdef float[:, :, :, :] y
    cdef const float[::1] panels, bias
    cdef const float[:, ::1] weights
    cdef float[::1] scratch
    cdef const uint8_t[::1] zero
    cdef Conv state

    def __init__(self, const float[:, :, :, :] x, float[:, :, :, :] y, const float[::1] panels,
                 const float[::1] bias, *, filter, groups=1, float low, float high,
                 const float[:, ::1] weights=None, float[::1] scratch=None, bint winograd=False):
        cdef Conv *s = &self.state
        cdef Window *g = &s.window
        self.x, self.y, self.panels, self.bias = x, y, panels, bias
        self.weights, self.scratch = weights, scratch
        if 0 in self.y.shape[:4]:
            self.fn = <kernel_fn>nothing
            return
        self.subnormals = FLUSHED
        s.slots, s.groups, s.low, s.high = slots, groups, low, high
        s.columns = y.shape[3] // s.groups
        if panels is None:
            s.weights, s.scratch = &weights[0, 0], &scratch[0]
            s.panels = s.scratch
        else:
            s.panels = &panels[0] if panels.shape[0] else NULL
        s.bias = &bias[0] if bias is not None else NULL
        self.zero = np.zeros(max(1, filter[1] * x.shape[3] // s.groups * 4), np.uint8)
        set_window(g, <const uint8_t *>&x[0, 0, 0, 0] if x.size else NULL, x.strides[0], x.strides[1], x.strides[2],
                   x.shape[1], x.shape[2], y.shape[1], y.shape[2], x.shape[3] // s.groups * 4, &self.zero[0], filter)
        set_output(&s.output, <char *>&y[0, 0, 0, 0], y.shape[0], y.shape[1], y.shape[2], y.strides[0], y.strides[1],
                   y.strides[2])
        s.alone = 2 if s.output.span * s.output.lines == 1 else 0
        s.depth = g.fh * g.fw * g.length // 4
        s.wide = padded(s.columns, s.slots.f32.nv)
        s.direct = g.sw // 4 if g.direct else 0
        s.tile = s.slots.f32
        if winograd:
            s.depth = g.length // 4
            s.down, s.across = (g.oh + 1) // 2, (g.ow + 1) // 2
            s.tiles.oh, s.tiles.lines, s.tiles.span = 1, 1, y.shape[0] * s.down * s.across
            s.tile.mr = some_tiles(&s.tile, s.tiles.span, s.depth)
            self.fn = <kernel_fn>conv_f32_winograd
            self.path = "Winograd's 16 products for each 2 x 2 pixels"
            return
        self.fn, s.run_tasks = <kernel_fn>conv_f32, run_packed
        self.path = "rows as they lie in memory" if s.direct else "taps gathered into packed panels"
        if s.depth <= DEPTH or not s.direct:
            if plan_lines(&s.lines, g, &s.output, &s.tile, 4, s.groups, True):
                s.tile.mr = s.lines.chunk
                if s.direct:
                    s.lines.shape.step = s.direct
                    if s.output.span <= FEW:
                        s.tile.mr = <int>s.output.span
                s.run_tasks = run_lines
                if not s.direct:
                    self.path = "lines, each packed once"


cdef int nothing(Kernel self, pl_pool *pool) noexcept nogil:
    return 0


cdef int conv_f32(ConvF32 self, pl_pool *pool) noexcept nogil:
    cdef Conv *s = &self.state
    if s.weights != NULL:
        pack_panels(s.slots, s.weights, s.columns, s.depth, s.scratch)
    pool = parallel_pool(pool, 2 * s.output.span * s.output.lines * s.depth * s.columns)
    parallel_for(pool, plan_tasks(&s.tasks, &s.output, &s.tile, s.columns, s.groups, pool), 1, s.run_tasks, s)
    return 0


cdef const float *pack_lines(const Conv *s, ptrdiff_t position, ptrdiff_t pixels, ptrdiff_t rows, char *a_panel,
                             LineBuffer *line_buffer) noexcept nogil:
    """The lines under the windows of `pixels` output pixels, packed in sequence."""
    cdef ptrdiff_t size = s.window.length, i, step = share(s.window.dilation_h, s.lines.down)
    cdef Line line
    cdef char *to
    cdef const uint8_t *x
    cdef ptrdiff_t iy, row = share(position, s.window.ow), ox = position - row * s.window.ow, n, y
    cdef ptrdiff_t first = extend_line_buffer(&s.lines, &s.window, row, pixels, rows, line_buffer, &y)
    if y >= line_buffer.lines:
        return <const float *>a_panel + first * s.lines.pitch
    n = share(line_buffer.row, s.window.oh)
    line = see_line(&s.window, n, ox, pixels)
    iy = (line_buffer.row - n * s.window.oh) * s.window.stride_h - s.window.pad_h + y * step
    while y < line_buffer.lines:
        to = a_panel + y * s.lines.pitch * 4
        if line.x == NULL or not 0 <= iy < s.window.h:
            pl_fill(to, 0, (line.before + line.inside + line.after) * size)
        else:       # the next line overwrites the excess of pl_fill
            x = line.x + iy * s.window.sh
            pl_fill(to, 0, line.before * size)
            to += line.before * size
            if s.window.sw == size:
                memmove(to, x, line.inside * size)
            else:
                for i in range(line.inside):
                    memmove(to + i * size, x + i * s.window.sw, size)
            pl_fill(to + line.inside * size, 0, line.after * size)
        iy += step
        y += 1
    return <const float *>a_panel + first * s.lines.pitch


cdef void run_lines(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef Conv *s = <Conv *>ctx
    cdef char a_panel[A_PANEL_BYTES + PL_SLACK]
    cdef const float *rows = NULL
    cdef ptrdiff_t i = begin, j, width, seen = -1
    cdef int y
    cdef Task task
    cdef LineBuffer line_buffer
    line_buffer.row = line_buffer.lines = 0
    line_buffer.ready = 1
    while i < end:
        get_task(&s.tasks, &s.output, s.columns, i, &task)
        if s.direct:
            rows = <const float *>s.window.x + task.position * s.direct
        elif share(i, s.tasks.splits) != seen:
            seen = share(i, s.tasks.splits)
            rows = pack_lines(s, task.position, task.rows, share(end - i - 1, s.tasks.splits) + 1, a_panel,
                              &line_buffer)
        while True:
            j = task.begin
            while j < task.end:
                width = min(<ptrdiff_t>s.tile.nr, s.wide - j)
                for y in range(s.lines.passes):
                    s.slots.gemm_f32(task.rows, <int>min(width, task.end - j), &s.lines.shape,
                                     rows + y * s.lines.down * s.lines.pitch,
                                     s.panels + j * s.depth + y * s.lines.line * s.window.fw * width,
                                     s.alone | (y == 0), y == s.lines.passes - 1,
                                     s.bias + j if s.bias != NULL else NULL, s.low, s.high, <float *>task.y + j,
                                     s.output.sw // 4)
                j += width
            i += 1
            if not next_line(&s.tasks, &s.output, &line_buffer, &task):
                break
            rows += s.window.stride_h * s.lines.pitch


cdef void run_packed(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef Conv *s = <Conv *>ctx
    cdef float a_panel[MAX_MR * DEPTH]
    cdef const uint8_t *src[POINTERS]
    cdef const float *rows = a_panel
    cdef ptrdiff_t length
    cdef int segments
    cdef pl_a_layout shape
    cdef ptrdiff_t i, j, k, piece, step, offset, width
    cdef const float *bias
    cdef Task task
    cdef int r
    for i in range(begin, end):
        get_task(&s.tasks, &s.output, s.columns, i, &task)
        offset = task.group * s.window.length
        k = 0
        while True:
            piece = min(<ptrdiff_t>DEPTH, s.depth - k)
            if s.direct:
                step = s.direct
                rows = <const float *>(s.window.x + offset) + task.position * step + k
            else:
                step = piece
                if piece == s.depth and s.window.fh * s.window.fw * task.rows <= POINTERS:
                    segments = gather(&s.window, task.position, task.rows, offset, src, &length)
                    for r in range(task.rows * segments):
                        memmove(<char *>a_panel + r * length, src[r], length)
                else:
                    for r in range(task.rows):
                        copy_row(&s.window, task.position + r, offset, k * 4, (k + piece) * 4,
                                 <uint8_t *>(a_panel + r * piece))
            shape.lines, shape.depth, shape.step, shape.pitch = 1, piece, step, 0
            j = task.begin
            while j < task.end:
                width = min(<ptrdiff_t>s.slots.f32.nr, s.wide - j)
                bias = s.bias + task.group * s.columns + j if s.bias != NULL else NULL
                s.slots.gemm_f32(task.rows, <int>min(width, task.end - j), &shape, rows,
                                 s.panels + (task.group * s.wide + j) * s.depth + k * width, s.alone | (k == 0),
                                 k + piece == s.depth, bias, s.low, s.high,
                                 <float *>task.y + task.group * s.columns + j, s.output.sw // 4)
                j += width
            k += piece
            if k >= s.depth:
                break


include "depthwise_float.pxi"
include "winograd.pxi"
include "conv_float_3d.pxi"
