"""Outlines: what is kept of a Model that is freed, so that loading its file again is fast.

The graph and the blueprints stay as they are, without contents: the file's bytes, packed weights, and constants that
were computed.  In the place of arrays are marks: pieces of the file, and constants to compute again.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pylite._core.run.kernel import substituted
from pylite._core.run.memory import MemoryPool
from pylite.compiler.constant_folding import fold
from pylite.compiler.lowering import as_list
from pylite.ir.graph import Quantization, Tensor, replace
from pylite.ir.registry import default
from pylite.ir.values import Packed, Scratch, Temporary, Value, View
from pylite.runtime.model import Model
from pylite.schema import loader

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite.ir.graph import Model as Graph
    from pylite.ir.graph import Subgraph
    from pylite.ir.lowered import Lowered
    from pylite.ir.values import Call, Node
    from pylite.runtime.blueprint import Blueprint

OWNED = 1 << 20         # bytes of arrays beside the file's that an outline may keep,
SMALL = 1 << 12         # and of one that is computed from constants: larger ones are computed again
_PLAIN = frozenset((int, float, bool, str, bytes, type(None), Value, View, Scratch, Temporary))
_DATA, _QUANTIZATION = Tensor._PLACES["data"], Tensor._PLACES["quantization"]


class NotKept(Exception):
    """A model has something that an outline cannot keep."""


class Piece:
    """An array that views the file, by its position there."""
    __slots__ = ("offset", "shape", "strides", "dtype")

    def __init__(self, offset: int, array: NDArray[Any]) -> None:
        self.offset = offset
        self.shape, self.strides, self.dtype = array.shape, array.strides, array.dtype

    def array(self, contents: NDArray[Any]) -> NDArray[Any]:
        """The array; contents: the file's bytes, a read-only uint8 array."""
        return np.ndarray(self.shape, self.dtype, contents, self.offset, self.strides)


class Computed:
    """The contents of a Value that a node computes from constants."""
    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value


_MARKS = frozenset((Piece, Computed))


class Outline:
    """The graph and blueprints of a Model that is freed: they become this object's own.

    checked: are all operators known to run?  nodes: operators in all blueprints; size: bytes of the file.  Raises
    NotKept, and they are of no more use.
    """

    def __init__(self, graph: Graph, blueprints: dict[Any, Blueprint], checked: bool) -> None:
        contents = np.frombuffer(graph.contents, np.uint8)
        self.size = len(contents)
        self.checked = checked
        self.blueprints = blueprints
        self.nodes = sum([len(blueprint.lowered.nodes) for blueprint in self.blueprints.values()])
        self._begin, self._left = _address(contents), OWNED
        self._constants: list[tuple[int, int, Piece]] = []      # (subgraph, tensor, its data)
        self._holders: list[Call | Packed] = []                 # those with marks among their arguments
        self._known: list[tuple[Value, Piece]] = []             # contents that were found while lowering
        self._folded: list[tuple[int, Node]] = []               # (subgraph, what computes a large constant)
        self._computed: dict[int, tuple[Any, Computed]] = {}    # by id: the arrays of these, while contents are taken
        self._counted: dict[int, NDArray[Any]] = {}             # by id: arrays that count as owned
        self._metadata = {name: self._piece(np.frombuffer(data, np.uint8)) for name, data in
                          graph.metadata.items() if len(data)}
        subgraphs = tuple([self._outlined(subgraph) for subgraph in graph.subgraphs])
        for key, blueprint in self.blueprints.items():
            self._strip(blueprint.lowered, subgraphs[key[0]].tensors)
        self.graph = replace(graph, subgraphs=subgraphs, contents=memoryview(b""), metadata=dict.fromkeys(
            graph.metadata, memoryview(b"")))
        del self._computed, self._counted

    def release(self) -> None:
        """This object is not needed any longer."""
        for blueprint in self.blueprints.values():
            blueprint.release()

    # ---- contents are taken away -----------------------------------------------------------------------------
    def _outlined(self, subgraph: Subgraph) -> Subgraph:
        """The Subgraph without contents."""
        for operator in subgraph.operators:
            if np.ndarray in map(type, getattr(operator.options, "__dict__", {}).values()):
                raise NotKept
        tensors = list(subgraph.tensors)
        for t in subgraph.tensors:
            if t.sparsity is not None or t.external is not None:
                raise NotKept
            data, q = t.data, t.quantization
            if data is not None or q is not None:
                kept = None if data is None else self._kept(data)
                if type(kept) is Piece:
                    self._constants.append((subgraph.index, t.index, kept))
                    kept = None
                if q is not None:
                    q = Quantization.of([self._owned(a.copy()) if type(a) is np.ndarray else a for a in q])
                tensors[t.index] = Tensor.of((*t[:_DATA], kept, q, *t[_QUANTIZATION + 1:]))
        return replace(subgraph, tensors=tuple(tensors))

    def _strip(self, lowered: Lowered, tensors: Sequence[Tensor]) -> None:
        lowered.subgraph = replace(lowered.subgraph, tensors=tensors)
        lowered.pads = []
        large = self._large(lowered)
        for value in lowered.values:
            constant = value.tensor.data is not None
            value.tensor = tensors[value.index]
            value.quantization = value.tensor.quantization
            if (constant and value.tensor.data is None) or value in large:
                value.data = None
            elif value.data is not None:
                kept = self._kept(value.data)
                if type(kept) is Piece:
                    value.data = None
                    self._known.append((value, kept))
        for node in lowered.nodes:
            node.memo = None
        for call in lowered.calls:
            self._strip_arguments(call)

    def _large(self, lowered: Lowered) -> set[Value]:
        """The Values that nodes compute from constants, too large to be kept; notes these nodes."""
        large = set()
        for node in lowered.nodes:
            known = [v for v in node.outputs if v is not None and v.data is not None and v.fixed]
            if len(known) == len(node.outputs) == 1 and known[0].nbytes > SMALL:
                data = known[0].data
                if data is not None and data.base is None:
                    large.add(known[0])
                    self._folded.append((lowered.subgraph.index, node))
                    self._computed[id(data)] = data, Computed(known[0])
        return large

    def _strip_arguments(self, holder: Call | Packed) -> None:
        """Replace the arrays among the arguments of a Call or Packed."""
        kept: list[Any] = []
        for a in holder.args:
            if type(a) is np.ndarray:
                a = self._computed[id(a)][1] if id(a) in self._computed else self._kept(a)
            elif type(a) is Packed:
                a.made = None
                self._strip_arguments(a)
            else:
                self._check(a)
            kept.append(a)
        holder.args = tuple(kept)
        if not _MARKS.isdisjoint(map(type, kept)):
            self._holders.append(holder)

    def _check(self, argument: Any) -> None:
        """Raise NotKept for an argument that may hold contents."""
        kind = type(argument)
        if kind is np.ndarray:
            if type(self._kept(argument)) is Piece:
                raise NotKept
        elif isinstance(argument, (tuple, list)):
            for item in argument:
                self._check(item)
        elif kind not in _PLAIN and not isinstance(argument, np.generic):
            if not hasattr(kind, "__slots__") or hasattr(argument, "__dict__"):
                raise NotKept
            for name in kind.__slots__:         # a FilterLayout
                self._check(getattr(argument, name))

    def _owned(self, array: NDArray[Any]) -> NDArray[Any]:
        if id(array) not in self._counted:
            self._counted[id(array)] = array
            self._left -= array.nbytes
        if self._left < 0 or array.dtype.hasobject:
            raise NotKept
        return array

    def _piece(self, array: NDArray[Any]) -> Piece:
        """The Piece of an array that views the file."""
        offset = _address(array) - self._begin
        if not 0 <= offset <= self.size - array.nbytes:
            raise NotKept       # it views other memory, such as packed weights
        return Piece(offset, array)

    def _kept(self, array: NDArray[Any]) -> NDArray[Any] | Piece:
        """What is kept of an array: a Piece of the file, or a small array that has its own memory."""
        owner: Any = array
        while type(owner.base) is np.ndarray:
            owner = owner.base
        if owner.base is not None:
            return self._piece(array)
        self._owned(owner)
        return array

    # ---- and given back --------------------------------------------------------------------------------------
    def model(self, source: str | bytes | bytearray | memoryview) -> Model | None:
        """A Model of `source`, whose contents are those of the Model before; this object is then of no more use.

        None where it has another size by now.
        """
        contents = memoryview(loader.contents_of(source))
        if len(contents) != self.size:
            self.release()
            return None
        array = np.frombuffer(contents, np.uint8)
        array.flags.writeable = False
        tensors = [list(subgraph.tensors) for subgraph in self.graph.subgraphs]
        for s, i, piece in self._constants:
            t = tensors[s][i]
            tensors[s][i] = Tensor.of((*t[:_DATA], loader.aligned(piece.array(array), t.dtype), *t[_DATA + 1:]))
        subgraphs = zip(self.graph.subgraphs, tensors, strict=True)
        metadata = self.graph.metadata | {  # type: ignore[operator]
            name: contents[piece.offset:piece.offset + piece.shape[0]] for name, piece in self._metadata.items()}
        model = Model(source, replace(self.graph, contents=contents, metadata=metadata, subgraphs=tuple(
            [replace(subgraph, tensors=tuple(own)) for subgraph, own in subgraphs])))
        model.checked, model.blueprints = self.checked, self.blueprints
        for key, blueprint in self.blueprints.items():
            self._restore(model, blueprint.lowered, model.graph.subgraphs[key[0]].tensors)
        for value, piece in self._known:
            value.data = piece.array(array)
        self._fold(model)
        makers = {Piece: lambda piece: piece.array(array), Computed: lambda computed: computed.value.data}
        for holder in self._holders:
            holder.args = tuple(substituted(holder.args, makers))
        return model

    def _restore(self, model: Model, lowered: Lowered, tensors: Sequence[Tensor]) -> None:
        lowered.subgraph = replace(lowered.subgraph, tensors=tensors)
        for s, i, _ in self._constants:
            if s == lowered.subgraph.index:
                value = lowered.values[i]
                value.tensor = tensors[i]
                value.data = model.constant(value.tensor)

    @np.errstate(all="ignore")
    def _fold(self, model: Model) -> None:
        for s, node in self._folded:
            fold(model, model.graph.subgraphs[s], node, as_list(default.find(node.operator).lower(node)), MemoryPool())


def _address(array: NDArray[Any]) -> int:
    return array.__array_interface__["data"][0]
