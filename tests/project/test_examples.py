"""The Raspberry Pi examples run without camera or microphone, and print the expected results."""
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pylite.media import images, models
from tests.tools import programs

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "raspberry_pi"
SCENE = ["four", "one", "three", "two"]         # the digits in samples/scene.pgm, sorted


def environment(**more):
    return {k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"} | more    # for imports of their folder


def run(script, *args, cwd, code=0, **more):
    """The lines that an example prints; its error text when `code` is not 0.  more: variables of its environment."""
    done = programs.run([sys.executable, str(EXAMPLES / script), *map(str, args)], cwd=cwd, stdin=subprocess.DEVNULL,
                        env=environment(PYTHONFAULTHANDLER="1", **more))
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


@pytest.mark.parametrize("script", ["classify_image.py", "detect_objects.py", "camera_loop.py"])
def test_a_missing_camera_package_is_named(tmp_path, script):
    for name in ("picamera2", "cv2"):
        (tmp_path / f"{name}.py").write_text("raise ImportError")
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    assert "picamera2" in run(script, "--camera", cwd=tmp_path, code=2, PYTHONPATH=path)


@pytest.mark.parametrize(("script", "args", "says"), [
    ("classify_image.py", ["--image", "nowhere.pgm"], "nowhere.pgm"),
    ("classify_image.py", ["--model", "nowhere.tflite"], "nowhere.tflite"),
    ("detect_objects.py", ["--model", "digits"], "TFLite_Detection_PostProcess"),
    ("spot_keywords.py", ["--wav", "nowhere.wav"], "nowhere.wav"),
    ("spot_keywords.py", ["--model", "digits"], "features of logmel.py"),
    ("camera_loop.py", ["--rate", "0"], "--rate: 0 is not above 0"),
    ("camera_loop.py", ["--rate", "x"], "--rate: invalid float value: 'x'"),
])
def test_errors_name_their_cause(tmp_path, script, args, says):
    assert says in run(script, *args, cwd=tmp_path, code=2)


CAMERA = """
import numpy as np
from pylite.media import images

class Picamera2:
    def __init__(self, number=0): pass
    def __enter__(self): return self
    def __exit__(self, *_): print("closed\\n", end="")      # in one write, beside another thread
    def create_preview_configuration(self, main, controls):
        assert main["format"] == "BGR888"
        return main, controls
    def configure(self, configuration): print(configuration[1])
    def start(self): self.left = 3
    def capture_array(self):
        self.left -= 1
        if self.left < 0:
            raise OSError("the cable is off")
        return np.repeat(255 - images.read(SCENE), 3, 2)
"""
GPIO = """
class LED:
    def __init__(self, pin): print("LED at", pin)
    def on(self): print("LED on")
    def off(self): print("LED off")

class Button:
    def __init__(self, pin):
        print("button at", pin)
        self.left = 2
    def wait_for_press(self):
        if not self.left:
            raise KeyboardInterrupt
        self.left -= 1
    def wait_for_release(self): pass
"""


@pytest.fixture
def hardware(tmp_path):
    """Stand-ins for the packages of Raspberry Pi OS, for PYTHONPATH: a camera that fails later, and two presses."""
    scene = str(EXAMPLES / "samples" / "scene.pgm")
    (tmp_path / "picamera2.py").write_text(f"SCENE = {scene!r}\n{CAMERA}")
    (tmp_path / "gpiozero.py").write_text(GPIO)
    return {"PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])}


def digits_of(line):
    return sorted(word for word in line.replace(",", "").split() if word in SCENE)


def test_the_camera_loop_simulates_a_camera(tmp_path):
    lines = run("camera_loop.py", "--frames", 6, "--rate", 500, cwd=tmp_path)
    assert [int(line.split()[0]) for line in lines[:-1]] == [1, 2, 3, 4, 5, 6]
    assert lines[-1].startswith("6 pictures in ") and lines[-1].endswith(" dropped")
    # at such a rate a busy machine may drop the first picture, and later ones cut a digit at the edge
    lines = run("camera_loop.py", "--frames", 1, "--rate", 0.02, cwd=tmp_path)
    assert digits_of(lines[0]) == SCENE and lines[1].endswith(" 0 dropped")


def test_the_camera_loop_reads_every_file_of_a_folder(tmp_path):
    scene = images.read(EXAMPLES / "samples" / "scene.pgm")
    for number, pixels in enumerate((scene, np.zeros_like(scene), scene[::-1])):
        images.write(tmp_path / f"{number}.pgm", pixels)
    lines = run("camera_loop.py", "--source", tmp_path, cwd=tmp_path)
    assert digits_of(lines[0]) == SCENE and lines[1].split() == ["2", "nothing"]
    assert lines[-1].startswith("3 pictures") and lines[-1].endswith("0 dropped")
    assert "no pictures" in run("camera_loop.py", "--source", EXAMPLES.parent, cwd=tmp_path, code=2)


def test_the_camera_loop_with_a_camera_that_fails(tmp_path, hardware):
    """The pictures before the failure are seen (or dropped), the summary is printed, and the error is named."""
    error = run("camera_loop.py", "--camera", "--invert", "--rate", 25, cwd=tmp_path, code=2, **hardware)
    assert error == "camera_loop: the cable is off\n"
    lines = run("camera_loop.py", "--camera", "--invert", "--frames", 1, cwd=tmp_path, **hardware)
    assert lines[0] == "{'FrameRate': 30}"
    assert any(digits_of(line) == SCENE for line in lines)


def test_the_camera_loop_ends_in_order_when_systemd_stops_it(tmp_path):
    with subprocess.Popen([sys.executable, str(EXAMPLES / "camera_loop.py")], cwd=tmp_path, env=environment(),
                          stdout=subprocess.PIPE, text=True) as loop:
        assert loop.stdout.readline().split()[0] == "1"
        loop.terminate()
        assert loop.stdout.read().splitlines()[-1].endswith("dropped")
        assert loop.wait(60) == 0


def test_the_service_starts_the_loop_with_options_that_it_has(tmp_path, hardware):
    import configparser
    import shlex
    service = configparser.ConfigParser(delimiters="=", comment_prefixes="#", interpolation=None)
    service.optionxform = str
    service.read(EXAMPLES / "pylite-camera.service")
    assert service["Unit"]["Description"] and service["Install"]["WantedBy"] == "multi-user.target"
    python, script, *options = shlex.split(service["Service"]["ExecStart"])
    assert python.endswith("/bin/python")
    assert service["Service"]["WorkingDirectory"].endswith("examples/raspberry_pi")
    assert run(script, *options, "--frames", 1, cwd=tmp_path, **hardware)[-1].startswith("1 picture")


def test_the_button_without_hardware(tmp_path):
    assert [line.split()[-1] for line in run("button_classify.py", "--simulate", 2, cwd=tmp_path)] == [
        "seven", "on", "seven", "on"]
    lines = run("button_classify.py", "--simulate", 1, "--image", models.sample("two"), cwd=tmp_path)
    assert [line.split()[-1] for line in lines] == ["two", "off"]


def test_the_button_with_hardware(tmp_path, hardware):
    lines = run("button_classify.py", "--button", 5, "--image", models.sample("two"), "--wanted", "two", cwd=tmp_path,
                **hardware)
    assert [line for line in lines if "%" not in line] == ["button at 5", "LED at 27", "LED on", "LED on"]
    if not os.path.exists("/dev/gpiochip0"):
        assert "gpiozero" in run("button_classify.py", "--image", models.sample("two"), cwd=tmp_path, code=2)
