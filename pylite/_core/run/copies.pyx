"""Copies of recorded calls and their arguments, with numbers in place of Dims."""
from pylite._core.graph.calls cimport Call, Packed, Scratch, ValueBase, View
from pylite._core.graph.tapes cimport Numbers, filled

from pylite._core.run.parts import contents


cdef class Copies:
    """The base of recorded.Instance.  Each copy is created on first use.

    numbers: of one set of shapes.
    """
    cdef readonly Numbers numbers
    cdef dict known             # {id of a thing: its copy}

    def __init__(self, Numbers numbers not None):
        self.numbers, self.known = numbers, {}

    def copy(self, thing):
        """The copy of a Value, View, Scratch, or anything else with Dims; the thing itself if it has no Dims."""
        return self.copy_of(thing)

    def call(self, Call call not None):
        """The copy of a Call; its node stays."""
        cdef Call copy = Call.__new__(Call)
        copy.kernel, copy.note, copy.strided = call.kernel, call.note, call.strided
        copy.names, copy.node = call.names, call.node
        copy.args = tuple([self.copy_of(argument) for argument in call.args])
        if call.inplace is not None:
            copy.inplace = tuple([self.copy_of(value) for value in call.inplace])
        return copy

    cdef object copy_of(self, thing):
        copy = self.known.get(id(thing))
        if copy is None:
            kind = type(thing)
            if kind is View:
                copy = self.view(thing)
            elif isinstance(thing, ValueBase):
                return self.value(thing)
            elif kind is Scratch:
                copy = Scratch(filled(self.numbers.numbers, (<Scratch>thing).shape), (<Scratch>thing).dtype)
            elif kind is Packed:
                copy = self.packed(thing)
            else:
                return filled(self.numbers.numbers, thing)
            self.known[id(thing)] = copy
        return copy

    cdef View view(self, View view):
        cdef View copy = View.__new__(View)
        copy.value, copy.shape = self.copy_of(view.value), filled(self.numbers.numbers, view.shape)
        copy.strides, copy.offset = (filled(self.numbers.numbers, view.strides),
                                     filled(self.numbers.numbers, view.offset))
        copy.dtype = view.dtype
        return copy

    cdef ValueBase value(self, ValueBase value):
        cdef ValueBase copy = value.copied()
        copy.shape = filled(self.numbers.numbers, value.shape)
        copy.byte_offset = filled(self.numbers.numbers, value.byte_offset)
        if value.data is not None:
            copy.data = contents(self.numbers, value.data, value.dtype, copy.shape)    # may raise an OpError
        self.known[id(value)] = copy
        copy.pad, copy.root = None, copy if value.root is value else self.copy_of(value.root)
        return copy

    cdef Packed packed(self, Packed packed):
        cdef Packed copy = Packed.__new__(Packed)
        copy.function, copy.value, copy.args = packed.function, self.copy_of(packed.value), packed.args
        copy.result = packed.result
        return copy
