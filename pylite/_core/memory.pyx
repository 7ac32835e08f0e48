"""Whole pages of memory: files, and zeroed memory for arenas and packed weights, on huge pages where it is large.

The kernel makes memory page by page, when it is first touched, and for a model that is run once this costs as much as
the first run; a huge page costs what a few small ones do.
"""
import os
from _thread import allocate_lock

from cpython.buffer cimport PyBuffer_FillInfo
from posix.mman cimport MAP_ANONYMOUS, MAP_FAILED, MAP_PRIVATE, PROT_READ, PROT_WRITE, mmap, munmap

import numpy as np

from pylite._core.simd cimport memory_of

cdef extern from *:
    """
    #include <sys/mman.h>
    #ifdef MADV_HUGEPAGE
    #define HUGE_PAGES(at, size) madvise(at, size, MADV_HUGEPAGE)   /* fails in kernels that have none */
    #else
    #define HUGE_PAGES(at, size) 0
    #endif
    """
    int HUGE_PAGES(void *at, size_t size)

cdef enum:
    HUGE_BYTES = 2 << 20        # of a huge page where they are worth having
    LEAST = HUGE_BYTES // 8     # of a block, which costs nothing until it is used
    CACHE_LINE = 64

ALIGNMENT = CACHE_LINE
HUGE = HUGE_BYTES

_lock = allocate_lock()
_limit = None


cdef class Pages:
    """`size` bytes of zeroed memory, or of the file `descriptor`, which cannot be written; freed with its last array.

    huge: how many huge pages the kernel is asked for, of which the first begins at `start`.
    Raises OSError where there is no such memory.
    """
    cdef char *at
    cdef Py_ssize_t size
    cdef readonly Py_ssize_t start
    cdef bint read_only

    def __cinit__(self, Py_ssize_t size, int descriptor=-1, Py_ssize_t huge=0):
        cdef int access = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS
        self.at, self.size, self.read_only = <char *>MAP_FAILED, size, descriptor >= 0
        if self.read_only:
            access, flags = PROT_READ, MAP_PRIVATE
        if size > 0:
            self.at = <char *>mmap(NULL, size, access, flags, descriptor, 0)
        if self.at == MAP_FAILED:
            raise OSError(f"there is no memory for {size} bytes")
        if huge:
            self.start = (HUGE_BYTES - <size_t>self.at % HUGE_BYTES) % HUGE_BYTES
            HUGE_PAGES(self.at + self.start, huge * HUGE_BYTES)

    def __dealloc__(self):
        if self.at != MAP_FAILED:
            munmap(self.at, self.size)

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.at, self.size, self.read_only, flags)


def memory_limit():
    """Bytes of memory that this machine has, or that this process may take."""
    global _limit
    if _limit is None:
        _limit = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        try:
            with open("/sys/fs/cgroup/memory.max", encoding="ascii") as file:
                _limit = min(_limit, int(file.read()))
        except (OSError, ValueError):       # ValueError: "max"
            pass
    return _limit


def aligned(Py_ssize_t nbytes, Py_ssize_t expected=-1):
    """A zeroed uint8 array of `nbytes` whose first byte lies on a cache line.

    expected: how many of them are likely to be used, if not all; they are made huge pages where they fill most of one.
    """
    cdef Py_ssize_t count = ((nbytes if expected < 0 else expected) + HUGE_BYTES // 2) // HUGE_BYTES
    if count:
        pages = Pages(HUGE_BYTES + max(nbytes, count * HUGE_BYTES), huge=count)
        return np.frombuffer(pages, np.uint8, nbytes, pages.start)
    larger = np.zeros(nbytes + CACHE_LINE, np.uint8)
    cdef Py_ssize_t over = <size_t>memory_of(larger, nbytes + CACHE_LINE) % CACHE_LINE
    cdef Py_ssize_t start = (CACHE_LINE - over) % CACHE_LINE
    return larger[start:start + nbytes]


cdef class MemoryPool:
    """Memory for what lives as long as its model, of which `expected` bytes are likely to be wanted.

    It comes from blocks, the first with as many huge pages as these bytes fill and small ones behind them.
    """
    cdef Py_ssize_t expected, nbytes, used
    cdef object block

    def __cinit__(self, Py_ssize_t expected=0):
        self.expected = expected

    cdef take(self, Py_ssize_t nbytes):
        cdef Py_ssize_t start
        if self.block is None or self.used + nbytes > self.nbytes:
            start = max(self.expected, nbytes)
            self.nbytes, self.used, self.expected = start + start // 4 + LEAST, 0, HUGE_BYTES
            self.block = aligned(self.nbytes, start)
        start = self.used
        self.used += (nbytes + CACHE_LINE - 1) // CACHE_LINE * CACHE_LINE
        return self.block[start:start + nbytes]


cdef MemoryPool _pool = MemoryPool()        # what pooled() takes from


def use_pool(MemoryPool pool not None):
    """What pooled() gives from now on comes from this MemoryPool."""
    global _pool
    _pool = pool


def pooled(Py_ssize_t nbytes):
    """A zeroed uint8 array on a cache line, from the pool of the model that is lowered."""
    with _lock:
        return _pool.take(nbytes)


def _after_fork():
    """The other threads are gone, and with them what they held."""
    global _lock
    _lock = allocate_lock()


os.register_at_fork(after_in_child=_after_fork)
