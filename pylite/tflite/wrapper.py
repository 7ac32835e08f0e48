"""A stand-in for tf.lite's wrapper of its C++ interpreter, the private attribute `Interpreter._interpreter`."""
from __future__ import annotations

import operator
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from pylite.tflite.types import InterpreterParts, SignatureIndices, SparsityParameters


class Wrapper:
    """The methods of tf.lite's wrapper, under its names.  It refers to the Interpreter, which does not refer to it."""
    __slots__ = ("_interpreter",)

    def __init__(self, interpreter: InterpreterParts) -> None:
        self._interpreter = interpreter

    def AllocateTensors(self, subgraph_index: int = 0) -> None:
        self._interpreter._allocate(subgraph_index)

    def Invoke(self, subgraph_index: int = 0) -> None:
        self._interpreter._invoke(subgraph_index)

    def ResetVariableTensors(self) -> None:
        self._interpreter.reset_all_variables()

    def SetNumThreads(self, num_threads: int) -> None:
        self._interpreter._set_num_threads(operator.index(num_threads))

    def ModifyGraphWithDelegate(self, delegate: Any) -> None:
        self._interpreter.modify_graph_with_delegate(delegate)

    def NumSubgraphs(self) -> int:
        return self._interpreter.num_subgraphs()

    def NumTensors(self, subgraph_index: int = 0) -> int:
        return len(self._interpreter._executor(subgraph_index).subgraph.tensors)

    def NumNodes(self) -> int:
        return len(self._interpreter._executor(0).operators)

    def InputIndices(self) -> NDArray[np.int32]:
        return np.array(self._interpreter._executor(0).subgraph.inputs, np.int32)

    def OutputIndices(self) -> NDArray[np.int32]:
        return np.array(self._interpreter._executor(0).subgraph.outputs, np.int32)

    def NodeName(self, i: Any) -> str:
        return self._interpreter._get_op_details(i)["op_name"]

    def NodeInputs(self, i: Any) -> NDArray[np.int32]:
        return self._interpreter._get_op_details(i)["inputs"]

    def NodeOutputs(self, i: Any) -> NDArray[np.int32]:
        return self._interpreter._get_op_details(i)["outputs"]

    def TensorName(self, i: Any, subgraph_index: int = 0) -> str:
        return self._interpreter._get_tensor_details(i, subgraph_index)["name"]

    def TensorType(self, i: Any, subgraph_index: int = 0) -> type[np.generic]:
        return self._interpreter._get_tensor_details(i, subgraph_index)["dtype"]

    def TensorSize(self, i: Any, subgraph_index: int = 0) -> NDArray[np.int32]:
        return self._interpreter._get_tensor_details(i, subgraph_index)["shape"]

    def TensorSizeSignature(self, i: Any, subgraph_index: int = 0) -> NDArray[np.int32]:
        return self._interpreter._get_tensor_details(i, subgraph_index)["shape_signature"]

    def TensorQuantization(self, i: Any, subgraph_index: int = 0) -> tuple[float, int]:
        return self._interpreter._get_tensor_details(i, subgraph_index)["quantization"]

    def TensorQuantizationParameters(self, i: Any, subgraph_index: int = 0) -> tuple[Any, ...]:
        return tuple(self._interpreter._get_tensor_details(i, subgraph_index)["quantization_parameters"].values())

    def TensorSparsityParameters(self, i: Any, subgraph_index: int = 0) -> SparsityParameters:
        return self._interpreter._get_tensor_details(i, subgraph_index)["sparsity_parameters"]

    def GetTensor(self, i: Any, subgraph_index: int = 0) -> NDArray[Any]:
        return self._interpreter.get_tensor(i, subgraph_index)

    def SetTensor(self, i: Any, value: Any, subgraph_index: int = 0) -> None:
        interpreter = self._interpreter
        with interpreter._lock:
            interpreter._set(interpreter._executor(subgraph_index), i, value)

    def ResizeInputTensor(self, i: Any, value: Any, strict: bool, subgraph_index: int = 0) -> None:
        interpreter = self._interpreter
        with interpreter._lock:
            interpreter._resize(interpreter._executor(subgraph_index), i, value, strict)

    def GetSignatureDefs(self) -> dict[str, SignatureIndices]:
        return self._interpreter._get_full_signature_list()

    def GetSubgraphIndexFromSignature(self, signature_key: str) -> int:
        return self._interpreter._signatures[signature_key].subgraph

    def tensor(self, base_object: Any, tensor_index: Any) -> NDArray[Any]:
        return self._interpreter.tensor(tensor_index)()

    def interpreter(self) -> Any:
        return self._interpreter._native_handle()
