"""`pylite run --camera` and `--microphone`, on stand-ins for the libraries that read hardware."""
import csv
import json
import sys

import pytest

from tests.cli.running import run

PICAMERA = """
import numpy as np

class Picamera2:
    def __init__(self, number=0):
        if number > 1:
            raise IndexError(number)
        self.level = 0
    def __enter__(self): return self
    def __exit__(self, *_): pass
    def create_preview_configuration(self, main, controls): return main
    def configure(self, configuration): assert configuration["format"] == "BGR888"
    def start(self): pass
    def capture_array(self):
        self.level += 50
        return np.full((480, 640, 3), self.level, np.uint8)
"""
OPENCV = """
import numpy as np
CAP_PROP_FRAME_WIDTH, CAP_PROP_FRAME_HEIGHT, CAP_PROP_FPS = 3, 4, 5

class VideoCapture:
    def __init__(self, number): self.left = 0 if number else 2
    def set(self, key, value): return True
    def release(self): pass
    def read(self):
        self.left -= 1
        if self.left < 0:
            return False, None
        return True, np.tile(np.array([10, 20, 30], np.uint8), (480, 640, 1))       # blue first
"""
SOUNDDEVICE = """
import numpy as np

class PortAudioError(Exception): pass

class InputStream:
    def __init__(self, rate, channels, dtype, blocksize):
        assert (channels, dtype) == (1, "float32")
        self.heard = 0
    def __enter__(self): return self
    def __exit__(self, *_): pass
    def read(self, size):
        self.heard += 1
        if self.heard > 3:
            raise PortAudioError("unplugged")
        return np.full((size, 1), self.heard / 8, np.float32), False
"""


@pytest.fixture
def stand_ins(tmp_path, monkeypatch):
    """A function that puts modules in place of the libraries that read hardware; those it does not get are missing."""
    monkeypatch.syspath_prepend(str(tmp_path / "libraries"))
    (tmp_path / "libraries").mkdir()

    def put(**sources):
        for name in ("picamera2", "cv2", "sounddevice"):
            monkeypatch.delitem(sys.modules, name, raising=False)
            (tmp_path / "libraries" / f"{name}.py").write_text(sources.get(name, "raise ImportError"))
    yield put
    for name in ("picamera2", "cv2", "sounddevice"):
        sys.modules.pop(name, None)


def test_pictures_of_the_camera_are_run_as_they_come(model, stand_ins, capsys):
    stand_ins(picamera2=PICAMERA)
    lines = run(capsys, model((1, 1, 1, 3), "uint8", 1.0, 0), "--camera", "--frames", 3, "--jsonl").out.splitlines()
    found = [json.loads(line) for line in lines]
    assert [one["file"] for one in found] == ["camera 1", "camera 2", "camera 3"]
    assert [one["outputs"][0]["values"] for one in found] == [[level] * 3 for level in (50, 100, 150)]
    assert "there is no camera 7" in run(capsys, model((1, 1, 1, 3)), "--camera", 7, code=2).err


def test_opencv_reads_the_camera_where_picamera2_is_missing(model, stand_ins, capsys):
    stand_ins(cv2=OPENCV)
    done = run(capsys, model((1, 1, 1, 3), "uint8", 1.0, 0), "--camera", "--csv", code=2)
    rows = list(csv.DictReader(done.out.splitlines()))
    assert [(row["file"], row["values"]) for row in rows] == [("camera 1", "30.0 20.0 10.0"),
                                                              ("camera 2", "30.0 20.0 10.0")]
    assert "camera 0 gives no picture" in done.err      # after two


def test_windows_of_the_microphone_are_run_as_they_come(model, stand_ins, capsys):
    stand_ins(sounddevice=SOUNDDEVICE)
    path = model((1, 4))
    done = run(capsys, path, "--microphone", "--rate", 16000, "--frames", 2)
    assert done.out.splitlines() == ["microphone 1: y 0.125 0.125 0.125 0.125", "microphone 2: y 0.25 0.25 0.25 0.25"]
    assert "--rate 16000" in run(capsys, path, "--microphone", code=2).err
    assert "unplugged" in run(capsys, path, "--microphone", "--rate", 16000, code=2).err
    assert "does not take sound" in run(capsys, model((1, 2, 2)), "--microphone", "--rate", 8000, code=2).err


def test_a_microphone_without_sounddevice_is_read_by_arecord(model, stand_ins, tmp_path, monkeypatch, capsys):
    stand_ins()
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    error = run(capsys, model((1, 4)), "--microphone", "--rate", 16000, code=2).err
    assert "sounddevice" in error and "arecord" in error
    (programs / "arecord").write_text(f"#!{sys.executable}\nimport sys\n"
                                      "sys.stdout.buffer.write(b'\\0\\x40' * 4 + b'\\0\\x20' * 4)\n")
    (programs / "arecord").chmod(0o755)
    done = run(capsys, model((1, 4)), "--microphone", "--rate", 16000, code=2)
    assert done.out.splitlines() == ["microphone 1: y 0.5 0.5 0.5 0.5", "microphone 2: y 0.25 0.25 0.25 0.25"]
    assert "is a microphone connected?" in done.err


def test_a_camera_without_a_library_is_an_error_that_names_both(model, stand_ins, capsys):
    stand_ins()
    error = run(capsys, model((1, 1, 1, 3)), "--camera", code=2).err
    assert "picamera2" in error and "OpenCV" in error


def test_options_of_hardware_that_contradict_each_other(model, folder, capsys):
    path = model((1, 3))
    assert "exclude each other" in run(capsys, path, folder, "--camera", code=2).err
    assert "--frames is for" in run(capsys, path, folder, "--frames", 2, code=2).err
    assert "--jsonl or --csv" in run(capsys, path, "--microphone", "--json", code=2).err
