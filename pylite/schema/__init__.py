"""The .tflite format: a checked reader and a writer over the flatbuffers package, driven by declarative tables."""
from pylite.schema.loader import load
from pylite.schema.reader import read

__all__ = ["load", "read"]
