"""Loads a file: checks the decoded tables for consistency, and makes the frozen records of a graph.Model of them."""
import math
import os
import stat
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from pylite import errors
from pylite._core.graph import records as graph_records
from pylite._core.graph.records import text
from pylite._core.run.memory import Pages, give_back
from pylite.ir import graph
from pylite.ir.graph import DTYPE_BITS, NUMPY_DTYPES, replace
from pylite.schema.quantization import detailed, fetch_scales
from pylite.schema.reader import read
from pylite.schema.tables import NO_OPTIONS, default_options, enum

if TYPE_CHECKING:
    from typing import Any

    Source = str | os.PathLike[str] | bytes | bytearray | memoryview

VERSION = 3
_CUSTOM = 32
_WIDTHS = {name: 1 if dtype.hasobject else dtype.itemsize for name, dtype in NUMPY_DTYPES.items()}
_NO_DATA = np.empty(0, np.uint8)
_NO_DATA.flags.writeable = False


def load(source: "Source") -> graph.Model:
    """The graph.Model in `source`: a path (the file is mapped, not read), Pages, or bytes.

    In a bundle (schema/bundle.py) it is the model that the path names, or the only one.  Trailing bytes are ignored.
    Raises ModelError (a ValueError), which says what is wrong with the file.
    """
    contents = contents_of(source)
    if bytes(memoryview(contents)[:4]) == b"PK\3\4":
        from pylite.schema import bundle  # lazy: few files are bundles
        contents = bundle.read(os.fsdecode(source) if isinstance(source, (str, os.PathLike)) else contents)
    return _Loader(read(contents, share=True), contents).model()


def contents_of(source: "Source") -> "Any":
    """The bytes of a source: itself, or the mapped pages of the file at this path."""
    if isinstance(source, (bytes, Pages)) or type(source).__module__ == "mmap":
        return source
    if isinstance(source, (bytearray, memoryview, np.ndarray)):
        return bytes(source)
    if not isinstance(source, (str, os.PathLike)):
        raise TypeError(f"a model is the path of a file or its bytes, not {type(source).__name__}")
    path = os.fspath(source)
    try:
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):
            what = _folder(path) if stat.S_ISDIR(mode) else "not a regular file"
            raise errors.ModelError(f"Could not open '{errors.shortened(path)}'. It is {what}")
        with open(path, "rb") as file:
            try:
                return Pages(os.fstat(file.fileno()).st_size, file.fileno())
            except OSError:     # an empty file, or a file system without mapping
                return file.read()
    except (OSError, ValueError) as error:
        if isinstance(error, errors.ModelError):
            raise
        if isinstance(error, NotADirectoryError):
            from pylite.schema import bundle
            member = bundle.split(os.fsdecode(path))
            if member is not None:
                return bundle.read(*member)
        raise errors.ModelError(f"Could not open '{errors.shortened(path)}'. "
                                f"{getattr(error, 'strerror', None) or error}{errors.looked_for(os.fsdecode(path))}"
                                ) from None


def _folder(path: "str | bytes") -> str:
    if os.path.isfile(os.path.join(os.fsdecode(path), "saved_model.pb")):
        return "a TensorFlow SavedModel; convert it with tf.lite.TFLiteConverter.from_saved_model()"
    return "a folder; give the path of a model in it"


def aligned(data, dtype):
    """The bytes `data` of elements of `dtype`, copied if the elements are not aligned in memory."""
    width = _WIDTHS[dtype]
    if width > 1:
        elements = data if len(data) % width == 0 else data[:len(data) // width * width]
        if not elements.view(NUMPY_DTYPES[dtype]).flags.aligned:
            file, data = data, data.copy()
            data.flags.writeable = False
            give_back(file)
    return data


class _Loader:
    """Turns the Record of a Model table into a graph.Model.  `where` arguments name a part of the file in errors."""

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
            metadata={text(entry.name): self.metadata(i, entry) for i, entry in enumerate(record.metadata or ())},
            description=text(record.description),
            version=record.version,
            contents=self.contents)

    def metadata(self, i, entry):
        if entry.buffer >= len(self.buffers):
            raise _invalid(f"metadata {i}", f"buffer {entry.buffer} of {len(self.buffers)}")
        data = self.buffers[entry.buffer].data
        return memoryview(b"" if data is None else data)

    def signature(self, i, signature, subgraphs):
        where = f"signature {i} {text(signature.signature_key)!r}"
        if signature.subgraph_index >= len(subgraphs):
            raise _invalid(where, f"subgraph {signature.subgraph_index} of {len(subgraphs)}")
        count = len(subgraphs[signature.subgraph_index].tensors)
        sides = []
        for side in (signature.inputs, signature.outputs):
            for entry in side or ():
                if entry.tensor_index >= count:
                    raise _invalid(where, f"{text(entry.name)!r} is tensor {entry.tensor_index} of {count}")
            sides.append({text(entry.name): entry.tensor_index for entry in side or ()})
        return graph.Signature(text(signature.signature_key), signature.subgraph_index, *sides)

    def subgraph(self, s, subgraph):
        where = f"subgraph {s}"
        records = subgraph.tensors or []
        count = len(records)
        inputs = subgraph.inputs or ()
        outputs = subgraph.outputs or ()
        for side, indices in (("inputs", inputs), ("outputs", outputs)):
            if indices and (min(indices) < 0 or max(indices) >= count):
                raise _invalid(where, f"its {side} {list(indices)} name tensors that it lacks (it has {count})")
        operators = self.operators(where, subgraph.operators or ())
        _check_operands(where, operators, count)
        tensors = self.tensors(where, records)
        _fill_empty(tensors, inputs, operators)
        try:
            fetch_scales(tensors)
        except ValueError as problem:
            raise _invalid(where, str(problem)) from None
        misplaced = graph_records.misordered(tensors, inputs, operators, graph)
        if misplaced is not None:
            op, index, does, why = misplaced
            raise _misordered(where, op, tensors[index], does, why)
        return graph.Subgraph(s, text(subgraph.name), tuple(tensors), inputs, outputs, operators)

    def operators(self, where, records):
        """The graph.Operators of the records."""
        def code(i, index):
            known = self.known_codes.get(index)
            if known is None:
                known = self.known_codes[index] = self.code(f"{where}, operator {i}", index)
            return known

        def invalid(i, name, what):
            return _invalid(f"{where}, operator {i} {name}", what)

        return tuple(graph_records.operators(records, code, graph.Operator.of, invalid))

    def code(self, where, index):
        """(name, number, is it custom?, version, Table of its options, default options) of an operator code."""
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
            return text(record.custom_code), number, True, record.version, None, NO_OPTIONS
        name = names[number] if number < len(names) else f"BUILTIN_{number}"
        options = default_options(name)
        return name, number, False, record.version, options.TABLE, options

    def tensors(self, where, records):
        """The graph.Tensors of the records, freed one by one, so that the garbage collector has less to scan."""
        tensors, count = [], len(records)
        make = graph_records.Tensors(self, graph, self.buffers, DTYPE_BITS, _WIDTHS).tensor
        try:
            for i in range(count):
                record, records[i] = records[i], None
                tensors.append(make(i, record, count))
        except ValueError as error:
            raise _invalid(f"{where}, tensor {i} {text(record.name)!r}", error) from None
        return tensors

    # ---- called by graph_records.Tensors for one tensor; they raise ValueError ------------------------------------
    aligned = staticmethod(aligned)
    detailed = staticmethod(detailed)

    @staticmethod
    def sparsity(record, rank):
        """The Sparsity of a record."""
        from pylite.schema.sparse import sparsity_of  # lazy: few models have sparse constants
        return sparsity_of(record, rank)

    @staticmethod
    def without_data(record):
        """The bytes of a tensor whose buffer is empty."""
        return None if record.sparsity is None else _NO_DATA        # sparse: all elements are 0

    @staticmethod
    def check_size(data, record, size):
        """Accept other than the `size` bytes of the shape only for strings, sparse data and types of no fixed size."""
        dtype = record.type
        if dtype == "string":
            from pylite.schema.encodings import string_positions  # lazy: few models have strings
            string_positions(data, math.prod(record.shape or ()))
        elif record.sparsity is None and DTYPE_BITS[dtype] and dtype != "resource":
            raise ValueError(f"its buffer {record.buffer} has {len(data)} bytes; shape {list(record.shape or ())} of "
                             f"{dtype} takes {size}")

    def external_buffer(self, number):
        known = self.external.get(number)
        groups = self.record.external_buffer_groups or ()
        if known is None or known.group >= len(groups):
            raise ValueError(f"unknown external buffer {number}")
        return graph.ExternalBuffer(text(groups[known.group].name), known.offset, known.length, text(known.packing))


# ---- a whole subgraph or model ---------------------------------------------------------------------------------
def _check_operands(where, operators, count):
    """Raise ModelError unless all operands are tensors of the subgraph, or -1."""
    every = [indices for op in operators for indices in (op.inputs, op.outputs, op.intermediates)]
    used = set().union(*every)
    if used and (min(used) < -1 or max(used) >= count):
        for position, indices in enumerate(every):
            if indices and (min(indices) < -1 or max(indices) >= count):
                op = operators[position // 3]
                raise _invalid(f"{where}, operator {op.index} {op.name}", f"operands {list(indices)[:20]} name tensors "
                               f"that the subgraph lacks (it has {count})")


def _fill_empty(tensors, inputs, operators):
    """Make tensors without elements that nothing computes empty constants: files store no bytes for them."""
    empty = [t for t in tensors if 0 in t.shape and t.data is None and t.buffer and not t.is_variable]
    if empty:
        computed = set(inputs).union(*(op.outputs for op in operators))
        for t in empty:
            if t.index not in computed and -1 not in t.shape_signature:
                tensors[t.index] = replace(t, data=_NO_DATA)


def _misordered(where, op, tensor, does, why):
    return _invalid(f"{where}, operator {op.index} {op.name}",
                    f"it {does} tensor {tensor.index} {tensor.name!r}, {why}")


def _check_calls(subgraphs):
    """Raise ModelError unless all called subgraphs exist, and none calls itself, directly or through others."""
    calls = [_calls(subgraph, len(subgraphs)) for subgraph in subgraphs]
    waits, callers = [len(called) for called in calls], [[] for _ in calls]
    for i, called in enumerate(calls):
        for index in called:
            callers[index].append(i)
    ready = [i for i, count in enumerate(waits) if not count]
    while ready:
        for i in callers[ready.pop()]:
            waits[i] -= 1
            if not waits[i]:
                ready.append(i)
    left = [i for i, count in enumerate(waits) if count]
    if left:
        raise _invalid(f"subgraphs {left[:20]}", "they call each other in a circle")


def _calls(subgraph, count):
    """The indices of subgraphs, of `count`, that the operators of this one call."""
    called = set()
    if not any(map(_subgraph_fields, {op.options.TABLE for op in subgraph.operators})):
        return called
    for op in subgraph.operators:
        for name in _subgraph_fields(op.options.TABLE):
            value = getattr(op.options, name)
            for index in value if isinstance(value, tuple) else (value,):
                if not 0 <= (index or 0) < count:
                    raise _invalid(f"subgraph {subgraph.index}, operator {op.index} {op.name}",
                                   f"{name} is {index}; the model has {count} subgraphs")
                called.add(index or 0)
    return called


@cache
def _subgraph_fields(kind):
    return tuple(name for name in kind.defaults if name.endswith(("subgraph_index", "subgraph_indices", "subgraph")))


def _invalid(where, what):
    return errors.ModelError(f"The model is not valid: {where}: {what}")
