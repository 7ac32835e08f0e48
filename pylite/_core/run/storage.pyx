"""The memory of values: creates the numpy array of each Value, View and Scratch of a call, and the kernels on them.

Compiled, because large graphs have thousands of arrays, and creating one takes a fifth of the time that Python takes.
"""
from pylite._core.graph.calls cimport Call, Packed, Scratch, ValueBase, View, element_sizes, element_types, product

from numpy import empty, ndarray, uint8

from pylite import errors
from pylite._core.run.kernel import construct


cdef class Storage:
    """The memory of values: the arrays created so far, and the arena for the others.

    arrays: {tensor index: typed array}; arena: uint8 array; offsets: {root tensor index: byte offset}; scratch:
    {Scratch: byte offset}.  Without an arena, as for constant folding, each value gets an array of its own.
    """
    def __init__(self, dict arrays, arena=None, dict offsets=None, dict scratch=None):
        self.arrays, self.arena, self.offsets, self.scratch = arrays, arena, offsets, scratch

    def array(self, ValueBase value not None):
        """The array of `value`, with its shape and dtype."""
        return self.typed(value)

    cdef object typed(self, ValueBase value):
        array = self.arrays.get(value.index)
        if array is None:
            array = value.data
            if array is None:
                array = self.create_array(value)
            elif not isinstance(array, ndarray):    # Deferred
                array = array.array()
                array.flags.writeable = False
            self.arrays[value.index] = array
        return array

    cdef object create_array(self, ValueBase value):
        cdef ValueBase root = value.root
        dtype = element_types[value.dtype]
        if root is not value and root.index in self.arrays:
            base = self.arrays[root.index].reshape(-1)
            nbytes = value.nbytes
            if root.nbytes != nbytes:
                base = base.view(uint8)[value.byte_offset:value.byte_offset + nbytes]
            return base.view(dtype).reshape(value.shape)
        if self.offsets is None:
            return array_of(value)
        return array_of(value, self.arena, self.offsets[root.index] + value.byte_offset)

    cdef object viewed(self, View view):
        """The array of a View."""
        cdef ValueBase value = view.value, root = value.root
        dtype, size = element_types[view.dtype], element_sizes[view.dtype]
        if (view.strides is None and view.offset == 0 and self.offsets is not None and value.data is None
                and value.index not in self.arrays and root.index not in self.arrays):
            nbytes = product(view.shape) * size
            if 0 < nbytes <= product(value.shape) * element_sizes[value.dtype]:     # without the value's own array
                return ndarray(view.shape, dtype, self.arena, self.offsets[root.index] + value.byte_offset)
        base = self.typed(value)
        strides = None if view.strides is None else tuple([s * size for s in view.strides])
        if not base.size:
            return empty(view.shape, dtype)
        return ndarray(view.shape, dtype, base, view.offset * size, strides)

    cdef object temporary(self, Scratch scratch):
        """The array of a Scratch."""
        if self.scratch is None:
            return empty(scratch.shape, element_types[scratch.dtype])
        return ndarray(scratch.shape, element_types[scratch.dtype], self.arena, self.scratch[scratch])

    cdef object operand(self, item, pack, others):
        """The argument that a kernel gets for `item`, one of the args of its call."""
        kind = type(item)
        if kind is View:
            return self.viewed(<View>item)
        if kind is Packed:
            return pack(item) if (<Packed>item).result is None else (<Packed>item).result
        if kind is Scratch:
            return self.temporary(<Scratch>item)
        if isinstance(item, ValueBase):
            return self.typed(<ValueBase>item)
        return others[kind](item) if kind in others else item

    cdef list operands(self, Call call, pack, others):
        """The arguments of the kernel of `call`."""
        cdef list arguments = list(call.args)
        cdef Py_ssize_t i
        for i in range(len(arguments)):
            item = arguments[i]
            kind = type(item)
            if kind is not int and kind is not str:
                arguments[i] = self.operand(item, pack, others)
        return arguments


def array_of(value, memory=None, offset=0):
    """An array for `value`, in `memory` or in memory of its own."""
    try:
        return ndarray(value.shape, element_types[value.dtype], memory, offset)
    except ValueError as problem:       # numpy limits the dimensions even of arrays without elements
        raise errors.TensorError(f"{value!r} has a shape that numpy cannot represent: {problem}") from None


def operands(calls, Storage storage, pack, dict others, named):
    """The arguments of the kernels of `calls`: a list of arrays, packed weights and parameters for each.

    pack(packed): returns the packed array; others: {type: function} that converts arguments of other types;
    named(call, problem): the exception to raise.
    """
    cdef list arguments = []
    cdef Call call = None
    try:
        for call in calls:
            arguments.append(storage.operands(call, pack, others))
    except Exception as problem:
        raise named(call, problem)
    return arguments


def kernels(calls, operands, kernel_class, named):
    """The kernels of `calls` on their `operands`; kernel_class(name): their class."""
    cdef list result = []
    cdef dict classes = {}
    cdef Call call = None
    try:
        for call, args in zip(calls, operands, strict=True):
            make = classes.get(call.kernel)
            if make is None:
                make = classes[call.kernel] = call.kernel if callable(call.kernel) else kernel_class(call.kernel)
            result.append(construct(make, args, call.names))
    except Exception as problem:        # mostly mismatched arrays, which lowering did not check
        raise named(call, problem)
    return result
