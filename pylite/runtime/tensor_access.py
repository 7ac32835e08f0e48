"""Reads and writes the tensors of a subgraph for the caller, and explains why a tensor cannot be read."""
import sys
from typing import TYPE_CHECKING

import numpy as np

from pylite import errors
from pylite._core.run.program import Memory
from pylite.ir.dtypes import HALF, NARROW, NUMPY_DTYPES, bfloat16
from pylite.ir.lowered import Folded

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from pylite.ir.graph import Subgraph
    from pylite.runtime.bound_program import BoundProgram
    from pylite.runtime.model import Model


class TensorAccess:
    """The methods of an Executor for its tensors, by index in its subgraph."""
    __slots__ = ()
    model: "Model"
    subgraph: "Subgraph"
    shapes: "list[tuple[int, ...]]"
    segments: "list[BoundProgram]"
    current: "BoundProgram"     # None before the first allocate()
    ready: bool
    readable: "dict[int, Memory]"
    writable: "dict[int, Memory]"

    def shape(self, index: int) -> "tuple[int, ...]":
        """The current shape of tensor `index`: as resized, else as inferred, else as the file declares it."""
        if index in self.subgraph.inputs:
            return self.shapes[self.subgraph.inputs.index(index)]
        return self.segments[-1].shape(index) if self.segments else self.subgraph.tensors[index].shape

    def dtype(self, index: int) -> str:
        """The current data type of tensor `index`: the file's, unless a plug-in changed it."""
        dtype = self.segments[-1].dtype(index) if self.segments else self.subgraph.tensors[index].dtype
        return "float32" if dtype == HALF else dtype

    def array(self, index: int) -> "NDArray[Any]":
        """The array of tensor `index`.  NotAllocatedError before allocate() unless it is a constant or has no elements,
        or if it has no memory.
        """
        is_input = index in self.subgraph.inputs
        if self.current is None or (not self.ready and is_input):
            constant = None if is_input else self.model.weights.constant(self.subgraph.tensors[index])
            if constant is not None:
                return constant
            if (empty := self._empty(index)) is not None:
                return empty
            raise errors.NotAllocatedError(f"Tensor data is null. Run allocate_tensors() first (tensor {index}, "
                                           f"{self.subgraph.tensors[index].name!r})")
        return self.locate(index)[1]

    def _empty(self, index: int) -> "NDArray[Any] | None":
        """The array of a tensor without elements, which needs no memory; None for any other tensor."""
        shape = self.shape(index)
        return np.empty(shape, NUMPY_DTYPES[self.dtype(index)]) if 0 in shape else None

    def locate(self, index: int) -> "tuple[BoundProgram, NDArray[Any]]":
        """(the segment that has memory for tensor `index`, its array)"""
        for segment in self.segments:
            array = segment.array(index)
            if array is not None:
                return segment, array
        value = self.segments[-1].lowered.values[index]
        if not value.size:
            from pylite.compiler.binding import array_of  # imported on demand: programs of the cache do without
            return self.segments[-1], array_of(value)
        raise errors.NotAllocatedError(
            f"Tensor data is null: {value!r} has no memory, since {self._why_without(index)}")

    def _why_without(self, index: int) -> str:
        """Why tensor `index` has no memory."""
        notes = {}
        for segment in self.segments:
            notes.update(segment.lowered.notes)
        folded = next((o for o in self.subgraph.operators if index in (*o.inputs, *o.outputs)
                       and isinstance(notes.get(o.index), Folded)), None)
        if index in self.segments[-1].lowered.later:
            return "its shape is known once the model has run"
        if folded is not None:
            return (f"the operator that {'computes' if index in folded.outputs else 'reads'} it is "
                    f"{notes[folded.index]}. Create the interpreter with "
                    "experimental_preserve_all_tensors=True to read it; results are the same")
        if index in self.subgraph.outputs:
            return "no operator computes it"
        return "no operator that runs and no caller of this graph uses it"

    def to_read(self, index: int) -> "NDArray[Any]":
        """array(index) for the caller.  NotAllocatedError if a later node of the last run has reused its memory."""
        array = self.array(index)
        if self.current is None:        # a constant
            return self._seen(index, array, {})
        segment = self.locate(index)[0]
        if segment.overwritten(index):
            raise errors.NotAllocatedError(
                f"Tensor data is null: {segment.lowered.values[index]!r} is an intermediate result whose memory later "
                "nodes reuse. Create the interpreter with experimental_preserve_all_tensors=True to read it; results "
                "are the same")
        if segment.dtype(index) == HALF:
            return array.astype("float32")
        if self.subgraph.tensors[index].dtype == "resource":    # details say object; tf.lite takes it for strings
            return np.full(array.shape, None, object)
        return self._seen(index, array, self.readable if self.ready else {})

    def to_write(self, index: int) -> "NDArray[Any]":
        """array(index) for the caller.

        NotAllocatedError before allocate(); TensorError for a constant, or for a tensor that a node computes.
        """
        if not self.ready:
            if index in self.subgraph.inputs and (empty := self._empty(index)) is not None:
                return empty
            raise errors.NotAllocatedError("Cannot set tensor: Tensor is unallocated. Try calling allocate_tensors() "
                                           f"first (tensor {index}, {self.subgraph.tensors[index].name!r})")
        array = self.array(index)
        if not array.flags.writeable:
            raise errors.TensorError(f"Cannot set tensor: {self.current.lowered.values[index]!r} is a constant of the "
                                     "model, which its interpreters share; Interpreter(overrides={...}) changes it")
        if index not in self.subgraph.inputs:
            from pylite.runtime import partial_run  # few callers write anything but inputs
            partial_run.check_written(self, index)
        return self._seen(index, array, {} if self.dtype(index) in NARROW else self.writable)     # all are checked

    def _seen(self, index: int, array: "NDArray[Any]", memories: "dict[int, Memory]") -> "NDArray[Any]":
        """The array of tensor `index` in the type that callers see; `memories` keeps it for the fast path."""
        if self.dtype(index) == "bfloat16":
            if "ml_dtypes" not in sys.modules:
                return array
            array = array.view(bfloat16())
        memories[index] = Memory(array)
        return array
