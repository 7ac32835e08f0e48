"""Pictures of a camera and sound of a microphone, by the libraries that are installed."""
from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from typing import Any

    from numpy.typing import NDArray

    from pylite.media.images import Pixels


def pictures(number: int = 0, width: int = 640, height: int = 480, rate: float | None = None) -> Iterator[Pixels]:
    """Endless pictures of a camera: uint8 (height, width, 3) with red first, `rate` per second.

    picamera2 reads them if it is installed, otherwise OpenCV.  number: which camera.  Raises ImportError without
    either, OSError if there is no such camera or it fails.
    """
    try:
        from picamera2 import Picamera2
    except ImportError:
        yield from _opencv(number, width, height, rate)
        return
    try:
        opened = Picamera2(number)
    except IndexError:
        raise OSError(f"there is no camera {number}: `rpicam-hello --list-cameras` lists them") from None
    with opened as camera:
        # BGR888 is picamera2's name for arrays with red first
        controls = {"FrameRate": rate} if rate else {}
        camera.configure(camera.create_preview_configuration({"format": "BGR888", "size": (width, height)},
                                                             controls=controls))
        camera.start()
        while True:
            yield camera.capture_array()


def _opencv(number: int, width: int, height: int, rate: float | None) -> Iterator[Pixels]:
    try:
        import cv2
    except ImportError:
        raise ImportError("reading a camera needs picamera2, a package of Raspberry Pi OS (sudo apt install "
                          "python3-picamera2, and a virtual environment made with --system-site-packages), or OpenCV "
                          "(pip install opencv-python-headless)") from None
    camera = cv2.VideoCapture(number)
    try:
        for key, value in ((cv2.CAP_PROP_FRAME_WIDTH, width), (cv2.CAP_PROP_FRAME_HEIGHT, height),
                           (cv2.CAP_PROP_FPS, rate)):
            if value:
                camera.set(key, value)
        while True:
            read, pixels = camera.read()
            if not read:
                raise OSError(f"camera {number} gives no picture; is it connected, and does no other program use it?")
            yield np.ascontiguousarray(pixels[:, :, ::-1])      # OpenCV's have blue first
    finally:
        camera.release()


def sounds(rate: int, size: int) -> Generator[NDArray[np.float32], None, None]:
    """Endless sound of the microphone: blocks of `size` samples, float32 in -1..1, one channel, `rate` per second.

    The package sounddevice reads it if it is installed, otherwise the program arecord.  Raises ImportError without
    either, OSError if there is no microphone or it fails.
    """
    try:
        import sounddevice
    except (ImportError, OSError):      # the package, or its library PortAudio, is not installed
        yield from _arecord(rate, size)
        return
    stream: Any
    try:
        with sounddevice.InputStream(rate, channels=1, dtype="float32", blocksize=size) as stream:
            while True:
                yield stream.read(size)[0][:, 0].copy()
    except sounddevice.PortAudioError as error:
        raise OSError(f"the microphone cannot be read: {error}") from None


def _arecord(rate: int, size: int) -> Iterator[NDArray[np.float32]]:
    if not shutil.which("arecord"):
        raise ImportError("reading the microphone needs the Python package sounddevice (pip install sounddevice, and "
                          "sudo apt install libportaudio2) or the program arecord (sudo apt install alsa-utils)")
    command = ["arecord", "-q", "-t", "raw", "-f", "S16_LE", "-r", str(rate), "-c", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as recorder:
        assert recorder.stdout is not None
        try:
            while len(data := recorder.stdout.read(2 * size)) == 2 * size:
                yield np.frombuffer(data, "<i2").astype(np.float32) / np.float32(32768)
        finally:
            recorder.terminate()
    raise OSError("arecord ended; is a microphone connected?  `arecord -l` lists them")
