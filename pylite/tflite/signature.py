"""SignatureRunner runs a model with named inputs and outputs."""
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from numpy.typing import ArrayLike, NDArray

    from pylite.runtime.executor import Executor
    from pylite.tflite.types import InterpreterParts, TensorDetails


class SignatureRunner:
    """A callable for one signature of a model: `runner(name=array, ...) -> {name: array}`.

    From `Interpreter.get_signature_runner()`.  Raises ValueError for a key that the model lacks.
    """

    def __init__(self, interpreter: "InterpreterParts | None" = None, signature_key: "str | None" = None) -> None:
        if not interpreter:
            raise ValueError("None interpreter provided.")
        if not signature_key:
            raise ValueError("None signature_key provided.")
        signatures = interpreter._get_full_signature_list()
        if signature_key not in signatures:
            known = ", ".join(f'"{key}"' for key in signatures) or "none"
            raise ValueError(f'Invalid signature_key provided: "{signature_key}". The model has {known}')
        self._interpreter = interpreter
        self._interpreter_wrapper = interpreter._interpreter
        self._signature_key = signature_key
        self._signature_def = signatures[signature_key]
        self._inputs = self._signature_def["inputs"]
        self._outputs = self._signature_def["outputs"].items()
        self._subgraph_index = self._interpreter_wrapper.GetSubgraphIndexFromSignature(signature_key)

    def __reduce__(self) -> "tuple[Any, ...]":
        """Pickle the interpreter, as it pickles, and the key."""
        return type(self), (self._interpreter, self._signature_key)

    def __repr__(self) -> str:
        return (f"<{type(self).__name__} {self._signature_key!r}: {', '.join(self._inputs)} -> "
                f"{', '.join(name for name, _ in self._outputs)}>")

    def __call__(self, *args: "Any", **kwargs: "ArrayLike") -> "dict[str, NDArray[Any]]":
        """Run once.  Each input is an array, or a list, of its tensor's type; an input of another shape is resized.

        Returns {output name: array}, with copies.  ValueError when names, number, types or shapes do not fit.
        """
        if args:
            raise TypeError("a signature takes its inputs by name: pass "
                            f"{', '.join(f'{name}=...' for name in self._inputs)}")
        known = ", ".join(map(repr, self._inputs))
        if len(kwargs) != len(self._inputs):
            raise ValueError("Invalid number of inputs provided for running a SignatureDef, expected "
                             f"{len(self._inputs)} vs provided {len(kwargs)}: it takes {known}")
        for name in kwargs:
            if name not in self._inputs:
                raise ValueError(f"Invalid Input name ({name}) for SignatureDef: it takes {known}")
        interpreter = self._interpreter
        arrays = {name: value if hasattr(value, "shape") else np.asarray(value) for name, value in kwargs.items()}
        with interpreter._lock:
            executor = interpreter._executor(self._subgraph_index)
            resized = [name for name, value in arrays.items()
                       if value.shape != executor.shape(self._inputs[name])]    # of tensors that are not inputs, too
            if resized:
                self._check_types(executor, arrays)
            for name in resized:
                interpreter._resize(executor, self._inputs[name], arrays[name].shape, False)
            interpreter._lock.run(executor.allocate)
            for name, value in arrays.items():
                interpreter._set(executor, self._inputs[name], value)
            interpreter._lock.run(executor.invoke)
            return {name: interpreter._get(executor, index) for name, index in self._outputs}

    def _check_types(self, executor: "Executor", arrays: "dict[str, Any]") -> None:
        """ValueError for a value of another type than its input, before any input takes the shape of its value."""
        from pylite.ir.dtypes import NUMPY_DTYPES  # lazy: programs that never resize do not need it
        from pylite.tflite.inputs import of_type
        for name, value in arrays.items():
            index = self._inputs[name]
            present = np.broadcast_to(np.empty((), NUMPY_DTYPES[executor.dtype(index)]), executor.shape(index))
            of_type(executor.subgraph.tensors[index], present, value)

    def get_input_details(self) -> "dict[str, TensorDetails]":
        """{input name: details of its tensor}, as in Interpreter.get_input_details()."""
        return self._details(self._inputs.items())

    def get_output_details(self) -> "dict[str, TensorDetails]":
        """{output name: details of its tensor}."""
        return self._details(self._outputs)

    def _details(self, names: "Iterable[tuple[str, int]]") -> "dict[str, TensorDetails]":
        interpreter, subgraph = self._interpreter, self._subgraph_index
        return {name: interpreter._get_tensor_details(index, subgraph) for name, index in names}
