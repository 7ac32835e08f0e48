from pylite._core.graph.calls cimport Call, Scratch, ValueBase, View


cdef class Storage:
    cdef readonly dict arrays, offsets, scratch
    cdef readonly object arena
    cdef object typed(self, ValueBase value)
    cdef object create_array(self, ValueBase value)
    cdef object viewed(self, View view)
    cdef object temporary(self, Scratch scratch)
    cdef object operand(self, item, pack, others)
    cdef list operands(self, Call call, pack, others)
