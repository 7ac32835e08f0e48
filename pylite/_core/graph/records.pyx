"""Turns decoded tables into the tensors and operators of a graph: the part of a load that runs thousands of times.

ValueErrors say what is wrong; pylite/schema/loader.py adds where it is, and handles rare features.
"""
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport calloc, free

import numpy as np

from pylite._core.graph.calls cimport product
from pylite._core.simd cimport memory_of

cdef object UNKNOWN = object()
cdef object ZERO = np.zeros(1, np.int64)
ZERO.flags.writeable = False
cdef dict ZERO_POINTS = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-2**15, 2**15 - 1),
                         "uint16": (0, 2**16 - 1), "int4": (-8, 7), "uint4": (0, 15), "int2": (-2, 1)}
cdef tuple ANY_ZERO_POINT = (-2**31, 2**31 - 1)
cdef object MAX_BYTES = 1 << 47     # of one tensor: no machine has more addresses

cdef enum:                  # flags of a tensor's state, as operators are checked in execution order
    WRITTEN = 1             # its contents exist
    UNOWNED = 2             # any number of operators may write it: a variable, or an omitted operand
    EMPTY = 4               # it has no elements, so it may be read before it is written


cpdef str text(name):
    """A printable name: bytes that are not UTF-8 become escapes."""
    if not name or name.isascii():
        return name or ""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


# ---- operators ---------------------------------------------------------------------------------------------
def operators(records, code, operator_of, invalid):
    """The list of Operators that the records describe.

    code(i, index of an operator code): (name, builtin code, custom?, version, Table of its options, default options);
    operator_of: creates an Operator from a tuple; invalid(i, name, text): the exception to raise for operator i.
    """
    cdef list result = []
    cdef dict codes = {}, fields
    cdef Py_ssize_t i = 0
    for record in records:
        fields = record.__dict__
        number = fields["opcode_index"]
        known = codes.get(number)
        if known is None:
            known = codes[number] = code(i, number)
        name, builtin_code, custom, version, table, options = known
        inputs, outputs = fields["inputs"] or (), fields["outputs"] or ()
        if not custom:
            for tensor in <tuple>outputs:
                if tensor in <tuple>inputs and tensor >= 0:
                    raise invalid(i, name, f"tensor {tensor} is both input and output")
        for key in ("builtin_options", "builtin_options2"):
            own = fields[key]
            if own is not None and own.TABLE is table:
                options = own
                break
        data = fields["custom_options"]
        result.append(operator_of((i, name, builtin_code, custom, version, inputs, outputs, options,
                                   fields["intermediates"] or (), b"" if data is None else data.tobytes())))
        i += 1
    return result


def misordered(tensors, inputs, operators, kinds):
    """(operator, tensor index, "reads" or "writes", why it may not) of the first misplaced operator, or None.

    Each tensor must have exactly one source (the caller, the file or one operator), which comes before its first
    reader.  kinds: the module with the classes Tensor and Operator, whose `_PLACES` maps field names to positions.
    """
    cdef Py_ssize_t count = len(tensors)
    cdef uint8_t *state = <uint8_t *>calloc(count + 1, 1)
    if state == NULL:
        raise MemoryError(f"no memory to check {count} tensors")
    try:
        return first_misordered(state + 1, tensors, inputs, operators, kinds.Tensor._PLACES, kinds.Operator._PLACES)
    finally:
        free(state)


cdef object first_misordered(uint8_t *state, tensors, inputs, operators, dict of_tensor, dict of_operator):
    cdef Py_ssize_t i = 0
    cdef Py_ssize_t shape = of_tensor["shape"], data = of_tensor["data"]
    cdef Py_ssize_t variable = of_tensor["is_variable"], external = of_tensor["external"]
    cdef Py_ssize_t reads = of_operator["inputs"], writes = of_operator["outputs"]
    cdef tuple record
    state[-1] = UNOWNED         # the index of omitted operands
    for index in inputs:
        state[<Py_ssize_t>index] = WRITTEN
    for tensor in tensors:
        record = <tuple>tensor      # a subclass
        if record[variable]:
            state[i] = UNOWNED
        elif record[data] is not None or record[external] is not None:
            state[i] |= WRITTEN
        if 0 in <tuple>record[shape]:
            state[i] |= EMPTY
        i += 1
    for operator in operators:
        record = <tuple>operator
        for index in <tuple>record[reads]:
            i = index
            if state[i] == 0:
                return operator, i, "reads", "which nothing has computed"
        for index in <tuple>record[writes]:
            i = index
            if state[i] & WRITTEN:
                return operator, i, "writes", "which is an input, a constant or another operator's output"
            if not state[i] & UNOWNED:
                state[i] |= WRITTEN
            elif i >= 0 and (<tuple>record[writes]).count(index) > 1:
                return operator, i, "writes", "which is two of its outputs"
    return None


# ---- tensors -----------------------------------------------------------------------------------------------
cdef class Tensors:
    """Creates the Tensors of a graph.

    loader: handles rare features; kinds: the module with `Tensor` and `Quantization`; buffers: the file's
    buffer records; bits: {data type: bits of an element}; widths: {data type: bytes to which constants are aligned}.
    """
    cdef object loader, tensor_of, quantization_of
    cdef list buffers
    cdef dict bits, widths

    def __init__(self, loader, kinds, list buffers, dict bits, dict widths):
        self.loader, self.buffers, self.bits, self.widths = loader, buffers, bits, widths
        self.tensor_of, self.quantization_of = kinds.Tensor.of, kinds.Quantization.of

    def tensor(self, i, record, count):
        """The Tensor of a record, the i-th of `count`."""
        cdef dict fields = record.__dict__
        dtype, shape = fields["type"], fields["shape"] or ()
        bits = self.bits.get(dtype, UNKNOWN)
        if bits is UNKNOWN:
            raise ValueError(f"unknown data type {dtype}")
        size = (product(shape) * bits + 7) // 8 if bits else 0        # packed_size(), without the call
        for n in <tuple>shape:
            if n < 0 or size > MAX_BYTES:
                raise ValueError(f"impossible shape {list(shape)}")
        signature = fields["shape_signature"]
        if not signature:
            signature = shape
        elif len(<tuple>signature) != len(<tuple>shape):
            raise ValueError(f"shape {list(shape)}, shape signature {list(signature)}")
        sparsity, variants, external = fields["sparsity"], (), None
        if sparsity is not None:
            sparsity = self.loader.sparsity(sparsity, len(<tuple>shape))
        quantization = fields["quantization"]
        if quantization is not None:
            quantization = self.quantization(quantization, dtype, shape, count)
        data = self.data(record, fields, dtype, size)
        if fields["variant_tensors"]:
            variants = tuple([(v.type, v.shape or ()) for v in fields["variant_tensors"]])
        if fields["external_buffer"]:
            external = self.loader.external_buffer(fields["external_buffer"])
        return self.tensor_of((i, text(fields["name"]), dtype, shape, signature, data, quantization,
                               fields["is_variable"], sparsity, fields["has_rank"], variants, fields["buffer"],
                               external))

    cdef object data(self, record, dict fields, dtype, size):
        """The constant's bytes, checked against its shape and aligned for its type, or None."""
        cdef Py_ssize_t number = fields["buffer"], width, length
        if number == 0:
            return None
        if number >= len(self.buffers):
            raise ValueError(f"buffer {number} of {len(self.buffers)}")
        data = self.buffers[number].data
        length = 0 if data is None else len(data)
        if length == 0:
            return self.loader.without_data(record)
        if length != size:
            self.loader.check_size(data, record, size)
        if fields["is_variable"]:
            raise ValueError("it is a variable and has contents; an operator may rely on one or the other")
        width = self.widths[dtype]
        if width == 1 or <size_t>memory_of(data, length) % width == 0:
            return data
        return self.loader.aligned(data, dtype)

    cdef object quantization(self, record, dtype, shape, count):
        """The Quantization that a QuantizationParameters record describes; None without scales."""
        cdef dict fields = record.__dict__
        cdef Py_ssize_t scales
        if fields["details"] is not None:
            return self.loader.detailed(record, count)
        scale, axis = fields["scale"], fields["quantized_dimension"]
        scales = 0 if scale is None else len(scale)
        if scales == 0:
            return None
        if scales > 1:
            if not 0 <= axis < len(<tuple>shape) or shape[axis] != scales:
                raise ValueError(f"{scales} scales along axis {axis} of shape {list(shape)}")
            if not all_finite(scale):
                raise ValueError("a scale is not finite")
        else:
            if not all_finite(scale):
                raise ValueError(f"its scale is {scale[0]}")
        return self.quantization_of((scale, zero_points(fields["zero_point"], scales, dtype), axis, 0, (), (), -1, -1,
                                     fields["min"], fields["max"], b""))


cdef object zero_points(zero_point, Py_ssize_t scales, dtype):
    """One zero point per scale: zeros if the file has none; a single zero point applies to all scales."""
    cdef Py_ssize_t count = 0 if zero_point is None else len(zero_point)
    if count == 0:
        return ZERO if scales == 1 else np.zeros(scales, np.int64)
    low, high = ZERO_POINTS.get(dtype, ANY_ZERO_POINT)
    beyond = zero_point.item(0) if count == 1 else first_beyond(zero_point, low, high)
    if beyond is not None and not low <= beyond <= high:
        raise ValueError(f"its zero point {beyond} lies outside {low} to {high}")
    if count == scales:
        return zero_point
    if count != 1:
        raise ValueError(f"{scales} scales, {count} zero points")
    return np.repeat(zero_point, scales)


cdef object first_beyond(numbers, int64_t low, int64_t high):
    """The first of the int64 numbers outside low..high, or None."""
    cdef Py_ssize_t count = len(numbers), i
    cdef const int64_t *values = <const int64_t *>memory_of(numbers, 8 * count)
    for i in range(count):
        if not low <= values[i] <= high:
            return values[i]
    return None


cdef bint all_finite(numbers) except -1:
    """Are all of the float32 numbers finite?"""
    cdef Py_ssize_t count = len(numbers), i
    cdef const float *values = <const float *>memory_of(numbers, 4 * count)
    cdef bint finite = True
    for i in range(count):
        finite &= values[i] - values[i] == 0        # the difference is NaN for infinity and NaN
    return finite
