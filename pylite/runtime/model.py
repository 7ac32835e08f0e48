"""A loaded model: the graph, and the weights, packed weights and folded constants that its interpreters share."""
import os
from _thread import RLock  # threading.RLock, without importing threading
from typing import TYPE_CHECKING

import numpy as np

from pylite import errors
from pylite._core import memory, simd
from pylite._core.kernels import kernel_class
from pylite.ir.graph import DTYPE_BITS, NUMPY_DTYPES
from pylite.schema import load

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from pylite.ir.graph import Tensor
    from pylite.ir.values import Packed


class Model:
    """A `.tflite` model, read once and shared by any number of interpreters and threads.

    source: path (str or os.PathLike; the file is mapped, not read) or the file's bytes.
    Raises ValueError saying what is wrong with the file.
    """

    def __init__(self, source: "str | os.PathLike[str] | bytes | bytearray | memoryview") -> None:
        try:
            self.graph = load(source)
        except errors.ModelError as error:
            if isinstance(source, (str, os.PathLike)) and os.fspath(source) not in str(error):
                raise errors.ModelError(f"{error} (in '{os.fspath(source)}')") from None
            raise
        if self.lost_pages:
            raise errors.ModelError(f"'{source!s}' was truncated while it was read")
        self._source = source
        self.folded: dict[Any, NDArray[Any]] = {}
        self._constants: dict[Any, NDArray[Any]] = {}
        self._packed: dict[Any, list[tuple[Any, Any]]] = {}
        self._pool = memory.MemoryPool(sum([tensor.data.nbytes for subgraph in self.graph.subgraphs
                                      for tensor in subgraph.tensors if tensor.data is not None]))
        self._lock = RLock()

    def __reduce__(self) -> "tuple[Any, ...]":
        """Pickles as its path or its content."""
        return Model, (self._source if isinstance(self._source, (str, os.PathLike)) else bytes(self._source),)

    def __repr__(self) -> str:
        return f"<pylite.Model {self.graph.description!r}, {len(self.graph.subgraphs)} subgraph(s)>"

    def _repr_html_(self) -> str:
        from pylite.runtime import notebook
        return notebook.model(self.graph)

    def constant(self, tensor: "Tensor") -> "NDArray[Any] | None":
        """The contents of a constant tensor as a read-only array of its shape and dtype, else None."""
        if tensor.data is None:
            return None
        key = _identity(tensor)
        array = self._constants.get(key)
        if array is None:
            array = self._constants[key] = _typed(tensor)
        return array

    def pack(self, packed: "Packed") -> "Any":
        """The result of a Packed; computed once where its value depends on the file alone."""
        made = packed.made
        if made is None:
            function = kernel_class(packed.function)
            value = packed.value
            if value.fixed:
                key = packed.function, _identity(value.tensor), simd.current
                with self._lock:
                    known = self._packed.setdefault(key, [])
                    made = next((made for args, made in known if _same(args, packed.args)), None)
                    if made is None:
                        memory.use_pool(self._pool)
                        made = function(value.data, *packed.args)
                        known.append((packed.args, made))
            else:
                made = function(value.data, *packed.args)
            packed.made = made
        return made

    @property
    def associated_files(self) -> "tuple[str, ...]":
        """The names in a zip archive appended to the file, such as lists of labels."""
        from pylite.schema.archive import archive_names
        return archive_names(self.graph.contents)

    @property
    def lost_pages(self) -> int:
        """Pages of the mapped file that it no longer had when they were read."""
        return getattr(self.graph.contents.obj, "lost", 0)

    @property
    def packed_bytes(self) -> int:
        """Bytes of packed weights and folded constants that the interpreters of this model share."""
        arrays = [*self.folded.values()]
        for known in self._packed.values():
            for _, made in known:
                arrays += made if isinstance(made, tuple) else [made]
        return sum(a.nbytes for a in arrays if isinstance(a, np.ndarray))


def _identity(tensor: "Tensor") -> "Any":
    """A key that is equal for constants of the same contents: their buffer, which subgraphs may share."""
    if tensor.data is None or tensor.buffer == 0 or tensor.external is not None or tensor.sparsity is not None:
        return id(tensor)
    return tensor.buffer, tensor.dtype, tensor.shape


def _same(args: "tuple[Any, ...]", others: "tuple[Any, ...]") -> bool:
    """Are the arguments of two Packed equal, arrays by their contents?"""
    return len(args) == len(others) and all(
        a is b or (type(a) is type(b) is np.ndarray and a.dtype == b.dtype and a.tobytes() == b.tobytes()
                   if np.ndarray in (type(a), type(b)) else a == b)
        for a, b in zip(args, others, strict=True))


def _typed(tensor: "Any") -> "NDArray[Any]":
    """A constant's elements, unpacked, read-only."""
    try:
        if tensor.sparsity is not None:
            from pylite.schema.sparse import densify
            array = densify(tensor.data, tensor.dtype, tensor.shape, tensor.sparsity)
        elif (DTYPE_BITS[tensor.dtype] or 0) >= 8:
            return tensor.data.view(NUMPY_DTYPES[tensor.dtype]).reshape(tensor.shape)       # read-only, as the data is
        else:
            from pylite.schema.encodings import unpack
            array = unpack(tensor.data, tensor.dtype, tensor.shape)
    except (ValueError, MemoryError) as error:
        raise errors.ModelError(f"tensor {tensor.name!r} (tensor {tensor.index}): {error}") from None
    array.flags.writeable = False
    return array
