"""Samples from files: arrays, pictures, sound, and lists of these.

| path | samples |
| --- | --- |
| `.npz` | arrays named as the model's inputs, or in their order; the first axis counts samples; `labels` is left out |
| `.npy` | one array for the only input |
| a folder | every picture, `.npy` or `.wav` file below it, ordered by path: the only input |
| `.csv` | a header and one row for each sample: a column `file` (the only input), or one named after each input |
| `.jsonl` | one object on each line: `{"file": ...}`, or each input's name with nested lists of numbers or a file |

Numbers are real ones; the tool quantizes them.  Pixels become (pixel - mean) / std.
"""
from __future__ import annotations

import csv
import json
import math
import os
from typing import TYPE_CHECKING

import numpy as np

from pylite.errors import ComparisonError, PyliteError
from pylite.media import audio, images

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite.ir.graph import Subgraph, Tensor

MEAN = STD = 127.5      # of pixels, unless given: 0..255 becomes -1..1
FILES = (*images.SUFFIXES, ".npy", ".wav")


class Samples:
    """The samples of a file or a folder for the inputs of a graph; `samples[i]` is a list with an array for each input.

    path: as in the table above; mean, std: for pixels, numbers for all channels or one for each; limit: at most so many
    samples.  Raises ComparisonError that names the file, what it has and what the model takes.
    """

    def __init__(self, path: str | os.PathLike[str], subgraph: Subgraph, mean: Sequence[float] | None = None,
                 std: Sequence[float] | None = None, limit: int | None = None) -> None:
        self.path = os.fspath(path)
        self._tensors = [subgraph.tensors[i] for i in subgraph.inputs]
        self._mean, self._std = np.array(mean or MEAN, np.float32), np.array(std or STD, np.float32)
        if not np.all(self._std):
            raise ComparisonError("the standard deviation of the pixels must not be 0")
        count, self._get = self._opened()
        if not count:
            raise ComparisonError(f"{self.path}: has no samples")
        self._count = count if limit is None else min(count, limit)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> list[NDArray[Any]]:
        if not 0 <= index < self._count:
            raise IndexError(index)
        return [self._fitted(value, tensor) for value, tensor in zip(self._get(index), self._tensors, strict=True)]

    def _opened(self) -> tuple[int, Callable[[int], Sequence[Any]]]:
        """(number of samples, function from an index to a value or a path for each input)"""
        if os.path.isdir(self.path):
            files = sorted(os.path.join(folder, name) for folder, _, names in os.walk(self.path) for name in names
                           if os.path.splitext(name)[1].lower() in FILES)
            self._only("a folder of files")
            return len(files), lambda i: [_File(files[i])]
        kind = os.path.splitext(self.path)[1].lower()
        if kind == ".npz":
            return self._archive()
        if kind == ".npy":
            self._only("an .npy file")
            array = np.load(self.path, mmap_mode="r", allow_pickle=False)
            return len(array), lambda i: [array[i]]
        if kind == ".csv":
            return self._rows(_csv(self.path))
        if kind == ".jsonl":
            return self._rows(_lines(self.path))
        raise ComparisonError(f"{self.path}: unknown kind of data; a folder, .npz, .npy, .csv and .jsonl can be read")

    def _only(self, what: str) -> None:
        if len(self._tensors) != 1:
            raise ComparisonError(f"{self.path}: {what} serves a model with one input, and this one has "
                                  f"{len(self._tensors)}; give an .npz, .csv or .jsonl file")

    def _archive(self) -> tuple[int, Callable[[int], Sequence[Any]]]:
        with np.load(self.path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        names = [t.name for t in self._tensors]
        if all(name in arrays for name in names):
            chosen = [arrays[name] for name in names]
        else:
            chosen = [array for name, array in arrays.items() if name != "labels"]
            if len(chosen) != len(names):
                raise ComparisonError(f"{self.path}: has {', '.join(arrays) or 'no arrays'}; the model takes "
                                      f"{', '.join(names)}")
        counts = {len(array) for array in chosen}
        if len(counts) != 1:
            raise ComparisonError(f"{self.path}: the arrays have {sorted(counts)} samples; their first axes must agree")
        return counts.pop(), lambda i: [array[i] for array in chosen]

    def _rows(self, rows: list[dict[str, Any]]) -> tuple[int, Callable[[int], Sequence[Any]]]:
        names = [t.name for t in self._tensors]
        keys = ["file"] if rows and "file" in rows[0] and len(names) == 1 and names[0] not in rows[0] else names
        folder = os.path.dirname(self.path)
        for number, row in enumerate(rows, 1):
            missing = [key for key in keys if key not in row]
            if missing:
                raise ComparisonError(f"{self.path}: sample {number} has no {', '.join(missing)}")
        return len(rows), lambda i: [_value(rows[i][key], folder) for key in keys]

    def _fitted(self, value: Any, tensor: Tensor) -> NDArray[Any]:
        if isinstance(value, _File):
            value = self._read(value.path, tensor)
        return fitted(value, tensor)

    def _read(self, path: str, tensor: Tensor) -> NDArray[Any]:
        suffix = os.path.splitext(path)[1].lower()
        try:
            if suffix == ".npy":
                loaded: NDArray[Any] = np.load(path, allow_pickle=False)
                return loaded
            if suffix == ".wav":
                samples = audio.read(path)[0]
                wanted = math.prod(tensor.shape)
                return np.pad(samples[:wanted], (0, max(0, wanted - len(samples))))
            pixels = images.read(path)
        except (OSError, ValueError, PyliteError) as error:
            raise ComparisonError(f"{path}: {error}") from None
        if len(tensor.shape) != 4 or tensor.shape[3] not in (1, 3, 4):
            raise ComparisonError(f"input {tensor.name!r} of shape {list(tensor.shape)} takes no picture ({path})")
        fitted = images.resize(images.channels(pixels, tensor.shape[3]), *tensor.shape[1:3])
        return (fitted.astype(np.float32) - self._mean) / self._std


def fitted(value: Any, tensor: Tensor) -> NDArray[Any]:
    """A value as an input takes it: of its shape, and float32 for real and quantized numbers, else of its type."""
    array, shape = np.asarray(value), tensor.shape
    if array.size != math.prod(shape):
        if len(tensor.shape_signature) == array.ndim + 1:
            array = array[None]
        if len(tensor.shape_signature) != array.ndim or any(
                asked not in (-1, have) for asked, have in zip(tensor.shape_signature, array.shape, strict=True)):
            raise ComparisonError(f"input {tensor.name!r} takes {list(tensor.shape_signature)}, and a sample has "
                                  f"{list(np.asarray(value).shape)}")
        shape = array.shape
    real = tensor.dtype == "float32" or (tensor.quantization is not None and tensor.quantization.scale.size > 0)
    return np.ascontiguousarray(array.reshape(shape), np.float32 if real else tensor.dtype)


class _File:
    """A sample, or a part of one, that is read when its turn comes."""

    def __init__(self, path: str) -> None:
        self.path = path


def _value(value: Any, folder: str) -> Any:
    """A number, a list of numbers, or a _File relative to the folder of the list that names it."""
    if not isinstance(value, str):
        return value
    try:
        return [float(number) for number in value.split()]
    except ValueError:
        return _File(os.path.join(folder, value))


def _csv(path: str) -> list[dict[str, Any]]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _lines(path: str) -> list[dict[str, Any]]:
    found = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                try:
                    row = json.loads(line)
                except ValueError as error:
                    raise ComparisonError(f"{path}, line {number}: {error}") from None
                if not isinstance(row, dict):
                    raise ComparisonError(f"{path}, line {number}: is no object, such as {{\"file\": \"a.png\"}}")
                found.append(row)
    return found
