"""Stands in for tensorflow.lite: its interpreter, and no converter."""
from types import SimpleNamespace

from pylite.interpreter import Interpreter as Interpreter
from pylite.interpreter import OpResolverType, load_delegate

experimental = SimpleNamespace(OpResolverType=OpResolverType, load_delegate=load_delegate)


def __getattr__(name):
    raise AttributeError(f"pylite's stand-in for tensorflow.lite has no {name!r}: it runs models, and TensorFlow "
                         "itself converts them")
