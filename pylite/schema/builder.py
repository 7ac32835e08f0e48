"""ModelBuilder makes a .tflite model in a few lines, tensor by tensor and operator by operator."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pylite.ir.graph import DTYPE_BITS, NUMPY_DTYPES, packed_size
from pylite.schema.encodings import pack
from pylite.schema.tables import enum_numbers, options_table, table, union
from pylite.schema.writer import write

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from numpy.typing import ArrayLike, DTypeLike

    from pylite.schema.tables import Record

_FIRST_VERSIONS = {"BROADCAST_TO": 2}      # operators whose first version is not 1
_MAX_OLD_CODE = 127                        # deprecated_builtin_code is an int8


class ModelBuilder:
    """Builds a model: `tensor`, `constant` and `operator` add to the current subgraph and return indices.

        m = ModelBuilder()
        x = m.tensor("x", (1, 8, 8, 3), "int8", scale=0.5, zero_point=3)
        w = m.constant("w", weights, scale=scales, axis=0)
        y = m.tensor("y", (1, 8, 8, 4), "int8", scale=0.25)
        m.operator("CONV_2D", [x, w, b], [y], padding="SAME", stride_w=1, stride_h=1)
        m.inputs([x])
        m.outputs([y])
        data = m.build()
    """

    def __init__(self, description: str = "") -> None:
        self._model = table("Model")(version=3, description=description, buffers=[table("Buffer")()],
                                     operator_codes=[], subgraphs=[], metadata=[], signature_defs=[])
        self._codes: dict[tuple[str, int], int] = {}
        self._current: Any = None
        self.subgraph("main")

    def subgraph(self, name: str) -> int:
        """Start another subgraph, unless the current one is still empty; returns the index of the current one."""
        if self._current is None or self._current.tensors or self._current.operators:
            self._current = table("SubGraph")(tensors=[], operators=[], inputs=(), outputs=())
            self._model.subgraphs.append(self._current)
        self._current.name = name
        return len(self._model.subgraphs) - 1

    def tensor(self, name: str, shape: Iterable[int | None], dtype: DTypeLike = "float32",
               scale: ArrayLike | None = None, zero_point: ArrayLike = 0, axis: int = 0,
               shape_signature: Sequence[int] | None = None, variable: bool = False, **fields: Any) -> int:
        """Add a tensor; return its index.

        shape: an unknown size, None or -1, is stored as 1, and as -1 in the signature; dtype: a name or numpy's type;
        scale, zero_point: one for the tensor, or one for each index along `axis`; fields: other fields of the Tensor
        table.
        """
        shape = tuple(-1 if n is None else int(n) for n in shape)
        if -1 in shape:
            shape_signature = shape if shape_signature is None else shape_signature
            shape = tuple(1 if n == -1 else n for n in shape)
        if not isinstance(dtype, str):
            dtype = np.dtype(dtype).name
        if dtype not in DTYPE_BITS:
            raise ValueError(f"unknown data type {dtype!r}; known: {', '.join(DTYPE_BITS)}")
        record = table("Tensor")(name=name, shape=shape, type=dtype, is_variable=bool(variable), **fields)
        if shape_signature is not None:
            record.shape_signature = tuple(shape_signature)
        if scale is not None:
            scale = np.atleast_1d(np.asarray(scale, np.float32))
            zero_point = np.broadcast_to(np.asarray(zero_point, np.int64), scale.shape)
            record.quantization = table("QuantizationParameters")(scale=scale, zero_point=zero_point,
                                                                  quantized_dimension=axis)
        self._current.tensors.append(record)
        return len(self._current.tensors) - 1

    def constant(self, name: str, array: ArrayLike, scale: ArrayLike | None = None, zero_point: ArrayLike = 0,
                 axis: int = 0, dtype: str | None = None, **fields: Any) -> int:
        """Add a constant tensor; return its index.

        dtype: by default the array's; "int4", "int2" and "uint4" are packed, str and bytes become strings; for types
        that numpy lacks the array has integers with their bits.
        """
        array = np.asarray(array)
        if dtype is None:
            dtype = "string" if array.dtype.kind in "OSU" else array.dtype.name
        if dtype != "string" and DTYPE_BITS.get(dtype, 8) is not None:
            array = array.astype(NUMPY_DTYPES.get(dtype), copy=False)
        index = self.tensor(name, array.shape, dtype, scale, zero_point, axis, **fields)
        self._current.tensors[index].buffer = self.buffer(pack(array, dtype))
        return index

    def buffer(self, data: Any) -> int:
        """Add a buffer to the model; return its number."""
        data = data if isinstance(data, np.ndarray) else np.frombuffer(data, np.uint8)
        self._model.buffers.append(table("Buffer")(data=data))
        return len(self._model.buffers) - 1

    def operator(self, name: str, /, inputs: Sequence[int | None], outputs: Sequence[int], version: int | None = None,
                 custom_options: bytes | dict[str, Any] | None = None,
                 intermediates: Sequence[int | None] = (),
                 **options: Any) -> int:
        """Add an operator; return its index.

        name: of a builtin operator, or a custom code, which needs `custom_options`: bytes, which may be empty, or a
        dict, which becomes a FlexBuffer; inputs: tensor indices, None or -1 for an absent one; options: fields of the
        options table, enumerations by name or number.
        """
        record = table("Operator")(inputs=_indices(inputs), outputs=_indices(outputs))
        if intermediates:
            record.intermediates = _indices(intermediates)
        builtin = enum_numbers("BuiltinOperator").get(name)
        if builtin is None and custom_options is None:
            raise ValueError(f"there is no builtin operator {name!r}; a custom one needs custom_options, b'' if none")
        if isinstance(custom_options, dict):
            from flatbuffers import flexbuffers  # few models have such options
            custom_options = bytes(flexbuffers.Dumps(custom_options))
        if custom_options is not None:
            record.custom_options = np.frombuffer(custom_options, np.uint8)
        record.opcode_index = self._code(name, builtin, version or _FIRST_VERSIONS.get(name, 1))
        options_name = options_table(name)
        if options_name:
            value = table(options_name)(**options)
            if options_name in union("BuiltinOptions"):
                record.builtin_options = value
            else:
                record.builtin_options2 = value
        elif options:
            raise TypeError(f"{name} has no options; got {', '.join(options)}")
        self._current.operators.append(record)
        return len(self._current.operators) - 1

    def inputs(self, indices: Iterable[int]) -> None:
        """Set the current subgraph's inputs."""
        self._current.inputs = _indices(indices)

    def outputs(self, indices: Iterable[int]) -> None:
        """Set the current subgraph's outputs."""
        self._current.outputs = _indices(indices)

    def signature(self, key: str, inputs: Mapping[str, int], outputs: Mapping[str, int]) -> None:
        """Name the current subgraph's inputs and outputs: {name: tensor index}."""
        sides = [[table("TensorMap")(name=name, tensor_index=int(index)) for name, index in side.items()]
                 for side in (inputs, outputs)]
        self._model.signature_defs.append(table("SignatureDef")(
            signature_key=key, subgraph_index=self._model.subgraphs.index(self._current), inputs=sides[0],
            outputs=sides[1]))

    def metadata(self, name: str, data: Any) -> None:
        """Attach named bytes to the model."""
        self._model.metadata.append(table("Metadata")(name=name, buffer=self.buffer(data)))

    @property
    def record(self) -> Record:
        """The Model table as built so far, to set fields for which there is no method."""
        return self._model

    def build(self, outside: bool = False) -> bytes:
        """The model as bytes.  outside: write constants after the flatbuffer, instead of in it."""
        for subgraph in self._model.subgraphs:
            for record in subgraph.tensors:
                data = self._model.buffers[record.buffer].data
                size = packed_size(record.type, record.shape)
                if data is not None and size is not None and record.sparsity is None and len(data) != size:
                    raise ValueError(f"tensor {record.name!r}: {len(data)} bytes for shape {list(record.shape)} of "
                                     f"{record.type}, which takes {size}")
        return write(self._model, outside)

    def _code(self, name: str, builtin: int | None, version: int) -> int:
        key = name, version
        if key not in self._codes:
            self._codes[key] = len(self._model.operator_codes)
            code = table("OperatorCode")(version=version)
            if builtin is None:
                code.custom_code = name
                code.builtin_code = "CUSTOM"
            else:
                code.builtin_code = name
            code.deprecated_builtin_code = min(enum_numbers("BuiltinOperator")[code.builtin_code], _MAX_OLD_CODE)
            self._model.operator_codes.append(code)
        return self._codes[key]


def _indices(indices: Iterable[int | None]) -> tuple[int, ...]:
    return tuple(-1 if i is None else int(i) for i in indices)
