# build: -O2
"""Depthwise convolutions: 8-bit, int16, float32, float16 and hybrid.

run_lines() is the loop of all types: input_lines() finds the input lines under some output lines, repeat_channels()
makes patches of them if a channel has several outputs, and a function for the type (multiply_q8() and so on) calls the
micro-kernel.  The class of a type sets up that function's parameters.

The file is longer than others because all types share the loop over output lines.
"""
import numpy as np

from libc.stdint cimport int16_t, int64_t, uint8_t, uint16_t

from pylite._core.kernels.channel_repeat cimport (
    CALL_BYTES,
    COLUMN_BYTES,
    REPEAT_BUFFER,
    REPEAT_BYTES,
    SLICE_CHANNELS,
    ChannelRepeat,
    line_in_order,
    lines_per_piece,
    plan_repeat,
    repeat_channels,
)
from pylite._core.kernels.rounding cimport pl_quantization
from pylite._core.product.columns cimport set_columns
from pylite._core.product.division cimport fast_div, parallel_pool
from pylite._core.product.product cimport FloatFinish, WordFinish
from pylite._core.product.window cimport covered, reach
from pylite._core.product.words cimport finish_row, set_finish
from pylite._core.run.kernel cimport CACHE_LINE, FLUSH, Kernel, Strided, kernel_fn, nothing, set_contiguous
from pylite._core.simd cimport (
    PL_HALF_LINES,
    PL_MAX_TAPS,
    memory_of,
    parallel_for,
    pl_columns,
    pl_dw_lines,
    pl_pool,
    pl_slots,
    pool_threads,
    slots,
)

cdef enum:
    MAX_SUMS = 1024         # int16: most channels whose sums are on the stack at once

# For lowering: most bytes under one window, with channels repeated; floats may be repeated in slices of channels, whose
# number is a multiple of this.
MAX_PATCH_BYTES, CHANNELS_OF_SLICE = REPEAT_BYTES, SLICE_CHANNELS


# ---- one loop for all types ----------------------------------------------------------------------------------
# Writes the results of the output pixels `g` to y, in g.c channels from `channel` on: all of them except for float32.
ctypedef void (*multiply_fn)(const Depthwise *s, const pl_dw_lines *g, ptrdiff_t channel, uint8_t *y) noexcept nogil


cdef struct Depthwise:
    const pl_slots *slots
    ChannelRepeat repeat
    pl_dw_lines geometry
    const uint8_t *x
    const uint8_t *w
    uint8_t *y
    ptrdiff_t h, oh         # lines of an input and of an output image
    ptrdiff_t line, image, y_line           # strides in bytes
    ptrdiff_t y_item        # bytes of a result
    ptrdiff_t call_lines    # most output lines in one call of a micro-kernel
    ptrdiff_t line_step     # from one of these lines to the next, in lines
    bint takes_borders      # may they have windows that are partly outside the image?
    ptrdiff_t grain         # least number of output lines that a thread takes, or 0, see lines_per_piece()
    double cost             # of a product, relative to one of a float32 matrix product
    int lines_at_once       # see arrange()
    int stride, dilation, pad               # vertical
    multiply_fn multiply
    int w_zero, flip        # for bytes
    pl_columns columns
    WordFinish int16        # for int16
    FloatFinish float32     # for float32, hybrid and float16, whose bias is of float16
    const float *column_scales      # for hybrid
    const float *floats     # for hybrid: the images; x holds their quantized values
    float *image_scales     # (n, c): the scales of images times the scales of columns
    ptrdiff_t image_size    # elements of an image


cdef void plan_calls(Depthwise *s, int lines_at_once) noexcept:
    """Choose how many output lines one call of a micro-kernel computes; lines_at_once: see arrange()."""
    # The input lines of one call stay in the second-level cache.
    s.call_lines = s.repeat.lines if s.repeat.multiplier > 1 else max(<ptrdiff_t>1, CALL_BYTES // (s.line * s.stride))
    s.line_step, s.lines_at_once, s.takes_borders = 1, lines_at_once, lines_at_once > 0
    if shares_lines(s):
        s.line_step = s.dilation
        s.geometry.y_line *= s.line_step
    if not lines_at_once:
        return
    if not shares_lines(s) or s.stride != s.geometry.stride or lines_at_once * s.stride + s.geometry.fh > PL_MAX_TAPS:
        lines_at_once = 1
    elif s.repeat.multiplier == 1:
        # Micro-kernels compute one block of channels after the other.  Neighbouring blocks share cache lines, which
        # stay in the first-level cache if a call has few lines.
        s.call_lines = max(s.call_lines, COLUMN_BYTES // (CACHE_LINE * s.geometry.width * s.stride))
    s.call_lines = min(s.call_lines, <ptrdiff_t>lines_at_once)


cdef inline bint shares_lines(const Depthwise *s) noexcept:
    """Do output lines that are `dilation` apart read the same input lines, and can one call compute them?"""
    return s.dilation == 1 or (s.stride == 1 and s.floats == NULL)


cdef class DepthwiseKernel(Kernel):
    """The base of all types.  x: (n, h, w, c / multiplier) and y: (n, oh, ow, c), contiguous."""
    ARRAYS, SIZES = (0, 1), ("filter",)
    cdef Depthwise state
    cdef list owners        # owners of the memory that state points to
    cdef ptrdiff_t lines    # output lines of all images

    cdef bint start(self, x, y, w, zero, filter, multiply_fn multiply,
                    int lines_at_once) except -1:
        """Set the attributes that all types share; False if there is nothing to compute.

        zero: the bytes of a pixel outside the image; lines_at_once: see arrange().
        """
        cdef Strided source, target
        set_contiguous(&source, x, 4, 0, False)
        set_contiguous(&target, y, 4, 0, True)
        self.memory, self.owners, self.state.multiply = (x, y), [w, zero], multiply
        self.state.w = <const uint8_t *>memory_of(w, w.nbytes)
        self.state.geometry.zero = <const uint8_t *>memory_of(zero, len(zero))
        return self.arrange(&source, &target, filter, lines_at_once)

    cdef bint arrange(self, const Strided *x, const Strided *y, filter, int lines_at_once) except -1:
        """Set all that depends on shapes; False if the arrays are empty.

        lines_at_once: how many output lines micro-kernels take, with windows partly outside the image; 0: any number,
        but only with windows inside it.
        """
        cdef Depthwise *s = &self.state
        cdef ptrdiff_t item = x.item
        if y.nbytes == 0 or x.nbytes == 0:
            return False
        self.lines, self.fn, s.slots = y.shape[0] * y.shape[1], <kernel_fn>depthwise, slots
        s.x, s.y = <const uint8_t *>x.data, <uint8_t *>y.data
        s.h, s.oh, s.line, s.image = x.shape[1], y.shape[1], x.strides[1], x.strides[0]
        s.y_line, s.y_item = y.strides[1], y.item
        (s.geometry.fh, s.geometry.fw, s.stride, s.geometry.stride, s.dilation, s.geometry.dilation,
         s.pad, s.geometry.pad) = filter
        if s.geometry.fh * s.geometry.fw > PL_MAX_TAPS:
            raise ValueError(f"a depthwise filter of {s.geometry.fh} x {s.geometry.fw} taps is too large")
        s.geometry.width, s.geometry.pixels, s.geometry.c = x.shape[2], y.shape[2], y.shape[3]
        s.geometry.channels = s.geometry.c
        s.geometry.y_line, s.image_size = s.y_line // item, x.shape[1] * x.shape[2] * x.shape[3]
        plan_repeat(&s.repeat, &s.geometry, x.shape[3], item, s.stride, shares_lines(s), s.multiply == multiply_f32)
        notes = ["channels repeated, patch by patch"] if s.repeat.multiplier > 1 else []
        if s.multiply == multiply_f16:
            notes.append("in float16")
        self.algorithm = ", ".join(notes) or None
        if item == 1:
            s.grain = s.repeat.lines
        plan_calls(s, lines_at_once)
        return True

    cdef int set_float_finish(self, bias, limits) except -1:
        """Set how sums of floats are finished."""
        self.owners.append(bias)
        self.subnormals, self.state.cost = FLUSH, 2
        self.state.float32.low, self.state.float32.high = limits
        if bias is not None:
            self.state.float32.bias = <const float *>memory_of(bias, bias.nbytes)
        return 0

    cdef Kernel moved(self, const Strided **arrays, list sizes):
        cdef const Depthwise *s = &self.state
        cdef const Strided *x = arrays[0]
        cdef const Strided *y = arrays[1]
        cdef DepthwiseKernel copy
        if (x == NULL or y == NULL or self.fn == <kernel_fn>nothing or y.shape[3] != s.geometry.c
                or x.shape[3] * s.repeat.multiplier != s.geometry.c
                or (s.floats != NULL and (arrays[2] == NULL or arrays[3] == NULL))):
            return None
        copy = <DepthwiseKernel>self.base_copy()
        copy.owners, copy.state = self.owners, self.state
        if not copy.arrange(x, y, sizes[0], s.lines_at_once):
            return None
        if s.floats != NULL:
            copy.state.floats, copy.state.image_scales = <const float *>arrays[2].data, <float *>arrays[3].data
        return copy


cdef int depthwise(DepthwiseKernel self, pl_pool *pool) noexcept nogil:
    cdef Depthwise *s = &self.state
    cdef const pl_dw_lines *g = &s.geometry
    cdef ptrdiff_t grain = s.grain if s.grain else lines_per_piece(self.lines, pool_threads(pool))
    pool = parallel_pool(pool, <ptrdiff_t>(s.cost * (self.lines * g.pixels * g.c * g.fh * g.fw)))
    if s.floats != NULL:
        parallel_for(pool, fast_div(self.lines, s.oh), 1, center_images, s)
    parallel_for(pool, self.lines, grain, run_lines, s)
    return 0


cdef inline int input_lines(const Depthwise *s, pl_dw_lines *g, const uint8_t **row, const uint8_t *image,
                            ptrdiff_t line, ptrdiff_t max_lines) noexcept nogil:
    """Set g to output lines of an image from `line` on; returns the number of input lines in `row`.

    row: set to the address of each input line, NULL if it is outside the image.
    There are up to max_lines output lines, but only one if windows are partly outside the image, unless micro-kernels
    take several such lines (s.takes_borders) or the lines outside are filled with zeros (s.repeat.sliced).
    """
    cdef ptrdiff_t first = line * s.stride - s.pad, y
    cdef ptrdiff_t inside = (s.h - first - reach(g.fh, s.dilation)) // (s.stride * s.line_step) + 1
    cdef ptrdiff_t capacity = (PL_MAX_TAPS - g.fh) // s.stride + 1      # output lines whose input lines fit into `row`
    cdef int i, rows
    g.lines = <int>max_lines if s.takes_borders else 1
    if s.repeat.sliced:
        inside = max_lines
    if (first >= 0 or s.repeat.sliced) and not s.takes_borders:
        g.lines = <int>max(<ptrdiff_t>1, min(min(max_lines, inside), capacity))
    rows = <int>covered(g.lines, s.stride, g.fh)
    for i in range(rows):
        y = first + <ptrdiff_t>i * s.dilation
        row[i] = image + y * s.line if 0 <= y < s.h else NULL
    g.row, g.next = row, s.stride * s.line_step * s.line
    return rows


cdef void run_lines(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Compute output lines begin to end - 1, counted over all images in the order of line_in_order()."""
    cdef Depthwise *s = <Depthwise *>ctx
    cdef pl_dw_lines g = s.geometry, patch
    cdef const uint8_t *row[PL_MAX_TAPS]
    cdef const uint8_t *repeated[PL_MAX_TAPS]
    cdef uint8_t buffer[REPEAT_BUFFER]
    cdef ptrdiff_t image, line, left, pixel, channel
    cdef uint8_t *y
    cdef int rows
    while begin < end:
        image = fast_div(begin, s.oh)
        line = line_in_order(begin - image * s.oh, s.oh, s.line_step, &left)
        rows = input_lines(s, &g, row, s.x + image * s.image, line, min(s.call_lines, min(end - begin, left)))
        y = s.y + (image * s.oh + line) * s.y_line
        pixel = channel = 0
        if s.floats != NULL:
            g.scale = s.image_scales + image * g.c
        while pixel < g.pixels:
            patch = repeat_channels(s.slots, &s.repeat, &g, pixel, channel, rows, buffer, repeated)
            s.multiply(s, &patch, channel, y + (pixel * g.c + channel) * s.y_item)
            channel += patch.c
            if channel == g.c:
                pixel, channel = pixel + patch.pixels, 0
        begin += g.lines


# ---- 8 bits --------------------------------------------------------------------------------------------------
cdef class DepthwiseQ8(DepthwiseKernel):
    """8-bit depthwise convolution.

    x, y: bytes; packed: from depthwise_packing.pack_depthwise_q8; zero: (c,) bytes of x's zero point; the rest as
    in conv.ConvQ8.
    """
    def __init__(self, x, y, tuple packed, *, filter, zero, quantization, finish):
        cdef Depthwise *s = &self.state
        weights, parameters = packed
        if self.start(x, y, weights, zero, filter, multiply_q8, slots.dw8.mr):
            self.owners.append(parameters)
            s.cost = 24. / slots.q8.nv      # a product takes as long as about six of an int8 matrix product
            s.flip, _, _, s.w_zero = quantization
            set_columns(&s.columns, parameters, s.geometry.fh * s.geometry.fw, finish)


cdef void multiply_q8(const Depthwise *s, const pl_dw_lines *g, ptrdiff_t channel, uint8_t *y) noexcept nogil:
    s.slots.depthwise_q8(g, s.flip, s.w_zero, s.w, &s.columns, y)


# ---- 16 bits -------------------------------------------------------------------------------------------------
cdef class Depthwise16(DepthwiseKernel):
    """int16 depthwise convolution, zero points 0.

    x, y: int16; w: from depthwise_packing.pack_taps; the rest as in conv16.Conv16.
    """
    def __init__(self, x, y, w, *, filter, finish):
        if self.start(x, y, w, bytes(2 * y.shape[3]), filter, multiply_s16, 1):
            self.owners.append(set_finish(&self.state.int16, finish))
            self.state.grain, self.state.cost = 1, 8


cdef void multiply_s16(const Depthwise *s, const pl_dw_lines *g, ptrdiff_t channel, uint8_t *y) noexcept nogil:
    cdef int64_t acc[MAX_SUMS]
    cdef ptrdiff_t pixel, c
    cdef int n
    for pixel in range(g.pixels):
        c = 0
        while c < g.c:
            n = <int>min(<ptrdiff_t>MAX_SUMS, g.c - c)
            s.slots.depthwise_s64(g, pixel, c, n, <const int16_t *>s.w, acc)
            finish_row(s.slots, &s.int16, n, acc, c, <int16_t *>y + pixel * g.c + c)
            c += n


# ---- float32 -------------------------------------------------------------------------------------------------
cdef class DepthwiseF32(DepthwiseKernel):
    """float32 depthwise convolution.

    x, y: float32; w: (1, fh, fw, c); the rest as in conv_float.ConvF32.
    """
    def __init__(self, x, y, w, bias, *, filter, limits):
        if self.start(x, y, np.ascontiguousarray(w), bytes(4 * y.shape[3]), filter, multiply_f32, slots.dw_f32_lines):
            self.set_float_finish(bias, limits)


cdef void multiply_f32(const Depthwise *s, const pl_dw_lines *g, ptrdiff_t channel, uint8_t *y) noexcept nogil:
    cdef const float *bias = s.float32.bias
    s.slots.depthwise_f32(g, <const float *>s.w + channel, bias if bias == NULL else bias + channel, s.float32.low,
                          s.float32.high, <float *>y)


cdef class DepthwiseF16(DepthwiseKernel):
    """float16 depthwise convolution.

    x, y: float16; w: from depthwise_packing.pack_half; bias and limits, of float32, are rounded to float16; the rest as
    in DepthwiseF32.
    """
    def __init__(self, x, y, w, bias, *, filter, limits):
        with np.errstate(over="ignore"):
            limits = np.float16(limits)
            bias = None if bias is None else np.asarray(bias, np.float32).astype(np.float16)
        if self.start(x, y, w, bytes(2 * y.shape[3]), filter, multiply_f16, PL_HALF_LINES):
            self.set_float_finish(bias, limits)


cdef void multiply_f16(const Depthwise *s, const pl_dw_lines *g, ptrdiff_t channel, uint8_t *y) noexcept nogil:
    s.slots.depthwise_f16(g, <const uint16_t *>s.w, <const uint16_t *>s.float32.bias, s.float32.low, s.float32.high,
                          <uint16_t *>y)


# ---- float32 times integers ----------------------------------------------------------------------------------
# Quantized images are kept as whole numbers in float32.  Sums of their products with 8-bit weights stay below 2^24, so
# float32 computes them exactly, whatever the order of additions.
cdef class DepthwiseHybrid(DepthwiseKernel):
    """Depthwise convolution of float32 images, each quantized to int8 with a zero point first, with int8 weights.

    x, y: float32; q (like x) and image_scales (n, c): float32 scratch; w: from depthwise_packing.pack_taps, 512
    taps at most; scales: (c,) float32; bias: (c,) float32 or None; the rest as in hybrid.ConvHybrid.
    """
    ARRAYS = ("q", 1, 0, "image_scales")

    def __init__(self, x, y, w, bias, *, q, image_scales, scales, filter, limits):
        cdef Depthwise *s = &self.state
        s.floats = <const float *>memory_of(x, x.nbytes)
        if self.start(q, y, w, bytes(4 * y.shape[3]), filter, multiply_f32, slots.dw_f32_lines):
            self.memory = x, y, q, image_scales
            self.owners.append(scales)
            self.set_float_finish(bias, limits)
            s.image_scales = <float *>memory_of(image_scales, image_scales.nbytes)
            s.column_scales = <const float *>memory_of(scales, scales.nbytes)


cdef void center_images(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    """Quantize images begin to end - 1, and subtract the zero point, so that padding is 0."""
    cdef Depthwise *s = <Depthwise *>ctx
    cdef const float *x
    cdef float *scales
    cdef float low, high, scale, inverse
    cdef ptrdiff_t i, j
    cdef int zero
    for i in range(begin, end):
        x, scales = s.floats + i * s.image_size, s.image_scales + i * s.geometry.c
        s.slots.range_f32(s.image_size, x, &low, &high)
        zero = pl_quantization(low, high, True, &scale, &inverse)
        s.slots.quantize_whole(s.image_size, x, inverse, zero, <float *>s.x + i * s.image_size)
        for j in range(s.geometry.c):
            scales[j] = scale * s.column_scales[j]
