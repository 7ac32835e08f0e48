"""Reading and resampling of sound."""
import wave

import numpy as np
import pytest

from pylite.errors import FileFormatError
from pylite.media import audio


def test_sound_that_resampling_makes_far_longer():
    """200 kB of one sample a second would be 13 GB."""
    with pytest.raises(FileFormatError, match=r"200000 samples of 1 a second would be 3200000000 of 16000 a second"):
        audio.resample(np.zeros(200_000, np.float32), 1, 16000)
    samples = np.random.default_rng(0).standard_normal(3 * audio.BLOCK).astype(np.float32)
    at = np.arange(round(len(samples) * 16000 / 22050)) * (22050 / 16000)
    whole = np.interp(at, np.arange(len(samples)), samples).astype(np.float32)
    np.testing.assert_array_equal(audio.resample(samples, 22050, 16000), whole)     # computed in pieces


def test_a_damaged_head_of_a_sound(tmp_path):
    """wave raises RuntimeError for a chunk that is longer than the file."""
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(bytes(100))
    content = bytearray((tmp_path / "a.wav").read_bytes())
    content[16:20] = (1 << 30).to_bytes(4, "little")
    (tmp_path / "a.wav").write_bytes(content)
    with pytest.raises(FileFormatError, match=r"expected an uncompressed \.wav file"):
        audio.read(tmp_path / "a.wav")
