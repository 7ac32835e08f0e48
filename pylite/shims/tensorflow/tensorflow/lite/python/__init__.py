"""Stands in for tensorflow.lite.python, which has `interpreter`."""
