"""The measurements of a repair in a file, so that an interrupted repair continues where it stopped.

A repair is deterministic, so it repeats its decisions from the measurements; each is stored under the numbers that were
measured.  So any repair of the same models on the same samples can use a stored measurement, whatever its options.
"""
from __future__ import annotations

import base64
import hashlib
import json
import os
import time
from typing import TYPE_CHECKING

import numpy as np

from pylite._core import simd
from pylite.runtime.plan_cache import build
from pylite.validation.files import replacing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType
    from typing import Any

    from numpy.typing import NDArray

    from pylite.runtime.model import Model

    Array = NDArray[Any]

FORMAT = "pylite repair state"
VERSION = 1         # changes with the meaning of a measurement
EVERY = 1.0         # least interval in seconds between two writes of the file
SHARE = 0.05        # largest share of the time spent on writing


def identity(model: Model, reference: Model, fit: Sequence[Sequence[Array]], held: Sequence[Sequence[Array]],
             threads: int) -> dict[str, str]:
    """All that measurements depend on; if an entry changes, they are discarded."""
    return {"model": _of_model(model), "reference": _of_model(reference), "samples": _of_samples(fit, held),
            "version of pylite or numpy, or the CPU": f"{VERSION} {build()} {simd.current}",
            "number of threads": str(threads)}


def _of_model(model: Model) -> str:
    digest = hashlib.sha256(model.graph.contents)
    for tensor in model.graph.subgraphs[0].tensors:
        if tensor.external is not None and tensor.data is not None:
            digest.update(tensor.data.tobytes())
    return digest.hexdigest()


def _of_samples(*halves: Sequence[Sequence[Array]]) -> str:
    digest = hashlib.sha256()
    for samples in halves:
        digest.update(f"{len(samples)} samples\n".encode())
        for arrays in samples:
            for array in arrays:
                digest.update(f"{array.dtype} {array.shape}\n".encode())
                digest.update(repr(array.tolist()).encode() if array.dtype == object else array.tobytes())
    return digest.hexdigest()


class Journal:
    """Measurements by key, kept in a file.  Use it in a `with` block, at whose end it writes new measurements.

    path: of the file, or None to keep nothing; about: an identity().  A file with another identity, or a damaged one,
    is ignored.  note: a line for the user on what became of the file, or None if there was none.
    """

    def __init__(self, path: str | None = None, about: Mapping[str, str] | None = None) -> None:
        self._path, self._about = path, dict(about or {})
        self._values: dict[str, Any] = {}
        self._new, self._due = False, time.monotonic() + EVERY
        self.note: str | None = None
        if path is not None and os.path.exists(path):
            self._read(path)

    @classmethod
    def of(cls, path: str | os.PathLike[str] | None, *repaired: Any) -> Journal:
        """The Journal of a file, about what identity() takes; without a file, an empty one."""
        return cls() if path is None else cls(os.fspath(path), identity(*repaired))

    def _read(self, path: str) -> None:
        with open(path, "rb") as file:
            contents = file.read()
        try:
            stored = json.loads(contents)
            about, values = stored["about"], stored["values"]
            whole = stored["format"] == FORMAT and stored["digest"] == _digest(about, values)
        except (ValueError, KeyError, TypeError, RecursionError):
            whole = False
        if not whole:
            self.note = f"started again: {path} is damaged"
        elif about != self._about:
            other = ", ".join(key for key in self._about if about.get(key) != self._about[key])
            self.note = f"started again: the state in {path} is of another {other}"
        else:
            self._values = values
            self.note = f"continued from {path}, which had {len(values)} measurements"

    def number(self, key: str, measure: Callable[[], float]) -> float:
        """The stored number, or a measured one."""
        if key not in self._values:
            self._store(key, measure().hex())
        return float.fromhex(self._values[key])

    def array(self, key: str, measure: Callable[[], Array]) -> Array:
        """The stored array of float64, or a measured one."""
        if key not in self._values:
            self._store(key, base64.b64encode(measure().astype("<f8").tobytes()).decode())
        return np.frombuffer(base64.b64decode(self._values[key]), "<f8").astype(np.float64)

    def _store(self, key: str, value: str) -> None:
        self._values[key], self._new = value, True
        if time.monotonic() >= self._due:
            self.write()

    def write(self) -> None:
        """Replace the file by one with all measurements; OSError names it."""
        if self._path is None or not self._new:
            return
        start = time.monotonic()
        whole = {"format": FORMAT, "digest": _digest(self._about, self._values), "about": self._about,
                 "values": self._values}
        with replacing(self._path) as file:
            file.write(json.dumps(whole).encode())
        now, self._new = time.monotonic(), False
        self._due = now + max(EVERY, (now - start) / SHARE)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        if not isinstance(error, OSError):      # after a full disk, a second error would hide the first
            self.write()


def _digest(about: Mapping[str, str], values: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps([about, values]).encode()).hexdigest()
