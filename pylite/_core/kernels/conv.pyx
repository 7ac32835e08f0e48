"""8-bit convolutions and fully connected layers."""
import numpy as np

from libc.stdint cimport int16_t, int32_t, uint8_t
from libc.string cimport memset

from pylite._core.product.bytes cimport gather_rows, plan_rows, run_product, set_sizes, use_single_row
from pylite._core.product.columns cimport BIAS, PARAMETERS, fit_columns, point_columns, set_columns
from pylite._core.product.division cimport Division, Output, Piece, divide, fast_div, get_piece, parallel_pool_q8
from pylite._core.product.images cimport ImageProduct, Images
from pylite._core.product.product cimport FLOAT64, REQUANTIZE, SECTIONS, WINOGRAD, Product
from pylite._core.product.window cimport Window
from pylite._core.run.kernel cimport Strided, kernel_fn
from pylite._core.simd cimport (
    PL_WINOGRAD_COLUMNS,
    memory_of,
    parallel_for,
    pl_columns,
    pl_pool,
    pl_range_fn,
    pl_winograd,
    pl_winograd_tiles,
    pool_threads,
)

cdef class ConvQ8(ImageProduct):
    """8-bit 2-D convolution: y = clamp(round(sum (w - z_w)(x - z_x) + b) + z_y).  A matrix product has 1 x 1 images.

    x, y: bytes, and filter, as in ImageProduct; pixel packing needs a contiguous y.
    zero: the pixels read as padding: zero points of x, bytes, for one line under a window (of all pixels that are
    packed together).
    quantization: (x_flip, x_zero, w_flip, w_zero).  Each byte is XORed with a flip: 0x80 turns uint8 into int8.  Zero
    points are those of the int8 values.
    finish: (zero_point, low, high, flip): results get zero_point added, are clamped to low..high and XORed with flip;
    all are those of int8 values, or of int16 values if y is int16.

    Without `scales`, sums are rounded by MBQM32; packed: from packing.pack_q8.
    With `scales`, float64 (k,), they are rounded by the float64 rule of FULLY_CONNECTED, y may be int16, and bias is
    int32 (k,) or None; packed: from packing.pack_weights, or None to pack `weights` (k, depth), bytes, at each run,
    into the scratch panels (uint8) and sums (int32 (k,)).
    """
    cdef pl_winograd winograd
    cdef ptrdiff_t pixels   # output pixels that pixel packing computes as one, if more than 1; see packing.pack_q8
    cdef const uint8_t *weights     # weights to pack at each run, or NULL
    cdef const int32_t *bias        # for the float64 rule, or NULL
    cdef int x_zero, w_flip

    def __init__(self, x, y, tuple packed, *, filter, ptrdiff_t groups=1, zero=b"\0", quantization, finish,
                 const double[::1] scales=None, const int32_t[::1] bias=None, const uint8_t[:, ::1] weights=None,
                 uint8_t[::1] panels=None, int32_t[::1] sums=None):
        cdef Product *p = &self.product
        cdef Images images
        if not self.start(&images, x, y, 1, 1 if scales is None else 0):
            return
        p.window.zero, p.groups = <const uint8_t *>memory_of(zero, len(zero)), groups
        p.rows.bytes.flip, self.x_zero, self.w_flip, p.w_zero = quantization
        self.owners = packed, zero, bias, weights, panels, sums
        if packed is not None:
            p.panels = <const uint8_t *>memory_of(packed[0], packed[0].size)
        if scales is None:
            parameters, self.pixels = packed[1], packed[2]
            if self.pixels == 0:
                p.rows.source = WINOGRAD
        self.one_shape = packed is None or self.pixels > 1
        self.arrange(images.arrays, filter)
        if scales is None:
            set_columns(&p.requantize, parameters, p.depth, finish)
        else:
            p.requantize.zero_point, p.requantize.low, p.requantize.high, p.requantize.flip = finish
            self.bias = &bias[0] if bias is not None else NULL
            if packed is None:
                self.weights, p.panels, p.float64.start = &weights[0, 0], &panels[0], &sums[0]
            self.use_scales(packed, scales)
        self.choose()

    cdef int plan(self, const Strided **arrays, filter) except -1:
        self.arrange(arrays, filter)
        self.choose()
        return 0

    cdef int arrange(self, const Strided **arrays, filter) except -1:
        """Set the sizes of the product and the memory of x and y."""
        cdef Product *p = &self.product
        cdef const Strided *y = arrays[1]
        self.set_images(arrays[0], y, filter)
        if self.pixels > 1:
            pack_output_pixels(p, self.pixels)
        set_sizes(p, max(self.pixels, <ptrdiff_t>1) * y.shape[3], p.groups,
                  p.window.fh * p.window.fw * p.window.length)
        p.rows.bytes.total, p.y_item = p.output.span * p.output.lines, <int>y.item
        return 0

    cdef int use_scales(self, tuple packed, const double[::1] scales) except -1:
        """Set up the float64 rule; gemm_q8 applies it if it can do so exactly."""
        cdef Product *p = &self.product
        cdef pl_columns *q = &p.requantize
        cdef const int32_t[::1] sums
        padded_scales, rows = np.zeros(p.padded_columns), np.zeros((PARAMETERS, p.padded_columns), np.int32)
        cdef double[::1] real = padded_scales
        cdef int32_t[:, ::1] parameters = rows
        real[:p.columns] = scales
        p.float64.scales = &real[0]
        self.owners += padded_scales, rows
        if packed is None:
            return 0
        sums, p.float64.start = packed[1], &parameters[<int>BIAS, 0]
        self.set_starts(&sums[0])
        if p.y_item > 1:
            return 0
        fit_columns(p.slots, &parameters[0, 0], p.padded_columns, &real[0], p.depth, q.low - q.zero_point,
                    q.high - q.zero_point, p.panels, packed[0].size)
        point_columns(q, &parameters[0, 0], p.padded_columns)
        if p.tile.real and np.abs(padded_scales).max() < 1:
            q.real = &real[0]
        return 0

    cdef void set_starts(self, const int32_t *sums) noexcept nogil:
        """Set the initial value of each column's accumulator, product.float64.start, from the sums of its weights.

        sums: one for each column; they may be in the same memory.
        """
        cdef const Product *p = &self.product
        cdef int32_t *start = <int32_t *>p.float64.start
        cdef int32_t zero = self.x_zero + p.tile.offset
        cdef ptrdiff_t j
        for j in range(p.columns):
            start[j] = ((self.bias[j] if self.bias != NULL else 0)
                        + <int32_t>p.depth * p.w_zero * zero - zero * sums[j])

    cdef int choose(self) except -1:
        """Choose the function and the source of rows."""
        cdef Product *p = &self.product
        p.rows.bytes.single = NULL
        if p.float64.scales != NULL:
            p.finish = REQUANTIZE if (p.requantize.real != NULL if p.tile.real else p.requantize.fit) else FLOAT64
        if p.rows.source == WINOGRAD:
            plan_winograd(p, &self.winograd)
            self.fn, self.algorithm = <kernel_fn>conv_q8_winograd, "Winograd's 36 products for each 4 x 4 pixels"
            return 0
        self.fn = <kernel_fn>conv_q8_packing if self.weights != NULL else <kernel_fn>conv_q8
        if p.finish == REQUANTIZE:
            use_single_row(p)
        if p.finish != REQUANTIZE:      # the other finishes need pieces of at most one tile of rows
            gather_rows(p)
        elif p.rows.bytes.single == NULL:
            plan_rows(p)
            # Sums of sections are finished by MBQM32 or by FLOAT64, never by requantize.real.
            if p.rows.source == SECTIONS and p.float64.scales != NULL:
                p.finish = FLOAT64
        self.algorithm = self.source()
        if self.pixels > 1:
            self.algorithm += f", {self.pixels} pixels at once"
        return 0


cdef void pack_output_pixels(Product *p, ptrdiff_t pixels):
    """Pixel packing: treat `pixels` neighbouring output pixels as one pixel with the columns of all."""
    cdef Window *w = &p.window
    p.output.sw *= pixels
    p.output.span //= pixels
    w.ow //= pixels
    if w.direct and w.sw == w.length:       # merge input pixels, too
        w.w //= pixels
        w.sw *= pixels
        w.length *= pixels
    else:
        w.direct = False
        w.fw += <int>(pixels - 1) * w.stride_w
        w.stride_w *= <int>pixels


cdef void plan_winograd(Product *p, pl_winograd *g):
    """Set up Winograd's F(4x4, 3x3); its tiles count as output pixels."""
    cdef Window *w = &p.window
    cdef Output *o = &p.output
    cdef ptrdiff_t most = pl_winograd_tiles(w.length), tiles = o.span * o.lines // (w.oh * w.ow), pieces
    g.x, g.zero, g.y, g.panels = w.x, w.zero, <uint8_t *>o.y, <const int16_t *>p.panels
    g.x_image, g.x_line, g.x_pixel, g.y_image, g.y_line, g.y_pixel = w.sn, w.sh, w.sw, o.sn, o.sh, o.sw
    g.h, g.w, g.oh, g.ow, g.c = w.h, w.w, w.oh, w.ow, w.length
    g.pad_h, g.pad_w, g.flip = w.pad_h, w.pad_w, p.rows.bytes.flip
    tiles *= (w.oh + 3) // 4 * ((w.ow + 3) // 4)
    pieces = (tiles + most - 1) // most
    o.span, o.lines = tiles, 1
    p.piece_rows, p.tile.nr = <int>((tiles + pieces - 1) // pieces), PL_WINOGRAD_COLUMNS


cdef int conv_q8_winograd(ConvQ8 self, pl_pool *pool) noexcept nogil:
    cdef Product *p = &self.product
    cdef Division *division = &p.division
    pool = parallel_pool_q8(pool, p.slots, 8 * p.output.span * p.depth * p.columns)
    divide(division, &p.output, p.piece_rows, p.tile.nr, p.columns, 1, pool)
    # Every piece transforms its tiles again, so divide the columns among as few pieces as possible.
    division.splits = min(division.splits, fast_div(4 * pool_threads(pool) + division.a_panels - 1, division.a_panels))
    parallel_for(pool, division.a_panels * division.splits, 1, <pl_range_fn>run_winograd_pieces, <void *>self)
    return 0


cdef void run_winograd_pieces(ConvQ8 self, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef Product *p = &self.product
    cdef Piece piece
    cdef ptrdiff_t i
    for i in range(begin, end):
        get_piece(&p.division, &p.output, NULL, p.columns, i, &piece)
        p.slots.winograd_q8(&self.winograd, piece.position, piece.rows, piece.begin, piece.end, &p.requantize)


cdef int conv_q8(ConvQ8 self, pl_pool *pool) noexcept nogil:
    cdef Product *p = &self.product
    return run_product(p, parallel_pool_q8(pool, p.slots, p.output.span * p.output.lines * p.depth * p.columns))


cdef int conv_q8_packing(ConvQ8 self, pl_pool *pool) noexcept nogil:
    """Pack the weights, then run."""
    cdef const Product *p = &self.product
    memset(<void *>p.panels, 0, p.padded_depth * p.padded_columns)
    p.slots.pack_b_q8(&p.tile, p.columns, p.depth, self.weights, self.w_flip, <uint8_t *>p.panels,
                      <int32_t *>p.float64.start)
    self.set_starts(p.float64.start)
    return conv_q8(self, pool)
