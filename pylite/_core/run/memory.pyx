"""Pages of memory: mapped files, and zeroed memory for arenas and packed weights, on huge pages if it is large.

The system maps a page at its first access.  For a model that runs once, mapping takes as long as the run; a huge page
takes only as long as a few small ones.
"""
from _thread import _local

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint8_t, uint64_t

import numpy as np

from pylite._core.run.kernel cimport CACHE_LINE, LARGE_ARENA_BYTES
from pylite._core.simd cimport memory_of

cdef extern from "threads/platform.h":
    long long pl_physical_memory()
    void *pl_pages_map(size_t size, int descriptor)
    int pl_pages_protect(void *address, size_t size)
    void pl_pages_unmap(void *address, size_t size, int is_file)
    void pl_pages_make_huge(void *address, size_t size)
    int pl_lost_pages
    int pl_watch(void *address, size_t size)
    void pl_unwatch(int file)
    int pl_lost_of(int file)
    void pl_give_back(const void *address, size_t size)


cdef extern from *:
    """
    /* Eight independent sums, because a single chain would wait for each product. */
    static uint64_t pl_checksum(const uint8_t *data, size_t size) {
      const uint64_t factor = 0x9E3779B97F4A7C15;
      uint64_t sums[8], word, all = size;
      for (int i = 0; i < 8; i++) sums[i] = i;
      for (size_t done = 0; done < size; done += 64)
        for (int i = 0; i < 8; i++) {
          size_t from = done + 8 * i;
          word = 0;
          if (from + 8 <= size) memcpy(&word, data + from, 8);
          else if (from < size) memcpy(&word, data + from, size - from);
          sums[i] = ((sums[i] ^ word) << 29 | (sums[i] ^ word) >> 35) * factor;
        }
      for (int i = 0; i < 8; i++) all = ((all ^ sums[i]) << 29 | (all ^ sums[i]) >> 35) * factor;
      return all;
    }
    """
    uint64_t pl_checksum(const uint8_t *data, size_t size) nogil


cdef enum:
    HUGE_BYTES = 2 << 20        # of a huge page
    SPARE = HUGE_BYTES // 8     # extra bytes of a pool's block; unused pages cost nothing

ALIGNMENT = CACHE_LINE
HUGE = HUGE_BYTES
LARGE_ARENA = LARGE_ARENA_BYTES

_limit = None


cdef class Pages:
    """`size` bytes of zeroed memory, or the read-only contents of the file `descriptor`; unmapped with the last array.

    huge: number of huge pages to request; the first begins at offset `start`.  Without memory it raises
    MemoryError, and OSError for a file, which others can then read instead.
    """
    cdef char *address
    cdef Py_ssize_t size
    cdef readonly Py_ssize_t start
    cdef bint read_only, sealed
    cdef int file

    def __cinit__(self, Py_ssize_t size, int descriptor=-1, Py_ssize_t huge=0):
        self.address, self.size, self.read_only = NULL, size, descriptor >= 0
        if size > 0:
            self.address = <char *>pl_pages_map(size, descriptor)
        if not self.address:
            raise (OSError if self.read_only else MemoryError)(f"there is no memory for {size} bytes")
        self.file = pl_watch(self.address, size) if self.read_only else -1
        if huge:
            self.start = (HUGE_BYTES - <size_t>self.address % HUGE_BYTES) % HUGE_BYTES
            pl_pages_make_huge(self.address + self.start, huge * HUGE_BYTES)

    def __dealloc__(self):
        if self.address:
            if self.file >= 0:
                pl_unwatch(self.file)
            pl_pages_unmap(self.address, self.size, self.read_only)

    def protect(self):
        """Make the memory read-only: a write ends the process, or is reported as a plug-in's fault."""
        self.sealed = pl_pages_protect(self.address, self.size) == 0

    @property
    def is_protected(self):
        """Does a write to this memory trap?"""
        return self.read_only or self.sealed

    @property
    def lost(self):
        """Number of pages that were read after the file had lost them; they contain zeros now."""
        return pl_lost_of(self.file) if self.file >= 0 else 0

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.address, self.size, self.read_only or self.sealed, flags)


def lost_pages():
    """The address of a C int: the number of pages that mapped files have lost."""
    return <size_t>&pl_lost_pages


def checksum(buffer):
    """A 64-bit checksum of the bytes of `buffer`.  It detects every change within a single word of eight bytes."""
    cdef Py_buffer view
    cdef uint64_t result
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    with nogil:
        result = pl_checksum(<const uint8_t *>view.buf, view.len)
    PyBuffer_Release(&view)
    return result


def give_back(array):
    """Return the memory of an array to the system if it belongs to a mapped file.

    The next access reads the file again.  Called for packed weights, so that a model does not hold them twice.
    """
    if array.flags.c_contiguous and not array.dtype.hasobject:
        pl_give_back(memory_of(array, array.nbytes), array.nbytes)


def memory_limit():
    """Bytes of memory that this process may use: the machine's, or its control group's limit."""
    global _limit
    if _limit is None:
        _limit = pl_physical_memory()
        try:
            with open("/sys/fs/cgroup/memory.max", encoding="ascii") as file:
                _limit = min(_limit, int(file.read()))
        except (OSError, ValueError):       # ValueError: "max"
            pass
    return _limit


def aligned(Py_ssize_t nbytes, Py_ssize_t expected=-1):
    """A zeroed uint8 array of `nbytes`, aligned to a cache line.

    expected: bytes that are likely to be used, if not all; they are on huge pages if they fill most of one.
    """
    cdef Py_ssize_t count = ((nbytes if expected < 0 else expected) + HUGE_BYTES // 2) // HUGE_BYTES
    if count:
        pages = Pages(HUGE_BYTES + max(nbytes, count * HUGE_BYTES), huge=count)
        return np.frombuffer(pages, np.uint8, nbytes, pages.start)
    larger = np.zeros(nbytes + CACHE_LINE, np.uint8)
    cdef Py_ssize_t over = <size_t>memory_of(larger, nbytes + CACHE_LINE) % CACHE_LINE
    cdef Py_ssize_t start = (CACHE_LINE - over) % CACHE_LINE
    return larger[start:start + nbytes]


def private(array):
    """`array`, or a copy if another object owns its memory.

    For numbers that kernels use as positions: an array may lie in the file of a plan, to which its owner can write
    while it is mapped.
    """
    return array if array.base is None else array.copy()


cdef class MemoryPool:
    """Memory for packed weights, which live as long as their model.

    expected: bytes that are likely to be used.  The first block has as many huge pages as these fill, and small pages
    after them.  limit: bytes that the pool may hand out, or -1; taken: bytes handed out so far.  Callers that share a
    pool between threads serialize their calls.
    """
    cdef Py_ssize_t expected, nbytes, used, limit
    cdef readonly Py_ssize_t taken
    cdef object block

    def __cinit__(self, Py_ssize_t expected=0, Py_ssize_t limit=-1):
        self.expected, self.limit = expected, limit

    cdef take(self, Py_ssize_t nbytes):
        cdef Py_ssize_t wanted, start
        if 0 <= self.limit < self.taken + nbytes:
            raise MemoryError(f"packing takes {self.taken + nbytes} bytes, where max_memory leaves {self.limit}")
        self.taken += nbytes
        if self.block is None or self.used + nbytes > self.nbytes:
            wanted = max(self.expected, nbytes)
            self.nbytes, self.used, self.expected = wanted + wanted // 4 + SPARE, 0, HUGE_BYTES
            self.block = aligned(self.nbytes, wanted)
        start = self.used
        self.used += (nbytes + CACHE_LINE - 1) // CACHE_LINE * CACHE_LINE
        return self.block[start:start + nbytes]


_of_thread = _local()


def use_pool(MemoryPool pool not None):
    """Make pooled() take from this MemoryPool on the calling thread."""
    _of_thread.pool = pool


def pooled(Py_ssize_t nbytes):
    """A zeroed uint8 array, aligned to a cache line, from the pool that the calling thread uses."""
    cdef MemoryPool pool = getattr(_of_thread, "pool", None)
    if pool is None:
        _of_thread.pool = pool = MemoryPool()
    return pool.take(nbytes)
