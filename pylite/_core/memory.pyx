"""Pages of memory: files, and zeroed memory for arenas and packed weights, on huge pages where it is large.

The system maps a page when it is first touched.  For a model that runs once, this takes as long as the run; a huge page
takes the time of a few small ones.
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
    #define HUGE_PAGES(at, size) madvise(at, size, MADV_HUGEPAGE)   /* fails where the system has none */
    #else
    #define HUGE_PAGES(at, size) 0
    #endif
    """
    int HUGE_PAGES(void *at, size_t size)


cdef extern from "lost_pages.h":
    int pl_lost_pages
    int pl_watch(void *at, size_t size)
    void pl_unwatch(int file)
    int pl_lost_of(int file)


cdef enum:
    HUGE_BYTES = 2 << 20        # of a huge page
    LEAST = HUGE_BYTES // 8     # of a block of a pool, whose pages cost nothing until they are used
    CACHE_LINE = 64

ALIGNMENT = CACHE_LINE
HUGE = HUGE_BYTES

_lock = allocate_lock()
_limit = None


cdef class Pages:
    """`size` bytes of zeroed memory, or of the file `descriptor`, read-only; unmapped with its last array.

    huge: number of huge pages to ask for, of which the first begins at `start`.  Raises OSError where there is no
    memory.
    """
    cdef char *address
    cdef Py_ssize_t size
    cdef readonly Py_ssize_t start
    cdef bint read_only
    cdef int file

    def __cinit__(self, Py_ssize_t size, int descriptor=-1, Py_ssize_t huge=0):
        cdef int access = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS
        self.address, self.size, self.read_only = <char *>MAP_FAILED, size, descriptor >= 0
        if self.read_only:
            access, flags = PROT_READ, MAP_PRIVATE
        if size > 0:
            self.address = <char *>mmap(NULL, size, access, flags, descriptor, 0)
        if self.address == MAP_FAILED:
            raise OSError(f"there is no memory for {size} bytes")
        self.file = pl_watch(self.address, size) if self.read_only else -1
        if huge:
            self.start = (HUGE_BYTES - <size_t>self.address % HUGE_BYTES) % HUGE_BYTES
            HUGE_PAGES(self.address + self.start, huge * HUGE_BYTES)

    def __dealloc__(self):
        if self.address != MAP_FAILED:
            if self.file >= 0:
                pl_unwatch(self.file)
            munmap(self.address, self.size)

    @property
    def lost(self):
        """Number of pages that the file no longer had when they were read; they are zeros now."""
        return pl_lost_of(self.file) if self.file >= 0 else 0

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.address, self.size, self.read_only, flags)


def lost_pages():
    """The address of the number of pages that mapped files have lost, an int."""
    return <size_t>&pl_lost_pages


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
    """A zeroed uint8 array of `nbytes`, aligned to a cache line.

    expected: bytes of it that are likely to be used, if not all; they are on huge pages where they fill most of one.
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
    """Memory for packed weights, which live as long as their model; `expected` bytes are likely to be used.

    It consists of blocks, the first with as many huge pages as these bytes fill and small ones behind them.
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


cdef MemoryPool _pool = MemoryPool()        # the one that pooled() takes from


def use_pool(MemoryPool pool not None):
    """Let pooled() take from this MemoryPool."""
    global _pool
    _pool = pool


def pooled(Py_ssize_t nbytes):
    """A zeroed uint8 array, aligned to a cache line, from the pool of the model that is lowered."""
    with _lock:
        return _pool.take(nbytes)


def _after_fork():
    """The other threads are gone; one of them may have held the lock."""
    global _lock
    _lock = allocate_lock()


os.register_at_fork(after_in_child=_after_fork)
