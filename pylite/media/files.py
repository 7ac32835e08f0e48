"""Opens files that a caller names; an error about a missing one says where it was looked for."""
from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pylite.errors import looked_for

if TYPE_CHECKING:
    from typing import IO, Any


def opened(path: str | os.PathLike[str], mode: str = "rb", encoding: str | None = None) -> IO[Any]:
    """As open(): FileNotFoundError also names the folder in which a relative path was looked for."""
    text = os.fspath(path)
    try:
        return open(text, mode, encoding=encoding)
    except FileNotFoundError as error:
        raise FileNotFoundError(error.errno, f"{error.strerror}{looked_for(text)}", text) from None
