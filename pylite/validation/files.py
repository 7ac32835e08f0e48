"""Writes files that are replaced as a whole or not at all, and models with their attached files."""
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
    """A file to write to, which replaces `path` unless the block raises.  OSError names `path`.

    Concurrent writers have files of their own; the last one to finish wins.  Devices and pipes are written directly.
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
    """A .tflite file with the archive attached to the file of `model`, if any: labels and the like."""
    if not model.associated_files:
        return contents
    whole = io.BytesIO(contents)
    try:
        with zipfile.ZipFile(io.BytesIO(model.graph.contents)) as source, zipfile.ZipFile(whole, "a") as target:
            for name in source.namelist():
                target.writestr(name, source.read(name))
    except (zipfile.BadZipFile, KeyError, RuntimeError):    # damaged, or encrypted
        return contents
    return whole.getvalue()
