"""What stands where tf.lite keeps its C++ interpreter, `Interpreter._interpreter`, for clients that reach for it."""
import numpy as np


class Wrapper:
    """Each method is the C++ wrapper's of the same name; it holds the face weakly, so that dropping that frees all."""
    __slots__ = ("_face",)

    def __init__(self, face):
        self._face = face       # a weakref.proxy

    def AllocateTensors(self, subgraph_index=0):
        self._face._allocate(subgraph_index)

    def Invoke(self, subgraph_index=0):
        self._face._invoke(subgraph_index)

    def ResetVariableTensors(self):
        self._face.reset_all_variables()

    def SetNumThreads(self, num_threads):
        self._face._set_num_threads(num_threads)

    def NumSubgraphs(self):
        return self._face.num_subgraphs()

    def NumTensors(self, subgraph_index=0):
        return len(self._face._executor(subgraph_index).subgraph.tensors)

    def NumNodes(self):
        return len(self._face._executor(0).operators)

    def InputIndices(self):
        return np.array(self._face._executor(0).subgraph.inputs, np.int32)

    def OutputIndices(self):
        return np.array(self._face._executor(0).subgraph.outputs, np.int32)

    def NodeName(self, i):
        return self._face._get_op_details(i)["op_name"]

    def NodeInputs(self, i):
        return self._face._get_op_details(i)["inputs"]

    def NodeOutputs(self, i):
        return self._face._get_op_details(i)["outputs"]

    def TensorName(self, i, subgraph_index=0):
        return self._face._get_tensor_details(i, subgraph_index)["name"]

    def TensorType(self, i, subgraph_index=0):
        return self._face._get_tensor_details(i, subgraph_index)["dtype"]

    def TensorSize(self, i, subgraph_index=0):
        return self._face._get_tensor_details(i, subgraph_index)["shape"]

    def TensorSizeSignature(self, i, subgraph_index=0):
        return self._face._get_tensor_details(i, subgraph_index)["shape_signature"]

    def TensorQuantization(self, i, subgraph_index=0):
        return self._face._get_tensor_details(i, subgraph_index)["quantization"]

    def TensorQuantizationParameters(self, i, subgraph_index=0):
        return tuple(self._face._get_tensor_details(i, subgraph_index)["quantization_parameters"].values())

    def TensorSparsityParameters(self, i, subgraph_index=0):
        return self._face._get_tensor_details(i, subgraph_index)["sparsity_parameters"]

    def GetTensor(self, i, subgraph_index=0):
        return self._face.get_tensor(i, subgraph_index)

    def SetTensor(self, i, value, subgraph_index=0):
        face = self._face
        with face._lock:
            face._set(face._executor(subgraph_index), i, value)

    def ResizeInputTensor(self, i, value, strict, subgraph_index=0):
        face = self._face
        with face._lock:
            face._resize(face._executor(subgraph_index), i, value, strict)

    def GetSignatureDefs(self):
        return self._face._get_full_signature_list()

    def GetSubgraphIndexFromSignature(self, signature_key):
        return self._face._signatures[signature_key].subgraph

    def tensor(self, base_object, tensor_index):
        return self._face.tensor(tensor_index)()

    def interpreter(self):
        return self._face._native_handle()
