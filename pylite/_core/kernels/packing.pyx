"""Packing of weights into panels, and of the parameters of 8-bit columns.

pack_q8(), pack_f32() and the others are called during lowering.  They only describe a job; run_packing() runs it, on
another thread if packing is deferred.
"""
import numpy as np

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc
from libc.string cimport memset

from pylite._core.kernels.rounding cimport pl_quantize_multiplier
from pylite._core.product.columns cimport PARAMETERS, Scaling, finish_scaling, scale_column, set_scaling
from pylite._core.product.division cimport round_up
from pylite._core.product.floats cimport pack_panels
from pylite._core.product.lines cimport padded_lines
from pylite._core.simd cimport (
    PL_WINOGRAD_COLUMNS,
    PL_WINOGRAD_MAX_C,
    defer_packing,
    memory_of,
    pl_packing_job,
    pl_tile,
    slots,
)

from pylite._core.run.memory import give_back, pooled

cdef extern from "threads/platform.h":
    void pl_give_back(const void *at, size_t size) nogil

cdef enum:
    RELEASED_BYTES = 1 << 20        # weights to pack before the file's pages are returned to the system

cdef enum:      # the arrays of new_byte_packing(), by their positions in `owners`
    WEIGHTS, PANELS, SUMS

cdef object UINT8 = np.dtype(np.uint8)


def arranged(w, layout):
    """w as filters (columns, fh, fw, c) of a plain convolution; layout: a FilterLayout (product/layouts.py) or None."""
    return w if layout is None else layout.arrange(w)


def multipliers(scales):
    """quantization.quantize_multiplier of each of the float64 scales: two int32 arrays, (multipliers, exponents).

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


cdef struct Packing:            # a job
    pl_packing_job job
    pl_tile tile
    const uint8_t *w            # (groups * columns, depth)
    uint8_t *panels
    ptrdiff_t groups, columns, depth
    ptrdiff_t row, padded_row   # bytes of a column's weights, and of these in a panel
    ptrdiff_t group_bytes       # from the panels of one group to the panels of the next
    # For weights of bytes only:
    int32_t *sums               # of each column
    Scaling scaling             # of groups * padded_columns columns; parameters: NULL to make panels and sums only
    ptrdiff_t padded_columns
    ptrdiff_t products          # number of products in a sum
    int64_t zero                # of the rows, the tile's offset included
    int flip, w_zero
    bint winograd               # make panels for winograd_q8?


cdef void run_packing(pl_packing_job *job) noexcept nogil:
    cdef Packing *p = <Packing *>job
    cdef ptrdiff_t g, j, columns, step = columns_at_once(&p.tile, p.row)
    cdef const uint8_t *w
    cdef uint8_t *to
    if p.sums != NULL:
        memset(p.sums, 0, p.groups * p.columns * sizeof(int32_t))
    if p.winograd:
        job.slots.winograd_pack(p.columns, p.depth // 9, p.w, p.flip, p.w_zero, <int16_t *>p.panels, p.sums)
    for g in range(p.groups if p.depth and not p.winograd else 0):
        j = 0
        while j < p.columns:
            columns, w = min(step, p.columns - j), p.w + (g * p.columns + j) * p.row
            to = p.panels + g * p.group_bytes + j * p.padded_row
            if p.sums != NULL:
                job.slots.pack_b_q8(&p.tile, columns, p.depth, w, p.flip, to, p.sums + g * p.columns + j)
            else:
                pack_panels(&p.tile, w, columns, p.depth, to)
            pl_give_back(w, columns * p.row)
            j += step
    if p.scaling.parameters != NULL:
        set_parameters(p)
    pl_give_back(p.w, p.groups * p.columns * p.row)


cdef ptrdiff_t columns_at_once(const pl_tile *t, ptrdiff_t row) noexcept nogil:
    """How many columns, in whole panels, have about RELEASED_BYTES of weights; row: bytes of one column."""
    return round_up(RELEASED_BYTES // max(row, <ptrdiff_t>1) + 1, t.nr)


cdef void set_parameters(Packing *p) noexcept nogil:
    """Set the parameters of all columns, after their weights are packed."""
    cdef ptrdiff_t i, column
    for i in range(p.groups * p.columns):
        column = i // p.columns * p.padded_columns + i % p.columns
        scale_column(&p.scaling, column, i, p.products * p.w_zero * p.zero - p.zero * p.sums[i],
                     not (p.sums[i] or p.w_zero or any_weight(p.w + i * p.depth, p.depth, p.flip)))
    finish_scaling(&p.scaling, p.job.slots, p.products, p.panels if not p.winograd else NULL,
                   p.scaling.size * p.padded_row)


cdef bint any_weight(const uint8_t *w, ptrdiff_t n, int zero) noexcept nogil:
    cdef ptrdiff_t i
    for i in range(n):
        if w[i] != zero:
            return True
    return False


cdef Py_ssize_t copied_bytes(weights) except -1:
    """Bytes of weights that only the packing job keeps alive: 0 for weights of the model, which are read-only."""
    return weights.nbytes if weights.flags.writeable else 0


cdef Packing *new_packing(const pl_tile *t, ptrdiff_t groups, ptrdiff_t columns, ptrdiff_t depth,
                          ptrdiff_t item) except NULL:
    """A job that packs weights of `item` bytes; the caller sets their memory."""
    cdef Packing *p = <Packing *>calloc(1, sizeof(Packing))
    if p == NULL:
        raise MemoryError("no memory to pack weights")
    p.job.run, p.tile, p.groups, p.columns, p.depth = run_packing, t[0], groups, columns, depth
    p.row, p.padded_row, p.padded_columns = depth * item, round_up(depth, t.ka) * item, round_up(columns, t.nv)
    p.group_bytes = p.padded_columns * p.padded_row
    return p


cdef Packing *new_byte_packing(w, Py_ssize_t groups, list owners, bint winograd=False) except NULL:
    """A job that packs w (groups * columns, ...) of bytes; appends its arrays to `owners`, which is empty."""
    cdef ptrdiff_t columns = w.shape[0] // groups, depth = w.size // w.shape[0] if w.size else 0
    # Winograd's weights are 36 of int16 for the nine taps of each channel.
    cdef ptrdiff_t nbytes = (round_up(columns, PL_WINOGRAD_COLUMNS) * 8 * depth if winograd else
                             groups * round_up(columns, slots.q8.nv) * round_up(depth, slots.q8.ka))
    flat, panels, sums = np.ascontiguousarray(w), pooled(nbytes), np.empty(groups * columns, np.int32)
    owners += flat, panels, sums
    cdef void *source = memory_of(flat, groups * columns * depth)
    cdef void *to = memory_of(panels, nbytes)
    cdef void *totals = memory_of(sums, groups * columns * 4)
    cdef Packing *p = new_packing(&slots.q8, groups, columns, depth, 1)
    p.winograd, p.flip = winograd, 0x80 if w.dtype == UINT8 else 0
    if columns:
        p.sums = <int32_t *>totals
    if depth:
        p.w, p.panels = <const uint8_t *>source, <uint8_t *>to
    return p


def pack_weights(w, Py_ssize_t groups=1, layout=None, Py_ssize_t dilation=0):
    """Pack 8-bit weights w (columns of all groups, ...); uint8 becomes int8.

    layout: see arranged(); dilation: horizontal; 0 if the weights are not filters.
    Returns (panels, int32 sum of each column's weights), which are ready after finish_packing().
    """
    owners = []
    cdef Packing *p = new_byte_packing(in_lines(arranged(w, layout), dilation), groups, owners)
    defer_packing(&p.job, w.size, owners, copied_bytes(owners[WEIGHTS]))
    return owners[PANELS], owners[SUMS]


def in_lines(w, Py_ssize_t dilation):
    """Pad each line of filters w (columns, fh, fw, c) to a multiple of the tile's ka, if images are read by lines
    (lines.pxd); return other weights unchanged.
    """
    if dilation != 1 or w.ndim != 4:
        return w
    cdef Py_ssize_t line = w.shape[2] * w.shape[3]
    if not padded_lines(&slots.q8, w.shape[1], line):
        return w
    lines = np.full((*w.shape[:2], round_up(line, slots.q8.ka)), 0x80 if w.dtype == np.uint8 else 0, w.dtype)
    lines[:, :, :line] = w.reshape(*w.shape[:2], line)
    return lines


def use_winograd(w, zero):
    """Can winograd_q8 convolve the 8-bit filters w (columns, 3, 3, c)?  Sums must stay below 2^25.

    zero: the stored value of weight 0.
    """
    cdef Py_ssize_t c = w.shape[3], low = 0 if w.dtype == UINT8 else -128, largest = max(zero - low, low + 255 - zero)
    if slots.winograd_q8 == NULL or c > PL_WINOGRAD_MAX_C:
        return False
    if 9 * c * largest * 255 < 1 << 25:
        return True
    return np.abs(w - np.int16(zero)).reshape(len(w), -1).sum(1).max() * 255 < 1 << 25


def packed_pixels(w, Py_ssize_t stride, Py_ssize_t most):
    """How many output pixels to compute as one (pixel packing), so that their columns fill vectors.

    w: (columns, fh, fw, c); stride: horizontal; most: a multiple of the result.  Combining pixels adds weights that are
    0, so the cost per pixel decides: a step of products costs 1 for each vector and 1/4 for loading its operand, and
    finishing a vector of sums as much as two steps.
    """
    cdef const pl_tile *t = &slots.q8
    cdef ptrdiff_t columns = w.shape[0], fh = w.shape[1], fw = w.shape[2], c = w.shape[3], line, depth, vectors, n
    cdef double cost, least = 0
    best = 1
    for n in range(1, most + 1):
        line = (fw + (n - 1) * stride) * c
        vectors = round_up(n * columns, t.nv) // t.nv
        if most % n or vectors * t.nv > t.nr:
            continue
        depth = round_up(line, t.ka) * fh if padded_lines(t, fh, line) else round_up(line * fh, t.ka)
        cost = (depth * (vectors + .25) + 2 * t.ka * vectors) / n
        if n == 1 or cost < least:
            best, least = n, cost
    return best


cdef tuple arranged_q8(w, layout, Py_ssize_t zero):
    """(w as filters, the number of output pixels to compute as one, or 0 for Winograd), as the ISA level prefers.

    zero: the stored value of weight 0.
    """
    from pylite._core.product import layouts    # lazy: a start from the plan cache packs nothing and does not need it
    if isinstance(layout, layouts.WinogradInteger):
        return w, 0 if use_winograd(w, zero) else 1
    w = arranged(w, layout)
    if not isinstance(layout, layouts.PixelPacking):
        return w, 1
    pixels = packed_pixels(w, layout.stride, layout.most)
    return w if pixels == 1 else layout.combine(w, pixels, zero), pixels


def pack_q8(w, bias, multipliers, shifts, Py_ssize_t x_zero, Py_ssize_t w_zero, Py_ssize_t groups=1, layout=None,
            Py_ssize_t dilation=1, ends=None):
    """Pack weights, and make the parameters of columns for a product that is finished by MBQM32.

    w: 8-bit (columns, ...), see arranged(); bias: int32 (columns,) or None; multipliers, shifts: int32 (columns,), or
    (1,) for all; x_zero, w_zero: of int8 values; dilation: horizontal; ends: (low, high) of results less their zero
    point, to finish in float32 if that gives the same results, or None; layout: WinogradInteger and PixelPacking
    (product/layouts.py) leave a choice that depends on the ISA level to this function.
    Returns (panels, parameters, pixels): the first two, see columns.pxd, are ready after finish_packing(); pixels: the
    number of output pixels to compute as one, 1 for a plain convolution, or 0 for Winograd.
    """
    cdef Py_ssize_t pixels
    w, pixels = arranged_q8(w, layout, w_zero + (128 if w.dtype == UINT8 else 0))
    if pixels > 1:
        bias = None if bias is None else np.tile(bias, pixels)
        if len(multipliers) > 1:
            multipliers, shifts = np.tile(multipliers, pixels), np.tile(shifts, pixels)
    cdef Py_ssize_t count = w.shape[0], size = round_up(count // groups, slots.q8.nv) * groups
    cdef Scaling scaling
    rows = pooled(PARAMETERS * size * 4)
    set_scaling(&scaling, rows, bias, multipliers, shifts, ends, count, size)
    owners = []
    cdef Packing *p = new_byte_packing(in_lines(w, dilation), groups, owners, pixels == 0)
    owners += bias, multipliers, shifts, rows
    if count:
        p.scaling = scaling
    p.zero, p.w_zero, p.products = x_zero + slots.q8.offset, w_zero, w.size // count if count else 0
    defer_packing(&p.job, w.size, owners, copied_bytes(owners[WEIGHTS]))
    return owners[PANELS], rows.view(np.int32).reshape(PARAMETERS, -1), pixels


def pack_f32(w, Py_ssize_t groups=1, layout=None):
    """Panels of float32 weights w (columns of all groups, ...); deferred until finish_packing().

    layout: see arranged(); if it is by_columns, weights are arranged and packed some columns at a time.
    """
    return packed_panels(w, groups, layout, np.float32, &slots.f32)


def pack_f16(w, Py_ssize_t groups=1, layout=None):
    """The same in float16, for products in float16; weights beyond its range become infinite."""
    return packed_panels(w, groups, layout, np.float16, &slots.f16)


def pack_halves(w, Py_ssize_t groups=1, layout=None):
    """Panels for products in float32, of float16 weights, which kernels convert at each run."""
    cdef pl_tile t = slots.f32
    t.bytes = 2
    return packed_panels(w, groups, layout, np.float16, &t)


cdef converted(weights, dtype):
    """A contiguous array of another type of float, whose range weights may exceed."""
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(weights, dtype)


cdef packed_panels(w, Py_ssize_t groups, layout, dtype, const pl_tile *t):
    cdef bint by_columns = layout is not None and layout.by_columns and w.size
    cdef ptrdiff_t rows = max(<ptrdiff_t>1, w.shape[0]), step = rows, columns, depth, group_size, j
    cdef const uint8_t *source
    cdef uint8_t *panels
    cdef Packing *p
    if by_columns:
        step = columns_at_once(t, w.size // rows * t.bytes)
    packed = None
    for j in range(0, rows, step):
        filters = arranged(w[j:j + step] if by_columns else w, layout)
        columns, depth = filters.shape[0] // groups, filters.size // filters.shape[0] if filters.size else 0
        group_size = round_up(rows if by_columns else columns, t.nv) * depth * t.bytes
        if packed is None:
            packed = pooled(groups * group_size)
        flat = np.ascontiguousarray(filters) if filters.dtype == dtype else converted(filters, dtype)
        if filters.size:
            source = <const uint8_t *>memory_of(flat, flat.nbytes)
            panels = <uint8_t *>memory_of(packed, packed.nbytes) + j * depth * t.bytes
            p = new_packing(t, groups, columns, depth, t.bytes)
            p.w, p.panels, p.group_bytes = source, panels, group_size
            defer_packing(&p.job, flat.nbytes, (flat, packed), copied_bytes(flat))
        if by_columns:
            give_back(w[j:j + step])
    return packed.view(dtype)
