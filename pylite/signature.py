"""Running a model by the names of its signature."""
from pylite.tflite.signature import SignatureRunner

__all__ = ["SignatureRunner"]
