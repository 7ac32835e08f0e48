"""Parts: the arguments of recorded calls that depend on shapes, as sizes and arrays for the current shapes.

A Part is renewed only if its dimensions, its place in the arena, or the arena change.  Rebinder.bind() calls renew() of
each Part.  Kernels then get its value() or bytes(), or the `span` of an ArenaArray.
"""
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free

from pylite._core.graph.calls cimport Scratch, ValueBase, View
from pylite._core.graph.dimensions cimport Computed, Dim, has_dims
from pylite._core.graph.tapes cimport filled
from pylite._core.run.kernel cimport MAX_DIMS, Bytes, Strided, bytes_of

from numpy import array, empty, ndarray

cdef dict no_others = {}


cdef class BindingContext:
    """The base of Rebinder: the state that a Part needs to renew itself."""


cdef class Cells:
    """A set of the tape's cells."""
    def __cinit__(self, numbers):
        self.cells = <Py_ssize_t *>calloc(len(numbers) + 1, sizeof(Py_ssize_t))
        if self.cells == NULL:
            raise MemoryError(f"no memory for {len(numbers)} cells")
        for cell in numbers:
            self.cells[self.count] = cell
            self.count += 1

    def __dealloc__(self):
        free(self.cells)

    cdef bint differ(self, BindingContext context) noexcept:
        """Has the number of any cell changed since the last bind()?"""
        cdef Py_ssize_t i
        for i in range(self.count):
            if context.tape.numbers[self.cells[i]] != context.before[self.cells[i]]:
                return True
        return False


cdef class Part:
    """An argument of a kernel.  argument: its current value; changed: did the last bind() change it?"""
    cdef int renew(self, BindingContext context) except -1:
        return 0

    cdef object value(self):
        """The argument for the constructor of a kernel."""
        return self.argument

    cdef Bytes bytes(self, list owners) except *:
        """The bytes of a contiguous array, whose owner is appended to `owners` if that is not the arena."""
        argument = self.value()
        owners.append(argument)
        return bytes_of(argument)


cdef class Sizes(Part):
    """A number or nested tuples of numbers, recorded with Dims."""
    cdef int renew(self, BindingContext context) except -1:
        self.changed = self.argument is None or self.cells.differ(context)
        if self.changed:
            self.argument = filled(context.tape.numbers, self.source)
        return 0


cdef bint set_number(Number *number, thing) except -1:
    number.cell = (<Dim>thing).cell if type(thing) is Dim else -1
    if type(thing) is int:
        number.constant = thing
    return type(thing) is int or type(thing) is Dim


cdef class ArenaArray(Part):
    """The array of a Value, View or Scratch in the arena.

    span: describes the array; block: number of its block; begin, offset: where the Value begins in the block, in bytes,
    and the array in the Value, in elements; value_shape: of the Value; shape, strides: of the array, in elements;
    strided: false if the array is contiguous.
    """
    cdef bint set_up(self, shape, value_shape, strides, begin, offset) except -1:
        """Set all numbers; False if one is neither an integer nor a Dim."""
        cdef int i
        self.span.ndim, self.value_ndim, self.strided = len(shape), len(value_shape), strides is not None
        if max(self.span.ndim, self.value_ndim) > MAX_DIMS:
            return False
        for i in range(self.span.ndim):
            if not set_number(&self.shape[i], shape[i]) or (
                    self.strided and not set_number(&self.strides[i], strides[i])):
                return False
        for i in range(self.value_ndim):
            if not set_number(&self.value_shape[i], value_shape[i]):
                return False
        return set_number(&self.begin, begin) and set_number(&self.offset, offset)

    cdef int renew(self, BindingContext context) except -1:
        cdef const int64_t *numbers = context.tape.numbers
        cdef Strided *span = &self.span
        cdef Py_ssize_t size, stride = span.item, value_size = 1
        cdef char *address = (context.bytes.data + context.starts[self.block] + current_value(&self.begin, numbers)
                              + current_value(&self.offset, numbers) * span.item)
        cdef int i
        self.changed = self.detached or address != span.data or context.arena is not self.arena
        span.data, span.nbytes, self.arena = address, span.item, context.arena
        for i in range(span.ndim - 1, -1, -1):
            size = current_value(&self.shape[i], numbers)
            span.nbytes *= size
            if self.strided:
                stride = current_value(&self.strides[i], numbers) * span.item
            if size != span.shape[i] or stride != span.strides[i]:
                self.changed = True
                span.shape[i], span.strides[i] = size, stride
            stride *= size
        for i in range(self.value_ndim):
            value_size *= current_value(&self.value_shape[i], numbers)
        self.address, self.detached = address - context.bytes.data, value_size == 0 and span.nbytes > 0
        if self.detached:
            self.changed, self.argument = True, empty(self.dimensions(), self.dtype)
        elif self.changed:
            self.argument = None
            self.check(context)
        return 0

    cdef tuple dimensions(self):
        cdef int i
        return tuple([self.span.shape[i] for i in range(self.span.ndim)])

    cdef int check(self, BindingContext context) except -1:
        """Raise ValueError if the array is not inside the arena."""
        cdef const Strided *span = &self.span
        cdef Py_ssize_t first = self.address, end = first + span.item
        cdef int i
        for i in range(span.ndim):
            if span.strides[i] > 0:
                end += (span.shape[i] - 1) * span.strides[i]
            else:
                first += (span.shape[i] - 1) * span.strides[i]
        if span.nbytes and not 0 <= first <= end <= context.bytes.nbytes:
            raise ValueError(f"bytes {first} to {end} of an arena of {context.bytes.nbytes}")
        return 0

    cdef Bytes bytes(self, list owners) except *:
        if self.detached or self.strided:
            return Part.bytes(self, owners)
        return Bytes(self.span.data, self.span.nbytes)

    cdef object value(self):
        cdef const Strided *span = &self.span
        cdef int i
        if self.argument is None:
            shape = self.dimensions()
            if span.nbytes == 0:
                self.argument = empty(shape, self.dtype)
            else:
                self.argument = ndarray(shape, self.dtype, self.arena, self.address,
                                        tuple([span.strides[i] for i in range(span.ndim)]))
        return self.argument


cdef class Stored(Part):
    """An argument outside the arena: contents, a variable, or packed weights, from a Storage.

    target: the argument with numbers; copies: [(Value, View or Scratch with Dims, its copy with numbers)], roots first.
    """
    cdef int renew(self, BindingContext context) except -1:
        self.changed = False
        if self.argument is None or context.may_differ or self.cells.differ(context):
            for source, target in self.copies:
                fill(context, source, target)
            argument = context.storage.operand(self.target, context.pack, no_others)
            self.changed = argument is not self.argument        # weights stay even if the arena moves
            self.argument = argument
        return 0


# ---- Values, Views and Scratches with numbers -------------------------------------------------------------------
def fields_with_dims(thing):
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
    """The contents of a Value, with Dims replaced by numbers.  tape: an object with filled()."""
    if type(data) is Computed:
        return tape.filled(data)
    if data is None or not data.dtype.hasobject:
        return data
    return array(tape.filled(sizes_of(data)), dtype).reshape(shape)


cdef int fill(BindingContext context, source, target) except -1:
    """Set the attributes of `target`, a copy, to the numbers of its source's Dims."""
    cdef View view, from_view
    cdef ValueBase value, from_value
    cdef const int64_t *numbers = context.tape.numbers
    if type(source) is View:
        view, from_view = target, source
        view.shape, view.strides = filled(numbers, from_view.shape), filled(numbers, from_view.strides)
        view.offset = filled(numbers, from_view.offset)
    elif type(source) is Scratch:
        (<Scratch>target).shape = filled(numbers, (<Scratch>source).shape)
    else:
        value, from_value = target, source
        value.shape, value.byte_offset = filled(numbers, from_value.shape), filled(numbers, from_value.byte_offset)
        value.data = context.computed.get(id(from_value.data))     # another operand may have computed it
        if value.data is None:
            value.data = contents(context.tape, from_value.data, from_value.dtype, value.shape)
            if type(from_value.data) is Computed:
                context.computed[id(from_value.data)] = value.data
    return 0


def collect(argument, list things, set seen):
    """Append the Values, Views and Scratches with Dims that `argument` refers to, roots first."""
    if id(argument) in seen:
        return
    seen.add(id(argument))
    if type(argument) is View:
        collect(argument.value, things, seen)
    elif isinstance(argument, ValueBase):
        if argument.root is not argument:
            collect(argument.root, things, seen)
    elif type(argument) is not Scratch:
        return
    if has_dims(fields_with_dims(argument)):
        things.append(argument)
