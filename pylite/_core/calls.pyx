"""A graph while it is lowered: values, nodes, the calls that nodes are lowered to, and the memory that these see.

Large graphs have tens of thousands of these objects.  In C they are made in a third of the time, and Python's garbage
collector passes over those that cannot be part of a cycle.  ir/values.py completes Value and Node.
"""
cimport cython

from numpy import float32

cdef object NO_SCALE = float32(0)


cdef class ValueBase:
    """The attributes of a Value."""
    def __init__(self, tensor, data=None):
        self.start(tensor, data)

    cdef int start(self, record, data) except -1:
        cdef tuple tensor = <tuple>record       # a subclass
        self.tensor, self.index, self.name, self.dtype, self.shape = record, tensor[0], tensor[1], tensor[2], tensor[3]
        self.data, self.fixed, self.root, self.byte_offset = data, data is not None, self, 0
        self.kind = "variable" if tensor[7] else "temporary"
        self.scale, self.zero_point, self.quantized = NO_SCALE, 0, False
        self.quantization = q = tensor[6]
        if q is not None:
            scale, zero_point = (<tuple>q)[0], (<tuple>q)[1]
            if len(scale):
                self.scale, self.quantized = scale[0], True
            if len(zero_point):
                self.zero_point = zero_point.item(0)
        return 0


def values_of(kind, tensors, constant):
    """The Values of a graph's tensors; kind: their class; constant(tensor): the contents of one that has some."""
    cdef list values = []
    cdef ValueBase value
    for tensor in tensors:
        value = ValueBase.__new__(kind)
        value.start(tensor, None if (<tuple>tensor)[5] is None else constant(tensor))
        values.append(value)
    return values


cdef class NodeBase:
    """The attributes of a Node.  Its operands are listed when they are first asked for: most repeats do without."""
    def __init__(self, index, operator, values, host=None):
        self.start(operator, values, host)
        self.index = index

    cdef int start(self, operator, values, host) except -1:
        cdef tuple record = <tuple>operator     # a subclass
        self.index, self.operator, self.values, self.host = record[0], operator, values, host
        self.name, self.version, self.options = record[1], record[4], record[7]
        return 0

    @property
    def inputs(self):
        if self.read is None:
            self.read = operands(self.values, self.operator.inputs)
        return self.read

    @inputs.setter
    def inputs(self, values):
        self.read = values

    @property
    def outputs(self):
        if self.written is None:
            self.written = operands(self.values, self.operator.outputs)
        return self.written

    @outputs.setter
    def outputs(self, values):
        self.written = values


cdef list operands(values, tuple indices):
    cdef list found = []
    cdef Py_ssize_t i
    for index in indices:
        i = index
        found.append(values[i] if i >= 0 else None)
    return found


@cython.no_gc
cdef class View:
    """Elements of a Value, strided; strides and offset count elements."""
    def __init__(self, value, shape, strides, offset, dtype):
        self.value, self.shape, self.strides, self.offset, self.dtype = value, shape, strides, offset, dtype


@cython.no_gc
cdef class Scratch:
    """Arena memory for the duration of one call."""
    def __init__(self, shape, dtype):
        self.shape, self.dtype = shape, dtype


@cython.no_gc
cdef class Packed:
    """`pylite._core.kernels.<function>(array of value, *args)`, computed once per model and shared.

    made: the result, after the first Model.pack().
    """
    def __init__(self, function, value, *args):
        self.function, self.value, self.args = function, value, args


cdef class Call:
    """One kernel to run: `kernel` is "family.Class" under pylite._core.kernels, or a callable; it gets `args`.

    inplace: (y, x) where the kernel may write y over x, if this is the last use of x; note: why this kernel, in a few
    words; strided: positions of the args that may be a View of any strides whose last axis is contiguous (or not, for
    movement.Copy); node: set when it is lowered.
    """
    def __init__(self, kernel, *args, inplace=None, note=None, strided=()):
        self.kernel, self.args, self.inplace, self.note, self.strided = kernel, args, inplace, note, strided
