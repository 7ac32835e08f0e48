"""Static memory planning: computes offsets in the arena from sizes and live ranges; it knows no tensors."""
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, qsort

from pylite._core.run.kernel cimport CACHE_LINE

ALIGNMENT = CACHE_LINE


cdef struct Block:
    int64_t size, rounded       # bytes, and up to the next multiple of ALIGNMENT
    int64_t first, last         # its live range, inclusive
    int64_t breadth             # the largest sum of rounded sizes alive at one step of its live range
    int64_t offset


cdef struct Key:                # blocks are sorted by a, b, c, and then by their number
    int64_t a, b, c
    Py_ssize_t block


cdef enum Order:    # the key by which blocks are sorted before they are placed:
    THROUGHOUT      # blocks that live throughout come first, ordered by padding; the others follow by size
    SIZE
    BREADTH
    SPACE_TIME      # size times length of the live range
    SPAN            # length of the live range
    FIRST
    LAST
    ORDERS          # the number of orders


def plan(sizes, firsts, lasts):
    """Place n blocks so that blocks alive at the same step never overlap.

    sizes: bytes; firsts, lasts: the live ranges in steps, inclusive.
    Returns (list of offsets, each a multiple of ALIGNMENT; total bytes; lower bound in bytes).  The total is the
    high-water mark, the end of the last block; the lower bound is the largest sum of sizes alive at one step.  plan()
    places the blocks in several fixed orders and keeps the smallest result.
    """
    cdef Py_ssize_t n = len(sizes), i, steps
    cdef int64_t total, tight, bound
    cdef Block *blocks
    cdef int64_t *chosen
    if len(firsts) != n or len(lasts) != n:
        raise ValueError(f"{n} sizes, {len(firsts)} first uses, {len(lasts)} last uses")
    if n == 0:
        return [], 0, 0
    blocks = <Block *>malloc(n * (sizeof(Block) + sizeof(Key) + sizeof(int64_t) + sizeof(Py_ssize_t)))
    if blocks == NULL:
        raise MemoryError(f"no memory to plan {n} blocks")
    chosen = <int64_t *>(blocks + n)
    try:
        steps = _read(blocks, n, sizes, firsts, lasts)
        bound = _live(blocks, n, steps)         # of unrounded sizes
        for i in range(n):
            blocks[i].rounded = (blocks[i].size + (CACHE_LINE - 1)) // CACHE_LINE * CACHE_LINE
        tight = _live(blocks, n, steps)
        if bound < 0 or tight < 0:
            raise MemoryError(f"no memory to plan {n} blocks")
        total = _best(blocks, n, tight, chosen)
        return [chosen[i] for i in range(n)], total, bound
    finally:
        free(blocks)


cdef Py_ssize_t _read(Block *blocks, Py_ssize_t n, sizes, firsts, lasts) except -1:
    """Set the sizes, not rounded yet, and live ranges of the blocks; returns the number of steps."""
    cdef Py_ssize_t i, steps = 0
    for i in range(n):
        blocks[i].size, blocks[i].first, blocks[i].last = sizes[i], firsts[i], lasts[i]
        if blocks[i].size < 0 or blocks[i].last < blocks[i].first or blocks[i].first < 0:
            raise ValueError("a block has a negative size or ends before it begins")
        blocks[i].rounded = blocks[i].size
        steps = max(steps, blocks[i].last + 1)
    return steps


cdef int64_t _best(Block *blocks, Py_ssize_t n, int64_t tight, int64_t *chosen) noexcept nogil:
    """Set `chosen` to the offsets of the best order, and return their total; an order that reaches `tight` ends it.

    chosen: the start of the memory for the offsets, a Key and a number of each block.
    """
    cdef Key *keys = <Key *>(chosen + n)
    cdef Py_ssize_t *by_offset = <Py_ssize_t *>(keys + n)
    cdef int64_t total, best = -1
    cdef Py_ssize_t i
    cdef int order
    for order in range(<int>ORDERS):
        _sort(blocks, n, order, keys)
        total = _place(blocks, n, keys, by_offset)
        if best < 0 or total < best:
            best = total
            for i in range(n):
                chosen[i] = blocks[i].offset
        if best <= tight:
            break
    return best


cdef int64_t _live(Block *blocks, Py_ssize_t n, Py_ssize_t steps) noexcept nogil:
    """Set each block's breadth; returns the largest sum of rounded sizes alive at one step, -1 without memory."""
    cdef int64_t *level = <int64_t *>calloc(steps + 1, sizeof(int64_t))
    cdef int64_t top, most = 0
    cdef Py_ssize_t i, t
    if level == NULL:
        return -1
    for i in range(n):
        level[blocks[i].first] += blocks[i].rounded
        level[blocks[i].last + 1] -= blocks[i].rounded
    for t in range(1, steps):
        level[t] += level[t - 1]
    for i in range(n):
        top = 0
        for t in range(blocks[i].first, blocks[i].last + 1):
            top = max(top, level[t])
        blocks[i].breadth = top
        most = max(most, top)
    free(level)
    return most


cdef int _compare(const void *x, const void *y) noexcept nogil:
    cdef const Key *p = <const Key *>x
    cdef const Key *q = <const Key *>y
    if p.a != q.a:
        return 1 if p.a > q.a else -1
    if p.b != q.b:
        return 1 if p.b > q.b else -1
    if p.c != q.c:
        return 1 if p.c > q.c else -1
    return 1 if p.block > q.block else -1


cdef void _sort(const Block *blocks, Py_ssize_t n, int order, Key *keys) noexcept nogil:
    """Fill `keys` with the blocks in `order`."""
    cdef int64_t start = blocks[0].first, end = 0, span
    cdef Py_ssize_t i
    cdef const Block *block
    for i in range(n):
        start, end = min(start, blocks[i].first), max(end, blocks[i].last)
    for i in range(n):
        block = &blocks[i]
        span = block.last - block.first
        keys[i] = Key(-block.rounded, block.first, 0, i)
        if order == THROUGHOUT:
            keys[i].a, keys[i].b, keys[i].c = True, -block.size, block.first
            if block.first == start and block.last == end:
                keys[i].a, keys[i].b, keys[i].c = 0, block.rounded - block.size, 0
        elif order == BREADTH:
            keys[i].a, keys[i].b = -block.breadth, -block.rounded
        elif order == SPACE_TIME:
            keys[i].a = -<int64_t>(<uint64_t>block.rounded * <uint64_t>(span + 1))
        elif order == SPAN:
            keys[i].a, keys[i].b = -span, -block.rounded
        elif order == FIRST:
            keys[i].a, keys[i].b = block.first, -block.rounded
        elif order == LAST:
            keys[i].a, keys[i].b = -block.last, -block.rounded
    qsort(keys, n, sizeof(Key), _compare)


cdef int64_t _place(Block *blocks, Py_ssize_t n, const Key *order, Py_ssize_t *by_offset) noexcept nogil:
    """Place the blocks in `order`, each in the smallest gap that fits; returns the end of the last block."""
    cdef Py_ssize_t placed = 0, j, k
    cdef int64_t end, best, best_gap, gap, total = 0
    cdef Block *block
    cdef Block *other
    for k in range(n):
        block = &blocks[order[k].block]
        if block.rounded == 0:
            block.offset = 0
            continue
        end = 0             # end of the blocks passed so far whose live ranges overlap this one's
        best = -1
        best_gap = 0
        for j in range(placed):
            other = &blocks[by_offset[j]]
            if other.last < block.first or block.last < other.first:
                continue
            gap = other.offset - end
            if gap >= block.rounded and (best < 0 or gap < best_gap):
                best = end
                best_gap = gap
            end = max(end, other.offset + other.rounded)
        if best < 0:
            best = end
        block.offset = best
        total = max(total, best + block.size)
        j = placed
        while j > 0 and blocks[by_offset[j - 1]].offset > best:
            by_offset[j] = by_offset[j - 1]
            j -= 1
        by_offset[j] = order[k].block
        placed += 1
    return total
