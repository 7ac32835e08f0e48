"""A graph while it is lowered: values, nodes, their calls, and the views of memory that calls take.

Large graphs have tens of thousands of these objects.  As extension types they are made in a third of the time, and
Python's garbage collector skips the types that cannot be part of a cycle.  ir/values.py completes Value and Node.
"""
from math import prod

cimport cython
from libc.stdint cimport int64_t

from pylite._core.graph.dimensions cimport Dim

from numpy import float32

cdef object NO_SCALE = float32(0)
cdef enum:
    FACTOR = 0x7FFFFFFF     # the product of two such numbers fits into 64 bits
cdef dict element_types = {}        # {data type: numpy's type of an element, unpacked}
cdef dict element_sizes = {}        # {data type: bytes of an element}


def enter_types(types):
    """Note the numpy types of elements: {data type: numpy's}.  ir/values.py calls it."""
    for name, dtype in types.items():
        element_types[name], element_sizes[name] = dtype, dtype.itemsize


cdef object product(numbers):
    """The product of integers of any size."""
    cdef int64_t made = 1, factor
    for number in numbers:
        if type(number) is Dim:
            return prod(numbers)
        try:
            factor = number
        except OverflowError:
            return prod(numbers)
        if not (-FACTOR <= made <= FACTOR and -FACTOR <= factor <= FACTOR):
            return prod(numbers)
        made *= factor
    return made


cdef class ValueBase:
    """The attributes of a Value."""
    def __init__(self, tensor, data=None):
        self.start(tensor, data)

    @property
    def planned(self):
        """Does the memory planner place it?  Not constants, variables and results of earlier segments."""
        return self.data is None and self.kind not in ("variable", "carried")

    @property
    def size(self):
        """Number of elements."""
        return product(self.shape)

    @property
    def itemsize(self):
        """Bytes of one element, unpacked."""
        return element_sizes[self.dtype]

    @property
    def nbytes(self):
        """Bytes that the elements occupy unpacked."""
        return product(self.shape) * element_sizes[self.dtype]

    def view(self, shape=None, strides=None, offset=0, dtype=None):
        """A View of this value: shape, strides and offset in elements of `dtype`; contiguous by default."""
        return view_of(self, self.shape if shape is None else shape, strides, offset, dtype or self.dtype)

    @property
    def flat(self):
        """A View of this value with one dimension, shape (size,)."""
        return view_of(self, (product(self.shape),), None, 0, self.dtype)

    @property
    def bytes(self):
        """A View of the bytes of this value, shape (nbytes,), for kernels of any type."""
        return view_of(self, (self.nbytes,), None, 0, "uint8")

    def copied(self):
        """A copy; the caller sets its root and pad."""
        cdef ValueBase made = ValueBase.__new__(type(self))
        made.tensor, made.index, made.name, made.dtype, made.shape = (
            self.tensor, self.index, self.name, self.dtype, self.shape)
        made.data, made.fixed, made.byte_offset, made.kind = self.data, self.fixed, self.byte_offset, self.kind
        made.quantization, made.quantized = self.quantization, self.quantized
        made.scale, made.zero_point = self.scale, self.zero_point
        return made

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
    """The Values of a graph's tensors; kind: their class; constant(tensor): the contents of a constant."""
    cdef list values = []
    cdef ValueBase value
    for tensor in tensors:
        value = ValueBase.__new__(kind)
        value.start(tensor, None if (<tuple>tensor)[5] is None else constant(tensor))
        values.append(value)
    return values


cdef class NodeBase:
    """The attributes of a Node.  Its operands are listed on first use, as most repeats need none."""
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


cdef View view_of(value, shape, strides, offset, dtype):
    cdef View made = View.__new__(View)
    made.value, made.shape, made.strides, made.offset, made.dtype = value, shape, strides, offset, dtype
    return made


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
    """One kernel to run: `kernel` is "family.Class" under pylite._core.kernels, or a callable.

    args, named: the arguments of its constructor.  The attribute `args` holds all of them, the named ones last, and
    `names` holds the names of those, or None.  At most six values are positional, with the kernel:
    .ci/calls.py checks it.
    inplace: (y, x) where the kernel may write y over x, if this is the last use of x; note: why this kernel, in a few
    words; strided: positions in `args` that may be a View of any strides whose last axis is contiguous (or not, for
    movement.Copy); node: set when it is lowered.
    """
    def __init__(self, kernel, *args, inplace=None, note=None, strided=(), **named):
        self.kernel, self.args, self.inplace, self.note, self.strided = kernel, args, inplace, note, strided
        if named:
            self.args, self.names = args + tuple(named.values()), tuple(named)
