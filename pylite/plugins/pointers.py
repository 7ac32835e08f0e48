"""Custom ops behind function pointers: of ctypes, cffi or numba, or in a PyCapsule."""
from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from pylite.errors import PluginError

if TYPE_CHECKING:
    from typing import Any

    from pylite.plugins.host.custom_ops import NativeRegistration

_CUSTOM = 32            # kTfLiteBuiltinCustom


class _Registration(ctypes.Structure):
    """TfLiteRegistration; fields that are not set are zero."""
    _fields_ = [("init", ctypes.c_void_p), ("free", ctypes.c_void_p), ("prepare", ctypes.c_void_p),
                ("invoke", ctypes.c_void_p), ("profiling_string", ctypes.c_void_p), ("builtin_code", ctypes.c_int32),
                ("custom_name", ctypes.c_char_p), ("version", ctypes.c_int), ("registration_external", ctypes.c_void_p),
                ("async_kernel", ctypes.c_void_p), ("inplace_operator", ctypes.c_uint64)]


def from_pointers(name: str, *, invoke: Any, prepare: Any = None, init: Any = None, free: Any = None,
                  version: int = 1) -> NativeRegistration:
    """A custom op from four functions with the signatures of TfLiteRegistration; for `custom_op` and resolvers.

    Each function is an address, a ctypes function, a cffi callback or function pointer, an object with `.address`
    (such as numba's cfunc), a PyCapsule, or None.  They run without the GIL, unless they take it themselves.
    """
    from pylite.plugins.host.custom_ops import NativeRegistration
    functions = {"init": init, "free": free, "prepare": prepare, "invoke": invoke}
    if invoke is None:
        raise TypeError(f"op {name!r} needs an invoke function")
    addresses = {what: address(function, f"{what} of op {name!r}") for what, function in functions.items()}
    for what, at in addresses.items():
        if at is not None and not _is_code(at):
            raise PluginError(f"{what} of op {name!r}: there is no code at the address {at:#x}; pass a function, not "
                              "data or a number")
    registration = _Registration(builtin_code=_CUSTOM, custom_name=name.encode(), version=version, **addresses)
    return NativeRegistration(name, version, registration=ctypes.addressof(registration),
                              references=(registration, functions), library=False)


def address(function: Any, what: str = "function") -> int | None:
    """The address of a function in any form that from_pointers() takes; None for None.

    what: the function's name in the TypeError for another object.
    """
    if function is None:
        return None
    if isinstance(function, int):
        number: int | None = function
    elif isinstance(function, ctypes._CFuncPtr | ctypes.c_void_p):  # type: ignore[attr-defined]
        number = ctypes.cast(function, ctypes.c_void_p).value
    elif type(function).__name__ == "PyCapsule":
        number = _capsule_pointer(function)
    elif isinstance(getattr(function, "address", None), int):
        number = function.address
    elif type(function).__module__ == "_cffi_backend":
        import cffi
        number = int(cffi.FFI().cast("uintptr_t", function))
    else:
        raise TypeError(f"{what}: {function!r} is neither an address, a ctypes or cffi function, nor a PyCapsule")
    if not number:
        raise TypeError(f"{what}: a null pointer; pass None instead")
    return number


def _is_code(at: int) -> bool:
    """Does the address lie in memory that may be executed?  True if the system does not tell."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
            ranges = [line.split()[:2] for line in file]
    except OSError:
        return True
    return any(int(begin, 16) <= at < int(end, 16)
               for (begin, _, end), access in ((r.partition("-"), access) for r, access in ranges) if "x" in access)


def _capsule_pointer(capsule: Any) -> int | None:
    api = ctypes.pythonapi
    name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", api))
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", api))
    return pointer(capsule, name(capsule))
