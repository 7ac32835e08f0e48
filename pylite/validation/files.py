"""Writes files that are replaced at once or stay as they were."""
from __future__ import annotations

import contextlib
import os
import secrets
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


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
