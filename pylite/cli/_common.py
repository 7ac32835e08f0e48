"""Shared by several commands: arguments, and finding models and samples."""
import os


class UsageError(Exception):
    """An argument or a file is wrong; the message says which and why."""


def model_path(text):
    """The path that `text` names: a file, or the short name of a bundled model."""
    return _bundled(text, "path")


def input_path(text):
    """The path that `text` names: a file, or the short name of a bundled sample."""
    return _bundled(text, "sample")


def _bundled(text, kind):
    if os.path.exists(text) or os.sep in text or "." in text:
        return text
    from pylite.media import models
    try:
        return os.fspath(getattr(models, kind)(text))
    except ValueError as error:
        raise UsageError(f"{text}: no such file, and {error}") from None


def positive(text):
    """`text` as an integer of at least 1; for argparse."""
    value = int(text)
    if value < 1:
        raise ValueError
    return value


def not_negative(text):
    """`text` as an integer of at least 0; for argparse."""
    value = int(text)
    if value < 0:
        raise ValueError
    return value


def add_model(parser):
    parser.add_argument("model", metavar="MODEL", help="a .tflite file, or the name of a bundled model")
