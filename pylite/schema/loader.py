"""From a file to its graph: what the tables say, checked for sense and put into frozen records."""
import math
import os
import stat
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from pylite._core.decoder import all_finite, first_beyond
from pylite._core.memory import Pages
from pylite.errors import ModelError
from pylite.ir import graph
from pylite.ir.graph import DTYPE_BITS, NUMPY_DTYPES, packed_size, replace
from pylite.schema.reader import read
from pylite.schema.tables import NO_OPTIONS, default_options, enum

if TYPE_CHECKING:
    from typing import Any

    Source = str | os.PathLike[str] | bytes | bytearray | memoryview

VERSION = 3
_MOST_BYTES = 1 << 47         # of one tensor: no machine addresses more
_CUSTOM = 32
_ZERO = np.zeros(1, np.int64)
_ZERO.flags.writeable = False
_WIDTHS = {name: 1 if dtype.hasobject else dtype.itemsize for name, dtype in NUMPY_DTYPES.items()}
_NO_SCALES = np.empty(0, np.float32)
_NO_DATA = np.empty(0, np.uint8)
_NO_DATA.flags.writeable = False
_ZERO_POINTS = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-2**15, 2**15 - 1), "uint16": (0, 2**16 - 1),
                "int4": (-8, 7), "uint4": (0, 15), "int2": (-2, 1)}
_ANY_ZERO_POINT = -2**31, 2**31 - 1


def load(source: "Source") -> graph.Model:
    """The graph.Model in `source`: a path (str or os.PathLike; the file is mapped, not read) or the file's bytes.

    Raises ModelError (a ValueError) that says what is wrong with the file.  Trailing bytes are accepted.
    """
    contents = _contents(source)
    return _Loader(read(contents), contents).model()


def _contents(source: "Source") -> "Any":
    if isinstance(source, bytes) or type(source).__module__ == "mmap":
        return source
    if isinstance(source, (bytearray, memoryview, np.ndarray)):
        return bytes(source)
    path = os.fspath(source)
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise ModelError(f"Could not open '{path}'. It is not a regular file")
        with open(path, "rb") as file:
            try:
                return Pages(os.fstat(file.fileno()).st_size, file.fileno())
            except OSError:     # an empty file, or a file system without mapping
                return file.read()
    except (OSError, ValueError) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(f"Could not open '{path}'. {getattr(error, 'strerror', None) or error}") from None


class _Loader:
    def __init__(self, record, contents):
        self.record = record
        self.contents = memoryview(contents)
        self.buffers = record.buffers or []
        self.codes = record.operator_codes or []
        self.known_codes = {}
        self.external = {b.id: b for b in record.external_buffers or ()}

    def model(self):
        record = self.record
        if record.version != VERSION:
            raise _invalid("the model", f"schema version {record.version}; only version {VERSION} is known")
        if not record.subgraphs:
            raise _invalid("the model", "no subgraph")
        subgraphs = tuple(self.subgraph(s, subgraph) for s, subgraph in enumerate(record.subgraphs))
        _check_calls(subgraphs)
        return graph.Model(
            subgraphs=subgraphs,
            signatures=tuple(self.signature(i, s, subgraphs) for i, s in enumerate(record.signature_defs or ())),
            metadata={_text(entry.name): self.metadata(i, entry) for i, entry in enumerate(record.metadata or ())},
            description=_text(record.description),
            version=record.version,
            contents=self.contents)

    def metadata(self, i, entry):
        if entry.buffer >= len(self.buffers):
            raise _invalid(f"metadata {i}", f"buffer {entry.buffer} of {len(self.buffers)}")
        data = self.buffers[entry.buffer].data
        return memoryview(b"" if data is None else data)

    def signature(self, i, signature, subgraphs):
        where = f"signature {i} {_text(signature.signature_key)!r}"
        if signature.subgraph_index >= len(subgraphs):
            raise _invalid(where, f"subgraph {signature.subgraph_index} of {len(subgraphs)}")
        count = len(subgraphs[signature.subgraph_index].tensors)
        sides = []
        for side in (signature.inputs, signature.outputs):
            for entry in side or ():
                if entry.tensor_index >= count:
                    raise _invalid(where, f"{_text(entry.name)!r} is tensor {entry.tensor_index} of {count}")
            sides.append({_text(entry.name): entry.tensor_index for entry in side or ()})
        return graph.Signature(_text(signature.signature_key), signature.subgraph_index, *sides)

    def subgraph(self, s, subgraph):
        where = f"subgraph {s}"
        records = subgraph.tensors or []
        count = len(records)
        inputs = subgraph.inputs or ()
        outputs = subgraph.outputs or ()
        for side, indices in (("inputs", inputs), ("outputs", outputs)):
            if indices and (min(indices) < 0 or max(indices) >= count):
                raise _invalid(where, f"its {side} {list(indices)} name tensors that it lacks (it has {count})")
        operators = tuple([self.operator(where, i, op, count) for i, op in enumerate(subgraph.operators or ())])
        tensors = [self.tensor(where, i, t, count) for i, t in enumerate(records)]
        _fill_empty(tensors, inputs, operators)
        _fetch_scales(tensors)
        _check_order(where, tensors, inputs, operators)
        return graph.Subgraph(s, _text(subgraph.name), tuple(tensors), inputs, outputs, operators)

    def operator(self, where, i, op, count):
        known = self.known_codes.get(op.opcode_index)
        if known is None:
            known = self.known_codes[op.opcode_index] = self.code(f"{where}, operator {i}", op.opcode_index)
        name, code, custom, version, table, default = known
        inputs, outputs, intermediates = op.inputs or (), op.outputs or (), op.intermediates or ()
        for indices in (inputs, outputs, intermediates):
            if indices and (min(indices) < -1 or max(indices) >= count):
                raise _invalid(f"{where}, operator {i} {name}", f"operands {list(indices)[:20]} name tensors that "
                               f"the subgraph lacks (it has {count})")
        if not custom:
            for tensor in outputs:
                if tensor >= 0 and tensor in inputs:
                    raise _invalid(f"{where}, operator {i} {name}", f"tensor {tensor} is both input and output")
        options = op.builtin_options
        if options is None or options.TABLE is not table:
            options = op.builtin_options2
            if options is None or options.TABLE is not table:
                options = default
        data = op.custom_options
        return graph.Operator.of((i, name, code, custom, version, inputs, outputs, options, intermediates,
                                  b"" if data is None else data.tobytes()))

    def code(self, where, index):
        """(name, number, custom?, version, the Table of its options, default options) of an operator code."""
        if index >= len(self.codes):
            raise _invalid(where, f"operator code {index} of {len(self.codes)}")
        record = self.codes[index]
        names = enum("BuiltinOperator")
        number = record.builtin_code
        number = max(record.deprecated_builtin_code, names.index(number) if isinstance(number, str) else number)
        if number < 0:
            raise _invalid(where, f"operator code {index} has the negative number {number}")
        if number == _CUSTOM:
            if not record.custom_code:
                raise _invalid(where, f"operator code {index} is CUSTOM but has no custom code")
            return _text(record.custom_code), number, True, record.version, None, NO_OPTIONS
        name = names[number] if number < len(names) else f"BUILTIN_{number}"
        options = default_options(name)
        return name, number, False, record.version, options.TABLE, options

    def tensor(self, where, i, record, count):
        dtype, shape = record.type, record.shape or ()
        if dtype not in DTYPE_BITS:
            raise _invalid_tensor(where, i, record, f"unknown data type {dtype}")
        size = packed_size(dtype, shape) or 0
        if shape and (min(shape) < 0 or size > _MOST_BYTES):
            raise _invalid_tensor(where, i, record, f"impossible shape {list(shape)}")
        signature = record.shape_signature
        if not signature:
            signature = shape
        elif len(signature) != len(shape):
            raise _invalid_tensor(where, i, record, f"shape {list(shape)}, shape signature {list(signature)}")
        sparsity = record.sparsity and self.sparsity(where, i, record)
        quantization = record.quantization
        if quantization is not None:
            quantization = self.quantization(where, i, record, shape, count)
        return graph.Tensor.of((
            i, _text(record.name), dtype, shape, signature, self.data(where, i, record, size), quantization,
            record.is_variable, sparsity, record.has_rank,
            tuple((v.type, v.shape or ()) for v in record.variant_tensors) if record.variant_tensors else (),
            record.buffer, self.external_buffer(where, i, record) if record.external_buffer else None))

    def data(self, where, i, record, size):
        """The constant's bytes, checked against its shape and aligned for its type, or None."""
        number, dtype = record.buffer, record.type
        if not number:
            return None
        if number >= len(self.buffers):
            raise _invalid_tensor(where, i, record, f"buffer {number} of {len(self.buffers)}")
        data = self.buffers[number].data
        if data is None or not len(data):
            return None
        if dtype == "string":
            from pylite.schema.encodings import string_positions  # seldom wanted
            try:
                string_positions(data, math.prod(record.shape or ()))
            except ValueError as error:
                raise _invalid_tensor(where, i, record, str(error)) from None
        elif len(data) != size and record.sparsity is None and DTYPE_BITS[dtype] and dtype != "resource":
            raise _invalid_tensor(where, i, record, f"its buffer {number} has {len(data)} bytes; shape "
                                  f"{list(record.shape or ())} of {dtype} takes {size}")
        width = _WIDTHS[dtype]
        if width > 1:
            whole = data if len(data) % width == 0 else data[:len(data) // width * width]
            if not whole.view(NUMPY_DTYPES[dtype]).flags.aligned:
                data = data.copy()
                data.flags.writeable = False
        return data

    def external_buffer(self, where, i, record):
        known = self.external.get(record.external_buffer)
        groups = self.record.external_buffer_groups or ()
        if known is None or known.group >= len(groups):
            raise _invalid_tensor(where, i, record, f"unknown external buffer {record.external_buffer}")
        return graph.ExternalBuffer(_text(groups[known.group].name), known.offset, known.length, _text(known.packing))

    def quantization(self, where, i, record, shape, count):
        q = record.quantization
        scale, zero_point, axis, details = q.scale, q.zero_point, q.quantized_dimension, q.details
        scales = 0 if scale is None else len(scale)
        zero_points = 0 if zero_point is None else len(zero_point)
        if details is None:
            if not scales:
                return None
            if scales == 1:
                if not math.isfinite(scale[0]):
                    raise _invalid_tensor(where, i, record, f"its scale is {scale[0]}")
            elif not 0 <= axis < len(shape) or shape[axis] != scales:
                raise _invalid_tensor(where, i, record, f"{scales} scales along axis {axis} of shape {list(shape)}")
            elif not all_finite(scale):
                raise _invalid_tensor(where, i, record, "a scale is not finite")
            if not zero_points:
                zero_point = _ZERO if scales == 1 else np.zeros(scales, np.int64)
            else:
                low, high = _ZERO_POINTS.get(record.type, _ANY_ZERO_POINT)
                beyond = first_beyond(zero_point, low, high)
                if beyond is not None:
                    raise _invalid_tensor(where, i, record, f"its zero point {beyond} lies outside {low} to {high}")
                if zero_points != scales:
                    if zero_points != 1:
                        raise _invalid_tensor(where, i, record, f"{scales} scales, {zero_points} zero points")
                    zero_point = np.repeat(zero_point, scales)
            return graph.Quantization.of((scale, zero_point, axis, 0, (), (), -1, -1, q.min, q.max, b""))
        kind = details.TABLE.name
        known = {"min": q.min, "max": q.max}
        if kind == "CustomQuantization":
            known["custom"] = b"" if details.custom is None else details.custom.tobytes()
        else:
            known |= {"block_size": details.block_size, "scale_tensor": details.scales,
                      "zero_point_tensor": details.zero_points}
            if not (0 <= details.scales < count and -1 <= details.zero_points < count and details.block_size >= 0):
                raise _invalid_tensor(where, i, record, f"scales in tensor {details.scales}, zero points in tensor "
                                      f"{details.zero_points}, blocks of {details.block_size}")
            if kind == "BlockwiseQuantization":
                known["block_shape"] = details.block_shape or ()
            else:
                known["axes"] = details.quantized_dimensions or ()
        return graph.Quantization(_NO_SCALES if scale is None else scale,
                                  _ZERO[:0] if zero_point is None else zero_point, axis, **known)

    def sparsity(self, where, i, record):
        from pylite.schema.sparse import sparsity_of  # seldom wanted
        try:
            return sparsity_of(record.sparsity, len(record.shape or ()))
        except ValueError as error:
            raise _invalid_tensor(where, i, record, str(error)) from None


def _fill_empty(tensors, inputs, operators):
    """Give tensors without elements, that nothing computes, their (empty) constant: files store no bytes for them."""
    empty = [t for t in tensors if 0 in t.shape and t.data is None and t.buffer and not t.is_variable]
    if empty:
        computed = set(inputs).union(*(op.outputs for op in operators))
        for t in empty:
            if t.index not in computed and -1 not in t.shape_signature:
                tensors[t.index] = replace(t, data=_NO_DATA)


def _check_order(where, tensors, inputs, operators):
    """Each tensor must have one source (the caller, the file or one operator), and have it before it is read."""
    ready = {t.index for t in tensors if t.data is not None or t.external is not None}
    ready.update(inputs)
    variables = {t.index for t in tensors if t.is_variable}
    for op in operators:
        for index in op.inputs:
            if index >= 0 and index not in ready and index not in variables and 0 not in tensors[index].shape:
                raise _invalid(f"{where}, operator {op.index} {op.name}", f"it reads tensor {index} "
                               f"{tensors[index].name!r}, which nothing has computed")
        for index in op.outputs:
            if index >= 0 and index in ready and index not in variables:
                raise _invalid(f"{where}, operator {op.index} {op.name}", f"it writes tensor {index} "
                               f"{tensors[index].name!r}, which is an input, a constant or another operator's output")
            ready.add(index)


def _fetch_scales(tensors):
    """Copy scales and zero points that lie in tensors of their own to the tensors that they are for."""
    for t in tensors:
        q = t.quantization
        if q is not None and q.scale_tensor >= 0:
            scale = _numbers(tensors[q.scale_tensor], ("float16", "float32"), q.scale)
            zero_point = q.zero_point
            if q.zero_point_tensor >= 0:
                zero_point = _numbers(tensors[q.zero_point_tensor], ("int8", "int16", "int32", "int64"), zero_point)
            tensors[t.index] = replace(t, quantization=replace(q, scale=scale, zero_point=zero_point))


def _numbers(tensor, dtypes, default):
    """A constant's elements in `default`'s dtype, or `default` when they are not known or of no fitting type."""
    if tensor.data is None or tensor.dtype not in dtypes:
        return default
    return tensor.data.view(tensor.dtype).astype(default.dtype)


def _check_calls(subgraphs):
    """Subgraphs that operators call must exist, and must not call themselves, directly or through others."""
    calls: list[set[int]] = [set() for _ in subgraphs]
    for subgraph in subgraphs:
        for op in subgraph.operators:
            for name in _subgraph_fields(op.options.TABLE):
                called = getattr(op.options, name)
                for index in called if isinstance(called, tuple) else (called,):
                    if not 0 <= (index or 0) < len(subgraphs):
                        raise _invalid(f"subgraph {subgraph.index}, operator {op.index} {op.name}",
                                       f"{name} is {index}; the model has {len(subgraphs)} subgraphs")
                    calls[subgraph.index].add(index or 0)
    finished: set[int] = set()
    while len(finished) < len(subgraphs):
        ready = {i for i, called in enumerate(calls) if i not in finished and called <= finished}
        if not ready:
            left = sorted(set(range(len(subgraphs))) - finished)
            raise _invalid(f"subgraphs {left[:20]}", "they call each other in a circle")
        finished |= ready


@cache
def _subgraph_fields(kind):
    return tuple(name for name in kind.defaults if name.endswith(("subgraph_index", "subgraph_indices", "subgraph")))


def _text(name):
    """A name for people: bytes that are not UTF-8 are shown as escapes."""
    if not name or name.isascii():
        return name or ""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _invalid(where, text):
    return ModelError(f"The model is not valid: {where}: {text}")


def _invalid_tensor(where, i, record, text):
    return _invalid(f"{where}, tensor {i} {_text(record.name)!r}", text)
