"""Stands in for the package tflite_runtime: pylite under its name."""
__version__ = "2.21.0"      # TensorFlow's, whose interface it has; programs compare it
__git_version__ = "v2.21.0"
