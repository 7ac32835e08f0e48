"""Names of a model's classes, from a text file or from the zip archive that converters append to a model."""
from __future__ import annotations

import re
import zipfile
from typing import TYPE_CHECKING

from pylite.errors import FileFormatError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    Labels = dict[int, str]

_NUMBERED = re.compile(r"\s*(\d+)[\s:,]+(.+)")


def read(path: str | os.PathLike[str]) -> Labels:
    """{class: name} of a text file with a name on each line, numbered or not.

    Raises OSError, or FileFormatError (a ValueError) if it is not a text file.
    """
    try:
        with open(path, encoding="utf-8") as file:
            return parse(file.read())
    except UnicodeDecodeError:
        raise FileFormatError(f"{path}: not a text file") from None


def parse(text: str) -> Labels:
    """{class: name} of lines of text: the class is the line's number, or the number that begins every line."""
    lines = [line.strip() for line in text.splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    numbered = [_NUMBERED.fullmatch(line) for line in lines if line]
    if numbered and all(numbered):
        named = {int(match[1]): match[2] for match in numbered if match}
        if len(named) == len(numbered):
            return named
    return {i: line for i, line in enumerate(lines) if line}


def attached(path: str | os.PathLike[str], names: Iterable[str]) -> list[Labels]:
    """The label lists among the files `names` in the zip archive at the end of the model: [{class: name}]."""
    found = []
    wanted = [name for name in names if name.endswith(".txt") and "vocab" not in name]
    if wanted:
        try:
            with zipfile.ZipFile(path) as archive:
                found = [parse(archive.read(name).decode("utf-8", "replace")) for name in wanted]
        except (zipfile.BadZipFile, KeyError):
            return []
    return found


def fitted(labels: Labels | None, count: int) -> Labels | None:
    """`labels` for `count` classes, or None if they do not fit.

    A list with one name less has no name for the background, class 0.
    """
    if not labels:
        return None
    if len(labels) == count - 1 and 0 in labels and count - 1 not in labels:
        return {0: "background"} | {i + 1: name for i, name in labels.items()}
    return labels if max(labels) < count else None
