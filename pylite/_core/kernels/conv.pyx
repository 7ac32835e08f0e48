"""8-bit convolutions, requantized by MBQM32 with a multiplier for each channel."""
from libc.stdint cimport int16_t, uint8_t

from pylite._core.run.kernel cimport Kernel, Strided, kernel_fn, set_strided, nothing
from pylite._core.product.bytes cimport ProductQ8, algorithm_of, plan_rows, run_product, set_sizes, use_single_row
from pylite._core.product.columns cimport set_columns
from pylite._core.product.tasks cimport Output, Task, fast_div, get_task, parallel_pool_q8, plan_tasks, set_output
from pylite._core.product.window cimport Window, set_window
from pylite._core.simd cimport (
    PL_WINOGRAD_WIDE,
    memory_of,
    parallel_for,
    pl_pool,
    pl_range_fn,
    pl_winograd,
    pl_winograd_tiles,
    pool_threads,
    slots,
)

cdef class ConvQ8(Kernel):
    """8-bit 2-D convolution: clamp(MBQM32(sum w (x - z_x) + b) + z_y).

    x: (n, h, w, c) and y: (n, oh, ow, k), bytes, any strides but contiguous channels; contiguous y for pixel packing.
    packed: from matmul.pack_q8; filter: (fh, fw, stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w).
    zero: the zero point of x as bytes, one for each channel of a group and each pixel of a line that an output pixel
    sees (with pixel packing: that a group of output pixels sees).
    w_zero, zero_point, low, high: as of int8; x_flip, y_flip: 0x80 where x, y are uint8.
    """
    ARRAYS, SIZES = (0, 1), ("filter",)
    cdef object held        # owners of the other memory that state points to
    cdef ProductQ8 state
    cdef pl_winograd tiles
    cdef ptrdiff_t pixels   # that count as one; 0 for Winograd's tiles

    def __init__(self, x, y, tuple packed, *, filter, ptrdiff_t groups, zero, int w_zero, int zero_point, int low,
                 int high, int x_flip=0, int y_flip=0):
        cdef ProductQ8 *p = &self.state
        cdef Strided source, target
        set_strided(&source, x, 4, 1)
        set_strided(&target, y, 4, 1, True)
        panels, parameters = packed[:2]
        self.memory, self.held, self.pixels = (x, y), (panels, parameters, zero), packed[2] if len(packed) > 2 else 1
        p.window.zero, p.flip, p.w_zero = <const uint8_t *>memory_of(zero, len(zero)), x_flip, w_zero
        p.panels = <const uint8_t *>memory_of(panels, panels.size)
        self.arrange(&source, &target, filter, groups)
        if self.fn != <kernel_fn>nothing:
            set_columns(&p.q, parameters, p.depth, zero_point, low, high, y_flip)

    cdef Kernel moved(self, const Strided **arrays, list sizes):
        cdef const ProductQ8 *like = &self.state
        cdef const Strided *x = arrays[0]
        cdef const Strided *y = arrays[1]
        cdef ConvQ8 made
        cdef ProductQ8 *p
        if (x == NULL or y == NULL or self.fn == <kernel_fn>nothing or self.pixels > 1
                or x.shape[3] != like.window.length * like.groups or y.shape[3] != like.columns * like.groups):
            return None
        made = ConvQ8.__new__(ConvQ8)
        p = &made.state
        made.held, made.pixels = self.held, self.pixels
        p.window.zero, p.flip, p.w_zero, p.panels, p.q = (
            like.window.zero, like.flip, like.w_zero, like.panels, like.q)
        made.arrange(x, y, sizes[0], like.groups)
        return made

    cdef int arrange(self, const Strided *x, const Strided *y, filter, ptrdiff_t groups) except -1:
        """Set up the product, whose weights are known."""
        cdef ProductQ8 *p = &self.state
        if y.nbytes == 0:
            self.fn = <kernel_fn>nothing
            return 0
        set_window(&p.window, <const uint8_t *>x.at if x.nbytes else NULL, x.strides[0], x.strides[1], x.strides[2],
                   x.shape[1], x.shape[2], y.shape[1], y.shape[2], x.shape[3] // groups, p.window.zero, filter)
        set_output(&p.output, y.at, y.shape[0], y.shape[1], y.shape[2], y.strides[0], y.strides[1], y.strides[2])
        if self.pixels > 1:
            pack_output_pixels(p, self.pixels)
        set_sizes(p, slots, max(self.pixels, <ptrdiff_t>1) * y.shape[3], groups,
                  p.window.fh * p.window.fw * p.window.length)
        p.count = p.output.span * p.output.lines
        self.fn = <kernel_fn>conv_q8
        if not self.pixels:
            use_tiles(p, &self.tiles)
            self.fn, self.algorithm = <kernel_fn>conv_q8_tiles, "Winograd's 36 products for each 4 x 4 pixels"
            return 0
        use_single_row(p)
        if p.row == NULL:
            plan_rows(p)
        self.algorithm = algorithm_of(p)
        if self.pixels > 1:
            self.algorithm += f", {self.pixels} pixels at once"
        return 0


cdef void pack_output_pixels(ProductQ8 *p, ptrdiff_t pixels):
    """Pixel packing: `pixels` neighbours in a line of the output become one pixel with the columns of all of them."""
    cdef Window *w = &p.window
    p.output.sw *= pixels
    p.output.span //= pixels
    w.ow //= pixels
    if w.direct and w.sw == w.length:       # the input pixels are merged, too
        w.w //= pixels
        w.sw *= pixels
        w.length *= pixels
    else:
        w.direct = False
        w.fw += <int>(pixels - 1) * w.stride_w
        w.stride_w *= <int>pixels


cdef void use_tiles(ProductQ8 *p, pl_winograd *g):
    """Set up Winograd's tiles, which count as pixels of the output."""
    cdef Window *w = &p.window
    cdef Output *o = &p.output
    cdef ptrdiff_t most = pl_winograd_tiles(w.length), tiles = o.span * o.lines // (w.oh * w.ow), tasks
    g.x, g.zero, g.y, g.panels = w.x, w.zero, <uint8_t *>o.y, <const int16_t *>p.panels
    g.x_image, g.x_line, g.x_pixel, g.y_image, g.y_line, g.y_pixel = w.sn, w.sh, w.sw, o.sn, o.sh, o.sw
    g.h, g.w, g.oh, g.ow, g.c = w.h, w.w, w.oh, w.ow, w.length
    g.pad_h, g.pad_w, g.flip = w.pad_h, w.pad_w, p.flip
    tiles *= (w.oh + 3) // 4 * ((w.ow + 3) // 4)
    tasks = (tiles + most - 1) // most
    o.span, o.lines = tiles, 1
    p.tile.mr, p.tile.nr = <int>((tiles + tasks - 1) // tasks), PL_WINOGRAD_WIDE


cdef int conv_q8_tiles(ConvQ8 self, pl_pool *pool) noexcept nogil:
    cdef ProductQ8 *p = &self.state
    pool = parallel_pool_q8(pool, p.slots, 8 * p.output.span * p.depth * p.columns)
    plan_tasks(&p.tasks, &p.output, &p.tile, p.columns, 1, pool)
    # Each task transforms its tiles, so fewer splits of the columns are better.
    p.tasks.splits = min(p.tasks.splits, fast_div(4 * pool_threads(pool) + p.tasks.a_panels - 1, p.tasks.a_panels))
    parallel_for(pool, p.tasks.a_panels * p.tasks.splits, 1, <pl_range_fn>run_tiles, <void *>self)
    return 0


cdef void run_tiles(ConvQ8 self, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef ProductQ8 *p = &self.state
    cdef Task task
    cdef ptrdiff_t i
    for i in range(begin, end):
        get_task(&p.tasks, &p.output, NULL, p.columns, i, &task)
        p.slots.winograd_q8(&self.tiles, task.position, task.rows, task.begin, task.end, &p.q)


cdef int conv_q8(ConvQ8 self, pl_pool *pool) noexcept nogil:
    cdef ProductQ8 *p = &self.state
    return run_product(p, parallel_pool_q8(pool, p.slots, p.output.span * p.output.lines * p.depth * p.columns))
