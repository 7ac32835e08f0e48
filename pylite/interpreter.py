"""The tf.lite-compatible face: Interpreter and what it hands out."""
import threading

import numpy as np

from pylite import lowering
from pylite._core.simd import Pool
from pylite.errors import TensorError
from pylite.executor import Executor
from pylite.graph import NUMPY_DTYPES
from pylite.model import Model


class Interpreter:
    """Runs a model; see the methods.  (The whole tf.lite surface is being added.)"""

    def __init__(self, model_path=None, model_content=None, experimental_delegates=None, num_threads=None, *,
                 experimental_preserve_all_tensors=False, guard_bands=False, max_memory=None, model=None):
        if model is None:
            model = Model(model_path if model_path is not None else model_content)
        self._model = model
        lowering.check(model, model.graph.subgraphs[:1])
        self._pool = Pool(num_threads or 1)
        self._lock = threading.RLock()
        self._executor = Executor(model, model.graph.subgraphs[0], self._pool, experimental_preserve_all_tensors,
                                  guard_bands, max_memory)

    def allocate_tensors(self):
        with self._lock:
            self._executor.allocate()

    def invoke(self):
        with self._lock:
            self._executor.invoke()

    def resize_tensor_input(self, input_index, tensor_size, strict=False):
        position = self._executor.subgraph.inputs.index(int(input_index))
        self._executor.resize(position, tuple(int(n) for n in tensor_size))

    def _details(self, index):
        tensor = self._executor.subgraph.tensors[index]
        current = self._executor.current
        shape = current.lowered.values[index].shape if current else tensor.shape
        return {"name": tensor.name, "index": index, "shape": np.array(shape, np.int32),
                "dtype": NUMPY_DTYPES[tensor.dtype].type}

    def get_input_details(self):
        return [self._details(i) for i in self._executor.subgraph.inputs]

    def get_output_details(self):
        return [self._details(i) for i in self._executor.subgraph.outputs]

    def set_tensor(self, tensor_index, value):
        array = self._executor.array(tensor_index)
        if array.shape != value.shape or array.dtype != value.dtype:
            raise TensorError(f"Cannot set tensor {tensor_index}: got {value.dtype} {value.shape}, "
                              f"expected {array.dtype} {array.shape}")
        array[...] = value

    def get_tensor(self, tensor_index, subgraph_index=0):
        return self._executor.readable(tensor_index).copy()
