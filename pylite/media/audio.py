"""Sound: reading and resampling .wav files."""
from __future__ import annotations

import os
import wave
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pylite.errors import FileFormatError
from pylite.media.files import opened

if TYPE_CHECKING:
    from numpy.typing import NDArray


MOST_SAMPLES = 1 << 27      # most samples after resampling, if the sound has less than a hundredth of them
HIGHEST_RATE = 10**9    # samples per second; beyond what any device has, so that their counts stay small
BLOCK = 1 << 16         # samples that are computed at a time, in float64


class Sound(NamedTuple):
    """Mono float32 samples in -1..1, and samples per second."""
    samples: NDArray[np.float32]
    rate: float


def read(path: str | os.PathLike[str]) -> tuple[NDArray[np.float32], int]:
    """(samples, rate) of an uncompressed .wav file: mono, float32 in -1..1, and samples per second.

    Raises OSError, or FileFormatError (a ValueError) for another kind of file.
    """
    try:
        with opened(path) as source, wave.open(source) as file:
            width, count, rate = file.getsampwidth(), file.getnchannels(), file.getframerate()
            raw = np.frombuffer(file.readframes(file.getnframes()), np.uint8)
        if not 1 <= width <= 4 or not rate:
            raise FileFormatError(f"{path}: has {8 * width} bits for a sample and {rate} samples a second; expected 8, "
                                  "16, 24 or 32 bits")
        raw = raw[:len(raw) // (width * count) * width * count]     # without a part of the last one in a truncated file
    except (wave.Error, EOFError, RuntimeError) as error:
        reason = str(error) or "its head is damaged"        # only wave.Error has a text
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
    """`samples` (float32, one axis) at `wanted` per second instead of `rate`, by linear interpolation.

    FileFormatError if the result would have more than MOST_SAMPLES, and a hundred times as many as `samples`.
    """
    if rate == wanted:
        return samples
    count = round(len(samples) * wanted / rate)
    if count > max(MOST_SAMPLES, 100 * len(samples)):
        raise FileFormatError(f"{len(samples)} samples of {rate} a second would be {count} of {wanted} a second; at "
                              f"most {MOST_SAMPLES} are possible. Is the rate in the file right?")
    result, places = np.empty(count, np.float32), np.arange(len(samples))
    for begin in range(0, count, BLOCK):
        at = np.arange(begin, min(begin + BLOCK, count)) * (rate / wanted)
        result[begin:begin + BLOCK] = np.interp(at, places, samples)
    return result
