"""Runs a subgraph on buffers that the caller holds: the TensorBuffers of a CompiledModel."""
from typing import TYPE_CHECKING

import numpy as np

from pylite import errors
from pylite._core.run.buffers import BufferRun, Port
from pylite.ir.dtypes import NUMPY_DTYPES

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from pylite._core.run.buffers import Buffer
    from pylite._core.run.fast_path import Lock
    from pylite.runtime.bound_program import BoundProgram
    from pylite.runtime.executor import Executor


class SubgraphRun(BufferRun):
    """An Executor with the Ports of its inputs and outputs.

    lock: the interpreter's; run() takes it, callers of all other methods hold it; bound: the Ports' BoundProgram, or
    None.
    """

    def __init__(self, executor: "Executor", lock: "Lock") -> None:
        self.executor = executor
        self.lock = lock
        self.inputs, self.outputs, self.program = [], [], None
        self.bound: BoundProgram | None = None

    def allocate(self) -> None:
        """Create Ports for the current shapes, unless they exist."""
        executor = self.executor
        if executor.ready and self.bound is executor.current and not executor.stale:
            return
        self.evict()
        self.lock.run(executor.allocate)
        subgraph = executor.subgraph
        taken: list[tuple[int, int]] = []
        static = executor.fast_program is not None
        self.inputs = [self._port(i, taken, True) for i in subgraph.inputs]
        self.outputs = [self._port(i, taken, static) for i in subgraph.outputs]
        self.program, self.bound = executor.fast_program, executor.current

    def evict(self) -> None:
        """Move all Buffers out of the Executor's memory, which is about to be used in another way."""
        for port in (*self.inputs, *self.outputs):
            port.evict()
        self.inputs, self.outputs, self.program, self.bound = [], [], None, None

    def _port(self, index: int, taken: "list[tuple[int, int]]", lendable: bool) -> Port:
        """A Port for tensor `index`.  taken: address ranges of earlier Ports, whose memory no other Buffer may use."""
        executor = self.executor
        tensor = executor.subgraph.tensors[index]
        try:
            array = executor.to_read(index)
        except errors.NotAllocatedError:        # its shape is not known before the model has run
            array, lendable = np.empty(0, NUMPY_DTYPES[executor.dtype(index)]), False
        if array.dtype.hasobject:
            raise errors.TensorBufferError(
                f"tensor {index} ({tensor.name!r}) holds strings, which have no fixed memory: no TensorBuffer can hold "
                "them. Use pylite.Interpreter, whose set_tensor() and get_tensor() take arrays of strings")
        start = array.ctypes.data
        end = start + array.nbytes
        if any(start < e and s < end for s, e in taken):
            lendable = False
        taken.append((start, end))
        return Port(array, executor.dtype(index), lendable)

    def resize(self, position: int, shape: "tuple[int, ...]") -> None:
        """Change the shape of an input; takes effect at the next allocate()."""
        if self.executor.shapes[position] != shape:
            self.evict()
            self.executor.resize(position, shape)

    def prepare(self, inputs: "list[Any]", outputs: "list[Any]") -> None:
        """Make the tensors fit the Buffers, or raise TensorBufferError."""
        subgraph, shapes = self.executor.subgraph, list(self.executor.shapes)
        _check_buffers("Input", inputs, len(subgraph.inputs))
        _check_buffers("Output", outputs, len(subgraph.outputs))
        for position, buffer in enumerate(inputs):
            if buffer is not None and not (buffer.shared and buffer.nbytes == self._nbytes(position)):
                shapes[position] = self._shape_for(position, buffer)
        for position, shape in enumerate(shapes):
            self.resize(position, shape)
        self.allocate()
        for position, (buffer, port) in enumerate(zip(inputs, self.inputs, strict=True)):
            if buffer is not None and buffer.nbytes != port.nbytes:
                raise self._mismatch("input", subgraph.inputs[position], buffer, port)
        if self.program is not None and not self.fit_outputs(outputs):
            self._check_outputs(outputs)

    def _check_outputs(self, outputs: "list[Any]") -> None:
        for position, (buffer, port) in enumerate(zip(outputs, self.outputs, strict=True)):
            if buffer.nbytes < port.nbytes:
                raise self._mismatch("output", self.executor.subgraph.outputs[position], buffer, port)

    def _nbytes(self, position: int) -> int:
        return self.inputs[position].nbytes if self.inputs else -1

    def _shape_for(self, position: int, buffer: "Buffer") -> "tuple[int, ...]":
        """The shape of an input on `buffer`, whose shape may differ in dimensions that the model leaves open."""
        index = self.executor.subgraph.inputs[position]
        tensor = self.executor.subgraph.tensors[index]
        shape, current = buffer.shape, self.executor.shapes[position]
        if shape == current:
            return current
        signature = tensor.shape_signature
        if -1 in signature and len(signature) == len(shape) and all(
                s in (-1, n) for s, n in zip(signature, shape, strict=True)):
            return shape
        if buffer.shared and buffer.shape == (int(np.prod(current)),):
            return current
        may = f"of which {list(signature)} may change where it is -1" if -1 in signature else "which cannot change"
        raise errors.TensorBufferError(
            f"Failed to register input tensor buffer: input {index} ({tensor.name!r}) has the shape {list(current)}, "
            f"{may}, and the buffer {list(shape)} of {buffer.type_name}. Resize the input (resize_input_tensor with "
            "strict=False), or make the buffer by create_input_buffers()")

    def _mismatch(self, side: str, index: int, buffer: "Buffer", port: Port) -> "errors.TensorBufferError":
        tensor = self.executor.subgraph.tensors[index]
        return errors.TensorBufferError(
            f"Failed to invoke the compiled model: {side} {index} ({tensor.name!r}) has {port.nbytes} bytes, "
            f"{port.type_name} with the shape {list(port.shape)}, and the buffer {buffer.nbytes}, {buffer.type_name} "
            f"with the shape {list(buffer.shape)}. Make the buffer by create_{side}_buffers(), after the last resize")

    def fetch(self, outputs: "list[Any]") -> None:
        """Create the Ports of outputs whose shapes depend on data, after a run."""
        executor = self.executor
        self.outputs = [Port(self._result(i), executor.dtype(i), False) for i in executor.subgraph.outputs]
        for buffer, port in zip(outputs, self.outputs, strict=True):
            buffer.fit_to(port)
        self._check_outputs(outputs)

    def _result(self, index: int) -> "NDArray[Any]":
        return np.ascontiguousarray(self.executor.to_read(index))


def _check_buffers(side: str, buffers: "list[Any]", expected: int) -> None:
    """Raise TensorBufferError for a wrong number of buffers."""
    if len(buffers) != expected:
        raise errors.TensorBufferError(
            f"Failed to invoke the compiled model: {side} buffer size mismatch: number of {side.lower()}s: "
            f"{expected} vs buffers: {len(buffers)}")
