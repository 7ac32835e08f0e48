"""Static memory planning: sizes and lifetimes in, offsets and a total out.  It knows nothing of tensors."""
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc

import numpy as np

ALIGNMENT = 64


def plan(const int64_t[::1] size, const int64_t[::1] first, const int64_t[::1] last):
    """Place n blocks so that no two that live at the same step overlap.

    size: bytes, int64 (n,); first, last: the steps (inclusive) between which block i must keep its contents.
    Returns (offset: int64 array (n,), every one a multiple of ALIGNMENT, total bytes, lower bound in bytes).
    Several deterministic orders are tried and the smallest result kept.  The total ends with the last block's last
    byte; the lower bound is the largest sum of sizes that live at one step.
    """
    cdef Py_ssize_t n = size.shape[0]
    if first.shape[0] != n or last.shape[0] != n:
        raise ValueError(f"{n} sizes, {first.shape[0]} first uses, {last.shape[0]} last uses")
    best = np.zeros(n, np.int64)
    if n == 0:
        return best, 0, 0
    sizes, firsts, lasts = np.asarray(size), np.asarray(first), np.asarray(last)
    if (sizes < 0).any() or (lasts < firsts).any() or (firsts < 0).any():
        raise ValueError("a block has a negative size or ends before it begins")
    rounded = (sizes + (ALIGNMENT - 1)) // ALIGNMENT * ALIGNMENT
    bound, _ = _live(sizes, firsts, lasts)
    tight, breadth = _live(rounded, firsts, lasts)
    index = np.arange(n)
    whole = (firsts == firsts.min()) & (lasts == lasts.max())
    span = lasts - firsts
    orders = (
        # blocks that live throughout first, then by size: the order of TensorFlow Lite's own planner
        lambda: np.lexsort((index, np.where(whole, 0, firsts), np.where(whole, 0, -sizes), ~whole)),
        lambda: np.lexsort((index, firsts, -rounded)),
        lambda: np.lexsort((index, -rounded, -breadth)),
        lambda: np.lexsort((index, firsts, -rounded * (span + 1))),
        lambda: np.lexsort((index, -rounded, -span)),
        lambda: np.lexsort((index, -rounded, firsts)),
        lambda: np.lexsort((index, -rounded, -lasts)),
    )
    best_total = None
    offsets = np.empty(n, np.int64)
    for order in orders:
        total = _place(sizes, rounded, firsts, lasts, order().astype(np.int64, copy=False), offsets)
        if total < 0:
            raise MemoryError(f"no memory to plan {n} blocks")
        if best_total is None or total < best_total:
            best_total = total
            best[:] = offsets
        if best_total <= tight:
            break
    return best, best_total, bound


def _live(rounded, firsts, lasts):
    """(largest sum of sizes alive at one step, for each block the largest such sum while it lives)"""
    alive = np.zeros(int(lasts.max()) + 2, np.int64)
    breadth = np.empty(len(rounded), np.int64)
    cdef int64_t[::1] level = alive
    cdef const int64_t[::1] size = rounded
    cdef const int64_t[::1] a = firsts
    cdef const int64_t[::1] b = lasts
    cdef int64_t[::1] out = breadth
    cdef Py_ssize_t i, t
    cdef int64_t top
    with nogil:
        for i in range(out.shape[0]):
            level[a[i]] += size[i]
            level[b[i] + 1] -= size[i]
        for t in range(1, level.shape[0]):
            level[t] += level[t - 1]
        for i in range(out.shape[0]):
            top = 0
            for t in range(a[i], b[i] + 1):
                if level[t] > top:
                    top = level[t]
            out[i] = top
    return int(alive.max()), breadth


cdef int64_t _place(const int64_t[::1] exact, const int64_t[::1] size, const int64_t[::1] first,
                    const int64_t[::1] last, const int64_t[::1] order, int64_t[::1] offset) noexcept:
    """Put the blocks down in `order`, each into the smallest gap that fits its rounded `size`.

    Returns the end of the last block by its `exact` size, or -1 without memory.
    """
    cdef Py_ssize_t n = order.shape[0], placed = 0, i, j, k
    cdef int64_t end, best, best_gap, gap, total = 0
    cdef Py_ssize_t *by_offset = <Py_ssize_t *>malloc(n * sizeof(Py_ssize_t))
    if by_offset == NULL:
        return -1
    with nogil:
        for k in range(n):
            i = order[k]
            if size[i] == 0:
                offset[i] = 0
                continue
            end = 0             # end of the blocks passed so far that live together with i
            best = -1
            best_gap = 0
            for j in range(placed):
                if last[by_offset[j]] < first[i] or last[i] < first[by_offset[j]]:
                    continue
                gap = offset[by_offset[j]] - end
                if gap >= size[i] and (best < 0 or gap < best_gap):
                    best = end
                    best_gap = gap
                if offset[by_offset[j]] + size[by_offset[j]] > end:
                    end = offset[by_offset[j]] + size[by_offset[j]]
            if best < 0:
                best = end
            offset[i] = best
            if best + exact[i] > total:
                total = best + exact[i]
            j = placed
            while j > 0 and offset[by_offset[j - 1]] > best:
                by_offset[j] = by_offset[j - 1]
                j -= 1
            by_offset[j] = i
            placed += 1
    free(by_offset)
    return total
