"""What is wrong with data is said, with file and line; damaged files raise nothing else."""
import contextlib
import io
import json
import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pylite import validation
from pylite.errors import ComparisonError, PyliteError
from pylite.media import models
from pylite.validation import arrays as array_files
from tests.validation.labelled import accuracy, digits, scenes


@pytest.mark.parametrize(("name", "text", "words"), [
    ("a.csv", "path,label\nzero.pgm\n", r"a\.csv, line 2: does not have the 2 columns"),
    ("b.csv", "path,label\nzero.pgm,zero\nzero.pgm,one,two\n", r"b\.csv, line 3: does not have the 2 columns"),
    ("c.csv", "path,label\nzero.pgm,zero\nzero.pgm,ten\n", r"c\.csv, line 3: the model has no class 'ten'"),
    ("d.csv", "path,label\nzero.pgm,zero\nzero.pgm,11\n", r"d\.csv, line 3: the model has no class '11'"),
    ("j.csv", "path,label\nzero.pgm,0\nzero.pgm,11\n", r"j\.csv, line 3: label 11 is not one of the 10 classes"),
    ("e.csv", "path,label\ngone.pgm,zero\n", r"gone\.pgm"),
    ("f.csv", "image,label\n1 2 x 4,3\n", r"1 2 x 4"),
    ("g.csv", "image,label\n1 2 3,3\n", r"g\.csv, line 2: input 'image' takes .* has \[3\]"),
    ("h.csv", "wide,label\n1,3\n", r"h\.csv, line 2: has no image; it has wide, label"),
    ("i.csv", b"path,label\n\xff\xfe,zero\n", r"^\S*i\.csv: not UTF-8 text, since byte 11 is 0xff; .*save it as UTF-8"),
    ("k.csv", "path;label\nzero.pgm;0\n", r"k\.csv: its columns are separated by semicolons .path;label.; expected"),
    ("l.csv", "zero.pgm,0\n", r"l\.csv: has no samples, since its only line .zero\.pgm,0. names the columns"),
    ("a.jsonl", '{"file": "zero.pgm", "label": 0}\n{"file": "zero.pgm"}\n', r"a\.jsonl, line 2: has no label, un"),
    ("b.jsonl", '{"file": "zero.pgm", "label": 0}\n\n{"file": \n', r"b\.jsonl, line 3 is not JSON: Expecting value"),
    ("c.jsonl", '["zero.pgm"]\n', r"c\.jsonl, line 1: is not an object"),
    ("e.jsonl", b'{"file": "\xe9.pgm"}', r"^\S*e\.jsonl: not UTF-8 text, since byte 10 is 0xe9"),
    ("i.json", b'{"a": "\xe9"}', r"^\S*i\.json: not UTF-8 text, since byte 7 is 0xe9"),
    ("d.jsonl", '{"label": 0}\n', r"d\.jsonl, line 1: has no image"),
    ("e.jsonl", '{"file": "zero.pgm", "label": [[1], 2]}\n', r"e\.jsonl, line 1: label \[\[1\], 2\] has lists of diff"),
    ("a.json", "{", r"a\.json: not valid JSON, which COCO's annotations are: Expecting"),
    ("b.json", "[]", r"b\.json: is not a list of objects in COCO's form"),
    ("c.json", '{"images": [{"id": 1}], "categories": []}', r"c\.json: .*file_name"),
    ("d.json", '{"images": [{"id": 1, "file_name": "zero.pgm"}], "categories": [{"id": 1, "name": "zero"}], '
     '"annotations": [{"image_id": 1, "category_id": 1, "bbox": [1, 2, 3]}]}', r'd\.json: "annotations"\[0\]'),
    ("e.json", '{"images": [{"id": 1, "file_name": "zero.pgm"}], "categories": [], "annotations": [{"image_id": 1, '
     '"category_id": 1, "bbox": [1, 2, 3, 4]}]}', r'e\.json: "annotations"\[0\].*category 1'),
    ("f.json", '{"images": [{"id": 1, "file_name": "zero.pgm"}], "categories": [{"id": 1, "name": "zero"}], '
     '"annotations": [{"image_id": 7, "category_id": 1, "bbox": [1, 2, 3, 4]}]}', r'"annotations"\[0\]: KeyError\(7\)'),
    ("g.json", '{"images": [{"id": 1, "file_name": "gone.pgm"}], "categories": [], "annotations": []}',
     r"g\.json: gone\.pgm is not in .*--images"),
    ("h.json", '{"images": [{"id": 1, "file_name": "zero.pgm"}], "categories": [{"id": 1, "name": "zero"}], '
     '"annotations": []}', r"COCO's objects, and output .* leave the task open"),
    ("a.npz", b"PK\3\4 no archive", r"a\.npz"), ("b.npy", b"no array", r"b\.npy"),
    ("x.txt", "", "unknown kind of data")])
def test_what_is_wrong_with_a_file_is_said(tmp_path, name, text, words):
    shutil.copy(models.sample("zero"), tmp_path / "zero.pgm")
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ComparisonError, match=words):
        accuracy(tmp_path / name)


@pytest.mark.parametrize(("name", "text"), [("a.csv", "path,label\r\nzero.pgm,zero\r\n"),
                                            ("a.jsonl", '{"file": "zero.pgm", "label": 0}\n')])
def test_lists_may_begin_with_a_byte_order_mark(tmp_path, name, text):
    """Excel and Notepad write one."""
    shutil.copy(models.sample("zero"), tmp_path / "zero.pgm")
    (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert accuracy(tmp_path / name)


def test_what_is_wrong_with_arrays_is_said(tmp_path):
    path = tmp_path / "a.npz"
    image = np.zeros((4, 8, 8, 1))
    for arrays, words in (({"image": image, "labels": np.zeros(3, int)}, r"have \[3, 4\] samples"),
                          ({"image": image}, "has no labels for classification"),
                          ({"a": image, "b": image}, "has a, b; the model takes image"),
                          ({"image": image, "labels": np.array(["x", "one", "two", "two"])}, "sample 0: .* class 'x'"),
                          ({"image": image[:0], "labels": np.zeros(0, int)}, "has no samples")):
        np.savez(path, **arrays)
        with pytest.raises(ComparisonError, match=words):
            accuracy(path)
    np.savez(path, image=image, labels=np.array(["one", "two", "three", "four"]))
    assert accuracy(path).samples == 4
    with pytest.raises(ComparisonError, match="no task is called 'sorting'"):
        accuracy(path, task="sorting")
    with pytest.raises(ComparisonError, match="detection needs COCO's annotations"):
        accuracy(path, task="detection")


def written(function, *arrays, **named):
    stream = io.BytesIO()
    function(stream, *arrays, **named)
    return stream.getvalue()


GOOD = {
    "a.csv": b"path,label\nzero.pgm,zero\nzero.pgm,seven\n",
    "b.csv": ("image,label\n" + "0.5 " * 64 + ",3\n").encode(),
    "a.jsonl": b'{"file": "zero.pgm", "label": 0}\n{"file": "zero.pgm", "label": "1"}\n',
    "b.jsonl": json.dumps({"image": [[[0.5]] * 8] * 8, "label": [3, 4]}).encode(),
    "a.json": b'{"images": [{"id": 1, "file_name": "zero.pgm", "height": 8, "width": 8}], "categories": [{"id": 1, '
              b'"name": "zero"}], "annotations": [{"image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4], "area": 5}]}',
    "a.npz": written(np.savez, image=np.zeros((2, 8, 8, 1)), labels=np.array([1, 2])),
    "a.npy": written(np.save, np.zeros((2, 8, 8, 1)))}
PIECES = (b"null", b"[]", b"{}", b"-1", b"1e400", b"NaN", b'"x"', b'""', b",", b"\n", b"\xff", b"\0", b"label", b"1 2",
          b"99999999999999999999", b'"', b"[[1],2]")


@pytest.mark.parametrize("task", ["classification", "regression", "segmentation", "embedding"])
def test_boxes_are_labels_of_detection_alone(tmp_path, task):
    shutil.copy(models.sample("zero"), tmp_path / "zero.pgm")
    (tmp_path / "a.json").write_bytes(GOOD["a.json"])
    with pytest.raises(ComparisonError, match=r"label has boxes, which --task detection takes"):
        accuracy(tmp_path / "a.json", models.path("digit-detector"), task=task)


@settings(max_examples=150, deadline=None)
@given(name=st.sampled_from(sorted(GOOD)), cut=st.lists(st.tuples(
    st.floats(0, 1), st.integers(0, 9), st.sampled_from((b"", *PIECES))), min_size=1, max_size=3),
    task=st.sampled_from([None, None, "classification", "regression", "segmentation"]), paired=st.booleans())
def test_damaged_files_raise_no_other_error(tmp_path_factory, name, cut, task, paired):
    folder = tmp_path_factory.mktemp("damaged", numbered=True)
    shutil.copy(models.sample("zero"), folder / "zero.pgm")
    data = GOOD[name]
    for place, length, piece in cut:
        at = int(place * len(data))
        data = data[:at] + piece + data[at + length:]
    (folder / name).write_bytes(data)
    model = models.path("digit-detector" if name == "a.json" else "digits")
    with contextlib.suppress(PyliteError, OSError):
        accuracy(folder / name, model, task=task, reference=model if paired else None)
    shutil.rmtree(folder)


def test_what_is_not_installed_is_named(tmp_path, monkeypatch):
    """Counts go without; the extra is in the error or in a note."""
    for module in ("PIL", "sklearn", "pycocotools", "pycocotools.coco"):
        monkeypatch.setitem(sys.modules, module, None)
    found = accuracy(digits(tmp_path / "data", "{0}/a.pgm"))
    assert found.metrics["top1"].model == 1 and "macro_f1" not in found.metrics
    assert found.notes == ["macro_f1 and matthews are measured by scikit-learn: pip install 'pylite-runtime[validate]'"]
    with pytest.raises(ComparisonError, match=r"pycocotools: pip install 'pylite-runtime\[validate\]'"):
        accuracy(scenes(tmp_path / "coco", np.random.default_rng(0)), models.path("digit-detector"))
    (tmp_path / "data" / "one" / "b.png").write_bytes(b"\x89PNG")
    with pytest.raises(ComparisonError, match=r"b\.png: .*pip install 'pylite-runtime\[image\]'"):
        accuracy(tmp_path / "data")


@pytest.mark.parametrize("name", ["a.npy", "a.npz"])
def test_a_file_of_arrays_that_is_truncated_while_it_is_read_is_an_error(tmp_path, monkeypatch, name):
    monkeypatch.setattr("pylite.validation.arrays.LARGE", 0)
    images, path = np.random.default_rng(1).random((1000, 8, 8, 1)), tmp_path / name
    if name == "a.npy":
        np.save(path, images)
    else:
        np.savez(path, image=images)
    digits = models.path("digits")
    kept = array_files.load(str(path))
    np.testing.assert_array_equal(kept[999] if name == "a.npy" else kept["image"][999], images[999])

    def truncate(done, total):
        os.truncate(path, 100000)
    with pytest.raises(ComparisonError, match=rf"{name}: ends before sample \d+; it was truncated while it was read"):
        validation.compare(digits, digits, path, progress=truncate)


def test_threads_may_read_rows_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr("pylite.validation.arrays.LARGE", 0)
    array, path = np.arange(64.0).repeat(4096).reshape(64, 4096), tmp_path / "a.npy"
    np.save(path, array)
    rows = array_files.load(str(path))
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda i: (i % 64, rows[i % 64]), range(2000)))
    assert all((row == i).all() for i, row in found)


@pytest.mark.parametrize("name", ["a.npy", "a.npz"])
def test_rows_of_a_file_are_those_of_its_array(tmp_path, monkeypatch, name):
    path = str(tmp_path / name)
    save = np.save if name == "a.npy" else np.savez
    for array in (np.arange(24).reshape(4, 3, 2), np.arange(5, dtype=">f4"), np.array(["a", "bcd"]), np.float64(3),
                  np.zeros((0, 3)), np.zeros((3, 0)), np.asfortranarray(np.arange(12.0).reshape(3, 4))):
        save(path, array)
        found = []
        for large in (0, 1 << 30):
            monkeypatch.setattr("pylite.validation.arrays.LARGE", large)
            found += [array_files.load(path), array_files.whole(path)]
        for one in (f if name == "a.npy" else f["arr_0"] for f in found):
            assert (one.shape, one.dtype, one.ndim) == (array.shape, array.dtype, array.ndim)
            rows = [one[i] for i in range(len(one))] if one.ndim else one
            np.testing.assert_array_equal(np.reshape(rows, array.shape), array)


def test_rows_beyond_the_end_of_a_file_are_refused_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr("pylite.validation.arrays.LARGE", 0)
    np.save(tmp_path / "a.npy", np.zeros((1000, 8, 8, 1)))
    os.truncate(tmp_path / "a.npy", 5000)
    with pytest.raises(ComparisonError, match=r"a\.npy: an array ends at byte 512128 of 5000"):
        array_files.load(str(tmp_path / "a.npy"))
