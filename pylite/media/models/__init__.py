"""Models that pylite brings along, with their labels inside, and sample inputs.

They are made by the scripts in the repository's `examples/training`, which also says how well they do.
"""
from pathlib import Path

_HERE = Path(__file__).parent


def names() -> list[str]:
    """Names of the models, sorted."""
    return sorted(file.stem for file in _HERE.glob("*.tflite"))


def samples() -> list[str]:
    """Names of the sample inputs, sorted."""
    return sorted(file.stem for file in (_HERE / "samples").iterdir())


def path(name: str) -> Path:
    """Path of the model called `name`, say "digits".  Raises ValueError naming those that there are."""
    file = _HERE / f"{name}.tflite"
    if name not in names():
        raise ValueError(f"no model {name!r}; there are {', '.join(names())}")
    return file


def sample(name: str) -> Path:
    """Path of the sample input called `name`, say "seven".  Raises ValueError naming those that there are."""
    for file in (_HERE / "samples").iterdir():
        if name in (file.stem, file.name):
            return file
    raise ValueError(f"no sample {name!r}; there are {', '.join(samples())}")
