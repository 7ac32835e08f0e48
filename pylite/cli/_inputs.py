"""Input tensors from files: pictures, sound and arrays, converted to the shape and type of a model's input."""
import math

import numpy as np

from pylite.cli import _common
from pylite.cli._common import UsageError
from pylite.media import audio, images

MEAN = STD = 127.5      # normalize the pixels of a float input: 0..255 -> -1..1


def read(path):
    """(kind, contents) of a file: "array" and an array or {name: array}, "image" and pixels, "audio" and samples."""
    path = _common.input_path(path)
    suffix = path[path.rfind("."):].lower()
    if suffix in (".npy", ".npz"):
        try:
            loaded = np.load(path, allow_pickle=False)
        except (ValueError, EOFError, KeyError) as error:
            raise UsageError(f"{path}: {error}") from None
        return "array", loaded if isinstance(loaded, np.ndarray) else {name: loaded[name] for name in loaded.files}
    if suffix == ".wav":
        return "audio", audio.read(path)[0]
    if suffix in images.SUFFIXES:
        return "image", images.read(path)
    raise UsageError(f"{path}: unknown kind of file; .npy, .npz, .wav and pictures ({', '.join(images.SUFFIXES)}) "
                     "can be read")


def tensor(kind, contents, detail, mean=None, std=None):
    """(array for the input that `detail` describes, note or None); the caller resizes the input to the array's shape.

    mean, std: for pixels, lists of one number or one per channel: the model gets the real number (pixel - mean) / std.
    By default a float input gets -1..1, and an 8-bit input the pixels themselves as quantized values.
    """
    name = repr(detail["name"])
    shape, signature = tuple(map(int, detail["shape"])), tuple(map(int, detail["shape_signature"]))
    if kind == "image":
        return _pixels(contents, detail, name, shape, signature, mean, std), None
    if kind == "audio":
        return _samples(contents, detail, name, shape, signature)
    fitted = _fitted(contents, name, shape, signature)
    return quantize(fitted, detail) if fitted.dtype.kind == "f" else _cast(fitted, detail, name), None


def _pixels(pixels, detail, name, shape, signature, mean, std):
    if len(shape) == 4 and shape[0] == 1:
        dims, open_dims = shape[1:], signature[1:]
    else:
        dims, open_dims = shape, signature
    planar = len(dims) == 3 and dims[2] not in (1, 3, 4) and dims[0] in (1, 3, 4)
    if planar:
        dims, open_dims = dims[1:] + dims[:1], open_dims[1:] + open_dims[:1]
    if len(dims) != 3 or dims[2] not in (1, 3, 4):
        raise UsageError(f"input {name} of shape {list(shape)} does not take a picture; give it an .npy or .npz file")
    height, width = (have if asked == -1 else size
                     for have, asked, size in zip(pixels.shape, open_dims[:2], dims, strict=False))
    image = _quantized_image(images.resize(images.channels(pixels, dims[2]), height, width), detail, mean, std)
    if planar:
        image = image.transpose(2, 0, 1)
    return image.reshape((1,) * (len(shape) - 3) + image.shape)


def _quantized_image(image, detail, mean, std):
    dtype = np.dtype(detail["dtype"])
    if mean is None and std is None and dtype.kind in "iu":
        if dtype == np.int8:
            return (image ^ 0x80).view(np.int8)
        if dtype == np.uint8 or not detail["quantization"][0]:
            return image.astype(dtype)
    for numbers in (mean, std):
        if numbers and len(numbers) not in (1, image.shape[2]):
            raise UsageError(f"{len(numbers)} numbers for the mean or the standard deviation of {image.shape[2]} "
                             "channel(s)")
    real = (image.astype(np.float32) - np.float32(mean or MEAN)) / np.float32(std or STD)
    return quantize(real, detail)


def _samples(samples, detail, name, shape, signature):
    axes = [i for i, size in enumerate(shape) if size != 1 or signature[i] == -1]
    if len(axes) > 1 or not shape:
        raise UsageError(f"input {name} of shape {list(shape)} takes features of sound, not samples; "
                         "give it an .npy or .npz file")
    axis = axes[0] if axes else len(shape) - 1
    wanted = len(samples) if signature[axis] == -1 else shape[axis]
    note = None
    if len(samples) != wanted:
        note = (f"{len(samples)} samples, {'cut' if len(samples) > wanted else 'padded with silence'} to the "
                f"{wanted} that input {name} takes")
        samples = np.pad(samples[:wanted], (0, max(0, wanted - len(samples))))
    if np.dtype(detail["dtype"]) == np.int16 and not detail["quantization"][0]:
        samples = (samples * 32768).astype(np.int16)
    else:
        samples = quantize(samples, detail)
    return samples.reshape(tuple(wanted if i == axis else 1 for i in range(len(shape)))), note


def _fitted(array, name, shape, signature):
    """`array` with the input's rank; its sizes may differ from `shape` where the signature has -1."""
    if array.shape == shape:
        return array
    if math.prod(array.shape) == math.prod(shape) and _squeezed(array.shape) == _squeezed(shape):
        return array.reshape(shape)
    for candidate in (array, array[None]):
        if candidate.ndim == len(signature) and all(
                asked in (-1, have) for asked, have in zip(signature, candidate.shape, strict=True)):
            return candidate
    raise UsageError(f"input {name} has the shape {list(signature)}, and the file has {list(array.shape)}")


def _squeezed(shape):
    return tuple(size for size in shape if size != 1)


def _cast(array, detail, name):
    """Integers, booleans and text, unscaled, if the input's type can represent them."""
    dtype = np.dtype(detail["dtype"])
    if dtype.kind in "OS":
        return array.astype(np.bytes_).astype(object)
    if dtype.kind in "fc" or array.dtype == dtype:
        return array.astype(dtype)
    if array.dtype.kind in "iub" and dtype.kind in "iu" and array.size:
        span = np.iinfo(dtype)
        if span.min <= array.min() and array.max() <= span.max:
            return array.astype(dtype)
    raise UsageError(f"input {name} is {dtype}, which cannot represent the file's {array.dtype} values")


def quantize(real, detail):
    """Real numbers as values of the tensor's type: rounded half away from zero, saturated."""
    dtype = np.dtype(detail["dtype"])
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


def dequantize(array, detail):
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


def blank(detail, rng):
    """Contents for an input without a file: zeros, or random values of its type if `rng` is not None."""
    shape, dtype = tuple(map(int, detail["shape"])), np.dtype(detail["dtype"])
    if dtype.kind in "OS":
        return np.full(shape, b"", object)
    if rng is None:
        return quantize(np.zeros(shape, np.float32), detail)
    if dtype.kind in "fc":
        return rng.standard_normal(shape).astype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.itemsize <= 2:
        span = np.iinfo(dtype)
        return rng.integers(span.min, span.max, shape, dtype, endpoint=True)
    return rng.integers(0, 2, shape).astype(dtype)      # small: inputs of 32 and 64 bits are indices and sizes
