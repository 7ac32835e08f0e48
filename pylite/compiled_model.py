"""CompiledModel: runs a model on TensorBuffers; the interface of ai_edge_litert.compiled_model."""
from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pylite import errors
from pylite.accelerator_options import GpuOptions, IntelOpenVinoOptions, QualcommOptions
from pylite.cpu_options import FORCE_FP16, CpuKernelMode, CpuOptions
from pylite.environment import Environment, EnvironmentOptions
from pylite.hardware_accelerator import HardwareAccelerator
from pylite.interpreter import Interpreter
from pylite.options import Options
from pylite.runtime.subgraph_run import SubgraphRun
from pylite.tensor_buffer import TensorBuffer
from pylite.tflite import arguments

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, Self

    from pylite.ir.graph import Signature, Subgraph
    from pylite.tflite.types import ModelContents, Precision

__all__ = ["CompiledModel", "CpuKernelMode", "CpuOptions", "Environment", "EnvironmentOptions", "GpuOptions",
           "HardwareAccelerator", "IntelOpenVinoOptions", "Options", "QualcommOptions", "TensorBuffer"]

_NO_SIGNATURE = "<placeholder signature>"       # the key if a model has none
_EVERY = HardwareAccelerator.CPU | HardwareAccelerator.GPU | HardwareAccelerator.NPU


class CompiledModel:
    """A model that runs on TensorBuffers.  Results are those of the reference kernels.

        model = CompiledModel.from_file("model.tflite")
        inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
        inputs[0].write(image)
        model.run_by_index(0, inputs, outputs)
        scores = outputs[0].read(1001, np.float32)

    Signatures name inputs and outputs; a model without one has "<placeholder signature>" with the tensors' names.
    Inputs and outputs are in the order of the subgraph.  Buffers that the model creates share the memory of its
    tensors, so that a run copies nothing; other buffers are copied.  Every method takes the model's lock, and runs
    release the GIL.  Every method raises RuntimeError if a signature, an index, a name or a buffer does not fit.
    """

    def __init__(self, interpreter: Interpreter, environment: Environment, accelerated: bool = True) -> None:
        """from_file() and from_buffer() call this."""
        self._interpreter = interpreter
        self._environment = environment
        self._accelerated = accelerated
        self._signatures = _signatures(interpreter)
        self._keys = {s.key: i for i, s in enumerate(self._signatures)}
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the model.  Buffers that it created stay readable."""
        self._closed = True
        self._signatures, self._keys = [], {}
        self._interpreter.close()

    @classmethod
    def from_file(cls, model_path: str | bytes | os.PathLike[str], hardware_accel: HardwareAccelerator | None = None,
                  environment: Environment | None = None, options: Options | None = None) -> Self:
        """A CompiledModel of a file.

        hardware_accel: short for Options(hardware_accelerators=...), by default CPU; ValueError together with
        `options`.  RuntimeError if the file is missing, is not a model, or has unknown operators, or if the CPU is not
        among the accelerators; ValueError for a closed environment.
        """
        if not isinstance(model_path, (str, bytes, os.PathLike)):
            raise TypeError(f"model_path must be a path, not {type(model_path).__name__}")
        return cls._made({"model_path": model_path}, hardware_accel, environment, options)

    @classmethod
    def from_buffer(cls, model_data: ModelContents, hardware_accel: HardwareAccelerator | None = None,
                    environment: Environment | None = None, options: Options | None = None) -> Self:
        """A CompiledModel of a file's bytes; the other arguments and errors are from_file()'s."""
        try:
            given: Any = model_data
            content = given if isinstance(given, (bytes, bytearray)) else memoryview(given)
        except TypeError:
            raise TypeError(f"model_data must be the bytes of a model, not {type(model_data).__name__}; from_file() "
                            "takes a path") from None
        return cls._made({"model_content": content}, hardware_accel, environment, options)

    @classmethod
    def _made(cls, source: dict[str, Any], hardware_accel: Any, environment: Environment | None,
              options: Options | None) -> Self:
        if environment is None:
            environment = Environment.create()
        _ = environment.capsule     # ValueError if it is closed
        options = _options(hardware_accel, options)
        accelerated = _check_accelerators(options.hardware_accelerators)
        cpu = options._cpu_options or CpuOptions()
        threads = arguments.whole("num_threads", cpu.num_threads)
        mode = -1 if cpu.kernel_mode is None else int(cpu.kernel_mode)
        if mode > max(CpuKernelMode):
            known = ", ".join(f"{m.name} ({m.value})" for m in CpuKernelMode)
            raise errors.AcceleratorError(f"there is no CPU kernel mode {mode}; the modes are {known}")
        half = arguments.whole("xnnpack_flags", cpu.xnnpack_flags or 0) & FORCE_FP16
        precision: Precision | None = "prefer_float16" if half else None
        content = next(iter(source.values()))
        if not isinstance(content, os.PathLike) and not len(content):
            raise errors.CompiledModelError(f"Failed to load model: {next(iter(source))} is empty")
        try:
            interpreter = Interpreter(**source, num_threads=max(1, threads), precision=precision)
        except errors.ModelError as error:
            raise errors.CompiledModelError(f"Failed to load model: {error}") from error
        return cls(interpreter, environment, accelerated and mode <= CpuKernelMode.DELEGATE)

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a CompiledModel cannot be pickled: make one in each process, with from_file()")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._interpreter!r}>"

    @property
    def environment(self) -> Environment:
        """The Environment in which the model was created."""
        return self._environment

    def get_signature_list(self) -> dict[str, dict[str, list[str]]]:
        """{signature key: {"inputs": [name, ...], "outputs": [name, ...]}}"""
        self._check_open()
        return {s.key: {"inputs": list(s.inputs), "outputs": list(s.outputs)} for s in self._signatures}

    def get_signature_by_index(self, index: int) -> dict[str, Any]:
        """{"key": the signature's key, "inputs": [name, ...], "outputs": [name, ...]}"""
        signature = self._signature(index)
        return {"key": signature.key, "inputs": list(signature.inputs), "outputs": list(signature.outputs)}

    def get_num_signatures(self) -> int:
        """The number of signatures, at least 1."""
        self._check_open()
        return len(self._signatures)

    def get_signature_index(self, key: str) -> int:
        """The index of a signature, or -1.  The key "" stands for the first one."""
        self._check_open()
        if not isinstance(key, str):
            raise TypeError(f"a signature's key must be a string, not {errors.shortened(repr(key))}")
        return self._keys.get(key, 0 if key == "" else -1)

    def get_input_tensor_details(self, signature_key: str) -> dict[str, Any]:
        """{input name: {"name": of the tensor, "index", "dtype": a string, "shape": the current shape, a list}}"""
        signature = self._signature_of(signature_key)
        return signature.details(signature.inputs, signature.subgraph.inputs)

    def get_output_tensor_details(self, signature_key: str) -> dict[str, Any]:
        """The same for outputs.  A shape that depends on data is the last run's."""
        signature = self._signature_of(signature_key)
        with self._interpreter._lock:
            signature.run.allocate()
            return signature.details(signature.outputs, signature.subgraph.outputs)

    def get_input_buffer_requirements(self, input_index: int, signature_index: int = 0) -> dict[str, Any]:
        """{"buffer_size": bytes, "supported_types": [1]}, which is memory of the host."""
        return self._requirements(signature_index, "input", input_index)

    def get_output_buffer_requirements(self, output_index: int, signature_index: int = 0) -> dict[str, Any]:
        """As get_input_buffer_requirements()."""
        return self._requirements(signature_index, "output", output_index)

    def _requirements(self, signature_index: int, side: str, index: int) -> dict[str, Any]:
        signature = self._signature(signature_index)
        with self._interpreter._lock:
            signature.run.allocate()
            ports = signature.run.inputs if side == "input" else signature.run.outputs
            _check_index(signature, side, index, len(ports))
            return {"buffer_size": ports[index].nbytes, "supported_types": [1]}

    def is_fully_accelerated(self) -> bool:
        """Does everything run on the processors and kernels that were asked for?

        False if GPU or NPU was allowed, since neither computes here, or if `kernel_mode` is REFERENCE or BUILTIN.
        """
        self._check_open()
        return self._accelerated

    def create_input_buffer_by_name(self, signature_key: str, input_name: str) -> TensorBuffer:
        """A TensorBuffer for one input."""
        signature = self._signature_of(signature_key)
        return self._buffers(signature, "inputs", [_position(signature, "input", signature.inputs, input_name)])[0]

    def create_output_buffer_by_name(self, signature_key: str, output_name: str) -> TensorBuffer:
        """A TensorBuffer for one output."""
        signature = self._signature_of(signature_key)
        return self._buffers(signature, "outputs", [_position(signature, "output", signature.outputs, output_name)])[0]

    def create_input_buffers(self, signature_index: int) -> list[TensorBuffer]:
        """A TensorBuffer for each input, zeroed unless it has the tensor's contents."""
        signature = self._signature(signature_index)
        return self._buffers(signature, "inputs", range(len(signature.inputs)))

    def create_output_buffers(self, signature_index: int) -> list[TensorBuffer]:
        """A TensorBuffer for each output."""
        signature = self._signature(signature_index)
        return self._buffers(signature, "outputs", range(len(signature.outputs)))

    def _buffers(self, signature: _Signature, side: str, positions: Sequence[int]) -> list[TensorBuffer]:
        with self._interpreter._lock:
            signature.run.allocate()
            ports = getattr(signature.run, side)
            elastic = side == "outputs" and signature.run.program is None       # shapes depend on data
            return [TensorBuffer.of_port(TensorBuffer, ports[i], elastic) for i in positions]

    def resize_input_tensor(self, input_index: int, dims: Sequence[int], signature_index: int = 0,
                            strict: bool = True) -> None:
        """Change the shape of an input; create buffers for the new shapes afterwards.

        strict: only dimensions that the model leaves open may change; otherwise ResizeError, a RuntimeError.
        """
        signature = self._signature(signature_index)
        shape = [arguments.whole("a dimension", n) for n in dims]
        _check_index(signature, "input", input_index, len(signature.inputs))
        from pylite.tflite.inputs import checked_shape
        with self._interpreter._lock:
            tensor = signature.subgraph.tensors[signature.subgraph.inputs[input_index]]
            signature.run.resize(input_index, checked_shape(tensor, signature.subgraph, tensor.shape, shape, strict))

    def resize_input_tensor_by_name(self, signature_key: str, input_name: str, dims: Sequence[int],
                                    strict: bool = True) -> None:
        """resize_input_tensor() by names.  ValueError for unknown names."""
        index = self.get_signature_index(signature_key)
        if index < 0:
            raise ValueError(f"Unknown signature: {signature_key}. The model has {_list(self._keys)}")
        names = self._signatures[index].inputs
        if input_name not in names:
            raise ValueError(f"Unknown input '{input_name}' for signature '{signature_key}', which has "
                             f"{_list(names)}")
        self.resize_input_tensor(names.index(input_name), dims, index, strict)

    def run_by_name(self, signature_key: str, input_map: dict[str, TensorBuffer],
                    output_map: dict[str, TensorBuffer]) -> None:
        """Run a signature once, on {name: buffer} of its inputs and outputs.

        The map must name every output.  An input that is missing keeps its contents.  Names that the signature does not
        have are ignored, unless an input is missing, too.
        """
        index = self._keys.get(signature_key) if isinstance(signature_key, str) else None
        signature = self._signature_of(signature_key) if index is None else self._signatures[index]
        inputs: list[TensorBuffer | None]
        try:
            inputs = [input_map[name] for name in signature.inputs]
            outputs = [output_map[name] for name in signature.outputs]
        except KeyError:
            inputs, outputs = self._incomplete(signature, input_map, output_map)
            signature.run.run(inputs, outputs, True)
            return
        except TypeError:
            raise errors.BufferTypeError("run_by_name() takes dictionaries {name: buffer} of inputs and of outputs; "
                                         "run_by_index() takes lists") from None
        signature.run.run(inputs, outputs)

    @staticmethod
    def _incomplete(signature: _Signature, input_map: dict[str, TensorBuffer],
                    output_map: dict[str, TensorBuffer]) -> tuple[list[TensorBuffer | None], list[TensorBuffer]]:
        """The buffers for a run; None for each input that keeps its contents."""
        key, missing = signature.key, [name for name in signature.outputs if name not in output_map]
        if missing:
            raise errors.TensorBufferError(
                f"The given map is missing some output TensorBuffers: signature {key!r} has the outputs "
                f"{_list(signature.outputs)}, and the map {_list(output_map)}")
        if not input_map.keys() <= set(signature.inputs):
            raise errors.TensorBufferError(f"signature {key!r} has the inputs {_list(signature.inputs)}, and the map "
                                           f"{_list(input_map)}")
        return [input_map.get(name) for name in signature.inputs], [output_map[name] for name in signature.outputs]

    def run_by_index(self, signature_index: int, input_buffers: Sequence[TensorBuffer],
                     output_buffers: Sequence[TensorBuffer]) -> None:
        """Run a signature once, on a buffer for each input and for each output.

        A buffer of another shape resizes an input if the model leaves the dimensions open.  ValueError for a destroyed
        buffer, RuntimeError for a buffer that does not fit, or if an operator fails.
        """
        if type(signature_index) is not int or not 0 <= signature_index < len(self._signatures):
            self._signature(signature_index)
        self._signatures[signature_index].run.run(input_buffers, output_buffers)

    def _check_open(self) -> None:
        if self._closed:
            raise errors.ExecutionError("the CompiledModel is closed; make another one")

    def _signature(self, index: int) -> _Signature:
        self._check_open()
        if not 0 <= arguments.whole("signature_index", index) < len(self._signatures):
            raise errors.SignatureError(f"Signature index {index} is out of range of signature keys: the model has "
                                        f"{_list(self._keys)}")
        return self._signatures[index]

    def _signature_of(self, key: str) -> _Signature:
        index = self.get_signature_index(key)
        if index < 0:
            raise errors.SignatureError(f"Signature not found: {key}. The model has "
                                        f"{_list(self._keys)}")
        return self._signatures[index]


def _options(hardware_accel: Any, options: Any) -> Options:
    """The Options that the arguments of from_file() stand for."""
    if options is None:
        return Options(HardwareAccelerator.CPU if hardware_accel is None else hardware_accel)
    if hardware_accel is not None:
        raise ValueError("Pass either options or hardware_accel, not both.")
    if not isinstance(options, Options):
        raise errors.BufferTypeError(f"options must be Options, not {type(options).__name__}")
    return options


class _Signature:
    """A signature and the SubgraphRun of its subgraph.  inputs, outputs: names in the order of the subgraph."""
    __slots__ = ("inputs", "key", "outputs", "run", "subgraph")

    def __init__(self, key: str, run: SubgraphRun, subgraph: Subgraph, named: Signature | None) -> None:
        self.key, self.run, self.subgraph = key, run, subgraph
        tensors = subgraph.tensors
        inputs, outputs = ({}, {}) if named is None else (
            {i: name for name, i in side.items()} for side in (named.inputs, named.outputs))
        self.inputs = [inputs.get(i, tensors[i].name) for i in subgraph.inputs]
        self.outputs = [outputs.get(i, tensors[i].name) for i in subgraph.outputs]

    def details(self, names: Sequence[str], indices: Sequence[int]) -> dict[str, Any]:
        executor, tensors = self.run.executor, self.subgraph.tensors
        return {name: {"name": tensors[i].name, "index": i, "dtype": executor.dtype(i),
                       "shape": list(executor.shape(i))} for name, i in zip(names, indices, strict=True)}


def _signatures(interpreter: Interpreter) -> list[_Signature]:
    """The signatures of a model in the order of the file.  Signatures of the same subgraph share a SubgraphRun."""
    runs: dict[int, SubgraphRun] = {}
    named: list[Signature | None] = list(interpreter._signatures.values()) or [None]
    signatures = []
    for signature in named:
        index = 0 if signature is None else signature.subgraph
        if index not in runs:
            executor = interpreter._executor(index)
            executor.use_graph()
            runs[index] = SubgraphRun(executor, interpreter._lock)
        key = _NO_SIGNATURE if signature is None else signature.key
        signatures.append(_Signature(key, runs[index], runs[index].executor.subgraph, signature))
    return signatures


def _list(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names)) or "none"


def _position(signature: _Signature, side: str, names: list[str], name: str) -> int:
    if not isinstance(name, str):
        raise TypeError(f"the name of an {side} must be a string, not {name!r}")
    if name not in names:
        raise errors.SignatureError(f"{side.capitalize()} tensor not found: {name}. Signature {signature.key!r} has "
                                    f"{_list(names)}")
    return names.index(name)


def _check_index(signature: _Signature, side: str, index: int, count: int) -> None:
    if not 0 <= arguments.whole(f"{side}_index", index) < count:
        raise errors.SignatureError(f"{side.capitalize()} index out of range: {index}. Signature {signature.key!r} has "
                                    f"{errors.counted(count, side)}")


def _check_accelerators(accelerators: Any) -> bool:
    """Is the CPU the only accelerator requested?  AcceleratorError if it is not requested."""
    requested = HardwareAccelerator(int(accelerators) & int(_EVERY))
    if int(accelerators) != int(requested) or HardwareAccelerator.CPU not in requested:
        asked = requested.name if requested else str(int(accelerators))
        raise errors.AcceleratorError(
            f"there is no accelerator for {asked}: pylite computes on the CPU alone. Pass HardwareAccelerator.CPU, or "
            f"CPU as well ({'GPU' if requested & HardwareAccelerator.GPU else 'NPU'} | CPU), which runs on the CPU. "
            "Delegates for other processors run with pylite.Interpreter(experimental_delegates=[load_delegate(...)])")
    return requested == HardwareAccelerator.CPU
