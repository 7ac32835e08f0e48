# Conversion of TfLiteIntArray from and to sequences of int.
from libc.stdlib cimport free

from pylite._core.capi.host cimport TfLiteIntArray, TfLiteIntArrayCreate


cdef inline TfLiteIntArray *int_array(object values) except NULL:
    """A copy of a sequence of int, which the caller frees."""
    cdef TfLiteIntArray *array = TfLiteIntArrayCreate(<int>len(values))
    cdef int i
    if array == NULL:
        raise MemoryError(f"no memory for {len(values)} numbers")
    for i in range(array.size):
        array.data[i] = values[i]
    return array


cdef inline void free_three(TfLiteIntArray **arrays) noexcept:
    cdef int i
    for i in range(3):
        free(arrays[i])


cdef inline tuple int_tuple(const TfLiteIntArray *array):
    """The numbers of an array; () for NULL."""
    cdef int i
    return () if array == NULL else tuple([array.data[i] for i in range(array.size)])
