"""Checks the values and shapes that callers set; the common cases never get here (FastPath)."""
import math
import operator
from typing import TYPE_CHECKING

import numpy as np

from pylite.errors import ResizeError, TensorError, shortened
from pylite.ir.dtypes import NARROW

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from pylite.ir.graph import Subgraph, Tensor

    Shape = tuple[int, ...]


SIGN_FLIPS = {("uint8", "int8"): ("higher", "(value ^ 0x80).view(numpy.int8)"),
              ("int8", "uint8"): ("lower", "value.view(numpy.uint8) ^ 0x80")}


def checked_value(tensor: "Tensor", array: "NDArray[Any]", value: "Any") -> "NDArray[Any]":
    """`value` as an array of the shape and type of `array`, the memory of `tensor`; ValueError if it does not fit."""
    value = of_type(tensor, array, value)
    if value.shape != array.shape:
        raise _wrong_shape(tensor, array, value)
    return value


def of_type(tensor: "Tensor", array: "NDArray[Any]", value: "Any") -> "NDArray[Any]":
    """checked_value() for a `value` that may have another shape than `array`."""
    value = np.asarray(value)
    if value.dtype.hasobject and value.shape == () and value.item() is None:
        raise TensorError(f"Cannot set tensor: Got None but expected an array of {tensor.dtype.upper()} "
                          f"{list(array.shape)} for input {tensor.index}, name: {tensor.name}")
    if array.dtype.hasobject:
        if value.dtype.kind not in "OSU":
            raise _wrong_type(tensor, value)
        value = _byte_strings(tensor, value)
    elif array.dtype.isbuiltin != 1 and value.dtype.itemsize == array.itemsize and value.dtype.kind == "u":
        value = value.view(array.dtype)     # the bits of a type that only ml_dtypes has
    elif value.dtype != array.dtype and value.dtype.newbyteorder("=") != array.dtype:
        raise _wrong_type(tensor, value)
    elif tensor.dtype in NARROW and value.size:
        from pylite.numerics.quantization import LIMITS  # lazy, as below
        (low, high), least, most = LIMITS[tensor.dtype], value.min(), value.max()
        if not low <= least <= most <= high:
            raise TensorError(f"Cannot set tensor: Values for {tensor.dtype.upper()} input must be between {low} and "
                              f"{high}. Those for input {tensor.index}, name: {tensor.name} are {least} to {most}; "
                              f"numpy.clip(value, {low}, {high}) limits them")
    return value


def _wrong_shape(tensor: "Tensor", array: "NDArray[Any]", value: "NDArray[Any]") -> TensorError:
    hint = f"tensor {tensor.name!r} has the shape {list(array.shape)}, the value {list(value.shape)}; " \
           f"{_reshaped(array.shape, value.shape)}"
    if value.ndim != array.ndim:
        return TensorError(f"Cannot set tensor: Dimension mismatch. Got {value.ndim} but expected {array.ndim} for "
                          f"input {tensor.index}. {hint}")
    axis = next(i for i, (a, b) in enumerate(zip(value.shape, array.shape, strict=True)) if a != b)
    return TensorError(f"Cannot set tensor: Dimension mismatch. Got {value.shape[axis]} but expected "
                      f"{array.shape[axis]} for dimension {axis} of input {tensor.index}. {hint}")


def _reshaped(expected: "Shape", got: "Shape") -> str:
    """What to do about a value of another shape."""
    if expected == (1, *got):
        return "value[numpy.newaxis] adds the batch axis"
    if len(got) == 4 and got != expected == (got[0], *got[2:], got[1]):
        return "the model takes channels last: value.transpose(0, 2, 3, 1) reorders channels first"
    if len(got) == 3 and expected == (1, *got[1:], got[0]):
        return ("the model takes a batch axis, and channels last: value.transpose(1, 2, 0)[numpy.newaxis] reorders "
                "channels first")
    if math.prod(got) == math.prod(expected):
        return f"value.reshape({tuple(map(int, expected))}) has that shape"
    return "resize_tensor_input() and allocate_tensors() change the shape of an input"


def _wrong_type(tensor: "Tensor", value: "NDArray[Any]") -> TensorError:
    got = {"S": "STRING", "U": "STRING"}.get(value.dtype.kind, value.dtype.name.upper())
    if value.dtype.hasobject:       # numpy found no common type
        kinds = sorted({type(item).__name__ for item in value.flat})
        got = f"OBJECT (of {', '.join(kinds[:4])})" if {*kinds} - {"str", "bytes"} else "STRING"
    return TensorError(f"Cannot set tensor: Got value of type {got} but expected type {tensor.dtype.upper()} for input "
                       f"{tensor.index}, name: {tensor.name} : {_converted(tensor, value)}")


def _converted(tensor: "Tensor", value: "NDArray[Any]") -> str:
    """How to convert a value of another type, which may be a list."""
    from pylite.numerics.quantization import LIMITS
    from pylite.tflite.details import reported_dtype
    if tensor.dtype == "string":
        return "it takes str or bytes"
    wanted, steps = reported_dtype(tensor.dtype), tensor.quantization
    name = f"{wanted.__module__}.{wanted.__name__}"
    if not value.ndim and value.dtype.kind in "OSU":
        return _as_array(value.item(), name)
    low, high = LIMITS.get(tensor.dtype, (0, 0))
    if value.dtype.kind == "f" and steps is not None and steps.scale.size == 1 and high:
        scale, zero_point = steps.scale[0], steps.zero_point[0] if steps.zero_point.size else 0
        offset = f" {'-' if zero_point < 0 else '+'} {abs(int(zero_point))}" * bool(zero_point)
        return f"quantize it with numpy.rint(value / {scale:.9g}{offset}).clip({low}, {high}).astype({name})"
    if steps is not None and (value.dtype.name, tensor.dtype) in SIGN_FLIPS:      # a cast would wrap
        side, flipped = SIGN_FLIPS[value.dtype.name, tensor.dtype]
        return f"if it has the same scale and a zero point 128 {side}, convert it with {flipped}"
    return _cast(tensor, value, f"convert it with numpy.asarray(value, {name})", low, high)


def _as_array(item: "Any", name: str) -> str:
    """How to make an array of an object that numpy.asarray() takes as one object, or of bytes.  name: of the type."""
    if hasattr(item, "__dlpack__"):
        return "pass numpy.from_dlpack(value)"
    if isinstance(item, bytes):
        return f"if these are the bytes of its numbers, numpy.frombuffer(value, {name}) makes an array of them"
    if hasattr(item, "__iter__") and not isinstance(item, str):
        return f"numpy.array(list(value), {name}) makes an array of its elements"
    return f"it takes an array of {name}"


def _cast(tensor: "Tensor", value: "NDArray[Any]", remedy: str, low: int, high: int) -> str:
    """`remedy`, and further steps.  low, high: limits of an integer type, else 0."""
    if value.dtype.kind in "iuf" and high and value.size:
        least, most = value.min(), value.max()
        if not low <= least.item() <= most.item() <= high:      # numpy would cast the limits, even to float16
            return (f"it holds {least} to {most}, and {tensor.dtype.upper()} only {low} to {high}; scale or clip it, "
                    f"then {remedy}")
    if value.dtype.kind == "f" and high:
        return f"if its values are whole numbers, {remedy}"
    if value.dtype == np.uint8 and tensor.dtype.startswith("float"):
        return (f"{remedy}. A picture also needs the normalization that the model was trained with, often "
                "(value - 127.5) / 127.5 or value / 255; pylite.tasks takes the picture as it is")
    return remedy


def _byte_strings(tensor: "Tensor", value: "NDArray[Any]") -> "NDArray[Any]":
    array = np.empty(value.shape, object)
    for index, item in np.ndenumerate(value):
        if not isinstance(item, (str, bytes)):
            raise TensorError(f"Cannot set tensor: Got {type(item).__name__} at {list(index)}, but tensor "
                              f"{tensor.index} ({tensor.name!r}) takes str or bytes")
        array[index] = item.encode() if isinstance(item, str) else bytes(item)
    return array


def checked_shape(tensor: "Tensor", subgraph: "Subgraph", current: "Shape", size: "Any", strict: bool) -> "Shape":
    """`size` as the new shape of the input `tensor`; ResizeError if it is not one.

    current: the present shape; strict: see Interpreter.resize_tensor_input().
    """
    if type(size) in {list, tuple}:
        try:
            shape = tuple([operator.index(n) for n in size])
        except TypeError:       # floats, for example
            shape = None
        if shape is not None and (not shape or -2**31 <= min(shape) <= max(shape) < 2**31):
            return _checked(tensor, subgraph, current, shape, strict)       # ten times faster than what follows
    sizes = np.asarray(size)
    if sizes.dtype.kind in "iuf" and not ((sizes == np.trunc(sizes)) & (sizes >= -2**31) & (sizes < 2**31)).all():
        raise ResizeError(f"input {tensor.index} ({tensor.name!r}) cannot have the shape {sizes.tolist()}: dimensions "
                          "are whole numbers up to 2^31 - 1")       # numpy's cast would wrap
    try:
        size = np.array(sizes, np.int32)
    except (TypeError, ValueError) as error:
        raise (TypeError if isinstance(error, TypeError) else ResizeError)(
            f"the shape of input {tensor.index} ({tensor.name!r}) must be whole numbers, such as {list(current)}, "
            f"not {shortened(repr(size))}") from None
    except OverflowError as error:
        raise ResizeError(f"the shape of input {tensor.index} ({tensor.name!r}) has a dimension beyond 2^31 - 1: "
                          f"{error}") from None
    if size.ndim != 1:
        raise ValueError(f"Shape should be 1D instead of {size.ndim}.")
    return _checked(tensor, subgraph, current, tuple(size.tolist()), strict)


def _checked(tensor: "Tensor", subgraph: "Subgraph", current: "Shape", shape: "Shape", strict: bool) -> "Shape":
    """checked_shape() for integers of 32 bits."""
    if tensor.index not in subgraph.inputs:
        raise ResizeError(f"tensor {tensor.index} ({tensor.name!r}) is not an input; only inputs "
                          f"{list(subgraph.inputs)} can be resized")
    if shape and min(shape) < 0:
        raise ResizeError(f"input {tensor.index} ({tensor.name!r}) cannot have the shape {list(shape)}: a dimension is "
                          "negative")
    if strict:
        _check_strict(tensor, current, shape)
    return shape


def _check_strict(tensor: "Tensor", current: "Shape", shape: "Shape") -> None:
    if len(shape) != len(current):
        raise ResizeError(f"input {tensor.index} ({tensor.name!r}) has {len(current)} dimensions and cannot take the "
                          f"shape {list(shape)}")
    signature = tensor.shape_signature      # it counts, not the present shape, which strict=False may have changed
    declared = (*signature, *current[len(signature):]) if -1 in signature else current
    for axis, (fixed, new) in enumerate(zip(declared, shape, strict=False)):        # the present rank may be lower
        if fixed not in (-1, new):
            raise ResizeError(
                f"Attempting to resize dimension {axis} of tensor {tensor.index} with value {fixed} to {new}. "
                "ResizeInputTensorStrict only allows mutating unknown dimensions identified by -1: tensor "
                f"{tensor.name!r} declares {list(declared)}. Pass strict=False to try it")
