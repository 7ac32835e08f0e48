"""The constants of a model, their packed forms and folded results, for all its interpreters."""
from _thread import RLock  # threading.RLock, without importing threading
from typing import TYPE_CHECKING

import numpy as np

from pylite import errors
from pylite._core import simd
from pylite._core.kernels import kernel_class
from pylite._core.run import memory
from pylite.ir.dtypes import DTYPE_BITS, NUMPY_DTYPES

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from pylite.ir.graph import Model as Graph
    from pylite.ir.graph import Tensor
    from pylite.ir.values import Packed

_PACK_HALVES = "packing.pack_halves"    # takes float16 weights as the file stores them


class Weights:
    """A graph's constants, their packed forms, and the results of constant folding, for any number of threads.

    folded: {(subgraph index, tensor index): a folded constant}.
    """

    def __init__(self, graph: "Graph") -> None:
        self.folded: dict[Any, NDArray[Any]] = {}
        self._constants: dict[Any, NDArray[Any]] = {}
        self._packed: dict[Any, list[tuple[Any, Any]]] = {}
        self.lock = RLock()
        self._pool = memory.MemoryPool(sum([tensor.data.nbytes for subgraph in graph.subgraphs
                                            for tensor in subgraph.tensors if tensor.data is not None]))

    def constant(self, tensor: "Tensor") -> "NDArray[Any] | None":
        """The contents of a constant tensor as a read-only array of its shape and dtype; None for other tensors."""
        if tensor.data is None:
            return None
        key = _identity(tensor)
        array = self._constants.get(key)
        if array is None:
            array = self._constants[key] = _typed(tensor)
        return array

    def pack(self, packed: "Packed", pool: "memory.MemoryPool | None" = None) -> "Any":
        """The result of a Packed, computed once if its value depends only on the file.

        pool: the memory for other results, which the model does not keep.
        """
        if packed.result is not None:
            return packed.result
        function, value = kernel_class(packed.function), packed.value
        if not value.fixed:
            memory.use_pool(memory.MemoryPool() if pool is None else pool)
            packed.result = function(value.data, *packed.args)
            return packed.result
        # The steps of an unrolled loop pack the same weights with hundreds of different multipliers.
        args = [hash(arg.tobytes()) if type(arg) is np.ndarray else arg for arg in packed.args]
        key = packed.function, _identity(value.tensor), simd.current, *args
        with self.lock:
            known = self._packed.setdefault(key, [])        # more than one if hashes collide
            packed.result = next((result for args, result in known if _same(args, packed.args)), None)
            if packed.result is None:
                memory.use_pool(self._pool)
                data = value.data
                in_file = data if isinstance(data, np.ndarray) else data.stored     # else Deferred
                if data is not in_file:
                    data = data.halves if packed.function == _PACK_HALVES else data.array()
                packed.result = function(data, *packed.args)
                known.append((packed.args, packed.result))
                memory.give_back(in_file)
        return packed.result

    @property
    def packed_bytes(self) -> int:
        """Bytes of packed weights and folded constants that the interpreters of this model share."""
        arrays = [*self.folded.values()]
        for known in self._packed.values():
            for _, result in known:
                arrays += result if isinstance(result, tuple) else [result]
        return sum(a.nbytes for a in arrays if isinstance(a, np.ndarray))


def _identity(tensor: "Tensor") -> "Any":
    """A key that is equal for constants with the same contents: their buffer, which subgraphs may share."""
    if tensor.data is None or tensor.buffer == 0 or tensor.external is not None or tensor.sparsity is not None:
        return tensor       # the object itself, because an id() can be reused after the object is gone
    return tensor.buffer, tensor.dtype, tensor.shape


def _same(args: "tuple[Any, ...]", others: "tuple[Any, ...]") -> bool:
    """Are the arguments of two Packed equal, arrays by their contents?"""
    return len(args) == len(others) and all(
        a is b or (type(a) is type(b) is np.ndarray and a.dtype == b.dtype and a.tobytes() == b.tobytes()
                   if np.ndarray in (type(a), type(b)) else a == b)
        for a, b in zip(args, others, strict=True))


# Most bytes of a constant that is copied.  If a kernel read such a constant in the file, the system would map up to
# 2 MB around it for the process.
_SMALL = 8192


def _typed(tensor: "Any") -> "NDArray[Any]":
    """The elements of a constant, unpacked, as a read-only array."""
    try:
        if tensor.sparsity is not None:
            from pylite.schema.sparse import densify
            array = densify(tensor.data, tensor.dtype, tensor.shape, tensor.sparsity)
        elif (DTYPE_BITS[tensor.dtype] or 0) >= 8:
            array = tensor.data.view(NUMPY_DTYPES[tensor.dtype]).reshape(tensor.shape)
            if array.nbytes > _SMALL:
                return array        # read-only, as the data is
            array = array.copy()
        else:
            from pylite.schema.encodings import unpack
            array = unpack(tensor.data, tensor.dtype, tensor.shape)
    except (ValueError, MemoryError) as error:
        raise errors.ModelError(f"tensor {tensor.index} {tensor.name!r}: {error}") from None
    array.flags.writeable = False
    return array
