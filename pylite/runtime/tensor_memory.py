"""The memory of one subgraph's tensors: arenas, variables, and strings, which no arena holds."""
from typing import TYPE_CHECKING

import numpy as np

from pylite._core.memory import aligned, memory_limit
from pylite.errors import MemoryLimitError, TensorError
from pylite.ir.graph import NUMPY_DTYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite.compiler.placement import Plan
    from pylite.ir.graph import Tensor
    from pylite.ir.lowered import Lowered
    from pylite.ir.values import Value
    from pylite.runtime.bound_program import BoundProgram

LARGE_ARENA = 1 << 28   # bytes from which an arena is compared with the machine's memory


class TensorMemory:
    """Memory that outlives the bound programs of an Executor.

    max_bytes: that the arenas may take, or None; arenas: one for each depth of segments, as two of one depth are never
    in use together; variables: {tensor index: array}; loop_arenas: {operator index: memory for the variables of a loop
    that change their shapes}.
    """
    __slots__ = ("max_bytes", "arenas", "variables", "loop_arenas")

    def __init__(self, max_bytes: "int | None") -> None:
        self.max_bytes = max_bytes
        self.arenas: list[NDArray[Any]] = []
        self.variables: dict[int, NDArray[Any]] = {}
        self.loop_arenas: dict[int, NDArray[Any]] = {}

    def check(self, lowered: "Lowered", plan: "Plan", others: "Callable[[], int]") -> None:
        """Raise MemoryLimitError where the arenas need more than `max_bytes`, or than the machine has.

        others() -> bytes of the arenas that are in use together with the one planned.
        """
        if self.max_bytes is None and plan.total <= LARGE_ARENA:
            return
        needed = plan.total + others()
        if self.max_bytes is not None and needed > self.max_bytes:
            step, live = plan.peak()
            node = lowered.calls[step].node if lowered.calls else lowered.subgraph.name
            raise MemoryLimitError(
                f"the arena needs {needed} bytes and max_memory is {self.max_bytes}; the peak is at {node} with {live} "
                "bytes alive. Make the inputs smaller or raise max_memory")
        if plan.total > LARGE_ARENA and needed > memory_limit():
            raise MemoryLimitError(f"the arena needs {needed} bytes and this machine has {memory_limit()}. Make the "
                                   "inputs smaller")

    def arena(self, nbytes: int, depth: int, outgrow: "Callable[[NDArray[Any] | None], None]") -> "NDArray[Any]":
        """The arena of `depth`, of at least `nbytes` bytes; outgrow(arena) runs before a larger one replaces it."""
        arena = self.arenas[depth] if depth < len(self.arenas) else None
        if arena is None or nbytes > arena.nbytes:
            outgrow(arena)
            try:
                arena = aligned(nbytes + nbytes // 4 if depth else nbytes)
            except (MemoryError, OSError, ValueError):      # ValueError: numpy has no array of this size
                raise MemoryLimitError(f"there is no memory for an arena of {nbytes} bytes. Make the inputs "
                                       "smaller") from None
            self.arenas[depth:depth + 1] = [arena]
        return arena

    def outside(self, lowered: "Lowered", before: "Sequence[BoundProgram]") -> "dict[int, NDArray[Any]]":
        """{tensor index: array} of the values outside the arena; before: the segments whose results are read."""
        arrays = {}
        for value in lowered.values:
            if value.kind == "variable":
                arrays[value.index] = self._variable(value)
            elif value.kind == "carried":
                array = next((a for a in (segment.array(value.index) for segment in before) if a is not None), None)
                if array is not None:
                    arrays[value.index] = array
            elif (value.data is None and value.root is value and NUMPY_DTYPES[value.dtype].hasobject
                  and value.index not in lowered.later):
                arrays[value.index] = np.full(value.shape, b"", object)
        return arrays

    def _variable(self, value: "Value") -> "NDArray[Any]":
        array = self.variables.get(value.index)
        if NUMPY_DTYPES[value.dtype].hasobject:
            raise TensorError(f"{value!r} is a variable, which cannot hold {value.dtype}")
        if array is None or array.shape != value.shape:
            array = aligned(value.nbytes).view(NUMPY_DTYPES[value.dtype]).reshape(value.shape)
            self.variables[value.index] = array
        return array

    def reset_variables(self, tensors: "Sequence[Tensor]") -> None:
        """Set every variable tensor to real zero (int8) or to the bits 0 (all others), as tf.lite does."""
        for index, array in self.variables.items():
            q = tensors[index].quantization if tensors[index].dtype == "int8" else None
            array[...] = int(q.zero_point[0]) if q is not None and len(q.zero_point) else 0
