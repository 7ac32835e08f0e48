"""What several commands share: finding and loading the model."""
import os


class UsageError(Exception):
    """The caller's arguments or files do not fit; the message says which and how."""


def model_path(text):
    """The path that `text` names: a file, or the short name of a bundled model."""
    if os.path.exists(text) or os.sep in text or "." in text:
        return text
    from pylite import models
    try:
        return models.path(text)
    except ValueError as error:
        raise UsageError(f"{text}: neither a file nor a bundled model ({error})") from None


def input_path(text):
    """The path that `text` names: a file, or the short name of a bundled sample."""
    if os.path.exists(text) or os.sep in text or "." in text:
        return text
    from pylite import models
    try:
        return os.fspath(models.sample(text))
    except ValueError as error:
        raise UsageError(f"{text}: neither a file nor a bundled sample ({error})") from None


def add_model(parser):
    parser.add_argument("model", metavar="MODEL", help="a .tflite file, or the name of a bundled model")
