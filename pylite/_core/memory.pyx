"""Whole pages of memory: files, and zeroed memory for arenas and packed weights, on huge pages where it is large.

The kernel makes memory page by page, when it is first touched, and for a model that is run once this costs as much as
the first run; a huge page costs what a few small ones do.
"""
import os
from _thread import allocate_lock

from cpython.buffer cimport PyBuffer_FillInfo
from posix.mman cimport MAP_ANONYMOUS, MAP_FAILED, MAP_PRIVATE, PROT_READ, PROT_WRITE, mmap, munmap

import numpy as np

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

cdef extern from "Python.h":
    int PyGC_Disable()
    int PyGC_Enable()

cdef enum:
    HUGE_BYTES = 2 << 20        # of a huge page where they are worth having
    MODEST = HUGE_BYTES // 8    # what models may take before they get whole huge pages
    CACHE_LINE = 64

ALIGNMENT = CACHE_LINE
HUGE = HUGE_BYTES

_lock = allocate_lock()
cdef object _block = np.empty(0, np.uint8)      # what kept() cuts from: so many bytes, of which so many are used
cdef Py_ssize_t _bytes = 0, _used = 0
_most = None
_growing = 0                # how many are inside Growing, and
_was_enabled = False        # did the collector run before the first of them?


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
        self.at, self.size, self.read_only = <char *>MAP_FAILED, size, descriptor >= 0
        if size > 0:
            self.at = <char *>mmap(NULL, size, PROT_READ if self.read_only else PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE if self.read_only else MAP_PRIVATE | MAP_ANONYMOUS, descriptor, 0)
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


def most():
    """Bytes of memory that this machine has, or this process may have at most."""
    global _most
    if _most is None:
        _most = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        try:
            with open("/sys/fs/cgroup/memory.max", encoding="ascii") as file:
                _most = min(_most, int(file.read()))
        except (OSError, ValueError):       # ValueError: "max"
            pass
    return _most


def aligned(nbytes):
    """A zeroed uint8 array of `nbytes` whose first byte lies on a cache line."""
    count = (nbytes + HUGE // 2) // HUGE
    if count:
        pages = Pages(HUGE + max(nbytes, count * HUGE), huge=count)
        return np.frombuffer(pages, np.uint8, nbytes, pages.start)
    larger = np.zeros(nbytes + ALIGNMENT, np.uint8)
    start = -larger.ctypes.data % ALIGNMENT
    return larger[start:start + nbytes]


def kept(Py_ssize_t nbytes):
    """The same for what lives about as long as its model: many of them share a block."""
    global _block, _bytes, _used
    cdef Py_ssize_t start
    if nbytes > HUGE_BYTES // 2:
        return aligned(nbytes)
    with _lock:
        if _used + nbytes > _bytes:
            start = HUGE_BYTES if _bytes or nbytes > MODEST else MODEST
            _block, _bytes, _used = aligned(start), start, 0
        start = _used
        _used += (nbytes + CACHE_LINE - 1) // CACHE_LINE * CACHE_LINE
        return _block[start:start + nbytes]


class Growing:
    """A context in which much is made and nothing thrown away: Python's collector would look through it in vain.

    It is switched off for all threads meanwhile, where it was on.  Importing and loading take a tenth less time by it.
    """
    __slots__ = ()

    def __enter__(self):
        global _growing, _was_enabled
        with _lock:
            if not _growing:
                _was_enabled = PyGC_Disable()
            _growing += 1

    def __exit__(self, *_):
        global _growing
        with _lock:
            _growing = max(_growing - 1, 0)
            if not _growing and _was_enabled:
                PyGC_Enable()


def _after_fork():
    """The other threads are gone, and with them what they held."""
    global _lock, _growing
    _lock = allocate_lock()
    if _growing and _was_enabled:
        PyGC_Enable()
    _growing = 0


os.register_at_fork(after_in_child=_after_fork)
