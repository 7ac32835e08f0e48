"""A zip archive after the model: its files are listed; other trailing bytes are ignored."""
import io
import zipfile

import pytest

from pylite.schema import load
from pylite.schema.archive import archive_names
from tests.schema.test_builder import conv_model


def archive(files, comment=b""):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as z:
        for name, text in files.items():
            z.writestr(name, text)
        z.comment = comment
    return stream.getvalue()


@pytest.mark.parametrize("comment", [b"", b"PK\5\6 a comment"[4:], b"x" * 300])
def test_names(comment):
    files = {"labels.txt": "cat\ndog", "metadata.json": "{}", "é.txt": "é"}
    model = load(conv_model().build() + archive(files, comment))
    assert archive_names(model.contents) == tuple(files)


def test_no_archive():
    assert archive_names(load(conv_model().build()).contents) == ()


@pytest.mark.parametrize("tail", [b"\0" * 7, b"PK\5\6", b"PK\5\6" + b"\xff" * 18, archive({"a": "b"})[:-9],
                                  archive({"a": "b"}).replace(b"PK\1\2", b"PK\1\0")],
                         ids=["zeros", "cut short", "nonsense", "truncated", "broken directory"])
def test_other_trailing_bytes_are_accepted(tail):
    model = load(conv_model().build() + tail)
    assert len(model.subgraphs) == 1 and archive_names(model.contents) == ()
