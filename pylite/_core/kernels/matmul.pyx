"""8-bit matrix products: packing of weights, and FULLY_CONNECTED with its own rule of rounding."""

import numpy as np

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc
from libc.string cimport memset

from pylite._core.run.kernel cimport Kernel, kernel_fn
from pylite._core.kernels.columns cimport PARAMETERS, UNFIT, finish_columns, fit_columns, set_column, set_constant
from pylite._core.kernels.lines cimport in_place, padded_lines
from pylite._core.kernels.product8 cimport Product8, accumulate, one_row, single_row
from pylite._core.kernels.rounding cimport pl_quantize_multiplier
from pylite._core.kernels.tasks cimport (
    MAX_MR,
    MAX_NR,
    PIECE,
    Output,
    Task,
    Tasks,
    get_task,
    padded,
    parallel_pool_q8,
    pl_give_back,
    plan_tasks,
    set_output,
    share,
)
from pylite._core.kernels.window cimport A_PANEL_BYTES, set_window
from pylite._core.simd cimport (
    PL_SLACK,
    PL_WINOGRAD_DEEPEST,
    PL_WINOGRAD_WIDE,
    defer_packing,
    memory_of,
    parallel_for,
    pl_a_layout,
    pl_columns,
    pl_packed_layout,
    pl_packing_task,
    pl_pool,
    pl_slots,
    pl_tile,
    slots,
)

from pylite._core.run.memory import pooled

cdef object UINT8 = np.dtype(np.uint8)


include "packing.pxi"


cdef struct FullyConnected:
    Product8 product
    Output output
    Tasks tasks
    const pl_slots *slots
    const uint8_t *weights          # where they are only known at run time: packed at each run,
    uint8_t *panels
    int32_t *sums                   # with the sum of each column
    const int32_t *start            # of the sums: bias and terms of zero points
    const int32_t *bias
    const double *scales
    pl_a_layout shape
    bint as_is                      # rows of x are read in place
    ptrdiff_t rows, size
    pl_columns columns
    bint finished                   # by gemm_q8: where float32 fits, or the tile knows the float64 rule
    int w_flip, x_zero, w_zero, zero_point, low, high, flip, itemsize


cdef class FullyConnectedQ8(Kernel):
    """clamp(round_away(scale[j] * (sum (w - z_w)(x - z_x) + b)) + z_y), the product in float64.

    x: (m, k) bytes; y: (m, n) bytes, or int16 as pairs of bytes (m, 2 n); packed: from pack_weights, or None where the
    weights w (n, k) are only known at run time: then panels (uint8) and sums (int32 (n,)) are scratch; bias: int32 (n,)
    or None; scales: float64 (n,); zero points and limits as of int8 (for int16 y unchanged); flips: 0x80 for uint8;
    itemsize: of y.
    """
    cdef const uint8_t[:, ::1] x, w
    cdef uint8_t[:, ::1] y
    cdef const uint8_t[::1] panels
    cdef const int32_t[::1] sums, bias, start
    cdef const double[::1] scales
    cdef int32_t[::1] late          # scratch of weights that are only known at run time
    cdef int32_t[:, ::1] parameters
    cdef double[::1] real
    cdef FullyConnected state

    def __init__(self, const uint8_t[:, ::1] x, uint8_t[:, ::1] y, tuple packed, const int32_t[::1] bias,
                 *, const double[::1] scales, int x_zero, int w_zero, int zero_point, int low, int high, int x_flip,
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
        s.shape = pl_packed_layout(p.deep)
        s.as_is = p.tile.bytes == 1 and (p.flip ^ p.tile.offset) == 0 and p.deep == p.depth
        s.scales = &scales[0]
        s.w_flip, s.x_zero, s.w_zero = w_flip, x_zero, w_zero
        s.zero_point, s.low, s.high, s.flip = zero_point, low, high, y_flip
        s.columns.zero_point, s.columns.low, s.columns.high, s.columns.flip = zero_point, low, high, y_flip
        self.fn = <kernel_fn>fully_connected_q8
        if s.finished and single_row(p, m):
            self.fn = <kernel_fn>fully_connected_q8_row

    cdef void fit(self, int low, int high):
        """Try to requantize tile by tile."""
        cdef FullyConnected *s = &self.state
        cdef ptrdiff_t n = s.product.columns, wide = s.product.wide
        cdef pl_columns *q = &s.columns
        cdef double[::1] scales = np.zeros(wide)
        cdef int32_t[:, ::1] rows = np.zeros((PARAMETERS, wide), np.int32)
        scales[:n] = self.scales
        rows[0, :n] = self.start
        fit_columns(s.slots, &rows[0, 0], wide, &scales[0], s.product.depth, low, high,
                    s.product.panels if s.product.tile.real else NULL, self.panels.shape[0])
        self.parameters, self.real = rows, scales
        q.fit = rows[9, 0] != UNFIT
        if s.product.tile.real and np.abs(scales).max() < 1:
            q.real = &scales[0]
        s.finished = q.real != NULL if s.product.tile.real else q.fit
        q.bias, q.scale, q.rest, q.start = (
            &rows[0, 0], <float *>&rows[7, 0], <float *>&rows[8, 0], <float *>&rows[9, 0])


cdef int nothing(Kernel self, pl_pool *pool) noexcept nogil:
    return 0


cdef void starts(const FullyConnected *s, const int32_t *sums, int w_zero, int x_zero,
                 int32_t[::1] start) noexcept nogil:
    """The start of each column's sum, from the sums of its weights; start may be the same memory as sums."""
    cdef int32_t zero = x_zero + s.product.tile.offset
    cdef ptrdiff_t j
    for j in range(s.product.columns):
        start[j] = (s.bias[j] if s.bias != NULL else 0) + <int32_t>s.product.depth * w_zero * zero - zero * sums[j]


cdef int fully_connected_q8(FullyConnectedQ8 self, pl_pool *pool) noexcept nogil:
    cdef FullyConnected *s = &self.state
    cdef Product8 *p = &s.product
    if s.weights != NULL:
        memset(s.panels, 0, s.size)
        s.slots.pack_b_q8(&p.tile, p.columns, p.depth, s.weights, s.w_flip, s.panels, s.sums)
        starts(s, s.sums, s.w_zero, s.x_zero, self.late)
    pool = parallel_pool_q8(pool, s.slots, s.rows * p.depth * p.columns)
    parallel_for(pool, plan_tasks(&s.tasks, &s.output, &p.tile, p.columns, 1, pool), 1, fully_connected_q8_tasks, s)
    return 0


cdef int fully_connected_q8_row(FullyConnectedQ8 self, pl_pool *pool) noexcept nogil:
    cdef FullyConnected *s = &self.state
    one_row(&s.product, &s.columns, s.w_zero, s.product.window.x, <uint8_t *>s.output.y)
    return 0


cdef void fully_connected_q8_tasks(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef FullyConnected *s = <FullyConnected *>ctx
    cdef const Product8 *p = &s.product
    cdef uint8_t a_panel[A_PANEL_BYTES + 2 * PL_SLACK]
    cdef const uint8_t *src[MAX_MR]
    cdef const uint8_t *rows = a_panel
    cdef int32_t acc[MAX_MR * MAX_NR]
    cdef int32_t sums[MAX_MR]
    cdef Task task
    cdef ptrdiff_t i, j, packed = -1
    cdef bint deep = p.deep * p.tile.bytes * p.tile.mr > A_PANEL_BYTES
    cdef int n, r
    memset(sums, 0, sizeof(sums))
    for i in range(begin, end):
        get_task(&s.tasks, &s.output, p.columns, i, &task)
        if share(i, s.tasks.splits) != packed and not deep:
            packed = share(i, s.tasks.splits)
            for r in range(task.rows):
                src[r] = p.window.x + (task.position + r) * p.depth
            rows = src[0]
            if not (s.as_is and in_place(task.position, task.rows, s.rows)):
                p.slots.pack_a_q8(task.rows, 1, p.depth, src, p.flip, a_panel, p.deep)
                rows = a_panel
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
            elif s.finished:
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
    """Requantize columns j..j+n of one row."""
    cdef int64_t wide[MAX_NR]
    cdef int c
    if s.itemsize == 1:
        s.slots.finish_f64_q8(n, acc, s.start + j, term, s.scales + j, s.zero_point, s.low, s.high, s.flip,
                              <uint8_t *>y + j)
        return
    for c in range(n):
        wide[c] = acc[c] + s.start[j + c] + term
    s.slots.finish_f64(n, wide, NULL, False, s.scales + j, s.zero_point, s.low, s.high, <int16_t *>y + j)
