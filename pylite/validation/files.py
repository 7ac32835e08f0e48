"""Writes files that are replaced at once or stay as they were, and models with the files attached to them."""
from __future__ import annotations

import contextlib
import io
import os
import secrets
import zipfile
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pylite.runtime.model import Model


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A file to write to; it takes the place of `path` where nothing is raised.  OSError names `path`.

    Of several that write at a time, each has a file of its own; what ends last stays.  Devices and pipes are written as
    they are.
    """
    path = os.fspath(path)
    whole = os.path.isfile(path) or not os.path.exists(path)
    unfinished = f"{path}.{secrets.token_hex(4)}.new" if whole else path
    try:
        with open(unfinished, "wb") as file:
            yield file
        if whole:
            os.replace(unfinished, path)
    except BaseException as error:
        if whole:
            with contextlib.suppress(OSError):
                os.remove(unfinished)
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror, path) from None
        raise


def with_attached(contents: bytes, model: Model) -> bytes:
    """A .tflite file with the archive that follows the file of `model`, if one does: labels and the like."""
    if not model.associated_files:
        return contents
    whole = io.BytesIO(contents)
    try:
        with zipfile.ZipFile(io.BytesIO(model.graph.contents)) as given, zipfile.ZipFile(whole, "a") as taken:
            for name in given.namelist():
                taken.writestr(name, given.read(name))
    except (zipfile.BadZipFile, KeyError, RuntimeError):    # damaged, or encrypted
        return contents
    return whole.getvalue()
