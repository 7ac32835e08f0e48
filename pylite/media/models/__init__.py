"""The models that are bundled with pylite, with their labels inside, and sample inputs.

The scripts in the repository's `examples/training` make them; its README.md gives their accuracy.
"""
import difflib
import os
from pathlib import Path

from pylite import errors

_HERE = Path(__file__).parent


def names() -> list[str]:
    """Names of the models, sorted."""
    return sorted(file.stem for file in _HERE.glob("*.tflite"))


def samples() -> list[str]:
    """Names of the sample inputs, sorted."""
    return sorted(file.stem for file in (_HERE / "samples").iterdir())


def path(name: str) -> Path:
    """Path of the model `name`, such as "digits".  ValueError for another name lists the models."""
    file = _HERE / f"{name}.tflite"
    if name not in names():
        raise ValueError(f"no bundled model is called {name!r}{_listed(name, names(), 'models')}")
    return file


def named(source: str | os.PathLike[str]) -> str:
    """The path of a model: `source`, or the bundled model of this name unless a file is called so.

    ModelError (a ValueError) if neither exists and the text looks like such a name.
    """
    if not isinstance(source, (str, os.PathLike)):
        raise TypeError(f"expected the path of a model, or the name of a bundled one, not {type(source).__name__}")
    text = os.fspath(source)
    if isinstance(text, str) and text.isidentifier() and text not in names() and not os.path.exists(text):
        raise errors.ModelError(
            f"Could not open '{errors.shortened(text)}'. There is no such file, and no bundled model of this name"
            f"{_listed(text, names(), 'models')}")
    return os.fspath(path(text)) if text in names() and not os.path.exists(text) else text


def hint(source: object) -> str:
    """The end of an error about a missing file with almost the name of a bundled model: how to open that; or ""."""
    text = os.fspath(source) if isinstance(source, (str, os.PathLike)) else ""
    if not isinstance(text, str) or os.path.exists(text):
        return ""
    close = difflib.get_close_matches(text.lower().removesuffix(".tflite"), names(), 1, 0.75)
    return f". For the model bundled with pylite, give pylite.media.models.path({close[0]!r})" if close else ""


def named_sample(source: str | os.PathLike[str]) -> str:
    """The path of an input: `source`, or the bundled sample of this name unless a file is called so."""
    text = os.fspath(source)
    return os.fspath(sample(text)) if text in samples() and not os.path.exists(text) else text


def sample(name: str) -> Path:
    """Path of the sample input `name`, such as "seven".  ValueError for another name lists the samples."""
    for file in (_HERE / "samples").iterdir():
        if name in (file.stem, file.name):
            return file
    raise ValueError(f"no bundled sample is called {name!r}{_listed(name, samples(), 'samples')}")


def _listed(name: str, known: list[str], kind: str) -> str:
    """The end of a message about an unknown `name`: the closest known one, and all `kind`, such as "models"."""
    close = difflib.get_close_matches(str(name).lower(), known, 1)
    listed = f"he bundled {kind} are {', '.join(known)}"
    return f"; did you mean {close[0]!r}? T{listed}" if close else f"; t{listed}"
