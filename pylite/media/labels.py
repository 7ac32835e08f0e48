"""Names of a model's classes, from a text file or from the zip archive that converters append to a model."""
from __future__ import annotations

import io
import os
import re
import zipfile
from typing import TYPE_CHECKING

from pylite.errors import FileFormatError, ModelError
from pylite.media.files import lines_of, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pylite.runtime.model import Model

    Labels = dict[int, str]

LARGEST = 16 << 20      # bytes of the texts in an archive: compressed ones may be a thousand times as long as the file
MOST_LINES = 1 << 20    # each takes a hundred bytes
WITHOUT_BACKGROUND = 20, 80, 90, 1000       # classes of Pascal VOC, COCO (with and without gaps) and ImageNet
REMEDY = "give a name for each class, the first one for class 0, which may be the background"
MOST_LITERAL = 1 << 20      # letters of a list or dictionary, which takes many times as much memory
DIGITS = 6                  # most of a class: results have a list of the names up to the greatest one
_MAP = re.compile(r"(?:\s|#.*\n)*item\s*\{")
_TOKEN = re.compile(r"""#.*|[{}]|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|[\w.-]+""")
_NUMBERED = re.compile(rf"\s*(\d{{1,{DIGITS}}})[\s:,]+(.+)")


def read(path: str | os.PathLike[str]) -> Labels:
    """{class: name} of a text file that parse() understands.

    Raises OSError, or FileFormatError (a ValueError) if it is not a text file.
    """
    return parse(text_of(path))


def parse(text: str) -> Labels:
    """{class: name} of a text with a name on each line: its class is the number of the line, or that before the name.

    It may also be a table whose first line names the columns, the first for the class and the last for the name, a list
    or dictionary of JSON or Python, or a label map (.pbtxt) of TensorFlow's Object Detection API.  FileFormatError for
    more than MOST_LINES.
    """
    if text.lstrip()[:1] in ("[", "{") and len(text) <= MOST_LITERAL and (found := _of_literal(text)):
        return found
    if found := _of_items(text):
        return found
    lines = [line.strip() for line in lines_of(text)]
    if len(lines) > MOST_LINES:
        raise FileFormatError(f"a text of {len(lines)} lines; expected a name on each, and at most {MOST_LINES}")
    while lines and not lines[-1]:
        lines.pop()
    return _numbered(lines) or _of_table(lines) or {i: line for i, line in enumerate(lines) if line}


def _numbered(lines: list[str]) -> Labels | None:
    """The labels in lines that all begin with different numbers."""
    matches = [_NUMBERED.fullmatch(line) for line in lines if line]
    named = {int(match[1]): match[2] for match in matches if match}
    return named if len(named) == len(matches) else None


def _is_class(number: str) -> bool:
    return number.isdecimal() and len(number) <= DIGITS


def _of_literal(text: str) -> Labels | None:
    """The labels in a list of names, or a dictionary {class: name}, {name: class} or Keras' {class: [id, name]}."""
    import ast  # lazy, as json: few lists are written so
    import json
    try:
        try:
            known = json.loads(text)
        except ValueError:
            known = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    if isinstance(known, list):
        known = dict(enumerate(known))
    if not isinstance(known, dict):
        return None
    if all(isinstance(number, int) for number in known.values()):
        known = {number: name for name, number in known.items()}
    names = {str(number): name[-1] if isinstance(name, list) and name else name for number, name in known.items()}
    if not all(_is_class(number) and isinstance(name, str) for number, name in names.items()):
        return None
    return {int(number): name for number, name in names.items()}


def _of_items(text: str) -> Labels | None:
    """The labels in a label map, "item { id: 1 name: 'ant' }"; the class of the id 1 is 0."""
    labels: Labels = {}
    for fields in _items(text) if _MAP.match(text) else ():
        name = fields.get("display_name") or fields.get("name", "")
        if not (name and _is_class(fields.get("id", ""))):
            return None
        labels[int(fields["id"])] = name
    return labels if 0 in labels else {number - 1: name for number, name in labels.items()}


def _items(text: str) -> Iterator[dict[str, str]]:
    """The fields of each item of a label map, without those of blocks inside it."""
    fields: dict[str, str] = {}
    depth, key = 0, ""
    for token in _TOKEN.findall(text):
        if token in "{}":
            depth += 1 if token == "{" else -1
            if depth == 0:
                yield fields
                fields = {}
        elif depth == 1 and token[0] != "#":
            if key in ("id", "name", "display_name"):
                fields[key] = re.sub(r"\\(.)", r"\1", token[1:-1]) if token[0] in "\"'" else token
                token = ""
            key = token


def _of_table(lines: list[str]) -> Labels | None:
    """The labels in the lines of a .csv file with a header, such as YAMNet's "index,mid,display_name"."""
    import csv  # lazy: few lists are written so
    try:
        header, *rows = csv.reader(line for line in lines if line)
    except (csv.Error, ValueError):     # ValueError: no line
        return None
    if any(len(row) != len(header) or not _is_class(row[0]) for row in rows):
        return None
    return {int(row[0]): row[-1].strip() for row in rows}


class Files:
    """The text files in the zip archive at the end of a model, opened when first asked for."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._left = LARGEST
        self._archive: zipfile.ZipFile | None = None

    def text(self, name: str | None) -> str:
        """The text of a file; ModelError if the archive lacks it, or is damaged."""
        try:
            if self._archive is None:
                self._archive = zipfile.ZipFile(io.BytesIO(self._model.graph.contents))
            with self._archive.open(name or "") as file:
                data = file.read(self._left + 1)
        except KeyError:
            raise ModelError(f"the model's metadata name the file {name!r}, and the archive at its end has "
                             f"{', '.join(self._model.associated_files) or 'nothing'}") from None
        except Exception as error:      # of damaged archives zipfile raises many kinds
            raise ModelError(f"the file {name!r} in the archive at the model's end cannot be read: "
                             f"{str(error) or type(error).__name__}") from None
        self._left -= len(data)
        if self._left < 0:
            raise ModelError(f"the texts in the archive at the model's end, up to {name!r}, have more than {LARGEST} "
                             "bytes; expected labels or words")
        return data.decode("utf-8-sig", "replace")


def attached(model: Model) -> list[Labels]:
    """The label lists in the zip archive at the end of the model: [{class: name}]; empty if it is damaged."""
    files = Files(model)
    try:
        return [parse(files.text(name)) for name in listed(model)]
    except (ModelError, FileFormatError):
        return []


def listed(model: Model) -> list[str]:
    """The names of the files in the model's archive that hold labels, as far as names tell."""
    return [name for name in model.associated_files if name.endswith(".txt") and "vocab" not in name]


def fitted(labels: Labels | None, count: int) -> Labels | None:
    """`labels` for `count` classes, or None if they do not fit.

    A list with one name less is taken to lack the background, class 0; complete() tells whether that is plausible.
    """
    if not labels:
        return None
    if len(labels) == count - 1 and 0 in labels and count - 1 not in labels:
        return {0: "background"} | {i + 1: name for i, name in labels.items()}
    return labels if max(labels) < count else None


def complete(labels: Labels, count: int) -> bool:
    """Do these names fit `count` classes, without a missing line?  Numbered lists may have gaps.

    Only lists of well-known classes may lack the background; any other list with one name less has lost a line.
    """
    short = sorted(labels) == [*range(len(labels))] and len(labels) < count - (len(labels) in WITHOUT_BACKGROUND)
    return fitted(labels, count) is not None and not short
