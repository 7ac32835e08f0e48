cdef enum Role:                 # of the object that a Maker creates
    PART, CALL, FINISHED


cdef class Maker:
    cdef Role role
    cdef object make(self, list objects, node)


cdef class Template:
    cdef list shapes, numbers   # of the outputs
    cdef list makers
    cdef object classes         # the module ir.values
    cdef dict places            # {id of an object of the first node: its number}
    cdef list constants         # (number, data) of the constant operands
    cdef bint opaque            # does it have constants whose contents are not compared?
    cdef Py_ssize_t count       # of the objects that have a number
    cdef bint build_from(self, opaque_inputs, node, list emitted) except -1
    cdef Py_ssize_t add_maker(self, thing, Maker maker, Role role) except -1
    cdef Py_ssize_t record(self, item) except -1
    cdef tuple arguments(self, tuple args)
    cdef Py_ssize_t number_of_value(self, value) except -1
    cdef Py_ssize_t number_of(self, thing) except -2
    cdef object contents_maker(self, array)
