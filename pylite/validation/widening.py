"""A quantized model with real numbers in place of its quantized ones: what it would compute without rounding.

A reference may be quantized, too, completely or only in its weights.  Models are then compared with its widened graph.
"""
from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from pylite.errors import ComparisonError
from pylite.ir.graph import replace
from pylite.runtime.model import Model
from pylite.validation.matching import CASTS

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from pylite.ir.graph import Operator, Quantization, Subgraph, Tensor

INTEGERS = ("int8", "uint8", "int16", "int32", "int4")


def reference_of(reference: str | os.PathLike[str], model: str | os.PathLike[str], precision: str | None) -> Model:
    """The Model of the reference: widened(), or the file as it is if the model is the same file in float16."""
    if precision != "float16" or not os.path.samefile(reference, model):
        return widened(reference)
    opened = Model(reference)
    if not any(graph.tensors[i].dtype == "float32" for graph in opened.graph.subgraphs for operator in graph.operators
               if operator.name not in CASTS for i in operator.outputs if i >= 0):
        raise ComparisonError(f"{os.fspath(model)} computes nothing in float32, so float16 changes nothing")
    return opened


def widened(source: str | os.PathLike[str] | bytes) -> Model:
    """The Model of a file, with real numbers in place of quantized ones in all its subgraphs."""
    model = Model(source)
    model.graph = replace(model.graph, subgraphs=tuple(
        _widened(model, graph) if any(map(quantized, graph.tensors)) else graph for graph in model.graph.subgraphs))
    return model


def quantized(tensor: Tensor) -> bool:
    """Is the tensor quantized, with one scale or with scales along one axis?"""
    q = tensor.quantization
    return (q is not None and q.scale.size > 0 and tensor.dtype in INTEGERS and not q.block_size and not q.block_shape
            and not q.axes and q.scale_tensor < 0)


def _widened(model: Model, subgraph: Subgraph) -> Subgraph:
    tensors = tuple(real(model, t) if quantized(t) else t for t in subgraph.tensors)
    same: dict[int, int] = {}       # result of a node that would only copy now -> its operand
    operators: list[Operator] = []
    for operator in subgraph.operators:
        inputs = tuple(same.get(i, i) for i in operator.inputs)
        if operator.name in CASTS and tensors[operator.outputs[0]].dtype == tensors[inputs[0]].dtype == "float32":
            same[operator.outputs[0]] = inputs[0]
            continue
        operators.append(replace(operator, index=len(operators), inputs=inputs))
    return replace(subgraph, tensors=tensors, operators=tuple(operators),
                   outputs=tuple(same.get(i, i) for i in subgraph.outputs))


def real(model: Model, tensor: Tensor) -> Tensor:
    """The tensor as float32, with the real numbers that its integers represent."""
    data = None
    if tensor.data is not None:
        values = dequantized(model, tensor)
        assert values is not None
        data = np.ascontiguousarray(values, np.float32).reshape(-1).view(np.uint8)
        data.flags.writeable = False
    # Buffer 0: tensors of one buffer may have different scales, so the file's buffer does not name these numbers.
    return replace(tensor, dtype="float32", data=data, quantization=None, sparsity=None, buffer=0)


def dequantized(model: Model, tensor: Tensor) -> NDArray[Any] | None:
    """A constant's real numbers, float64; None for other tensors, strings, and blocks over several axes."""
    values = model.weights.constant(tensor)
    if values is None or values.dtype == object:
        return None
    q = tensor.quantization
    if values.dtype.kind == "f" or q is None or not q.scale.size:
        return values.astype(np.float64)
    if q.block_shape or q.axes:
        return None
    if q.block_size:
        return _of_blocks(values, q)
    zero_point = _along(q.zero_point, values.ndim, q.axis)
    return (values.astype(np.float64) - zero_point) * _along(q.scale, values.ndim, q.axis)


def _of_blocks(values: NDArray[Any], q: Quantization) -> NDArray[Any] | None:
    """dequantized() for a scale per block of `block_size` elements in a row; None if the scales do not fit."""
    if q.scale.size * q.block_size != values.size:
        return None
    zero_point = q.zero_point.astype(np.float64).reshape(-1, 1) if q.zero_point.size == q.scale.size else 0.0
    blocks = values.reshape(-1, q.block_size).astype(np.float64)
    return ((blocks - zero_point) * q.scale.astype(np.float64).reshape(-1, 1)).reshape(values.shape)


def steps(tensor: Tensor, values: NDArray[Any]) -> NDArray[Any]:
    """The quantization step of each of a constant's numbers: for floats that of float16 at the largest one, for
    unquantized integers 0."""
    q = tensor.quantization
    if q is None or not q.scale.size:
        return np.full(values.shape, np.abs(values).max(initial=0) / 1024 if tensor.dtype.startswith("float") else 0.0)
    if q.block_size:
        return np.repeat(q.scale.astype(np.float64), q.block_size).reshape(values.shape)
    return np.broadcast_to(_along(q.scale, values.ndim, q.axis), values.shape)


def folded(subgraph: Subgraph) -> dict[int, int]:
    """{result of a DEQUANTIZE of a constant: this constant}, as in files that store weights in few bits."""
    return {o.outputs[0]: o.inputs[0] for o in subgraph.operators
            if o.name == "DEQUANTIZE" and subgraph.tensors[o.inputs[0]].data is not None}


def _along(numbers: NDArray[Any], rank: int, axis: int) -> NDArray[Any]:
    """Scales or zero points, to broadcast with an array of this rank: along `axis`, or one for all; 0 if empty."""
    if numbers.size <= 1:
        return numbers.astype(np.float64).reshape(()) if numbers.size else np.zeros(())
    return numbers.astype(np.float64).reshape([-1 if i == axis else 1 for i in range(rank)])
