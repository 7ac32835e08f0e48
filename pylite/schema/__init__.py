"""The .tflite format: a checked reader, and a writer over the flatbuffers package, driven by declarative tables."""
from typing import TYPE_CHECKING

from pylite.schema.loader import load
from pylite.schema.reader import read

if TYPE_CHECKING:
    from typing import Any

    from pylite.schema.writer import write

__all__ = ["load", "read", "write"]


def __getattr__(name: str) -> "Any":
    if name != "write":
        raise AttributeError(f"module 'pylite.schema' has no attribute {name!r}")
    from pylite.schema.writer import write  # imported on demand: running models does not write files
    return write
