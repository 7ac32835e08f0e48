# Reading indices of any width.
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t


cdef inline int64_t load_index(const uint8_t *p, Py_ssize_t width) noexcept nogil:
    if width == 4:
        return (<const int32_t *>p)[0]
    if width == 8:
        return (<const int64_t *>p)[0]
    return (<const int16_t *>p)[0]
