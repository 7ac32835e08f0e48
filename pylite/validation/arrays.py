"""Arrays, pictures and sound in files; large arrays are read row by row, so that memory does not grow with them."""
from __future__ import annotations

import math
import os
import struct
import threading
import weakref
import zipfile
from typing import TYPE_CHECKING

import numpy as np

from pylite.errors import ComparisonError
from pylite.media import audio, images

if TYPE_CHECKING:
    from typing import IO, Any

    from numpy.typing import NDArray

LARGE = 64 << 20        # bytes from which on an array is read row by row; smaller ones are read whole, with a checksum


class Rows:
    """The rows of an array along its first axis, each read from the file when it is asked for.

    They are read, not mapped: if a file is truncated meanwhile, an error says so, and no signal ends the process.  A
    file that is replaced by renaming is read to its end. Several threads may read at a time.
    """

    def __init__(self, path: str, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.shape, self.dtype, self.ndim = shape, dtype, len(shape)
        self._path, self._offset = path, offset
        self._step = math.prod(shape[1:]) * dtype.itemsize
        self._file = open(path, "rb")       # noqa: SIM115 # as long as there are readers
        self._lock = threading.Lock()       # of the file's position
        weakref.finalize(self, self._file.close)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, i: int) -> Any:
        if not 0 <= i < len(self):
            raise IndexError(i)
        with self._lock:
            self._file.seek(self._offset + i * self._step)
            data = self._file.read(self._step)
        if len(data) != self._step:
            raise ComparisonError(f"{self._path}: ends before sample {i}; it was truncated while it was read")
        return np.ndarray(self.shape[1:], self.dtype, data)[()]


def load(path: str) -> Any:
    """The array of an .npy file, or those of an .npz file by name: arrays of numpy, or Rows of large ones.

    Raises OSError, or ComparisonError for another kind of file or a damaged one.
    """
    try:
        with open(path, "rb") as file:
            begin = file.read(len(np.lib.format.MAGIC_PREFIX))
            if not begin.startswith((np.lib.format.MAGIC_PREFIX, b"PK")):
                kind, writer = (".npz", "savez") if path.lower().endswith(".npz") else (".npy", "save")
                raise ComparisonError(f"{path}: is not an {kind} file: it begins with {begin!r}; numpy.{writer}() "
                                      "writes one")
            if begin == np.lib.format.MAGIC_PREFIX:
                file.seek(0)
                rows = _rows(path, file, 0, os.fstat(file.fileno()).st_size)
                return np.load(path, allow_pickle=False) if rows is None else rows
        with np.load(path, allow_pickle=False) as archive:
            return {name: _member(path, archive, name) for name in archive.files}
    except Exception as error:      # of damaged files numpy raises many kinds
        if isinstance(error, ComparisonError) or (isinstance(error, OSError) and error.filename is not None):
            raise
        text = str(error)
        if "allow_pickle" in text:
            text = "holds Python objects, not numbers"
        elif text.startswith(("EOF", "Failed to read all data")):
            text = f"the file is cut off: {text}"
        raise ComparisonError(f"{path}: {text}") from None


def contents(path: str, rate: float | None = None) -> tuple[str, Any]:
    """(kind, contents) of a file: "array" and an array or {name: array}, "audio" and a Sound, "image" and pixels.

    rate: of the samples, per second, by default the file's.  Raises OSError, ComparisonError or FileFormatError.
    """
    suffix = os.path.splitext(path)[1].lower()
    if os.path.getsize(path) == 0:
        raise ComparisonError(f"{path}: is empty (0 bytes)")
    if suffix in (".npy", ".npz"):
        return "array", whole(path)
    if suffix == ".wav":
        samples, own = audio.read(path)
        if not len(samples):
            raise ComparisonError(f"{path}: has no sound (0 samples); record it again or leave it out")
        return "audio", audio.Sound(audio.resample(samples, own, rate or own), rate or own)
    return "image", images.read(path)


def whole(path: str) -> Any:
    """load(), with every array in memory, as one of numpy."""
    contents = load(path)
    if isinstance(contents, dict):
        return {name: in_memory(value) for name, value in contents.items()}
    return in_memory(contents)


def in_memory(stored: NDArray[Any] | Rows) -> NDArray[Any]:
    """All rows as an array of numpy."""
    if not isinstance(stored, Rows):
        return stored
    array = np.empty(stored.shape, stored.dtype)
    for i in range(len(stored)):
        array[i] = stored[i]
    return array


def _member(path: str, archive: Any, name: str) -> NDArray[Any] | Rows:
    """An array of an .npz file; Rows if it is large and not compressed."""
    info = next((i for i in archive.zip.infolist() if i.filename == f"{name}.npy"), None)
    if info is not None and info.compress_type == zipfile.ZIP_STORED and info.file_size >= LARGE:
        with archive.zip.open(info) as member, open(path, "rb") as file:
            file.seek(info.header_offset)
            lengths = struct.unpack("<26x2H", file.read(30))        # of the name and what follows it
            rows = _rows(path, member, info.header_offset + 30 + sum(lengths), info.file_size)
        if rows is not None:
            return rows
    content = archive[name]
    if not isinstance(content, np.ndarray):       # the bytes of another kind of file
        raise ValueError(f"holds {name}, which is not an .npy file")
    return content


def _rows(path: str, file: IO[bytes], start: int, size: int) -> Rows | None:
    """The Rows of the .npy file of `size` bytes that `file` reads from its begin, and `path` has at byte `start`.

    None if it is small, or is not stored row by row.
    """
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    reader = readers.get(np.lib.format.read_magic(file))
    if reader is None or size < LARGE:
        return None
    shape, fortran, dtype = reader(file)
    if dtype.hasobject or not math.prod(shape or (0,)) or (fortran and len(shape) > 1):
        return None
    end = file.tell() + math.prod(shape) * dtype.itemsize
    if end > size:
        raise ValueError(f"an array ends at byte {end} of {size}")
    return Rows(path, start + file.tell(), shape, dtype)
