"""The Raspberry Pi examples run without camera or microphone, and print the expected results."""
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pylite.media import images, models

EXAMPLES = Path(__file__).resolve().parents[1] / "examples" / "raspberry_pi"
SCENE = ["four", "one", "three", "two"]         # the digits in samples/scene.pgm, sorted


def run(script, *args, cwd, code=0):
    """The lines that an example prints; its error text when `code` is not 0."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"}    # for imports of their folder
    done = subprocess.run([sys.executable, str(EXAMPLES / script), *map(str, args)], cwd=cwd, env=environment,
                          text=True, timeout=120, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr if code else done.stdout.splitlines()


def test_classify_reads_its_sample(tmp_path):
    lines = run("classify_image.py", cwd=tmp_path)
    score, label = lines[0].split(maxsplit=1)
    assert label == "seven" and float(score.rstrip("%")) > 80
    assert len(lines) == 4 and lines[3].endswith("ms)")


@pytest.mark.parametrize("name", models.samples())
def test_every_sample_is_classified(tmp_path, name):
    assert run("classify_image.py", "--image", models.sample(name), "--top", 1, cwd=tmp_path)[0].split()[1] == name


@pytest.mark.parametrize("name", ["zero", "three", "seven"])
def test_classify_crops_a_digit_on_paper(tmp_path, name):
    """A dark digit on unevenly lit paper, away from the centre."""
    digit = images.resize(images.read(models.sample(name)), 160, 160)[:, :, 0] / 255
    light = np.linspace(230, 170, 320)[None]
    paper = np.repeat(light, 240, 0)
    paper[40:200, 30:190] *= 1 - 0.8 * np.clip(3 * digit - 1, 0, 1)
    images.write(tmp_path / "paper.pgm", paper.round().astype(np.uint8)[:, :, None])
    lines = run("classify_image.py", "--image", "paper.pgm", "--paper", cwd=tmp_path)
    assert lines[0].split()[1] == name


def test_detect_finds_the_digits_and_draws_boxes(tmp_path):
    lines = run("detect_objects.py", "--output", "out.ppm", cwd=tmp_path)
    labels = [line.split()[1] for line in lines[:-2]]
    assert sorted(labels) == SCENE
    assert lines[-2].startswith(f"{len(SCENE)} found") and lines[-1] == "wrote out.ppm"
    drawn = images.read(tmp_path / "out.ppm")
    assert drawn.shape == (480, 480, 3) and (drawn.max(2) != drawn.min(2)).any()      # the boxes are coloured


def test_detect_inverts_dark_digits(tmp_path):
    images.write(tmp_path / "paper.pgm", 255 - images.read(EXAMPLES / "samples" / "scene.pgm"))
    lines = run("detect_objects.py", "--image", "paper.pgm", "--invert", cwd=tmp_path)
    assert sorted(line.split()[1] for line in lines[:-2]) == SCENE


def test_spot_detects_every_sound(tmp_path):
    lines = run("spot_keywords.py", cwd=tmp_path)
    heard = [line.split("%")[1].strip() for line in lines[:-1]]
    assert heard == ["rising whistle", "double clap", "low tone", "falling whistle", "high tone"]
    assert lines[-1] == "5 heard"


def test_spot_detects_nothing_in_noise(tmp_path):
    import wave
    with wave.open(str(tmp_path / "noise.wav"), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(44100)
        file.writeframes((np.random.default_rng(0).standard_normal(2 * 44100 * 4) * 1000).astype("<i2").tobytes())
    assert run("spot_keywords.py", "--wav", "noise.wav", cwd=tmp_path) == ["0 heard"]


@pytest.mark.skipif(os.path.exists("/dev/video0"), reason="this machine has a camera")
@pytest.mark.parametrize("script", ["classify_image.py", "detect_objects.py"])
def test_a_missing_camera_package_is_named(tmp_path, script):
    assert "picamera2" in run(script, "--camera", cwd=tmp_path, code=2)


@pytest.mark.parametrize(("script", "args", "says"), [
    ("classify_image.py", ["--image", "nowhere.pgm"], "nowhere.pgm"),
    ("classify_image.py", ["--model", "nowhere.tflite"], "nowhere.tflite"),
    ("detect_objects.py", ["--model", "digits"], "TFLite_Detection_PostProcess"),
    ("spot_keywords.py", ["--wav", "nowhere.wav"], "nowhere.wav"),
    ("spot_keywords.py", ["--model", "digits"], "features of logmel.py"),
])
def test_errors_name_their_cause(tmp_path, script, args, says):
    assert says in run(script, *args, cwd=tmp_path, code=2)
