"""Sound: reading, resampling, and what tasks take."""
import struct
import sys
import time
import types
import wave

import numpy as np
import pytest

from pylite.errors import FileFormatError, TensorError
from pylite.media import audio
from pylite.tasks import AudioClassifier, AudioFormat, AudioRecord, TensorAudio
from pylite.tasks.audio import samples_of
from tests.tools import small_models


def test_sound_that_resampling_makes_far_longer():
    """200 kB of one sample a second would be 13 GB."""
    with pytest.raises(FileFormatError, match=r"200000 samples of 1 a second would be 3200000000 of 16000 a second"):
        audio.resample(np.zeros(200_000, np.float32), 1, 16000)
    samples = np.random.default_rng(0).standard_normal(3 * audio.BLOCK).astype(np.float32)
    at = np.arange(round(len(samples) * 16000 / 22050)) * (22050 / 16000)
    whole = np.interp(at, np.arange(len(samples)), samples).astype(np.float32)
    np.testing.assert_array_equal(audio.resample(samples, 22050, 16000), whole)     # computed in pieces


def test_a_damaged_head_of_a_sound(tmp_path):
    """A chunk is longer than the file."""
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


def wav(samples, code=1, valid=None, size=None):
    """A .wav file at 8000 Hz of an array (samples, channels), whose bytes it holds; valid: bits, in extensible form."""
    bits, channels = 8 * samples.itemsize, samples.shape[1]
    form = struct.pack("<HHIIHH", code if valid is None else 0xFFFE, channels, 8000, 8000 * channels * bits // 8,
                       channels * bits // 8, bits)
    if valid is not None:
        form += struct.pack("<HHIH", 22, valid, 0, code) + bytes.fromhex("000000001000800000aa00389b71")
    data = samples.tobytes()
    body = (b"WAVELIST" + struct.pack("<I", 3) + b"abc\0fmt " + struct.pack("<I", len(form)) + form + b"data"
            + struct.pack("<I", len(data) if size is None else size) + data)
    return b"RIFF" + struct.pack("<I", len(body)) + body


@pytest.mark.parametrize(("kind", "scale", "code", "valid"), [
    ("<i2", 2**15, 1, None), ("<i2", 2**15, 1, 16), ("<i4", 2**31, 1, 24), ("<f4", 1, 3, None), ("<f4", 1, 3, 32),
    ("<f8", 1, 3, None)])
def test_kinds_of_sounds(tmp_path, kind, scale, code, valid):
    """SciPy, torchaudio and soundfile write floats; ffmpeg and arecord write 24 bits in the extensible form."""
    want = np.array([[0, 0.5], [0.25, -1], [-0.5, 0.75]])
    samples = (want * scale).astype(kind)
    for size in None, 0xFFFFFFFF:               # of a stream, whose length nobody knew
        (tmp_path / "a.wav").write_bytes(wav(samples, code, valid, size))
        got, rate = audio.read(tmp_path / "a.wav")
        assert rate == 8000 and got.dtype == np.float32
        np.testing.assert_array_equal(got, want.mean(1).astype(np.float32))


@pytest.mark.parametrize(("content", "says"), [
    (wav(np.array([[np.nan]], "<f4"), 3), "has 1 samples that are NaN or infinite, the first at 0"),
    (wav(np.array([[1e300]]), 3), "has 1 samples that are NaN or infinite"),
    (wav(np.array([[3000.]]), 3), "has samples that reach 3000; expected float32 in -1..1"),
    (wav(np.zeros((4, 1), "u1"), 7), "the format 7, neither integers .1. nor floats .3."),
    (wav(np.zeros((4, 1), "<f2"), 3), "16 bits for a sample, 1 channels and 8000 samples a second; expected .* floats"),
    (wav(np.zeros((4, 0), "<i2")), "0 channels"), (b"", "it is empty"), (b"fLaC" + bytes(99), "this one with b'fLaC'")])
def test_sounds_that_cannot_be_read(tmp_path, content, says):
    (tmp_path / "a.wav").write_bytes(content)
    with pytest.raises(FileFormatError, match=rf"a\.wav: .*{says}"):
        audio.read(tmp_path / "a.wav")


@pytest.mark.parametrize(("sound", "cure"), [
    (np.array([2**30], np.int32), "give sound / 2\\*\\*31"), (np.zeros(4, np.uint8), "give .sound - 128.0. / 128"),
    ([1, 2, 3000], "give numpy.asarray.sound, numpy.int16"), (b"\0\1", "give numpy.frombuffer.sound, numpy.int16"),
    ((8000, np.zeros(4, np.int16)), "give its samples, and sample_rate="),
    ((np.zeros(4, np.float32), 8000), "give its samples, and sample_rate=")])
def test_what_programs_have_instead_of_a_sound(sound, cure):
    with pytest.raises(TensorError, match=cure):
        samples_of(sound)


@pytest.mark.parametrize("wrong", [np.zeros(4, np.int32), np.zeros((2, 2, 2), np.float32), np.zeros((4, 2), np.uint8)])
def test_other_arrays_are_no_sounds(wrong):
    with pytest.raises(TensorError, match="expected \\(samples,\\)"):
        TensorAudio(8).load_from_array(wrong)


@pytest.mark.parametrize("shape", [(1, 32000), (2, 32000), (400, 65)])
def test_channels_come_last(shape):
    """As torchaudio and librosa do not have them: the mean over the channels would be of the samples."""
    words = f"would be {shape[0]} samples of {shape[1]} channels; .*transpose it, as sound.T"
    with pytest.raises(TensorError, match=words):
        samples_of(np.ones(shape, np.float32))
    with pytest.raises(TensorError, match=words):
        TensorAudio(8).load_from_array(np.ones(shape, np.int16))
    assert samples_of(np.ones((32000, 2), np.float32)).shape == (32000,)
    assert samples_of(np.ones((0, 2), np.float32)).shape == (0,)


@pytest.mark.parametrize(("rate", "kind", "words"), [
    (0, ValueError, "is 0; expected samples per second"), (-1, ValueError, "is -1; expected"),
    (np.nan, ValueError, "is nan; expected"), (np.inf, ValueError, "is inf; expected"),
    (1e300, ValueError, r"is 1e\+300; expected samples per second, 1 to 1e9"),
    ("16k", TypeError, "is '16k'; expected")])
def test_rates_that_no_sound_has(rate, kind, words):
    with pytest.raises(kind, match=f"sample_rate {words}"):
        AudioClassifier(small_models.int16_window(), sample_rate=rate)
    classifier = AudioClassifier(small_models.int16_window(), sample_rate=8000)
    with pytest.raises(kind, match=f"sample_rate {words}"):
        classifier.classify(np.zeros(4), sample_rate=rate)


def test_sounds_of_integers_and_of_several_channels():
    buffer = TensorAudio(3)
    buffer.load_from_array(np.array([16384, -32768], np.int16))
    assert buffer.buffer.tolist() == [0, 0.5, -1]
    buffer.load_from_array(np.array([[16384, 0], [0, 0]], np.int16))
    assert buffer.buffer.tolist() == [-1, 0.25, 0]
    buffer.load_from_array(np.arange(8.0) / 8)
    assert buffer.buffer.tolist() == [0.625, 0.75, 0.875]


@pytest.mark.parametrize(("samples", "words"), [
    (24000, "reach 24000.*divide by 32768"), (np.nan, "has 9 samples that are NaN or infinite, the first at 0; fix"),
    (-np.inf, "has 9 samples that are NaN or infinite")])
def test_floats_far_beyond_1_are_no_sound(samples, words):
    with pytest.raises(TensorError, match=words):
        TensorAudio(8).load_from_array(np.full(9, samples, np.float32))


def test_no_sound_has_no_classes(tmp_path):
    """But a block of a microphone may be empty, and silence is a sound."""
    with wave.open(str(tmp_path / "empty.wav"), "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
    classifier = AudioClassifier(small_models.int16_window(), sample_rate=8000)
    for sound, words in ((tmp_path / "empty.wav", "empty.wav: has no sound"), (np.zeros(0), "the array has no sound")):
        with pytest.raises(TensorError, match=words):
            classifier.classify(sound)
    buffer = classifier.create_input_tensor_audio()
    buffer.load_from_array(np.zeros(0))
    assert classifier.classify(buffer).classifications and classifier.classify(np.zeros(4)).classifications


def test_windows_of_int16():
    classifier = AudioClassifier(small_models.int16_window(), sample_rate=8000)
    found = classifier.classify(np.array([0.5, -1, 0, 1], np.float32))
    assert {c.index: c.score for c in found.categories} == {0: 16384, 1: -32768, 2: 0, 3: 32767}


class Microphone:
    """Stands in for sounddevice.InputStream: blocks of 1/8, 2/8, ..., and then it is unplugged."""

    def __init__(self, rate, channels, dtype, blocksize):
        self.heard = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def read(self, size):
        self.heard += 1
        if self.heard > 3:
            raise OSError("unplugged")
        return np.full((size, 1), self.heard / 8, np.float32), False


def test_a_microphone_as_programs_for_the_task_library_read_it(monkeypatch):
    module = types.SimpleNamespace(InputStream=Microphone, PortAudioError=RuntimeError)
    monkeypatch.setitem(sys.modules, "sounddevice", module)
    classifier = AudioClassifier(small_models.int16_window(), sample_rate=20)       # a block is one sample
    record, sound = classifier.create_audio_record(), classifier.create_input_tensor_audio()
    assert len(sound.buffer) / sound.format.sample_rate == 4 / 20
    assert (classifier.required_audio_format, classifier.required_input_buffer_size) == (AudioFormat(1, 20), 4)
    for _ in range(2):
        record.start_recording()
        record._thread.join()
        record.stop()
        problem, record._problem = record._problem, None
        sound.load_from_audio_record(record)
        assert sound.buffer.tolist() == [0, 1 / 8, 2 / 8, 3 / 8] and record.read(1).tolist() == [[3 / 8]]
        assert len(classifier.classify(sound).categories) == 4
        record._problem = problem
        with pytest.raises(OSError, match="unplugged"):
            sound.load_from_audio_record(record)
        record._problem = None
    with pytest.raises(ValueError, match="size is 5; the AudioRecord keeps 4 samples"):
        record.read(5)
    with pytest.raises(ValueError, match=r"has 20 samples a second; expected 8000, as .*create_audio_record"):
        TensorAudio(AudioFormat(1, 8000), 4).load_from_audio_record(record)
    with pytest.raises(ValueError, match="a format of 2 channels; models take one"):
        AudioRecord(2, 16000, 4)


def test_a_microphone_stops(monkeypatch):
    def read(self, size):
        time.sleep(0.001)
        return np.zeros((size, 1), np.float32), False
    monkeypatch.setattr(Microphone, "read", read)
    module = types.SimpleNamespace(InputStream=Microphone, PortAudioError=RuntimeError)
    monkeypatch.setitem(sys.modules, "sounddevice", module)
    record = AudioRecord(1, 1000, 8)
    record.start_recording()
    first = record._thread
    record.start_recording()
    assert not first.is_alive() and record._thread.is_alive() and record.read(8).shape == (8, 1)
    record.stop()
    assert not record._thread.is_alive()


def test_parts_of_files_and_arrays(tmp_path):
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes((np.arange(6, dtype="<i2") * 4096).tobytes())
    sound = TensorAudio.create_from_wav_file(tmp_path / "a.wav", 3, offset=1)
    assert sound.buffer.tolist() == [1 / 8, 2 / 8, 3 / 8] and sound.format == AudioFormat(1, 8000)
    assert TensorAudio.create_from_wav_file(tmp_path / "a.wav", 8).buffer.tolist() == [i / 8 for i in range(6)] + [0, 0]
    sound.load_from_array(np.arange(6) / 8, offset=3, size=2)
    assert sound.buffer.tolist() == [3 / 8, 3 / 8, 4 / 8]
    for offset, size in ((5, 2), (-1, 1), (7, -1)):
        with pytest.raises(ValueError, match=f"offset {offset} and size {size} do not lie in the 6 samples of the"):
            sound.load_from_array(np.zeros(6), offset, size)
    with pytest.raises(ValueError, match=r"in the 6 samples of .*a\.wav"):
        TensorAudio.create_from_wav_file(tmp_path / "a.wav", 3, offset=7)
    classifier = AudioClassifier(small_models.int16_window(), sample_rate=4000)
    fast = TensorAudio.create_from_wav_file(tmp_path / "a.wav", 6)      # resampled, and one window
    assert {c.index: c.score for c in classifier.classify(fast).categories} == {0: 0, 1: 8192, 2: 16384, 3: 0}
