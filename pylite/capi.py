"""Plug-ins made for the C API of TensorFlow Lite: custom ops and delegates in shared libraries."""
import os


def get_include():
    """The folder to give to a C or C++ compiler with -I: it has tensorflow/lite/c/common.h and its kin."""
    return os.path.join(os.path.dirname(__file__), "include")
