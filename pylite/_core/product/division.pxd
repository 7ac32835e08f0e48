# Divides a matrix product into pieces for the worker pool.
from libc.stdint cimport int64_t

from pylite._core.run.kernel cimport Strided
from pylite._core.simd cimport pl_pool, pl_slots, pool_threads

cdef extern from *:
    """
    /* a / b.  Most quotients here are 0 or a, which take no division. */
    static inline __attribute__((always_inline)) ptrdiff_t pl_fast_div(ptrdiff_t a, ptrdiff_t b) {
      return a < b ? 0 : b == 1 ? a : a / b;
    }
    """
    ptrdiff_t fast_div "pl_fast_div"(ptrdiff_t a, ptrdiff_t b) noexcept nogil

cdef enum:
    MAX_MR = 16             # upper bounds of pl_tile's mr and nr
    MAX_NR = 64
    PARALLEL_PRODUCTS = 1 << 17     # multiplications; fewer finish before another thread starts


cdef inline ptrdiff_t round_up(ptrdiff_t n, ptrdiff_t multiple) noexcept nogil:
    """The least multiple of `multiple` that is not below n."""
    return (n + multiple - 1) // multiple * multiple


cdef inline pl_pool *parallel_pool(pl_pool *pool, ptrdiff_t products) noexcept nogil:
    """The pool, or NULL (the caller's thread only) if there are too few multiplications to share."""
    return pool if products >= PARALLEL_PRODUCTS else NULL


cdef inline pl_pool *parallel_pool_q8(pl_pool *pool, const pl_slots *slots, ptrdiff_t products) noexcept nogil:
    """parallel_pool() for 8-bit products, which run at a rate proportional to the vector width."""
    return parallel_pool(pool, products * 4 // slots.q8.nv)


cdef struct Output:
    char *y                 # (n, od, oh, ow, columns) with contiguous columns; an image has od = 1
    ptrdiff_t sn, sd, sh, sw        # strides of n, od, oh and ow in bytes
    ptrdiff_t od, oh
    ptrdiff_t span, lines   # y consists of `lines` runs of `span` pixels that are sw apart


cdef inline void set_output(Output *o, const Strided *y):
    """Fill o for images y (n, oh, ow, columns) or volumes y (n, od, oh, ow, columns)."""
    cdef int h = y.ndim - 3             # the dimension oh
    cdef ptrdiff_t n = y.shape[0], ow = y.shape[h + 1]
    o.y, o.sn, o.sd, o.sh, o.sw = y.data, y.strides[0], y.strides[1], y.strides[h], y.strides[h + 1]
    o.od, o.oh = y.shape[1] if h == 2 else 1, y.shape[h]
    o.span, o.lines = ow, n * o.od * o.oh
    if ((o.oh == 1 or o.sh == ow * o.sw) and (o.od == 1 or o.sd == o.oh * ow * o.sw)
            and (n == 1 or o.sn == o.od * o.oh * ow * o.sw)):
        o.span, o.lines = n * o.od * o.oh * ow, 1


# How a product is divided.  A piece multiplies one A panel by some of the B panels of one group of channels.
cdef struct Division:
    ptrdiff_t rows          # of an A panel
    ptrdiff_t a_panels      # number of A panels in a run of output pixels
    ptrdiff_t panels        # number of B panels in a group
    ptrdiff_t nr            # columns of a B panel
    ptrdiff_t splits        # pieces that share one A panel
    ptrdiff_t groups        # of channels
    ptrdiff_t first         # the first B panel; set by the caller of divide(), for a part of the columns


cdef struct Piece:
    ptrdiff_t group         # of channels
    ptrdiff_t position      # the first row: an output pixel, or a row of the batch's left matrices
    ptrdiff_t matrix        # whose panels are multiplied: the group, or the right matrix of a batch
    int rows
    ptrdiff_t begin, end    # columns within the group
    char *y                 # the first pixel, at the first column of y


# A batch of products: for each i, matrix y[i] of the results is left matrix x[i] times right matrix w[i].  Each product
# is one line of the Output.
cdef struct Pairs:
    const int64_t *x        # index of each product's left matrix,
    const int64_t *w        # of its right matrix,
    const int64_t *y        # and of its result
    ptrdiff_t first         # the first product of this round
    ptrdiff_t base          # the right matrix with which the panels of this round begin


cdef inline ptrdiff_t divide(Division *d, const Output *o, ptrdiff_t rows, ptrdiff_t nr, ptrdiff_t columns,
                             ptrdiff_t groups, pl_pool *pool) noexcept nogil:
    """Divide a product: fill d, and return the number of pieces.

    One piece multiplies an A panel by all B panels, so that the A panel is packed once.  If that gives too few pieces
    for the threads, pieces take fewer B panels, and if this is not enough, smaller A panels.
    rows: most rows of a piece; nr: columns of a B panel; columns: of one group.
    """
    # With eight pieces for each thread, threads end at about the same time.
    cdef ptrdiff_t target = 8 * pool_threads(pool) if pool_threads(pool) > 1 else 1
    d.rows, d.nr, d.groups = rows, nr, groups
    d.panels = 1 if columns <= d.nr else (columns + d.nr - 1) // d.nr
    cdef ptrdiff_t count = o.lines * groups, per_run = fast_div(target, 4 * max(count, <ptrdiff_t>1) * d.panels)
    if per_run > 1 and d.rows > MAX_MR:
        d.rows = min(d.rows, max(<ptrdiff_t>MAX_MR, round_up((o.span + per_run - 1) // per_run, 4)))
    d.a_panels = 1 if o.span == 1 else (o.span + d.rows - 1) // d.rows
    count *= d.a_panels
    d.splits = 0 if count == 0 else min(d.panels, fast_div(target + count - 1, count))
    return count * d.splits


cdef inline void get_piece(const Division *d, const Output *o, const Pairs *pairs, ptrdiff_t columns, ptrdiff_t i,
                           Piece *piece) noexcept nogil:
    """Set `piece` to piece number i; pairs: NULL unless the products are a batch; columns: of one group."""
    cdef ptrdiff_t a_panel = fast_div(i, d.splits)
    cdef ptrdiff_t split = i - a_panel * d.splits
    cdef ptrdiff_t line = fast_div(a_panel, d.a_panels), pixel = (a_panel - line * d.a_panels) * d.rows, plane, image
    piece.group = fast_div(line, o.lines)
    line -= piece.group * o.lines
    plane = fast_div(line, o.oh)
    image = fast_div(plane, o.od)
    piece.position = line * o.span + pixel
    piece.rows = <int>min(d.rows, o.span - pixel)
    piece.begin = (d.first + fast_div(split * d.panels, d.splits)) * d.nr
    piece.end = min(columns, (d.first + fast_div((split + 1) * d.panels, d.splits)) * d.nr)
    piece.y = o.y + image * o.sn + (plane - image * o.od) * o.sd + (line - plane * o.oh) * o.sh + pixel * o.sw
    piece.matrix = piece.group
    if pairs != NULL:
        line += pairs.first
        piece.position, piece.matrix = pairs.x[line] * o.span + pixel, pairs.w[line] - pairs.base
        piece.y = o.y + pairs.y[line] * o.sn + pixel * o.sw
