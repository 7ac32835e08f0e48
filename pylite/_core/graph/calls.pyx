"""A graph during lowering: its values, nodes and calls, and the views of memory that calls take as arguments.

Large graphs have tens of thousands of these objects.  Extension types are created in a third of the time, and Python's
garbage collector skips the types that cannot be part of a cycle.  ir/values.py completes Value and Node.
"""
from math import prod

cimport cython
from libc.stdint cimport int64_t

from pylite._core.graph.dimensions cimport MAX_FACTOR, Dim

from numpy import float32

TEMPORARIES = MAX_TEMPORARIES
cdef object NO_SCALE = float32(0)
cdef dict element_types = {}        # {data type: numpy's type of an element, unpacked}
cdef dict element_sizes = {}        # {data type: bytes of an element}
# Types of the arguments of calls that are the same for all shapes and for all nodes of a kind.
cdef frozenset PLAIN = frozenset((int, float, bool, str, bytes, type(None)))


def enter_types(types):
    """Register the numpy type of each data type.  ir/values.py calls this once."""
    for name, dtype in types.items():
        element_types[name], element_sizes[name] = dtype, dtype.itemsize


cdef object product(numbers):
    """The product of integers of any size."""
    cdef int64_t result = 1, factor
    for number in numbers:
        if type(number) is Dim:
            return prod(numbers)
        try:
            factor = number
        except OverflowError:
            return prod(numbers)
        if not (-MAX_FACTOR <= result <= MAX_FACTOR and -MAX_FACTOR <= factor <= MAX_FACTOR):
            return prod(numbers)
        result *= factor
    return result


cdef class ValueBase:
    """The base of Value: its attributes."""
    def __init__(self, tensor, data=None):
        self.start(tensor, data)

    @property
    def planned(self):
        """Does the memory planner place this value?  It skips constants, variables and results of earlier segments."""
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
        """Bytes of all elements, unpacked."""
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
        cdef ValueBase copy = ValueBase.__new__(type(self))
        copy.tensor, copy.index, copy.name, copy.dtype, copy.shape = (
            self.tensor, self.index, self.name, self.dtype, self.shape)
        copy.data, copy.fixed, copy.byte_offset, copy.kind = self.data, self.fixed, self.byte_offset, self.kind
        copy.quantization, copy.quantized = self.quantization, self.quantized
        copy.scale, copy.zero_point = self.scale, self.zero_point
        return copy

    cdef int start(self, record, data) except -1:
        cdef tuple tensor = <tuple>record       # a subclass
        self.tensor, self.index, self.name = record, tensor[TENSOR_INDEX], tensor[TENSOR_NAME]
        self.dtype, self.shape = tensor[TENSOR_DTYPE], tensor[TENSOR_SHAPE]
        self.data, self.fixed, self.root, self.byte_offset = data, data is not None, self, 0
        self.kind = "variable" if tensor[TENSOR_IS_VARIABLE] else "temporary"
        self.scale, self.zero_point, self.quantized = NO_SCALE, 0, False
        self.quantization = q = tensor[TENSOR_QUANTIZATION]
        if q is not None:
            scale, zero_point = (<tuple>q)[QUANTIZATION_SCALE], (<tuple>q)[QUANTIZATION_ZERO_POINT]
            if len(scale):
                self.scale, self.quantized = scale[0], True
            if len(zero_point):
                self.zero_point = zero_point.item(0)
        return 0


def values_of(kind, tensors, constant):
    """The Values of a graph's tensors.  kind: their class; constant(tensor): returns the contents of a constant."""
    cdef list values = []
    cdef ValueBase value
    for tensor in tensors:
        value = ValueBase.__new__(kind)
        value.start(tensor, None if (<tuple>tensor)[TENSOR_DATA] is None else constant(tensor))
        values.append(value)
    return values


cdef class NodeBase:
    """The base of Node: its attributes.  Operands are listed on first use, because most repeated nodes need none."""
    def __init__(self, index, operator, values, host=None):
        self.start(operator, values, host)
        self.index = index

    cdef int start(self, operator, values, host) except -1:
        cdef tuple record = <tuple>operator     # a subclass
        self.index, self.operator, self.values, self.host = record[OPERATOR_INDEX], operator, values, host
        self.name, self.version = record[OPERATOR_NAME], record[OPERATOR_VERSION]
        self.options = record[OPERATOR_OPTIONS]
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
    cdef list selected = []
    cdef Py_ssize_t i
    for index in indices:
        i = index
        selected.append(values[i] if i >= 0 else None)
    return selected


@cython.no_gc
cdef class View:
    """A strided view of a Value.  Strides and offset count elements."""
    def __init__(self, value, shape, strides, offset, dtype):
        self.value, self.shape, self.strides, self.offset, self.dtype = value, shape, strides, offset, dtype


cdef View view_of(value, shape, strides, offset, dtype):
    cdef View view = View.__new__(View)
    view.value, view.shape, view.strides, view.offset, view.dtype = value, shape, strides, offset, dtype
    return view


@cython.no_gc
cdef class Scratch:
    """Arena memory for the duration of one call."""
    def __init__(self, shape, dtype):
        self.shape, self.dtype = shape, dtype


@cython.no_gc
cdef class Packed:
    """`pylite._core.kernels.<function>(array of value, *args)`, computed once per model and shared.

    result: the packed array, set by the first Weights.pack().
    """
    def __init__(self, function, value, *args):
        self.function, self.value, self.args = function, value, args


cdef class Call:
    """One kernel to run: `kernel` is "family.Class" under pylite._core.kernels, or a callable.

    args, named: the arguments of its constructor.  The attribute `args` holds all of them, named ones last; `names`
    holds their names, or None.  A Call takes at most six positional values including the kernel; .ci/calls.py checks
    this.  inplace: (y, x) if the kernel may write y over x, provided that this is the last use of x; note: why this
    kernel was chosen, in a few words; strided: positions in `args` that accept a View with any strides, as long as the
    last axis is contiguous (movement.Copy accepts any); node: the Node that this call was lowered from.
    """
    def __init__(self, kernel, *args, inplace=None, note=None, strided=(), **named):
        self.kernel, self.args, self.inplace, self.note, self.strided = kernel, args, inplace, note, strided
        if named:
            self.args, self.names = args + tuple(named.values()), tuple(named)
