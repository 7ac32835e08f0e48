"""TensorBuffer: memory for an input or output of a CompiledModel."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pylite import errors
from pylite._core.run.buffers import Buffer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn, Self, SupportsIndex

    from numpy.typing import NDArray

__all__ = ["TensorBuffer"]

# Types of arrays that LiteRT's TensorBuffer takes, whatever the type of the tensor: their bytes are copied.
_ANY = frozenset(["float32", "float16", "int32", "int8", "uint8", "bool", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
_SHARED = _ANY | frozenset(["int16", "int64", "uint16", "uint32", "uint64"])      # of arrays to make a TensorBuffer of


class TensorBuffer(Buffer):
    """Memory for one tensor; runs use it without a copy if the CompiledModel made it.

    CompiledModel.create_input_buffers() and its like make buffers; create_from_host_memory() makes one of an array.
    """
    __slots__ = ("__weakref__",)

    def __new__(cls, *arguments: Any) -> Self:
        if arguments:
            _refuse()
        return super().__new__(cls)

    def __init__(self, capsule: Any = None, environment: Any = None) -> None:
        _refuse()

    @classmethod
    def create_from_host_memory(cls, data_array: NDArray[Any]) -> Self:
        """A TensorBuffer that shares the memory of a C-contiguous array.

        Its shape is flat.  ValueError if `data_array` is not such an array, or of a type that no tensor has.
        """
        if not isinstance(data_array, np.ndarray):
            raise ValueError(f"data_array must be a NumPy array, not {type(data_array).__name__}")
        _check_type(data_array.dtype, _SHARED, data_array.dtype)
        if not data_array.flags.c_contiguous:
            raise ValueError("data_array must be C-contiguous for zero-copy host-memory binding; "
                             "numpy.ascontiguousarray(data_array) makes a copy that is")
        return cls.of_array(cls, data_array)

    def write(self, data_array: NDArray[Any]) -> None:
        """Copy an array's elements to the start of the buffer.

        The array has the tensor's type.  Arrays of float32, float16, int32, int8, uint8 or bool are also taken for
        tensors of other types, and then their bytes are copied.  ValueError for other types and other objects;
        RuntimeError if the array is larger than the buffer, or the buffer was destroyed.
        """
        if not self.assign(data_array):
            if not isinstance(data_array, np.ndarray):
                raise ValueError(f"data_array must be a NumPy array, not {type(data_array).__name__}")
            if data_array.dtype != self.dtype:
                _check_type(data_array.dtype, _ANY, data_array.dtype, self)
            self.copy_from(np.ascontiguousarray(data_array))

    def read(self, num_elements: SupportsIndex | Sequence[int], output_dtype: Any) -> NDArray[Any]:
        """A copy of the first `num_elements` elements, as an array of the type `output_dtype`.

        num_elements: a number, or a shape.  output_dtype: the tensor's type; with another type that write() takes, the
        bytes are taken for it.  ValueError for other types; RuntimeError if the buffer has fewer elements, or was
        destroyed.
        """
        array = self.copy_again(num_elements, output_dtype)
        if array is None:
            if not self.has_type(output_dtype):
                output_dtype = self._checked_dtype(output_dtype)
            array = self.copy(num_elements, output_dtype)
        return array

    def _checked_dtype(self, dtype: Any) -> np.dtype[Any]:
        if dtype is None:
            raise ValueError("Unsupported dtype: None")
        try:
            checked = np.dtype(dtype)
        except TypeError as error:
            raise ValueError(f"Unsupported dtype: {dtype}") from error
        if checked != self.dtype:
            _check_type(checked, _ANY, dtype, self)
        return checked

    def get_tensor_details(self) -> dict[str, Any]:
        """{"dtype": the name of the elements' type, "shape": a list}.  RuntimeError once it was destroyed."""
        if not self.alive:
            raise errors.TensorBufferError("GetTensorDetails: the TensorBuffer has been destroyed")
        return {"dtype": self.type_name, "shape": list(self.shape)}

    def destroy(self) -> None:
        """Free the memory now.  Later calls raise RuntimeError, and runs ValueError."""
        self.release()

    @property
    def capsule(self) -> Self:
        """The buffer itself, as there is no object in C++.  ValueError once it was destroyed."""
        if not self.alive:
            raise ValueError("TensorBuffer has been destroyed")
        return self

    def __repr__(self) -> str:
        state = f"{self.type_name} {list(self.shape)}" if self.alive else "destroyed"
        return f"<{type(self).__name__} {state}>"


def _refuse() -> NoReturn:
    raise TypeError("TensorBuffers are made by a CompiledModel (create_input_buffers and its like), or from an array "
                    "by TensorBuffer.create_from_host_memory()")


def _check_type(dtype: np.dtype[Any], names: frozenset[str], given: Any, buffer: TensorBuffer | None = None) -> None:
    if dtype.name not in names or not dtype.isnative:
        tensor = "" if buffer is None else f" for a tensor of {buffer.type_name}"
        raise ValueError(f"Unsupported dtype: {given}{tensor}. Use the tensor's type")
