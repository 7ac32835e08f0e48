"""`pylite run` with damaged pictures, sound, arrays and labels: one line that names the file, no other exception."""
import io
import os
import re
import struct
import zipfile

import numpy as np
import pytest

from pylite import cli
from pylite.errors import FileFormatError
from pylite.media import audio, images, labels
from tests.tasks.test_tasks_metadata import scores_model
from tests.tools.model_metadata import with_metadata


def wav(width=16, channels=1, rate=16000, data=bytes(200)):
    head = struct.pack("<IHHIIHH", 16, 1, channels, rate, 0, channels * width // 8, width)
    body = b"WAVEfmt " + head + b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


def bmp(width=2, height=2, bits=24, start=54):
    return (b"BM" + struct.pack("<IHHI", 0, 0, 0, start)
            + struct.pack("<IiiHHIIiiII", 40, width, height, 1, bits, 0, 0, 0, 0, 0, 0) + b"\1" * 64)


@pytest.mark.parametrize(("name", "contents", "words"), [
    ("a.wav", wav(width=40), "40 bits for a sample"),
    ("b.wav", wav(rate=0), "0 samples a second"),
    ("c.wav", wav()[:30], "c.wav: its head is damaged"),
    ("a.bmp", bmp(width=0), "0 x 2 pixels"),
    ("b.bmp", bmp(height=0), "2 x 0 pixels"),
    ("c.bmp", bmp(width=2**31 - 1, height=2**31 - 1), "take 13835058048839712768 bytes, and the file has 118"),
    ("d.bmp", bmp(bits=8, start=50), "its pixels begin before its palette"),
    ("a.pgm", b"P5 0 5 255\n", "0 x 5 pixels"),
    ("b.pgm", b"P2 99999999999 0 255\n", "99999999999 x 0 pixels"),     # to resize it took years
    ("c.pgm", b"P5 99999999999 99999999999 255\nx", "and the file has"),
    ("d.pgm", b"P5 2 2 0\nabcd", "its largest value is 0"),
    ("e.pgm", b"P5 2 2 65536\nabcdabcd", "its largest value is 65536"),
    ("f.pgm", b"P2 2 2 255\n1 2 3 300", "its values are 1 to 300; expected 0 to 255"),
    ("g.pgm", b"P2 2 2 255\n1 2 3 -4", "its values are -4 to 3"),
    ("h.pgm", b"P5 2 2 99\nabcd", "its values are 97 to 100; expected 0 to 99"),
    ("i.pgm", b"P2 2 2 255\n1 2 3 99999999999999999999", "too large"),
    ("j.pgm", b"P5", "its header has no number at byte 2"),
])
def test_damaged_pictures_and_sound(tmp_path, name, contents, words):
    path = tmp_path / name
    path.write_bytes(contents)
    with pytest.raises(FileFormatError, match=rf"{name}: .*{words}" if name not in words else words):
        (audio if name.endswith("wav") else images).read(path)


def test_a_picture_that_pillow_refuses_by_its_size(tmp_path):
    pytest.importorskip("PIL", reason="Pillow is not installed")
    path = tmp_path / "a.gif"
    path.write_bytes(b"GIF89a" + struct.pack("<HH", 65535, 65535) + b"\0\0\0,\0\0\0\0" + b"\xff" * 4 + b"\0\2\0;")
    with pytest.raises(FileFormatError, match=r"a\.gif: .*bomb"):
        images.read(path)


def test_sound_that_ends_within_a_sample_ends_before_it(tmp_path):
    path = tmp_path / "a.wav"
    path.write_bytes(wav(channels=2, data=bytes(3) + b"\x40" + b"\x7f" * 9)[:-1])
    assert audio.read(path)[0].tolist() == [0.25, *[pytest.approx(0x7f7f / 2**15)] * 2]


def npy(shape="(1, 64)", dtype="'<f4'", data=b""):
    header = f"{{'descr': {dtype}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + data


GOOD = npy(data=bytes(256))


def npz(damage=(), method=zipfile.ZIP_STORED, name="x.npy", contents=GOOD):
    """An archive of one file; damage: (position in its entry of the directory, a byte)."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        archive.writestr(name, contents)
    found = bytearray(stream.getvalue())
    for place, byte in damage:
        found[found.rfind(b"PK\1\2") + place] = byte
    return bytes(found)


@pytest.mark.parametrize(("name", "contents", "words"), [
    ("a.npy", npy(data=bytes(8)), "a.npy: "),
    ("b.npy", npy("(1, 99999999999)"), "b.npy: "),
    ("c.npy", npy("(-1, 99999999999999999999999)"), "c.npy: "),
    ("d.npy", npy(dtype="'O'"), "d.npy: holds Python objects"),
    ("e.npy", npy("(" * 3000), "e.npy: "),
    ("f.npy", b"", "f.npy: is empty .0 bytes."),
    ("e.png", b"", "e.png: is empty .0 bytes."),
    ("e.wav", b"", "e.wav: is empty .0 bytes."),
    ("a.npz", npz(((8, 1),)), "a.npz: .* encrypted"),
    ("b.npz", npz(((10, 99),)), "b.npz: .*compression method"),
    ("c.npz", npz(((16, 0), (17, 0))), "c.npz: Bad CRC"),
    ("d.npz", npz(((45, 0x7f),)), "d.npz: "),
    ("e.npz", npz(((8, 0x20),)), "e.npz: .*patched"),
    ("f.npz", npz()[:-30], "f.npz: "),
    ("g.npz", npz(name="readme.txt", contents=b"hello"), "g.npz: holds readme.txt, which is not an .npy file"),
    ("h.npz", b"PK\5\6" + bytes(18), "h.npz: has no arrays\n"),
    ("i.npz", npz(contents=npy(dtype="'O'", data=b"cos\nsystem\n")), "i.npz: holds Python objects"),
])
def test_damaged_arrays_are_one_line(tmp_path, capsys, name, contents, words):
    path = tmp_path / name
    path.write_bytes(contents)
    assert cli.main(["run", "digits", "--input", str(path)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert error.startswith(f"pylite run: {path}: ")
    assert re.search(words, error)


def test_numbers_of_classes_that_cannot_be(tmp_path):
    assert labels.parse("9" * 5000 + " cat\n") == {0: "9" * 5000 + " cat"}
    assert labels.parse("4000000000 cat\n") == {0: "4000000000 cat"}
    assert labels.parse("999999 cat\n") == {999999: "cat"}


@pytest.mark.parametrize("damage", [((8, 1),), ((8, 0x20),), ((10, 99),), ((10, 12),), ((16, 0), (17, 0)),
                                    ((23, 0x7f), (27, 0x7f)), ((45, 0x7f),)])
def test_a_model_whose_labels_are_damaged_runs_without_them(tmp_path, capsys, damage):
    """Its archive is encrypted, patched, of another method, of another length, elsewhere."""
    model = with_metadata(scores_model()) + npz(damage, name="labels.txt", contents=b"cat\ndog\nbird\nfish\n")
    (tmp_path / "m.tflite").write_bytes(model)
    np.save(tmp_path / "x.npy", np.zeros((1, 1, 1, 4), np.float32))
    assert cli.main(["run", str(tmp_path / "m.tflite"), "--input", str(tmp_path / "x.npy")]) == 0
    assert "cat" not in capsys.readouterr().out


@pytest.mark.parametrize("name", ["x.npy", "x.npz"])
@pytest.mark.parametrize("contents", [b"hi\n", bytes(1000), b"\x93NUMP"])
def test_another_kind_of_file_than_its_name_says(tmp_path, capsys, name, contents):
    (tmp_path / name).write_bytes(contents)
    assert cli.main(["run", "digits", "-i", str(tmp_path / name)]) == 2
    assert f"{name}: is not an {name[1:]} file: it begins with {contents[:6]!r}; " in capsys.readouterr().err


@pytest.mark.parametrize("size", [20, 90, 130])
def test_an_array_that_is_cut_off(tmp_path, capsys, size):
    np.save(tmp_path / "x.npy", np.zeros((1, 8, 8, 1), np.float32))
    (tmp_path / "x.npy").write_bytes((tmp_path / "x.npy").read_bytes()[:size])
    assert cli.main(["run", "digits", "-i", str(tmp_path / "x.npy")]) == 2
    assert "x.npy: the file is cut off: " in capsys.readouterr().err


@pytest.mark.skipif(os.name == "nt", reason="Windows keeps the working folder")
@pytest.mark.parametrize("command", ["inspect gone.tflite", "run digits -i gone.png", "run digits gone.png",
                                     "bench digits --against gone.json"])
def test_a_working_folder_that_is_gone(tmp_path, monkeypatch, capsys, command):
    """Words an error, and makes none of its own."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "here").rmdir()
    assert cli.main(command.split()) in (1, 2)
    assert "No such file or directory; the working folder has been removed\n" in capsys.readouterr().err
