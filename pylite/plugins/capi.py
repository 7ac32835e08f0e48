"""Custom ops in shared libraries for TensorFlow Lite's C API, and the headers to compile them with."""
from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pylite.plugins.resolver import registered

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Literal

    from pylite.plugins.host.custom_ops import NativeRegistration


def get_include() -> str:
    """The include folder for a C or C++ compiler's option -I: it has tensorflow/lite/c/common.h and other headers."""
    from pylite._core import simd  # the build makes the headers next to the library of compiled modules
    return os.path.join(os.path.dirname(os.path.dirname(simd.__file__)), "include")


def load_custom_ops(path: str | os.PathLike[str], functions: str | Iterable[str] | Mapping[str, str] | None = None,
                    kind: Literal["classic", "value", "opaque", "registerer"] | None = None,
                    register: bool = True) -> list[NativeRegistration]:
    """Load custom ops from a shared library made for TensorFlow Lite; a list of registrations for add_custom().

    functions: names of functions in the library ("f", or "space::f" in C++), or {name of the op: name of the function};
    by default all functions of kind "registerer" that the library exports.
    kind: of all these functions.  "classic": `const TfLiteRegistration *f(void)`; "value": `TfLiteRegistration
    f(void)`; "opaque": `TfLiteOperator *f(void)` or `TfLiteRegistrationExternal *f(void)`; "registerer": `void
    f(tflite::MutableOpResolver *)`, which adds any number of ops.  By default the kind is detected, but "value", and
    "registerer" for C functions, must be given.
    register: also register the ops for every interpreter created from now on without a resolver of its own.

    Raises OSError if the library cannot be loaded, PluginError (a ValueError) if it is not of this kind.
    """
    from pylite.plugins.host import custom_ops
    ops = custom_ops.load(path, functions, kind)
    if register:
        for op in ops:
            registered.add_custom(op.name, op)
    return ops
