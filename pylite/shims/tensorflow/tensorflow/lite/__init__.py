"""Stands in for tensorflow.lite: its interpreter, and no converter."""
from pylite.interpreter import Interpreter as Interpreter
from pylite.interpreter import OpResolverType, load_delegate


class _Experimental:
    """tensorflow.lite.experimental, as far as it runs models."""
    OpResolverType = OpResolverType
    load_delegate = staticmethod(load_delegate)

    class Analyzer:
        """Prints what `pylite inspect --tensors` prints."""

        @staticmethod
        def analyze(model_path=None, model_content=None, gpu_compatibility=False, **_):
            import tempfile

            from pylite import cli
            if (model_path is None) == (model_content is None):
                raise ValueError("Analyzer.analyze() takes either model_path or model_content")
            with tempfile.NamedTemporaryFile(suffix=".tflite") as file:
                file.write(model_content or b"")
                file.flush()
                if cli.main(["inspect", str(model_path or file.name), "--tensors"]):
                    raise ValueError("the model cannot be read")

    def __getattr__(self, name):
        raise AttributeError(f"pylite's stand-in for tensorflow.lite.experimental has no {name!r}: it runs models")


experimental = _Experimental()


def __getattr__(name):
    raise AttributeError(f"pylite's stand-in for tensorflow.lite has no {name!r}: it runs models, and TensorFlow "
                         "itself converts them")
