"""Real numbers, pixels and sound as an input tensor takes them, and outputs as real numbers."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from pylite.errors import TensorError
from pylite.media import images

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    TensorDetails = Mapping[str, Any]       # as the Interpreter gives them
    Shape = tuple[int, ...]

MEAN = STD = 127.5      # normalize the pixels of a float input: 0..255 -> -1..1
LARGEST = float(np.finfo(np.float32).max)


def quantize(real: NDArray[Any], detail: TensorDetails) -> NDArray[Any]:
    """Real numbers as values of the tensor's type: rounded half away from zero, saturated."""
    dtype: np.dtype[Any] = np.dtype(detail["dtype"])
    if dtype.kind in "fc":
        return real.astype(dtype)
    if dtype.kind == "b":
        return real != 0
    scale, zero_point = detail["quantization"]
    if not scale:
        scale, zero_point = 1, 0
    steps = real.astype(np.float32) / np.float32(scale)
    steps = np.trunc(steps + np.copysign(np.float32(0.5), steps)).astype(np.float64) + zero_point
    span = np.iinfo(dtype)
    return np.clip(steps, span.min, span.max).astype(dtype)


def dequantize(array: NDArray[Any], detail: TensorDetails) -> NDArray[Any]:
    """The real numbers that quantized values represent; other arrays are returned unchanged."""
    parameters = detail["quantization_parameters"]
    scales = np.asarray(parameters["scales"], np.float32)
    if array.dtype.kind not in "iu" or not scales.size:
        return array
    zero_points = np.asarray(parameters["zero_points"], np.int64)
    if scales.size > 1:
        shape = [1] * array.ndim
        shape[parameters["quantized_dimension"]] = -1
        scales, zero_points = scales.reshape(shape), zero_points.reshape(shape)
    return (array.astype(np.int64) - zero_points).astype(np.float32) * scales


def picture(pixels: images.Pixels, detail: TensorDetails, mean: Sequence[float] | None = None,
            std: Sequence[float] | None = None) -> NDArray[Any]:
    """uint8 `pixels` (height, width, channels) for the input that `detail` describes: resized, converted, in its shape.

    The caller resizes the input to the array's shape, which may differ where the signature has -1.  mean, std: lists of
    one number or one per channel: the model gets the real number (pixel - mean) / std.  By default a float input gets
    -1..1, and an 8-bit input the pixels themselves as quantized values.  TensorError if the input takes no picture.
    """
    shape, signature = tuple(map(int, detail["shape"])), tuple(map(int, detail["shape_signature"]))
    return fitted_picture(pixels, detail["name"], shape, signature,
                          lambda image: _values(image, detail, mean, std))


def fitted_picture(pixels: images.Pixels, name: str, shape: Shape, signature: Shape,
                   convert: Callable[[images.Pixels], NDArray[Any]]) -> NDArray[Any]:
    """`pixels` resized for an input, with its channels, converted by `convert`, in the order and shape of the input.

    shape, signature: of the input; -1 in the signature keeps the size of the picture.
    """
    dims, open_dims, planar = _layout(shape, signature)
    if not _has_channels(dims):
        raise _no_picture(name, shape)
    height, width = (have if asked == -1 else size
                     for have, asked, size in zip(pixels.shape, open_dims[:2], dims, strict=False))
    image = convert(images.resize(images.channels(pixels, dims[2]), height, width))
    if planar:
        image = image.transpose(2, 0, 1)
    return image.reshape((1,) * (len(shape) - 3) + image.shape)


def takes_picture(detail: TensorDetails) -> bool:
    """Does the input that `detail` describes have a height, a width and channels, as `picture` needs them?"""
    shape = tuple(map(int, detail["shape"]))
    return _has_channels(_layout(shape, shape)[0])


def picture_size(detail: TensorDetails) -> tuple[int, int]:
    """(height, width) of the pictures that the input takes; TensorError if it takes none."""
    shape = tuple(map(int, detail["shape"]))
    dims, _, _ = _layout(shape, shape)
    if not _has_channels(dims):
        raise _no_picture(detail["name"], shape)
    return dims[0], dims[1]


def picture_channels(detail: TensorDetails) -> int | None:
    """The channels of the pictures that the input takes; None if it takes none."""
    shape = tuple(map(int, detail["shape"]))
    dims, _, _ = _layout(shape, shape)
    return dims[2] if _has_channels(dims) else None


def _no_picture(name: str, shape: Shape) -> TensorError:
    return TensorError(f"input {name!r} of shape {list(shape)} does not take a picture, which has a height, a width "
                       "and 1, 3 or 4 channels")


def _layout(shape: Shape, signature: Shape) -> tuple[Shape, Shape, bool]:
    """(shape and signature of one picture with its channels last, are they first in the tensor?)"""
    batch = len(shape) == 4 and shape[0] == 1
    dims, open_dims = (shape[1:], signature[1:]) if batch else (shape, signature)
    planar = len(dims) == 3 and dims[2] not in (1, 3, 4) and dims[0] in (1, 3, 4)
    return (dims[1:] + dims[:1], open_dims[1:] + open_dims[:1], True) if planar else (dims, open_dims, False)


def _has_channels(dims: Shape) -> bool:
    return len(dims) == 3 and dims[2] in (1, 3, 4)


def check_scaling(name: str, numbers: Sequence[float], divides: bool) -> None:
    """ValueError unless these means or deviations of pixels are finite as float32 and, if it divides, none is 0."""
    for number in numbers:
        if not abs(number) <= LARGEST:
            raise ValueError(f"{name} is {number:g}; expected a finite number")
        if divides and not np.float32(number):
            raise ValueError(f"{name} is {number:g}; pixels are divided by it")


def normalized(image: images.Pixels, name: str, mean: Sequence[float] | None = None,
               std: Sequence[float] | None = None) -> NDArray[Any]:
    """(pixel - mean) / std, by default -1..1; mean, std: one number, or one for each channel of input `name`."""
    for kind, numbers in (("mean", mean), ("standard deviation", std)):
        if numbers and len(numbers) not in (1, image.shape[2]):
            raise TensorError(f"the {kind} has {len(numbers)} numbers, and input {name!r} has "
                              f"{image.shape[2]} channel{'s' * (image.shape[2] > 1)}; give one number, or one for each "
                              "channel")
    return (image.astype(np.float32) - np.asarray(mean or MEAN, np.float32)) / np.asarray(std or STD, np.float32)


def reshaped(array: NDArray[Any], name: str, shape: Shape, signature: Shape, whose: str) -> NDArray[Any]:
    """`array` with the rank of an input; its sizes may differ from `shape` where the signature has -1.

    whose: what has the array, for the message of the TensorError.
    """
    if array.shape == shape:
        return array
    for candidate in (array, array[None]):
        if _fits(candidate.shape, signature):
            return candidate
    have, asked = ([size for size in sizes if size != 1] for sizes in (array.shape, shape))
    if have == asked and array.size:
        return array.reshape(shape)
    if (shape[:1] == (1,) and array.shape[1:] == shape[1:]) or (array.ndim and array.shape[1:] == shape):
        raise TensorError(f"input {name!r} takes {list(signature)}, and {whose} has {list(array.shape)}: it has "
                          f"{len(array)} samples, and a run takes one, such as array[0]")
    remedy = ("transpose the array" if sorted(have) == sorted(asked) else
              "reshape the array" if array.size == math.prod(shape) else "give an array of this shape")
    raise TensorError(f"input {name!r} takes {list(signature)}, and {whose} has {list(array.shape)}; {remedy}")


def _fits(shape: Shape, signature: Shape) -> bool:
    return len(shape) == len(signature) and all(
        asked in (-1, have) for asked, have in zip(signature, shape, strict=True))


def sound_axis(name: str, shape: Shape, signature: Shape) -> tuple[int, int | None]:
    """(axis of the samples of sound, their number or None for any) of an input; TensorError if it takes no sound."""
    axes = [i for i, size in enumerate(shape) if size != 1 or signature[i] == -1]
    if len(axes) > 1 or not shape:
        raise TensorError(f"input {name!r} of shape {list(shape)} does not take sound, which has one axis; give it an "
                          f".npy or .npz file")
    axis = axes[0] if axes else len(shape) - 1
    return axis, None if signature[axis] == -1 else shape[axis]


def fitted_sound(samples: NDArray[np.float32], name: str, shape: Shape, signature: Shape) -> NDArray[np.float32]:
    """The samples, cut or padded with silence to the input's length, in the input's shape."""
    axis, length = sound_axis(name, shape, signature)
    if length is not None:
        samples = np.pad(samples[:length], (0, max(0, length - len(samples))))
    return samples.reshape(tuple(len(samples) if i == axis else 1 for i in range(len(shape))))


def quantized_sound(samples: NDArray[np.float32], detail: TensorDetails) -> NDArray[Any]:
    """Samples of -1..1 as values of the tensor's type; int16 without a scale gets the integers of a .wav file."""
    if np.dtype(detail["dtype"]) == np.int16 and not detail["quantization"][0]:
        return (samples * 32768).clip(-32768, 32767).astype(np.int16)
    return quantize(samples, detail)


def feed(interpreter: Any, arrays: Sequence[NDArray[Any]], allocate: bool = False) -> None:
    """Set all inputs of an Interpreter, pylite's or LiteRT's, or of a feeding.Graph; resize those of another shape.

    allocate: call allocate_tensors() even if no shape changes.
    """
    details = interpreter.get_input_details()
    for detail, array in zip(details, arrays, strict=True):
        if tuple(detail["shape"]) != array.shape:
            interpreter.resize_tensor_input(detail["index"], array.shape)
            allocate = True
    if allocate:
        interpreter.allocate_tensors()
    for detail, array in zip(details, arrays, strict=True):
        interpreter.set_tensor(detail["index"], array)


def _values(image: images.Pixels, detail: TensorDetails, mean: Sequence[float] | None,
            std: Sequence[float] | None) -> NDArray[Any]:
    dtype: np.dtype[Any] = np.dtype(detail["dtype"])
    if mean is None and std is None and dtype.kind in "iu":
        if dtype == np.int8:
            return (image ^ 0x80).view(np.int8)
        if dtype == np.uint8 or not detail["quantization"][0]:
            return image.astype(dtype)
    return quantize(normalized(image, detail["name"], mean, std), detail)
