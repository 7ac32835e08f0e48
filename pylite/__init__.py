"""Exact, fast and open runtime for TensorFlow Lite models."""
