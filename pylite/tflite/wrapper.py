"""Wrapper: stands in for tf.lite's wrapper of its C++ interpreter, the private `Interpreter._interpreter`."""
import numpy as np


class Wrapper:
    """Has the methods of tf.lite's wrapper under the same names.

    interpreter: a weakref.proxy of the Interpreter, so that the two make no reference cycle.
    """
    __slots__ = ("_interpreter",)

    def __init__(self, interpreter):
        self._interpreter = interpreter

    def AllocateTensors(self, subgraph_index=0):
        self._interpreter._allocate(subgraph_index)

    def Invoke(self, subgraph_index=0):
        self._interpreter._invoke(subgraph_index)

    def ResetVariableTensors(self):
        self._interpreter.reset_all_variables()

    def SetNumThreads(self, num_threads):
        self._interpreter._set_num_threads(num_threads)

    def NumSubgraphs(self):
        return self._interpreter.num_subgraphs()

    def NumTensors(self, subgraph_index=0):
        return len(self._interpreter._executor(subgraph_index).subgraph.tensors)

    def NumNodes(self):
        return len(self._interpreter._executor(0).operators)

    def InputIndices(self):
        return np.array(self._interpreter._executor(0).subgraph.inputs, np.int32)

    def OutputIndices(self):
        return np.array(self._interpreter._executor(0).subgraph.outputs, np.int32)

    def NodeName(self, i):
        return self._interpreter._get_op_details(i)["op_name"]

    def NodeInputs(self, i):
        return self._interpreter._get_op_details(i)["inputs"]

    def NodeOutputs(self, i):
        return self._interpreter._get_op_details(i)["outputs"]

    def TensorName(self, i, subgraph_index=0):
        return self._interpreter._get_tensor_details(i, subgraph_index)["name"]

    def TensorType(self, i, subgraph_index=0):
        return self._interpreter._get_tensor_details(i, subgraph_index)["dtype"]

    def TensorSize(self, i, subgraph_index=0):
        return self._interpreter._get_tensor_details(i, subgraph_index)["shape"]

    def TensorSizeSignature(self, i, subgraph_index=0):
        return self._interpreter._get_tensor_details(i, subgraph_index)["shape_signature"]

    def TensorQuantization(self, i, subgraph_index=0):
        return self._interpreter._get_tensor_details(i, subgraph_index)["quantization"]

    def TensorQuantizationParameters(self, i, subgraph_index=0):
        return tuple(self._interpreter._get_tensor_details(i, subgraph_index)["quantization_parameters"].values())

    def TensorSparsityParameters(self, i, subgraph_index=0):
        return self._interpreter._get_tensor_details(i, subgraph_index)["sparsity_parameters"]

    def GetTensor(self, i, subgraph_index=0):
        return self._interpreter.get_tensor(i, subgraph_index)

    def SetTensor(self, i, value, subgraph_index=0):
        interpreter = self._interpreter
        with interpreter._lock:
            interpreter._set(interpreter._executor(subgraph_index), i, value)

    def ResizeInputTensor(self, i, value, strict, subgraph_index=0):
        interpreter = self._interpreter
        with interpreter._lock:
            interpreter._resize(interpreter._executor(subgraph_index), i, value, strict)

    def GetSignatureDefs(self):
        return self._interpreter._get_full_signature_list()

    def GetSubgraphIndexFromSignature(self, signature_key):
        return self._interpreter._signatures[signature_key].subgraph

    def tensor(self, base_object, tensor_index):
        return self._interpreter.tensor(tensor_index)()

    def interpreter(self):
        return self._interpreter._native_handle()
