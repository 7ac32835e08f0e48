"""Input tensors from files: pictures, sound, arrays and text, converted to the shape and type of a model's input."""
import math
import os

import numpy as np

from pylite.cli import _common
from pylite.cli._common import UsageError
from pylite.errors import ModelError, TensorError
from pylite.media import audio, images, tensors
from pylite.media.files import text_of
from pylite.validation import arrays


def read(path, rate=None):
    """(kind, contents) of a file: "array" and an array or {name: array}, "image" and pixels, "audio" and a Sound.

    rate: of the samples, per second, by default the file's.
    """
    path = _common.input_path(path)
    if os.path.isdir(path):
        raise UsageError(f"{path}: is a folder, and an input takes one file; to run the model on each file in it, give "
                         "it without --input")
    suffix = path[path.rfind("."):].lower()
    if suffix not in (".npy", ".npz", ".wav", *images.SUFFIXES):
        raise UsageError(f"{path}: unknown kind of file; .npy, .npz, .wav and pictures ({', '.join(images.SUFFIXES)}) "
                         "can be read")
    return arrays.contents(path, rate)


def text(given):
    """The text for an input of strings: what a .txt file says, or the words themselves."""
    if not given.lower().endswith(".txt"):
        return given
    return text_of(given)


def tokenizer(given, model, details, vocabulary, lower_case):
    """A TextTask of a Model, whose inputs `details` describe; its inputs() are the numbers of a text's words.

    given: the text; vocabulary: a file with the words, None for the model's.  UsageError if neither is there.
    """
    from pylite.tasks.text import TextTask
    try:
        return TextTask(model, vocabulary=vocabulary, lower_case=lower_case)
    except ModelError as error:
        if vocabulary is not None:
            raise
        reason = ("it has no vocabulary to turn words into them: give --vocabulary FILE, or the numbers as an .npy or "
                  ".npz file" if "vocabulary" in str(error) else "give them as an .npy or .npz file")
        raise UsageError(f"{given!r} is a text, and the model takes numbers: {', '.join(map(described, details))}; "
                         f"{reason}") from None


def looks_like_text(given, word=False):
    """Is this a text, or a .txt file, rather than the path of another file?  word: may it be a single word?"""
    return given.lower().endswith(".txt") or (not os.path.exists(given) and (
        len(given.split()) > 1 or (word and not given.endswith((".npy", ".npz")))))


def is_text(detail):
    """Does the input that `detail` describes take strings?"""
    return np.dtype(detail["dtype"]).kind in "OS"


def kinds_of_files(details):
    """The kinds of files that some of these inputs take, in words."""
    pictures = any(tensors.picture_channels(detail) is not None for detail in details)
    sounds = any(_takes_sound(detail) for detail in details)
    return ", ".join(["a picture"] * pictures + [".wav"] * sounds + [".npy or .npz"])


def _takes_sound(detail):
    shape, signature = (tuple(map(int, detail[key])) for key in ("shape", "shape_signature"))
    try:
        tensors.sound_axis(detail["name"], shape, signature)
    except TensorError:
        return False
    return True


def described(detail):
    """An input in words: its name, type and shape."""
    dtype = "string" if is_text(detail) else np.dtype(detail["dtype"])
    return f"{detail['name']!r} ({dtype}{list(map(int, detail['shape_signature']))})"


def tensor(kind, contents, detail, mean=None, std=None):
    """(array for the input that `detail` describes, note or None); the caller resizes the input to the array's shape.

    mean, std: for pixels, lists of one number or one per channel: the model gets the real number (pixel - mean) / std.
    By default a float input gets -1..1, and an 8-bit input the pixels themselves as quantized values.
    """
    name = repr(detail["name"])
    shape, signature = tuple(map(int, detail["shape"])), tuple(map(int, detail["shape_signature"]))
    if kind == "image":
        try:
            return tensors.picture(contents, detail, mean, std), None
        except TensorError as error:
            raise UsageError(f"{error}; or give it an .npy or .npz file") from None
    if kind == "audio":
        return _sound(contents.samples, detail, shape, signature)
    if kind == "text":
        count = math.prod(shape)
        lines = [contents] if count == 1 else contents.splitlines()
        if len(lines) != count:
            were = "was" if len(lines) == 1 else "were"
            raise UsageError(f"input {described(detail)} takes {count} strings, and {len(lines)} {were} given; give a "
                             ".txt file with a line for each, or an .npy file")
        return np.array([line.encode() for line in lines], object).reshape(shape), None
    try:
        fitted = tensors.reshaped(contents, detail["name"], shape, signature, "the file")
    except TensorError as error:
        raise UsageError(str(error)) from None
    if fitted.dtype.kind in "fc" and not np.isfinite(fitted).all():
        bad = np.argwhere(~np.isfinite(fitted))
        raise UsageError(f"input {name} is given {len(bad)} numbers that are NaN or infinite, the first at "
                         f"{bad[0].tolist()}; fix the program that wrote them")
    return tensors.quantize(fitted, detail) if fitted.dtype.kind == "f" else _cast(fitted, detail, name), None


def window(detail):
    """(axis of the samples of sound that an input takes, their number or None for any); UsageError if it takes none."""
    try:
        return tensors.sound_axis(detail["name"], tuple(map(int, detail["shape"])),
                                  tuple(map(int, detail["shape_signature"])))
    except TensorError as error:
        raise UsageError(str(error)) from None


def windows(sound, detail):
    """A Sound as windows of the length that an input takes, the last one as long as it is."""
    _, size = window(detail)
    starts = range(0, len(sound.samples), size) if size else ()
    return [audio.Sound(sound.samples[start:start + size], sound.rate) for start in starts] or [sound]


def _sound(samples, detail, shape, signature):
    try:
        fitted = tensors.fitted_sound(samples, detail["name"], shape, signature)
    except TensorError as error:
        raise UsageError(str(error)) from None
    note = None if fitted.size == len(samples) else (
        f"{len(samples)} samples, {'cut' if len(samples) > fitted.size else 'padded with silence'} to the "
        f"{fitted.size} that input {detail['name']!r} takes")
    return tensors.quantized_sound(fitted, detail), note


def _cast(array, detail, name):
    """Integers, booleans and text, unscaled, if the input's type can represent them."""
    dtype = np.dtype(detail["dtype"])
    if dtype.kind in "OS":
        return (np.char.encode(array, "utf-8") if array.dtype.kind == "U" else array.astype(np.bytes_)).astype(object)
    if dtype.kind in "fc" or array.dtype == dtype:
        return array.astype(dtype)
    if array.dtype.kind in "iub" and dtype.kind in "iu" and array.size:
        span = np.iinfo(dtype)
        if span.min <= array.min() and array.max() <= span.max:
            return array.astype(dtype)
    raise UsageError(f"input {name} is {dtype}, which cannot represent the file's {array.dtype} values")


def blank(detail, rng):
    """Contents for an input without a file: zeros, or random values of its type if `rng` is not None."""
    shape, dtype = tuple(map(int, detail["shape"])), np.dtype(detail["dtype"])
    if dtype.kind in "OS":
        return np.full(shape, b"", object)
    if rng is None:
        return np.full(shape, tensors.quantize(np.zeros(1, np.float32), detail)[0])
    if dtype.kind in "fc":
        return rng.standard_normal(shape).astype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.itemsize <= 2:
        span = np.iinfo(dtype)
        return rng.integers(span.min, span.max, shape, dtype, endpoint=True)
    return rng.integers(0, 2, shape).astype(dtype)      # small: inputs of 32 and 64 bits are indices and sizes
