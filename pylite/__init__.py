"""Exact, fast and open runtime for TensorFlow Lite models.

Interpreter runs a `.tflite` file, as tf.lite's does; Model is a file that several interpreters share.  custom_op,
CustomOp, load_custom_ops and from_pointers add ops, PythonDelegate and load_delegate take over parts of a graph.

CompiledModel runs a file on TensorBuffers, as LiteRT's does; pylite.compiled_model has them and their options.

pylite.flex: TensorFlow's own ops in models, on request.

pylite.tasks: classifiers, detectors and others by a model's metadata.  pylite.media: pictures, sound, labels.
pylite.validation: a quantized model compared with its float reference.  pylite.schema: reading and writing models.
pylite.errors: all exceptions.  These modules are imported when they are first asked for.
"""
import gc
import importlib
import sys


def _promote(before=""):
    """Move all living objects to the oldest generation: above all numpy's and pylite's modules, which stay.

    Otherwise, the collector would walk over it while pylite is imported, which takes a millisecond or two.  Once the
    module `before`, which is imported next, is there, this does nothing: the program's garbage is to stay young.
    """
    if before not in sys.modules and not gc.get_freeze_count():    # what a program froze stays frozen
        gc.freeze()
        gc.unfreeze()


_promote()

__version__ = "0.1.0"       # the one place that states it: the build reads it here
__distribution__ = "pylite-runtime"     # what pip installs; the distribution `pylite` is another project

from pylite import _core as _core  # noqa: E402  # finds the other modules, and needs the names above

OP_PACKAGES = ["pylite.ops"]    # packages whose modules register ops, for the registry

# Public name -> module that has it, imported when first asked for.
_HOMES = {
    name: home for home, names in {
        "pylite.interpreter": "Interpreter InterpreterWithCustomOps",
        "pylite.compiled_model": "CompiledModel",
        "pylite.tflite.resolver_type": "OpResolverType",
        "pylite.tflite.signature": "SignatureRunner",
        "pylite.plugins.custom": "custom_op unregister",
        "pylite.plugins.python_ops": "CustomOp",
        "pylite.plugins.delegation": "DelegateFlags",
        "pylite.plugins.python_delegates": "PythonDelegate",
        "pylite.plugins.pointers": "from_pointers",
        "pylite.plugins.resolver": "BuiltinOpResolver MutableOpResolver OpResolver",
        "pylite.plugins.delegates": "Delegate load_delegate",
        "pylite.plugins.capi": "get_include load_custom_ops",
        "pylite.runtime.model": "Model",
        "pylite.shim": "install_as",
        "pylite.errors": "AcceleratorError BufferTypeError ComparisonError CompiledModelError DataDependentError "
                         "DelegateError DelegateLibraryError DelegationError ExecutionError FileFormatError "
                         "MemoryLimitError ModelError NoDelegateError NotAllocatedError OpError PluginError "
                         "PyliteError ResizeError SignatureError TensorBufferError TensorError "
                         "UnsupportedOpError ViewError",
    }.items() for name in names.split()
}
_MODULES = "compiled_model", "errors", "flex", "interpreter", "media", "schema", "tasks", "typing", "validation"
__all__ = ["__version__", "get_version", *_HOMES]


def get_version():
    """The version of pylite, such as "0.1.0"."""
    return __version__


class _Later(type(gc)):
    """A module that is imported when one of its names is first asked for."""

    def __getattr__(self, name):
        module = importlib.import_module(self.__name__)
        vars(self).update(vars(module))
        return getattr(module, name)

    def __dir__(self):
        return dir(importlib.import_module(self.__name__))


def __getattr__(name):
    if name == "errors":        # many modules import it, and few programs need it: its classes take long to make
        return globals().setdefault(name, _Later("pylite.errors"))
    if name in _MODULES:
        return importlib.import_module(f"pylite.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'pylite' has no attribute {name!r}", name=name, obj=sys.modules[__name__])
    value = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return value


def __dir__():
    return sorted([*__all__, *_MODULES])
