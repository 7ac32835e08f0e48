"""The models that are bundled with pylite, with their labels inside, and sample inputs.

The scripts in the repository's `examples/training` make them; its README.md gives their accuracy.
"""
import os
from pathlib import Path

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
        raise ValueError(f"no model {name!r}; there are {', '.join(names())}")
    return file


def named(source: str | os.PathLike[str]) -> str:
    """The path of a model: `source`, or the bundled model of this name unless a file is called so."""
    text = os.fspath(source)
    return os.fspath(path(text)) if text in names() and not os.path.exists(text) else text


def named_sample(source: str | os.PathLike[str]) -> str:
    """The path of an input: `source`, or the bundled sample of this name unless a file is called so."""
    text = os.fspath(source)
    return os.fspath(sample(text)) if text in samples() and not os.path.exists(text) else text


def sample(name: str) -> Path:
    """Path of the sample input `name`, such as "seven".  ValueError for another name lists the samples."""
    for file in (_HERE / "samples").iterdir():
        if name in (file.stem, file.name):
            return file
    raise ValueError(f"no sample {name!r}; there are {', '.join(samples())}")
