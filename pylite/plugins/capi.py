"""Plug-ins made for the C API of TensorFlow Lite: custom ops and delegates in shared libraries."""
import os

from pylite.plugins.resolver import registered


def get_include():
    """The folder to give to a C or C++ compiler with -I: it has tensorflow/lite/c/common.h and its kin."""
    from pylite._core import arena  # the build makes the headers beside the library of compiled modules
    return os.path.join(os.path.dirname(os.path.dirname(arena.__file__)), "include")


def load_custom_ops(path, functions=None, kind=None, register=True):
    """Custom ops from a shared library made for TensorFlow Lite; the list of what can be added to a resolver.

    functions: names of functions in the library ("f", or "space::f" of C++), or {name of the op: name of the function};
    by default all that the library exports of kind "registerer".
    kind: what they are, for all of them: "classic": `const TfLiteRegistration *f(void)`; "value": `TfLiteRegistration
    f(void)`; "opaque": `TfLiteOperator *f(void)` or `TfLiteRegistrationExternal *f(void)`; "registerer": `void
    f(tflite::MutableOpResolver *)`, which adds as many ops as it likes.  By default this is found out; "value", and
    "registerer" for functions of C, must be said.
    register: also make them known to every interpreter created from now on without a resolver of its own.

    Raises OSError when the library cannot be loaded, PluginError (a ValueError) when it is not of this kind.
    """
    from pylite.plugins.host import custom_ops
    ops = custom_ops.load(path, functions, kind)
    if register:
        for op in ops:
            registered.add_custom(op.name, op)
    return ops
