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


cdef inline int set_three(TfLiteIntArray **arrays, object first, object second, object third) except -1:
    """Fill `arrays` with copies of three sequences of int, which free_three() frees; with none of them on an error."""
    arrays[0] = arrays[1] = arrays[2] = NULL
    try:
        arrays[0] = int_array(first)
        arrays[1] = int_array(second)
        arrays[2] = int_array(third)
    except BaseException:
        free_three(arrays)
        raise
    return 0


cdef inline void free_three(TfLiteIntArray **arrays) noexcept:
    cdef int i
    for i in range(3):
        free(arrays[i])


cdef inline tuple int_tuple(const TfLiteIntArray *array):
    """The numbers of an array; () for NULL."""
    cdef int i
    return () if array == NULL else tuple([array.data[i] for i in range(array.size)])
