"""Parts of the operands of recorded calls: sizes and arrays for the shapes at hand.

A Part is made again only if its dimensions, its place in the arena, or the arena change.
"""
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free

from pylite._core.graph.calls cimport Scratch, ValueBase, View
from pylite._core.graph.dimensions cimport Computed, Dim
from pylite._core.graph.tapes cimport filled
from pylite._core.run.kernel cimport MOST_DIMS, Strided

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

    cdef object value(self):
        """What the constructor of a kernel takes."""
        return self.made


cdef class Sizes(Part):
    """Numbers, or nested tuples of numbers, which may have Dims."""
    cdef int renew(self, Site site) except -1:
        self.changed = self.made is None or self.slots.differ(site)
        if self.changed:
            self.made = filled(site.tape.numbers, self.source)
        return 0


cdef bint set_number(Number *number, thing) except -1:
    number.slot = (<Dim>thing).slot if type(thing) is Dim else -1
    if type(thing) is int:
        number.constant = thing
    return type(thing) is int or type(thing) is Dim


cdef class Window(Part):
    """The array of a Value, View or Scratch in the arena.

    span: of the array, which may be anywhere without elements; block: number of its block; begin, offset: where it
    begins there, in bytes and in elements; sizes: of the Value; shape, strides: of the array, in elements, or not
    strided.
    """
    cdef bint set_up(self, shape, sizes, strides, begin, offset) except -1:
        """Set the numbers; False where some are more than numbers."""
        cdef int i
        self.span.ndim, self.rank, self.strided = len(shape), len(sizes), strides is not None
        if max(self.span.ndim, self.rank) > MOST_DIMS:
            return False
        for i in range(self.span.ndim):
            if not set_number(&self.shape[i], shape[i]) or (
                    self.strided and not set_number(&self.strides[i], strides[i])):
                return False
        for i in range(self.rank):
            if not set_number(&self.sizes[i], sizes[i]):
                return False
        return set_number(&self.begin, begin) and set_number(&self.offset, offset)

    cdef int renew(self, Site site) except -1:
        cdef const int64_t *numbers = site.tape.numbers
        cdef Strided *span = &self.span
        cdef Py_ssize_t size, stride = span.item, values = 1
        cdef char *at = (site.bytes.at + site.starts[self.block] + now(&self.begin, numbers)
                         + now(&self.offset, numbers) * span.item)
        cdef int i
        self.changed = self.apart or at != span.at or site.arena is not self.arena
        span.at, span.nbytes, self.arena = at, span.item, site.arena
        for i in range(span.ndim - 1, -1, -1):
            size = now(&self.shape[i], numbers)
            span.nbytes *= size
            if self.strided:
                stride = now(&self.strides[i], numbers) * span.item
            if size != span.shape[i] or stride != span.strides[i]:
                self.changed = True
                span.shape[i], span.strides[i] = size, stride
            stride *= size
        for i in range(self.rank):
            values *= now(&self.sizes[i], numbers)
        self.address, self.apart = at - site.bytes.at, values == 0 and span.nbytes > 0
        if self.apart:
            self.changed, self.made = True, empty(self.dimensions(), self.dtype)
        elif self.changed:
            self.made = None
            self.check(site)
        return 0

    cdef tuple dimensions(self):
        cdef int i
        return tuple([self.span.shape[i] for i in range(self.span.ndim)])

    cdef bint check(self, Site site) except -1:
        """Raise ValueError for an array that is not inside of the arena."""
        cdef const Strided *span = &self.span
        cdef Py_ssize_t first = self.address, end = first + span.item
        cdef int i
        for i in range(span.ndim):
            if span.strides[i] > 0:
                end += (span.shape[i] - 1) * span.strides[i]
            else:
                first += (span.shape[i] - 1) * span.strides[i]
        if span.nbytes and not 0 <= first <= end <= site.bytes.nbytes:
            raise ValueError(f"bytes {first} to {end} of an arena of {site.bytes.nbytes}")
        return True

    cdef object value(self):
        cdef const Strided *span = &self.span
        cdef int i
        if self.made is None:
            shape = self.dimensions()
            if span.nbytes == 0:
                self.made = empty(shape, self.dtype)
            else:
                self.made = ndarray(shape, self.dtype, self.arena, self.address,
                                    tuple([span.strides[i] for i in range(span.ndim)]))
        return self.made


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
