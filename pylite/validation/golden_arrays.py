"""Tensors that another program has computed: the arrays of a folder, by tensor of a model.

| file | arrays |
| --- | --- |
| `NAME.npy`, in folders for a name with slashes | of the tensor NAME; its first axis may count samples |
| `.npz` | each named as a tensor; the same name in several files, ordered by their paths: a sample in each |
| `names.json` | {name of an array: name of its tensor}, where they differ |
"""
from __future__ import annotations

import json
import math
import os
import re
from typing import TYPE_CHECKING

import numpy as np

from pylite.errors import ComparisonError
from pylite.media.files import text_of
from pylite.validation.arrays import Rows, in_memory, load

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite.ir.graph import Tensor

NAMES = "names.json"


class GoldenArray:
    """The arrays of one tensor.  name: theirs; each part has one sample or more along its first axis."""

    def __init__(self, name: str, parts: Sequence[Any], tensor: Tensor) -> None:
        self.name, self._parts = name, parts
        self.count = sum(self._samples(part, tensor) for part in parts)
        self._places = [(part, k, n) for part in parts for n in [self._samples(part, tensor)] for k in range(n)]

    def _samples(self, part: Any, tensor: Tensor) -> int:
        """How many samples a part has."""
        size = math.prod(tensor.shape)
        count = math.prod(part.shape) // size if size else 0
        if not count or count * size != math.prod(part.shape) or (count > 1 and part.shape[0] % count):
            raise ComparisonError(f"the array {self.name!r} has the shape {list(part.shape)}, and the tensor "
                                  f"{tensor.name!r} {list(tensor.shape)}; it must hold as many elements for each "
                                  "sample, in any layout")
        return count

    def __getitem__(self, sample: int) -> NDArray[Any]:
        part, k, count = self._places[sample]
        if count == 1:
            return in_memory(part)
        rows = part.shape[0] // count
        if isinstance(part, Rows):
            return np.stack([part[i] for i in range(k * rows, (k + 1) * rows)])
        rows_of_sample: NDArray[Any] = part[k * rows:(k + 1) * rows]
        return rows_of_sample


class Folder:
    """The arrays of a folder for tensors of a model.

    arrays: {tensor's index: GoldenArray}; how: {index: how its array was matched}; unused: names of arrays that belong
    to no tensor; count: number of samples.  Raises OSError, or ComparisonError if nothing fits, or if arrays have
    different numbers of samples.
    """

    def __init__(self, path: str, tensors: Sequence[Tensor]) -> None:
        arrays = _arrays(path)
        self.how: dict[int, str] = {}
        named: dict[int, str] = {}
        for how, pairs in _passes(tensors, list(arrays)):
            for index, name in pairs:
                if index not in named and name not in named.values():
                    named[index], self.how[index] = name, how
        if not named:
            raise ComparisonError(f"{path}: none of its {len(arrays)} arrays ({_some(arrays)}) has the name of a "
                                  f"tensor ({_some(t.name for t in tensors)}); {NAMES} in the folder may "
                                  "map the names of arrays to those of tensors")
        by_index = {t.index: t for t in tensors}
        self.arrays = {index: GoldenArray(name, arrays[name], by_index[index]) for index, name in named.items()}
        self.unused = sorted(set(arrays) - set(named.values()))
        counts = {golden.count: golden.name for golden in self.arrays.values()}
        if len(counts) > 1:
            raise ComparisonError(f"{path}: the arrays have different numbers of samples: "
                                  + ", ".join(f"{name!r} {count}" for count, name in sorted(counts.items())))
        self.count = next(iter(counts))


def _arrays(path: str) -> dict[str, list[Any]]:
    """{name of the tensor it is for, or of the array: parts}"""
    if not os.path.isdir(path):
        os.stat(path)       # OSError if there is nothing
        raise ComparisonError(f"{path}: is not a folder; expected a folder with NAME.npy or .npz files")
    arrays: dict[str, list[Any]] = {}
    for file in sorted(_files(path), key=_natural):
        whole = os.path.join(path, file)
        stem, suffix = os.path.splitext(file)
        if suffix == ".npy":
            arrays.setdefault(stem.replace(os.sep, "/"), []).append(load(whole))
        elif suffix == ".npz":
            for name, array in load(whole).items():
                arrays.setdefault(name, []).append(array)
    if not arrays:
        raise ComparisonError(f"{path}: has no arrays; below it there is no .npy or .npz file")
    return _renamed(os.path.join(path, NAMES), arrays)


def _files(path: str) -> Iterator[str]:
    for folder, _, names in os.walk(path):
        yield from (os.path.relpath(os.path.join(folder, name), path) for name in names)


def _natural(name: str) -> list[tuple[bool, int, str]]:
    """A key that puts 2.npz before 10.npz."""
    return [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in re.split(r"(\d+)", name)]


def _renamed(path: str, arrays: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """The arrays with the names that the file gives them."""
    if not os.path.exists(path):
        return arrays
    try:
        names = json.loads(text_of(path))
    except ValueError as error:
        raise ComparisonError(f"{path}: {str(error).removeprefix(f'{path}: ')}") from None
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        raise ComparisonError(f"{path}: must hold an object: the name of an array, and that of its tensor")
    lacking = sorted(set(names) - set(arrays))
    if lacking:
        raise ComparisonError(f"{path}: there is no array {lacking[0]!r} in the folder; it has {_some(arrays)}")
    return {names.get(name, name): parts for name, parts in arrays.items()}


def _passes(tensors: Sequence[Tensor], names: Sequence[str]) -> Iterator[tuple[str, list[tuple[int, str]]]]:
    """How arrays are found, the surest way first: [(tensor, array)]."""
    plain = {name: name for name in names}
    alike: dict[str, list[str]] = {}
    for name in names:
        alike.setdefault(_bare(name), []).append(name)
    loose = {bare: same[0] for bare, same in alike.items() if len(same) == 1 and bare}
    for how, known, key in (("name", plain, str), ("name but for punctuation", loose, _bare)):
        yield how, [(t.index, known[key(t.name)]) for t in tensors if key(t.name) in known]
        yield f"part of a {how}", [(t.index, known[key(part)]) for t in tensors if ";" in t.name
                                   for part in t.name.split(";") if key(part) in known]


def _bare(name: str) -> str:
    """The letters and digits of a name, in lower case: what all frameworks write alike."""
    return re.sub(r"[^0-9a-z]+", "_", name.lower()).strip("_")


def _some(names: Any) -> str:
    """The first few of these names."""
    listed = list(names)
    return ", ".join(map(repr, listed[:3])) + (", ..." if len(listed) > 3 else "")


def layouts(shape: Sequence[int], wanted: Sequence[int]) -> dict[str, tuple[int, ...]]:
    """{how an array of `shape` may hold a tensor of the shape `wanted`: the order of its axes in the tensor}.

    An array without a batch counts as one of a single sample.  "in order" is where only the sizes agree.
    """
    shape, wanted, rank = tuple(shape), tuple(wanted), len(wanted)
    if len(shape) == rank - 1 and wanted[0] == 1:
        shape = (1, *shape)
    orders: dict[str, tuple[int, ...]] = {}
    if shape == wanted:
        orders["as it is"] = tuple(range(rank))
    if len(shape) == rank >= 3:
        for how, order in (("channels first", (0, *range(2, rank), 1)),
                           ("channels last", (0, rank - 1, *range(1, rank - 1)))):
            if tuple(shape[i] for i in order) == wanted:
                orders[how] = order
    return orders or {"in order": ()}


def arranged(array: NDArray[Any], wanted: Sequence[int], order: Sequence[int]) -> NDArray[Any]:
    """A contiguous array of the shape `wanted`; order: as `layouts` has it."""
    if order and len(order) > array.ndim:
        array = array[None]
    return np.ascontiguousarray(array.transpose(order) if order else array).reshape(wanted)
