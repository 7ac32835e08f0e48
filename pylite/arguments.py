"""What callers hand to the interpreter: checked, and turned into what its inside works with."""
import operator
import os

import numpy as np

from pylite.errors import ResizeError, TensorError
from pylite.model import Model
from pylite.registry import default


def thread_count(num_threads):
    if num_threads is None:
        return 1
    try:
        count = operator.index(num_threads)
    except TypeError:
        raise ValueError(f"type of num_threads should be int, not {type(num_threads).__name__}") from None
    if count < 1:
        raise ValueError(f"num_threads should >= 1, not {count}")
    return count


def resolver_type(given):
    """The name of a member of OpResolverType; "AUTO" stands for that one, so that by default it is not imported."""
    if given == "AUTO":
        return given
    from pylite.resolver_type import OpResolverType
    if not isinstance(given, OpResolverType):
        raise ValueError(f"Unrecognized passed in op resolver type: {given}. Pass a member of OpResolverType")
    return given.name


def model_from(path, content, model):
    given = [name for name, value in (("model_path", path), ("model_content", content))
             if value is not None and (len(value) if hasattr(value, "__len__") else value)]
    if model is not None:
        if given:
            raise ValueError(f"Can't both provide `model` and `{given[0]}`")
        return model
    if not given:
        raise ValueError("`model_path` or `model_content` must be specified.")
    if len(given) > 1:
        raise ValueError("Can't both provide `model_path` and `model_content`")
    if content and isinstance(content, (str, os.PathLike)):
        raise TypeError(f"model_content must be the bytes of a model, not {type(content).__name__}; a path goes into "
                        "model_path")
    return Model(os.fsdecode(path) if path else content)


def resolver(op_resolver):
    if op_resolver is None:
        return default
    from pylite.resolver import OpResolver  # seldom wanted
    if not isinstance(op_resolver, OpResolver):
        raise TypeError(f"op_resolver must be an OpResolver, not {op_resolver!r}")
    return op_resolver


_IN_A_LIBRARY = ("Functions of C++ are given by name to pylite.load_custom_ops(LIBRARY, [NAME, ...], 'registerer'); "
                 "here stand functions in Python that add ops to a pylite.MutableOpResolver")


def resolver_from(registerers, op_resolver):
    """What tf.lite's registerers, functions of a resolver, make of `op_resolver` or of all builtin ops."""
    from pylite.resolver import BuiltinOpResolver, MutableOpResolver
    filled = BuiltinOpResolver() if op_resolver is None else MutableOpResolver()
    if op_resolver is not None:
        filled.add_all(resolver(op_resolver))
    for registerer in registerers:
        if not callable(registerer):
            raise ValueError(f"custom_op_registerers holds {registerer!r}, which is no function. {_IN_A_LIBRARY}")
        try:
            registerer(filled)
        except TypeError as error:
            if hasattr(registerer, "__code__"):
                raise
            raise ValueError(f"{registerer!r} in custom_op_registerers does not take a pylite.MutableOpResolver. "
                             f"{_IN_A_LIBRARY}") from error
    return filled


def checked_index(executor, tensor_index, error=TensorError):
    """`tensor_index` as an int that is a tensor of the executor's subgraph."""
    index = operator.index(tensor_index)
    if not 0 <= index < len(executor.subgraph.tensors):
        raise error(f"Invalid tensor index {index} exceeds max tensor index {len(executor.subgraph.tensors)}")
    return index


def fitting(tensor, array, value):
    """`value` as an array that can be copied into `array`, the memory of `tensor`; ValueError if it does not fit."""
    value = np.asarray(value)
    if array.dtype.hasobject:
        if value.dtype.kind not in "OSU":
            raise _wrong_type(tensor, value)
        value = _byte_strings(tensor, value)
    elif value.dtype != array.dtype and value.dtype.newbyteorder("=") != array.dtype:
        raise _wrong_type(tensor, value)
    if value.shape != array.shape:
        hint = f"tensor {tensor.name!r} has the shape {list(array.shape)}, the value {list(value.shape)}; " \
               "resize_tensor_input() and allocate_tensors() change the shape of an input"
        if value.ndim != array.ndim:
            raise TensorError(f"Cannot set tensor: Dimension mismatch. Got {value.ndim} but expected {array.ndim} for "
                              f"input {tensor.index}. {hint}")
        axis = next(i for i, (a, b) in enumerate(zip(value.shape, array.shape, strict=True)) if a != b)
        raise TensorError(f"Cannot set tensor: Dimension mismatch. Got {value.shape[axis]} but expected "
                          f"{array.shape[axis]} for dimension {axis} of input {tensor.index}. {hint}")
    return value


def _wrong_type(tensor, value):
    from pylite.details import FACE_DTYPES
    got = {"O": "STRING", "S": "STRING", "U": "STRING"}.get(value.dtype.kind, value.dtype.name.upper())
    wanted = FACE_DTYPES[tensor.dtype].__name__
    return TensorError(f"Cannot set tensor: Got value of type {got} but expected type {tensor.dtype.upper()} for input "
                       f"{tensor.index}, name: {tensor.name} : convert it with value.astype(numpy.{wanted}), "
                       "after scaling it if the model is quantized")


def _byte_strings(tensor, value):
    array = np.empty(value.shape, object)
    for at, item in np.ndenumerate(value):
        if not isinstance(item, (str, bytes)):
            raise TensorError(f"Cannot set tensor: Got {type(item).__name__} at {list(at)}, but tensor {tensor.index} "
                              f"({tensor.name!r}) takes str or bytes")
        array[at] = item.encode() if isinstance(item, str) else bytes(item)
    return array


def check_strict(tensor, now, shape):
    if len(shape) != len(now):
        raise ResizeError(f"input {tensor.index} ({tensor.name!r}) has {len(now)} dimensions and cannot take the shape "
                          f"{list(shape)}")
    for axis, (old, new, declared) in enumerate(zip(now, shape, tensor.shape_signature, strict=True)):
        if old != new and declared != -1:
            raise ResizeError(
                f"Attempting to resize dimension {axis} of tensor {tensor.index} with value {old} to {new}. "
                "ResizeInputTensorStrict only allows mutating unknown dimensions identified by -1: tensor "
                f"{tensor.name!r} declares {list(tensor.shape_signature)}. Pass strict=False to try it")
