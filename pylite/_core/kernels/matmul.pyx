"""8-bit matrix products: packing of weights, and FULLY_CONNECTED with its own rule of rounding."""
import math

import numpy as np

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc
from libc.string cimport memset

from pylite._core.kernel cimport Kernel, kernel_fn
from pylite._core.kernels.gemm cimport (
    MAX_MR,
    MAX_NR,
    PARAMETERS,
    UNFIT,
    Output,
    Product8,
    Task,
    Tasks,
    accumulate,
    cut,
    finish_columns,
    fit_columns,
    in_place,
    one_row,
    padded,
    padded_lines,
    pl_quantize_multiplier,
    set_column,
    set_constant,
    set_output,
    share,
    single_row,
    take,
    worth,
)
from pylite._core.kernels.window cimport STRIP, set_window
from pylite._core.simd cimport (
    PL_SLACK,
    PL_WINOGRAD_DEEPEST,
    PL_WINOGRAD_WIDE,
    memory_of,
    parallel_for,
    pl_columns,
    pl_gathered,
    pl_job,
    pl_pool,
    pl_rows,
    pl_slots,
    put_off,
    slots,
)

from pylite._core.memory import kept

cdef object UINT8 = np.dtype(np.uint8)


def arranged(w, layout):
    """Filters (columns, fh, fw, c) of a plain convolution.

    layout: None where w is that; "depthwise" for (1, fh, fw, columns), to be used with as many groups as input
    channels; "rows" and "columns" for matrices (..., columns, depth) and (..., depth, columns), one behind another;
    (y, step_y, x, step_x) for the taps of a transposed convolution that meet in one phase of its output; ("beside",
    layouts) for the columns of several; ("lines", layout, width, out, stride, dilation, pad) where a line of so many
    pixels is one pixel, as is one of the output;
    "winograd" for the right operands of its 16 products of floats, each a group's.
    """
    if layout is None:
        return w
    if layout == "winograd":
        g = np.frombuffer(b"\2\0\0\1\1\1\1\xff\1\0\0\2", np.int8).reshape(4, 3) / np.float32(2)   # an axis to a tile's
        with np.errstate(all="ignore"):     # weights may be infinite
            w = np.kron(g, g) @ w.swapaxes(1, 2).reshape(w.shape[0], 9, w.shape[3])
        return w.swapaxes(0, 1).reshape(-1, w.shape[2])
    if layout == "depthwise":
        return w.transpose(3, 1, 2, 0)
    if layout in ("rows", "columns"):
        w = w if layout == "rows" else w.swapaxes(-1, -2)
        return w.reshape(math.prod(w.shape[:-1]), w.shape[-1])
    if layout[0] == "beside":
        return np.concatenate([arranged(w, part) for part in layout[1]])
    if layout[0] == "lines":
        return over_lines(arranged(w, layout[1]), *layout[2:])
    y, step_y, x, step_x = layout
    return w[:, y::step_y, x::step_x][:, ::-1, ::-1]


def over_lines(w, width, out, stride, dilation, pad):
    """Filters (out * columns, 1, fh, width * c) for whole lines at once; w: (columns, fh, fw, c), zeros elsewhere."""
    columns, fh, fw, c = w.shape
    wide = np.zeros((out, columns, fh, width, c), w.dtype)
    for x in range(out):
        for tap in range(fw):
            if 0 <= x * stride - pad + tap * dilation < width:
                wide[x, :, :, x * stride - pad + tap * dilation] = w[:, :, tap]
    return wide.reshape(out * columns, 1, fh, width * c)


def multipliers(scales):
    """(m, e), int32 arrays: quantization.quantize_multiplier of each of the scales, float64.

    Raises ValueError for inf and nan.
    """
    cdef Py_ssize_t count = scales.shape[0], i
    both = np.empty((2, count), np.int32)
    cdef const double *d = <const double *>memory_of(scales, 8 * count)
    cdef int32_t *m = <int32_t *>memory_of(both, 8 * count)
    for i in range(count):
        if not pl_quantize_multiplier(d[i], m + i, m + count + i):
            raise ValueError(f"a multiplier of {d[i]} cannot be quantized")
    return both[0], both[1]


cdef struct Packing:            # of weights, put off; and of what finishes their columns, unless parameters is NULL
    pl_job job
    const uint8_t *w            # (groups * columns, depth)
    uint8_t *panels
    int32_t *sums
    int32_t *parameters         # (PARAMETERS, groups * wide)
    const int32_t *bias
    const int32_t *multipliers
    const int32_t *shifts
    ptrdiff_t step              # from a column's to the next one's: 0 where they share one
    ptrdiff_t groups, columns, depth, wide
    ptrdiff_t products          # of a sum
    int64_t constant, zero      # of a column's start, which is constant - zero * its sum + its bias
    int flip, w_zero, low, high
    bint fit, points            # points: panels are those of Winograd's products


cdef void run_packing(pl_job *job) noexcept nogil:
    cdef Packing *p = <Packing *>job
    cdef const pl_slots *rung = job.slots
    cdef ptrdiff_t room = p.wide * padded(p.depth, rung.q8.ka), size = p.groups * p.wide, g, i, at
    cdef int64_t start
    if p.sums != NULL:
        memset(p.sums, 0, p.groups * p.columns * sizeof(int32_t))
    if p.points:
        rung.winograd_pack(p.columns, p.depth // 9, p.w, p.flip, p.w_zero, <int16_t *>p.panels, p.sums)
    for g in range(p.groups if p.depth and not p.points else 0):
        rung.pack_q8(&rung.q8, p.columns, p.depth, p.w + g * p.columns * p.depth, p.flip, p.panels + g * room,
                     p.sums + g * p.columns)
    if p.parameters == NULL:
        return
    for i in range(p.groups * p.columns):
        at, start = i // p.columns * p.wide + i % p.columns, p.constant - p.zero * p.sums[i]
        if p.bias != NULL:
            start += p.bias[i]
        if p.sums[i] or p.w_zero or any_weight(p.w + i * p.depth, p.depth, p.flip):
            set_column(p.parameters, size, at, start, p.multipliers[i * p.step], p.shifts[i * p.step])
        else:
            set_constant(p.parameters, size, at, start, p.multipliers[i * p.step], p.shifts[i * p.step])
    finish_columns(p.parameters, size)
    if p.fit:
        fit_columns(rung, p.parameters, size, NULL, p.products, p.low, p.high, p.panels if not p.points else NULL,
                    p.groups * room)


cdef bint any_weight(const uint8_t *w, ptrdiff_t n, int zero) noexcept nogil:
    cdef ptrdiff_t i
    for i in range(n):
        if w[i] != zero:
            return True
    return False


cdef Packing *packing(w, Py_ssize_t groups, list held, bint points=False) except NULL:
    """What packs w (groups * columns, ...); held gets the arrays it works on: w's bytes, panels and sums."""
    cdef ptrdiff_t columns = w.shape[0] // groups, depth = w.size // w.shape[0] if w.size else 0
    cdef ptrdiff_t wide = padded(columns, slots.q8.nv)
    cdef ptrdiff_t room = (padded(columns, PL_WINOGRAD_WIDE) * 8 * depth if points else
                           groups * wide * padded(depth, slots.q8.ka))
    flat, panels, sums = np.ascontiguousarray(w), kept(room), np.empty(groups * columns, np.int32)
    held += flat, panels, sums
    cdef void *source = memory_of(flat, groups * columns * depth)
    cdef void *to = memory_of(panels, room)
    cdef void *totals = memory_of(sums, groups * columns * 4)
    cdef Packing *p = <Packing *>calloc(1, sizeof(Packing))
    if p == NULL:
        raise MemoryError("no memory to pack weights")
    p.job.run = run_packing
    p.groups, p.columns, p.depth, p.wide, p.points = groups, columns, depth, wide, points
    p.flip = 0x80 if w.dtype == UINT8 else 0
    if columns:
        p.sums = <int32_t *>totals
    if depth:
        p.w, p.panels = <const uint8_t *>source, <uint8_t *>to
    return p


def pack_weights(w, Py_ssize_t groups=1, layout=None):
    """Panels of 8-bit weights w (columns, ...), whose first axis runs over the groups' columns; uint8 becomes int8.

    layout: see arranged().  Returns (panels, int32 sum of each column's int8 weights), by close_jobs().
    """
    held = []
    cdef Packing *p = packing(arranged(w, layout), groups, held)
    put_off(&p.job, w.size, held)
    return held[1], held[2]


def in_lines(w, Py_ssize_t groups):
    """Filters w (columns, fh, fw, c) with each of their lines padded to the depth that the rung multiplies at once."""
    cdef Py_ssize_t line = w.shape[2] * w.shape[3]
    if not padded_lines(&slots.q8, groups, w.shape[1], line):
        return w
    lines = np.full((*w.shape[:2], padded(line, slots.q8.ka)), 0x80 if w.dtype == np.uint8 else 0, w.dtype)
    lines[:, :, :line] = w.reshape(*w.shape[:2], line)
    return lines


def by_points(w, zero):
    """Can 8-bit filters w (columns, 3, 3, c) go by Winograd's products of 16 bits?  Then sums are below 2^25."""
    cdef Py_ssize_t c = w.shape[3], sure = 112 if zero == 0 else 56
    if slots.winograd_q8 == NULL or c > PL_WINOGRAD_DEEPEST:
        return False
    return c <= sure or np.abs(w - np.int16(zero)).reshape(len(w), -1).sum(1).max() * 255 < 1 << 25


def pack_q8(w, bias, multipliers, shifts, Py_ssize_t x_zero, Py_ssize_t w_zero, Py_ssize_t groups=1, layout=None,
            Py_ssize_t dilation=1, ends=None):
    """Weights and column parameters of a product that is finished by MBQM32.

    w: 8-bit (columns, ...), see arranged(); bias: int32 (columns,) or None; multipliers, shifts: int32 (columns,) or
    (1,) for all; x_zero, w_zero: zero points as of int8; dilation: the horizontal one; ends: (low, high) of the results
    less their zero point, to look for a faster way to them; layout "points" leaves the choice of Winograd's way to the
    rung.
    Returns (panels, parameters), see set_column in gemm.pxd, by close_jobs(), and a third one if they are Winograd's.
    """
    cdef bint points = layout == "points" and by_points(w, w_zero + (128 if w.dtype == UINT8 else 0))
    w = arranged(w, None if layout == "points" else layout)
    cdef Py_ssize_t count = w.shape[0], nbytes = PARAMETERS * padded(count // groups, slots.q8.nv) * groups * 4
    rows = kept(nbytes)
    held = [bias, multipliers, shifts, rows]
    cdef void *at = memory_of(rows, nbytes)
    cdef void *b = NULL if bias is None else memory_of(bias, 4 * count)
    cdef Py_ssize_t one = 1 if len(multipliers) == 1 else count
    cdef void *m = memory_of(multipliers, 4 * one)
    cdef void *e = memory_of(shifts, 4 * one)
    cdef Packing *p = packing(in_lines(w, groups) if dilation == 1 and w.ndim == 4 else w, groups, held, points)
    if count:
        p.parameters, p.bias = <int32_t *>at, <const int32_t *>b
        p.multipliers, p.shifts, p.step = <const int32_t *>m, <const int32_t *>e, one > 1
    p.zero, p.w_zero, p.products = x_zero + slots.q8.offset, w_zero, w.size // count if count else 0
    p.constant = p.products * w_zero * p.zero
    if ends is not None:
        p.fit, p.low, p.high = True, ends[0], ends[1]
    put_off(&p.job, w.size, held)
    parameters = rows.view(np.int32).reshape(PARAMETERS, -1)
    return (held[5], parameters, "points") if points else (held[5], parameters)


cdef struct FullyConnected:
    Product8 product
    Output output
    Tasks tasks
    const pl_slots *slots
    const uint8_t *weights          # where they are not known beforehand: packed at each run,
    uint8_t *panels
    int32_t *sums                   # with the sum of each column
    const int32_t *start            # of the columns' sums: bias and terms of zero points
    const int32_t *bias
    const double *scales
    pl_rows shape
    bint as_is                      # rows of x are used where they are
    ptrdiff_t rows, size
    pl_columns columns              # where they are fit
    int w_flip, x_zero, w_zero, zero_point, low, high, flip, itemsize


cdef class FullyConnectedQ8(Kernel):
    """clamp(round_away(scale[j] * (sum (w - z_w)(x - z_x) + b)) + z_y), the product in float64.

    x: (m, k) bytes; y: (m, n) bytes, or int16 as pairs of bytes (m, 2 n); packed: from pack_weights, or None where the
    weights w (n, k) are only known at run time: panels (uint8) and sums (int32 (n,)) are scratch then; bias: int32 (n,)
    or None; scales: float64 (n,); zero points and limits as of int8 (int16 y: as they are); flips: 0x80 for uint8;
    itemsize: of y.
    """
    cdef const uint8_t[:, ::1] x, w
    cdef uint8_t[:, ::1] y
    cdef const uint8_t[::1] panels
    cdef const int32_t[::1] sums, bias, start
    cdef const double[::1] scales
    cdef int32_t[::1] late          # scratch for what is only known at run time
    cdef int32_t[:, ::1] parameters
    cdef FullyConnected state

    def __init__(self, const uint8_t[:, ::1] x, uint8_t[:, ::1] y, tuple packed, const int32_t[::1] bias,
                 const double[::1] scales, int x_zero, int w_zero, int zero_point, int low, int high, int x_flip,
                 int w_flip, int y_flip, int itemsize, const uint8_t[:, ::1] w=None, uint8_t[::1] panels=None,
                 int32_t[::1] sums=None):
        cdef FullyConnected *s = &self.state
        cdef Product8 *p = &s.product
        cdef ptrdiff_t m = x.shape[0], n = scales.shape[0]
        self.x, self.y, self.w, self.bias, self.scales = x, y, w, bias, scales
        self.panels, self.sums = (panels, sums) if packed is None else packed
        self.late = sums
        if m == 0 or n == 0:
            self.fn = <kernel_fn>nothing
            return
        s.slots = slots
        s.rows, s.itemsize = m, itemsize
        p.tile, p.slots, p.flip = s.slots.q8, s.slots, x_flip
        p.columns, p.groups, p.depth = n, 1, x.shape[1]
        p.deep, p.wide = padded(p.depth, p.tile.ka), padded(n, p.tile.nv)
        p.panels = &self.panels[0] if self.panels.shape[0] else NULL
        set_window(&p.window, &x[0, 0] if x.shape[1] else NULL, x.shape[1], 0, 0, 1, 1, 1, 1, x.shape[1], NULL,
                   (1, 1, 1, 1, 1, 1, 0, 0))
        set_output(&s.output, <char *>&y[0, 0], m, 1, 1, y.shape[1], y.shape[1], y.shape[1])
        s.bias = &bias[0] if bias is not None else NULL
        if packed is None:
            s.weights, s.panels, s.sums, s.size = &w[0, 0], &panels[0], &sums[0], p.deep * p.wide
            s.start = s.sums
        else:
            start = np.empty(n, np.int32)
            self.start = start
            starts(s, &self.sums[0], w_zero, x_zero, start)
            s.start = &self.start[0]
            if itemsize == 1:
                self.fit(low - zero_point, high - zero_point)
        s.shape = pl_gathered(p.deep)
        s.as_is = p.tile.bytes == 1 and (p.flip ^ p.tile.offset) == 0 and p.deep == p.depth
        s.scales = &scales[0]
        s.w_flip, s.x_zero, s.w_zero = w_flip, x_zero, w_zero
        s.zero_point, s.low, s.high, s.flip = zero_point, low, high, y_flip
        s.columns.zero_point, s.columns.low, s.columns.high, s.columns.flip = zero_point, low, high, y_flip
        self.fn = <kernel_fn>fully_connected_q8
        if s.columns.fit and single_row(p, m):
            self.fn = <kernel_fn>fully_connected_q8_row

    cdef void fit(self, int low, int high):
        """Try to finish sums in float32, in the tiles."""
        cdef FullyConnected *s = &self.state
        cdef ptrdiff_t n = s.product.columns, wide = s.product.wide
        cdef pl_columns *q = &s.columns
        cdef double[::1] scales = np.zeros(wide)
        cdef int32_t[:, ::1] rows = np.zeros((PARAMETERS, wide), np.int32)
        scales[:n] = self.scales
        rows[0, :n] = self.start
        fit_columns(s.slots, &rows[0, 0], wide, &scales[0], s.product.depth, low, high, NULL, 0)
        self.parameters = rows
        q.fit = rows[9, 0] != UNFIT
        q.bias, q.scale, q.rest, q.start = (
            &rows[0, 0], <float *>&rows[7, 0], <float *>&rows[8, 0], <float *>&rows[9, 0])


cdef int nothing(Kernel self, pl_pool *pool) noexcept nogil:
    return 0


cdef void starts(const FullyConnected *s, const int32_t *sums, int w_zero, int x_zero,
                 int32_t[::1] start) noexcept nogil:
    """What the sums of columns start from, whose weights' sums are `sums`; start may lie over them."""
    cdef int32_t zero = x_zero + s.product.tile.offset
    cdef ptrdiff_t j
    for j in range(s.product.columns):
        start[j] = (s.bias[j] if s.bias != NULL else 0) + <int32_t>s.product.depth * w_zero * zero - zero * sums[j]


cdef int fully_connected_q8(FullyConnectedQ8 self, pl_pool *pool) noexcept nogil:
    cdef FullyConnected *s = &self.state
    cdef Product8 *p = &s.product
    if s.weights != NULL:
        memset(s.panels, 0, s.size)
        s.slots.pack_q8(&p.tile, p.columns, p.depth, s.weights, s.w_flip, s.panels, s.sums)
        starts(s, s.sums, s.w_zero, s.x_zero, self.late)
    pool = worth(pool, s.rows * p.depth * p.columns)
    parallel_for(pool, cut(&s.tasks, &s.output, &p.tile, p.columns, 1, pool), 1, fully_connected_q8_tasks, s)
    return 0


cdef int fully_connected_q8_row(FullyConnectedQ8 self, pl_pool *pool) noexcept nogil:
    cdef FullyConnected *s = &self.state
    one_row(&s.product, &s.columns, s.w_zero, s.product.window.x, <uint8_t *>s.output.y)
    return 0


cdef void fully_connected_q8_tasks(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef FullyConnected *s = <FullyConnected *>ctx
    cdef const Product8 *p = &s.product
    cdef uint8_t strip[STRIP + 2 * PL_SLACK]
    cdef const uint8_t *src[MAX_MR]
    cdef const uint8_t *rows = strip
    cdef int32_t acc[MAX_MR * MAX_NR]
    cdef int32_t sums[MAX_MR]
    cdef Task task
    cdef ptrdiff_t i, j, laid = -1
    cdef bint deep = p.deep * p.tile.bytes * p.tile.mr > STRIP
    cdef int n, r
    memset(sums, 0, sizeof(sums))
    for i in range(begin, end):
        take(&s.tasks, &s.output, p.columns, i, &task)
        if share(i, s.tasks.splits) != laid and not deep:
            laid = share(i, s.tasks.splits)
            for r in range(task.rows):
                src[r] = p.window.x + (task.position + r) * p.depth
            rows = src[0]
            if not (s.as_is and in_place(task.position, task.rows, s.rows)):
                p.slots.strip_q8(task.rows, 1, p.depth, src, p.flip, strip, p.deep)
                rows = strip
            if s.w_zero:
                p.slots.sums_q8(task.rows, &s.shape, p.depth, rows, sums)
                for r in range(task.rows):
                    sums[r] *= -s.w_zero
        j = task.begin
        while j < task.end:
            n = <int>min(<ptrdiff_t>p.tile.nr, task.end - j)
            if deep:
                accumulate(p, 0, task.position, task.rows, j, n, acc, sums if s.w_zero else NULL)
                for r in range(task.rows):
                    sums[r] *= -s.w_zero
            elif s.columns.fit:
                p.slots.gemm_q8(task.rows, n, &s.shape, rows, p.panels + j * p.deep, sums if s.w_zero else NULL,
                                &s.columns, j, <uint8_t *>task.y + j, s.output.sw)
                j += p.tile.nr
                continue
            else:
                memset(acc, 0, task.rows * sizeof(int32_t) * MAX_NR)
                p.slots.gemm_s32(task.rows, n, &s.shape, rows, p.panels + j * p.deep, acc, MAX_NR)
            for r in range(task.rows):
                finish(s, n, &acc[r * MAX_NR], sums[r], j, task.y + r * s.output.sw)
            j += p.tile.nr


cdef void finish(const FullyConnected *s, int n, const int32_t *acc, int32_t term, ptrdiff_t j,
                 char *y) noexcept nogil:
    """Columns j..j+n of one row."""
    cdef int64_t wide[MAX_NR]
    cdef int c
    if s.itemsize == 1:
        s.slots.finish_f64_q8(n, acc, s.start + j, term, s.scales + j, s.zero_point, s.low, s.high, s.flip,
                              <uint8_t *>y + j)
        return
    for c in range(n):
        wide[c] = acc[c] + s.start[j + c] + term
    s.slots.finish_f64(n, wide, NULL, False, s.scales + j, s.zero_point, s.low, s.high, <int16_t *>y + j)
