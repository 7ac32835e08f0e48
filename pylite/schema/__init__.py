"""The .tflite format: a checked reader, and a writer on the flatbuffers package; declarations.py describes it."""
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
    from pylite.schema.writer import write  # lazy: running models writes no files
    return write
