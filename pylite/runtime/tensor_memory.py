"""The memory of one subgraph's tensors: arenas, variables and strings (which are outside of arenas)."""
from typing import TYPE_CHECKING

import numpy as np

from pylite import errors
from pylite._core.run.memory import LARGE_ARENA, MemoryPool, aligned, memory_limit
from pylite.ir.graph import NUMPY_DTYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite.compiler.placement import Placement
    from pylite.ir.graph import Tensor
    from pylite.ir.lowered import Lowered
    from pylite.ir.values import Node, Value
    from pylite.runtime.bound_program import BoundProgram


def allocated(nbytes: int) -> "NDArray[Any]":
    """A zeroed uint8 array of `nbytes`; MemoryLimitError if there is no memory."""
    try:
        return aligned(nbytes)
    except (MemoryError, ValueError):      # ValueError: the size exceeds numpy's limit
        raise errors.MemoryLimitError(
            f"there is no memory for {nbytes} bytes of tensors. Make the inputs smaller") from None


def _empty_strings(value: "Value") -> "NDArray[Any]":
    """An array of empty strings for `value`; TensorError or MemoryLimitError if numpy or the machine cannot hold it."""
    try:
        return np.full(value.shape, b"", object)
    except MemoryError:
        raise errors.MemoryLimitError(
            f"there is no memory for the strings of {value!r}: {value.nbytes} bytes. Make the inputs "
            "smaller") from None
    except ValueError as problem:       # numpy limits the dimensions even of arrays without elements
        raise _unrepresentable(value, problem) from None


def _unrepresentable(value: "Value", problem: ValueError) -> "errors.TensorError":
    return errors.TensorError(f"{value!r} has a shape that numpy cannot represent: {problem}")


class TensorMemory:
    """Memory that outlives the bound programs of an Executor.

    max_bytes: limit of the tensors' bytes, or None; arenas: one for each depth of segments, because two segments of the
    same depth are never in use together; variables: {tensor index: array}; starts: {tensor index: initial contents} of
    variables that operators compute from constants, once; loop_arenas: {operator index: memory for
    loop variables that change shape}; counted: bytes outside the arenas of the last bound program, if there is a limit;
    left: bytes that the last check() left of the limit, or -1.
    """
    __slots__ = ("max_bytes", "arenas", "variables", "starts", "loop_arenas", "counted", "left")

    def __init__(self, max_bytes: "int | None") -> None:
        self.max_bytes = max_bytes
        self.arenas: list[NDArray[Any]] = []
        self.variables: dict[int, NDArray[Any]] = {}
        self.starts: dict[int, NDArray[Any]] = {}
        self.loop_arenas: dict[int, NDArray[Any]] = {}
        self.counted = 0
        self.left = -1 if max_bytes is None else max_bytes

    def check(self, lowered: "Lowered", placement: "Placement", others: "Callable[[], int]") -> None:
        """Raise MemoryLimitError if the arenas need more than `max_bytes`, or more than the machine has.

        others() -> bytes of the arenas that are in use together with the one planned.
        """
        if self.max_bytes is None and placement.total <= LARGE_ARENA:
            return
        needed = placement.total + others()
        if self.max_bytes is not None:
            needed += self._outside_arenas(lowered)
        if self.max_bytes is not None and needed > self.max_bytes:
            step, live = placement.peak()
            node = lowered.calls[step].node if lowered.calls else lowered.subgraph.name
            peak = f"; the peak is at {node} with {live} bytes alive" if live else ""
            rest = ""
            if needed > placement.total:
                rest = f"; {needed - placement.total} bytes are variables, computed constants and other subgraphs"
            raise errors.MemoryLimitError(f"the model needs {needed} bytes and max_memory is {self.max_bytes}{peak}"
                                          f"{rest}. Make the inputs smaller or raise max_memory")
        if self.max_bytes is not None:
            self.left = self.max_bytes - needed
        self.check_machine(placement.total, needed)

    @staticmethod
    def check_machine(total: int, needed: int) -> None:
        """Raise MemoryLimitError if a large arena, of `total` bytes, does not fit into the machine's memory.

        needed: bytes of this arena and all others together.
        """
        if total > LARGE_ARENA and needed > memory_limit():
            raise errors.MemoryLimitError(
                f"the arena needs {needed} bytes and this machine has {memory_limit()}. Make the inputs smaller")

    def packing_pool(self) -> MemoryPool:
        """A pool for packing weights that a run computed; it is limited to the bytes that are left."""
        return MemoryPool(limit=self.left)

    def _outside_arenas(self, lowered: "Lowered") -> int:
        """Bytes of variables, strings (their references), loops, and constants that were computed."""
        outside: dict[int, int] = {}
        for value in lowered.values:
            if value.data is not None:
                if value.tensor.data is None or value.tensor.sparsity is not None:
                    outside[id(value.data)] = value.nbytes
            elif value.root is value and (value.kind == "variable" or NUMPY_DTYPES[value.dtype].hasobject):
                outside[id(value)] = value.nbytes
        self.counted = sum(outside.values())
        return self.counted + sum([arena.nbytes for arena in self.loop_arenas.values()])

    def check_loop(self, node: "Node", nbytes: int) -> None:
        """Raise MemoryLimitError if the variables of a loop, of `nbytes`, do not fit in addition to the rest."""
        if self.max_bytes is not None and self.nbytes + nbytes > self.max_bytes:
            raise errors.MemoryLimitError(
                f"{node}: the loop's variables need {nbytes} bytes in addition to {self.nbytes} others; max_memory is "
                f"{self.max_bytes}. Make the inputs smaller or raise max_memory")

    @property
    def nbytes(self) -> int:
        """Bytes of all arenas, and the bytes last counted outside of them."""
        return self.counted + sum([arena.nbytes for arena in (*self.arenas, *self.loop_arenas.values())])

    def arena(self, nbytes: int, depth: int, outgrow: "Callable[[NDArray[Any] | None], None]") -> "NDArray[Any]":
        """The arena of `depth`, of at least `nbytes` bytes; outgrow(arena) runs before a larger one replaces it."""
        arena = self.arenas[depth] if depth < len(self.arenas) else None
        if arena is None or nbytes > arena.nbytes:
            outgrow(arena)
            grows = depth and arena is not None and self.max_bytes is None      # data-dependent sizes may grow again
            arena = allocated(nbytes + nbytes // 4 if grows else nbytes)
            self.arenas[depth:depth + 1] = [arena]
        return arena

    def outside(self, lowered: "Lowered", before: "Sequence[BoundProgram]") -> "dict[int, NDArray[Any]]":
        """{tensor index: array} of the values outside the arena.  before: the segments whose results are read."""
        arrays = {}
        for value in lowered.values:
            if value.kind == "variable":
                arrays[value.index] = self.variable(value, lowered.starts)
            elif value.kind == "carried":
                array = next((a for a in (segment.array(value.index) for segment in before) if a is not None), None)
                if array is not None:
                    arrays[value.index] = array
            elif (value.data is None and value.root is value and NUMPY_DTYPES[value.dtype].hasobject
                  and value.index not in lowered.later):
                arrays[value.index] = _empty_strings(value)
        return arrays

    def variable(self, value: "Value", starts: "dict[int, NDArray[Any]]") -> "NDArray[Any]":
        """The array of a variable; a new one if its shape has changed.  starts: of the Lowered."""
        array = self.variables.get(value.index)
        if NUMPY_DTYPES[value.dtype].hasobject:
            raise errors.TensorError(f"{value!r} is a variable, which cannot hold {value.dtype}")
        if array is None or array.shape != value.shape:
            array = allocated(value.nbytes).view(NUMPY_DTYPES[value.dtype])
            try:
                self.variables[value.index] = array = array.reshape(value.shape)
            except ValueError as problem:
                raise _unrepresentable(value, problem) from None
            self.starts.pop(value.index, None)
            if value.index in starts:
                array[...] = self.starts[value.index] = starts[value.index]
        return array

    def reset_variables(self, tensors: "Sequence[Tensor]") -> None:
        """Reset every variable tensor to its initial contents."""
        for index, array in self.variables.items():
            array[...] = self.starts.get(index, initial(tensors[index]))


def initial(tensor: "Tensor") -> int:
    """The initial number of a variable tensor, as in tf.lite: real zero for int8, zero bits for all others."""
    q = tensor.quantization if tensor.dtype == "int8" else None
    return int(q.zero_point[0]) if q is not None and len(q.zero_point) else 0
