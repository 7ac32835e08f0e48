"""The .tflite format: a checked reader and a writer over the flatbuffers package, driven by declarative tables."""
from pylite.schema.loader import load
from pylite.schema.reader import read
from pylite.schema.writer import write

__all__ = ["load", "read", "write"]
