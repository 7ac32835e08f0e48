"""Zeroed memory for arenas and packed weights: on huge pages where it is large.

The kernel makes memory page by page, when it is first touched, and for a model that is run once this costs as much as
the first run; a huge page costs what a few small ones do.
"""
import mmap
import os
from _thread import allocate_lock
from contextlib import suppress
from functools import cache

import numpy as np

ALIGNMENT = 64              # a cache line
HUGE = 2 << 20              # bytes of a huge page where they are worth having
_MODEST = HUGE // 8         # what models may take before they get whole huge pages

_lock = allocate_lock()
_block = np.empty(0, np.uint8)      # what kept() cuts from, and how much of it is used
_used = 0


@cache
def most():
    """Bytes of memory that this machine has, or this process may have at most."""
    found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, ValueError), open("/sys/fs/cgroup/memory.max", encoding="ascii") as file:
        found = min(found, int(file.read()))        # ValueError: "max"
    return found


def aligned(nbytes):
    """A zeroed uint8 array of `nbytes` whose first byte lies on a cache line."""
    count = (nbytes + HUGE // 2) // HUGE
    if count and hasattr(mmap, "MADV_HUGEPAGE"):
        pages = mmap.mmap(-1, HUGE + max(nbytes, count * HUGE), flags=mmap.MAP_PRIVATE)
        larger = np.frombuffer(pages, np.uint8)
        start = -larger.ctypes.data % HUGE
        with suppress(OSError):     # of kernels that have none
            pages.madvise(mmap.MADV_HUGEPAGE, start, count * HUGE)
    else:
        larger = np.zeros(nbytes + ALIGNMENT, np.uint8)
        start = -larger.ctypes.data % ALIGNMENT
    return larger[start:start + nbytes]


def kept(nbytes):
    """The same for what lives about as long as its model: many of them share a block."""
    global _block, _used
    if nbytes > HUGE // 2:
        return aligned(nbytes)
    with _lock:
        if _used + nbytes > _block.size:
            _block, _used = aligned(HUGE if _block.size or nbytes > _MODEST else _MODEST), 0
        start = _used
        _used += -(-nbytes // ALIGNMENT) * ALIGNMENT
        return _block[start:start + nbytes]
