import enum
import os
from collections.abc import Callable, Sequence
from typing import Any, Literal, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pylite.plugins.delegates import Delegate as Delegate
from pylite.plugins.delegates import load_delegate as load_delegate
from pylite.plugins.python_delegates import PythonDelegate
from pylite.plugins.resolver import OpResolver
from pylite.runtime.model import Model
from pylite.tflite.signature import SignatureRunner as SignatureRunner

__all__ = ["Delegate", "Interpreter", "InterpreterWithCustomOps", "OpResolverType", "SignatureRunner", "load_delegate"]

class OpResolverType(enum.Enum):
    AUTO = 0
    BUILTIN = 1
    BUILTIN_REF = 2
    BUILTIN_WITHOUT_DEFAULT_DELEGATES = 3

class Interpreter:
    def __init__(
        self,
        model_path: str | bytes | os.PathLike[str] | None = None,
        model_content: bytes | bytearray | memoryview | None = None,
        experimental_delegates: Sequence[Delegate | PythonDelegate] | None = None,
        num_threads: SupportsIndex | None = None,
        experimental_op_resolver_type: OpResolverType | Literal["AUTO"] = "AUTO",
        experimental_preserve_all_tensors: bool = False,
        experimental_disable_delegate_clustering: bool = False,
        experimental_default_delegate_latest_features: bool = False,
        experimental_compress_quantization_zero_points: bool = False,
        experimental_disable_delegate_node_fusion: bool = False,
        experimental_force_delegate_node_profiling: bool = False,
        *,
        guard_bands: bool = False,
        max_memory: int | None = None,
        model: Model | None = None,
        op_resolver: OpResolver | None = None,
    ) -> None: ...
    def allocate_tensors(self) -> None: ...
    def invoke(self) -> None: ...
    def set_tensor(self, tensor_index: SupportsIndex, value: ArrayLike) -> None: ...
    def get_tensor(self, tensor_index: SupportsIndex, subgraph_index: int = 0) -> NDArray[Any]: ...
    def tensor(self, tensor_index: SupportsIndex) -> Callable[[], NDArray[Any]]: ...
    def resize_tensor_input(
        self, input_index: SupportsIndex, tensor_size: Sequence[int] | NDArray[np.integer[Any]], strict: bool = False
    ) -> None: ...
    def reset_all_variables(self) -> None: ...
    def num_subgraphs(self) -> int: ...
    def get_input_details(self) -> list[dict[str, Any]]: ...
    def get_output_details(self) -> list[dict[str, Any]]: ...
    def get_tensor_details(self, subgraph_index: int = 0) -> list[dict[str, Any]]: ...
    def get_signature_list(self) -> dict[str, dict[str, list[str]]]: ...
    def get_signature_runner(self, signature_key: str | None = None) -> SignatureRunner: ...
    @property
    def experimental_compress_quantization_zero_points(self) -> bool: ...

class InterpreterWithCustomOps(Interpreter):
    def __init__(self, custom_op_registerers: Sequence[Any] | None = None, **kwargs: Any) -> None: ...
