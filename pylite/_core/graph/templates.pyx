"""Templates: the calls of the first node of a kind, copied for later nodes of that kind.

Template.build_from() turns the first node's calls into Makers; repeats.pyx runs these for each later node.
"""
from pylite._core.graph.calls cimport MAX_TEMPORARIES, PLAIN, Call, Packed, Scratch, View
from pylite._core.graph.dimensions cimport Computed, Dim
from pylite._core.simd cimport memory_of

import numpy as np

cdef object array_type = np.ndarray, number_type = np.generic


class Unrepeatable(Exception):
    """The calls of this node depend on more than its kind."""


cdef class Maker:
    """Creates one object for a node, from the node's operands and the objects created before.

    role: a CALL joins the node's calls; a FINISHED object (Alias, Packed) is passed to finish(), see Repeats.lower();
    a PART is only an argument.
    """
    cdef object make(self, list objects, node):
        raise NotImplementedError


cdef class CallMaker(Maker):
    cdef Call prototype
    cdef list places
    cdef Py_ssize_t y, x        # of Call.inplace, or -1

    cdef object make(self, list objects, node):
        cdef Call prototype = self.prototype, call = Call.__new__(Call)
        call.kernel, call.note, call.strided, call.node = prototype.kernel, prototype.note, prototype.strided, node
        call.names, call.args = prototype.names, replaced(prototype.args, self.places, objects)
        if self.y >= 0:
            call.inplace = objects[self.y], objects[self.x]
        return call


cdef class AliasMaker(Maker):
    cdef object kind
    cdef Py_ssize_t y, x

    cdef object make(self, list objects, node):
        return self.kind(objects[self.y], objects[self.x])


cdef class ViewMaker(Maker):
    cdef View prototype
    cdef Py_ssize_t value

    cdef object make(self, list objects, node):
        cdef View prototype = self.prototype, view = View.__new__(View)
        view.value, view.shape, view.strides = objects[self.value], prototype.shape, prototype.strides
        view.offset, view.dtype = prototype.offset, prototype.dtype
        return view


cdef class ScratchMaker(Maker):
    cdef Scratch prototype

    cdef object make(self, list objects, node):
        cdef Scratch scratch = Scratch.__new__(Scratch)
        scratch.shape, scratch.dtype = self.prototype.shape, self.prototype.dtype
        return scratch


cdef class TemporaryMaker(Maker):
    cdef object prototype

    cdef object make(self, list objects, node):
        number = (-1 - self.prototype.index) % MAX_TEMPORARIES      # in its node, see ir/values.py
        return type(self.prototype)(node, self.prototype.shape, self.prototype.dtype, number)


cdef class ContentsMaker(Maker):
    """Creates an array that views the contents of a constant operand."""
    cdef Py_ssize_t value
    cdef tuple shape            # None: the operand's shape

    cdef object make(self, list objects, node):
        data = objects[self.value].data
        return data if self.shape is None else data.reshape(self.shape)


cdef class PackedMaker(Maker):
    cdef Packed prototype
    cdef Py_ssize_t value
    cdef list places

    cdef object make(self, list objects, node):
        cdef Packed packed = Packed.__new__(Packed)
        packed.function, packed.value = self.prototype.function, objects[self.value]
        packed.args = replaced(self.prototype.args, self.places, objects) if self.places else self.prototype.args
        return packed


cdef tuple replaced(tuple args, list places, list objects):
    """The args, with some replaced by objects; places: [position, number of the object, ...]."""
    cdef list result = list(args)
    cdef Py_ssize_t i, position, number
    for i in range(0, len(places), 2):
        position, number = places[i], places[i + 1]
        result[position] = objects[number]
    return tuple(result)


cdef class Template:
    """Creates the calls of all nodes of one kind by copying the calls of the first.

    Objects are numbered: the operands first, then the objects that the makers create, in order.
    """
    def __init__(self, classes):
        self.classes = classes
        self.makers, self.places, self.constants = [], {}, []

    cdef bint build_from(self, opaque_inputs, node, list emitted) except -1:
        """Build from the calls of a node; False if they cannot be copied.  opaque_inputs: positions of operands whose
        contents Repeats does not compare."""
        cdef list operands = node.inputs + node.outputs
        self.shapes = [None if value is None else value.shape for value in node.outputs]
        self.count = len(operands)
        for i, value in enumerate(operands):
            if value is not None:
                self.places.setdefault(id(value), i)
                if value.data is not None:
                    if isinstance(value.data, np.ndarray):     # not Deferred, whose contents no array views
                        self.constants.append((i, value.data))
                    self.opaque |= i in opaque_inputs
        try:
            for item in emitted:
                self.record(item)
        except Unrepeatable:
            return False
        self.places = self.constants = None
        return True

    cdef Py_ssize_t add_maker(self, thing, Maker maker, Role role) except -1:
        """Add `maker`, which creates copies of `thing`; returns the number of the object."""
        cdef Py_ssize_t number = self.count
        maker.role = role
        self.makers.append(maker)
        self.places[id(thing)] = number
        self.count += 1
        return number

    cdef Py_ssize_t record(self, item) except -1:
        """Record the makers of a Call or Alias and of the objects that it refers to; returns its number."""
        cdef AliasMaker alias
        cdef CallMaker maker
        if type(item) is self.classes.Alias:
            alias = AliasMaker()
            alias.kind, alias.y, alias.x = type(item), self.number_of_value(item.y), self.number_of_value(item.x)
            return self.add_maker(item, alias, FINISHED)
        if type(item) is not Call or self.classes.is_owned(item.kernel):
            raise Unrepeatable
        maker = CallMaker()
        maker.prototype = Call.__new__(Call)
        maker.prototype.kernel, maker.prototype.note, maker.prototype.strided = item.kernel, item.note, item.strided
        maker.prototype.names = item.names
        maker.prototype.args, maker.places = self.arguments(item.args)
        maker.y = maker.x = -1
        if item.inplace is not None:
            maker.y, maker.x = self.number_of_value(item.inplace[0]), self.number_of_value(item.inplace[1])
        return self.add_maker(item, maker, CALL)

    cdef tuple arguments(self, tuple args):
        """(the args that all nodes share, [position, number, ...] of the args that differ)"""
        cdef list shared = [], places = []
        cdef Py_ssize_t number
        for i, argument in enumerate(args):
            number = self.number_of(argument)
            if number >= 0:
                places += [i, number]
                argument = None
            shared.append(argument)
        return tuple(shared), places

    cdef Py_ssize_t number_of_value(self, value) except -1:
        """The number of a Value."""
        cdef Py_ssize_t number = self.number_of(value)
        if number < 0:
            raise Unrepeatable
        return number

    cdef Py_ssize_t number_of(self, thing) except -2:
        """The number of an object that differs between nodes; -1 for an object that all nodes share."""
        cdef Maker maker
        cdef Role role = PART
        kind = type(thing)
        if kind in PLAIN:
            return -1
        number = self.places.get(id(thing))
        if number is not None:
            return number
        if kind is array_type:
            maker = self.contents_maker(thing)
            if maker is None:
                return -1
        elif kind is View:
            maker = ViewMaker()
            (<ViewMaker>maker).value = self.number_of_value(thing.value)
            (<ViewMaker>maker).prototype = View(None, thing.shape, thing.strides, thing.offset, thing.dtype)
        elif kind is Packed:
            maker, role = PackedMaker(), FINISHED
            (<PackedMaker>maker).value = self.number_of_value(thing.value)
            args, (<PackedMaker>maker).places = self.arguments(thing.args)
            (<PackedMaker>maker).prototype = Packed(thing.function, None, *args)
        elif kind is Scratch:
            maker = ScratchMaker()
            (<ScratchMaker>maker).prototype = thing
        elif kind is self.classes.Temporary and thing.data is None:
            maker = TemporaryMaker()
            (<TemporaryMaker>maker).prototype = thing
        else:
            check_shared(thing)
            return -1
        return self.add_maker(thing, maker, role)

    cdef object contents_maker(self, array):
        """The maker of an array that views a constant operand; None for an array that all nodes share."""
        cdef ContentsMaker maker
        for number, data in self.constants:
            if array is data or (array.nbytes == data.nbytes > 0 and array.dtype == data.dtype
                                 and array.flags.c_contiguous and data.flags.c_contiguous
                                 and memory_of(array, array.nbytes) == memory_of(data, data.nbytes)):
                maker = ContentsMaker()
                maker.value, maker.shape = number, None if array is data else array.shape
                return maker
        if self.opaque:         # the array may depend on contents that Repeats did not compare
            raise Unrepeatable
        return None


cdef int check_shared(thing) except -1:
    """Raise Unrepeatable for an argument that may belong to a single node."""
    kind = type(thing)
    if kind in PLAIN or kind is Dim or isinstance(thing, number_type):
        return 0
    if kind is Computed:
        check_shared((<Computed>thing).args)
    elif isinstance(thing, (tuple, list)):
        for item in thing:
            check_shared(item)
    elif getattr(kind, "ONLY_SLOTS", False):     # a FilterLayout
        for name in kind.__slots__:
            check_shared(getattr(thing, name))
    else:
        raise Unrepeatable
    return 0
