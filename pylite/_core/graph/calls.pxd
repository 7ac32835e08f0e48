cdef enum TensorField:          # positions in a record of a Tensor (ir/graph.py); tests compare them
    TENSOR_INDEX = 0
    TENSOR_NAME = 1
    TENSOR_DTYPE = 2
    TENSOR_SHAPE = 3
    TENSOR_DATA = 5
    TENSOR_QUANTIZATION = 6
    TENSOR_IS_VARIABLE = 7

cdef enum OperatorField:        # and of an Operator
    OPERATOR_INDEX = 0
    OPERATOR_NAME = 1
    OPERATOR_CUSTOM = 3
    OPERATOR_VERSION = 4
    OPERATOR_INPUTS = 5
    OPERATOR_OUTPUTS = 6
    OPERATOR_OPTIONS = 7
    OPERATOR_INTERMEDIATES = 8

cdef enum QuantizationField:    # and of a Quantization
    QUANTIZATION_SCALE = 0
    QUANTIZATION_ZERO_POINT = 1
    QUANTIZATION_AXIS = 2
    QUANTIZATION_MIN = 8

cdef enum:
    MAX_TEMPORARIES = 8         # most Temporaries of a node

cdef dict element_types, element_sizes
cdef frozenset PLAIN
cdef object product(numbers)


cdef class ValueBase:
    cdef public object tensor, index, name, dtype, shape, data, fixed, root, byte_offset, pad, kind
    cdef public object quantization, quantized, scale, zero_point
    cdef int start(self, record, data) except -1


cdef class NodeBase:
    cdef public object operator, index, name, version, options, values, host, memo
    cdef list read, written
    cdef int start(self, operator, values, host) except -1


cdef class View:
    cdef public object value, shape, strides, offset, dtype


cdef class Scratch:
    cdef public object shape, dtype


cdef class Packed:
    cdef public object function, value, result
    cdef public tuple args


cdef class Call:
    cdef public object kernel, inplace, node, note, strided
    cdef public tuple args, names
