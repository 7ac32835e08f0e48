"""Pictures, sound and labels from files, and the models that are bundled with pylite.

Its modules are imported when they are first asked for.
"""
import importlib

_MODULES = "audio", "capture", "drawing", "images", "labels", "metadata", "models", "outputs", "tensors", "yolo"


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return importlib.import_module(f"pylite.media.{name}")
    raise AttributeError(f"module 'pylite.media' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*_MODULES]
