"""A quantized model some of whose nodes compute with real numbers: in memory, and as a file.

A node in float reads its quantized operands through DEQUANTIZE, computes with the reference's weights, and writes
through QUANTIZE to the tensor that it had, unless its readers are in float, too.  So a converter mixes both kinds.
"""
from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import numpy as np

from pylite.ir.graph import Operator, replace
from pylite.schema import read, write
from pylite.schema.tables import enum_numbers, table
from pylite.validation.differences import MOVING, order
from pylite.validation.files import with_attached
from pylite.validation.matching import ACTIVATIONS, CASTS, match
from pylite.validation.widening import quantized, real

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from pylite.runtime.model import Model

CAST_VERSION = 2


class Mixture:
    """A quantized model some of whose nodes compute with real numbers.

    candidates: the nodes that can; names: {node: names of its counterpart's results, or of its own}.

    A set of nodes, `chosen`, is an argument of the methods, so one Mixture makes many models.
    """

    def __init__(self, model: Model, reference: Model, faithful: bool = False) -> None:
        """faithful: nodes in float also get the reference's options and its order of operands."""
        self._model = model
        graph = self._graph = model.graph.subgraphs[0]
        # All tensors, then a copy in real numbers of each quantized one: `_real` maps a tensor to its copy, or itself.
        self._tensors = list(graph.tensors)
        self._real = {-1: -1}
        for tensor in graph.tensors:
            self._real[tensor.index] = tensor.index
            if quantized(tensor):
                self._real[tensor.index] = len(self._tensors)
                self._tensors.append(replace(real(model, tensor), index=len(self._tensors), buffer=0))
        matches = match(graph, reference.graph.subgraphs[0]).matches
        producer = {i: o for o in reference.graph.subgraphs[0].operators for i in o.outputs}
        self.names, self._faithful = dict[int, list[str]](), dict[int, Operator]()
        for operator in graph.operators:
            other = next((producer.get(matches[i].reference) for i in operator.outputs if i in matches), None)
            self.names[operator.index] = self._paired(operator, other, producer, reference)
            if faithful and other is not None and other.name == operator.name:
                self._faithful[operator.index] = replace(
                    operator, options=other.options, inputs=order(operator, other, matches) or operator.inputs)
        self.candidates = [o.index for o in graph.operators if o.name not in CASTS + MOVING
                           and any(map(self._quantized, (*o.inputs, *o.outputs)))]

    def _quantized(self, index: int) -> bool:
        return self._real[index] != index

    def _in_float(self, indices: Sequence[int]) -> tuple[int, ...]:
        return tuple(self._real[i] for i in indices)

    def _paired(self, operator: Operator, other: Operator | None, producer: Mapping[int, Operator],
                reference: Model) -> list[str]:
        """Give a node in float its counterpart's weights; returns the names of the counterpart's results."""
        if other is None:
            return [self._tensors[i].name for i in operator.outputs]
        tensors = reference.graph.subgraphs[0].tensors
        names = [tensors[i].name for i in other.outputs]
        if other.name in ACTIVATIONS.values() and other.name != operator.name:      # which is fused here
            other = producer.get(other.inputs[0], other)
        if other.name == operator.name and len(other.inputs) == len(operator.inputs):
            for mine, index in zip(operator.inputs, other.inputs, strict=True):
                if index >= 0 and self._quantized(mine):
                    own, theirs = self._tensors[self._real[mine]], tensors[index]
                    if own.data is not None and theirs.data is not None and (own.shape, own.dtype) == (
                            theirs.shape, theirs.dtype):
                        self._tensors[own.index] = replace(own, data=theirs.data)
        return names

    def floating(self, chosen: frozenset[int]) -> set[int]:
        """The nodes that run in float if `chosen` do: these, and nodes that only move their results."""
        producer = {i: o.index for o in self._graph.operators for i in o.outputs}
        floating = set(chosen)
        for operator in self._graph.operators:
            read = [i for i in operator.inputs if i in producer and self._quantized(i)]
            if operator.name in MOVING and read and all(producer[i] in floating for i in read):
                floating.add(operator.index)
        return floating

    def of(self, chosen: frozenset[int]) -> Model:
        """The Model with these nodes in float."""
        numbered = tuple(replace(operator, index=i) for i, operator in enumerate(self._operators(chosen)))
        mixed = copy.copy(self._model)
        mixed.graph = replace(self._model.graph, subgraphs=(
            replace(self._graph, tensors=tuple(self._tensors), operators=numbered), *self._model.graph.subgraphs[1:]))
        return mixed

    def _operators(self, chosen: frozenset[int]) -> list[Operator]:
        """All nodes in order, with `chosen` in float and the casts that they need.

        Each keeps its index in the original graph; a cast has -1.
        """
        graph, floating = self._graph, self.floating(chosen)
        operators: list[Operator] = []
        known: set[int] = set()         # tensors whose real numbers are computed
        narrow = self._narrow(floating)
        for operator in graph.operators:
            if operator.index not in floating:
                operators.append(operator)
                continue
            operator = self._faithful.get(operator.index, operator)
            read = [i for i in dict.fromkeys(operator.inputs)
                    if self._quantized(i) and i not in known and graph.tensors[i].data is None]
            written = list(filter(self._quantized, operator.outputs))
            operators += [_cast("DEQUANTIZE", i, self._real[i]) for i in read]
            operators.append(replace(operator, inputs=self._in_float(operator.inputs),
                                     outputs=self._in_float(operator.outputs)))
            operators += [_cast("QUANTIZE", self._real[i], i) for i in written if i in narrow]
            known.update(read, written)
        return operators

    def _narrow(self, floating: set[int]) -> set[int]:
        """The tensors that stay quantized if these nodes are in float: outputs, and what other nodes read."""
        return set(self._graph.outputs).union(*(o.inputs for o in self._graph.operators if o.index not in floating))

    def places(self, chosen: frozenset[int]) -> dict[int, int]:
        """{quantized tensor that nothing computes if `chosen` are in float: its copy in real numbers}"""
        floating = self.floating(chosen)
        narrow = self._narrow(floating)
        return {i: self._real[i] for o in self._graph.operators if o.index in floating for i in o.outputs
                if i not in narrow}

    def written(self, chosen: frozenset[int]) -> bytes:
        """The .tflite file of the model with these nodes in float, and with the files attached to it."""
        file = read(self._model.graph.contents)
        graph, codes = file.subgraphs[0], dict[str, int]()
        tensors, operators, places = list(graph.tensors), [], {}

        def placed(indices: Sequence[int]) -> tuple[int, ...]:
            for index in indices:
                if index >= len(graph.tensors) and index not in places:
                    places[index] = len(tensors)
                    tensors.append(self._record(file, index))
            return tuple(places.get(index, index) for index in indices)
        for operator in self._operators(chosen):
            if operator.index < 0:
                record = table("Operator")()
                if operator.name not in codes:
                    codes[operator.name] = len(file.operator_codes)
                    code = table("OperatorCode")(version=CAST_VERSION, builtin_code=operator.name,
                                                 deprecated_builtin_code=operator.builtin_code)
                    file.operator_codes = [*file.operator_codes, code]
                record.opcode_index = codes[operator.name]
            else:
                record = copy.copy(graph.operators[operator.index])
            record.inputs, record.outputs = placed(operator.inputs), placed(operator.outputs)
            operators.append(record)
        graph.tensors, graph.operators = tensors, operators
        return with_attached(bytes(write(file)), self._model)

    def _record(self, file: Any, index: int) -> Any:
        """The table of a tensor of real numbers; its contents become a buffer of the file."""
        tensor = self._tensors[index]
        record = table("Tensor")(name=f"{tensor.name};float", shape=tensor.shape, type="float32")
        if -1 in tensor.shape_signature:
            record.shape_signature = tensor.shape_signature
        if tensor.data is not None:
            record.buffer = len(file.buffers)
            file.buffers = [*file.buffers, table("Buffer")(data=np.asarray(tensor.data).view(np.uint8))]
        return record


def _cast(name: str, source: int, target: int) -> Operator:
    return Operator(-1, name, enum_numbers("BuiltinOperator")[name], False, CAST_VERSION, (source,), (target,), None)
