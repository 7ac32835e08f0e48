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

cdef extern from "Python.h":
    int PyGC_Disable()
    int PyGC_Enable()

cdef enum:
    HUGE_BYTES = 2 << 20        # of a huge page where they are worth having
    LEAST = HUGE_BYTES // 8     # of a block, which costs nothing until it is used
    CACHE_LINE = 64
    FROZEN_BY_PYTHON = 1000     # more objects than Python 3.12 begins with, and fewer than there are to freeze

ALIGNMENT = CACHE_LINE
HUGE = HUGE_BYTES

_lock = allocate_lock()
_most = None
_growing = 0                # how many are inside Growing, and
_was_enabled = False        # did the collector run before the first of them?
_settlings = 3              # times that what was made is not looked through: by importing, reading, allocating


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


cdef class Room:
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


cdef Room _room = Room()        # where kept() is at


def keep_in(Room room not None):
    """What is kept from now on belongs to this Room."""
    global _room
    _room = room


def kept(Py_ssize_t nbytes):
    """A zeroed uint8 array on a cache line, from the Room of the model that is lowered."""
    with _lock:
        return _room.take(nbytes)


class Growing:
    """A context in which much is made and nothing thrown away: Python's collector would look through it in vain.

    It is switched off for all threads meanwhile, where it was on.  Importing and loading take a tenth less time by it.
    Afterwards it would begin with all that was made.  The first few times that joins the oldest generation instead,
    which is looked through when that has grown by a quarter; later it may be what replaces a model that is garbage.
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
                if _settlings:
                    _settle()
                PyGC_Enable()


def _settle():
    """Move all objects to the oldest generation, unless somebody has frozen theirs."""
    global _settlings
    _settlings -= 1
    import gc
    if gc.get_freeze_count() < FROZEN_BY_PYTHON:
        gc.freeze()
        gc.unfreeze()


def _after_fork():
    """The other threads are gone, and with them what they held."""
    global _lock, _growing
    _lock = allocate_lock()
    if _growing and _was_enabled:
        PyGC_Enable()
    _growing = 0


os.register_at_fork(after_in_child=_after_fork)
