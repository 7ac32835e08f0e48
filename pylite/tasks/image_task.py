"""A model that takes one picture.

A picture is a path, the name of a bundled sample such as "seven", a Pillow image, or uint8 pixels: (height, width),
or (height, width, 1, 3 or 4) with red first.  OpenCV's frames have blue first: pass `channel_order="BGR"`.  Pictures
are stretched to the size that the model takes.  For models of Ultralytics, and for faces, they keep their proportions
and get a border; Ultralytics' classifiers get the middle of the picture.
"""
from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from pylite.errors import ModelError, TensorError
from pylite.media import images, models, tensors, yolo
from pylite.tasks.task import Task

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite.tasks.task import ModelSource
    from pylite.tflite.types import Precision

    Numbers = float | Sequence[float]       # one, or one for each channel


LEAST_SIDE = 8          # pixels of the smallest picture that a model is made for


def pixels_of(image: Any, channel_order: str = "RGB") -> images.Pixels:
    """uint8 (height, width, channels) of a picture, as the module describes it.

    TensorError for another array, FileFormatError for a file that is not a picture.
    """
    if channel_order not in ("RGB", "BGR"):
        raise ValueError(f"channel_order is {channel_order!r}; expected 'RGB' or 'BGR'")
    if isinstance(image, (str, os.PathLike)):
        return images.read(models.named_sample(image))
    if hasattr(image, "convert"):       # Pillow's, which has modes such as palettes
        image = images.in_bytes(images.upright(image))
    try:
        pixels = np.asarray(image)
    except ValueError:      # of arrays of several sizes
        pixels = np.array([None] * len(image), object)
    if not pixels.ndim:
        raise TensorError(f"a picture is a path, a Pillow image or an array, not {type(image).__name__}; expected "
                          f"uint8 (height, width) or (height, width, 1, 3 or 4){_opened(image)}")
    if pixels.dtype.kind in "OUS":
        raise TensorError(f"a picture is a path, a Pillow image or an array, not a {type(image).__name__} of "
                          f"{len(pixels)}; a call takes one picture, so call it for each")
    if pixels.ndim == 2:
        pixels = pixels[:, :, None]
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] not in (1, 3, 4) or not pixels.size:
        raise TensorError(f"a picture of shape {list(np.shape(image))} and type {pixels.dtype}; expected uint8 "
                          f"(height, width) or (height, width, 1, 3 or 4){_cure(pixels)}")
    if channel_order == "BGR" and pixels.shape[2] > 1:
        pixels = pixels[:, :, [2, 1, 0, 3][:pixels.shape[2]]]
    return pixels


def _opened(image: Any) -> str:
    """The end of an error message: how to open a picture that is in memory or in an open file."""
    if isinstance(image, (bytes, bytearray)):
        return "; of a file's bytes give PIL.Image.open(io.BytesIO(data))"
    if image is None:
        return "; OpenCV's imread() and a camera's read() return None if they cannot read a picture"
    return "; of an open file give PIL.Image.open(file)" if hasattr(image, "read") else ""


def _cure(array: NDArray[Any]) -> str:
    """The end of an error message: how to turn the array into a picture, if its shape and numbers show how."""
    steps, shape = "", array.shape
    if len(shape) == 4 and shape[-1] in (1, 3, 4) and shape[0]:
        steps, shape = "[0]", shape[1:]
        if len(array) > 1:
            return f"; a call takes one picture, such as picture{steps}"
    if len(shape) == 3 and shape[2] not in (1, 3, 4) and shape[0] in (1, 3, 4):
        steps += ".transpose(1, 2, 0)"
    if array.dtype.kind == "f" and array.size and array.min() < 0:
        return "; a task normalizes the pixels itself: give them as 0 to 255"
    cure = _in_bytes(array, f"picture{steps}")
    return "" if cure == "picture" else f"; give {cure}"


def _in_bytes(array: NDArray[Any], picture: str) -> str:
    """`picture`, converted to uint8 if its numbers are in a usual range."""
    kind = "" if array.dtype == np.uint8 else array.dtype.kind
    if not kind or kind not in "fbiu" or not array.size or not 0 <= array.min() <= array.max() <= 65535:
        return picture
    most = array.max()
    if kind in "fb" and most <= 1:
        return f"(255 * {picture}).astype(numpy.uint8)"
    scaled = picture if most <= 255 else f"({picture} / 257)"       # of 16 bits
    return f"{scaled}.astype(numpy.uint8)" if most <= 255 or array.dtype == np.uint16 else picture


class ImageTask(Task):
    """A model that takes one picture.

    mean, std: of the pixels, a number or one for each channel: the model gets (pixel - mean) / std.  By default those
    of the model's metadata, or -1..1 (0..1 for models of Ultralytics), and for 8-bit inputs the pixels themselves.
    """

    def __init__(self, model: ModelSource, *, mean: Numbers | None = None, std: Numbers | None = None,
                 num_threads: int = 1, experimental_delegates: Sequence[Any] | None = None,
                 precision: Precision | None = None) -> None:
        super().__init__(model, num_threads=num_threads, experimental_delegates=experimental_delegates,
                         precision=precision)
        details = self.interpreter.get_input_details()
        if len(details) != 1:
            raise ModelError(f"the model has {len(details)} inputs; this task needs a model with one input, the "
                             f"picture{self._hint()}")
        unfit = len(details[0]["shape"]) and not tensors.takes_picture(details[0])
        if unfit or np.dtype(details[0]["dtype"]).kind in "OS":
            raise ModelError(f"input {details[0]['name']!r} of type {np.dtype(details[0]['dtype'])} and shape "
                             f"{list(map(int, details[0]['shape']))} does not take a picture, which has a height, a "
                             f"width and 1, 3 or 4 channels{self._hint()}")
        self._head = yolo.head_of(self.model)
        own = self._inputs[0]
        if mean is None and std is None:
            if self._head is not None:
                (mean,), (std,) = yolo.MEAN_STD
            elif np.dtype(details[0]["dtype"]).itemsize > 1:
                mean, std = own.mean, own.std
        channels = tensors.picture_channels(details[0])
        self._mean, self._std = _numbers("mean", mean, channels), _numbers("std", std, channels)

    def _plausible(self) -> bool:
        """Few rows, and one channel that is not square, may be features of a sound."""
        shape = self.interpreter.get_input_details()[0]["shape"]
        return min(self._size()) >= LEAST_SIDE and (len(shape) != 4 or shape[3] > 1 or shape[1] == shape[2])

    def _outputs_of(self, image: Any, channel_order: str) -> tuple[list[NDArray[Any]], tuple[int, int]]:
        """(outputs for the picture, stretched to the input's size; (height, width) of the picture)"""
        pixels = pixels_of(image, channel_order)
        return self._run(self._input_of(pixels)), pixels.shape[:2]

    def _boxed(self, image: Any, channel_order: str,
               border: int = yolo.GREY) -> tuple[list[NDArray[Any]], yolo.Placement]:
        """(outputs for the picture, which keeps its proportions; where it lies in the input)"""
        pixels, place = yolo.letterboxed(pixels_of(image, channel_order), *self._size(), border)
        return self._run(self._input_of(pixels)), place

    def _input_of(self, pixels: images.Pixels) -> NDArray[Any]:
        if self._head is not None and self._head.task == "classify":
            pixels = yolo.cropped(pixels, *self._size())
        return tensors.picture(pixels, self.interpreter.get_input_details()[0], self._mean, self._std)

    def _size(self) -> tuple[int, int]:
        """(height, width) of the input."""
        return tensors.picture_size(self.interpreter.get_input_details()[0])

    def _output_shapes(self) -> list[list[int]]:
        return [[int(size) for size in detail["shape"]] for detail in self.interpreter.get_output_details()]


def _numbers(name: str, given: Numbers | None, channels: int | None) -> list[float] | None:
    if given is None:
        return None
    try:
        values = [float(given)] if isinstance(given, (int, float)) else [float(v) for v in given]
    except (TypeError, ValueError):
        raise TypeError(f"{name} is {given!r}; expected a number, or a list with one for each channel") from None
    if channels is not None and len(values) not in (1, channels):
        raise ValueError(f"{name} has {len(values)} numbers; expected one, or one for each of the {channels} channels "
                         "of the model's input")
    tensors.check_scaling(name, values, name == "std")
    return values
