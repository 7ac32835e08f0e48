"""Samples from files: arrays, pictures, sound, and lists of these; docs/validation-data.md has the kinds of files.

Numbers are real; they are quantized for the inputs.  Pixels become (pixel - mean) / std.
"""
from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from pylite.errors import ComparisonError, PyliteError, TensorError
from pylite.media import images
from pylite.media.metadata import of_input
from pylite.media.tensors import fitted_picture, fitted_sound, normalized, reshaped
from pylite.validation.arrays import contents
from pylite.validation.sources import FILES, File, Source, opened
from pylite.validation.statistics import Grid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite.ir.graph import Subgraph, Tensor

    Numbers = Sequence[float] | float       # for all channels of a picture, or for each

PLAIN = ((0, 255), (127.5, 127.5), (0, 1), (128, 1))     # means and deviations that the range of an input may show

NO_PICTURES = ("mean and std count for pictures only, and the first sample has none: arrays hold the real numbers that "
               "the float model takes")
ASSUMED = "pixels became -1 to 1, because the model does not give their scale; --mean and --std set it"


class Samples:
    """The samples of a file or a folder for the inputs of a graph; `samples[i]` is a list with an array for each input.

    path: of a file or folder, or a Source; mean, std: for pixels, numbers for all channels or one for each; limit: at
    most so many samples; metadata: of the model's file; rate: of the sound that the model takes, per second; pictures:
    the folder of COCO's; tensors: the inputs; notes: assumptions.
    Raises ComparisonError, which names the file, its contents and the inputs of the model.
    """

    def __init__(self, path: str | os.PathLike[str] | Source, subgraph: Subgraph, mean: Numbers | None = None,
                 std: Numbers | None = None, limit: int | None = None, *,
                 metadata: Mapping[str, Any] | None = None, rate: float | None = None,
                 pictures: str | None = None) -> None:
        self.path, self.notes = "the data" if isinstance(path, Source) else os.fspath(path), list[str]()
        self.tensors = [subgraph.tensors[i] for i in subgraph.inputs]
        self._known = [of_input(metadata or {}, i) for i in range(len(self.tensors))]
        self._mean, self._std, self._rate = listed(mean), listed(std), rate
        if self._std is not None and not all(self._std):
            raise ComparisonError("the standard deviation of the pixels must not be 0")
        self.source = path if isinstance(path, Source) else opened(self.path, self.tensors, pictures)
        if not self.source.count:
            raise ComparisonError(f"{self.path}: has no samples" + (
                f"; below it there is no {', '.join(FILES)}" if os.path.isdir(self.path) else ""))
        self.notes += self.source.notes
        self._count = self.source.count if limit is None else min(self.source.count, limit)
        self._note(self.source.get(0))

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> list[NDArray[Any]]:
        if not 0 <= index < self._count:
            raise IndexError(index)
        arrays = []
        for i, (value, tensor) in enumerate(zip(self.source.get(index), self.tensors, strict=True)):
            if isinstance(value, File):
                value = self._read(value, tensor, i)
            try:
                arrays.append(fitted(value, tensor))
            except (ValueError, TypeError) as error:
                raise ComparisonError(f"{self.source.where(index)}: {error}") from None
        return arrays

    def _note(self, values: Sequence[Any]) -> None:
        """Complete the notes, before a sample is read.  values: the first sample's."""
        has_picture = False
        for i, value in enumerate(values):
            if isinstance(value, File) and value.lower().endswith(images.SUFFIXES):
                self._scaling(self.tensors[i], i)
                has_picture = True
            elif isinstance(value, np.ndarray):
                self.notes += _stored(value, self.tensors[i])
        if not has_picture and not (self._mean is None and self._std is None):
            self.notes.append(NO_PICTURES)

    def _scaling(self, tensor: Tensor, position: int) -> tuple[Sequence[float] | None, Sequence[float] | None]:
        """(mean, std) of the pixels: the caller's, by the input's range, the metadata's, or None for -1 to 1."""
        known, mean, std = self._known[position], self._mean, self._std
        if mean is None and std is None:
            mean, std = _plain(Grid.of(tensor)) or (known.get("mean") or None, known.get("std") or None)
            if mean is None and std is None and ASSUMED not in self.notes:
                self.notes.append(ASSUMED)
        return mean, std

    def _read(self, path: str, tensor: Tensor, position: int) -> NDArray[Any]:
        try:
            kind, read = contents(path, self._rate or self._known[position].get("rate"))
        except (OSError, ValueError, EOFError, PyliteError) as error:
            text = getattr(error, "strerror", None) or str(error)
            raise ComparisonError((text if path in text else f"{path}: {text}")
                                  + "; repair the file or leave it out") from None
        place = tensor.name, tensor.shape, tensor.shape_signature
        try:
            if kind == "audio":
                return fitted_sound(read.samples, *place)
            if kind == "image":
                scaling = self._scaling(tensor, position)
                return fitted_picture(read, *place, lambda image: normalized(image, tensor.name, *scaling))
        except TensorError as error:
            raise ComparisonError(f"{path}: {error}") from None
        return np.asarray(read)


def listed(numbers: Numbers | None) -> list[float] | None:
    """Means or deviations as a list: one for all channels may be given as a number."""
    if numbers is None:
        return None
    return [float(numbers)] if isinstance(numbers, (int, float, np.number)) else list(numbers)


def _plain(grid: Grid | None) -> tuple[list[float], list[float]] | None:
    """(mean, std) with which the pixels fill the range of a quantized input; its 8 bits are the pixels themselves."""
    if grid is None or not grid.step:
        return None
    for mean, std in PLAIN:
        if max(abs(grid.lowest + mean / std), abs(grid.highest - (255 - mean) / std)) < 0.03 * grid.levels * grid.step:
            return ([mean], [std]) if grid.levels > 255 else (
                [float(grid.zero_point - np.iinfo(grid.dtype).min)], [1 / grid.step])
    return None


def sample_of(arrays: Any, inputs: Sequence[Tensor], number: int) -> list[NDArray[Any]]:
    """Sample `number`, a sequence of arrays or the array for the only input, as the inputs take it."""
    if isinstance(arrays, np.ndarray) and len(inputs) == 1:
        arrays = [arrays]
    counted = hasattr(arrays, "__len__") and not isinstance(arrays, (dict, str, bytes))
    if not counted or len(arrays) != len(inputs):
        names = ", ".join(repr(tensor.name) for tensor in inputs)
        what = f"has {len(arrays)} arrays" if counted else f"is of type {type(arrays).__name__}"
        raise ComparisonError(f"sample {number} {what}, and the model takes {names}; give a list with an array for "
                              "each input")
    try:
        return [fitted(*pair) for pair in zip(arrays, inputs, strict=True)]
    except ComparisonError as error:
        raise ComparisonError(f"sample {number}: {error}") from None


def _stored(array: NDArray[Any], tensor: Tensor) -> list[str]:
    """A note if an array has the type that a quantized input stores: real numbers hardly ever do."""
    grid = Grid.of(tensor)
    if grid is None or not grid.step or array.dtype != tensor.dtype or (grid.step, grid.zero_point) == (1, 0):
        return []
    return [f"input {tensor.name!r}: the samples are {array.dtype}, as the input stores numbers, but count as real "
            "numbers; if they are stored numbers, save (q - zero_point) * scale, in float32"]


def source_of(data: str | os.PathLike[str] | Sequence[Any], inputs: Sequence[Tensor]) -> str | Source:
    """What Samples take: a path, or the Source of samples in memory, which have no labels."""
    if isinstance(data, (str, os.PathLike)):
        return os.fspath(data)
    return Source(len(data), lambda i: sample_of(data[i], inputs, i), "sample {}".format)


def fitted(value: Any, tensor: Tensor) -> NDArray[Any]:
    """A value as an input takes it: of its shape, and float32 for real and quantized numbers, else of its type."""
    array = np.asarray(value)
    if array.dtype.kind not in ("biufc" if tensor.dtype.startswith("complex") else "biuf"):
        raise ComparisonError(f"input {tensor.name!r} takes real numbers, not {array.dtype}")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ComparisonError(f"input {tensor.name!r} is given {int((~np.isfinite(array)).sum())} numbers that are not "
                              "finite (NaN or infinity); leave the sample out, or fix the program that wrote it")
    try:
        array = reshaped(array, tensor.name, tensor.shape, tensor.shape_signature, "the sample")
    except TensorError as error:
        raise ComparisonError(str(error)) from None
    real = tensor.dtype == "float32" or (tensor.quantization is not None and tensor.quantization.scale.size > 0)
    with np.errstate(over="ignore"):        # infinite: it saturates
        return np.ascontiguousarray(array, np.float32 if real else tensor.dtype).reshape(array.shape)
