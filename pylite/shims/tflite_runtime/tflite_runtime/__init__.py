"""Stands in for the package tflite_runtime: pylite under its name."""
from pylite import __version__ as __version__
