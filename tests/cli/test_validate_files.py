"""`pylite validate` where files cannot be written, or a run is interrupted: a line names the file, nothing is lost."""
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from pylite import cli, validation
from pylite.media import images, models
from pylite.schema.builder import ModelBuilder
from pylite.validation import measuring, workers
from pylite.validation.files import replacing
from pylite.validation.partial import Partial
from tests.tools import resources

FULL = "/dev/full"
full_disk = pytest.mark.skipif(not os.path.exists(FULL), reason="no /dev/full")


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pixels = np.stack([images.read(models.sample(name)) for name in models.samples()])
    np.savez("data.npz", image=pixels[..., None] / np.float32(255))
    return "data.npz"


def validate(capsys, *arguments, code=0):
    assert cli.main(["validate", *map(str, arguments)]) == code
    return capsys.readouterr()


PAIR = "digits", "--reference", "digits", "--data", "data.npz"
FILES = [(*PAIR, "--html"), (*PAIR, "--explorer"), (*PAIR, "--junit"), (*PAIR, "--save"),
         *((*PAIR, "--sensitivity", "--target", "1dB", option) for option in ("--mixed", "--recipe", "--denylist")),
         ("digits", "--data", "data.npz", "--record"), ("digits", "--data", "data.npz", "--record-values")]


@pytest.mark.parametrize("arguments", FILES, ids=lambda found: found[-1])
def test_a_folder_that_is_not_there_is_named_before_anything_is_measured(data, capsys, arguments):
    resources.tool("uplot")
    os.remove(data)
    for path, words in (("gone/file", "No such file or directory; there is no folder gone"), (".", "Is a directory")):
        assert f"pylite validate: {path}: {words}\n" == validate(capsys, *arguments, path, code=2).err


@full_disk
@pytest.mark.parametrize("option", ["--html", "--explorer", "--junit"])
def test_a_full_disk_is_named_and_the_report_is_printed_still(data, capsys, option):
    resources.tool("uplot")
    said = validate(capsys, *PAIR, option, FULL, "--json", code=2)
    assert said.err == f"pylite validate: {FULL}: No space left on device\n"
    assert json.loads(said.out)["samples"] == 10


@full_disk
def test_recordings_on_a_full_disk_are_named(data, capsys):
    assert validate(capsys, "digits", "--data", data, "--record", FULL, code=2).err == (
        f"pylite validate: {FULL}: No space left on device\n")


@full_disk
def test_where_the_report_cannot_be_printed_the_files_are_written_still(data):
    with open(FULL, "w") as out:
        done = subprocess.run([sys.executable, "-m", "pylite", "validate", *PAIR, "--junit", "j.xml", "--explorer",
                               "e.json"], stdout=out, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        2, "wrote e.json\nwrote j.xml\npylite validate: No space left on device\n")
    assert "</testsuites>" in Path("j.xml").read_text() and json.loads(Path("e.json").read_text())["main"]


def test_a_file_that_cannot_be_completed_stays_as_it_was(tmp_path):
    def half(error):
        with replacing(target) as file:
            file.write(b"half")
            raise error
    target = tmp_path / "report"
    target.write_text("earlier")
    for error in (OSError(28, "No space left on device"), KeyboardInterrupt()):
        with pytest.raises(type(error)) as caught:
            half(error)
        assert getattr(caught.value, "filename", str(target)) == str(target)
    assert target.read_text() == "earlier" and os.listdir(tmp_path) == ["report"]
    with replacing(target) as file:
        file.write(b"later")
    assert target.read_text() == "later" and os.listdir(tmp_path) == ["report"]


def test_of_two_that_write_a_file_at_a_time_the_last_one_stays_whole(tmp_path):
    target = tmp_path / "report"
    with replacing(target) as first:
        first.write(b"first")
        with replacing(target) as second:
            second.write(b"2")
        assert target.read_text() == "2"
        first.write(b" again")
    assert target.read_text() == "first again" and os.listdir(tmp_path) == ["report"]


def test_two_runs_on_one_file_of_sums_leave_those_of_one(data):
    command = [sys.executable, "-m", "pylite", "validate", *PAIR, "--save", "sums.npz", "--json"]
    runs = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
    said = [run.communicate() for run in runs]
    assert [run.returncode for run in runs] == [0, 0], said
    assert said[0][0] == said[1][0] and Partial.load("sums.npz").done and not list(Path().glob("*.new"))


def test_an_interrupted_run_keeps_what_was_measured_and_says_where(data, capsys, monkeypatch):
    def interrupt(_, done, total, note=""):
        if done > 4:
            raise KeyboardInterrupt
    monkeypatch.setattr("pylite.cli._terminal.Progress.show", interrupt)
    said = validate(capsys, *PAIR, "--save", "sums.npz", code=130)
    assert "interrupted; the sums so far are in sums.npz" in said.err and not said.out
    assert Partial.load("sums.npz").done == set(range(5))
    assert "pass --save FILE to keep the sums next time" in validate(capsys, *PAIR, code=130).err


def test_an_interrupt_between_two_sums_keeps_none_of_them(data, monkeypatch):
    whole = validation.compare(models.path("digits"), models.path("digits"), data).to_json()
    merge = Partial.merge

    def interrupted(self, other):
        if len(self.done) == 6:
            next(iter(self.sums.values())).merge(next(iter(other.sums.values())))
            raise KeyboardInterrupt
        merge(self, other)
    monkeypatch.setattr(measuring, "SAVE_SECONDS", 0)
    monkeypatch.setattr(Partial, "merge", interrupted)
    with pytest.raises(KeyboardInterrupt):
        validation.compare(models.path("digits"), models.path("digits"), data, save="sums.npz")
    assert Partial.load("sums.npz").done == set(range(6))
    monkeypatch.setattr(Partial, "merge", merge)
    assert validation.compare(models.path("digits"), models.path("digits"), data, save="sums.npz").to_json() == whole


STARTED = ("from pylite.validation import workers\n"
           "def started(pipes):\n"
           "    time.sleep(0.1)     # Python runs, and imports modules\n"
           "    print(0, flush=True)\n"
           "    try:\n"
           "        time.sleep(60)  # the signal comes\n"
           "    finally:\n"
           "        time.sleep(1)   # the workers have time to say something\n"
           "workers.wait = started\n")
WORKING = ("from pylite.cli import _terminal\n"
           "def show(self, done, total, note=''):\n"
           "    print(done, flush=True)\n"
           "    time.sleep(60)      # so that the signal comes before the end, however fast the machine\n"
           "_terminal.Progress.show = show\n")


@pytest.mark.parametrize("moment", [STARTED, WORKING], ids=["started", "working"])
def test_ctrl_c_ends_workers_too_with_one_line(data, moment):
    pixels = np.random.default_rng(0).random((100_000, 8, 8, 1), np.float32)
    np.savez(data, image=pixels)
    program = ("import signal, sys, time\n"
               "from pylite import cli\n"
               "signal.signal(signal.SIGINT, signal.default_int_handler)    # ignored in shells' background jobs\n"
               f"{moment}"
               "if __name__ == '__main__': sys.exit(cli.main(sys.argv[1:]))")
    with open("program.py", "w") as file:
        file.write(program)
    running = subprocess.Popen([sys.executable, "program.py", "validate", *PAIR, "--workers", "2", "--save",
                                "sums.npz"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               start_new_session=True)
    done = int(running.stdout.readline())
    assert done > 0 or moment is STARTED
    os.killpg(running.pid, signal.SIGINT)
    _, said = running.communicate(timeout=60)
    kept = ("the sums so far are in sums.npz; the same command continues from them" if done else
            "no sums were ready to be saved")
    assert (running.returncode, said.splitlines()) == (130, [f"pylite validate: interrupted; {kept}"])
    assert not done or len(Partial.load("sums.npz").done) >= workers.LARGEST_CHUNK
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            os.killpg(running.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    pytest.fail("workers are left")


def test_models_that_are_not_quantized_are_noted(data, capsys):
    m = ModelBuilder()
    x, y = (m.tensor(name, (1, 8, 8, 1), "float32") for name in ("image", "y"))
    m.operator("RELU", [x], [y])
    m.inputs([x])
    m.outputs([y])
    with open("float.tflite", "wb") as file:
        file.write(m.build())
    q = ModelBuilder()
    x, y = (q.tensor(name, (1, 8, 8, 1), "int8", scale=1 / 255, zero_point=-128) for name in ("image", "y"))
    q.operator("RELU", [x], [y])
    q.inputs([x])
    q.outputs([y])
    with open("int8.tflite", "wb") as file:
        file.write(q.build())
    same = validate(capsys, "float.tflite", "--reference", "float.tflite", "--data", data).out
    assert "two models of real" in same
    assert cli.main(["validate", "float.tflite", "--reference", "int8.tflite", "--data", str(data)]) == 2
    assert "pylite validate int8.tflite --reference float.tflite" in capsys.readouterr().err
    swapped = validation.compare("float.tflite", "int8.tflite", data)
    assert swapped.verdict["level"] == "poor" and "are they swapped?" in swapped.verdict["text"]
    said = validate(capsys, "int8.tflite", "--reference", "float.tflite", "--data", data).out
    assert "note:" not in said
    folder = models.sample("one").parent
    assert "note: pixels became -1 to 1" in validate(capsys, "float.tflite", "--reference", "float.tflite", "--data",
                                                     folder).out


@pytest.mark.parametrize(("array", "words"), [
    (np.zeros((2, 8, 8, 1), complex), "takes real numbers, not complex128"),
    (np.array([{}, {}]), "holds Python objects, not numbers"),
    (np.array(["a", "b"]), "takes real numbers, not <U1")])
def test_arrays_of_no_numbers_are_refused(data, capsys, array, words):
    np.savez(data, array)
    said = validate(capsys, *PAIR, code=2).err
    assert words in said and len(said.splitlines()) == 1


def test_wrong_options_are_told_first(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["validate", "digits", "--data", "x", "--samples", "0"])
    assert ended.value.code == 2
    assert capsys.readouterr().err.splitlines() == [
        "pylite validate: --samples: '0' is not a whole number of at least 1",
        "`pylite validate --help` shows how to use it"]


def test_one_sample_is_no_plural(data, capsys):
    assert "against digits.tflite: 1 sample, 10 tensors" in validate(capsys, *PAIR, "--samples", 1).out
