"""Classification of sound from files, arrays, and a microphone's blocks."""
from __future__ import annotations

import contextlib
import numbers
import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pylite.errors import ModelError, TensorError
from pylite.media import audio, tensors
from pylite.tasks import checks
from pylite.tasks.results import ClassificationResult, Classifications
from pylite.tasks.task import ClassOptions, Task

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, Self

    from numpy.typing import NDArray

    from pylite.tasks.task import Labels, ModelSource
    from pylite.tflite.types import Precision


MOST_CHANNELS = 64
LEAST_WINDOW = 1000     # samples; a model that takes a shorter row of numbers is not for sound


def _array_of(sound: Any) -> NDArray[Any]:
    """A sound as an array; TensorError for a pair with the rate, which readers of files return, SciPy's rate first."""
    if isinstance(sound, tuple) and len(sound) == 2 and sum(hasattr(part, "__len__") for part in sound) == 1:
        raise TensorError("a sound is a path or an array, not a tuple; give its samples, and sample_rate=")
    return np.asarray(sound)


def samples_of(sound: Any) -> NDArray[np.float32]:
    """Mono float32 samples in -1..1 of an array: (samples,) or (samples, channels) of float or int16.

    TensorError for another array, such as one of (channels, samples), and for floats that are NaN or far beyond 1.
    """
    array = _array_of(sound)
    if array.ndim == 2 and (0 < len(array) < array.shape[1] or array.shape[1] > MOST_CHANNELS):
        raise TensorError(f"sound of shape {list(array.shape)} would be {len(array)} samples of {array.shape[1]} "
                          "channels; expected (samples,) or (samples, channels): transpose it, as sound.T")
    if array.ndim == 2:
        array = array.mean(1, dtype=np.float32) if array.dtype.kind == "f" else array.astype(np.float32).mean(1) / 32768
    elif array.dtype == np.int16:
        array = array.astype(np.float32) / 32768
    if array.ndim != 1 or array.dtype.kind != "f" or (np.asarray(sound).dtype.kind != "f"
                                                      and np.asarray(sound).dtype != np.int16):
        raise TensorError(f"sound of shape {list(np.shape(sound))} and type {np.asarray(sound).dtype}; expected "
                          f"(samples,) or (samples, channels) of float32 in -1..1 or int16{_cure(sound)}")
    if problem := audio.fault(array):
        raise TensorError(f"the sound {problem}")
    return array.astype(np.float32)


def _cure(sound: Any) -> str:
    """The end of an error about samples of another type: how to convert them, if the type tells."""
    if isinstance(sound, (bytes, bytearray)):
        return "; for samples of 16 bits give numpy.frombuffer(sound, numpy.int16)"
    array = np.asarray(sound)
    if array.dtype == np.uint8:
        return "; for samples of 8 bits give (sound - 128.0) / 128"
    if array.dtype.kind == "i" and array.itemsize > 2 and array.size:
        if -2**15 <= array.min() <= array.max() < 2**15:
            return "; give numpy.asarray(sound, numpy.int16)"
        return "; for samples of 32 bits give sound / 2**31" if array.dtype == np.int32 else ""
    return ""


@dataclass(frozen=True)
class AudioFormat:
    """The format of a TensorAudio; sample_rate: samples per second, or None if it is not known."""
    channels: int
    sample_rate: int | None


class TensorAudio:
    """The last `size` samples of a sound that comes block by block, as from a microphone; at first all silence.

    Also TensorAudio(AudioFormat(1, 16000), size), as in the Task Library.
    """

    def __init__(self, size: int | AudioFormat, buffer_size: int | None = None) -> None:
        self.format = size if isinstance(size, AudioFormat) else AudioFormat(1, None)
        count = buffer_size if isinstance(size, AudioFormat) else size
        if not isinstance(count, numbers.Integral) or count < 1:
            raise ValueError(f"size is {count!r}; it must be a number of samples, at least 1")
        if self.format.channels != 1:
            raise ValueError(f"a format of {self.format.channels} channels; models take one: AudioFormat(1, rate)")
        self.buffer: NDArray[np.float32] = np.zeros(int(count), np.float32)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self.buffer)} samples>"

    @classmethod
    def create_from_wav_file(cls, file_name: str | os.PathLike[str], sample_count: int, offset: int = 0) -> Self:
        """The samples `offset` to `offset + sample_count` - 1 of a .wav file; silence follows a shorter sound."""
        samples, rate = audio.read(file_name)
        _check_slice(offset, 0, len(samples), os.fspath(file_name))
        made = cls(AudioFormat(1, rate), sample_count)
        part = samples[offset:offset + sample_count]
        made.buffer[:len(part)] = part
        return made

    def load_from_array(self, samples: Any, offset: int = 0, size: int = -1) -> None:
        """Append samples at the model's rate, and drop the oldest.  samples: an array as samples_of() takes it.

        offset, size: which of them; a size of -1: all to the end.
        """
        new = samples_of(samples)
        _check_slice(offset, size, len(new), "the array")
        new = new[offset:len(new) if size < 0 else offset + size][-len(self.buffer):]
        self.buffer = np.concatenate([self.buffer[len(new):], new])

    def load_from_audio_record(self, record: AudioRecord) -> None:
        """Replace the samples by the last ones of a microphone."""
        rate = self.format.sample_rate
        if rate not in (None, record.sampling_rate):
            raise ValueError(f"the AudioRecord has {record.sampling_rate} samples a second; expected {rate}, as "
                             "AudioClassifier.create_audio_record() makes it")
        self.load_from_array(record.read(len(self.buffer)))

    def clear(self) -> None:
        """Replace all samples by silence."""
        self.buffer[:] = 0


def _check_slice(offset: int, size: int, count: int, name: str) -> None:
    if offset < 0 or max(size, 0) + offset > count:
        raise ValueError(f"offset {offset} and size {size} do not lie in the {count} samples of {name}")


class AudioRecord:
    """A microphone, from which a thread reads; it keeps the last `buffer_size` samples.

    Needs the package sounddevice, or the program arecord.
    """

    def __init__(self, channels: int, sampling_rate: int, buffer_size: int) -> None:
        checks.rate(sampling_rate)
        self._heard = TensorAudio(AudioFormat(channels, sampling_rate), buffer_size)
        self.channels, self.sampling_rate, self.buffer_size = channels, sampling_rate, buffer_size
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._problem: Exception | None = None

    def start_recording(self) -> None:
        """Begin with silence, and listen until stop()."""
        self.stop()
        self._heard.clear()
        self._problem, self._stopped = None, threading.Event()
        self._thread = threading.Thread(target=self._listen, args=(self._stopped,), daemon=True)
        self._thread.start()

    def _listen(self, stopped: threading.Event) -> None:
        from pylite.media import capture  # imports subprocess, which others do not need
        try:
            with contextlib.closing(capture.sounds(self.sampling_rate, max(self.sampling_rate // 20, 1))) as blocks:
                for block in blocks:
                    if stopped.is_set():
                        return
                    self._heard.load_from_array(block)
        except Exception as error:      # read() raises it
            self._problem = error

    def stop(self) -> None:
        """Stop listening; the samples stay."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(1)        # a block takes a twentieth of a second

    def read(self, size: int) -> NDArray[np.float32]:
        """The last `size` samples, (size, 1).  Raises ImportError or OSError if the microphone cannot be read."""
        if self._problem is not None:
            raise self._problem
        if not 1 <= size <= self.buffer_size:
            raise ValueError(f"size is {size}; the AudioRecord keeps {self.buffer_size} samples")
        return self._heard.buffer[-size:, None].copy()


class AudioClassifier(Task):
    """Classifies sound by a model that takes a window of samples, such as YAMNet.

    Raises ModelError for a model that takes something else, ValueError if neither `sample_rate` nor the metadata give
    the rate.
    """

    def __init__(self, model: ModelSource, *, sample_rate: int | None = None, max_results: int | None = None,
                 score_threshold: float | None = None, category_allowlist: Iterable[str] = (),
                 category_denylist: Iterable[str] = (), display_names_locale: str | None = None,
                 labels: Labels | None = None, num_threads: int = 1,
                 experimental_delegates: Sequence[Any] | None = None, precision: Precision | None = None) -> None:
        super().__init__(model, num_threads=num_threads, experimental_delegates=experimental_delegates,
                         precision=precision)
        details = self.interpreter.get_input_details()
        shape = [int(size) for size in details[0]["shape"]]
        dtype: np.dtype[Any] = np.dtype(details[0]["dtype"])
        if len(details) != 1 or sum(size != 1 for size in shape) != 1 or dtype.kind in "OS":
            raise ModelError(f"the model has {len(details)} input{'s' * (len(details) != 1)}, the first of type "
                             f"{dtype} and shape {shape}; expected one input for a window of samples, such as "
                             f"(1, samples){self._hint()}")
        self._check_numbers(self.interpreter.get_output_details())
        rate = self._inputs[0].sample_rate if sample_rate is None else sample_rate
        if rate is None:
            raise ValueError("the model has no metadata with a sample rate; give sample_rate")
        checks.rate(rate)
        self.sample_rate = rate
        self.window_size = max(shape)
        counts = [int(np.prod(detail["shape"])) for detail in self.interpreter.get_output_details()]
        options = ClassOptions(labels, max_results, score_threshold, category_allowlist, category_denylist,
                               display_names_locale)
        self._heads = self._filters(options, counts)

    def _plausible(self) -> bool:
        """Any row of numbers has the shape of a window of sound."""
        name = self.interpreter.get_input_details()[0]["name"].lower()
        return self._inputs[0].sample_rate is not None or (
            self.window_size >= LEAST_WINDOW and "embedding" not in name)

    def create_input_tensor_audio(self) -> TensorAudio:
        """A buffer of the model's window, for a microphone."""
        return TensorAudio(self.required_audio_format, self.window_size)

    def create_audio_record(self) -> AudioRecord:
        """A microphone at the model's rate, which keeps a window."""
        return AudioRecord(1, self.sample_rate, self.window_size)

    @property
    def required_audio_format(self) -> AudioFormat:
        """The format that the model takes."""
        return AudioFormat(1, self.sample_rate)

    @property
    def required_input_buffer_size(self) -> int:
        """The samples of a window."""
        return self.window_size

    def classify(self, sound: Any, sample_rate: int | None = None) -> ClassificationResult:
        """The classes of each window of a sound, one window after another, the last one padded with silence.

        sound: the path of a .wav file, an array as samples_of() takes it, or a TensorAudio; sample_rate: of an array,
        if it is not the model's.  ValueError for a rate below 1 or above 1e9.
        """
        rate = self.sample_rate if sample_rate is None else sample_rate
        checks.rate(rate)
        if isinstance(sound, TensorAudio):
            samples = audio.resample(sound.buffer, sound.format.sample_rate or self.sample_rate, self.sample_rate)
        elif isinstance(sound, (str, os.PathLike)):
            samples = audio.resample(*audio.read(sound), self.sample_rate)
        else:
            samples = audio.resample(samples_of(sound), rate, self.sample_rate)
        if not len(samples):
            name = f"{os.fspath(sound)}: has" if isinstance(sound, (str, os.PathLike)) else "the array has"
            raise TensorError(f"{name} no sound (0 samples); record it again or leave it out")
        size = self.window_size
        samples = np.pad(samples, (0, max(size, -(-len(samples) // size) * size) - len(samples)))
        classifications = []
        for begin in range(0, len(samples), size):
            outputs = self._run(self._window(samples[begin:begin + size]))
            for index, (head, scores) in enumerate(zip(self._heads, outputs, strict=True)):
                categories = [category for _, category in head.categories(scores)]
                classifications.append(Classifications(categories, index, head.info.name, begin / self.sample_rate))
        return ClassificationResult(classifications)

    def _window(self, samples: NDArray[np.float32]) -> NDArray[Any]:
        detail = self.interpreter.get_input_details()[0]
        return tensors.quantized_sound(samples, detail).reshape(detail["shape"])
