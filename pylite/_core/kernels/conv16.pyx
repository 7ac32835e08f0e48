"""Convolutions and matrix products of int16: exact sums, then one rule of rounding."""
import numpy as np

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from pylite._core.run.kernel cimport Kernel, kernel_fn
from pylite._core.kernels.spread cimport SPREAD_BUFFER, Spread, plan_spread, spread
from pylite._core.kernels.tasks cimport Output, Task, Tasks, get_task, plan_tasks, set_output
from pylite._core.kernels.window cimport Window, copy_row, set_window
from pylite._core.simd cimport PL_MAX_TAPS, parallel_for, pl_dw_window, pl_pool, pl_slots, pl_tile, slots

from pylite._core.kernels.matmul import arranged

cdef enum:
    ROWS = 8                # of an A panel
    COLUMNS = 32            # computed at a time
    DEPTH = 1024            # packed at a time
    CHANNELS = 1024         # of depthwise sums on the stack

cdef enum Rule:
    MBQM64 = 0              # section 2 of docs/numerics.md
    MBQM32 = 1
    FLOAT64 = 2
    FLOAT64_OF_32 = 3       # float64, of the sum wrapped to 32 bits


cdef struct Finish:
    int rule, low, high
    const int64_t *bias
    const int32_t *multipliers
    const int32_t *shifts
    const double *scales


cdef void finish(const pl_slots *table, const Finish *f, int n, const int64_t *acc, ptrdiff_t j,
                 int16_t *y) noexcept nogil:
    cdef const int64_t *bias = f.bias + j if f.bias != NULL else NULL
    if f.rule >= FLOAT64:
        table.finish_f64(n, acc, bias, f.rule == FLOAT64_OF_32, f.scales + j, 0, f.low, f.high, y)
    elif f.rule == MBQM32:
        table.finish_mbqm32(n, acc, bias, f.multipliers + j, f.shifts + j, f.low, f.high, y)
    else:
        table.finish_mbqm64(n, acc, bias, f.multipliers + j, f.shifts + j, f.low, f.high, y)


cdef class Finished(Kernel):
    """A product that is rounded to int16.

    rule: "MBQM64", "MBQM32", "FLOAT64" or "FLOAT64_OF_32"; bias: int64 (k,) or None; factors: (multipliers, shifts),
    int32 (k,), or scales, float64 (k,), as the rule needs; low, high: the limits of the results.
    """
    cdef const int64_t[::1] bias
    cdef const int32_t[::1] multipliers, shifts
    cdef const double[::1] scales
    cdef Finish end

    cdef object set_finish(self, rule, const int64_t[::1] bias, factors, int low, int high):
        self.bias = bias
        self.end.rule = {"MBQM64": MBQM64, "MBQM32": MBQM32, "FLOAT64": FLOAT64, "FLOAT64_OF_32": FLOAT64_OF_32}[rule]
        self.end.low, self.end.high = low, high
        self.end.bias = &bias[0] if bias is not None and bias.shape[0] else NULL
        if self.end.rule >= FLOAT64:
            self.scales = factors
            self.end.scales = &self.scales[0]
        else:
            self.multipliers, self.shifts = factors
            self.end.multipliers, self.end.shifts = &self.multipliers[0], &self.shifts[0]


def pack_s16(w, layout=None):
    """Weights (columns, ...) of 8 or 16 bits as int16 (columns, depth); layout: see matmul.arranged."""
    w = arranged(w, layout)
    return np.ascontiguousarray(w.reshape(w.shape[0], w.size // w.shape[0] if w.size else 0), np.int16)


def pack_depthwise_s16(w):
    """Weights (1, fh, fw, c) as int16 (taps, c)."""
    return np.ascontiguousarray(w.reshape(-1, w.shape[3]), np.int16)


cdef struct Conv:
    Window window
    Output output
    Tasks tasks
    pl_tile tile
    const pl_slots *slots
    const int16_t *w
    Finish end
    ptrdiff_t columns, groups, depth, chunk


cdef class Conv16(Finished):
    """int16 2-D convolution, zero points 0.

    x: (n, h, w, c) and y: (n, oh, ow, k), any strides but contiguous channels; w: from pack_s16; wide: the weights use
    more than 8 bits; filter and groups as in conv.ConvQ8; the rest as in Finished.
    """
    cdef const int16_t[:, :, :, :] x
    cdef int16_t[:, :, :, :] y
    cdef const int16_t[:, ::1] w
    cdef const uint8_t[::1] zero
    cdef Conv state

    def __init__(self, const int16_t[:, :, :, :] x, int16_t[:, :, :, :] y, const int16_t[:, ::1] w, *,
                 bint wide=False, filter, groups=1, rule, const int64_t[::1] bias, factors, int low, int high):
        cdef Conv *s = &self.state
        cdef Window *g = &s.window
        self.x, self.y, self.w = x, y, w
        if 0 in self.y.shape[:4]:
            self.fn = <kernel_fn>nothing
            return
        self.set_finish(rule, bias, factors, low, high)
        s.slots, s.end, s.groups, s.chunk = slots, self.end, groups, 1 if wide else 256
        s.columns = y.shape[3] // s.groups
        s.tile.mr, s.tile.nr = ROWS, COLUMNS
        s.w = &w[0, 0] if w.size else NULL
        self.zero = np.zeros(max(1, x.shape[3] // s.groups * 2), np.uint8)
        set_window(g, <const uint8_t *>&x[0, 0, 0, 0] if x.size else NULL, x.strides[0], x.strides[1], x.strides[2],
                   x.shape[1], x.shape[2], y.shape[1], y.shape[2], x.shape[3] // s.groups * 2, &self.zero[0], filter)
        set_output(&s.output, <char *>&y[0, 0, 0, 0], y.shape[0], y.shape[1], y.shape[2], y.strides[0], y.strides[1],
                   y.strides[2])
        s.depth = g.fh * g.fw * g.length // 2
        self.fn = <kernel_fn>conv16


cdef int nothing(Kernel self, pl_pool *pool) noexcept nogil:
    return 0


cdef int conv16(Conv16 self, pl_pool *pool) noexcept nogil:
    cdef Conv *s = &self.state
    parallel_for(pool, plan_tasks(&s.tasks, &s.output, &s.tile, s.columns, s.groups, pool), 1, conv16_tasks, s)
    return 0


cdef void conv16_tasks(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef Conv *s = <Conv *>ctx
    cdef int16_t a_panel[ROWS * DEPTH]
    cdef int64_t acc[ROWS * COLUMNS]
    cdef Task task
    cdef ptrdiff_t i, j, k, piece, channel
    cdef int n, r
    for i in range(begin, end):
        get_task(&s.tasks, &s.output, s.columns, i, &task)
        j = task.begin
        while j < task.end:
            n = <int>min(<ptrdiff_t>COLUMNS, task.end - j)
            channel = task.group * s.columns + j
            for r in range(ROWS * COLUMNS):
                acc[r] = 0
            k = 0
            while k < s.depth:
                piece = min(<ptrdiff_t>DEPTH, s.depth - k)
                if j == task.begin or piece < s.depth:
                    for r in range(task.rows):
                        copy_row(&s.window, task.position + r, task.group * s.window.length, k * 2, (k + piece) * 2,
                                 <uint8_t *>(a_panel + r * piece))
                s.slots.gemm_s64(task.rows, n, piece, a_panel, s.w + channel * s.depth + k, s.depth, s.chunk, acc,
                                 COLUMNS)
                k += piece
            for r in range(task.rows):
                finish(s.slots, &s.end, n, acc + r * COLUMNS, channel,
                       <int16_t *>(task.y + r * s.output.sw) + channel)
            j += COLUMNS


cdef struct Depthwise:
    const pl_slots *slots
    Spread spread
    pl_dw_window window
    Finish end
    const uint8_t *x
    const int16_t *w
    uint8_t *y
    ptrdiff_t h, oh, line, image, y_line             # lines of the images; bytes
    int stride, dilation, pad


cdef void set_depthwise(Depthwise *s, const int16_t[:, :, :, ::1] x, const int16_t[:, ::1] w, const uint8_t[::1] zero,
                        filter, ptrdiff_t oh, ptrdiff_t ow):
    """zero: the pixel that is read outside of an image."""
    s.slots = slots
    s.x, s.w = <const uint8_t *>&x[0, 0, 0, 0], &w[0, 0]
    s.h, s.oh, s.line, s.image = x.shape[1], oh, x.strides[1], x.strides[0]
    (s.window.fh, s.window.fw, s.stride, s.window.stride, s.dilation, s.window.dilation, s.pad,
     s.window.pad) = filter
    s.window.width, s.window.pixels, s.window.c, s.window.zero = x.shape[2], ow, w.shape[1], &zero[0]
    plan_spread(&s.spread, &s.window, x.shape[3], 2, s.stride, s.dilation)


cdef void see_lines(const Depthwise *s, ptrdiff_t line, const uint8_t **row) noexcept nogil:
    """The lines of the image under output line `line`, counted over all images; NULL outside."""
    cdef ptrdiff_t iy
    cdef int y
    for y in range(s.window.fh):
        iy = line % s.oh * s.stride - s.pad + <ptrdiff_t>y * s.dilation
        row[y] = s.x + line // s.oh * s.image + iy * s.line if 0 <= iy < s.h else NULL


cdef class Depthwise16(Finished):
    """int16 depthwise convolution, zero points 0.

    x: (n, h, w, c / m) and y: (n, oh, ow, c), contiguous, m outputs for each channel of x; w: from pack_depthwise_s16;
    the rest as in Conv16.
    """
    cdef const int16_t[:, :, :, ::1] x
    cdef int16_t[:, :, :, ::1] y
    cdef const int16_t[:, ::1] w
    cdef const uint8_t[::1] zero
    cdef Depthwise state

    def __init__(self, const int16_t[:, :, :, ::1] x, int16_t[:, :, :, ::1] y, const int16_t[:, ::1] w, *, filter, rule,
                 const int64_t[::1] bias, factors, int low, int high):
        cdef Depthwise *s = &self.state
        self.x, self.y, self.w = x, y, w
        if 0 in self.y.shape[:4] or 0 in self.x.shape[:4]:
            self.fn = <kernel_fn>nothing
            return
        self.set_finish(rule, bias, factors, low, high)
        self.zero = bytes(2 * y.shape[3])
        set_depthwise(s, x, w, self.zero, filter, y.shape[1], y.shape[2])
        s.end, s.y, s.y_line = self.end, <uint8_t *>&y[0, 0, 0, 0], y.strides[1]
        self.path = "channels repeated, patch by patch" if s.spread.multiplier > 1 else None
        self.fn = <kernel_fn>depthwise16


cdef int depthwise16(Depthwise16 self, pl_pool *pool) noexcept nogil:
    parallel_for(pool, self.y.shape[0] * self.y.shape[1], 1, depthwise_lines, &self.state)
    return 0


cdef void depthwise_lines(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef Depthwise *s = <Depthwise *>ctx
    cdef pl_dw_window g = s.window, patch
    cdef const uint8_t *row[PL_MAX_TAPS]
    cdef const uint8_t *repeated[PL_MAX_TAPS]
    cdef uint8_t buffer[SPREAD_BUFFER]
    cdef ptrdiff_t line, at
    cdef int16_t *y
    g.row = row
    for line in range(begin, end):
        see_lines(s, line, row)
        y = <int16_t *>(s.y + line * s.y_line)
        at = 0
        while at < g.pixels:
            patch = spread(s.slots, &s.spread, &g, at, g.fh, buffer, repeated)
            depthwise_pixels(s, &patch, y + at * g.c)
            at += patch.pixels


cdef void depthwise_pixels(const Depthwise *s, const pl_dw_window *g, int16_t *y) noexcept nogil:
    cdef int64_t acc[CHANNELS]
    cdef ptrdiff_t at, c
    cdef int n
    for at in range(g.pixels):
        c = 0
        while c < g.c:
            n = <int>min(<ptrdiff_t>CHANNELS, g.c - c)
            s.slots.depthwise_s64(g, at, c, n, s.w, acc)
            finish(s.slots, &s.end, n, acc, c, y + c)
            c += n
        y += g.c
