"""Finds samples and their labels in folders, archives, lists and COCO annotations."""
from __future__ import annotations

import csv
import io
import json
import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pylite.errors import ComparisonError, clipped, looked_for
from pylite.media import images
from pylite.media.files import lines_of, text_of
from pylite.validation.arrays import Rows, in_memory, load

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite.ir.graph import Tensor

FILES = (*images.SUFFIXES, ".npy", ".wav")
PATHS = ("file", "path")        # columns that name the file of the only input
LABELS = "label", "labels"      # columns, and arrays of archives
BOX = 7                         # numbers of an object: left, top, width, height, category, crowd (0 or 1), area


class File(str):
    """The path of a sample, or of a part of one, which is read only when needed."""
    __slots__ = ()


class Objects(NamedTuple):
    """The objects in a picture: rows (count, BOX), and the size that the boxes refer to, None if unknown."""
    rows: NDArray[Any]
    height: float | None
    width: float | None


@dataclass
class Source:
    """Samples by number: get(i): a value or a File for each input; label(i): text, numbers, the File of a mask, the
    Objects of a picture, or None; path(i): its file or None; where(i): its place, for messages.

    categories: {number: name} of COCO annotations; notes: arrays and columns that are not used.
    """
    count: int
    get: Callable[[int], Sequence[Any]]
    where: Callable[[int], str]
    label: Callable[[int], Any] = lambda i: None
    path: Callable[[int], str | None] = lambda i: None
    categories: dict[int, str] | None = None
    notes: Sequence[str] = ()


def opened(path: str, tensors: Sequence[Tensor], pictures: str | None = None) -> Source:
    """The Source at `path` for these inputs; pictures: the folder of COCO's.  ComparisonError says what is wrong."""
    if not os.path.exists(path):
        raise ComparisonError(f"{path}: there is no such file or folder{looked_for(path)}")
    kind = "folder" if os.path.isdir(path) else os.path.splitext(path)[1].lower()
    if kind not in _KINDS:
        raise ComparisonError(f"{path}: unknown kind of data; a folder, .npz, .npy, .csv, .jsonl and COCO's .json can "
                              "be read")
    if kind in ("folder", ".npy", ".json") and len(tensors) != 1:
        raise ComparisonError(f"{path}: works only for a model with one input, and this one has {len(tensors)}; give "
                              "an .npz, .csv or .jsonl file")
    try:
        return _coco(path, pictures) if kind == ".json" else _KINDS[kind](path, tensors)
    except (ValueError, RecursionError) as error:       # the latter for deeply nested JSON
        if isinstance(error, ComparisonError):
            raise
        raise ComparisonError(f"{path}: {str(error).removeprefix(f'{path}: ')}") from None


def _folder(path: str, tensors: Sequence[Tensor]) -> Source:
    paths = sorted(os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names
                   if os.path.splitext(name)[1].lower() in FILES)
    masks = {file: mask for file, mask in zip(paths, map(_mask, paths, [set(paths)] * len(paths)), strict=True) if mask}
    files = [file for file in paths if file not in set(masks.values())]

    def label(i: int) -> str | None:
        parts = os.path.relpath(files[i], path).split(os.sep)
        return File(masks[files[i]]) if files[i] in masks else parts[0] if len(parts) > 1 else None
    return Source(len(files), lambda i: [File(files[i])], files.__getitem__, label, files.__getitem__)


def _mask(file: str, known: set[str]) -> str | None:
    """The picture next to a picture whose pixels are its classes: a_mask.png, or a.png next to a.jpg."""
    stem, suffix = os.path.splitext(file)
    candidates = [f"{stem}_mask.png"] + ([f"{stem}.png"] if suffix.lower() in (".jpg", ".jpeg") else [])
    return next((name for name in candidates if name in known), None)


def _archive(path: str, tensors: Sequence[Tensor]) -> Source:
    arrays = load(path)
    if not isinstance(arrays, dict):
        raise ComparisonError(f"{path}: is not an archive of arrays")
    chosen, labels, unused = _chosen(path, arrays, [t.name for t in tensors])
    for array, tensor in zip(chosen, tensors, strict=True):
        _check_axis(path, array, tensor)
    counts = {len(array) if array.ndim else 0 for array in [*chosen, *([] if labels is None else [labels])]}
    if len(counts) != 1:
        raise ComparisonError(f"{path}: the arrays have {sorted(counts)} samples; their first axes must agree")
    source = Source(counts.pop(), lambda i: [np.array(array[i]) for array in chosen],     # aligned copies
                    lambda i: f"{path}, sample {i}", notes=_unused(path, "array", unused))
    if labels is not None:
        known = in_memory(labels).tolist() if labels.dtype.kind in "US" else labels
        source.label = lambda i: known[i]
    return source


def _check_axis(path: str, array: NDArray[Any] | Rows, tensor: Tensor) -> None:
    """Raise ComparisonError for the array of a single sample, without the axis that counts samples."""
    if tensor.shape == (1, *array.shape) and math.prod(array.shape[1:]) != math.prod(tensor.shape):
        raise ComparisonError(f"{path}: an array of shape {list(array.shape)} is one sample of input {tensor.name!r}; "
                              "the first axis counts samples: save array[numpy.newaxis]")


def _chosen(path: str, arrays: dict[str, Any], names: Sequence[str]) -> tuple[list[Any], Any, list[str]]:
    """(the arrays of the inputs, the labels or None, names of unused arrays) of an archive."""
    own = next((key for key in LABELS if key in arrays and key not in names), None)
    labels = None if own is None else arrays[own]
    others = [name for name in arrays if name != own]
    if set(names) <= arrays.keys():
        return [arrays[name] for name in names], labels, [name for name in others if name not in names]
    if len(others) != len(names):
        raise ComparisonError(f"{path}: has {', '.join(others) or 'no arrays'}; the model takes {', '.join(names)}")
    return [arrays[name] for name in others], labels, []


def _unused(path: str, what: str, names: Sequence[str]) -> list[str]:
    """A line for arrays or columns that no input and no label takes."""
    if not names:
        return []
    return [f"{path}: the {what}{'s' * (len(names) > 1)} {', '.join(names)} {'are' if len(names) > 1 else 'is'} not "
            "used"]


def _array(path: str, tensors: Sequence[Tensor]) -> Source:
    array = load(path)
    if not isinstance(array, np.ndarray | Rows) or not array.ndim:
        raise ComparisonError(f"{path}: has no axis of samples")
    _check_axis(path, array, tensors[0])
    return Source(len(array), lambda i: [array[i]], lambda i: f"{path}, sample {i}")


def _rows(path: str, rows: list[tuple[int, dict[str, Any]]], tensors: Sequence[Tensor]) -> Source:
    folder = os.path.dirname(path)
    keys = _keys(rows[0][1] if rows else {}, tensors)
    for number, row in rows:
        missing = [key for key in keys if row.get(key) is None]
        if missing:
            raise ComparisonError(f"{path}, line {number}: has no {', '.join(missing)}; it has {', '.join(row)}")

    named = next((key for key in LABELS if rows and key in rows[0][1] and key not in keys), "")

    def get(i: int) -> list[Any]:
        if len(keys) == len(tensors):
            return [value(rows[i][1][key], folder, tensor.shape) for key, tensor in zip(keys, tensors, strict=True)]
        values = [value(rows[i][1][key], folder) for key in keys]
        if not all(np.size(v) == 1 and not isinstance(v, File) for v in values):
            raise ComparisonError(f"{where(i)}: every column but {named or LABELS[0]!r} must have one number")
        return [np.array(values, np.float32).reshape(tensors[0].shape)]

    def where(i: int) -> str:
        return f"{path}, line {rows[i][0]}"

    def label(i: int) -> Any:
        entry: Any = rows[i][1].get(named)
        if isinstance(entry, str):
            file = os.path.join(folder, entry)
            return File(file) if entry.lower().endswith(images.SUFFIXES) else entry.strip()
        try:
            np.ndim(entry)
        except ValueError:
            raise ComparisonError(f"{where(i)}: label {clipped(str(entry))} has lists of different lengths") from None
        return entry

    def file(i: int) -> str | None:
        entry = rows[i][1].get(keys[0])
        return os.path.join(folder, entry) if isinstance(entry, str) and len(keys) == 1 and keys[0] in PATHS else None
    unused = [key for key in (rows[0][1] if rows else ()) if key not in keys and key != named]
    return Source(len(rows), get, where, label, file, notes=_unused(path, "column", unused))


def _keys(row: dict[str, Any], tensors: Sequence[Tensor]) -> list[str]:
    """The columns of the inputs: a file, one for each input, or one for each number of the only input."""
    names = [t.name for t in tensors]
    known = [key for key in PATHS if key in row]
    if len(names) > 1 or names[0] in row:
        return names
    others = [key for key in row if key not in LABELS]
    return known[:1] or (others if len(others) == math.prod(tensors[0].shape) else names)


def value(entry: Any, folder: str, shape: Sequence[int] = ()) -> Any:
    """A number, a list of numbers, or a File relative to the folder of the list that names it.

    shape: of the array that numbers between spaces are, which have no axes of their own.
    """
    if not isinstance(entry, str):
        return entry
    try:
        numbers = np.array([float(number) for number in entry.split()])
    except ValueError:
        return File(os.path.join(folder, entry))
    return numbers.reshape(shape) if numbers.size == math.prod(shape) else numbers


def _csv(path: str, tensors: Sequence[Tensor]) -> Source:
    rows = []
    reader = csv.DictReader(io.StringIO(text_of(path), newline=""), skipinitialspace=True)
    try:
        header = list(reader.fieldnames or ())
        for row in reader:
            if None in row or None in row.values():
                raise ComparisonError(f"{path}, line {reader.line_num}: does not have the {len(header)} columns of the "
                                      f"header")
            rows.append((reader.line_num, row))
    except csv.Error as error:
        raise ComparisonError(f"{path}, line {reader.line_num}: {error}") from None
    if len(header) == 1 and ";" in header[0]:
        raise ComparisonError(f"{path}: its columns are separated by semicolons ({clipped(header[0])}); expected "
                              "commas")
    if header and not rows:
        raise ComparisonError(f"{path}: has no samples, since its only line ({clipped(','.join(header))}) names the "
                              "columns, such as file,label")
    return _rows(path, rows, tensors)


def _lines(path: str, tensors: Sequence[Tensor]) -> Source:
    rows = []
    for number, line in enumerate(lines_of(text_of(path)), 1):
        if line.strip():
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise ComparisonError(f"{path}, line {number} is not JSON: {error}") from None
            if not isinstance(row, dict):
                raise ComparisonError(f"{path}, line {number}: is not an object, such as {{\"file\": \"a.png\"}}")
            rows.append((number, row))
    return _rows(path, rows, tensors)


def _coco(path: str, pictures: str | None) -> Source:
    text = text_of(path)
    try:
        annotations = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ComparisonError(f"{path}: not valid JSON, which COCO's annotations are: {error}") from None
    try:
        categories = {int(c["id"]): str(c["name"]) for c in annotations["categories"]}
        names = {image["id"]: str(image["file_name"]) for image in annotations["images"]}
        sizes = [(image.get("height"), image.get("width")) for image in annotations["images"]]
        objects: dict[Any, list[list[float]]] = {number: [] for number in names}
    except (KeyError, TypeError, ValueError) as error:
        raise ComparisonError(f"{path}: is not a list of objects in COCO's form: {error!r} is missing or wrong in its "
                              "\"images\" or \"categories\"") from None
    for i, entry in enumerate(annotations.get("annotations", ())):
        try:
            box = [float(number) for number in entry["bbox"]]
            _, _, width, height = box
            if int(entry["category_id"]) not in categories:
                raise KeyError(f"category {entry['category_id']}")
            objects[entry["image_id"]].append([*box, int(entry["category_id"]), int(entry.get("iscrowd", 0)),
                                               float(entry.get("area", width * height))])
        except (KeyError, TypeError, ValueError) as error:
            raise ComparisonError(f"{path}: \"annotations\"[{i}]: {error!r} is missing or wrong; it takes a "
                                  "known \"image_id\" and \"category_id\", and \"bbox\": [left, top, width, height]"
                                  ) from None
    files = [File(name) for name in _pictures(path, list(names.values()), pictures)]
    truth = [Objects(np.array(rows, np.float64).reshape(-1, BOX), *size)
             for rows, size in zip(objects.values(), sizes, strict=True)]
    return Source(len(files), lambda i: [files[i]], files.__getitem__, truth.__getitem__, files.__getitem__, categories)


def _pictures(path: str, names: list[str], given: str | None) -> list[str]:
    """The files of COCO's pictures: in the given folder, or near the annotations."""
    folder = os.path.dirname(path)
    part = os.path.splitext(os.path.basename(path))[0].rpartition("_")[2]       # val2017 of instances_val2017
    folders = [given] if given else [folder, os.path.join(folder, "images"), os.path.join(folder, "..", part),
                                     os.path.join(folder, "..", "images"), os.path.join(folder, "..", "images", part)]
    chosen = next((f for f in folders if names and os.path.exists(os.path.join(f, names[0]))), None)
    if chosen is None and names:
        raise ComparisonError(f"{path}: {names[0]} is not in {', '.join(f or '.' for f in folders)}; give the folder "
                              "of the pictures (--images)")
    return [os.path.join(chosen or "", name) for name in names]


_KINDS: dict[str, Any] = {"folder": _folder, ".npz": _archive, ".npy": _array, ".csv": _csv, ".jsonl": _lines,
                          ".json": _coco}
