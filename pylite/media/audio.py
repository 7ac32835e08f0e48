"""Sound: reading and resampling .wav files."""
from __future__ import annotations

import os
import wave
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pylite.errors import FileFormatError

if TYPE_CHECKING:
    from numpy.typing import NDArray


LOWEST_RATE, HIGHEST_RATE = 100, 1_000_000      # samples per second: resampling to a model's rate multiplies them


class Sound(NamedTuple):
    """Mono float32 samples in -1..1, and how many there are a second."""
    samples: NDArray[np.float32]
    rate: float


def read(path: str | os.PathLike[str]) -> tuple[NDArray[np.float32], int]:
    """(samples, rate) of an uncompressed .wav file: mono, float32 in -1..1, and samples per second.

    Raises OSError, or FileFormatError (a ValueError) for another kind of file.
    """
    try:
        with wave.open(os.fspath(path), "rb") as file:
            width, count, rate = file.getsampwidth(), file.getnchannels(), file.getframerate()
            raw = np.frombuffer(file.readframes(file.getnframes()), np.uint8)
        if not (1 <= width <= 4 and LOWEST_RATE <= rate <= HIGHEST_RATE):
            raise FileFormatError(f"{path}: has {8 * width} bits for a sample and {rate} samples a second; expected 8, "
                                  f"16, 24 or 32 bits, and {LOWEST_RATE} to {HIGHEST_RATE} samples")
        raw = raw[:len(raw) // (width * count) * width * count]     # without a part of the last one in a truncated file
    except (wave.Error, EOFError) as error:
        reason = str(error) or "its head is truncated"      # EOFError has no text
        raise FileFormatError(f"{path}: {reason}; expected an uncompressed .wav file; ffmpeg converts others to it"
                              ) from None
    if width == 1:
        samples = (raw.astype(np.float32) - 128) / 128
    else:                       # little-endian integers of 2 to 4 bytes, widened to 4
        wide = np.zeros((len(raw) // width, 4), np.uint8)
        wide[:, 4 - width:] = raw.reshape(-1, width)
        samples = wide.view("<i4")[:, 0].astype(np.float32) / 2**31
    return samples.reshape(-1, count).mean(1, dtype=np.float32), rate


def resample(samples: NDArray[np.float32], rate: float, wanted: float) -> NDArray[np.float32]:
    """`samples` (float32, one axis) at `wanted` per second instead of `rate`, by linear interpolation."""
    if rate == wanted:
        return samples
    at = np.arange(round(len(samples) * wanted / rate)) * (rate / wanted)
    return np.interp(at, np.arange(len(samples)), samples).astype(np.float32)
