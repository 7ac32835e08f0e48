"""The types of tf.lite's dictionaries, for annotations; running a model never imports this module."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict, Union

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer

    from pylite.ir.graph import Signature
    from pylite.runtime.executor import Executor


class QuantizationParameters(TypedDict):
    """real = scale * (q - zero_point): one scale for the tensor, or one for each index along `quantized_dimension`.

    scales: float32 (n,), zero_points: int32 (n,), both empty for a tensor that is not quantized; block_size: number of
    elements along the last axis that share a scale, 0 without blocks.
    """
    scales: NDArray[np.float32]
    zero_points: NDArray[np.int32]
    quantized_dimension: int
    block_size: int


class DimensionMetadata(TypedDict, total=False):
    """One dimension of a sparse tensor: `format` 0 (dense) with `dense_size`, or 1 (CSR) with the two arrays."""
    format: int
    dense_size: int
    array_segments: NDArray[np.int32]
    array_indices: NDArray[np.int32]


class SparsityParameters(TypedDict, total=False):
    """How a sparse constant is stored; empty for every other tensor."""
    traversal_order: NDArray[np.int32]
    block_map: NDArray[np.int32]
    dim_metadata: list[DimensionMetadata]


class TensorDetails(TypedDict):
    """A tensor, as in get_input_details().

    shape: its current sizes; shape_signature: the same with -1 for sizes that may change; dtype: a numpy type such as
    numpy.float32; quantization: the only (scale, zero point), or (0.0, 0).
    """
    name: str
    index: int
    shape: NDArray[np.int32]
    shape_signature: NDArray[np.int32]
    dtype: type[np.generic]
    quantization: tuple[float, int]
    quantization_parameters: QuantizationParameters
    sparsity_parameters: SparsityParameters


class OpDetails(TypedDict):
    """A node: the indices of its tensors, -1 for absent ones, and the numpy types of the others."""
    index: int
    op_name: str
    inputs: NDArray[np.int32]
    outputs: NDArray[np.int32]
    operand_types: list[type[np.generic]]
    result_types: list[type[np.generic]]


SignatureNames = dict[str, list[str]]       # the names of a signature's "inputs" and "outputs"
SignatureList = dict[str, SignatureNames]       # by signature key
ModelContents = Union["Buffer", NDArray[Any]]      # before Python 3.12 checkers do not know that an array is a buffer
Precision = Literal["float32", "float16", "prefer_float16", "emulate_float16"]


class SignatureIndices(TypedDict):
    """The tensor indices of a signature's inputs and outputs, by name."""
    inputs: dict[str, int]
    outputs: dict[str, int]


class InterpreterParts(Protocol):
    """The attributes of Interpreter that signature runners and the wrapper use."""
    _lock: Any
    _signatures: dict[str, Signature]

    @property
    def _interpreter(self) -> Any: ...

    def num_subgraphs(self) -> int: ...
    def reset_all_variables(self) -> None: ...
    def modify_graph_with_delegate(self, delegate: Any) -> None: ...
    def get_tensor(self, tensor_index: Any, subgraph_index: int = 0) -> NDArray[Any]: ...
    def tensor(self, tensor_index: Any) -> Callable[[], NDArray[Any]]: ...
    def _allocate(self, subgraph_index: int) -> None: ...
    def _invoke(self, subgraph_index: int) -> None: ...
    def _set_num_threads(self, count: int) -> None: ...
    def _executor(self, subgraph_index: int) -> Executor: ...
    def _resize(self, executor: Executor, tensor_index: Any, size: Any, strict: bool) -> None: ...
    def _set(self, executor: Executor, tensor_index: Any, value: Any) -> None: ...
    def _get(self, executor: Executor, tensor_index: Any) -> NDArray[Any]: ...
    def _get_op_details(self, op_index: int) -> OpDetails: ...
    def _get_tensor_details(self, tensor_index: Any, subgraph_index: int = 0) -> TensorDetails: ...
    def _get_full_signature_list(self) -> dict[str, SignatureIndices]: ...
    def _native_handle(self) -> int: ...
