"""The dictionaries that describe tensors and operators, with the keys, order and types of tf.lite."""
from typing import TYPE_CHECKING

import numpy as np

from pylite.ir.dtypes import NUMPY_DTYPES, bfloat16

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite.ir.graph import Operator, Subgraph, Tensor
    from pylite.runtime.model import Model
    from pylite.schema.sparse import SparseDimension, Sparsity
    from pylite.tflite.types import DimensionMetadata, OpDetails, SparsityParameters, TensorDetails

_REPORTED: "dict[str, type[np.generic]]" = {"string": np.bytes_, "resource": np.object_}

_FORMATS = {"DENSE": 0, "SPARSE_CSR": 1}


def reported_dtype(dtype: str) -> "type[np.generic]":
    """The numpy type that details report; for a type that numpy lacks, the integer type that holds its bits."""
    if dtype == "bfloat16":
        return bfloat16().type
    return _REPORTED.get(dtype) or NUMPY_DTYPES[dtype].type


class Details(list):  # type: ignore[type-arg] # of TensorDetails or OpDetails
    """A list of dictionaries that notebooks show as a table."""

    def _repr_html_(self) -> str:
        from pylite.display import notebook
        return notebook.details(self)


def tensor_details(model: "Model", tensor: "Tensor", shape: "Sequence[int]", dtype: str) -> "TensorDetails":
    """tf.lite's dictionary for a tensor whose current shape and type are `shape` and `dtype`."""
    signature = tensor.shape_signature if -1 in tensor.shape_signature else shape
    scales, zero_points, axis, block_size = _quantization(model, tensor)
    single = tensor.quantization is not None and len(tensor.quantization.scale) == len(scales) == 1
    return {
        "name": tensor.name,
        "index": tensor.index,
        "shape": np.array(shape, np.int32),
        "shape_signature": np.array(signature, np.int32),
        "dtype": reported_dtype(dtype),
        "quantization": (float(scales[0]), int(zero_points[0]) if len(zero_points) else 0) if single else (0.0, 0),
        "quantization_parameters": {"scales": scales, "zero_points": zero_points, "quantized_dimension": axis,
                                    "block_size": block_size},
        "sparsity_parameters": {} if tensor.sparsity is None else _sparsity(tensor.sparsity),
    }


def op_details(subgraph: "Subgraph", operator: "Operator") -> "OpDetails":
    """tf.lite's dictionary for a node."""
    tensors = subgraph.tensors
    return {
        "index": operator.index,
        "op_name": operator.name,
        "inputs": np.array(operator.inputs, np.int32),
        "outputs": np.array(operator.outputs, np.int32),
        "operand_types": [reported_dtype(tensors[i].dtype) for i in operator.inputs if i >= 0],
        "result_types": [reported_dtype(tensors[i].dtype) for i in operator.outputs if i >= 0],
    }


def _quantization(model: "Model", tensor: "Tensor") -> "tuple[NDArray[Any], NDArray[Any], int, int]":
    """(scales, zero points, axis, block size); the arrays are copies."""
    q = tensor.quantization
    if q is None:
        return np.empty(0, np.float32), np.empty(0, np.int32), 0, 0
    if q.block_size:
        return (_blockwise(model, tensor, q.scale_tensor, np.float32),
                _blockwise(model, tensor, q.zero_point_tensor, np.int32), q.axis, q.block_size)
    return q.scale.astype(np.float32), q.zero_point.astype(np.int32), q.axis, 0


def _blockwise(model: "Model", tensor: "Tensor", index: int, dtype: "type[np.generic]") -> "NDArray[Any]":
    """Blockwise scales or zero points of `tensor`: the contents of tensor `index` of the same subgraph."""
    if index < 0:
        return np.empty(0, dtype)
    subgraph = next(s for s in model.graph.subgraphs if tensor in s.tensors)
    content = model.weights.constant(subgraph.tensors[index])
    return np.empty(0, dtype) if content is None else content.reshape(-1).copy()


def _sparsity(sparsity: "Sparsity") -> "SparsityParameters":
    details: SparsityParameters = {"traversal_order": np.array(sparsity.traversal_order, np.int32)}
    if sparsity.block_map:
        details["block_map"] = np.array(sparsity.block_map, np.int32)
    details["dim_metadata"] = [_dimension(d) for d in sparsity.dimensions]
    return details


def _dimension(dimension: "SparseDimension") -> "DimensionMetadata":
    if dimension.format == "DENSE":
        return {"format": _FORMATS["DENSE"], "dense_size": dimension.size}
    return {"format": _FORMATS["SPARSE_CSR"], "array_segments": np.array(dimension.segments, np.int32),
            "array_indices": np.array(dimension.indices, np.int32)}
