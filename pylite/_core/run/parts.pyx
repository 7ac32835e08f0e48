"""Parts of the operands of recorded calls: sizes and arrays for the shapes at hand.

A Part is made again only if its dimensions, its place in the arena, or the arena change.
"""
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free

from pylite._core.graph.calls cimport Scratch, ValueBase, View, product
from pylite._core.graph.dimensions cimport Computed
from pylite._core.graph.tapes cimport filled

from numpy import array, empty, ndarray

from pylite._core.graph.dimensions import slots_in

cdef dict no_others = {}


cdef class Site:
    """What Parts are made from.  A Rebinder is one."""


cdef class Slots:
    """Slots of the tape."""
    def __cinit__(self, found):
        self.slots = <Py_ssize_t *>calloc(len(found) + 1, sizeof(Py_ssize_t))
        if self.slots == NULL:
            raise MemoryError(f"no memory for {len(found)} slots")
        for slot in found:
            self.slots[self.count] = slot
            self.count += 1

    def __dealloc__(self):
        free(self.slots)

    cdef bint differ(self, Site site) noexcept:
        """Has a number changed since the last bind()?"""
        cdef Py_ssize_t i
        for i in range(self.count):
            if site.tape.numbers[self.slots[i]] != site.before[self.slots[i]]:
                return True
        return False


cdef class Part:
    """An operand, or a size that one depends on.  made: the present one; changed: did the last bind() change it?"""
    cdef int renew(self, Site site) except -1:
        return 0


cdef class Sizes(Part):
    """Numbers, or nested tuples of numbers, which may have Dims."""
    cdef int renew(self, Site site) except -1:
        self.changed = self.made is None or self.slots.differ(site)
        if self.changed:
            self.made = filled(site.tape.numbers, self.source)
        return 0


cdef class Window(Part):
    """The array of a Value, View or Scratch in the arena.

    block: number of its block; begin, offset: where it begins there, in bytes and in elements; sizes: of the
    Value; shape, strides: of the array, in elements, or no strides.
    """
    cdef int renew(self, Site site) except -1:
        cdef int64_t begin = self.begin.made, offset = self.offset.made
        cdef int64_t address = site.starts[self.block] + begin + offset * self.itemsize
        self.changed = (site.elsewhere or self.shape.changed or self.sizes.changed or address != self.address
                        or self.made is None or (self.strides is not None and self.strides.changed))
        if not self.changed:
            return 0
        self.address = address
        shape = self.shape.made
        if product(shape) == 0 or product(self.sizes.made) == 0:
            self.made = empty(shape, self.dtype)
        elif self.strides is None:
            self.made = ndarray(shape, self.dtype, site.arena, address)
        else:
            self.made = ndarray(shape, self.dtype, site.arena, address,
                                tuple([n * self.itemsize for n in self.strides.made]))
        return 0


cdef class Stored(Part):
    """An argument outside the arena, as a Storage gives it: contents, variables, packed weights.

    target: the argument with numbers; copies: [(Value, View or Scratch with Dims, its copy with numbers)], roots first.
    """
    cdef int renew(self, Site site) except -1:
        self.changed = False
        if self.made is None or site.renamed or self.slots.differ(site):
            for source, target in self.copies:
                fill(site, source, target)
            made = site.storage.operand(self.target, site.pack, no_others)
            self.changed = made is not self.made        # weights stay where the arena moves
            self.made = made
        return 0


# ---- Values, Views and Scratches with numbers -------------------------------------------------------------------
def changed(thing):
    """The attributes of a Value, View or Scratch that may have Dims."""
    if type(thing) is View:
        return thing.shape, thing.strides, thing.offset
    if type(thing) is Scratch:
        return thing.shape
    return thing.shape, thing.byte_offset, sizes_of(thing.data)


cdef object sizes_of(data):
    """The contents of a Value that may have Dims, or None."""
    if data is None or type(data) is Computed:
        return data
    return tuple(data.reshape(-1).tolist()) if data.dtype.hasobject else None


def contents(tape, data, dtype, shape):
    """The contents of a Value with numbers; tape: has filled()."""
    if type(data) is Computed:
        return tape.filled(data)
    if data is None or not data.dtype.hasobject:
        return data
    return array(tape.filled(sizes_of(data)), dtype).reshape(shape)


cdef int fill(Site site, source, target) except -1:
    """Give a copy the numbers of its source's Dims."""
    cdef View view, from_view
    cdef ValueBase value, from_value
    cdef const int64_t *numbers = site.tape.numbers
    if type(source) is View:
        view, from_view = target, source
        view.shape, view.strides = filled(numbers, from_view.shape), filled(numbers, from_view.strides)
        view.offset = filled(numbers, from_view.offset)
    elif type(source) is Scratch:
        (<Scratch>target).shape = filled(numbers, (<Scratch>source).shape)
    else:
        value, from_value = target, source
        value.shape, value.byte_offset = filled(numbers, from_value.shape), filled(numbers, from_value.byte_offset)
        value.data = site.computed.get(id(from_value.data))     # by another operand
        if value.data is None:
            value.data = contents(site.tape, from_value.data, from_value.dtype, value.shape)
            if type(from_value.data) is Computed:
                site.computed[id(from_value.data)] = value.data
    return 0


def collect(argument, list found, set seen):
    """Append the Values, Views and Scratches with Dims that `argument` refers to, roots first."""
    if id(argument) in seen:
        return
    seen.add(id(argument))
    if type(argument) is View:
        collect(argument.value, found, seen)
    elif isinstance(argument, ValueBase):
        if argument.root is not argument:
            collect(argument.root, found, seen)
    elif type(argument) is not Scratch:
        return
    if slots_in(changed(argument)):
        found.append(argument)
