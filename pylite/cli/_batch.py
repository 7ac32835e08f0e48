"""Many files, each run on its own: which files, and their answers as lines of text, CSV or JSON."""
import csv
import glob
import json
import os
import sys
from typing import Any

from pylite.cli._common import UsageError, input_path
from pylite.cli._parser import sentence
from pylite.cli._terminal import Progress, printable
from pylite.errors import PyliteError

COLUMNS = ("file", "output", "rank", "class", "label", "score", "top", "left", "bottom", "right", "x", "y", "values",
           "error")


def expanded(given):
    """The files that arguments name: files, folders (their readable files), patterns with * ? [ ]."""
    from pylite.media import images
    kinds = (".npy", ".npz", ".wav", *images.SUFFIXES)
    files = []
    for text in given:
        if os.path.isdir(text):
            paths = sorted(entry.path for entry in os.scandir(text)
                           if entry.is_file() and entry.name.lower().endswith(kinds))
        elif glob.has_magic(text) and not os.path.exists(text):
            paths = sorted(glob.glob(text, recursive=True))
        else:
            input_path(text)        # an error if there is neither a file nor a sample of this name
            paths = [text]
        if not paths:
            raise UsageError(f"{text}: {_nothing(text, kinds) if os.path.isdir(text) else 'no file matches'}")
        files += paths
    return files


def _nothing(folder, kinds):
    """Why there is nothing to run in a folder."""
    deeper = next((path for path in glob.iglob(os.path.join(glob.escape(folder), "*", "*"))
                   if path.lower().endswith(kinds)), None)
    if deeper:
        pattern = os.path.join(folder, "*", "*" + os.path.splitext(deeper)[1])
        return f"the folder has no file of a known kind, but its subfolders have: '{pattern}' names them"
    return f"the folder has no file of a known kind ({', '.join(kinds)})"


def run(model, files, constant, form):
    """Run each file with the inputs `constant`, print the answers as `form`; returns 1 if a file failed, else 0."""
    return _each(model, [(file, file) for file in files], constant, form, len(files))


def live(model, name, captured, constant, form):
    """Run each capture of a camera or microphone, `name`; captured: an iterator of (kind, contents)."""
    named = ((f"{name} {number}", given) for number, given in enumerate(captured, 1))
    return _each(model, named, constant, form, None)


def _each(model, items, constant, form, total):
    """Run each of (name, given); total: their number, or None if unknown."""
    write = _FORMS[form](sys.stdout)
    failed = 0
    with Progress("files", beside=False) as progress:
        for number, (file, given) in enumerate(items):
            if total is not None:
                progress.show(number, total, os.path.basename(file))
            try:
                result = model.run([*constant, given])
            except (UsageError, PyliteError, OSError) as error:
                failed += 1
                write.error(file, " ".join(sentence(error).split()))
            else:
                write.answers(file, result)
            if total is None:
                sys.stdout.flush()      # a pipe gets each answer at once
    if failed:
        sys.stderr.write(f"pylite run: {failed} of {number + 1} files failed\n")
    return int(failed > 0)


class _Text:
    """A line for each file."""

    def __init__(self, stream):
        self.stream = stream

    def answers(self, file, result):
        self.stream.write(f"{file}: {'; '.join(answer.brief() for answer in result.outputs)}\n")

    def error(self, file, text):
        sys.stderr.write(printable(f"pylite run: {text if file in text else f'{file}: {text}'}") + "\n")


class _CSV:
    """A row for each class or box, one for another output; columns that do not apply are empty."""

    def __init__(self, stream):
        self.rows = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
        self.rows.writeheader()

    def answers(self, file, result):
        for number, answer in enumerate(result.to_dict()["outputs"]):
            row = {"file": file, "output": answer.get("name", number)}
            if answer["kind"] == "tensor":
                self.rows.writerow(row | {"values": " ".join(map(str, answer["values"]))})
            entries = answer.get(answer["kind"], [])
            for rank, entry in enumerate(entries, 1):
                self.rows.writerow(row | {"rank": rank, **{k: entry.get(k) for k in ("class", "label", "score")},
                                          **(entry.get("pixels") or entry.get("box") or entry.get("place", {}))})

    def error(self, file, text):
        self.rows.writerow({"file": file, "error": text})


class _JSONLines:
    """One object for each file."""

    def __init__(self, stream):
        self.stream = stream

    def answers(self, file, result):
        self.stream.write(json.dumps({"file": file, **result.to_dict()}, allow_nan=False) + "\n")

    def error(self, file, text):
        self.stream.write(json.dumps({"file": file, "error": text}) + "\n")


_FORMS: dict[str, Any] = {"text": _Text, "csv": _CSV, "jsonl": _JSONLines}
