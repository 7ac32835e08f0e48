"""A quantized model with new ranges, weights and biases, and the same graph: in memory, and as a file.

Changes has the new numbers as real numbers; Requantizer quantizes them, and everything that depends on them: the scale
of a bias is the scale of the node's input times that of its weights, and constants that share the grid of an activation
get the new grid.
"""
from __future__ import annotations

import copy
import hashlib
from dataclasses import dataclass, field
from dataclasses import replace as replaced
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from pylite.ir.graph import NUMPY_DTYPES, Quantization, replace
from pylite.runtime.model import Model
from pylite.schema import read, write
from pylite.schema.tables import table
from pylite.validation.files import with_attached
from pylite.validation.weights import WEIGHT_OPS
from pylite.validation.widening import dequantized

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from numpy.typing import NDArray

    from pylite.ir.graph import Operator, Tensor

BIAS_LIMIT = 0.5            # share of its type's range that a bias may take: the sums of products need the rest
PER_CHANNEL = {"FULLY_CONNECTED": 12}       # first version of an operator that takes a scale for each channel


@dataclass(frozen=True)
class RealWeights:
    """A node's weights as real numbers, and how to quantize them.

    values: float64, in the shape of the file's tensor; scale: float64, one for each channel or a single one;
    zero_point: for all channels, 0 unless the type is uint8.
    """
    values: NDArray[Any]
    scale: NDArray[Any]
    zero_point: int = 0

    @classmethod
    def fitted(cls, values: NDArray[Any], axis: int, dtype: str, channels: bool) -> RealWeights:
        """The RealWeights with the smallest scales that represent the values.

        axis: of the output channels; channels: make a scale for each channel (int8 only).
        """
        if dtype == "uint8":
            low, high = min(0.0, values.min(initial=0)), max(0.0, values.max(initial=0))
            scale = (high - low) / 255 or 1.0
            return cls(values, np.array([scale]), int(np.rint(-low / scale)))
        magnitude = np.abs(np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)).max(1, initial=0)
        if not channels:
            magnitude = magnitude.max(keepdims=True, initial=0)
        magnitude[magnitude == 0] = magnitude.max(initial=0) or 1.0
        return cls(values, magnitude / np.iinfo(dtype).max)

    def along(self, axis: int) -> NDArray[Any]:
        """The scale, in a shape that broadcasts with `values`; axis: of the channels."""
        return self.scale.reshape([-1 if i == axis and self.scale.size > 1 else 1 for i in range(self.values.ndim)])

    def rounded(self, axis: int) -> NDArray[Any]:
        """The real numbers that the quantized weights represent."""
        return np.rint(self.values / self.along(axis)) * self.along(axis)

    @cached_property
    def digest(self) -> str:
        """A digest of these weights, the same in every process."""
        return _digest(self.values, self.scale, self.zero_point)


@dataclass(frozen=True)
class Changes:
    """Changes to a quantized model, in real numbers.

    grids: {tensor: (scale, zero point)}; weights: {node: RealWeights}; biases: {node: real numbers by channel}
    constants: {constant that shares the grid of activations: real numbers}
    """
    grids: Mapping[int, tuple[float, int]] = field(default_factory=dict)
    weights: Mapping[int, RealWeights] = field(default_factory=dict)
    biases: Mapping[int, NDArray[Any]] = field(default_factory=dict)
    constants: Mapping[int, NDArray[Any]] = field(default_factory=dict)

    def merged(self, *others: Changes) -> Changes:
        """These changes, replaced by those of `others` where they have the same keys; the last one wins."""
        names = "grids", "weights", "biases", "constants"
        return Changes(*({key: value for part in (self, *others) for key, value in getattr(part, name).items()}
                         for name in names))

    def digest(self) -> str:
        """A digest of these changes, the same in every process."""
        return _digest(*sorted(self.grids.items()), *((node, w.digest) for node, w in sorted(self.weights.items())),
                       *(part for arrays in (self.biases, self.constants) for part in ("", *(
                          field for item in sorted(arrays.items(), key=lambda item: item[0]) for field in item))))


class Requantizer:
    """Applies Changes to a model, in memory (model()) and in its file (written()).

    nodes: {node with weights: the WeightOp of its operands}; weights(), bias(): these operands as the file has them
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._graph = graph = model.graph.subgraphs[0]
        self.nodes = {o.index: WEIGHT_OPS[o.name] for o in graph.operators if o.name in WEIGHT_OPS}
        self._kept: set[int] = set(graph.outputs)      # constants that something else reads as they are
        for operator in graph.operators:
            op = self.nodes.get(operator.index)
            own = () if op is None else (op.weights, op.bias)
            self._kept |= {i for k, i in enumerate(operator.inputs) if k not in own}

    def bias(self, node: int) -> NDArray[Any] | None:
        """The real numbers of a node's bias in the file; None if there is no constant bias."""
        tensor = self._operand(self._graph.operators[node], self.nodes[node].bias)
        return None if tensor is None or tensor.data is None else dequantized(self._model, tensor)

    def weights(self, node: int) -> Tensor | None:
        """The tensor of a node's constant 8-bit weights in the file.

        None for other weights, and for weights that are sparse, or quantized in blocks or along another axis.
        """
        tensor = self._operand(self._graph.operators[node], self.nodes[node].weights)
        if tensor is None or tensor.data is None or tensor.dtype not in ("int8", "uint8"):
            return None
        q = tensor.quantization
        axis = self.nodes[node].axis
        plain = q is not None and not q.block_size and not q.block_shape and not q.axes and tensor.sparsity is None
        return tensor if plain and q is not None and (
            q.scale.size == 1 or (q.axis == axis and q.scale.size == tensor.shape[axis])) else None

    def _operand(self, operator: Operator, position: int) -> Tensor | None:
        if len(operator.inputs) <= position or operator.inputs[position] < 0:
            return None
        return self._graph.tensors[operator.inputs[position]]

    def model(self, changes: Changes) -> Model:
        """The Model with these changes."""
        tensors, operators, _ = self._changed(changes)
        graph = replace(self._graph, tensors=tuple(tensors), operators=tuple(operators))
        others = self._model.graph.subgraphs[1:]
        return Model(self._model.graph.contents, replace(self._model.graph, subgraphs=(graph, *others)))

    def _changed(self, changes: Changes) -> tuple[list[Tensor], list[Operator], dict[int, int]]:
        """(tensors, operators, {new tensor: the tensor of the file that it replaces for some readers})"""
        tensors, operators = list(self._graph.tensors), list(self._graph.operators)
        for index, (scale, zero_point) in changes.grids.items():
            tensors[index] = _with_grid(tensors[index], [scale], [zero_point])
        for index, values in changes.constants.items():
            tensor = tensors[index]
            q = tensor.quantization
            assert q is not None
            tensors[index] = _with_values(tensor, values / float(q.scale[0]) + int(q.zero_point[0]))
        places: dict[tuple[int, bytes, bytes], int] = {}
        copies: dict[int, int] = {}
        for node in self.nodes:
            for position, tensor in self._constants(node, changes, tensors):
                original = operators[node].inputs[position]
                key = original, *_contents(tensor)
                if key not in places:
                    free = original not in self._kept and all(k[0] != original for k in places)
                    places[key] = original if free else len(tensors)
                    if not free:
                        copies[len(tensors)] = original
                        tensors.append(tensor)
                    tensors[places[key]] = replace(tensor, index=places[key])
                inputs = list(operators[node].inputs)
                inputs[position] = places[key]
                operators[node] = replace(operators[node], inputs=tuple(inputs))
        return tensors, operators, copies

    def _constants(self, node: int, changes: Changes, tensors: list[Tensor]) -> Iterator[tuple[int, Tensor]]:
        """(position of the operand, its tensor) for a node's weights and bias with `changes`.

        tensors: those of the graph, with the new grids.
        """
        operator, op = self._graph.operators[node], self.nodes[node]
        source, weights = tensors[operator.inputs[op.data]], tensors[operator.inputs[op.weights]]
        bias, real = self._operand(operator, op.bias), changes.biases.get(node, self.bias(node))
        if node in changes.weights:
            weights = self._rounded(node, changes.weights[node], source, bias, real)
        if weights.data is not None:
            yield op.weights, weights
        if bias is None or bias.data is None or real is None:
            return
        moved = any(operator.inputs[k] in changes.grids for k in (op.data, op.weights))
        if bias.dtype == "float32" and node in changes.biases:
            bias = _with_data(bias, real.astype(np.float32))
        elif bias.dtype != "float32" and (node in changes.biases or node in changes.weights or moved):
            assert source.quantization is not None and weights.quantization is not None
            step = source.quantization.scale * weights.quantization.scale
            bias = _with_values(_with_grid(bias, step, np.zeros(step.size, np.int64)),
                                real.reshape(bias.shape) / step.astype(np.float64))
        yield op.bias, bias

    def _rounded(self, node: int, new: RealWeights, source: Tensor, bias: Tensor | None,
                 real: NDArray[Any] | None) -> Tensor:
        """The tensor of a node's new weights.

        source: the tensor that the node multiplies them with; bias, real: its bias, and the bias's real numbers.
        """
        tensor, axis = self.weights(node), self.nodes[node].axis
        assert tensor is not None and tensor.quantization is not None
        scale = np.asarray(new.scale, np.float32)
        if real is not None and bias is not None and bias.dtype != "float32" and source.quantization is not None:
            scale = _wide_enough(scale, real, source.quantization.scale, bias.dtype)
        new = replaced(new, scale=scale.astype(np.float64))
        quantization = Quantization(scale, np.full(scale.size, new.zero_point, np.int64),
                                    axis if scale.size > 1 else tensor.quantization.axis)
        return _with_values(replace(tensor, quantization=quantization), new.values / new.along(axis) + new.zero_point,
                            narrow=tensor.dtype == "int8")

    def written(self, changes: Changes) -> bytes:
        """The .tflite file with these changes, and with the files attached to it."""
        tensors, operators, copies = self._changed(changes)
        file = read(self._model.graph.contents)
        graph = file.subgraphs[0]
        records = [copy.copy(record) for record in graph.tensors] + [
            copy.copy(graph.tensors[original]) for original in copies.values()]
        for index, (tensor, record) in enumerate(zip(tensors, records, strict=True)):
            before = self._graph.tensors[copies.get(index, index)]
            if tensor.quantization is not before.quantization:
                _record_grid(record, tensor)
            if tensor.data is not before.data:
                record.buffer, record.external_buffer, record.sparsity = len(file.buffers), 0, None
                file.buffers = [*file.buffers, table("Buffer")(data=np.asarray(tensor.data))]
        graph.tensors = records
        changed = [copy.copy(record) for record in graph.operators]
        for operator, record in zip(operators, changed, strict=True):
            record.inputs = operator.inputs
            version = PER_CHANNEL.get(operator.name, 0)
            q = tensors[operator.inputs[1]].quantization if version else None
            if version and q is not None and q.scale.size > 1:
                record.opcode_index = _versioned(file, record.opcode_index, version)
        graph.operators = changed
        drop_unread(file)
        return with_attached(bytes(write(file)), self._model)


def _digest(*parts: Any) -> str:
    """A digest of arrays, and of objects whose repr() differs if they do."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(f"{part.dtype} {part.shape}".encode())
            digest.update(part.tobytes())
        else:
            digest.update(f"{part!r}\n".encode())
    return digest.hexdigest()


def _wide_enough(scale: NDArray[Any], bias: NDArray[Any], data: NDArray[Any], dtype: str) -> NDArray[Any]:
    """The scales of weights, enlarged where the bias would otherwise exceed BIAS_LIMIT of its type `dtype`.

    bias: real numbers; data: the scale of the data.
    """
    least = np.abs(bias.reshape(-1)) / (float(data[0]) * BIAS_LIMIT * np.iinfo(dtype).max)
    return np.maximum(scale, least if scale.size > 1 else least.max(initial=0)).astype(np.float32)


def _with_grid(tensor: Tensor, scale: Any, zero_point: Any) -> Tensor:
    q = tensor.quantization
    assert q is not None
    return replace(tensor, quantization=Quantization(np.asarray(scale, np.float32), np.asarray(zero_point, np.int64),
                                                     q.axis))


def _with_values(tensor: Tensor, steps: NDArray[Any], narrow: bool = False) -> Tensor:
    """A constant with these values, rounded to its type; narrow: the type's least value is not used."""
    limits = np.iinfo(NUMPY_DTYPES[tensor.dtype])
    values = np.clip(np.rint(steps), limits.min + narrow, limits.max).astype(NUMPY_DTYPES[tensor.dtype])
    return _with_data(tensor, values)


def _with_data(tensor: Tensor, values: NDArray[Any]) -> Tensor:
    """`tensor` with `values` as its contents, instead of a buffer of the file."""
    data = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    data.flags.writeable = False
    return replace(tensor, data=data, buffer=0, external=None, sparsity=None)


def _contents(tensor: Tensor) -> tuple[bytes, bytes]:
    """A key by which copies of one constant differ: its bytes and its scales."""
    q = tensor.quantization
    return b"" if tensor.data is None else tensor.data.tobytes(), b"" if q is None else q.scale.tobytes()


def _record_grid(record: Any, tensor: Tensor) -> None:
    """Write a tensor's grid to its record, and drop the range that a converter noted there, which no longer holds."""
    q = tensor.quantization
    assert q is not None
    record.quantization = table("QuantizationParameters")(scale=q.scale, zero_point=q.zero_point,
                                                          quantized_dimension=q.axis)


def _versioned(file: Any, index: int, version: int) -> int:
    """The index of an operator code that is `index` with at least this version; added to the file if there is none."""
    if file.operator_codes[index].version >= version:
        return index
    code = copy.copy(file.operator_codes[index])
    code.version = version
    for place, other in enumerate(file.operator_codes):
        if other == code:
            return place
    file.operator_codes = [*file.operator_codes, code]
    return len(file.operator_codes) - 1


def drop_unread(file: Any) -> None:
    """Empty the buffers that nothing refers to any more."""
    read_by = {t.buffer for graph in file.subgraphs for t in graph.tensors}
    read_by |= {m.buffer for m in file.metadata or ()} | set(file.metadata_buffer or ())
    file.buffers = [buffer if i in read_by else table("Buffer")() for i, buffer in enumerate(file.buffers)]
