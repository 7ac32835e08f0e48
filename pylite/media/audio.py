"""Sound: reading and resampling .wav files."""
from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pylite.errors import FileFormatError
from pylite.media.files import opened

if TYPE_CHECKING:
    from typing import IO, Any

    from numpy.typing import NDArray


MOST_SAMPLES = 1 << 27      # most samples after resampling, if the sound has less than a hundredth of them
HIGHEST_RATE = 10**9    # samples per second; beyond what any device has, so that their counts stay small
LOUDEST = 8     # largest magnitude of float samples: a little above 1 is clipped sound, far above it are integers
INTEGERS, FLOATS, EXTENSIBLE = 1, 3, 0xFFFE     # codes of the form of samples
KINDS = {INTEGERS: (1, 2, 3, 4), FLOATS: (4, 8)}        # the bytes that samples may have
BLOCK = 1 << 16         # samples that are computed at a time, in float64


class Sound(NamedTuple):
    """Mono float32 samples in -1..1, and samples per second."""
    samples: NDArray[np.float32]
    rate: float


def read(path: str | os.PathLike[str]) -> tuple[NDArray[np.float32], int]:
    """(samples, rate) of an uncompressed .wav file: mono, float32 in -1..1, and samples per second.

    Samples are integers of 8 to 32 bits or floats.  Raises OSError, or FileFormatError (a ValueError) for another kind
    of file.
    """
    try:
        with opened(path) as file:
            form, data = _form_and_data(file)
        code, count, rate, bits = _described(form)
        kind, width = KINDS.get(code), -(-bits // 8)
        if kind is None:
            raise ValueError(f"its samples have the format {code}, neither integers (1) nor floats (3)")
        if width not in kind or not rate or not count:
            raise FileFormatError(f"{path}: has {bits} bits for a sample, {count} channels and {rate} samples a "
                                  "second; expected integers of 8, 16, 24 or 32 bits, or floats of 32 or 64")
    except FileFormatError:
        raise
    except ValueError as error:
        raise FileFormatError(f"{path}: {error}; expected an uncompressed .wav file; ffmpeg converts others to it"
                              ) from None
    raw = np.frombuffer(data, np.uint8)
    raw = raw[:len(raw) // (width * count) * width * count]     # without a part of the last one in a truncated file
    if code == FLOATS:
        with np.errstate(over="ignore"):        # infinity is a fault
            samples: NDArray[Any] = raw.view(f"<f{width}").astype(np.float32)
        if problem := fault(samples):
            raise FileFormatError(f"{path}: {problem}")
    elif width == 1:
        samples = (raw.astype(np.float32) - 128) / 128
    else:                       # little-endian integers of 2 to 4 bytes, widened to 4
        wide = np.zeros((len(raw) // width, 4), np.uint8)
        wide[:, 4 - width:] = raw.reshape(-1, width)
        samples = wide.view("<i4")[:, 0].astype(np.float32) / 2**31
    return samples.reshape(-1, count).mean(1, dtype=np.float32), rate


def _form_and_data(file: IO[bytes]) -> tuple[bytes, bytes]:
    """The chunks "fmt " and "data" of a .wav file; ValueError if one is missing.

    The module wave takes integers alone, and before Python 3.12 no extensible form, which 24 bits often have.
    """
    head, form = file.read(12), b""
    if head[:4] != b"RIFF" or head[8:] != b"WAVE":
        raise ValueError("not a WAVE file" + (f", which begins with RIFF, but this one with {head[:4]!r}"
                                              if head and head[:4] != b"RIFF" else "" if head else ": it is empty"))
    while len(chunk := file.read(8)) == 8:
        contents = file.read(int.from_bytes(chunk[4:], "little"))       # the rest, if the size is unknown
        if chunk[:4] == b"data" and form:
            return form, contents
        if chunk[:4] == b"fmt ":
            form = contents
        if len(contents) % 2:
            file.read(1)
    raise ValueError("its head is damaged")


def _described(form: bytes) -> tuple[int, int, int, int]:
    """(code of the samples' kind, channels, samples per second, bits of a sample) of the chunk "fmt "."""
    if len(form) < 16:
        raise ValueError("its head is damaged")
    code, count, rate, _, _, bits = struct.unpack_from("<HHIIHH", form)
    if code == EXTENSIBLE and len(form) >= 26:
        code = int.from_bytes(form[24:26], "little")
    return code, count, rate, bits


def fault(samples: NDArray[Any]) -> str:
    """What is wrong with samples in float, as the end of a sentence about the sound: NaN, or far beyond 1; else ""."""
    loudest = np.abs(samples).max(initial=0)
    if not np.isfinite(loudest):
        bad = np.flatnonzero(~np.isfinite(samples))
        return (f"has {len(bad)} samples that are NaN or infinite, the first at {bad[0]}; fix the program that made "
                "them")
    if not loudest <= LOUDEST:
        return (f"has samples that reach {loudest:g}; expected float32 in -1..1. For numbers of 16 bits, divide by "
                "32768, or pass them as int16")
    return ""


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
