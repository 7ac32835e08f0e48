cdef enum Role:                 # of the object that a Maker creates
    PART, CALL, OTHER


cdef class Maker:
    cdef Role role
    cdef object make(self, list objects, node)


cdef class Template:
    cdef list shapes, numbers   # of the outputs
    cdef list makers
    cdef object classes
    cdef dict places            # {id of an object of the first node: its number}
    cdef list constants         # (number, data) of the constant operands
    cdef bint opaque            # does it have constants whose contents are not compared?
    cdef Py_ssize_t count
    cdef bint take(self, opaque, node, list emitted) except -1
    cdef Py_ssize_t enter(self, thing, Maker maker) except -1
    cdef Py_ssize_t emit(self, item) except -1
    cdef tuple arguments(self, tuple args)
    cdef Py_ssize_t operand(self, value) except -1
    cdef Py_ssize_t number(self, thing) except -2
    cdef object contents_maker(self, array)
