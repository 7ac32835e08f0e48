"""A loaded model: the graph, and the weights, packed weights and folded constants that its interpreters share."""
import os
import sys
from _thread import RLock  # threading.RLock, without importing threading
from typing import TYPE_CHECKING

import numpy as np

from pylite import errors
from pylite._core import simd
from pylite._core.kernels import kernel_class
from pylite._core.run import memory
from pylite.ir.dtypes import DTYPE_BITS, NUMPY_DTYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite.ir.graph import Model as Graph
    from pylite.ir.graph import Signature, Tensor
    from pylite.ir.values import Packed
    from pylite.runtime.blueprint import Blueprint

KEPT_BLUEPRINTS = 8     # one for each set of input shapes and options
_PACK_HALVES = "packing.pack_halves"    # takes float16 weights as the file stores them


class Model:
    """A `.tflite` model, read once and shared by any number of interpreters and threads.

    source: path (str or os.PathLike; the file is mapped, not read) or the file's bytes.
    Raises ValueError saying what is wrong with the file.
    """
    graph: "Graph"
    contents: "Any"
    summary: "Any"

    def __init__(self, source: "str | os.PathLike[str] | bytes | bytearray | memoryview",
                 _graph: "Graph | None" = None, _deferred: "tuple[Any, Any] | None" = None) -> None:
        self._source = source
        self.folded: dict[Any, NDArray[Any]] = {}
        self._constants: dict[Any, NDArray[Any]] = {}
        self._packed: dict[Any, list[tuple[Any, Any]]] = {}
        self._lock = RLock()
        self.half = False           # do Executors compute products of float32 in float16 by default?
        self.checked = False        # does the default resolver support every operator?
        self.blueprints: dict[Any, Blueprint] = {}      # by blueprint.key_of(), the newest last
        # For a model whose plan is in the cache: its bytes or Pages, and a summary of its graph, which is read on first
        # use.
        self.contents, self.summary = _deferred or (None, None)
        if _deferred is None:
            self._set_graph(_loaded(source) if _graph is None else _graph)

    def _set_graph(self, graph: "Graph") -> None:
        self.graph = graph
        self.contents = graph.contents.obj
        if self.lost_pages:
            raise errors.ModelError(f"'{self._source!s}' was truncated while it was read")
        self._pool = memory.MemoryPool(sum([tensor.data.nbytes for subgraph in self.graph.subgraphs
                                      for tensor in subgraph.tensors if tensor.data is not None]))

    if not TYPE_CHECKING:
        def __getattr__(self, name):
            """Load the graph on first use, and create the pool for packed weights."""
            if name not in ("graph", "_pool") or self.__dict__.get("summary") is None:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            with self._lock:
                if "_pool" not in self.__dict__:
                    self._set_graph(_loaded(self.contents))
            return self.__dict__[name]

    def __del__(self, ending: "Callable[[], bool]" = sys.is_finalizing) -> None:
        if not ending():        # modules may be empty then
            for blueprint in vars(self).get("blueprints", {}).values():
                blueprint.release()

    @property
    def signatures(self) -> "Sequence[Signature]":
        """The signatures of the graph."""
        return self.graph.signatures if self.summary is None else self.summary.signatures

    def __reduce__(self) -> "tuple[Any, ...]":
        """Pickles as its path or its content."""
        return Model, (self._source if isinstance(self._source, (str, os.PathLike)) else bytes(self._source),)

    def __repr__(self) -> str:
        count = len(self.graph.subgraphs)
        return f"<pylite.Model {self._file_name}, {count} subgraph{'s' * (count != 1)}>"

    @property
    def _file_name(self) -> str:
        return os.path.basename(self._source) if isinstance(self._source, (str, os.PathLike)) else "of bytes"

    def _repr_html_(self) -> str:
        from pylite.display import notebook
        return notebook.model(self.graph)

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
        layouts = [arg for arg in packed.args if hasattr(arg, "arrange")]       # a weight may have many
        key = packed.function, _identity(value.tensor), simd.current, *layouts
        with self._lock:
            known = self._packed.setdefault(key, [])        # most often empty
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

    def blueprint(self, key: "Any") -> "Blueprint | None":
        """The Blueprint kept for `key`, acquired, or None."""
        with self._lock:
            entry = self.blueprints.get(key)
            return None if entry is None else entry.acquire()

    def keep(self, key: "Any", blueprint: "Blueprint") -> None:
        """Keep a Blueprint for all interpreters, and drop the oldest beyond the capacity."""
        with self._lock:
            for old in [key, *self.blueprints][:1 + (len(self.blueprints) >= KEPT_BLUEPRINTS)]:
                self.drop(old)
            self.blueprints[key] = blueprint.acquire()

    def drop(self, key: "Any") -> None:
        """Stop keeping the Blueprint for `key`, if there is one."""
        with self._lock:
            blueprint = self.blueprints.pop(key, None)
            if blueprint is not None:
                blueprint.release()

    def computes_half(self, precision: "str | None") -> bool:
        """Are products of float32 computed in float16, by an interpreter's `precision` or else by the file's flag?

        The flag names types and, after "acc", types of sums, such as fp16bf16accfp16.
        """
        if precision is not None:
            return precision in ("float16", "emulate_float16") or (precision != "float32" and simd.has_float16())
        if not simd.has_float16():
            return False
        flag = bytes(self.graph.metadata.get("reduced_precision_support", b"")).decode("latin-1")
        types, _, sums = flag.partition("acc")
        return types.startswith("fp16") and "fp16" in sums

    @property
    def associated_files(self) -> "tuple[str, ...]":
        """The names in a zip archive appended to the file, such as lists of labels."""
        from pylite.schema.archive import archive_names
        return archive_names(self.graph.contents)

    @property
    def lost_pages(self) -> int:
        """Number of pages that were read after the mapped file had lost them."""
        return getattr(self.contents, "lost", 0)

    @property
    def packed_bytes(self) -> int:
        """Bytes of packed weights and folded constants that the interpreters of this model share."""
        arrays = [*self.folded.values()]
        for known in self._packed.values():
            for _, result in known:
                arrays += result if isinstance(result, tuple) else [result]
        return sum(a.nbytes for a in arrays if isinstance(a, np.ndarray))


def _loaded(source: "Any") -> "Graph":
    """The graph in `source`.  Errors name the file."""
    from pylite.schema import load  # not for a plan of the cache; so are other imports below
    try:
        return load(source)
    except errors.ModelError as error:
        if isinstance(source, (str, os.PathLike)) and errors.shortened(os.fspath(source)) not in str(error):
            raise errors.ModelError(f"{error} (in '{errors.shortened(os.fspath(source))}')") from None
        raise


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


# Bytes of a constant that is copied, at most: where a kernel reads it in the file, the system maps up to 2 MB around it
# for the process.
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
