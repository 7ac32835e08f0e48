"""Stands in for tensorflow.lite: its interpreter, and no converter."""
from pylite.interpreter import Interpreter as Interpreter
from pylite.interpreter import OpResolverType, load_delegate


class _Experimental:
    """tensorflow.lite.experimental, as far as it runs models."""
    OpResolverType = OpResolverType
    load_delegate = staticmethod(load_delegate)

    def __getattr__(self, name):
        raise AttributeError(f"pylite's stand-in for tensorflow.lite.experimental has no {name!r}"
                             + (": `pylite inspect MODEL` shows what a model consists of" if name == "Analyzer" else
                                ": it runs models"))


experimental = _Experimental()


def __getattr__(name):
    raise AttributeError(f"pylite's stand-in for tensorflow.lite has no {name!r}: it runs models, and TensorFlow "
                         "itself converts them")
