"""The Python side of libtensorflowlite_c.so: models, interpreters and signature runners of TensorFlow Lite's C API.

Its C files are in pylite/_core/clib.  They hold the objects of this module, read the structs that these own without
the GIL, and report the exceptions that methods raise.  Addresses are integers.
"""
from __future__ import annotations

import ctypes
import os
from ctypes import c_bool, c_char_p, c_float, c_int, c_int32, c_size_t, c_void_p
from typing import TYPE_CHECKING

from pylite import errors
from pylite._core.run.memory import aligned
from pylite.clib_messages import described
from pylite.interpreter import Interpreter
from pylite.ir.dtypes import NUMPY_DTYPES
from pylite.plugins.host.layouts import TYPE_CODES
from pylite.runtime.model import Model
from pylite.schema.encodings import pack_strings, unpack_strings
from pylite.schema.tables import enum

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from pylite.runtime.bound_program import BoundProgram
    from pylite.runtime.executor import Executor

__all__ = ["MainGraph", "SignatureGraph", "described", "library_path", "model_of_file", "model_of_memory"]

_CUSTOM = 32            # kTfLiteBuiltinCustom
_AFFINE = 1             # kTfLiteAffineQuantization
_MMAP, _ARENA, _PERSISTENT, _DYNAMIC = 1, 2, 3, 4       # TfLiteAllocationType
_EMPTY = aligned(1)[:0]     # the address of tensors without elements, because programs treat null as an error


def library_path() -> str:
    """The path of libtensorflowlite_c.so.  FileNotFoundError if this build has none."""
    from pylite._core import simd
    path = os.path.join(os.path.dirname(simd.__file__), "clib", "libtensorflowlite_c.so")
    if not os.path.exists(path):
        raise FileNotFoundError(f"there is no {path}: this build of pylite has no library for C")
    return path


class _Tensor(ctypes.Structure):
    """TfLiteTensor of common.h."""
    _fields_ = [("type", c_int), ("data", c_void_p), ("dims", c_void_p), ("scale", c_float), ("zero_point", c_int32),
                ("allocation_type", c_int), ("bytes", c_size_t), ("allocation", c_void_p), ("name", c_char_p),
                ("delegate", c_void_p), ("buffer_handle", c_int), ("data_is_stale", c_bool), ("is_variable", c_bool),
                ("quantization_type", c_int), ("quantization", c_void_p), ("sparsity", c_void_p),
                ("dims_signature", c_void_p)]


class _Affine(ctypes.Structure):
    """TfLiteAffineQuantization."""
    _fields_ = [("scale", c_void_p), ("zero_point", c_void_p), ("quantized_dimension", c_int32)]


class _Sides(ctypes.Structure):
    """pl_io of interpreters.c."""
    _fields_ = [("num_inputs", c_int), ("num_outputs", c_int), ("inputs", c_void_p), ("outputs", c_void_p),
                ("input_tensors", c_void_p), ("output_tensors", c_void_p), ("input_names", c_void_p),
                ("output_names", c_void_p)]


class _Op(ctypes.Structure):
    """pl_op of objects.h."""
    _fields_ = [("builtin", c_int), ("name", c_char_p), ("registration", c_void_p), ("op", c_void_p),
                ("min_version", c_int), ("max_version", c_int)]


def _array(kind: Any, values: Iterable[Any], *head: int) -> Any:
    """A C array; head: what comes first, as the size of a TfLiteIntArray."""
    values = [*head, *values]
    return (kind * max(1, len(values)))(*values)


def model_of_file(path: bytes) -> Model:
    return Model(os.fsdecode(path))


def model_of_memory(address: int, size: int) -> Model:
    """The Model of a file in memory, which is not copied."""
    return Model(memoryview((ctypes.c_ubyte * size).from_address(address)).cast("B"))


class _Strings:
    """malloc'd memory of a tensor of strings, as C programs may have replaced it."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = c_void_p, [c_size_t], [c_void_p]

    @classmethod
    def store(cls, tensor: _Tensor, data: bytes) -> None:
        cls.libc.free(tensor.data)
        tensor.data, tensor.bytes = cls.libc.malloc(max(1, len(data))), len(data)
        if not tensor.data:
            raise MemoryError(f"no memory for {len(data)} bytes of strings")
        ctypes.memmove(tensor.data, data, len(data))


class _Tensors:
    """The TfLiteTensors of one subgraph, made when one is first asked for.

    Other subgraphs that call this one may change the shapes of its Executor, and its program: restore() returns to
    `shapes`, those that the program in C gave its inputs, and to `shown`.
    """

    def __init__(self, interpreter: Interpreter, executor: Executor) -> None:
        self.interpreter, self.executor = interpreter, executor
        self.made: dict[int, _Tensor] = {}
        self.kept: dict[int, list[Any]] = {}        # the memory that each points to: shape, contents, others
        self.shapes = list(executor.shapes)
        self.shown: BoundProgram | None = None      # what runs on their memory; None: nothing is allocated
        self.strings = [i for i in executor.subgraph.inputs if executor.subgraph.tensors[i].dtype == "string"]
        self.moves = bool(self.strings)             # does the data of tensors move at each run?

    def address(self, index: int) -> int:
        if index not in self.made:
            self.made[index] = self._new(index)
            self._refresh(index)
        return ctypes.addressof(self.made[index])

    def _new(self, index: int) -> _Tensor:
        from pylite.tflite.details import tensor_details
        tensor = self.executor.subgraph.tensors[index]
        details = tensor_details(self.interpreter._model, tensor, tensor.shape, tensor.dtype)
        (scale, zero_point), parameters = details["quantization"], details["quantization_parameters"]
        signature = _array(c_int, tensor.shape_signature, len(tensor.shape_signature))
        made = _Tensor(name=tensor.name.encode(), scale=scale, zero_point=zero_point, buffer_handle=-1,
                       is_variable=tensor.is_variable,
                       dims_signature=ctypes.addressof(signature) if -1 in tensor.shape_signature else None)
        kept: list[Any] = [None, None, signature]
        if len(parameters["scales"]) and not parameters["block_size"]:
            scales = _array(c_float, parameters["scales"].tolist())
            counted = (ctypes.c_ubyte * (4 + 4 * len(parameters["scales"])))()      # TfLiteFloatArray
            ctypes.memmove(counted, ctypes.byref(c_int(len(parameters["scales"]))), 4)
            ctypes.memmove(ctypes.addressof(counted) + 4, scales, 4 * len(parameters["scales"]))
            points = _array(c_int, parameters["zero_points"].tolist(), len(parameters["zero_points"]))
            affine = _Affine(ctypes.addressof(counted), ctypes.addressof(points), parameters["quantized_dimension"])
            made.quantization_type, made.quantization = _AFFINE, ctypes.addressof(affine)
            kept += [counted, points, affine]
        self.kept[index] = kept
        return made

    def refresh(self) -> None:
        """Let all structs show the present shapes and memory."""
        self.shown = self.executor.current if self.executor.ready else None
        for index in self.made:
            self._refresh(index)

    def _retype(self, index: int) -> None:
        """Set the type, which prepare() of a plug-in may change, and where memory of this type is."""
        made, tensor, dtype = self.made[index], self.executor.subgraph.tensors[index], self.executor.dtype(index)
        if (made.allocation_type == _DYNAMIC) != (dtype == "string"):
            if made.allocation_type == _DYNAMIC:
                _Strings.libc.free(made.data)
            made.data = None
        made.type = TYPE_CODES.get(dtype, 0)
        made.allocation_type = (_DYNAMIC if dtype == "string" else _MMAP if tensor.data is not None
                                else _PERSISTENT if tensor.is_variable else _ARENA)
        self.moves = self.moves or dtype == "string"

    def _refresh(self, index: int) -> None:
        made, kept, executor = self.made[index], self.kept[index], self.executor
        self._retype(index)
        shape = executor.shape(index)
        if kept[0] is None or tuple(kept[0])[1:len(shape) + 1] != shape or kept[0][0] != len(shape):
            kept[0] = _array(c_int, shape, len(shape))
            made.dims = ctypes.addressof(kept[0])
        try:
            array = executor.to_read(index)
        except errors.PyliteError:
            array = None
        if made.allocation_type == _DYNAMIC:
            if array is not None and index not in self.strings:
                _Strings.store(made, pack_strings(array).tobytes())
        elif array is None:
            kept[1], made.data = None, None
            size = NUMPY_DTYPES[executor.dtype(index)].itemsize
            for n in shape:
                size *= n
            made.bytes = size
        else:
            if not array.nbytes:
                array = _EMPTY
            kept[1], made.data, made.bytes = array, array.ctypes.data, array.nbytes

    def resume_shapes(self) -> None:
        """Let the Executor have `shapes` again."""
        for position, shape in enumerate(self.shapes):
            self.executor.resize(position, shape)

    def restore(self) -> None:
        """Let the Executor run on `shapes` again; inputs and variables keep their contents.

        ExecutionError if the program in C has not allocated them.
        """
        if self.shown is None:
            raise errors.ExecutionError("Invoke called on model that is not ready. Call AllocateTensors first, also "
                                        "after every ResizeInputTensor that changes a shape")
        written = {i: self.kept[i][1].copy() for i, made in self.made.items()
                   if i in self.executor.subgraph.inputs and made.allocation_type == _ARENA and made.data}
        self.interpreter._lock.run(self.executor.prepared, self.shapes, {})
        self.refresh()
        for index, contents in written.items():
            self.kept[index][1][...] = contents

    def load_strings(self) -> None:
        """Set the inputs of strings to the contents that the C program has written."""
        for index in self.strings:
            made, array = self.made.get(index), self.executor.to_write(index)
            if made is not None and made.data:      # a signature may leave out inputs of its subgraph
                import numpy as np
                data = np.frombuffer(ctypes.string_at(made.data, made.bytes), np.uint8)
                array[...] = unpack_strings(data, array.shape)

    def free(self) -> None:
        for made in self.made.values():
            if made.allocation_type == _DYNAMIC:
                _Strings.libc.free(made.data)
                made.data, made.bytes = None, 0


class _Graph:
    """A subgraph with inputs and outputs in an order, and names where a signature gives them."""

    def __init__(self, tensors: _Tensors, inputs: Sequence[int], outputs: Sequence[int],
                 names: tuple[Sequence[str], Sequence[str]] = ((), ())) -> None:
        self._tensors, self._inputs = tensors, list(inputs)
        self._interpreter, self._executor = tensors.interpreter, tensors.executor
        with self._interpreter._lock:
            addresses = [_array(c_void_p, map(tensors.address, side)) for side in (inputs, outputs)]
        self._arrays = [_array(c_int, inputs), _array(c_int, outputs), *addresses,
                        *(_array(c_char_p, [n.encode() for n in side]) for side in names)]
        self._sides = _Sides(len(inputs), len(outputs), *map(ctypes.addressof, self._arrays))

    def io_address(self) -> int:
        return ctypes.addressof(self._sides)

    def resize(self, position: int, dims: int, count: int, strict: int) -> None:
        shape = list((c_int * count).from_address(dims)) if count else []
        tensors, interpreter, executor = self._tensors, self._interpreter, self._executor
        with interpreter._lock:
            tensors.resume_shapes()
            interpreter._resize(executor, self._inputs[position], shape, bool(strict))
            tensors.shapes = list(executor.shapes)
            tensors.refresh()

    def allocate(self) -> None:
        with self._interpreter._lock:
            self._interpreter._ensure_safe()
            self._tensors.resume_shapes()
            try:
                self._interpreter._lock.run(self._executor.allocate)
            finally:
                self._tensors.refresh()

    def invoke(self) -> None:
        tensors, interpreter, executor = self._tensors, self._interpreter, self._executor
        if (not tensors.moves and executor is interpreter._main and executor.fast_program is not None
                and executor.current is tensors.shown):
            interpreter.invoke()        # as no data moves, this is all
            return
        with interpreter._lock:
            if executor.ready and executor.current is not tensors.shown:
                tensors.restore()
            if tensors.strings:
                tensors.load_strings()
            interpreter._lock.run(executor.invoke)
            if tensors.moves or executor.fast_program is None or executor.current is not tensors.shown:
                tensors.refresh()


class MainGraph(_Graph):
    """An interpreter: the first subgraph.

    delegates, ops: addresses of arrays of TfLiteDelegate * and pl_op; keys: address of a pointer that is set to the
    array of the signatures' keys; selected_ops: are `ops` all that there are?
    """

    def __init__(self, model: Model, num_threads: int, delegates: int, num_delegates: int, ops: int, num_ops: int,
                 keys: int, selected_ops: int) -> None:
        addresses = (c_void_p * num_delegates).from_address(delegates) if num_delegates else ()
        given: Any = [_Delegate(address or 0) for address in addresses]
        interpreter = Interpreter(
            model=model, num_threads=max(1, num_threads), experimental_delegates=given or None,
            op_resolver=_resolver((_Op * num_ops).from_address(ops) if num_ops else (), bool(selected_ops)))
        executor = interpreter._executor(0)
        executor.use_graph()
        self._by_subgraph = {0: _Tensors(interpreter, executor)}
        super().__init__(self._by_subgraph[0], executor.subgraph.inputs, executor.subgraph.outputs)
        self._keys = _array(c_char_p, [key.encode() for key in interpreter._signatures])
        c_void_p.from_address(keys).value = ctypes.addressof(self._keys)

    def num_signatures(self) -> int:
        return len(self._interpreter._signatures)

    def tensor(self, index: int) -> int:
        """The address of a tensor."""
        from pylite.tflite import arguments
        with self._interpreter._lock:
            return self._tensors.address(arguments.checked_index(self._executor, index))

    def signature(self, key: bytes) -> SignatureGraph:
        signatures = self._interpreter._get_full_signature_list()
        name = key.decode("utf-8", "replace")
        if name not in signatures:
            raise errors.SignatureError(f"there is no signature {name!r}: the model has "
                                        f"{', '.join(map(repr, signatures)) or 'none'}")
        index = self._interpreter._signatures[name].subgraph
        with self._interpreter._lock:
            if index not in self._by_subgraph:
                self._by_subgraph[index] = _Tensors(self._interpreter, self._interpreter._executor(index))
        details = signatures[name]
        return SignatureGraph(self._by_subgraph[index], list(details["inputs"].values()),
                              list(details["outputs"].values()), (list(details["inputs"]), list(details["outputs"])))

    def reset_variables(self) -> None:
        self._interpreter.reset_all_variables()

    def delegate(self, address: int) -> None:
        """Let a TfLiteDelegate take nodes."""
        try:
            self._interpreter.modify_graph_with_delegate(_Delegate(address))  # type: ignore[arg-type]
        finally:
            with self._interpreter._lock:
                self._tensors.refresh()

    def close(self) -> None:
        self._interpreter.close()
        for tensors in self._by_subgraph.values():
            tensors.free()


class SignatureGraph(_Graph):
    """A signature runner."""


class _Delegate:
    """A TfLiteDelegate of the program, which owns it."""

    def __init__(self, address: int) -> None:
        from pylite._core.capi.plugin_structs import DelegateHandle, delegate_flags, delegate_is_plausible
        if not delegate_is_plausible(address):
            raise errors.DelegateError(f"there is no TfLiteDelegate at the address {address:#x}")
        self.address, self.flags = address, delegate_flags(address)
        self.name = f"TfLiteDelegate at {address:#x}"
        self._handle = DelegateHandle(address, 0)

    def __repr__(self) -> str:
        return f"<{self.name}>"

    def modify(self, delegation: Any) -> None:
        from pylite.plugins.host.delegates import modify
        modify(self, delegation)

    def _get_native_delegate_pointer(self) -> int:
        return self.address


def _resolver(ops: Iterable[_Op], selected: bool) -> Any:
    """The OpResolver with `ops`, which the program has added; None if pylite's own is all that there is."""
    ops = list(ops)
    if not ops and not selected:
        return None
    from pylite.plugins.host.custom_ops import NativeRegistration
    from pylite.plugins.pointers import _Registration
    from pylite.plugins.resolver import BuiltinOpResolver, MutableOpResolver
    resolver = MutableOpResolver() if selected else BuiltinOpResolver()
    for op in ops:
        copy = None if op.registration is None else _Registration.from_buffer_copy(
            ctypes.string_at(op.registration, ctypes.sizeof(_Registration)))
        entry = NativeRegistration(_op_name(op), registration=0 if copy is None else ctypes.addressof(copy),
                                   operator=op.op or 0, references=copy)
        entry.builtin = op.builtin != _CUSTOM
        resolver.add_custom(entry.name, entry, max(1, op.min_version), max(1, op.min_version, op.max_version))
    return resolver


def _op_name(op: _Op) -> str:
    """The name in models of an op that the program has added."""
    known, kind = enum("BuiltinOperator"), "Operator" if op.op else "BuiltinOp" if op.name is None else "CustomOp"
    if not 0 <= op.builtin < len(known):
        raise errors.PluginError(f"TfLiteInterpreterOptionsAdd{kind} was given the operator code {op.builtin}; "
                                 f"builtin_ops.h has the codes 0 to {len(known) - 1}")
    if op.builtin != _CUSTOM:
        return known[op.builtin]
    if not op.name:
        raise errors.PluginError(f"TfLiteInterpreterOptionsAdd{kind} was given a custom op without a name: pass the "
                                 "name that the model has, its custom code")
    return op.name.decode("utf-8", "replace")
