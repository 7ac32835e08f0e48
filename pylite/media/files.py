"""Opens files that a caller names; an error about a missing one says where it was looked for."""
from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pylite.errors import FileFormatError, looked_for

if TYPE_CHECKING:
    from typing import IO, Any


class MissingFileError(FileNotFoundError):
    """A missing file: the text says where it was looked for, after its name."""

    def __str__(self) -> str:
        return f"{super().__str__()}{looked_for(self.filename)}"


def opened(path: str | os.PathLike[str], mode: str = "rb", encoding: str | None = None) -> IO[Any]:
    """open(), whose FileNotFoundError also names the folder in which a relative path was looked for.

    TypeError for bytes, which may be the contents of a file.
    """
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError(f"expected the path of a file, not {type(text).__name__}: save the contents to a file")
    try:
        return open(text, mode, encoding=encoding)
    except FileNotFoundError as error:
        raise MissingFileError(error.errno, error.strerror, text) from None


def text_of(path: str | os.PathLike[str]) -> str:
    """The text of a UTF-8 file, without a byte order mark.  OSError, or FileFormatError for other bytes."""
    try:
        with opened(path, "r", "utf-8-sig") as file:
            return str(file.read())
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{os.fspath(path)}: not UTF-8 text, since byte {error.start} is "
                              f"0x{error.object[error.start]:02x}; if it is text, save it as UTF-8") from None


def lines_of(text: str) -> list[str]:
    """The lines of a text, whose number counts: str.splitlines() would also split at characters within a line, such as
    U+2028, which vocabularies have.
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]
