# How matrix products are divided into tasks for the worker pool.
from libc.stdint cimport int64_t

from pylite._core.simd cimport pl_pool, pl_slots, pl_tile, pool_threads

cdef extern from *:
    """
    /* a / b, without a division where the quotient is 0 or a, as it mostly is. */
    static inline __attribute__((always_inline)) ptrdiff_t pl_fast_div(ptrdiff_t a, ptrdiff_t b) {
      return a < b ? 0 : b == 1 ? a : a / b;
    }
    """
    ptrdiff_t fast_div "pl_fast_div"(ptrdiff_t a, ptrdiff_t b) noexcept nogil

cdef extern from "threads/platform.h":
    void pl_give_back(const void *at, size_t size) nogil


cdef enum:
    PIECE = 1 << 20         # bytes of weights to pack at a time; pages of the file are then returned to the system
    MAX_MR = 16             # limits of pl_tile
    MAX_NR = 64
    PARALLEL_THRESHOLD = 1 << 17    # number of products; fewer finish before another thread starts


cdef inline ptrdiff_t padded(ptrdiff_t n, ptrdiff_t to) noexcept nogil:
    return (n + to - 1) // to * to


cdef inline pl_pool *parallel_pool(pl_pool *pool, ptrdiff_t products) noexcept nogil:
    """The pool, or NULL where so many products are below the parallel threshold."""
    return pool if products >= PARALLEL_THRESHOLD else NULL


cdef inline pl_pool *parallel_pool_q8(pl_pool *pool, const pl_slots *slots, ptrdiff_t products) noexcept nogil:
    """The same for products of bytes, of which vectors of 16 columns compute twice as many in that time."""
    return parallel_pool(pool, products * 4 // slots.q8.nv)


cdef struct Output:
    char *y                 # (n, od, oh, ow, columns), strided; strides in bytes
    ptrdiff_t sn, sd, sh, sw
    ptrdiff_t od, oh        # od: planes of a volume; an image has one
    ptrdiff_t span, lines   # runs of output pixels with equal steps, and their number


cdef inline void set_volumes(Output *o, char *y, ptrdiff_t n, ptrdiff_t od, ptrdiff_t oh, ptrdiff_t ow, ptrdiff_t sn,
                             ptrdiff_t sd, ptrdiff_t sh, ptrdiff_t sw):
    o.y, o.sn, o.sd, o.sh, o.sw, o.od, o.oh = y, sn, sd, sh, sw, od, oh
    o.span, o.lines = ow, n * od * oh
    if (sh == ow * sw or oh == 1) and (sd == oh * ow * sw or od == 1) and (sn == od * oh * ow * sw or n == 1):
        o.span, o.lines = n * od * oh * ow, 1


cdef inline void set_output(Output *o, char *y, ptrdiff_t n, ptrdiff_t oh, ptrdiff_t ow, ptrdiff_t sn, ptrdiff_t sh,
                            ptrdiff_t sw):
    set_volumes(o, y, n, 1, oh, ow, sn, 0, sh, sw)


# A task is an A panel times some of the panels of one group.
cdef struct Tasks:
    ptrdiff_t mr, a_panels  # rows of an A panel; A panels of a run of output pixels
    ptrdiff_t panels, nr    # of a group; columns of a panel
    ptrdiff_t splits, groups        # tasks of an A panel; groups


cdef struct Task:
    ptrdiff_t group, position       # of channels; the first row: an output pixel, or a row of the matrices of a batch
    ptrdiff_t matrix        # the number of the group, or of the matrix of a batch, whose panels it multiplies
    int rows
    ptrdiff_t begin, end    # columns of the group
    char *y                 # first pixel, first column of y


cdef inline ptrdiff_t plan_tasks(Tasks *t, const Output *o, const pl_tile *tile, ptrdiff_t columns, ptrdiff_t groups,
                                 pl_pool *pool) noexcept nogil:
    """Fill t; returns the number of tasks.

    A task has all panels unless there are too few A panels for the threads.  Then panels are divided among tasks, and
    where that does not suffice, A panels become smaller.
    """
    cdef ptrdiff_t wanted = 8 * pool_threads(pool) if pool_threads(pool) > 1 else 1
    t.mr, t.nr, t.groups = tile.mr, tile.nr, groups
    t.panels = 1 if columns <= t.nr else (columns + t.nr - 1) // t.nr
    cdef ptrdiff_t count = o.lines * groups, least = fast_div(wanted, 4 * max(count, <ptrdiff_t>1) * t.panels)
    if least > 1 and t.mr > MAX_MR:
        t.mr = min(t.mr, max(<ptrdiff_t>MAX_MR, padded((o.span + least - 1) // least, 4)))
    t.a_panels = 1 if o.span == 1 else (o.span + t.mr - 1) // t.mr
    count *= t.a_panels
    t.splits = 0 if count == 0 else min(t.panels, fast_div(wanted + count - 1, count))
    return count * t.splits


# The matrices that each product of a batch multiplies.  Each product is a line of the output.
cdef struct Pairs:
    const int64_t *x        # the number of each product's left operand,
    const int64_t *w        # of its right one,
    const int64_t *y        # and of its result
    ptrdiff_t first         # the first product of this run,
    ptrdiff_t base          # and the right operand that its panels begin with


cdef inline void get_task(const Tasks *t, const Output *o, const Pairs *pairs, ptrdiff_t columns, ptrdiff_t i,
                          Task *task) noexcept nogil:
    """Task number i; pairs: NULL unless the products are a batch; columns: of a group."""
    cdef ptrdiff_t a_panel = fast_div(i, t.splits)
    cdef ptrdiff_t split = i - a_panel * t.splits
    cdef ptrdiff_t line = fast_div(a_panel, t.a_panels), at = (a_panel - line * t.a_panels) * t.mr, plane, image
    task.group = fast_div(line, o.lines)
    line -= task.group * o.lines
    plane = fast_div(line, o.oh)
    image = fast_div(plane, o.od)
    task.position = line * o.span + at
    task.rows = <int>min(t.mr, o.span - at)
    task.begin = fast_div(split * t.panels, t.splits) * t.nr
    task.end = min(columns, fast_div((split + 1) * t.panels, t.splits) * t.nr)
    task.y = o.y + image * o.sn + (plane - image * o.od) * o.sd + (line - plane * o.oh) * o.sh + at * o.sw
    task.matrix = task.group
    if pairs != NULL:
        line += pairs.first
        task.position, task.matrix = pairs.x[line] * o.span + at, pairs.w[line] - pairs.base
        task.y = o.y + pairs.y[line] * o.sn + at * o.sw
